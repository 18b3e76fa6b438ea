//! The only writer of the state: folds events, one journal line at a time, and never reads the policy.

mod hold;
mod lease;
mod plan;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::event::Event;
use crate::hold::Subject;
use crate::ids::DispatchId;
use crate::ledger::Certainty;
use crate::state::{
    Clock, Gate, Goal, GrantScope, LoopState, MAX_ANSWERS, PendingDay, PendingDigest, Phase, PlanCounters,
    Planning, RouteState, Target,
};
use crate::task::{Stage, Task};
use crate::units::{Day, MAX_NUMBER, Map};

pub use lease::MAX_UNATTRIBUTED;

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

/// Counts one more; a count stays at its end instead of starting anew.
fn bump(count: &mut u32) {
    *count = count.saturating_add(1);
}

fn misfit<T>(what: &str, id: &dyn fmt::Display) -> Result<T, FoldError> {
    Err(FoldError { what: alloc::format!("{what} {id}") })
}

/// Folds one journal line: all of its events, then the next revision.
///
/// # Errors
/// [`FoldError`]; the state is then half-written and must be thrown away.
pub fn apply_line(state: &mut LoopState, events: &[Event]) -> Folded {
    let mut ended = Vec::new();
    for event in events {
        if let Event::LeaseEnded { dispatch, .. } = event
            && let Some(lease) = state.leases.get(dispatch)
        {
            ended.push((*dispatch, lease.subject.clone()));
        }
        apply(state, event)?;
    }
    // What waited for a lease that ended would wait for ever: the line that ends it moves it on, too.
    let left = ended.iter().find(|(dispatch, subject)| waits_for(state, subject, *dispatch));
    if let Some((dispatch, subject)) = left {
        return misfit(&alloc::format!("{subject} still waits for"), dispatch);
    }
    state.revision = state.revision.saturating_add(1).min(MAX_NUMBER);
    Ok(())
}

/// Whether the subject is at work under that dispatch.
fn waits_for(state: &LoopState, subject: &Subject, dispatch: DispatchId) -> bool {
    match subject {
        Subject::Planning => {
            matches!(state.planning, Planning::Working { dispatch: at, .. } if at == dispatch)
        }
        Subject::Task(id) => state.tasks.get(id).and_then(Task::dispatch) == Some(dispatch),
        Subject::Route(_) | Subject::Goal | Subject::Target | Subject::Loop => false,
    }
}

/// Folds one event.
///
/// # Errors
/// [`FoldError`] when the event names what is not there.
pub fn apply(state: &mut LoopState, event: &Event) -> Folded {
    match event {
        Event::LeaseTaken { .. }
        | Event::LeaseEnding { .. }
        | Event::LeaseAdopted { .. }
        | Event::LeaseEnded { .. } => lease::lease(state, event),
        Event::DispatchRefused { .. }
        | Event::DispatchOrphaned { .. }
        | Event::AttemptReturned { .. }
        | Event::UsageSettled { .. }
        | Event::UsageUnattributed { .. } => lease::spending(state, event),
        Event::PlanWanted { .. }
        | Event::PlanAccepted { .. }
        | Event::PlanRefused { .. }
        | Event::PlanCountersReset => plan::planning(state, event),
        Event::HoldOpened { .. } | Event::HoldLifted { .. } | Event::HoldAcknowledged { .. } => {
            hold::hold(state, event)
        }
        Event::WorkCommitted { task, .. }
        | Event::Refreshed { task, .. }
        | Event::Checked { task, .. }
        | Event::FindingsNamed { task, .. }
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
        | Event::TaskEdited { task, .. } => plan::task_event(state, task, event),
        Event::ClockAnchored { .. }
        | Event::ClockStepped { .. }
        | Event::DayRolled { .. }
        | Event::PolicyChanged { .. }
        | Event::GoalStarted { .. }
        | Event::GoalEditSeen { .. }
        | Event::GoalTextReturned
        | Event::GoalContinued { .. }
        | Event::GoalReplanned { .. }
        | Event::GoalCompleted { .. }
        | Event::GoalArchived
        | Event::Paused { .. }
        | Event::Resumed { .. }
        | Event::TargetVerified { .. }
        | Event::TargetUnverified
        | Event::TargetChosen { .. }
        | Event::LastMergeForgotten
        | Event::AnswerGiven { .. }
        | Event::GrantGiven { .. }
        | Event::GrantConsumed { .. }
        | Event::RouteGated { .. }
        | Event::RouteRefused { .. } => {
            whole(state, event);
            Ok(())
        }
    }
}

/// What concerns the loop as a whole; each of the rooms below takes up its own events and leaves the others
/// alone.
fn whole(state: &mut LoopState, event: &Event) {
    clock(state, event);
    goal(state, event);
    target(&mut state.target, event);
    route(state, event);
    match event {
        Event::PolicyChanged { digest } => state.policy = Some(digest.clone()),
        Event::AnswerGiven { record } => {
            state.answers.push(record.clone());
            let surplus = state.answers.len().saturating_sub(MAX_ANSWERS);
            state.answers.drain(..surplus);
        }
        Event::GrantGiven { grant } => {
            state.grants.retain(|old| !old.scope.is_over(&grant.scope));
            state.grants.push(grant.clone());
        }
        Event::GrantConsumed { kind, subject } => {
            state.grants.retain(|g| g.kind != *kind || g.subject != *subject);
        }
        _ => {}
    }
}

fn clock(state: &mut LoopState, event: &Event) {
    let clock = &mut state.clock;
    match event {
        Event::ClockAnchored { wall, awake, active } | Event::ClockStepped { wall, awake, active } => {
            let first = *clock == Clock::default();
            (clock.wall, clock.awake, clock.active) = (*wall, *awake, *active);
            if first {
                clock.day = wall.day();
            }
            // Neither a step nor a reboot is explained by awake time: another day must be seen again first.
            clock.pending_day =
                (wall.day() != clock.day).then_some(PendingDay { day: wall.day(), seen_at: *active });
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
    state.ledger.entries.change_all(|entry| entry.day = entry.day.min(day));
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
            (state.target.verified, state.target.known_red) = (None, Vec::new());
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
            let (tasks, leases) = (&mut state.tasks, &state.leases);
            // What the host has begun is finished first: a merge may be in the target already.
            let begun = |task: &Task| {
                task.dispatch().and_then(|d| leases.get(&d)).is_some_and(|lease| !lease.op.is_model())
            };
            tasks.change_all(|task| {
                if task.is_open() && !begun(task) {
                    task.stage = Stage::Replanning;
                }
            });
        }
        Event::GoalCompleted { at } => state.phase = Phase::Complete { at: *at },
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
        sum.add(entry.certainty, entry.amount);
        sum.tokens = sum.tokens.saturating_add(entry.tokens.total()).min(MAX_NUMBER);
    }
    state.ledger.entries = kept.into_iter().collect();
    let (kept, old): (Map<_, _>, Map<_, _>) =
        core::mem::take(&mut state.ledger.unattributed).into_iter().partition(|(_, usage)| usage.day == day);
    for usage in old.into_values() {
        state.ledger.archived.add(Certainty::Measured, usage.amount);
    }
    state.ledger.unattributed = kept;
    state.grants.retain(|g| matches!(g.scope, GrantScope::Day(_) | GrantScope::Session(_)));
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

/// A route remembers this many refused subjects.
const MAX_REFUSED: usize = 10;
