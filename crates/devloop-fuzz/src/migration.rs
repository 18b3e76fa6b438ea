//! Any bytes as the files of version 1, a line each: STATE.json, PENDING_HOLD, and all others EVENTS.jsonl.
//! What is migrated keeps the invariants and its proofs, and a loop can be opened on it.

use devloop_bridge::Session;
use devloop_core::decide::Input;
use devloop_core::invariant;
use devloop_core::review::ReviewedHead;
use devloop_core::state::LoopState;
use devloop_core::task::{ResumeTo, Stage};
use devloop_testkit::random::Inputs;
use devloop_wire::migrate::{OldFiles, Present, migrate};
use devloop_wire::{digest_bytes, policy_doc, state_doc};

use crate::{refusal, state};

pub fn run(data: &[u8]) {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let mut next = || lines.next().filter(|line| !line.is_empty());
    let files = OldFiles { state: next(), pending_hold: next(), events: next(), commit_hold: None };
    let files = OldFiles { commit_hold: files.state.filter(|text| text.len() < 70), ..files };
    match migrate(&files, &Present::default()) {
        Ok(state) => judge(&state),
        Err(error) => {
            let is_marker = error.document.starts_with("PENDING_HOLD");
            refusal::judge(
                &error,
                if is_marker { files.pending_hold } else { files.state }.unwrap_or_default(),
            );
        }
    }
    let present = Present { goal: Some(digest_bytes(b"goal")), branch: None };
    if let Ok(state) = migrate(&files, &present) {
        judge(&state);
    }
}

fn judge(state: &LoopState) {
    assert_eq!(invariant::check(state), Ok(()));
    state::again(state, None);
    for task in state.tasks.iter() {
        if let Some(reviewed) = passed(&task.stage) {
            // A pass is proof only with both commits and two people.
            assert_eq!(
                (Some(reviewed.head()), Some(reviewed.base())),
                (task.tip.as_ref(), task.base.as_ref())
            );
            assert!(!task.implementers.is_empty() && !task.implementers.contains(reviewed.reviewer()));
        }
    }
    assert!(state.leases.is_empty(), "nothing of old still runs");
    goes_on(state);
}

fn passed(stage: &Stage) -> Option<&ReviewedHead> {
    match stage {
        Stage::MergeReady(reviewed) | Stage::Held { resume_to: ResumeTo::MergeReady(reviewed), .. } => {
            Some(reviewed)
        }
        _ => None,
    }
}

/// A loop opens on it and decides until it waits or asks.
fn goes_on(state: &LoopState) {
    let mut inputs = Inputs::new(2);
    let policy = policy_doc::policy_bytes(&inputs.policy());
    let mut session = Session::open(&state_doc::write(state), &policy).expect("a migrated state opens");
    let input = loop {
        if let input @ Input::Observation(_) = inputs.next(state) {
            break input;
        }
    };
    for _ in 0..4 * (state.tasks.len() + 8) + 16 {
        let decision = session.decide(&input).expect("a migrated state is decided on");
        assert_eq!(invariant::check(session.latest()), Ok(()));
        if decision.reason.is_final() {
            break;
        }
    }
}
