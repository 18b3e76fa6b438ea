//! What `status` answers and exits with in each state of a loop, and that reading changes nothing.

use std::fs;

use crate::support::{Bench, PROGRAM, everything};

#[test]
fn noop_shows_what_it_would_do_and_writes_only_its_folder() {
    let bench = Bench::new();
    let root = bench.armed("r");
    let outside = |all: std::collections::BTreeMap<_, _>| -> Vec<_> {
        all.into_iter()
            .filter(|(path, _): &(std::path::PathBuf, String)| !path.starts_with(root.join(".devloop")))
            .collect()
    };
    let before = outside(everything(&root));
    let run = bench.devloop(&["run", root.to_str().unwrap(), "--until-idle"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("is noop; it would plan the goal"), "{}", run.out);
    assert_eq!(outside(everything(&root)), before);
    let (code, view) = bench.status(&root);
    assert_eq!((code, view["reason"].as_str()), (0, Some("noop_backend")));
}

#[test]
fn a_loop_that_never_ran_has_a_status() {
    let bench = Bench::new();
    let root = bench.armed("r");
    let before = everything(&root);
    let ran = bench.verb("status", &root);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("revision 0"), "{}", ran.out);
    assert_eq!(everything(&root), before, "status writes nothing");
    assert_eq!(bench.verb("replay", &root).code, 1, "there is nothing to replay");
}

#[test]
fn where_the_limits_come_from_is_said() {
    let bench = Bench::new();
    let root = bench.armed("r");
    assert!(bench.verb("status", &root).out.contains("(profile budgets)"));
    fs::remove_file(root.join(".devloop/config.json")).unwrap();
    assert!(bench.verb("status", &root).out.contains("(default budgets)"));
}

#[test]
fn paused_exits_with_1_until_resumed() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let paused = bench.verb("pause", &root);
    assert_eq!(paused.code, 0, "{paused:?}");
    assert!(paused.out.contains("still runs: nothing"), "{}", paused.out);
    let (code, view) = bench.status(&root);
    assert_eq!((code, view["phase"].as_str()), (1, Some("paused")));
    let again = bench.verb("pause", &root);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("paused already"));
    let resumed = bench.verb("resume", &root);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert!(resumed.out.contains(&format!("{PROGRAM} run {}", root.display())), "{}", resumed.out);
    assert_eq!(bench.status(&root).0, 0);
}

#[test]
fn wishes_that_make_no_sense_are_refused_with_a_reason() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let shown = root.to_str().unwrap();
    let check = |args: &[&str], says: &str| {
        let before = everything(&root.join(".devloop")).len();
        let ran = bench.devloop(args);
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
        assert!(ran.err.contains(says), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(&format!("{PROGRAM} status")), "{args:?}: {}", ran.err);
        assert_eq!(everything(&root.join(".devloop")).len(), before);
    };
    check(&["answer", "retry", shown], "No question is open");
    check(&["answer", "retry", shown, "--hold", "task/a:acceptance_failed"], "task/a:acceptance_failed");
    check(&["resume", shown, "--task", "ghost"], "There is no task ghost");
    check(&["task", "edit", "ghost", shown, "--risk", "low"], "There is no task ghost");
    check(&["next", shown], "not complete");
}

#[test]
fn events_and_json_are_one_line_each() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let shown = root.to_str().unwrap();
    let all = bench.devloop(&["events", shown, "--json"]);
    let lines: Vec<serde_json::Value> = all.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(!lines.is_empty());
    let last = lines.last().unwrap()["revision"].as_u64().unwrap();
    assert_eq!(last, bench.status(&root).1["revision"].as_u64().unwrap());
    let since = bench.devloop(&["events", shown, "--since", &last.to_string()]);
    assert_eq!(since.out.lines().count(), 1, "{}", since.out);
    for verb in ["tick", "doctor", "replay"] {
        let ran = bench.devloop(&[verb, shown, "--json"]);
        assert!(serde_json::from_str::<serde_json::Value>(&ran.out).is_ok(), "{verb}: {ran:?}");
    }
}

#[test]
fn replay_finds_a_journal_and_a_trace_that_were_changed() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let shown = root.to_str().unwrap();
    for how in [&["replay", shown][..], &["replay", shown, "--native"]] {
        let good = bench.devloop(how);
        assert_eq!(good.code, 0, "{good:?}");
        assert!(good.out.contains("journal verified by replay in the"), "{}", good.out);
        assert!(good.out.contains("no difference") || good.out.contains("nothing to decide"), "{}", good.out);
    }
    let file = root.join(".devloop/EVENTS.jsonl");
    let lines = fs::read_to_string(&file).unwrap();
    assert_eq!(bench.devloop(&["replay", file.to_str().unwrap()]).code, 0);
    fs::write(&file, lines.replacen("\"by\":\"loop", "\"by\":\"lopp", 1)).unwrap();
    let bad = bench.devloop(&["replay", shown]);
    assert_eq!(bad.code, 1, "{bad:?}");
    assert!(bad.err.contains("chain"), "{}", bad.err);
}

/// A component with a section of its own decides the same and has another digest; one that is no core, or
/// that runs wild, ends with a sentence.
#[test]
fn another_component_replays_the_same_night() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let with = |name: &str, bytes: &[u8]| {
        let file = bench.path(name);
        fs::write(&file, bytes).unwrap();
        bench.devloop(&["replay", root.to_str().unwrap(), "--component", file.to_str().unwrap()])
    };
    let own = with("own.wasm", devloop_component::CORE_WASM);
    assert_eq!(own.code, 0, "{own:?}");
    assert!(!own.out.contains("of another core") && own.out.contains("no difference"), "{}", own.out);
    let named: &[u8] = &[0, 6, 4, b'n', b'o', b't', b'e', b'x'];
    let other = with("other.wasm", &[devloop_component::CORE_WASM, named].concat());
    assert_eq!(other.code, 0, "{other:?}");
    assert!(other.out.contains("of another core") && other.out.contains("no difference"), "{}", other.out);
    let none = with("none.wasm", b"(module)");
    assert_eq!(none.code, 2, "{none:?}");
    assert!(none.err.contains("this file is no core") && none.err.contains("replay --help"), "{}", none.err);
}

#[test]
fn files_that_are_no_recording_are_refused_with_a_sentence() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let check = |name: &str, says: &str| {
        let file = root.join(".devloop").join(name);
        let ran = bench.devloop(&["replay", file.to_str().unwrap()]);
        assert_eq!(ran.code, 2, "{name}: {ran:?}");
        assert!(ran.err.contains(says), "{name}: {}", ran.err);
        assert!(ran.err.contains(&format!("{PROGRAM} status {}", root.display())), "{name}: {}", ran.err);
    };
    check("STATE.json", "it is a state");
    check("config.json", "it is a configuration");
    check("GOAL.md", "no JSON object");
    let trace = root.join(".devloop/TRACE.jsonl");
    let ran = bench.devloop(&["replay", trace.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("no difference"), "{}", ran.out);
}

/// What is missing from the ledger is missing from the sums that the caps are compared with.
#[test]
fn lines_of_the_ledger_that_cannot_be_read_are_told_by_doctor_and_at_the_start() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let ledger = bench.path("dsh/devloop/ledger.jsonl");
    let told = "ledger.jsonl that cannot be read: 1; they are left out of every sum";
    let found = bench.verb("doctor", &root);
    assert!(found.code == 0 && !found.out.contains("ledger.jsonl"), "{found:?}");
    fs::create_dir_all(ledger.parent().unwrap()).unwrap();
    fs::write(&ledger, "\u{7f}ELF\n").unwrap();
    let found = bench.verb("doctor", &root);
    assert!(found.code == 1 && found.out.contains(told), "{found:?}");
    let ran = bench.verb("tick", &root);
    assert!(format!("{}{}", ran.out, ran.err).contains(told), "{ran:?}");
}

#[test]
fn doctor_names_what_belongs_to_nobody_and_what_is_missing() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let shown = root.to_str().unwrap();
    assert_eq!(bench.verb("doctor", &root).code, 0, "{}", bench.verb("doctor", &root).out);
    let folder = root.join(".devloop");
    fs::create_dir_all(folder.join("worktrees/stray")).unwrap();
    fs::create_dir_all(folder.join("inbox")).unwrap();
    fs::write(folder.join("inbox/d9.json"), "{").unwrap();
    bench.git(&root, &["branch", "devloop/ghost"]);
    bench.git(&root, &["update-ref", "refs/devloop/orphan/d3", "HEAD"]);
    let config = r#"{"agentBackend":"command","command":{"argv":["no-such-worker"]},"reviewModel":"other"}"#;
    fs::write(folder.join("config.json"), config).unwrap();
    let before = everything(&root);
    let found = bench.devloop(&["doctor", shown]);
    assert_eq!(found.code, 1, "{found:?}");
    for part in [
        "stray belongs to nobody of the loop",
        "a parked report cannot be read",
        "devloop/ghost is of no task of this goal",
        "refs/devloop/orphan/d3 keeps work that was set aside",
        "starts `no-such-worker`, which is not on the search path",
    ] {
        assert!(found.out.contains(part), "no {part:?} in {}", found.out);
    }
    assert_eq!(everything(&root), before, "doctor changes nothing");
    let ran = bench.verb("tick", &root);
    let told = "starts `no-such-worker`, which is not on the search path";
    assert!(format!("{}{}", ran.out, ran.err).contains(told), "the start says it too: {ran:?}");
}
