//! DSH without its page, `dsh --profile headless`. A patch that is written for each run pins the model, keeps
//! its session records with the run and mounts a reporter of its use, whose notes survive every signal.

use devloop_core::report::{Usage, UsageSource};
use devloop_core::units::{Tokens, WallMs};
use serde::Deserialize;
use serde_json::json;

use super::adapter::{Adapter, Answer, Channel, Layout, Places, Said, Seen, Var, When, Words};
use super::fault::{Fault, Found};
use super::login::Login;
use super::runner::{copy, quoted, read_text, write};
use crate::process::StopPlan;

const REPORTER: &str = include_str!("../../../../templates/dsh/usage-reporter.mjs");
/// The largest report of use that is read, in bytes.
const REPORT_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Tools that outlive a single run or ask somebody who is not there.
const DENIED: &[&str] = &[
    "subagent",
    "subagent_fork",
    "send_message",
    "interrupt_agent",
    "workflow",
    "ralph",
    "create_goal",
    "update_goal",
    "ask_user_question",
    "exit_plan_mode",
    "schedule_create",
];
/// Tools that write files; a read-only sandbox holds for the shell.
const WRITERS: &[&str] = &["write", "edit", "str_replace_editor"];

/// The adapter. The launcher eats one `--`, so there are two.
pub(super) const ADAPTER: Adapter = Adapter {
    name: "dsh",
    words: &[
        Words(When::Always, &["--profile", "headless", "--patch", "{patch}"]),
        Words(When::Always, &["{args}"]),
        Words(When::Always, &["--", "--", "{prompt}"]),
    ],
    env: &[
        Var(When::Always, "DSH_HOME", "{config}"),
        Var(When::Always, "DSH_TELEMETRY_DISABLED", "1"),
        Var(When::Reads, "DSH_PERMISSION_MODE", "read-only"),
    ],
    inherit: &["DEEPSEEK_BASE_URL"],
    login: Login { vars: &[("DEEPSEEK_API_KEY", "DEEPSEEK_API_KEY")], file: None },
    prompt: Channel::Word,
    output_max_bytes: 8 * 1024 * 1024,
    // It ends with exit code 0 after a terminate; the runner remembers that it asked.
    stop: StopPlan { interrupt_ms: 3_000, terminate_ms: 3_000 },
    lay_out,
    talk: None,
    read,
    recorded,
    resumes: &[],
    // Its read-only mode is its own sandbox's, which not every machine has.
    repairs: false,
};

/// DSH's own name for the provider of its own models.
const OWN_PROVIDER: &str = "deepseek-official";

fn lay_out(layout: &Layout<'_>) -> Result<(), String> {
    let places = layout.places;
    write(&places.plugin, REPORTER.as_bytes())?;
    let own = matches!(layout.provider, "dsh" | "deepseek");
    let provider = if own { OWN_PROVIDER } else { layout.provider };
    // Providers of the user's own stand in DSH's settings.
    if let (false, Some(home)) = (own, &layout.dsh_home) {
        copy(&home.join("settings.yaml"), &places.config.join("settings.yaml"))?;
    }
    let denied: Vec<&str> = DENIED.iter().chain(WRITERS.iter().filter(|_| layout.reads)).copied().collect();
    let reporter = json!({ "out": places.report, "deny": denied, "maxOutputTokens": layout.max_tokens });
    // Instructions and skills of the worktree: a reviewer would be told by the change what to say of it.
    let unheard = ["session-title-llm", "agent-instructions", "skill-filesystem", "tool-skill"];
    let mut rows: Vec<_> = unheard.iter().map(|id| json!({ "id": id, "disabled": true })).collect();
    rows.extend([
        json!({ "id": "session-persistence-jsonl",
                "config": { "root": places.config.join("sessions"), "compression": "none" } }),
        json!({ "insert": [{ "id": "devloop-usage-reporter", "name": places.plugin, "config": reporter }] }),
    ]);
    if let Some(model) = layout.model {
        let config = json!({ "provider": provider, "model": model });
        rows.push(json!({ "id": "agent-default-model", "config": config }));
    }
    // Every JSON document is a YAML document.
    write(&places.patch, serde_json::Value::from(rows).to_string().as_bytes())
}

/// Its codes on standard error, `dsh: CODE: message`.
const CODES: &[(&str, Fault)] = &[
    ("AUTH", Fault::LoginExpired),
    ("QUOTA", Fault::OutOfCredit),
    ("RATE_LIMIT", Fault::RateLimited),
    ("SERVER", Fault::Overloaded),
    ("TRANSPORT", Fault::NetworkDown),
    ("CONTEXT_WINDOW_EXCEEDED", Fault::ContextTooLong),
    ("CONTENT_FILTER", Fault::ContentRefused),
];

fn read(seen: &Seen<'_>) -> Answer {
    let text = seen.stdout.text();
    if seen.code == Some(0) {
        return Said::Text(text).with(None);
    }
    let told = seen.stderr.lines().rev().find_map(|line| line.strip_prefix("dsh: ")?.split_once(": "));
    let said = match told {
        Some((code, words)) => failure(code, words, None, seen.now),
        // It says nothing when the model ran into its limit.
        None if seen.stderr.is_empty() && seen.code == Some(1) => {
            Said::Fault(Found::known(Fault::OutputLimit, quoted(&text)))
        }
        None => Said::Refused(quoted(seen.stderr)),
    };
    said.with(None)
}

/// A failure of DSH by its code and words, with the provider's HTTP status where it is known.
pub(super) fn failure(code: &str, words: &str, status: Option<u16>, now: WallMs) -> Said {
    match code {
        "MISSING_CREDENTIAL" | "NO_ADAPTER" => Said::Refused(quoted(words)),
        code => Said::Fault(match CODES.iter().find(|(known, _)| *known == code) {
            Some((_, fault)) => Found::told(*fault, words, now),
            None => Found::of(words, status, now),
        }),
    }
}

/// One line of the reporter.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    usage: Option<CallUsage>,
}

/// What DSH says of one model call. Input is what no cache served, output includes reasoning.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    cache_read_tokens: u64,
    #[serde(default)]
    cache_write_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    reasoning_tokens: u64,
}

impl CallUsage {
    /// A sum with this call.
    pub fn added_to(&self, sum: Tokens) -> Tokens {
        let add = |sum: u64, more: u64| sum.saturating_add(more);
        Tokens {
            input_uncached: add(sum.input_uncached, self.input_tokens),
            cache_read: add(sum.cache_read, self.cache_read_tokens),
            cache_write: add(sum.cache_write, self.cache_write_tokens),
            output: add(sum.output, self.output_tokens),
            reasoning: add(sum.reasoning, self.reasoning_tokens),
        }
    }
}

/// Every model call of the process, as its reporter noted it. Calls that ended without a word about their use
/// count for nothing: none of them is known to be billed.
fn recorded(places: &Places) -> Option<Usage> {
    let text = read_text(&places.report, REPORT_MAX_BYTES)?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let calls: Vec<CallUsage> =
        lines.filter(|line| line.kind == "call").filter_map(|line| line.usage).collect();
    if calls.is_empty() {
        return None;
    }
    let tokens = calls.iter().fold(Tokens::default(), |sum, used| used.added_to(sum));
    Some(Usage::per_dispatch(UsageSource::SessionRecords, tokens, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::adapter::meaning;

    /// What it printed on both streams when the server answered so, version 0.1.0-rc.8.
    const OUTPUTS: &[(&str, &str, i32, &str)] = &[
        ("done\n", "", 0, "text done\n; unknown"),
        ("\n", "dsh: AUTH: Authentication Fails (invalid key)\n", 1, "LoginExpired; free"),
        ("\n", "dsh: QUOTA: Insufficient Balance\n", 1, "OutOfCredit; free"),
        ("\n", "dsh: RATE_LIMIT: Rate limit reached\n", 1, "RateLimited; free"),
        ("\n", "dsh: RATE_LIMIT: slow down, try again in 20s\n", 1, "RateLimited with its reset; free"),
        ("\n", "dsh: SERVER: Service overloaded\n", 1, "Overloaded; free"),
        ("\n", "dsh: TRANSPORT: DeepSeek API request to http://127.0.0.1:9 failed\n", 1, "NetworkDown; free"),
        (
            "\n",
            "dsh: CONTEXT_WINDOW_EXCEEDED: This model's maximum context length is 131072 tokens.\n",
            1,
            "ContextTooLong; unknown",
        ),
        ("\n", "dsh: CONTENT_FILTER: model stopped: content_filter\n", 1, "ContentRefused; unknown"),
        ("half\n", "", 1, "OutputLimit; unknown"),
        (
            "\n",
            "dsh: UNKNOWN: max-tokens: the output budget of 9 tokens is spent\n",
            1,
            "OutputLimit; unknown",
        ),
        ("\n", "dsh: MISSING_CREDENTIAL: llm-deepseek: no API key for it\n", 1, "refused"),
        ("\n", "dsh: NO_ADAPTER: no adapter registered for provider \"x\"\n", 1, "refused"),
        ("", "error: unknown option '--patch'\n", 1, "refused"),
    ];

    #[test]
    fn recorded_outputs_have_their_meaning() {
        for (stdout, stderr, code, expect) in OUTPUTS {
            assert_eq!(meaning(&ADAPTER, stdout, stderr.trim(), *code), *expect, "{stderr}");
        }
    }

    #[test]
    fn the_report_counts_every_call_that_says_what_it_used() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        assert_eq!(recorded(&places), None);
        let text = "{\"type\":\"call\",\"model\":\"deepseek-flash\",\"usage\":{\"inputTokens\":1000,\
                    \"outputTokens\":40,\
                    \"cacheReadTokens\":200,\"reasoningTokens\":7}}\n{\"type\":\"call\",\"usage\":null}\n\
                    {\"type\":\"call\",\"usage\":{\"inputTokens\":1,\"outputTokens\":2}}\n\
                    {\"type\":\"turn\",\"origin\":null,\"reason\":{\"kind\":\"completed\"}}\n{\"type\":\"ca";
        std::fs::write(&places.report, text).unwrap();
        let tokens =
            Tokens { input_uncached: 1001, cache_read: 200, cache_write: 0, output: 42, reasoning: 7 };
        assert_eq!(recorded(&places), Some(Usage::per_dispatch(UsageSource::SessionRecords, tokens, None)));
    }

    #[test]
    fn the_patch_pins_the_model_and_takes_the_writers_from_readers() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let patch = |reads| {
            let layout = Layout {
                places: &places,
                model: Some("deepseek-flash"),
                provider: "dsh",
                max_tokens: Some(9_000),
                reads,
                dsh_home: None,
            };
            lay_out(&layout).unwrap();
            std::fs::read_to_string(&places.patch).unwrap()
        };
        let (writes, reads) = (patch(false), patch(true));
        for text in [&writes, &reads] {
            assert!(text.contains(r#"{"model":"deepseek-flash","provider":"deepseek-official"}"#), "{text}");
            assert!(text.contains("\"subagent\"") && text.contains("\"maxOutputTokens\":9000"), "{text}");
        }
        assert!(reads.contains("\"write\"") && !writes.contains("\"write\""));
        assert_eq!(std::fs::read_to_string(&places.plugin).unwrap(), REPORTER);
    }
}
