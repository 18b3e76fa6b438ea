//! Command lines as workers: what they are given, what is kept from them, and what becomes of every way in
//! which one can misbehave. The programs are shell scripts of the test.

use std::ffi::OsString;
use std::fs;

use devloop_core::effect::{Contract, Start};
use devloop_core::policy::Backend;
use devloop_core::report::{FailureClass, Outcome, Report};
use devloop_core::units::{Tokens, UsdMicros};
use devloop_host::backend::Surroundings;
use devloop_wire::config_doc::AdapterConfig;
use serde_json::json;

use crate::ground::{Ground, key, route, work_job};

const LIMIT_MS: u64 = 60_000;

/// A project whose route `own` starts `/bin/sh -c <script>` as the given backend.
fn ground(backend: Backend, script: &str, vars: &[(&str, &str)]) -> Ground {
    let argv = ["/bin/sh", "-c", script, "sh"].map(str::to_owned).to_vec();
    let vars: Vec<(OsString, OsString)> =
        vars.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Ground::with(&json!([]), |config| {
        config.routes.insert(key("own"), route(backend, "vendor/model-1"));
        let env = vec!["WANTED".to_owned()];
        config.adapters.insert(backend, AdapterConfig { argv, args: Vec::new(), env });
        let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
        config.around = Surroundings::of(vars.into_iter().chain(path));
    })
}

fn work(ground: &Ground, contract: &Contract, limit_ms: u64) -> Report {
    let job = work_job(&contract, Start::Fresh);
    ground.report(ground.dispatch("own", limit_ms, job))
}

fn command(script: &str, limit_ms: u64) -> Outcome {
    let ground = ground(Backend::Command, script, &[]);
    let contract = ground.contract("t", &["src/**"]);
    work(&ground, &contract, limit_ms).outcome
}

const DONE: &str = concat!(
    r#"<devloop_result>{"version":1,"kind":"implementation","taskId":"t","#,
    r#""outcome":"completed","summary":"ok"}"#
);

fn said(text: &str) -> String {
    format!("cat >/dev/null; printf '%s\n' '{text}'")
}

#[test]
fn a_command_reads_its_prompt_works_and_prints_an_envelope() {
    let script = format!(
        "cat > src/prompt.txt; env > src/env.txt; pwd > src/pwd.txt; printf '%s</devloop_result>' '{DONE}'"
    );
    let vars = [
        ("GH_TOKEN", "secret"),
        ("ANTHROPIC_API_KEY", "secret"),
        ("OPENAI_API_KEY", "secret"),
        ("WANTED", "yes"),
        ("UNWANTED", "no"),
        ("LANG", "C"),
    ];
    let ground = ground(Backend::Command, &script, &vars);
    let contract = ground.contract("t", &["src/**"]);
    let report = work(&ground, &contract, LIMIT_MS);
    assert_eq!(report.outcome, Outcome::Worked { summary: "ok".into() });
    assert_eq!(report.usage, None);
    let tree = ground.root.join(format!(".devloop/worktrees/{}", report.dispatch));
    let read = |name: &str| fs::read_to_string(tree.join("src").join(name)).unwrap();
    assert!(read("prompt.txt").contains("You work on one task"));
    assert_eq!(read("pwd.txt").trim(), tree.to_string_lossy());
    let env = read("env.txt");
    let has = |line: &str| env.lines().any(|l| l == line);
    assert!(has("WANTED=yes") && has("LANG=C") && has("DEVLOOP_ROLE=work") && has("DEVLOOP_TASK=t"), "{env}");
    assert!(has("DEVLOOP_MODEL=model-1"), "{env}");
    assert!(!env.contains("secret") && !env.contains("UNWANTED"), "{env}");
    let home = env.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    assert!(!std::path::Path::new(home).exists(), "the private home goes with the run");
}

#[test]
fn a_prompt_file_takes_the_place_of_standard_input() {
    let script = format!(
        "test -z \"$(cat)\" && grep -q 'You work on one task' \"$1\" && printf '%s</devloop_result>' '{DONE}'"
    );
    let ground = Ground::with(&json!([]), |config| {
        config.routes.insert(key("own"), route(Backend::Command, "vendor/model-1"));
        let argv = ["/bin/sh", "-c", &script, "sh", "{prompt_file}"].map(str::to_owned).to_vec();
        let adapter = AdapterConfig { argv, ..AdapterConfig::default() };
        config.adapters.insert(Backend::Command, adapter);
    });
    let contract = ground.contract("t", &["src/**"]);
    assert_eq!(work(&ground, &contract, LIMIT_MS).outcome, Outcome::Worked { summary: "ok".into() });
}

/// A program that is not what it should be is never taken for a result.
#[test]
fn every_misbehaviour_has_its_end() {
    let no_result = |script: &str| match command(script, LIMIT_MS) {
        Outcome::NoResult { .. } => "none".to_owned(),
        Outcome::InvalidResult { detail } => detail,
        other => panic!("{script}: {other:?}"),
    };
    assert_eq!(no_result("true"), "none");
    assert_eq!(no_result(&said("all done, trust me")), "none");
    assert_eq!(no_result("head -c 100000 /dev/urandom"), "none");
    assert!(no_result(&said(DONE)).contains("no whole JSON object"));
    let other = DONE.replace("\"t\"", "\"u\"");
    let two = format!("{DONE}</devloop_result>\n{other}</devloop_result>");
    assert!(no_result(&said(&two)).contains("2 different"));
    assert!(no_result(&said(&format!("{other}</devloop_result>"))).contains("names task \"u\""));
    let plan = r#"<devloop_result>{"version":1,"kind":"plan","tasks":[]}</devloop_result>"#;
    assert!(no_result(&said(plan)).contains("kind implementation was expected"));
    // A whole envelope behind 100 MB: what was left out could have held another.
    let flood = format!("head -c 100000000 /dev/zero; {}", said(&format!("\n{DONE}</devloop_result>")));
    let detail = no_result(&flood);
    assert!(detail.contains("more than the 8388608 that are read"), "{detail}");
}

#[test]
fn a_half_envelope_that_hangs_ends_at_its_deadline() {
    let script = format!("printf '%s' '{}'; while :; do sleep 1; done", &DONE[..40]);
    match command(&script, 700) {
        Outcome::Failed { class: FailureClass::Deadline, .. } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn exit_codes_say_whose_fault_it_was() {
    let class = |script: &str| match command(script, LIMIT_MS) {
        Outcome::Failed { class, .. } => format!("{class:?}"),
        Outcome::Refused { detail } => format!("refused: {detail}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(class("exit 1"), "Machine");
    assert_eq!(class("exit 69"), "Overloaded");
    assert_eq!(class("exit 77"), "LoginExpired");
    assert_eq!(class("echo unconfigured >&2; exit 78"), "refused: exit code 78: unconfigured");
    assert_eq!(class("kill -KILL $$"), "Machine");
    assert_eq!(
        class("exec no-such-program-here 2>/dev/null"),
        "refused: it ended with exit code 127 and said nothing on standard error"
    );
}

#[test]
fn a_program_that_is_not_there_is_a_refusal_with_the_way_out() {
    let ground = Ground::with(&json!([]), |config| {
        config.routes.insert(key("own"), route(Backend::Claude, "claude/opus"));
        config.around =
            Surroundings::of([("PATH".into(), "/nowhere".into()), ("ANTHROPIC_API_KEY".into(), "k".into())]);
    });
    let contract = ground.contract("t", &["src/**"]);
    match work(&ground, &contract, LIMIT_MS).outcome {
        Outcome::Refused { detail } => {
            assert_eq!(detail, "program claude was not found; install it or name it under claude.argv");
        }
        other => panic!("{other:?}"),
    }
}

/// A claude of the test: it notes its words and variables, and prints the result whose text is given.
fn claude(first: &str, second: &str) -> String {
    let object = |text: &str| {
        json!({ "type": "result", "subtype": "success", "is_error": false, "result": text,
                "terminal_reason": "completed", "total_cost_usd": 0.25,
                "modelUsage": { "m": { "inputTokens": 10, "outputTokens": 1, "costBasis": "list" } } })
    };
    let quoted = |text: &str| shlex_quote(&object(text).to_string());
    format!(
        "n=$(ls src | grep -c words); printf '%s\\n' \"$@\" > src/words-$n; cat > src/stdin-$n; \
         env > src/env-$n; ls -A \"$CLAUDE_CONFIG_DIR\" > src/config-$n; \
         if [ $n = 0 ]; then printf %s {}; else printf %s {}; fi",
        quoted(first),
        quoted(second)
    )
}

fn shlex_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[test]
fn a_result_that_misses_the_form_is_asked_for_once_more_read_only_and_both_are_billed() {
    let whole = format!("{DONE}</devloop_result>");
    let vars =
        [("ANTHROPIC_API_KEY", "key-of-claude"), ("CODEX_API_KEY", "foreign"), ("GH_TOKEN", "foreign")];
    let ground = ground(Backend::Claude, &claude(DONE, &whole), &vars);
    let contract = ground.contract("t", &["src/**"]);
    let report = work(&ground, &contract, LIMIT_MS);
    assert_eq!(report.outcome, Outcome::Worked { summary: "ok".into() });
    let usage = report.usage.unwrap();
    assert_eq!(usage.cost, Some(UsdMicros(500_000)));
    assert_eq!(usage.tokens, Tokens { input_uncached: 20, output: 2, ..Tokens::default() });
    let tree = ground.root.join(format!(".devloop/worktrees/{}/src", report.dispatch));
    let read = |name: &str| fs::read_to_string(tree.join(name)).unwrap();
    let (first, second) = (read("words-0"), read("words-1"));
    assert!(
        first.contains("acceptEdits") && first.contains("--setting-sources\n\n--strict-mcp-config"),
        "{first}"
    );
    assert!(!second.contains("acceptEdits") && second.contains("Read,Glob,Grep\n"), "{second}");
    assert!(second.contains("--json-schema") && first.contains("--model\nmodel-1\n"));
    assert!(read("stdin-1").contains("Mend its form and nothing else"));
    let env = read("env-0");
    assert!(env.contains("ANTHROPIC_API_KEY=key-of-claude") && !env.contains("foreign"), "{env}");
    assert!(env.contains("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1"));
    assert_eq!(read("config-0"), "", "its config home holds nothing but its login");
}

#[test]
fn a_repair_that_fails_is_an_invalid_result_and_a_missing_envelope_is_not_repaired() {
    let vars = [("ANTHROPIC_API_KEY", "k")];
    let outcome = |first: &str, second: &str| {
        let ground = ground(Backend::Claude, &claude(first, second), &vars);
        let contract = ground.contract("t", &["src/**"]);
        let report = work(&ground, &contract, LIMIT_MS);
        (report.outcome, report.usage.unwrap().cost.unwrap().0)
    };
    for second in ["sorry", DONE] {
        let (outcome, cost) = outcome(DONE, second);
        assert!(matches!(outcome, Outcome::InvalidResult { .. }), "{outcome:?}");
        assert_eq!(cost, 500_000);
    }
    let (outcome, cost) = outcome("I did it", "never asked");
    assert!(matches!(outcome, Outcome::NoResult { .. }), "{outcome:?}");
    assert_eq!(cost, 250_000);
}

#[test]
fn a_login_is_copied_from_where_the_user_keeps_it() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".claude")).unwrap();
    fs::write(home.path().join(".claude/.credentials.json"), "{\"token\":1}").unwrap();
    fs::write(home.path().join(".claude/settings.json"), "{}").unwrap();
    let vars = [("HOME", home.path().to_str().unwrap())];
    let whole = format!("{DONE}</devloop_result>");
    let ground = ground(Backend::Claude, &claude(&whole, ""), &vars);
    let contract = ground.contract("t", &["src/**"]);
    let report = work(&ground, &contract, LIMIT_MS);
    assert_eq!(report.outcome, Outcome::Worked { summary: "ok".into() });
    let tree = ground.root.join(format!(".devloop/worktrees/{}/src", report.dispatch));
    assert_eq!(fs::read_to_string(tree.join("config-0")).unwrap(), ".credentials.json\n");
}

/// What a program is given in secret it may print; nothing of it is kept.
#[test]
fn a_secret_of_a_run_is_in_no_argument_and_in_nothing_that_is_kept() {
    const SECRET: &str = "s3cr3t-0123456789abcdef";
    let envelope = DONE.replace("\"ok\"", "\"it is $WANTED\"");
    let quoted = envelope.replace('"', "\\\"");
    let worked = format!(
        "cat >/dev/null; tr '\\0' ' ' </proc/$$/cmdline >src/words; echo \"{quoted}</devloop_result>\""
    );
    let failed = "cat >/dev/null; echo \"refused: $WANTED\"; echo \"key $WANTED\" >&2; exit 9".to_owned();
    let broken = "cat >/dev/null; echo \"<devloop_result>{$WANTED</devloop_result>\"".to_owned();
    for (script, words) in [(worked, true), (failed, false), (broken, false)] {
        let ground = ground(Backend::Command, &script, &[("WANTED", SECRET)]);
        let contract = ground.contract("t", &["src/**"]);
        let report = work(&ground, &contract, LIMIT_MS);
        let told = format!("{:?}", report.outcome);
        assert!(!told.contains(SECRET), "{told}");
        assert!(!words || told.contains("it is ***"), "{told}");
        let tree = ground.root.join(format!(".devloop/worktrees/{}", report.dispatch));
        if words {
            let argv = fs::read_to_string(tree.join("src/words")).unwrap();
            assert!(argv.contains("/bin/sh") && !argv.contains(SECRET), "{argv}");
        }
        let mut open = vec![ground.root.join(".devloop")];
        while let Some(path) = open.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if meta.is_file() {
                let kept = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                assert!(!kept.contains(SECRET), "{} holds it", path.display());
            }
        }
    }
}

/// An agent of the test that speaks the protocol; it answers each request by its place.
fn agent(asks: &str, ends: &str) -> String {
    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"codex-acp"}}}"#
            .to_owned(),
        r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}"#.to_owned(),
    ];
    let update = |text: &str| {
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s1", "update": {
            "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } } } })
        .to_string()
    };
    let cost = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s1",
        "update": { "sessionUpdate": "usage_update", "cost": { "amount": 0.0425, "currency": "USD" } } } });
    let (first, second) = DONE.split_at(60);
    let say = |text: &str| format!("printf '%s\\n' {}", shlex_quote(text));
    format!(
        "read a; printf '%s\\n' \"$a\" > src/initialize; {}; read a; printf '%s\\n' \"$a\" > src/new; {}; \
         read a; printf '%s\\n' \"$a\" > src/prompt; echo noise; {}; {}; {}; {asks} {ends}",
        say(&lines[0]),
        say(&lines[1]),
        say(&update(first)),
        say(&update(&format!("{second}</devloop_result>"))),
        say(&cost.to_string()),
    )
}

const TURN_ENDED: &str = concat!(
    r#"printf '%s
' '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","#,
    r#""usage":{"inputTokens":30,"outputTokens":4,"cachedReadTokens":5}}}'"#
);

fn with_agent(script: &str, limit_ms: u64) -> (Ground, Report) {
    let ground = ground(Backend::Acp, script, &[]);
    let contract = ground.contract("t", &["src/**"]);
    let report = work(&ground, &contract, limit_ms);
    (ground, report)
}

#[test]
fn an_agent_is_greeted_asked_and_left_when_its_turn_is_over() {
    let asks = concat!(
        r#"printf '%s
' '{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"options":["#,
        r#"{"optionId":"no","kind":"reject_once"},{"optionId":"yes","kind":"allow_once"}]}}'; "#,
        r#"read a; printf '%s
' "$a" > src/permission; "#,
        r#"printf '%s
' '{"jsonrpc":"2.0","id":10,"method":"fs/read_text_file","params":{}}'; "#,
        r#"read a; printf '%s
' "$a" > src/file;"#
    );
    // It stays when its input is closed, as some do.
    let (ground, report) = with_agent(&agent(asks, &format!("{TURN_ENDED}; exec sleep 600")), LIMIT_MS);
    assert_eq!(report.outcome, Outcome::Worked { summary: "ok".into() });
    let usage = report.usage.unwrap();
    assert_eq!(usage.cost, Some(UsdMicros(42_500)));
    assert_eq!(usage.tokens, Tokens { input_uncached: 30, cache_read: 5, output: 4, ..Tokens::default() });
    let tree = ground.root.join(format!(".devloop/worktrees/{}/src", report.dispatch));
    let read = |name: &str| fs::read_to_string(tree.join(name)).unwrap();
    assert!(read("initialize").contains("\"protocolVersion\":1"));
    assert!(
        read("new").contains("\"mcpServers\":[]")
            && read("new").contains(report.dispatch.to_string().as_str())
    );
    assert!(read("prompt").contains("You work on one task"));
    assert!(read("permission").contains("\"optionId\":\"yes\""));
    assert!(read("file").contains("-32601"));
}

#[test]
fn an_agent_that_fails_hangs_or_says_nothing_has_its_end() {
    let outcome = |script: &str, limit_ms| with_agent(script, limit_ms).1.outcome;
    let error = concat!(
        r#"printf '%s
' '{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"#,
        r#""message":"Authentication required"}}'"#
    );
    match outcome(&agent("", error), LIMIT_MS) {
        Outcome::Failed { class: FailureClass::LoginExpired, .. } => {}
        other => panic!("{other:?}"),
    }
    match outcome(&agent("", "exec sleep 600"), 1_500) {
        Outcome::Failed { class: FailureClass::Deadline, .. } => {}
        other => panic!("{other:?}"),
    }
    match outcome(&agent("", "exit 0"), LIMIT_MS) {
        Outcome::Failed { class: FailureClass::Machine, detail } => {
            assert!(detail.contains("it ended"), "{detail}")
        }
        other => panic!("{other:?}"),
    }
    match outcome("exit 3", LIMIT_MS) {
        Outcome::Refused { detail } => assert!(detail.contains("before a prompt was sent"), "{detail}"),
        other => panic!("{other:?}"),
    }
    let stop = r#"printf '%s\n' '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"max_tokens"}}'"#;
    match outcome(&agent("", stop), LIMIT_MS) {
        Outcome::Failed { class: FailureClass::OutputLimit, detail } => {
            assert!(detail.contains("output limit"), "{detail}")
        }
        other => panic!("{other:?}"),
    }
}
