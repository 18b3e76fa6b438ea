//! Owns the counts of what nights reached: every reason, hold, circuit, answer, refusal, effect and end, and
//! the names of what none of them reached. It must not judge anything else.

use std::collections::BTreeMap;
use std::fmt::Write;

use devloop_core::answer::Answer;
use devloop_core::circuit::{Circuit, TABLE};
use devloop_core::decide::Decision;
use devloop_core::effect::Effect;
use devloop_core::event::Event;
use devloop_core::hold::HoldKind;
use devloop_core::observation::Observation;
use devloop_core::obstacle::Obstacle;
use devloop_core::policy::Policy;
use devloop_core::reason::{Reason, Refusal};
use devloop_core::state::LoopState;
use devloop_core::wait::obstacles;

/// Counts by name.
pub type Counts = BTreeMap<&'static str, u64>;

/// What was reached how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Nights.
    pub nights: u64,
    /// Steps.
    pub steps: u64,
    /// Decisions.
    pub decisions: u64,
    /// Journal lines.
    pub lines: u64,
    /// How nights ended before they calmed down.
    pub ends: Counts,
    /// What happened to the world.
    pub troubles: Counts,
    /// Reasons.
    pub reasons: Counts,
    /// Holds that opened.
    pub holds: Counts,
    /// Circuits that tripped.
    pub circuits: Counts,
    /// Answers that were given.
    pub answers: Counts,
    /// Refusals.
    pub refusals: Counts,
    /// Effects that were performed.
    pub effects: Counts,
}

/// Every kind of effect.
pub const EFFECTS: [&str; 14] = [
    "plan",
    "work",
    "review",
    "commit",
    "check",
    "merge",
    "refresh",
    "verify",
    "revert",
    "remove_worktree",
    "cancel",
    "create_target",
    "wake",
    "notify",
];

/// Every kind of refusal.
pub const REFUSALS: [&str; 15] = [
    "no_question",
    "no_such_hold",
    "stale",
    "reopened",
    "ambiguous",
    "not_offered",
    "unknown_task",
    "task_busy",
    "task_over",
    "bad_edit",
    "empty_edit",
    "already_paused",
    "goal_complete",
    "goal_not_complete",
    "not_started",
];

/// The name of an effect.
pub(super) fn effect(effect: &Effect) -> &'static str {
    use devloop_core::effect::Job;
    match effect {
        Effect::Dispatch { job: Job::Plan { .. }, .. } => "plan",
        Effect::Dispatch { job: Job::Work { .. }, .. } => "work",
        Effect::Dispatch { job: Job::Review { .. }, .. } => "review",
        Effect::Commit { .. } => "commit",
        Effect::Check { .. } => "check",
        Effect::Merge { .. } => "merge",
        Effect::Refresh { .. } => "refresh",
        Effect::Verify { .. } => "verify",
        Effect::Revert { .. } => "revert",
        Effect::RemoveWorktree { .. } => "remove_worktree",
        Effect::Cancel { .. } => "cancel",
        Effect::CreateTarget { .. } => "create_target",
        Effect::Wake => "wake",
        Effect::Notify { .. } => "notify",
    }
}

fn refusal(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::NoQuestion => "no_question",
        Refusal::NoSuchHold { .. } => "no_such_hold",
        Refusal::Stale { .. } => "stale",
        Refusal::Reopened { .. } => "reopened",
        Refusal::Ambiguous { .. } => "ambiguous",
        Refusal::NotOffered { .. } => "not_offered",
        Refusal::UnknownTask { .. } => "unknown_task",
        Refusal::TaskBusy { .. } => "task_busy",
        Refusal::TaskOver { .. } => "task_over",
        Refusal::BadEdit { .. } => "bad_edit",
        Refusal::EmptyEdit => "empty_edit",
        Refusal::AlreadyPaused => "already_paused",
        Refusal::GoalComplete => "goal_complete",
        Refusal::GoalNotComplete => "goal_not_complete",
        Refusal::NotStarted => "not_started",
    }
}

fn count(counts: &mut Counts, name: &'static str) {
    *counts.entry(name).or_default() += 1;
}

/// The circuits that a decision trips by itself.
fn trips(decision: &Decision) -> impl Iterator<Item = &'static str> {
    let over = matches!(decision.reason, Reason::DeadlinePassed { .. });
    let deadline = over.then(|| Circuit::DispatchDeadline.row().key);
    let opened = decision.events.iter().filter_map(|event| match event {
        Event::HoldOpened { hold, .. } => Some(hold.kind),
        _ => None,
    });
    let rows = opened.flat_map(|kind| TABLE.iter().filter(move |row| row.hold == Some(kind)));
    deadline.into_iter().chain(rows.map(|row| row.key))
}

/// The circuits that only make work wait, and do so in this state at this look.
#[must_use]
pub fn tripped(state: &LoopState, policy: &Policy, seen: &Observation) -> Vec<&'static str> {
    let full = state.slots_used() >= policy.limits.parallel_project.max(1);
    let circuit = |obstacle: &Obstacle| match obstacle {
        Obstacle::Slot if full => Some(Circuit::MaxParallelPerProject),
        Obstacle::Slot | Obstacle::SharedSlot => Some(Circuit::MaxParallelWorkers),
        Obstacle::Disk => Some(Circuit::DiskLow),
        _ => None,
    };
    let found = obstacles(state, policy, seen);
    found.iter().filter_map(|(_, obstacle)| circuit(obstacle)).map(|circuit| circuit.row().key).collect()
}

impl Coverage {
    /// Of a night that starts with this state: its questions are there before any decision.
    #[must_use]
    pub fn of(carried: Option<&LoopState>) -> Coverage {
        let mut seen = Coverage::default();
        let holds = carried.into_iter().flat_map(|state| state.open_holds());
        holds.for_each(|(_, hold)| count(&mut seen.holds, hold.kind.key()));
        seen
    }

    /// The end of a tick that waits. What was seen in this night already is not looked for again.
    pub fn waits(&mut self, state: &LoopState, policy: &Policy, seen: &Observation) {
        let waits = [Circuit::MaxParallelWorkers, Circuit::MaxParallelPerProject, Circuit::DiskLow];
        if waits.iter().any(|circuit| !self.circuits.contains_key(circuit.row().key)) {
            tripped(state, policy, seen).into_iter().for_each(|key| count(&mut self.circuits, key));
        }
    }

    /// One decision.
    pub fn decided(&mut self, decision: &Decision) {
        self.decisions += 1;
        count(&mut self.reasons, decision.reason.key());
        if let Reason::Refused(why) = &decision.reason {
            count(&mut self.refusals, refusal(why));
        }
        if let Reason::Answered { answer, .. } = &decision.reason {
            count(&mut self.answers, answer.word());
        }
        trips(decision).for_each(|key| count(&mut self.circuits, key));
        for event in &decision.events {
            if let Event::HoldOpened { hold, .. } = event {
                count(&mut self.holds, hold.kind.key());
            }
        }
    }

    /// One effect that is performed.
    pub fn performed(&mut self, performed: &Effect) {
        count(&mut self.effects, effect(performed));
    }

    /// Something happened to the world.
    pub fn trouble(&mut self, name: &'static str) {
        count(&mut self.troubles, name);
    }

    /// The end of a night's wild part.
    pub fn ended(&mut self, name: &'static str) {
        self.nights += 1;
        count(&mut self.ends, name);
    }

    /// Adds the counts of other nights.
    pub fn add(&mut self, other: &Coverage) {
        self.nights += other.nights;
        self.steps += other.steps;
        self.decisions += other.decisions;
        self.lines += other.lines;
        let pairs = [
            (&mut self.ends, &other.ends),
            (&mut self.troubles, &other.troubles),
            (&mut self.reasons, &other.reasons),
            (&mut self.holds, &other.holds),
            (&mut self.circuits, &other.circuits),
            (&mut self.answers, &other.answers),
            (&mut self.refusals, &other.refusals),
            (&mut self.effects, &other.effects),
        ];
        for (mine, theirs) in pairs {
            theirs.iter().for_each(|(name, n)| *mine.entry(name).or_default() += n);
        }
    }

    /// Names of a kind that were never reached.
    #[must_use]
    pub fn missing(&self) -> Vec<(&'static str, Vec<&'static str>)> {
        let holds: Vec<&str> = HoldKind::ALL.iter().map(|kind| kind.key()).collect();
        let answers: Vec<&str> = Answer::ALL.iter().map(|answer| answer.word()).collect();
        let lists = [
            ("reason", Reason::KEYS.to_vec(), &self.reasons),
            ("hold", holds, &self.holds),
            ("circuit", TABLE.iter().map(|row| row.key).collect(), &self.circuits),
            ("answer", answers, &self.answers),
            ("refusal", REFUSALS.to_vec(), &self.refusals),
            ("effect", EFFECTS.to_vec(), &self.effects),
        ];
        let unreached = |(kind, all, reached): (&'static str, Vec<&'static str>, &Counts)| {
            let left: Vec<&str> = all.into_iter().filter(|name| !reached.contains_key(name)).collect();
            (!left.is_empty()).then_some((kind, left))
        };
        lists.into_iter().filter_map(unreached).collect()
    }

    /// The table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!(
            "nights {}, steps {}, decisions {}, journal lines {}\n",
            self.nights, self.steps, self.decisions, self.lines
        );
        let rows = [
            ("end", &self.ends),
            ("trouble", &self.troubles),
            ("reason", &self.reasons),
            ("hold", &self.holds),
            ("circuit", &self.circuits),
            ("answer", &self.answers),
            ("refusal", &self.refusals),
            ("effect", &self.effects),
        ];
        for (kind, counts) in rows {
            let words: Vec<String> = counts.iter().map(|(name, n)| format!("{name} {n}")).collect();
            let _ = writeln!(text, "{kind:<8} {}", words.join(", "));
        }
        for (kind, names) in self.missing() {
            let _ = writeln!(text, "never reached: {kind} {}", names.join(", "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_reached_is_named() {
        let mut seen = Coverage::default();
        let halted = Decision { events: Vec::new(), effects: Vec::new(), reason: Reason::Halted };
        seen.decided(&halted);
        let missing = seen.missing();
        let reasons = &missing.iter().find(|(kind, _)| *kind == "reason").expect("reasons").1;
        assert_eq!(reasons.len(), Reason::KEYS.len() - 1);
        assert!(!reasons.contains(&"halted"));
        let mut twice = seen.clone();
        twice.add(&seen);
        assert_eq!((twice.decisions, twice.reasons["halted"]), (2, 2));
    }
}
