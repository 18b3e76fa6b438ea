//! What happens when an effect is performed again after its owner died, and effects that may be repeated at
//! will.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use devloop_core::effect::{Effect, Start};
use devloop_core::ids::Branch;
use devloop_core::report::{CheckOutcome, Outcome};
use devloop_host::effects::run_record::{self, Role, RunRecord};
use devloop_host::process::{MARKER_VAR, tree};
use serde_json::json;

use crate::ground::{Ground, target, writes};

#[test]
fn a_commit_a_merge_a_refresh_and_a_revert_end_in_the_same_world_when_performed_again() {
    let mut ground = Ground::new(&json!([writes("t", &[("src/b", "x\n")])]));
    let mut contract = ground.contract("t", &["src"]);
    let (work, _) = ground.work(&contract, Start::Fresh);
    let dispatch = ground.next();
    let twice = |ground: &mut Ground, effect: Effect| {
        let (dispatch, _) = effect.lease().unwrap();
        ground.performer.perform(effect.clone());
        let first = ground.report(dispatch).outcome;
        let world = ground.git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads"]);
        ground.restart();
        ground.performer.perform(effect);
        assert_eq!(ground.report(dispatch).outcome, first);
        (first, world)
    };
    let effect = ground.commit_effect(dispatch, work, &contract);
    let (Outcome::Committed { head }, _) = twice(&mut ground, effect) else { panic!("no commit") };
    ground.performer.perform(Effect::RemoveWorktree { dispatch: work });

    contract.base = ground.person("person.txt", "mine\n");
    let dispatch = ground.next();
    let refresh = Effect::Refresh { dispatch, epoch: 1, contract: contract.clone(), head, target: target() };
    let (Outcome::Refreshed { head, base }, _) = twice(&mut ground, refresh) else { panic!("no refresh") };
    assert_eq!(base, contract.base);

    let dispatch = ground.next();
    let merge = ground.merge_effect(dispatch, &contract, &head);
    let (Outcome::Merged { commit }, _) = twice(&mut ground, merge) else { panic!("no merge") };
    assert_eq!(ground.head(), commit);

    let dispatch = ground.next();
    let revert = Effect::Revert { dispatch, epoch: 1, contract, commit, target: target() };
    let (Outcome::Reverted { commit, reapplied }, world) = twice(&mut ground, revert) else {
        panic!("no revert")
    };
    assert_eq!(ground.head(), commit);
    assert_eq!(ground.tip("refs/heads/devloop/t"), Some(reapplied));
    assert_eq!(ground.git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads"]), world);
}

#[test]
fn a_merge_whose_owner_died_before_the_checkout_followed_is_finished() {
    let mut ground = Ground::new(&json!([writes("t", &[("src/b", "x\n")])]));
    let contract = ground.contract("t", &["src"]);
    let head = ground.done(&contract, Start::Fresh);
    let dispatch = ground.next();
    let effect = ground.merge_effect(dispatch, &contract, &head);
    ground.performer.perform(effect.clone());
    let first = ground.report(dispatch).outcome;
    // As it is right after the swap: the branch moved, index and files did not.
    ground.git(&["read-tree", "--reset", "-u", contract.base.as_str()]);
    assert_ne!(ground.git(&["status", "--porcelain"]), "");
    ground.restart();
    ground.performer.perform(effect);
    assert_eq!(ground.report(dispatch).outcome, first);
    assert_eq!(ground.git(&["status", "--porcelain"]), "");
    assert!(ground.root.join("src/b").exists());
}

#[test]
fn removing_and_making_can_be_done_again() {
    let ground = Ground::new(&json!([writes("t", &[("src/b", "x\n")])]));
    let contract = ground.contract("t", &["src"]);
    let (work, _) = ground.work(&contract, Start::Fresh);
    let branch = Branch::parse("devloop/goal-1").unwrap();
    for _ in 0..2 {
        ground.performer.perform(Effect::RemoveWorktree { dispatch: work });
        ground.performer.perform(Effect::CreateTarget { branch: branch.clone() });
    }
    ground.performer.perform(Effect::Wake);
    let ground = ground.settled();
    assert!(ground.worktrees().is_empty() && ground.is_quiet());
    assert!(run_record::read(&ground.setting.disk, &ground.setting.armed, work).unwrap().is_none());
    assert_eq!(ground.tip("refs/heads/devloop/goal-1"), Some(ground.head()));
    ground.person("person.txt", "mine\n");
    ground.performer.perform(Effect::CreateTarget { branch });
    let ground = ground.settled();
    assert_eq!(ground.tip("refs/heads/devloop/goal-1"), Some(contract.base), "it stays where it was made");
}

#[test]
fn checks_that_a_dead_owner_left_running_are_ended_before_they_run_again() {
    let ground = Ground::with(&json!([]), |config| config.acceptance = vec![vec!["true".into()]]);
    let (dispatch, commit) = (ground.next(), ground.head());
    let marker = run_record::marker(&ground.setting.armed, dispatch);
    let mut child = Command::new("sleep").arg("600").env(MARKER_VAR, &marker).spawn().unwrap();
    ground.performer.perform(Effect::Check {
        dispatch,
        epoch: 2,
        commit,
        contract: None,
        known_red: Vec::new(),
    });
    assert_eq!(ground.report(dispatch).outcome, Outcome::Checked(CheckOutcome::Green));
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn a_check_that_a_shutdown_interrupts_is_left_to_the_next_owner() {
    let mut ground = Ground::with(&json!([]), |config| {
        config.acceptance = vec![["sh", "-c", "test -e ../../go || sleep 600"].map(str::to_owned).to_vec()];
    });
    let (dispatch, commit) = (ground.next(), ground.head());
    let effect = Effect::Check { dispatch, epoch: 1, commit, contract: None, known_red: Vec::new() };
    ground.performer.perform(effect.clone());
    ground = ground.settled();
    assert!(ground.is_quiet() && ground.inbox().is_empty(), "nothing false is told");
    crate::ground::write(ground.setting.armed.folder().join("go"), "");
    ground.performer.perform(effect);
    assert_eq!(ground.report(dispatch).outcome, Outcome::Checked(CheckOutcome::Green));
}

#[test]
fn the_processes_of_a_dead_owners_run_are_ended_by_their_marker() {
    let ground = Ground::new(&json!([]));
    let dispatch = ground.next();
    let armed = &ground.setting.armed;
    let marker = run_record::marker(armed, dispatch);
    let record = RunRecord::new(dispatch, 1, Role::Work, marker.clone(), ground.head());
    record.write(&ground.setting.disk, armed).unwrap();
    let mut child = Command::new("sleep").arg("600").env(MARKER_VAR, &marker).spawn().unwrap();
    // A process that has just begun shows its environment a moment later than its id.
    while tree::find_by_marker(&marker).is_empty() {
        std::thread::yield_now();
    }
    ground.performer.perform(Effect::Cancel { dispatch });
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}
