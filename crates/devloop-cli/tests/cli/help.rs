//! The command line itself: help, usage errors, completions.

use crate::support::Bench;

const VERBS: [&str; 15] = [
    "demo",
    "init",
    "run",
    "tick",
    "status",
    "answer",
    "resume",
    "pause",
    "task",
    "next",
    "cost",
    "events",
    "replay",
    "doctor",
    "completions",
];

#[test]
fn every_verb_explains_itself() {
    let bench = Bench::new();
    let whole = bench.devloop(&["--help"]);
    assert_eq!((whole.code, whole.err.as_str()), (0, ""));
    for verb in VERBS {
        assert!(whole.out.lines().any(|line| line.trim_start().starts_with(verb)), "{verb}");
        let help = bench.devloop(&[verb, "--help"]);
        assert_eq!((help.code, help.err.as_str()), (0, ""), "{verb}");
        assert!(help.out.contains("Usage: devloop"), "{verb}: {}", help.out);
    }
    let listed = whole.out.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let listed = listed.filter(|line| !line.trim_start().starts_with('-')).count();
    assert_eq!(listed, VERBS.len(), "{}", whole.out);
    assert_eq!(bench.devloop(&["--version"]).code, 0);
}

#[test]
fn usage_errors_exit_with_2_and_change_nothing() {
    let bench = Bench::new();
    let check = |args: &[&str], says: &str| {
        let ran = bench.devloop(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {ran:?}");
        assert!(ran.err.contains(says), "{args:?}: {}", ran.err);
    };
    check(&[], "Usage");
    check(&["fly"], "unrecognized subcommand");
    check(&["status", "--fast"], "unexpected argument");
    check(&["status", "a", "b"], "unexpected argument");
    check(&["answer"], "ANSWER");
    check(&["answer", "perhaps"], "invalid value");
    check(&["answer", "retry", "--hold", "nonsense"], "must be <subject>:<reason>");
    check(&["answer", "stop", "--fresh"], "--fresh belongs to `retry`");
    check(&["resume", "--task"], "a value is required");
    check(&["pause", "--reset-cost"], "unexpected argument");
    check(&["task", "edit", "a", "--tier", "T9"], "invalid value");
    check(&["task", "edit", "a/b"], "a task id must be");
    check(&["init", "--goal", " "], "--goal is empty");
    check(&["replay", "--native", "--component", "x"], "cannot be used with");
}

#[test]
fn completions_name_every_verb() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = bench.devloop(&["completions", shell]);
        assert_eq!(script.code, 0);
        assert!(VERBS.iter().all(|verb| script.out.contains(verb)), "{shell}");
    }
}
