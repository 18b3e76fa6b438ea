//! Bytes as the dice of a night: observations, reports, commands and faults on a state that follows from
//! them. Every reachable state keeps the invariants, folds its own events, and takes the answers it offers.

use devloop_core::apply::apply_line;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Input, decide};
use devloop_core::invariant;
use devloop_core::policy::Policy;
use devloop_core::question::open_questions;
use devloop_core::reason::Reason;
use devloop_core::render::progress;
use devloop_core::state::LoopState;
use devloop_testkit::random::{Inputs, Random};

use crate::state;

const MAX_INPUTS: usize = 200;

pub fn run(data: &[u8]) {
    let mut inputs = Inputs::of(Random::of_tape(data), data.len() % 2 == 1);
    let policy = inputs.policy();
    let mut state = LoopState::default();
    for _ in 0..MAX_INPUTS {
        if inputs.is_worn() {
            break;
        }
        let input = inputs.next(&state);
        tick(&mut state, &policy, &input);
        offered(&state, &policy, &input);
    }
    state::again(&state, None);
    assert!(!progress(&state, &policy, 1).is_empty());
}

/// Decides until nothing more is to be done; bounded by the size of the state.
fn tick(state: &mut LoopState, policy: &Policy, input: &Input) {
    let bound = 8 * (state.tasks.len() + 64) + 64;
    for _ in 0..bound {
        let decision = decide(state, policy, input);
        let says = !decision.events.is_empty() || !decision.effects.is_empty();
        assert!(says || decision.reason.is_final(), "a decision without an end: {:?}", decision.reason);
        assert!(decision.reason.sentence().ends_with('.'));
        if !decision.events.is_empty() {
            let before = state.revision;
            apply_line(state, &decision.events).expect("a decision folds");
            assert_eq!(state.revision, before + 1);
            assert_eq!(invariant::check(state), Ok(()), "after {:?}", decision.events);
        }
        if decision.reason.is_final() || matches!(input, Input::Command { .. }) {
            return;
        }
    }
    panic!("a tick of more than {bound} decisions");
}

/// An offered answer is an accepted answer.
fn offered(state: &LoopState, policy: &Policy, input: &Input) {
    let stamp = match input {
        Input::Observation(seen) => &seen.stamp,
        Input::Command { stamp, .. } => stamp,
    };
    for question in open_questions(state, policy, stamp.owner.instance) {
        assert!(!question.answers.is_empty(), "{} has no answer", question.key);
        for offer in &question.answers {
            let wish = Wish::Answer {
                answer: offer.answer,
                hold: Some(question.key.clone()),
                revision: Some(question.revision),
            };
            let command = Command { by: "page".into(), wish };
            let decision = decide(state, policy, &Input::Command { stamp: stamp.clone(), command });
            let taken = !matches!(decision.reason, Reason::Refused { .. });
            assert!(taken, "{} offers {:?}: {:?}", question.key, offer.answer, decision.reason);
            let mut then = state.clone();
            apply_line(&mut then, &decision.events).expect("an answer folds");
            assert_eq!(invariant::check(&then), Ok(()), "after {:?}", offer.answer);
        }
    }
}
