//! What the comparing tests share: one tick on any machine, and a recording of it.

use devloop_bridge::Step;
use devloop_core::decide::{Decision, Input};
use devloop_core::event::Event;
use devloop_host::machine::{Machine, Native};

/// More decisions than a tick of these small loops ever takes.
pub const MAX_DECISIONS: usize = 2_000;

/// Decides until the reason is final and adopts the tick.
pub fn tick(machine: &mut dyn Machine, input: &Input) -> Vec<Decision> {
    let mut decisions = Vec::new();
    loop {
        let decision = machine.decide(input).expect("decides");
        let over = decision.reason.is_final() || matches!(input, Input::Command { .. });
        decisions.push(decision);
        assert!(decisions.len() < MAX_DECISIONS, "the tick does not end: {:?}", decisions.last());
        if over {
            return decisions;
        }
    }
}

/// The journal lines of a tick.
pub fn lines(decisions: &[Decision]) -> Vec<Vec<Event>> {
    decisions.iter().map(|decision| decision.events.clone()).filter(|line| !line.is_empty()).collect()
}

/// The steps that decide a tick anew.
pub fn steps(input: &Input, decisions: &[Decision]) -> Vec<Step> {
    decisions.iter().map(|_| Step::Decide(input.clone())).collect()
}

/// A native machine with a fresh project.
pub fn native(state: &[u8], policy: &[u8]) -> Native {
    let mut machine = Native::new();
    machine.open(state, policy).expect("opens");
    machine
}

/// A decision as bytes, so that equal means equal to the last digit.
pub fn bytes(decisions: &[Decision]) -> Vec<u8> {
    devloop_wire::canonical(&decisions)
}
