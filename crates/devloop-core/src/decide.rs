//! The decision order: total, pure, first match wins, called again until it answers with a wait or a halt.

mod finish;
mod goal;
mod start;
mod target;
mod withdraw;

use alloc::vec::Vec;

use crate::command::Command;
use crate::draft::{Draft, View};
use crate::effect::Effect;
use crate::event::Event;
use crate::hold::HoldKey;
use crate::observation::{GoalSeen, Observation, Stamp};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::settle::{lift_caps, settle};
use crate::state::{LoopState, Phase, Planning};
use crate::task::Task;
use crate::{clock, operate, recovery, wait};

pub(crate) use finish::merge_obstacle;
pub use goal::GOAL_AGREES_MS;
pub(crate) use start::needs_base_check;

data! {
    /// What was decided.
    pub struct Decision {
        /// What is recorded, in order; one journal line, none when empty.
        pub events: Vec<Event>,
        /// What the host does after the line is durable.
        pub effects: Vec<Effect>,
        /// Why.
        pub reason: Reason,
    }

    /// What a decision is made on.
    pub enum Input {
        /// A look at the world.
        Observation(Observation),
        /// An operator's wish, made by the process of the stamp.
        Command {
            /// Who and when.
            stamp: Stamp,
            /// What.
            command: Command,
        },
    }
}

/// Decides. Total: every state, policy and input has an answer.
#[must_use]
pub fn decide(state: &LoopState, policy: &Policy, input: &Input) -> Decision {
    let bounded = crate::bounded::bounded(input);
    match bounded.as_ref().unwrap_or(input) {
        Input::Observation(seen) => observe(state, policy, seen),
        Input::Command { stamp, command } => operate::operate(&View::new(state, policy, stamp), command),
    }
}

fn observe(state: &LoopState, policy: &Policy, seen: &Observation) -> Decision {
    let view = View::new(state, policy, &seen.stamp);
    if !matches!(seen.goal, GoalSeen::Present(_)) && state.goal.number == 0 {
        return Draft::default().done(Reason::Unarmed);
    }
    let settled = clock::observe(&view)
        .or_else(|| settle(&view, seen))
        .or_else(|| recovery::recover(&view, seen))
        .or_else(|| policy_changed(&view));
    if let Some(decision) = settled {
        return decision;
    }
    match &state.phase {
        Phase::Paused { .. } => return wait::ending(&view).done(Reason::StillPaused),
        Phase::Complete { .. } => return wait::ending(&view).done(Reason::StillComplete),
        Phase::Active => {}
    }
    if seen.goal == GoalSeen::Absent {
        return Draft::default().done(Reason::Unarmed);
    }
    goal::goal(&view, seen)
        .or_else(|| target::target(&view, seen))
        .or_else(|| withdraw::withdraw(&view, seen))
        .or_else(|| finish::finish(&view, seen))
        .or_else(|| start::plan(&view, seen))
        .or_else(|| start::work(&view, seen))
        .or_else(|| complete(&view))
        .unwrap_or_else(|| wait::wait(&view, seen))
}

fn policy_changed(view: &View<'_>) -> Option<Decision> {
    if view.state.policy.as_ref() == Some(&view.policy.digest) {
        return None;
    }
    let mut draft = Draft::of(alloc::vec![Event::PolicyChanged { digest: view.policy.digest.clone() }]);
    draft.events.extend(lift_caps(view));
    Some(draft.done(Reason::PolicyChanged))
}

/// Every live task is done: the goal is reached, whatever the caps say.
fn complete(view: &View<'_>) -> Option<Decision> {
    let idle = matches!(view.state.planning, Planning::Idle) && view.state.leases.is_empty();
    if !idle || view.state.tasks.open().len() > 0 || !view.state.tasks.iter().any(Task::is_live) {
        return None;
    }
    let event = Event::GoalCompleted { at: view.now.wall };
    Some(Draft::of(alloc::vec![event]).done(Reason::GoalReached))
}

/// Opens a hold that is not open yet.
fn open(view: &View<'_>, key: HoldKey, detail: &str) -> Option<Decision> {
    if view.state.hold(&key).is_some() {
        return None;
    }
    let mut draft = Draft::default();
    draft.hold(view, key.clone(), detail, &[], None);
    Some(draft.done(Reason::Held { key }))
}
