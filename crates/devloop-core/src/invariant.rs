//! What every written state fulfils, as one check. It reads only: it repairs nothing and decides nothing.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::hold::{HoldKey, Subject};
use crate::ids::{DispatchId, Oid, RouteKey, TaskId};
use crate::ledger::Certainty;
use crate::review::ReviewedHead;
use crate::state::{Gate, Lease, LoopState, Op, Phase, Planning};
use crate::task::{ResumeTo, ReviewRun, Stage, Task};
use crate::units::Map;

mod bounds;
#[cfg(test)]
mod tests;

pub use bounds::{MAX_GRANTS, check as sizes, event as sizes_of};

/// The first rule that a state breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A stage, or planning, names a dispatch that has no lease.
    MissingLease(DispatchId),
    /// A lease does not belong to what names it, or nothing names it though it was not asked to end.
    WrongLease(DispatchId),
    /// Two leases that were not asked to end have one subject.
    TwoLeases(Subject),
    /// A second merge, verification or revert goes on.
    TwoMerges(DispatchId),
    /// A lease that runs a model has no route, or no such entry in the ledger.
    NoEntry(DispatchId),
    /// A lease of a model or of a commit does not say whose work it is, or another one does.
    Nobody(DispatchId),
    /// Money is set aside for a dispatch that has no lease.
    StrayReserve(DispatchId),
    /// A dispatch id is not below the next one.
    DispatchAhead(DispatchId),
    /// A stage names a commit that is not the task's last host commit, or a base that is not its base.
    WrongHead(TaskId),
    /// Whoever passed the task had worked on it.
    SameIdentity(TaskId),
    /// Planning is held without a hold, or has a hold without being held.
    PlanningHold,
    /// A route is closed until a person opens it, and no hold asks one.
    ClosedRoute(RouteKey),
    /// Two holds have one name.
    DuplicateHold(HoldKey),
    /// A task's hold lies among the loop's.
    MisplacedHold(HoldKey),
    /// Two findings of a task have one name, or one that was never given.
    FindingName(TaskId),
    /// A task depends on one that does not exist.
    UnknownDependency(TaskId),
    /// Tasks depend on each other in a circle; this is one of them, or waits for them.
    Cycle(TaskId),
    /// The goal is complete and this task is neither done nor dropped.
    OpenTask(TaskId),
    /// Money is booked on a day after the current one.
    DayAhead,
    /// A day waits to be confirmed that is the current one.
    PendingDay,
    /// A list is longer than its limit.
    TooMany(&'static str),
    /// A text is longer than [`crate::task::MAX_TEXT`] characters.
    TextTooLong(&'static str),
    /// A number is above [`crate::units::MAX_NUMBER`].
    NumberTooLarge(&'static str),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::MissingLease(d) => write!(f, "dispatch {d} is named but has no lease"),
            Violation::WrongLease(d) => write!(f, "the lease of {d} does not belong to what names it"),
            Violation::TwoLeases(subject) => write!(f, "{subject} has two leases"),
            Violation::TwoMerges(d) => write!(f, "{d} is a second merge, verification or revert"),
            Violation::NoEntry(d) => write!(f, "{d} runs a model without a ledger entry"),
            Violation::Nobody(d) => write!(f, "{d} does not agree with whose work it is"),
            Violation::StrayReserve(d) => write!(f, "money is set aside for {d}, which has no lease"),
            Violation::DispatchAhead(d) => write!(f, "{d} is not below the next dispatch id"),
            Violation::WrongHead(task) => {
                write!(f, "the stage of task {task} names another commit than its own")
            }
            Violation::SameIdentity(task) => write!(f, "task {task} was passed by somebody who worked on it"),
            Violation::PlanningHold => f.write_str("planning and its hold do not agree"),
            Violation::ClosedRoute(route) => write!(f, "route {route} is closed and no hold asks to open it"),
            Violation::DuplicateHold(key) => write!(f, "hold {key} stands twice"),
            Violation::MisplacedHold(key) => write!(f, "hold {key} lies among the loop's"),
            Violation::FindingName(task) => {
                write!(f, "a finding of task {task} has the name of another, or one that was never given")
            }
            Violation::UnknownDependency(task) => write!(f, "task {task} depends on one that does not exist"),
            Violation::Cycle(task) => {
                write!(f, "task {task} is in a circle of dependencies, or waits for one")
            }
            Violation::OpenTask(task) => write!(f, "the goal is complete but task {task} is not"),
            Violation::DayAhead => f.write_str("money is booked on a day to come"),
            Violation::PendingDay => f.write_str("the current day waits to be confirmed"),
            Violation::TooMany(field) | Violation::TextTooLong(field) | Violation::NumberTooLarge(field) => {
                write!(f, "{}: {field}", self.size().map_or("", |(_, rule)| rule))
            }
        }
    }
}

impl Violation {
    /// For something too large: the path of the field, and the rule without it.
    #[must_use]
    pub fn size(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Violation::TooMany(field) => Some((field, "there are too many")),
            Violation::TextTooLong(field) => Some((field, "a text is too long")),
            Violation::NumberTooLarge(field) => Some((field, "a number is above 2^53 - 1")),
            _ => None,
        }
    }
}

impl core::error::Error for Violation {}

type Checked = Result<(), Violation>;

/// Checks every rule, in linear time but for a logarithm.
///
/// # Errors
/// The first [`Violation`].
pub fn check(state: &LoopState) -> Checked {
    leases(state)?;
    planning(state)?;
    state.tasks.iter().try_for_each(|task| of_task(state, task))?;
    holds(state)?;
    dependencies(state)?;
    money(state)?;
    bounds::check(state)
}

fn ensure(holds: bool, violation: impl FnOnce() -> Violation) -> Checked {
    if holds { Ok(()) } else { Err(violation()) }
}

/// A lease that was asked to end may have lost its task to a replan or a drop; its subject names every other
/// one.
fn leases(state: &LoopState) -> Checked {
    let mut live: BTreeSet<&Subject> = BTreeSet::new();
    let mut merging = false;
    for (id, lease) in &state.leases {
        ensure(id.0 < state.next_dispatch, || Violation::DispatchAhead(*id))?;
        ensure(belongs(lease), || Violation::WrongLease(*id))?;
        let done_by_somebody = lease.op.is_model() || lease.op == Op::Commit;
        ensure(lease.who.is_some() == done_by_somebody, || Violation::Nobody(*id))?;
        if lease.op.is_model() {
            let booked = state.ledger.entries.get(id).is_some_and(|entry| entry.op == lease.op);
            ensure(booked && lease.route.is_some(), || Violation::NoEntry(*id))?;
        }
        if lease.ending.is_some() {
            continue;
        }
        ensure(live.insert(&lease.subject), || Violation::TwoLeases(lease.subject.clone()))?;
        ensure(is_named(state, *id, lease), || Violation::WrongLease(*id))?;
        if matches!(lease.op, Op::Merge | Op::Verify | Op::Revert) {
            ensure(!merging, || Violation::TwoMerges(*id))?;
            merging = true;
        }
    }
    Ok(())
}

/// Whether the operation is possible on the subject at all.
fn belongs(lease: &Lease) -> bool {
    match (&lease.subject, lease.op) {
        (Subject::Planning, op) => op == Op::Plan,
        (Subject::Target, op) => op == Op::Check,
        (Subject::Task(_), op) => op != Op::Plan,
        (Subject::Route(_) | Subject::Goal | Subject::Loop, _) => false,
    }
}

fn is_named(state: &LoopState, id: DispatchId, lease: &Lease) -> bool {
    match &lease.subject {
        Subject::Task(task) => state.tasks.get(task).is_some_and(|task| task.dispatch() == Some(id)),
        Subject::Planning => matches!(&state.planning, Planning::Working { dispatch, .. } if *dispatch == id),
        Subject::Target => true,
        Subject::Route(_) | Subject::Goal | Subject::Loop => false,
    }
}

fn planning(state: &LoopState) -> Checked {
    if let Planning::Working { dispatch, .. } = &state.planning {
        let lease = state.leases.get(dispatch).ok_or(Violation::MissingLease(*dispatch))?;
        ensure(lease.subject == Subject::Planning, || Violation::WrongLease(*dispatch))?;
    }
    let is_held = matches!(state.planning, Planning::Held { .. });
    ensure(is_held == state.is_held(&Subject::Planning), || Violation::PlanningHold)
}

/// The operation that a stage stands for while it names a dispatch.
fn op_of(stage: &Stage) -> Option<Op> {
    match stage {
        Stage::Working(_) => Some(Op::Work),
        Stage::Committing(_) => Some(Op::Commit),
        Stage::Checking(_) => Some(Op::Check),
        Stage::InReview(ReviewRun::Dispatch(_)) => Some(Op::Review),
        Stage::Merging(..) => Some(Op::Merge),
        Stage::Refreshing(_) => Some(Op::Refresh),
        Stage::Verifying(_) => Some(Op::Verify),
        Stage::Reverting(_) => Some(Op::Revert),
        Stage::Ready
        | Stage::Committed { .. }
        | Stage::AwaitingReview { .. }
        | Stage::InReview(ReviewRun::Forge { .. })
        | Stage::Rework { .. }
        | Stage::MergeReady(_)
        | Stage::Replanning
        | Stage::Held { .. }
        | Stage::Done(_)
        | Stage::Dropped { .. } => None,
    }
}

fn of_task(state: &LoopState, task: &Task) -> Checked {
    if let Some(id) = task.dispatch() {
        let lease = state.leases.get(&id).ok_or(Violation::MissingLease(id))?;
        let own = lease.subject == Subject::Task(task.id.clone()) && Some(lease.op) == op_of(&task.stage);
        ensure(own, || Violation::WrongLease(id))?;
    }
    let over = task.is_done() || !task.is_live();
    let complete = matches!(state.phase, Phase::Complete { .. });
    ensure(over || !complete, || Violation::OpenTask(task.id.clone()))?;
    match &task.stage {
        Stage::Committed { head }
        | Stage::AwaitingReview { head }
        | Stage::InReview(ReviewRun::Forge { head, .. }) => own_head(task, head),
        Stage::MergeReady(proof) | Stage::Merging(_, proof) => proven(task, proof),
        Stage::Held { resume_to, .. } => match resume_to {
            ResumeTo::Committed { head } | ResumeTo::AwaitingReview { head } => own_head(task, head),
            ResumeTo::MergeReady(proof) => proven(task, proof),
            ResumeTo::Ready | ResumeTo::Rework { .. } => Ok(()),
        },
        Stage::Ready
        | Stage::Working(_)
        | Stage::Committing(_)
        | Stage::Checking(_)
        | Stage::InReview(ReviewRun::Dispatch(_))
        | Stage::Rework { .. }
        | Stage::Refreshing(_)
        | Stage::Verifying(_)
        | Stage::Reverting(_)
        | Stage::Replanning
        | Stage::Done(_)
        | Stage::Dropped { .. } => Ok(()),
    }
}

fn own_head(task: &Task, head: &Oid) -> Checked {
    ensure(task.tip.as_ref() == Some(head), || Violation::WrongHead(task.id.clone()))
}

fn proven(task: &Task, proof: &ReviewedHead) -> Checked {
    own_head(task, proof.head())?;
    ensure(task.base.as_ref() == Some(proof.base()), || Violation::WrongHead(task.id.clone()))?;
    let independent = !task.implementers.contains(proof.reviewer());
    ensure(independent, || Violation::SameIdentity(task.id.clone()))
}

fn holds(state: &LoopState) -> Checked {
    let mut seen: BTreeSet<HoldKey> = BTreeSet::new();
    for open in &state.holds {
        let key = HoldKey { subject: open.subject.clone(), kind: open.hold.kind };
        ensure(!matches!(key.subject, Subject::Task(_)), || Violation::MisplacedHold(key.clone()))?;
        ensure(seen.insert(key.clone()), || Violation::DuplicateHold(key))?;
    }
    state.routes.iter().try_for_each(|(key, route)| {
        let asked = route.gate != Gate::Closed || state.is_held(&Subject::Route(key.clone()));
        ensure(asked, || Violation::ClosedRoute(key.clone()))
    })
}

/// Takes away tasks whose dependencies are all taken away; what stays forms circles.
fn dependencies(state: &LoopState) -> Checked {
    let place: Map<&TaskId, usize> = state.tasks.iter().enumerate().map(|(i, task)| (&task.id, i)).collect();
    let mut waiting: Vec<usize> = Vec::with_capacity(place.len());
    let mut dependants: Vec<Vec<usize>> = vec![Vec::new(); place.len()];
    for (i, task) in state.tasks.iter().enumerate() {
        for id in &task.depends_on {
            let at = place.get(id).ok_or_else(|| Violation::UnknownDependency(task.id.clone()))?;
            dependants[*at].push(i);
        }
        waiting.push(task.depends_on.len());
    }
    let mut free: Vec<usize> = (0..waiting.len()).filter(|i| waiting[*i] == 0).collect();
    while let Some(i) = free.pop() {
        for dependant in &dependants[i] {
            waiting[*dependant] -= 1;
            if waiting[*dependant] == 0 {
                free.push(*dependant);
            }
        }
    }
    let in_circle = state.tasks.iter().zip(&waiting).find(|(_, count)| **count > 0);
    in_circle.map_or(Ok(()), |(task, _)| Err(Violation::Cycle(task.id.clone())))
}

fn money(state: &LoopState) -> Checked {
    let today = state.clock.day;
    for (id, entry) in &state.ledger.entries {
        ensure(id.0 < state.next_dispatch, || Violation::DispatchAhead(*id))?;
        let runs = entry.certainty != Certainty::Reserved || state.leases.contains_key(id);
        ensure(runs, || Violation::StrayReserve(*id))?;
        ensure(entry.day <= today, || Violation::DayAhead)?;
    }
    let foreign = state.ledger.unattributed.values().all(|usage| usage.day <= today);
    ensure(foreign, || Violation::DayAhead)?;
    let pending = state.clock.pending_day.is_some_and(|pending| pending.day == today);
    ensure(!pending, || Violation::PendingDay)
}
