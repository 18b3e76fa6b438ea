//! Owns what only the world can know of a loop's promises: who really wrote and passed a commit, what was
//! started, merged and paid. It folds the committed lines on its own and must not share the loop's memory.

use std::collections::{BTreeMap, BTreeSet};

use devloop_core::apply::apply_line;
use devloop_core::circuit::{Circuit, grants, loop_caps, task_cap};
use devloop_core::event::Event;
use devloop_core::hold::{HoldKind, Subject};
use devloop_core::ids::{DispatchId, Identity, Oid, TaskId};
use devloop_core::invariant;
use devloop_core::observation::Others;
use devloop_core::paths::lists_overlap;
use devloop_core::policy::Policy;
use devloop_core::state::{LoopState, Op};
use devloop_core::task::{Done, Stage, Task};
use devloop_core::units::UsdMicros;
use devloop_wire::event_line::EventLine;

/// A promise that was broken: which one, and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The promise, by the name in docs/INVARIANTS.md or by a word.
    pub rule: &'static str,
    /// What was seen.
    pub what: String,
}

impl Broken {
    /// Broken promises of one kind read the same up to numbers.
    #[must_use]
    pub fn kind(&self) -> String {
        let words: String = self.what.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
        format!("{}: {words}", self.rule)
    }

    /// A broken promise.
    pub fn new(rule: &'static str, what: impl Into<String>) -> Broken {
        Broken { rule, what: what.into() }
    }
}

/// Nothing, or a broken promise.
pub type Kept = Result<(), Broken>;

/// The world's own memory.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// What the committed lines fold to.
    pub shadow: LoopState,
    started: BTreeMap<DispatchId, Option<Identity>>,
    passes: BTreeSet<(Oid, Option<Identity>)>,
    authors: BTreeMap<Oid, BTreeSet<Identity>>,
    starts: BTreeMap<DispatchId, Option<Oid>>,
    brings: BTreeMap<Oid, Oid>,
    merged: BTreeSet<TaskId>,
    accepted: BTreeSet<TaskId>,
    measured: BTreeMap<DispatchId, UsdMicros>,
    found: Option<Broken>,
}

impl Audit {
    /// What the world knows of a state that was carried over: who wrote what is there.
    #[must_use]
    pub fn carried(shadow: LoopState) -> Audit {
        let written = shadow.tasks.iter().filter_map(|task| Some((task.tip.clone()?, task)));
        let authors = written.map(|(tip, task)| (tip, task.implementers.clone())).collect();
        Audit { shadow, authors, ..Audit::default() }
    }

    /// Remembers a broken promise that was seen while something ran.
    pub fn fault(&mut self, rule: &'static str, what: String) {
        self.found.get_or_insert(Broken { rule, what });
    }

    /// What was found while something ran.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn so_far(&self) -> Kept {
        self.found.clone().map_or(Ok(()), Err)
    }

    /// A model is started.
    pub fn starts(&mut self, dispatch: DispatchId, who: Option<Identity>, from: Option<Oid>) {
        if self.started.insert(dispatch, who).is_some() {
            self.fault("I6", format!("the model of {dispatch} was started twice"));
        }
        self.starts.insert(dispatch, from);
    }

    /// Whose work a dispatch is.
    #[must_use]
    pub fn identity_of(&self, dispatch: DispatchId) -> Option<Identity> {
        self.started.get(&dispatch).cloned().flatten()
    }

    /// A reviewer passed a commit.
    pub fn passed(&mut self, head: &Oid, who: Option<Identity>) {
        self.passes.insert((head.clone(), who));
    }

    /// A commit holds the work of a dispatch and what that started from.
    pub fn wrote(&mut self, head: &Oid, _task: &TaskId, work: DispatchId, who: Option<Identity>) {
        let from = self.starts.get(&work).cloned().flatten();
        let mut authors = from.and_then(|from| self.authors.get(&from).cloned()).unwrap_or_default();
        authors.extend(who);
        self.authors.insert(head.clone(), authors);
    }

    /// A commit holds the work of another one.
    pub fn derived(&mut self, head: &Oid, old: &Oid) {
        let authors = self.authors.get(old).cloned().unwrap_or_default();
        self.authors.insert(head.clone(), authors);
    }

    /// A merge brought a head.
    pub fn published(&mut self, merge: &Oid, head: &Oid) {
        self.brings.insert(merge.clone(), head.clone());
    }

    /// A commit holds again what a merge had brought.
    pub fn reapplied(&mut self, head: &Oid, merge: &Oid) {
        if let Some(old) = self.brings.get(merge).cloned() {
            self.derived(head, &old);
        }
    }

    /// A report of money reached the loop.
    pub fn told(&mut self, dispatch: DispatchId, cost: UsdMicros) {
        self.measured.entry(dispatch).or_insert(cost);
    }

    /// Folds one committed line and checks what it claims.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn line(&mut self, line: &EventLine, policy: &Policy, others: Option<&Others>) -> Kept {
        if line.revision != self.shadow.revision + 1 {
            let what = format!("revision {} behind {}", line.revision, self.shadow.revision);
            return Err(Broken::new("I4", what));
        }
        let before = self.shadow.next_dispatch;
        apply_line(&mut self.shadow, &line.events).map_err(|e| Broken::new("fold", e.to_string()))?;
        invariant::check(&self.shadow).map_err(|broken| {
            let what = format!("{broken} at revision {} by {}", line.revision, line.reason.sentence());
            Broken::new("state", what)
        })?;
        line.events.iter().try_for_each(|event| self.event(event))?;
        self.done_tasks()?;
        if self.shadow.next_dispatch > before {
            self.caps(policy, others, before)?;
            self.overlaps(before)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Kept {
        match event {
            Event::ReviewPassed { task, head, reviewer, .. } => {
                if !self.passes.contains(&(head.clone(), Some(reviewer.clone()))) {
                    return Err(Broken::new("I7", format!("nobody passed {head} of {task} as {reviewer}")));
                }
                if self.authors.get(head).is_some_and(|authors| authors.contains(reviewer)) {
                    return Err(Broken::new("I8", format!("{reviewer} wrote and passed {head} of {task}")));
                }
            }
            Event::Merged { task, commit } => {
                let head = self.brings.get(commit);
                let passed = head.is_some_and(|head| self.passes.iter().any(|(passed, _)| passed == head));
                if !passed {
                    return Err(Broken::new("I7", format!("{task} was merged as {commit} without a pass")));
                }
                self.merged.insert(task.clone());
            }
            Event::MergedElsewhere { task, .. } => {
                self.merged.insert(task.clone());
            }
            Event::TaskAccepted { task } => {
                self.accepted.insert(task.clone());
            }
            Event::HoldOpened { hold, .. } if hold.kind.is_carried_over() => {
                return Err(Broken::new("carried", format!("a decision opens {}", hold.kind)));
            }
            Event::GoalArchived => {
                self.merged.clear();
                self.accepted.clear();
            }
            _ => {}
        }
        Ok(())
    }

    /// I7 in the other direction: what is done was merged or accepted.
    fn done_tasks(&self) -> Kept {
        let claims = |task: &&devloop_core::task::Task| match &task.stage {
            devloop_core::task::Stage::Done(Done::Accepted) => !self.accepted.contains(&task.id),
            devloop_core::task::Stage::Done(_) => !self.merged.contains(&task.id),
            _ => false,
        };
        match self.shadow.tasks.iter().find(claims) {
            Some(task) => Err(Broken::new("I7", format!("{} is done without merge or accept", task.id))),
            None => Ok(()),
        }
    }

    /// I11: whatever was just set aside fits every cap.
    fn caps(&self, policy: &Policy, others: Option<&Others>, from: u64) -> Kept {
        for (dispatch, lease) in self.shadow.leases.range(DispatchId(from)..) {
            if !lease.op.is_model() {
                continue;
            }
            let state = &self.shadow;
            let mut caps = loop_caps(state, &policy.limits, lease.owner.instance);
            if let Subject::Task(id) = &lease.subject
                && let Some(task) = state.tasks.get(id)
            {
                caps.extend(task_cap(state, &policy.limits, task));
            }
            for cap in caps {
                if cap.spend.committed() > cap.limit {
                    let (key, sum) = (cap.circuit.row().key, cap.spend.committed().0);
                    let what = format!("{dispatch} leads to {sum} of {} in {key}", cap.limit.0);
                    return Err(Broken::new("I11", what));
                }
            }
            let widened = 1 + grants(state, HoldKind::AllProjectsDailyCap, lease.owner.instance);
            let limit = policy.limits.cost_day_all_projects.0.saturating_mul(widened);
            let elsewhere = others.map_or(0, |others| others.committed_today.0);
            let sum = state.ledger.day(state.clock.day).committed().0 + elsewhere;
            if sum > limit {
                let key = Circuit::AllProjectsDailyCap.row().key;
                return Err(Broken::new("I11", format!("{dispatch} leads to {sum} of {limit} in {key}")));
            }
            let slots = others.map_or(0, |others| others.slots);
            let (own, limits) = (state.slots_used(), &policy.limits);
            if own > limits.parallel_project || own + slots > limits.parallel_process {
                return Err(Broken::new("slots", format!("{dispatch} is worker {own} beside {slots}")));
            }
        }
        Ok(())
    }

    /// Of tasks whose paths could meet only one is worked on at a time.
    ///
    /// # Errors
    /// The two that work at once.
    fn overlaps(&self, from: u64) -> Kept {
        for (_, lease) in self.shadow.leases.range(DispatchId(from)..) {
            let (Op::Work, Subject::Task(id)) = (lease.op, &lease.subject) else { continue };
            let Some(task) = self.shadow.tasks.get(id) else { continue };
            let working = |other: &&Task| other.id != *id && matches!(other.stage, Stage::Working(_));
            let meets = |other: &Task| lists_overlap(&other.allowed_paths, &task.allowed_paths);
            if let Some(other) = self.shadow.tasks.iter().filter(working).find(|other| meets(other)) {
                return Err(Broken::new("overlap", format!("{id} and {} work at once", other.id)));
            }
        }
        Ok(())
    }

    /// Money that was told is booked, and stands as the first one told.
    ///
    /// # Errors
    /// The first dispatch whose money is not there.
    pub fn money_is_kept(&self) -> Kept {
        for (dispatch, cost) in &self.measured {
            let ledger = &self.shadow.ledger;
            let name = dispatch.to_string();
            let booked = ledger.entries.get(dispatch).map(|entry| entry.amount);
            let booked = booked.or_else(|| ledger.unattributed.get(&name).map(|foreign| foreign.amount));
            let archived = ledger.archived.spent().0 > 0 || self.shadow.goal.number > 1;
            match booked {
                Some(amount) if amount != *cost => {
                    let what = format!("{dispatch} told {} and {} is booked", cost.0, amount.0);
                    return Err(Broken::new("money", what));
                }
                None if !archived && cost.0 > 0 => {
                    return Err(Broken::new(
                        "money",
                        format!("{dispatch} told {}, nothing is booked", cost.0),
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{World, oid, policy, two};
    use devloop_core::policy::Backend;
    use devloop_core::reason::Reason;
    use devloop_core::units::WallMs;

    fn line(revision: u64, events: Vec<Event>) -> EventLine {
        let chain = devloop_core::ids::Digest::parse(&"0".repeat(64)).expect("64 hex digits");
        EventLine { v: 2, revision, at: WallMs(1), by: "t".into(), reason: Reason::ClockMoved, events, chain }
    }

    fn rule(kept: Kept) -> &'static str {
        kept.expect_err("a broken promise").rule
    }

    #[test]
    fn each_promise_that_only_the_world_can_check_is_seen_to_break() {
        let rules = policy(Backend::Scripted);
        let mut audit = Audit::default();
        assert_eq!(rule(audit.line(&line(2, Vec::new()), &rules, None)), "I4");

        audit.starts(DispatchId(1), None, None);
        assert_eq!(audit.so_far(), Ok(()));
        audit.starts(DispatchId(1), None, None);
        assert_eq!(rule(audit.so_far()), "I6");

        let mut night = World::new(two(), rules.clone());
        night.run();
        let task = TaskId::parse("a").expect("an id");
        let done = Audit { shadow: night.state.clone(), ..Audit::default() };
        let mut again = done.clone();
        let merged = vec![Event::Merged { task, commit: oid(9) }];
        assert_eq!(rule(again.line(&line(night.state.revision + 1, merged), &rules, None)), "I7");
        assert_eq!(rule(done.done_tasks()), "I7", "done, and nobody merged or accepted it");

        let mut paid = done;
        paid.told(DispatchId(1), UsdMicros(50_000));
        assert_eq!(paid.money_is_kept(), Ok(()));
        paid.told(DispatchId(77), UsdMicros(5));
        assert_eq!(rule(paid.money_is_kept()), "money");
    }
}
