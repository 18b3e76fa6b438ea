//! The only writer of the state: folds events, one journal line at a time, and never reads the policy.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::event::{Counter, Event};
use crate::hold::{Hold, HoldKey, Subject};
use crate::ids::{DispatchId, Oid, RouteKey, TaskId};
use crate::ledger::{Certainty, Entry, Unattributed};
use crate::policy::Independence;
use crate::review::{Review, ReviewedHead, Verdict};
use crate::state::{
    Gate, Goal, Lease, LoopHold, LoopState, MAX_ANSWERS, Op, PendingDay, PendingDigest, Phase, PlanCounters,
    Planning, RouteState, Target,
};
use crate::task::{Done, Repeats, ResumeTo, ReviewRun, Stage, Task};
use crate::units::{ActiveMs, Day, MAX_NUMBER, UsdMicros, WallMs};

/// An event that does not follow from the state: the journal and the state are of different stories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldError {
    /// What does not fit.
    pub what: String,
}

impl fmt::Display for FoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the journal does not fit the state: {}", self.what)
    }
}

impl core::error::Error for FoldError {}

type Folded = Result<(), FoldError>;

fn misfit<T>(what: &str, id: &dyn fmt::Display) -> Result<T, FoldError> {
    Err(FoldError { what: alloc::format!("{what} {id}") })
}

/// Usage of unknown ids is kept for this many ids.
pub const MAX_UNATTRIBUTED: usize = 1_000;
/// A route remembers this many refused subjects.
const MAX_REFUSED: usize = 10;

/// Folds one journal line: all of its events, then the next revision.
///
/// # Errors
/// [`FoldError`]; the state is then half-written and must be thrown away.
pub fn apply_line(state: &mut LoopState, events: &[Event]) -> Folded {
    for event in events {
        apply(state, event)?;
    }
    state.revision = state.revision.saturating_add(1).min(MAX_NUMBER);
    Ok(())
}

/// Folds one event.
///
/// # Errors
/// [`FoldError`] when the event names what is not there.
pub fn apply(state: &mut LoopState, event: &Event) -> Folded {
    match event {
        Event::ClockAnchored { .. } | Event::ClockStepped { .. } | Event::DayRolled { .. } => {
            clock(state, event);
            Ok(())
        }
        Event::PolicyChanged { digest } => {
            state.policy = Some(digest.clone());
            Ok(())
        }
        Event::GoalStarted { .. }
        | Event::GoalEditSeen { .. }
        | Event::GoalTextReturned
        | Event::GoalContinued { .. }
        | Event::GoalReplanned { .. }
        | Event::GoalCompleted { .. }
        | Event::GoalArchived
        | Event::Paused { .. }
        | Event::Resumed { .. } => {
            goal(state, event);
            Ok(())
        }
        Event::TargetVerified { .. }
        | Event::TargetUnverified
        | Event::TargetChosen { .. }
        | Event::LastMergeForgotten => {
            target(&mut state.target, event);
            Ok(())
        }
        Event::LeaseTaken { .. }
        | Event::LeaseEnding { .. }
        | Event::LeaseAdopted { .. }
        | Event::LeaseEnded { .. } => lease(state, event),
        Event::DispatchRefused { .. }
        | Event::DispatchOrphaned { .. }
        | Event::AttemptReturned { .. }
        | Event::UsageSettled { .. }
        | Event::UsageUnattributed { .. } => spending(state, event),
        Event::PlanWanted { .. }
        | Event::PlanAccepted { .. }
        | Event::PlanRefused { .. }
        | Event::PlanCountersReset => planning(state, event),
        Event::HoldOpened { .. } | Event::HoldLifted { .. } | Event::HoldAcknowledged { .. } => {
            hold(state, event)
        }
        Event::AnswerGiven { record } => {
            state.answers.push(record.clone());
            let surplus = state.answers.len().saturating_sub(MAX_ANSWERS);
            state.answers.drain(..surplus);
            Ok(())
        }
        Event::GrantGiven { grant } => {
            state.grants.push(grant.clone());
            Ok(())
        }
        Event::GrantConsumed { kind, subject } => {
            state.grants.retain(|g| g.kind != *kind || g.subject != *subject);
            Ok(())
        }
        Event::RouteGated { .. } | Event::RouteRefused { .. } => {
            route(state, event);
            Ok(())
        }
        Event::WorkCommitted { task, .. }
        | Event::Refreshed { task, .. }
        | Event::ReviewPassed { task, .. }
        | Event::Merged { task, .. }
        | Event::MergedElsewhere { task, .. }
        | Event::MergeReverted { task, .. }
        | Event::TaskMoved { task, .. }
        | Event::Counted { task, .. }
        | Event::CountersReset { task }
        | Event::StartedAfresh { task }
        | Event::ReplanRequested { task }
        | Event::TaskAccepted { task }
        | Event::TaskDropped { task }
        | Event::DependencyRemoved { task, .. }
        | Event::TaskEdited { task, .. } => task_event(state, task, event),
    }
}

fn clock(state: &mut LoopState, event: &Event) {
    let clock = &mut state.clock;
    match event {
        Event::ClockAnchored { wall, awake, active } | Event::ClockStepped { wall, awake, active } => {
            let first = clock.wall == WallMs(0);
            (clock.wall, clock.awake, clock.active) = (*wall, *awake, *active);
            if first {
                clock.day = wall.day();
            }
            let doubtful = matches!(event, Event::ClockStepped { .. }) || wall.day() < clock.day;
            clock.pending_day = (doubtful && wall.day() != clock.day)
                .then_some(PendingDay { day: wall.day(), seen_at: *active });
        }
        Event::DayRolled { day } => {
            let back = *day < clock.day;
            (clock.day, clock.pending_day) = (*day, None);
            if back {
                redate(state, *day);
            }
        }
        _ => {}
    }
}

/// The day moved back: entries of later days belong to it, or their money would never be capped.
fn redate(state: &mut LoopState, day: Day) {
    state.ledger.entries.values_mut().filter(|e| e.day > day).for_each(|e| e.day = day);
    state.ledger.unattributed.values_mut().filter(|u| u.day > day).for_each(|u| u.day = day);
}

fn goal(state: &mut LoopState, event: &Event) {
    match event {
        Event::GoalStarted { number, digest, at, branch } => {
            state.goal = Goal {
                number: *number,
                digest: Some(digest.clone()),
                pending: None,
                epoch: state.goal.epoch.saturating_add(1),
                started_at: *at,
            };
            state.phase = Phase::Active;
            state.planning = Planning::Wanted { replaces: None };
            state.plan_counters = PlanCounters::default();
            if state.target.branch.is_none() || state.target.branch != *branch {
                state.target = Target { branch: branch.clone(), ..LoopState::default().target };
            }
            state.progress_at = state.clock.active;
        }
        Event::GoalEditSeen { digest, at } => {
            state.goal.pending = Some(PendingDigest { digest: digest.clone(), seen_at: *at });
        }
        Event::GoalTextReturned => state.goal.pending = None,
        Event::GoalContinued { digest } => {
            (state.goal.digest, state.goal.pending) = (Some(digest.clone()), None);
        }
        Event::GoalReplanned { digest } => {
            (state.goal.digest, state.goal.pending) = (Some(digest.clone()), None);
            state.goal.epoch = state.goal.epoch.saturating_add(1);
            state.planning = Planning::Wanted { replaces: None };
            state.plan_counters = PlanCounters::default();
            let open = state.tasks.iter_mut().filter(|t| t.is_live() && !t.is_done());
            open.for_each(|t| t.stage = Stage::Replanning);
        }
        Event::GoalCompleted { at } => {
            state.phase = Phase::Complete { at: *at };
            state.grants.clear();
        }
        Event::GoalArchived => archive(state),
        Event::Paused { by, at } => state.phase = Phase::Paused { by: by.clone(), at: *at },
        Event::Resumed { .. } => {
            state.phase = Phase::Active;
            state.progress_at = state.clock.active;
        }
        _ => {}
    }
}

/// Puts a finished goal away: its tasks go, its money stays as sums except the current day's entries.
fn archive(state: &mut LoopState) {
    let day = state.clock.day;
    let (kept, old): (Vec<_>, Vec<_>) = core::mem::take(&mut state.ledger.entries)
        .into_iter()
        .partition(|(_, e)| e.day == day || e.certainty == Certainty::Reserved);
    for (_, entry) in old {
        let sum = &mut state.ledger.archived;
        sum.spent = sum.spent.plus(entry.amount.0);
        sum.tokens = sum.tokens.saturating_add(entry.tokens.total()).min(MAX_NUMBER);
    }
    state.ledger.entries = kept.into_iter().collect();
    state.ledger.unattributed.retain(|_, u| u.day == day);
    state.tasks = crate::state::Tasks::default();
    state.holds.retain(|h| matches!(h.subject, Subject::Route(_)));
    state.planning = Planning::Idle;
    state.goal.digest = None;
    state.phase = Phase::Active;
}

fn target(target: &mut Target, event: &Event) {
    match event {
        Event::TargetVerified { commit, known_red } => {
            target.verified = Some(commit.clone());
            target.known_red.clone_from(known_red);
        }
        Event::TargetUnverified => {
            target.verified = None;
            target.known_red.clear();
        }
        Event::TargetChosen { branch } => {
            target.branch = Some(branch.clone());
            target.last_merge = None;
        }
        Event::LastMergeForgotten => target.last_merge = None,
        _ => {}
    }
}

fn lease(state: &mut LoopState, event: &Event) -> Folded {
    match event {
        Event::LeaseTaken { dispatch, lease } => take(state, *dispatch, lease),
        Event::LeaseEnding { dispatch, why } => {
            let Some(lease) = state.leases.get_mut(dispatch) else { return misfit("no lease", dispatch) };
            lease.ending = Some(*why);
            Ok(())
        }
        Event::LeaseAdopted { dispatch, owner, deadline } => {
            let Some(lease) = state.leases.get_mut(dispatch) else { return misfit("no lease", dispatch) };
            lease.owner = owner.clone();
            lease.epoch = lease.epoch.saturating_add(1);
            lease.deadline = *deadline;
            lease.ending = None;
            Ok(())
        }
        Event::LeaseEnded { dispatch, at } => {
            let Some(lease) = state.leases.remove(dispatch) else { return misfit("no lease", dispatch) };
            state.progress_at = *at;
            if lease.op.is_model()
                && let Some(key) = &lease.route
                && !state.routes.get(key).is_some_and(|r| matches!(r.gate, Gate::Closed))
                && state.ledger.entries.contains_key(dispatch)
            {
                open_route(state, key);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A dispatch that reached its provider clears what the route refused before.
fn open_route(state: &mut LoopState, key: &RouteKey) {
    if let Some(route) = state.routes.get_mut(key) {
        route.refused.clear();
    }
    state.routes.retain(|_, r| r.gate != Gate::Open || !r.refused.is_empty());
}

fn take(state: &mut LoopState, dispatch: DispatchId, lease: &Lease) -> Folded {
    if dispatch.0 < state.next_dispatch {
        return misfit("dispatch id used before:", &dispatch);
    }
    state.next_dispatch = dispatch.0.saturating_add(1);
    state.progress_at = lease.started_at;
    let lineage = match &lease.subject {
        Subject::Task(id) => {
            let Some(task) = state.tasks.get_mut(id) else { return misfit("no task", id) };
            start(task, dispatch, lease)?;
            Some(task.lineage.clone())
        }
        Subject::Planning => {
            let Planning::Wanted { replaces } = &state.planning else {
                return misfit("no plan is wanted for", &dispatch);
            };
            state.planning = Planning::Working { dispatch, replaces: replaces.clone() };
            state.plan_counters.attempts += 1;
            None
        }
        Subject::Target => None,
        Subject::Route(_) | Subject::Goal | Subject::Loop => return misfit("no lease is possible on", &lease.subject),
    };
    if lease.op.is_model()
        && let Some(route) = &lease.route
    {
        let entry = Entry {
            op: lease.op,
            lineage,
            route: route.clone(),
            goal: state.goal.number,
            day: state.clock.day,
            instance: lease.owner.instance,
            amount: lease.reserve,
            certainty: Certainty::Reserved,
            tokens: crate::units::Tokens::default(),
        };
        state.ledger.entries.insert(dispatch, entry);
    }
    state.leases.insert(dispatch, lease.clone());
    Ok(())
}

/// Moves a task into the stage of the operation that starts, and counts it.
fn start(task: &mut Task, d: DispatchId, lease: &Lease) -> Folded {
    let counters = &mut task.counters;
    let same = |r: &Repeats| r.op == lease.op && r.basis.difference(&lease.basis).is_none();
    let count = counters.repeats.as_ref().filter(|r| same(r)).map_or(0, |r| r.count) + 1;
    counters.repeats = Some(Repeats { op: lease.op, basis: lease.basis.clone(), count });
    task.stage = match lease.op {
        Op::Work => {
            counters.attempts += 1;
            counters.started_at = counters.started_at.or(Some(lease.started_at));
            task.base = task.base.take().or_else(|| lease.basis.base.clone());
            Stage::Working(d)
        }
        Op::Commit => Stage::Committing(d),
        Op::Check => Stage::Checking(d),
        Op::Review => {
            counters.review_cycles += 1;
            Stage::InReview(ReviewRun::Dispatch(d))
        }
        Op::Refresh => {
            counters.refreshes += 1;
            Stage::Refreshing(d)
        }
        Op::Merge => match &task.stage {
            Stage::MergeReady(reviewed) => Stage::Merging(d, reviewed.clone()),
            _ => return misfit("nothing reviewed to merge in", &task.id),
        },
        Op::Verify => Stage::Verifying(d),
        Op::Revert => Stage::Reverting(d),
        Op::Plan => return misfit("no plan is made for", &task.id),
    };
    Ok(())
}

fn spending(state: &mut LoopState, event: &Event) -> Folded {
    match event {
        Event::DispatchRefused { dispatch } => give_back(state, *dispatch, true, |c| c.refusals += 1),
        Event::DispatchOrphaned { dispatch } => give_back(state, *dispatch, true, |c| c.orphans += 1),
        Event::AttemptReturned { dispatch } => give_back(state, *dispatch, false, |_| ()),
        Event::UsageSettled { dispatch, amount, certainty, tokens } => {
            let Some(entry) = state.ledger.entries.get_mut(dispatch) else {
                return misfit("no ledger entry", dispatch);
            };
            (entry.amount, entry.certainty, entry.tokens) = (*amount, *certainty, *tokens);
            Ok(())
        }
        Event::UsageUnattributed { dispatch, day, amount } => {
            let known = state.ledger.unattributed.len();
            // Above the bound the money still counts, under one shared name.
            let name = if known < MAX_UNATTRIBUTED { dispatch.clone() } else { "more".to_string() };
            let slot = state.ledger.unattributed.entry(name.clone()).or_insert(Unattributed {
                dispatch: name,
                day: *day,
                amount: UsdMicros(0),
            });
            slot.amount = slot.amount.plus(amount.0);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns the attempt of a dispatch, with its money when `refund`, and counts what happened instead.
fn give_back(
    state: &mut LoopState,
    dispatch: DispatchId,
    refund: bool,
    count: impl Fn(&mut crate::task::Counters),
) -> Folded {
    let Some(lease) = state.leases.get(&dispatch) else { return misfit("no lease", &dispatch) };
    if refund {
        state.ledger.entries.remove(&dispatch);
    }
    match &lease.subject {
        Subject::Task(id) => {
            let Some(task) = state.tasks.get_mut(id) else { return misfit("no task", id) };
            let counters = &mut task.counters;
            match lease.op {
                Op::Work => counters.attempts = counters.attempts.saturating_sub(1),
                Op::Review => counters.review_cycles = counters.review_cycles.saturating_sub(1),
                _ => {}
            }
            counters.repeats = None;
            count(counters);
        }
        _ => {
            let plan = &mut state.plan_counters;
            plan.attempts = plan.attempts.saturating_sub(1);
            plan.refusals += u32::from(refund);
        }
    }
    Ok(())
}

fn planning(state: &mut LoopState, event: &Event) -> Folded {
    match event {
        Event::PlanWanted { replaces } => state.planning = Planning::Wanted { replaces: replaces.clone() },
        Event::PlanRefused { detail } => {
            state.plan_counters.notes.clone_from(detail);
            if let Planning::Working { replaces, .. } = &state.planning {
                state.planning = Planning::Wanted { replaces: replaces.clone() };
            }
        }
        Event::PlanCountersReset => state.plan_counters = PlanCounters::default(),
        Event::PlanAccepted { tasks, replaces } => {
            let ids: Vec<TaskId> = tasks.iter().map(|t| t.id.clone()).collect();
            let replaced: Vec<TaskId> = match replaces {
                Some(id) => alloc::vec![id.clone()],
                None => {
                    let open = state.tasks.iter().filter(|t| matches!(t.stage, Stage::Replanning));
                    open.map(|t| t.id.clone()).collect()
                }
            };
            for task in state.tasks.iter_mut() {
                if replaced.contains(&task.id) {
                    task.stage = Stage::Dropped { replaced_by: ids.clone() };
                } else if replaces.is_some() {
                    rewrite(&mut task.depends_on, &replaced, &ids);
                }
            }
            for task in tasks {
                if state.tasks.push(task.clone()).is_err() {
                    return misfit("task id used twice:", &task.id);
                }
            }
            state.planning = Planning::Idle;
            state.plan_counters = PlanCounters::default();
        }
        _ => {}
    }
    Ok(())
}

/// Who waited for a replaced task waits for all that replace it.
fn rewrite(depends_on: &mut Vec<TaskId>, replaced: &[TaskId], by: &[TaskId]) {
    if depends_on.iter().any(|id| replaced.contains(id)) {
        depends_on.retain(|id| !replaced.contains(id));
        depends_on.extend(by.iter().cloned());
    }
}

fn hold(state: &mut LoopState, event: &Event) -> Folded {
    match event {
        Event::HoldOpened { subject: Subject::Task(id), hold, resume_to } => {
            let Some(task) = state.tasks.get_mut(id) else { return misfit("no task", id) };
            let resume_to = resume_to.clone().unwrap_or_else(|| task.resume_point());
            task.stage = Stage::Held { resume_to, hold: hold.clone() };
            Ok(())
        }
        Event::HoldOpened { subject, hold, .. } => {
            if !state.has_hold(subject, hold.kind) {
                state.holds.push(LoopHold { subject: subject.clone(), hold: hold.clone() });
            }
            if *subject == Subject::Planning {
                let replaces = match &state.planning {
                    Planning::Wanted { replaces }
                    | Planning::Working { replaces, .. }
                    | Planning::Held { replaces } => replaces.clone(),
                    Planning::Idle => None,
                };
                state.planning = Planning::Held { replaces };
            }
            Ok(())
        }
        Event::HoldLifted { key, at } => lift(state, key, *at),
        Event::HoldAcknowledged { key, by, at } => {
            let said = crate::hold::Acknowledged { by: by.clone(), at: *at };
            match hold_mut(state, key) {
                Some(hold) => hold.acknowledged = Some(said),
                None => return misfit("no hold", key),
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn hold_mut<'a>(state: &'a mut LoopState, key: &HoldKey) -> Option<&'a mut Hold> {
    match &key.subject {
        Subject::Task(id) => match &mut state.tasks.get_mut(id)?.stage {
            Stage::Held { hold, .. } if hold.kind == key.kind => Some(hold),
            _ => None,
        },
        subject => {
            let found = state.holds.iter_mut().find(|h| h.subject == *subject && h.hold.kind == key.kind);
            found.map(|h| &mut h.hold)
        }
    }
}

fn lift(state: &mut LoopState, key: &HoldKey, at: ActiveMs) -> Folded {
    state.progress_at = at;
    match &key.subject {
        Subject::Task(id) => {
            let Some(task) = state.tasks.get_mut(id) else { return misfit("no task", id) };
            let Stage::Held { resume_to, .. } = &task.stage else { return misfit("no hold", key) };
            task.stage = resume_to.clone().into();
        }
        subject => {
            state.holds.retain(|h| h.subject != *subject || h.hold.kind != key.kind);
            if let (Subject::Planning, Planning::Held { replaces }) = (subject, &state.planning) {
                state.planning = Planning::Wanted { replaces: replaces.clone() };
            }
        }
    }
    Ok(())
}

fn route(state: &mut LoopState, event: &Event) {
    let empty = || RouteState { gate: Gate::Open, refused: Vec::new() };
    match event {
        Event::RouteGated { route, gate: Gate::Open } => {
            state.routes.remove(route);
        }
        Event::RouteGated { route, gate } => {
            state.routes.entry(route.clone()).or_insert_with(empty).gate = gate.clone();
        }
        Event::RouteRefused { route, subject } => {
            let refused = &mut state.routes.entry(route.clone()).or_insert_with(empty).refused;
            if !refused.contains(subject) && refused.len() < MAX_REFUSED {
                refused.push(subject.clone());
            }
        }
        _ => {}
    }
}

fn task_event(state: &mut LoopState, id: &TaskId, event: &Event) -> Folded {
    let Some(task) = state.tasks.get_mut(id) else { return misfit("no task", id) };
    match event {
        Event::WorkCommitted { head, implementer, .. } => {
            task.implementers.insert(implementer.clone());
            commit(task, head);
        }
        Event::Refreshed { head, base, .. } => {
            task.base = Some(base.clone());
            commit(task, head);
        }
        Event::ReviewPassed { .. } => task.stage = Stage::MergeReady(proof(task, event)?),
        Event::Merged { commit, .. } => {
            task.stage = Stage::Done(Done::Merged { commit: commit.clone() });
            state.target.last_merge = Some(commit.clone());
            if state.target.verified.is_some() {
                state.target.verified = Some(commit.clone());
            }
        }
        Event::MergedElsewhere { .. } => task.stage = Stage::Done(Done::MergedElsewhere),
        Event::MergeReverted { commit, reapplied, .. } => {
            task.base = Some(commit.clone());
            task.tip = Some(reapplied.clone());
            task.stage = Stage::Rework { notes: String::new() };
            state.target.last_merge = Some(commit.clone());
        }
        Event::TaskMoved { to, .. } => task.stage = to.clone().into(),
        Event::Counted { counter, .. } => match counter {
            Counter::Conflict => task.counters.conflicts += 1,
            Counter::LostSwap => task.counters.lost_swaps += 1,
        },
        Event::CountersReset { .. } => {
            let replans = task.counters.replans;
            task.counters = crate::task::Counters { replans, ..Default::default() };
        }
        Event::StartedAfresh { .. } => {
            (task.base, task.tip) = (None, None);
            task.implementers.clear();
        }
        Event::ReplanRequested { .. } => {
            task.counters.replans += 1;
            task.stage = Stage::Replanning;
        }
        Event::TaskAccepted { .. } => task.stage = Stage::Done(Done::Accepted),
        Event::TaskDropped { .. } => task.stage = Stage::Dropped { replaced_by: Vec::new() },
        Event::DependencyRemoved { dependency, .. } => task.depends_on.retain(|id| id != dependency),
        Event::TaskEdited { edit, .. } => edit_task(task, edit),
        _ => {}
    }
    Ok(())
}

fn commit(task: &mut Task, head: &Oid) {
    task.tip = Some(head.clone());
    task.stage = Stage::Committed { head: head.clone() };
}

/// Rebuilds the proof from the recorded facts, so that no journal can merge what was not reviewed.
fn proof(task: &Task, event: &Event) -> Result<ReviewedHead, FoldError> {
    let Event::ReviewPassed { head, base, reviewer, .. } = event else {
        return misfit("no review of", &task.id);
    };
    let review = Review { verdict: Verdict::Pass, head: head.clone(), notes: String::new() };
    let (Some(tip), Some(from)) = (&task.tip, &task.base) else { return misfit("nothing to review in", &task.id) };
    if from != base {
        return misfit("the review is of another base in", &task.id);
    }
    // The rule in force was applied when the review was settled; identity is the part that never bends.
    ReviewedHead::prove(&review, tip, from, reviewer, &task.implementers, Independence::Model)
        .or_else(|fault| misfit("the review proves nothing:", &alloc::format!("{fault:?}")))
}

/// An edit voids what relied on the old contract: a reviewed head goes back to be reviewed again.
fn edit_task(task: &mut Task, edit: &crate::command::TaskEdit) {
    task.edition = task.edition.saturating_add(1);
    if let Some(paths) = &edit.allowed_paths {
        task.allowed_paths.clone_from(paths);
    }
    if let Some(criteria) = &edit.criteria {
        task.criteria.clone_from(criteria);
    }
    task.tier = edit.tier.unwrap_or(task.tier);
    task.risk = edit.risk.unwrap_or(task.risk);
    let back = |to: &ResumeTo| match to {
        ResumeTo::MergeReady(reviewed) => ResumeTo::Committed { head: reviewed.head().clone() },
        ResumeTo::AwaitingReview { head } => ResumeTo::Committed { head: head.clone() },
        other => other.clone(),
    };
    match &mut task.stage {
        Stage::Held { resume_to, .. } => *resume_to = back(resume_to),
        Stage::MergeReady(_) | Stage::AwaitingReview { .. } => task.stage = back(&task.resume_point()).into(),
        _ => {}
    }
}
