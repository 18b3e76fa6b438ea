//! The host's commit: what it refuses with which fault, what it keeps, and where a worker starts again.

use devloop_core::effect::{Effect, Start};
use devloop_core::ids::DispatchId;
use devloop_core::report::{CommitFault, Outcome};
use serde_json::json;

use crate::ground::{Ground, git_in, writes};

/// The secret part of a token.
const TOKEN: &str = "aB3dE5fG7hJ9kL1mN0pQ2rS4tU6vW8xY0zA1";

fn refused(outcome: Outcome, fault: CommitFault) -> Vec<String> {
    match outcome {
        Outcome::CommitRefused { why, detail, paths } => {
            assert_eq!(why, fault, "{detail}");
            paths
        }
        other => panic!("{other:?}"),
    }
}

/// Removes the worktree and waits until it is gone.
fn remove(ground: Ground, dispatch: DispatchId) -> Ground {
    ground.performer.perform(Effect::RemoveWorktree { dispatch });
    ground.settled()
}

#[test]
fn a_path_outside_the_contract_refuses_all_of_it_and_the_work_is_saved() {
    let ground = Ground::new(&json!([writes("t", &[("src/b", "x\n"), ("other/c", "y\n")])]));
    let contract = ground.contract("t", &["src"]);
    let (work, _) = ground.work(&contract, Start::Fresh);
    assert_eq!(refused(ground.commit(work, &contract), CommitFault::Scope), ["other/c"]);
    assert_eq!(ground.tip("refs/heads/devloop/t"), Some(contract.base.clone()));
    let ground = remove(ground, work);
    let saved = ground.tip(&format!("refs/devloop/orphan/{work}")).expect("the work is kept");
    assert_eq!(ground.show(&saved, "other/c"), "y");
    assert!(ground.worktrees().is_empty());
}

#[test]
fn protected_paths_are_outside_every_contract() {
    let files = [("src/b", "x\n"), ("ci/run.yml", "y\n")];
    let ground =
        Ground::with(&json!([writes("t", &files)]), |config| config.protected_paths = vec!["ci/**".into()]);
    let contract = ground.contract("t", &["**"]);
    let (work, _) = ground.work(&contract, Start::Fresh);
    assert_eq!(refused(ground.commit(work, &contract), CommitFault::Scope), ["ci/run.yml"]);
}

#[test]
fn a_write_to_the_operators_checkout_is_named() {
    for process in [false, true] {
        let mut rule = writes("t", &[("src/b", "x\n")]);
        rule["escape"] = json!([{ "path": "README.md", "append": "mine too\n" }]);
        rule["process"] = process.into();
        let ground = Ground::new(&json!([rule]));
        let contract = ground.contract("t", &["src"]);
        let (work, _) = ground.work(&contract, Start::Fresh);
        assert_eq!(refused(ground.commit(work, &contract), CommitFault::Escaped), ["README.md"]);
        // Nothing is put right behind the operator's back.
        assert_eq!(ground.git(&["status", "--porcelain"]), " M README.md");
    }
}

#[test]
fn a_merge_of_the_host_during_a_run_is_no_escape() {
    let mut slow = writes("slow", &[("slow/x", "x\n")]);
    slow["delayMs"] = 700.into();
    let ground = Ground::new(&json!([slow, writes("quick", &[("quick/x", "x\n")])]));
    let (slow, quick) = (ground.contract("slow", &["slow"]), ground.contract("quick", &["quick"]));
    let work = ground.start_work(&slow, Start::Fresh);
    let head = ground.done(&quick, Start::Fresh);
    assert!(matches!(ground.merge(&quick, &head), Outcome::Merged { .. }));
    assert!(matches!(ground.report(work).outcome, Outcome::Worked { .. }));
    assert!(matches!(ground.commit(work, &slow), Outcome::Committed { .. }));
}

#[test]
fn work_that_changes_nothing_is_empty_the_first_time_and_again() {
    let nothing = json!({ "role": "work", "task": "idle", "result": { "work": "completed" } });
    let ground = Ground::new(&json!([nothing, writes("same", &[("src/b", "x\n")])]));
    let idle = ground.contract("idle", &["src"]);
    let (work, _) = ground.work(&idle, Start::Fresh);
    assert_eq!(ground.commit(work, &idle), Outcome::CommitEmpty);
    let same = ground.contract("same", &["src"]);
    let tip = ground.done(&same, Start::Fresh);
    let (work, _) = ground.work(&same, Start::Continue { tip });
    assert_eq!(ground.commit(work, &same), Outcome::CommitEmpty);
}

#[test]
fn a_worker_that_commits_by_itself_is_committed_over_and_found_again() {
    let mut rule = writes("t", &[("src/b", "x\n")]);
    rule["commit"] = true.into();
    let ground = Ground::new(&json!([rule]));
    let contract = ground.contract("t", &["src"]);
    let (work, _) = ground.work(&contract, Start::Fresh);
    let dispatch = ground.next();
    let effect = ground.commit_effect(dispatch, work, &contract);
    ground.performer.perform(effect);
    let Outcome::Committed { head } = ground.report(dispatch).outcome else { panic!("not committed") };
    let text = ground.git(&["log", "--format=%s", &format!("{}..{head}", contract.base)]);
    assert_eq!(text, "t: Do t\nmy own commit");
}

#[test]
fn a_commit_after_the_end_of_the_run_is_late() {
    let ground = Ground::new(&json!([writes("t", &[("src/b", "x\n")])]));
    let contract = ground.contract("t", &["src"]);
    let (work, _) = ground.work(&contract, Start::Fresh);
    let tree = ground.setting.armed.worktrees().join(work.to_string());
    git_in(&tree, &["add", "."]);
    git_in(&tree, &["commit", "--quiet", "-m", "late"]);
    refused(ground.commit(work, &contract), CommitFault::Late);
}

#[test]
fn a_secret_is_not_committed_unless_it_was_there() {
    let key = format!("key = ghp_{TOKEN}\n");
    let (new, old) =
        (writes("new", &[("src/b", &key)]), writes("old", &[("src/c", &format!("{key}more\n"))]));
    let env = writes("env", &[("src/.env", "A=1\n")]);
    let another = format!("{key}other = ghp_{}\n", TOKEN.to_uppercase());
    let both = writes("both", &[("src/c", &another)]);
    let ground = Ground::new(&json!([new, old, env, both]));
    ground.person("src/c", &key);
    let outcome = |task: &str| {
        let contract = ground.contract(task, &["src"]);
        let (work, _) = ground.work(&contract, Start::Fresh);
        ground.commit(work, &contract)
    };
    match outcome("new") {
        Outcome::CommitRefused { why: CommitFault::Secret, detail, paths } => {
            assert!(!detail.contains("ghp_"), "the secret itself is not told: {detail}");
            assert_eq!(paths, ["src/b"]);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(outcome("old"), Outcome::Committed { .. }));
    assert_eq!(refused(outcome("env"), CommitFault::Secret), ["src/.env"]);
    assert_eq!(refused(outcome("both"), CommitFault::Secret), ["src/c"], "a known one hides no new one");
}

/// What a worker leaves under the project's own ignore rules: told where it is harmless, asked about where
/// it is not.
#[test]
fn what_git_ignores_is_told_and_a_question_outside_the_contract() {
    let files = [("src/b", "x\n"), ("target/debug/out", "x"), ("settings.local", "x")];
    let rules = json!([writes("ask", &files), writes("tell", &files[..2])]);
    let ground = Ground::new(&rules);
    ground.person(".gitignore", "target/\n*.local\n");
    let ask = ground.contract("ask", &["src"]);
    let (work, _) = ground.work(&ask, Start::Fresh);
    assert_eq!(refused(ground.commit(work, &ask), CommitFault::Scope), ["settings.local"]);
    assert_eq!(ground.performer.left().take_remarks(), Vec::<String>::new(), "the question names it");
    let tell = ground.contract("tell", &["src"]);
    let (work, _) = ground.work(&tell, Start::Fresh);
    assert!(matches!(ground.commit(work, &tell), Outcome::Committed { .. }));
    let told = ["the worker of tell left what git ignores: target/"];
    assert_eq!(ground.performer.left().take_remarks(), told);
    assert!(ground.performer.left().section().ends_with("    tell: target/\n"));
}

/// A secret far inside a long file, and a file that is too long to be looked through.
#[test]
fn a_long_file_is_looked_through_or_named() {
    const LIMIT: usize = 16 * 1024 * 1024;
    let token = format!("ghp_{TOKEN}");
    for (length, end, expect) in [(LIMIT, &*token, false), (LIMIT, "", true), (LIMIT + 1, "", false)] {
        let ground = Ground::new(&json!([writes("t", &[("src/b", "x\n")])]));
        let contract = ground.contract("t", &["src"]);
        let (work, _) = ground.work(&contract, Start::Fresh);
        let tree = ground.root.join(format!(".devloop/worktrees/{work}/src/long.txt"));
        let text = format!("{}\n{end}", "x".repeat(length - 1 - end.len()));
        std::fs::write(tree, text).unwrap();
        match ground.commit(work, &contract) {
            Outcome::Committed { .. } => assert!(expect, "{length} {end}"),
            other => assert_eq!(refused(other, CommitFault::Secret), ["src/long.txt"], "{length} {end}"),
        }
    }
}

#[test]
fn work_goes_on_from_the_last_host_commit_and_leftovers_are_moved_aside() {
    let mut first = writes("t", &[("src/b", "1\n")]);
    first["attempt"] = 1.into();
    let mut second = writes("t", &[("src/b", "2\n"), ("other", "no\n")]);
    second["attempt"] = 2.into();
    second["commit"] = true.into();
    let ground = Ground::new(&json!([first, second, writes("t", &[("src/c", "3\n")])]));
    let contract = ground.contract("t", &["src"]);
    let tip = ground.done(&contract, Start::Fresh);
    let (work, _) = ground.work(&contract, Start::Continue { tip: tip.clone() });
    refused(ground.commit(work, &contract), CommitFault::Scope);
    // Its own commit stands on the branch and its worktree is still there.
    let head = ground.done(&contract, Start::Continue { tip: tip.clone() });
    assert_eq!(ground.git(&["rev-parse", &format!("{head}^")]), tip.as_str());
    assert_eq!((ground.show(&head, "src/b"), ground.show(&head, "src/c")), ("1".into(), "3".into()));
    let retired = ground.tip("refs/devloop/retired/t").expect("what the worker committed is kept");
    assert_eq!(ground.show(&retired, "other"), "no");
}

#[test]
fn a_fresh_start_retires_the_older_branch() {
    let ground = Ground::new(&json!([writes("t", &[("src/b", "x\n")])]));
    let contract = ground.contract("t", &["src"]);
    let old = ground.done(&contract, Start::Fresh);
    ground.person("README.md", "moved on\n");
    let contract = ground.contract("t", &["src"]);
    let new = ground.done(&contract, Start::Fresh);
    assert_eq!(ground.tip("refs/devloop/retired/t"), Some(old));
    assert_eq!(ground.git(&["rev-parse", &format!("{new}^")]), contract.base.as_str());
}

#[test]
fn the_contract_beside_the_work_reads_back() {
    let ground = Ground::new(&json!([writes("t", &[("src/b", "x\n")])]));
    let contract = ground.contract("t", &["src"]);
    let (work, outcome) = ground.work(&contract, Start::Fresh);
    assert!(matches!(outcome, Outcome::Worked { .. }));
    let text = std::fs::read(ground.setting.armed.worktrees().join(format!("{work}/.devloop/CONTRACT.json")));
    assert_eq!(devloop_wire::contract::parse(&text.unwrap()).unwrap(), contract);
}
