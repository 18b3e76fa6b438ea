//! "Would it help?": the wish is applied to a copy and decided on, by the very code that would decide.

use alloc::vec::Vec;

use crate::apply::apply_line;
use crate::command::Command;
use crate::decide::{Input, decide};
use crate::hold::HoldKey;
use crate::observation::Observation;
use crate::policy::Policy;
use crate::reason::{Reason, Refusal};
use crate::state::LoopState;

data! {
    /// What a wish would lead to.
    pub struct Outlook {
        /// Why it would not be accepted.
        pub refused: Option<Refusal>,
        /// Holds that are open now and would no longer be.
        pub cleared: Vec<HoldKey>,
        /// Holds that would be open.
        pub open: Vec<HoldKey>,
        /// What the loop would answer at the end of its next tick.
        pub reason: Reason,
    }
}

impl Outlook {
    /// Whether the loop would move.
    #[must_use]
    pub fn helps(&self) -> bool {
        self.refused.is_none() && !matches!(self.reason, Reason::Halted | Reason::StillPaused)
    }
}

/// The most decisions one tick may take.
#[must_use]
pub fn max_decisions(state: &LoopState, policy: &Policy) -> usize {
    let slots = usize::try_from(policy.limits.parallel_project).unwrap_or(usize::MAX / 8);
    4usize.saturating_mul(state.tasks.len().saturating_add(slots)).saturating_add(16)
}

/// Looks at what the loop would do next, with a wish or without.
#[must_use]
pub fn outlook(state: &LoopState, policy: &Policy, seen: &Observation, wish: Option<&Command>) -> Outlook {
    let before = keys(state);
    let mut copy = state.clone();
    let mut refused = None;
    if let Some(command) = wish {
        let input = Input::Command { stamp: seen.stamp.clone(), command: command.clone() };
        let decision = decide(&copy, policy, &input);
        match decision.reason {
            Reason::Refused(refusal) => refused = Some(refusal),
            _ if apply_line(&mut copy, &decision.events).is_err() => copy = state.clone(),
            _ => {}
        }
    }
    let reason = settle_down(&mut copy, policy, seen);
    let open = keys(&copy);
    let cleared = before.into_iter().filter(|key| !open.contains(key)).collect();
    Outlook { refused, cleared, open, reason }
}

/// Decides until the tick would be over.
fn settle_down(copy: &mut LoopState, policy: &Policy, seen: &Observation) -> Reason {
    let input = Input::Observation(seen.clone());
    let mut last = Reason::Halted;
    for _ in 0..max_decisions(copy, policy) {
        let decision = decide(copy, policy, &input);
        last = decision.reason;
        if last.is_final() || apply_line(copy, &decision.events).is_err() {
            break;
        }
    }
    last
}

fn keys(state: &LoopState) -> Vec<HoldKey> {
    let open = state.open_holds().into_iter();
    open.map(|(subject, hold)| HoldKey { subject, kind: hold.kind }).collect()
}
