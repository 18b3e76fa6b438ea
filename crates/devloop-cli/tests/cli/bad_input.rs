//! Bad input: each case gets one sentence with the path or field, a next command and exit 1, and nothing
//! changes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use devloop_core::untrusted::Untrusted;

use crate::support::{Bench, PROGRAM, Ran, everything};

/// One sentence that holds `says`, then commands to try, one of which holds `tries`; nothing else anywhere.
fn check(bench: &Bench, argv: &[&str], says: &[&str], tries: &str) {
    let before = everything(&bench.path(""));
    let Ran { code, out, err } = bench.devloop(argv);
    let after = everything(&bench.path(""));
    assert_eq!(code, 1, "{argv:?}: {out}{err}");
    assert_eq!(out, "", "{argv:?} says nothing on standard output");
    let mut lines = err.lines();
    let sentence = lines.next().unwrap_or_default();
    assert!(sentence.starts_with("devloop: "), "{argv:?}: {err}");
    for part in says {
        assert!(sentence.contains(part), "{argv:?}: no {part:?} in {sentence:?}");
    }
    // A state that cannot be trusted brings its question and what can be done by hand.
    let of_question =
        |line: &str| Untrusted::ALL.iter().any(|why| line.starts_with(&format!("  {}: ", why.key())));
    let asks = |line: &&str| !line.starts_with("  by hand: ") && !of_question(line);
    let commands: Vec<&str> = lines.filter(asks).collect();
    assert!(!commands.is_empty(), "{argv:?} names no next command: {err}");
    assert!(commands.iter().all(|line| line.starts_with("  try: ")), "{argv:?}: {err}");
    assert!(commands.iter().any(|line| line.contains(tries)), "{argv:?}: no {tries:?} in {err}");
    assert!(commands.iter().all(|line| !line.contains("try: devloop")), "not absolute: {err}");
    let changed: Vec<&PathBuf> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(changed.is_empty(), "{argv:?} changed {changed:?}");
}

/// The verbs that need an armed project, reading and writing.
fn check_each(bench: &Bench, root: &Path, says: &[&str], tries: &str) {
    let root = root.to_str().unwrap();
    for verb in ["status", "run", "tick", "resume", "pause", "next"] {
        check(bench, &[verb, root], says, tries);
    }
    check(bench, &["answer", "stop", root], says, tries);
    check(bench, &["task", "edit", "a", root, "--tier", "T1"], says, tries);
}

#[test]
fn a_folder_that_is_not_armed() {
    let bench = Bench::new();
    let root = bench.repo("r");
    let init = format!("{PROGRAM} init {}", root.display());
    check_each(&bench, &root, &["is not armed", root.to_str().unwrap(), "no .devloop folder"], &init);
    fs::create_dir(root.join(".devloop")).unwrap();
    check_each(&bench, &root, &["is not armed", "no .devloop/GOAL.md"], &init);
}

#[test]
fn a_goal_that_cannot_be_read() {
    let bench = Bench::new();
    let root = bench.armed("r");
    let goal = root.join(".devloop/GOAL.md");
    let shown = goal.to_str().unwrap();
    let look = format!("{PROGRAM} doctor");

    fs::remove_file(&goal).unwrap();
    fs::create_dir(&goal).unwrap();
    check_each(&bench, &root, &[shown, "is a folder"], &look);
    fs::remove_dir(&goal).unwrap();

    fs::write(bench.path("elsewhere"), "x").unwrap();
    symlink(bench.path("elsewhere"), &goal).unwrap();
    check_each(&bench, &root, &[shown, "is a symlink"], &look);
    fs::remove_file(&goal).unwrap();

    fs::File::create(&goal).unwrap().set_len(1 << 30).unwrap();
    check_each(&bench, &root, &[shown, "is larger than 65536 bytes"], shown);

    fs::write(&goal, b"hello \xff").unwrap();
    check_each(&bench, &root, &[shown, "not valid UTF-8", "offset 6"], shown);

    fs::write(&goal, " \n").unwrap();
    check_each(&bench, &root, &[shown, "is empty"], shown);
}

#[test]
fn a_goal_at_its_limit_is_read() {
    let bench = Bench::new();
    let root = bench.armed("r");
    let goal = root.join(".devloop/GOAL.md");
    fs::write(&goal, "x".repeat(64 * 1024)).unwrap();
    assert_eq!(bench.verb("status", &root).code, 0);
    fs::write(&goal, "x".repeat(64 * 1024 + 1)).unwrap();
    assert_eq!(bench.verb("status", &root).code, 1);
}

#[test]
fn the_form_that_nobody_filled_in() {
    let bench = Bench::new();
    let root = bench.repo("r");
    assert_eq!(bench.verb("init", &root).code, 0);
    let goal = root.join(".devloop/GOAL.md");
    for verb in ["run", "tick"] {
        let says = ["still the empty form", goal.to_str().unwrap()];
        check(&bench, &[verb, root.to_str().unwrap()], &says, goal.to_str().unwrap());
    }
}

#[test]
fn a_root_that_no_loop_can_work_in() {
    let bench = Bench::new();
    let check_init = |root: &Path, says: &str, tries: &str| {
        let shown = root.to_str().unwrap().to_owned();
        check(&bench, &["init", &shown], &[says, &shown], tries);
    };
    let root = bench.repo("r");
    fs::create_dir(root.join("sub")).unwrap();
    check_init(&root.join("sub"), "is inside the repository", &format!("{PROGRAM} init {}", root.display()));
    check_init(&bench.path("nowhere"), "cannot find the folder", "doctor");

    let plain = bench.path("plain");
    fs::create_dir(&plain).unwrap();
    check_init(&plain, "is not a git repository", "git init");

    let bare = bench.path("bare.git");
    bench.git(&bench.path(""), &["init", "--quiet", "--bare", bare.to_str().unwrap()]);
    check_init(&bare, "is a bare repository", "git clone");

    let fresh = bench.path("fresh");
    bench.git(&bench.path(""), &["init", "--quiet", fresh.to_str().unwrap()]);
    check_init(&fresh, "has no commit yet", "commit --allow-empty");
}

/// git refuses such a repository in every call; the sentence says what it would take.
#[test]
fn a_repository_of_another_owner_is_named_with_its_way_out() {
    let bench = Bench::new();
    let root = bench.repo("r");
    let shown = root.to_str().unwrap();
    let given = bench.sh(&format!("chown -R 54321 {shown}"));
    if given.code != 0 {
        eprintln!("skipped: only root can give files away: {}", given.err.trim());
        return;
    }
    check(&bench, &["init", shown], &[shown, "another user"], "safe.directory");
    assert_eq!(bench.sh(&format!("chown -R $(id -u) {shown}")).code, 0);
    assert_eq!(bench.devloop(&["init", shown, "--goal", "x"]).code, 0, "it is ours again");
}

#[test]
fn a_checkout_that_somebody_works_in() {
    let bench = Bench::new();
    let root = bench.repo("r");
    let shown = root.to_str().unwrap();
    let git = |args: &[&str]| bench.git(&root, args);
    let check_init = |says: &str, tries: &str| {
        check(&bench, &["init", shown], &[says, shown], tries);
        assert_eq!(bench.devloop(&["doctor", shown]).code, 1, "doctor names it too: {says}");
    };
    git(&["checkout", "--quiet", "--detach"]);
    check_init("on no branch", "switch -c work");
    git(&["checkout", "--quiet", "work"]);

    fs::write(root.join("README.md"), "changed\n").unwrap();
    check_init("not committed", "status");
    git(&["commit", "--quiet", "-am", "two"]);

    git(&["checkout", "--quiet", "-b", "other", "HEAD~1"]);
    fs::write(root.join("README.md"), "other\n").unwrap();
    git(&["commit", "--quiet", "-am", "three"]);
    let conflict = |verb: &str| {
        let done = bench.sh(&format!("cd {shown} && git {verb} work"));
        assert_ne!(done.code, 0, "the {verb} must stop at a conflict");
    };
    conflict("merge");
    check_init("a merge is in progress", "status");
    git(&["merge", "--abort"]);
    conflict("rebase");
    check_init("a rebase is in progress", "status");
    let armed = bench.devloop(&["init", shown, "--goal", "x", "--anyway"]);
    assert_eq!(armed.code, 0, "merges wait until it is over: {armed:?}");
}

#[test]
fn a_devloop_folder_that_is_a_link() {
    let bench = Bench::new();
    let root = bench.repo("r");
    fs::create_dir(bench.path("elsewhere")).unwrap();
    fs::write(bench.path("elsewhere/GOAL.md"), "x").unwrap();
    symlink(bench.path("elsewhere"), root.join(".devloop")).unwrap();
    let folder = root.join(".devloop");
    check(&bench, &["init", root.to_str().unwrap()], &[folder.to_str().unwrap(), "is a symlink"], "ls -ld");
    check_each(&bench, &root, &[folder.to_str().unwrap(), "is a symlink"], "doctor");
}

#[test]
fn a_state_that_cannot_be_trusted() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let state = root.join(".devloop/STATE.json");
    let shown = state.to_str().unwrap();
    let good = fs::read_to_string(&state).unwrap();

    fs::write(&state, good.replacen("\"version\":2", "\"version\":99", 1)).unwrap();
    check_each_reader(&bench, &root, &[shown, "version 99", "newer"]);

    fs::write(&state, good.replacen("\"number\":1", "\"number\":7", 1)).unwrap();
    check_each_reader(&bench, &root, &[shown, "changed by something other than DevLoop"]);

    let journal = root.join(".devloop/EVENTS.jsonl");
    let lines = fs::read_to_string(&journal).unwrap();
    fs::write(&state, &good).unwrap();
    fs::write(&journal, lines.replacen("goal_started", "goal_stirred", 1)).unwrap();
    check_each_reader(&bench, &root, &[journal.to_str().unwrap(), "cannot be trusted"]);

    fs::remove_file(&journal).unwrap();
    fs::write(&state, &good[..good.len() / 2]).unwrap();
    check_each_reader(&bench, &root, &[shown, "is not usable"]);
}

/// A loop would take OWNER first; what it finds then is the same.
fn check_each_reader(bench: &Bench, root: &Path, says: &[&str]) {
    let shown = root.to_str().unwrap();
    check(bench, &["status", shown], says, "doctor");
    let found = bench.devloop(&["doctor", shown]);
    assert_eq!(found.code, 1);
    assert!(says.iter().all(|part| found.out.contains(part)), "{says:?}: {}", found.out);
    // What people read is not made anew from a state that nobody believes.
    let kept = || ["STATE.json", "PROGRESS.md"].map(|name| fs::read(root.join(".devloop").join(name)).ok());
    let before = kept();
    for verb in ["tick", "run", "resume"] {
        let done = bench.verb(verb, root);
        assert_eq!(done.code, 1, "{verb}: {done:?}");
        assert!(says.iter().all(|part| done.err.contains(part)), "{verb}: {says:?}: {}", done.err);
        assert_eq!(kept(), before, "{verb} wrote over it");
    }
    let error: serde_json::Value =
        serde_json::from_str(&bench.devloop(&["status", shown, "--json"]).out).unwrap();
    assert_eq!(error["error"]["kind"], "integrity");
    assert!(error["error"]["next"][0].as_str().unwrap().starts_with(PROGRAM));
}

#[test]
fn a_truncated_state_is_rebuilt_from_the_journal() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let state = root.join(".devloop/STATE.json");
    let good = fs::read(&state).unwrap();
    let (code, before) = bench.status(&root);
    fs::write(&state, &good[..good.len() / 2]).unwrap();
    let (again, after) = bench.status(&root);
    assert_eq!((code, &before["revision"], &before["goal"]), (again, &after["revision"], &after["goal"]));
    assert!(bench.verb("doctor", &root).out.contains("rebuilt from EVENTS.jsonl"));
}

#[test]
fn an_unknown_key_is_named_with_the_nearest() {
    let bench = Bench::new();
    let root = bench.armed("r");
    let config = root.join(".devloop/config.json");
    fs::write(&config, r#"{"budget":{"maxTaskAttemps":3}}"#).unwrap();
    let says = ["budget", "maxTaskAttemps", "maxTaskAttempts", config.to_str().unwrap()];
    check_each(&bench, &root, &says, "doctor");
    let found = bench.verb("doctor", &root);
    assert_eq!(found.code, 1);
    assert!(says.iter().all(|part| found.out.contains(part)), "{}", found.out);
    fs::write(&config, "{").unwrap();
    check_each(&bench, &root, &[config.to_str().unwrap()], "doctor");
}

#[test]
fn routes_that_ask_for_agents_which_the_command_line_has_not() {
    let bench = Bench::new();
    let root = bench.armed("r");
    let (config, shown) = (root.join(".devloop/config.json"), root.to_str().unwrap());
    for backend in ["subagent:spawn", "dsh-agent"] {
        let text =
            format!(r#"{{"agentBackend":"routed","plannerRoute":{{"backend":"{backend}","model":"m"}}}}"#);
        fs::write(&config, text).unwrap();
        let says = [config.to_str().unwrap(), "route planner asks for agents of a running DSH"];
        for verb in ["run", "tick"] {
            check(&bench, &[verb, shown], &says, says[0]);
        }
        let found = bench.devloop(&["doctor", shown]);
        assert!(found.code == 1 && found.out.contains(says[1]), "{found:?}");
    }
}
