//! Merging, refreshing, verifying and reverting, with a person at work in the same repository.

use std::fs;

use devloop_core::effect::{Contract, Effect, Start};
use devloop_core::ids::Oid;
use devloop_core::report::{CheckOutcome, MergeFault, Outcome};
use serde_json::json;

use crate::ground::{Ground, target, write, writes};

const OTHER: &str = "refs/heads/work";

fn done(acceptance: &str, files: &[(&str, &str)]) -> (Ground, Contract, Oid) {
    let ground = Ground::with(&json!([writes("t", files)]), |config| {
        if !acceptance.is_empty() {
            config.acceptance = vec![["sh", "-c", acceptance].map(str::to_owned).to_vec()];
        }
    });
    let contract = ground.contract("t", &["**"]);
    let head = ground.done(&contract, Start::Fresh);
    (ground, contract, head)
}

fn fault(outcome: Outcome, expect: MergeFault) -> Vec<String> {
    match outcome {
        Outcome::NotMerged { why, detail, paths } => {
            assert_eq!(why, expect, "{detail}");
            paths
        }
        other => panic!("{other:?}"),
    }
}

fn merged(outcome: Outcome) -> Oid {
    match outcome {
        Outcome::Merged { commit } => commit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_moved_target_with_other_paths_is_checked_as_the_very_commit_that_is_published() {
    let (ground, contract, head) = done("test -f src/b && test -f person.txt", &[("src/b", "x\n")]);
    let tip = ground.person("person.txt", "mine\n");
    let commit = merged(ground.merge(&contract, &head));
    assert_eq!(
        ground.git(&["rev-parse", &format!("{commit}^1"), &format!("{commit}^2")]),
        format!("{tip}\n{head}")
    );
    assert_eq!(ground.git(&["status", "--porcelain"]), "");
    assert!(ground.root.join("src/b").exists() && ground.root.join("person.txt").exists());
}

#[test]
fn a_red_candidate_is_not_published_unless_its_checks_were_known_to_be_red() {
    let (ground, contract, head) = done("test ! -f person.txt", &[("src/b", "x\n")]);
    let tip = ground.person("person.txt", "mine\n");
    let commands = fault(ground.merge(&contract, &head), MergeFault::CandidateRed);
    assert_eq!(ground.head(), tip);
    let dispatch = ground.next();
    let mut effect = ground.merge_effect(dispatch, &contract, &head);
    if let Effect::Merge { known_red, .. } = &mut effect {
        *known_red = commands;
    }
    ground.performer.perform(effect);
    merged(ground.report(dispatch).outcome);
}

#[test]
fn a_candidate_that_cannot_be_checked_is_not_published() {
    let ground = Ground::with(&json!([writes("t", &[("src/b", "x\n")])]), |config| {
        config.acceptance = vec![vec!["no-such-program-here".into()]];
    });
    let contract = ground.contract("t", &["**"]);
    let head = ground.done(&contract, Start::Fresh);
    let tip = ground.person("person.txt", "mine\n");
    fault(ground.merge(&contract, &head), MergeFault::ChecksUnavailable);
    assert_eq!(ground.head(), tip);
}

#[test]
fn the_same_path_on_both_sides_is_an_overlap_that_a_refresh_resolves() {
    let text = |first: &str, last: &str| format!("{first}\n{}{last}\n", "between\n".repeat(20));
    let ground = Ground::new(&json!([writes("t", &[("src/long", &text("ONE", "last"))])]));
    ground.person("src/long", &text("one", "last"));
    let mut contract = ground.contract("t", &["src"]);
    let head = ground.done(&contract, Start::Fresh);
    // Far enough apart to merge cleanly, and still nobody reviewed the two together.
    let tip = ground.person("src/long", &text("one", "LAST"));
    assert_eq!(fault(ground.merge(&contract, &head), MergeFault::Overlap), ["src/long"]);
    assert_eq!(ground.head(), tip);
    let dispatch = ground.next();
    let refresh = Effect::Refresh { dispatch, epoch: 1, contract: contract.clone(), head, target: target() };
    ground.performer.perform(refresh);
    let Outcome::Refreshed { head, base } = ground.report(dispatch).outcome else { panic!("no refresh") };
    assert_eq!((&base, ground.tip("refs/heads/devloop/t").as_ref()), (&tip, Some(&head)));
    contract.base = base;
    let commit = merged(ground.merge(&contract, &head));
    assert_eq!(ground.show(&commit, "src/long"), text("ONE", "LAST").trim_end());
}

#[test]
fn a_conflict_names_its_paths_and_moves_nothing() {
    let (ground, contract, head) = done("", &[("src/a.txt", "ONE\ntwo\nthree\n")]);
    let tip = ground.person("src/a.txt", "eins\ntwo\nthree\n");
    assert_eq!(fault(ground.merge(&contract, &head), MergeFault::Conflict), ["src/a.txt"]);
    let dispatch = ground.next();
    let (contract, head) = (contract.clone(), head.clone());
    ground.performer.perform(Effect::Refresh {
        dispatch,
        epoch: 1,
        contract,
        head: head.clone(),
        target: target(),
    });
    assert_eq!(fault(ground.report(dispatch).outcome, MergeFault::Conflict), ["src/a.txt"]);
    assert_eq!((ground.head(), ground.tip("refs/heads/devloop/t")), (tip, Some(head)));
}

#[test]
fn a_target_that_moves_once_is_followed_and_one_that_moves_each_time_is_lost() {
    let commit = "git -C $ROOT -c user.name=A -c user.email=a@b commit -q --allow-empty -m moved";
    let once = format!("test -e $ROOT/../once || {{ touch $ROOT/../once; {commit}; }}");
    for (each_time, line) in [(true, commit.to_owned()), (false, once)] {
        let ground = Ground::new(&json!([writes("t", &[("src/b", "x\n")])]));
        let line = line.replace("$ROOT", &ground.root.display().to_string());
        let mut config = ground.setting.config.clone();
        config.acceptance = vec![["sh", "-c", &line].map(str::to_owned).to_vec()];
        let contract = ground.contract("t", &["**"]);
        let head = ground.done(&contract, Start::Fresh);
        ground.person("person.txt", "mine\n");
        ground.performer.reconfigure(config);
        let outcome = ground.merge(&contract, &head);
        if each_time {
            fault(outcome, MergeFault::LostSwap);
            assert!(!ground.root.join("src/b").exists());
        } else {
            assert_eq!(merged(outcome), ground.head());
        }
    }
}

#[test]
fn a_dirty_checkout_is_in_the_way_and_is_never_touched() {
    let (ground, contract, head) = done("", &[("src/a.txt", "ONE\ntwo\nthree\n")]);
    write(ground.root.join("README.md"), "half a thought\n");
    assert_eq!(fault(ground.merge(&contract, &head), MergeFault::Checkout), ["README.md"]);
    assert_eq!(ground.head(), contract.base);
    assert_eq!(fs::read_to_string(ground.root.join("README.md")).unwrap(), "half a thought\n");
    // On another branch it is in nobody's way, and nothing of it changes.
    ground.git(&["checkout", "--quiet", "-b", "mine"]);
    merged(ground.merge(&contract, &head));
    assert_eq!(fs::read_to_string(ground.root.join("README.md")).unwrap(), "half a thought\n");
    assert_eq!(fs::read_to_string(ground.root.join("src/a.txt")).unwrap(), "one\ntwo\nthree\n");
}

#[test]
fn a_head_that_a_person_merged_is_merged_already() {
    let (ground, contract, head) = done("", &[("src/b", "x\n")]);
    ground.git(&["merge", "--quiet", "--no-ff", "-m", "by hand", "devloop/t"]);
    assert_eq!(ground.merge(&contract, &head), Outcome::AlreadyMerged { tip: ground.head() });
}

#[test]
fn a_rewound_target_and_an_unknown_commit_are_named() {
    let ground = Ground::new(&json!([writes("t", &[("src/b", "x\n")])]));
    let start = ground.head();
    ground.person("person.txt", "mine\n");
    let contract = ground.contract("t", &["**"]);
    let head = ground.done(&contract, Start::Fresh);
    ground.git(&["reset", "--quiet", "--hard", start.as_str()]);
    fault(ground.merge(&contract, &head), MergeFault::Rewound);
    fault(ground.merge(&contract, &crate::ground::oid(&"d".repeat(40))), MergeFault::UnknownCommit);
}

#[test]
fn a_reverted_task_is_worked_on_again_and_its_merge_has_every_path() {
    let mut again = writes("t", &[("src/fix", "fixed\n")]);
    again["attempt"] = 2.into();
    let ground = Ground::with(
        &json!([again, writes("t", &[("src/b", "x\n"), ("src/a.txt", "ONE\ntwo\nthree\n")])]),
        |config| {
            config.acceptance =
                vec![["sh", "-c", "test ! -f src/b || test -f src/fix"].map(str::to_owned).to_vec()]
        },
    );
    let mut contract = ground.contract("t", &["src"]);
    let head = ground.done(&contract, Start::Fresh);
    let commit = merged(ground.merge(&contract, &head));
    let dispatch = ground.next();
    ground.performer.perform(Effect::Verify {
        dispatch,
        epoch: 1,
        commit: commit.clone(),
        known_red: Vec::new(),
    });
    let outcome = ground.report(dispatch).outcome;
    assert!(matches!(outcome, Outcome::Checked(CheckOutcome::Red { .. })), "{outcome:?}");

    let revert = |dispatch| Effect::Revert {
        dispatch,
        epoch: 1,
        contract: contract.clone(),
        commit: commit.clone(),
        target: target(),
    };
    let dispatch = ground.next();
    ground.performer.perform(revert(dispatch));
    let Outcome::Reverted { commit: reverted, reapplied } = ground.report(dispatch).outcome else {
        panic!("not reverted")
    };
    assert_eq!(ground.head(), reverted);
    assert!(!ground.root.join("src/b").exists() && ground.git(&["status", "--porcelain"]).is_empty());
    assert_eq!(ground.tip("refs/heads/devloop/t"), Some(reapplied.clone()));

    contract.base = reverted;
    let head = ground.done(&contract, Start::Continue { tip: reapplied });
    let commit = merged(ground.merge(&contract, &head));
    for (path, text) in [("src/b", "x"), ("src/a.txt", "ONE\ntwo\nthree"), ("src/fix", "fixed")] {
        assert_eq!(ground.show(&commit, path), text, "{path}");
    }
}

#[test]
fn a_merge_that_was_built_upon_is_not_reverted() {
    let (ground, contract, head) = done("", &[("src/b", "x\n")]);
    let commit = merged(ground.merge(&contract, &head));
    let tip = ground.person("person.txt", "on top\n");
    let dispatch = ground.next();
    ground.performer.perform(Effect::Revert { dispatch, epoch: 1, contract, commit, target: target() });
    fault(ground.report(dispatch).outcome, MergeFault::BuriedMerge);
    assert_eq!(ground.tip(OTHER), Some(tip));
}
