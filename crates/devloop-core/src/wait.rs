//! When nothing can start: what keeps each task, what will end that, and so whether to wait or to halt.

use alloc::vec::Vec;

use crate::admit::{Admission, admit};
use crate::clock::DAY_AGREES_MS;
use crate::decide::{Decision, merge_obstacle, needs_base_check};
use crate::draft::{Draft, View};
use crate::effect::Effect;
use crate::hold::{HoldKind, Subject};
use crate::ids::{DispatchId, TaskId};
use crate::observation::{Observation, Stamp};
use crate::obstacle::{Obstacle, Waker};
use crate::policy::Policy;
use crate::question::goal_branch;
use crate::reason::{Reason, WaitWhy};
use crate::state::{LoopState, Op, Planning};
use crate::task::{ReviewRun, Stage, Task};
use crate::units::WallMs;

/// The obstacle of everything that is not done, not dropped and not under a lease: tasks, and planning as the
/// first.
#[must_use]
pub fn obstacles(state: &LoopState, policy: &Policy, seen: &Observation) -> Vec<(Subject, Obstacle)> {
    all(&View::new(state, policy, &seen.stamp), seen)
}

fn all(view: &View<'_>, seen: &Observation) -> Vec<(Subject, Obstacle)> {
    let planning = planning_obstacle(view, seen).map(|o| (Subject::Planning, o));
    let tasks = view.state.tasks.open().enumerate();
    let tasks = tasks.filter_map(|(rank, t)| {
        obstacle(view, seen, Some(rank), t).map(|o| (Subject::Task(t.id.clone()), o))
    });
    planning.into_iter().chain(tasks).collect()
}

fn planning_obstacle(view: &View<'_>, seen: &Observation) -> Option<Obstacle> {
    match &view.state.planning {
        Planning::Idle | Planning::Working { .. } => None,
        Planning::Held { .. } => Some(Obstacle::Hold(Subject::Planning)),
        Planning::Wanted { .. } => admission(view, seen, Op::Plan, None),
    }
}

/// What keeps the task, which has that rank among the open ones.
fn obstacle(view: &View<'_>, seen: &Observation, rank: Option<usize>, task: &Task) -> Option<Obstacle> {
    let goal = || view.state.is_held(&Subject::Goal).then_some(Obstacle::Hold(Subject::Goal));
    let own = Obstacle::Hold(Subject::Task(task.id.clone()));
    match &task.stage {
        Stage::Held { .. } => Some(own),
        Stage::Ready | Stage::Rework { .. } => goal()
            .or_else(|| base_check_lease(view).map(Obstacle::Preparation))
            .or_else(|| rank.and_then(|rank| view.judged(rank)))
            .or_else(|| admission(view, seen, Op::Work, Some(task))),
        Stage::AwaitingReview { .. } => goal().or_else(|| admission(view, seen, Op::Review, Some(task))),
        // Its check starts as soon as nothing holds the goal.
        Stage::Committed { .. } => goal(),
        Stage::InReview(ReviewRun::Forge { next_poll, .. }) => Some(Obstacle::Poll { at: *next_poll }),
        Stage::MergeReady(_) => goal().or_else(|| merge_obstacle(view, seen)),
        Stage::Replanning => match &view.state.planning {
            Planning::Working { dispatch, .. } => Some(Obstacle::Preparation(*dispatch)),
            Planning::Held { .. } => Some(Obstacle::Hold(Subject::Planning)),
            Planning::Wanted { .. } | Planning::Idle => admission(view, seen, Op::Plan, None),
        },
        Stage::Working(_)
        | Stage::Committing(_)
        | Stage::Checking(_)
        | Stage::InReview(ReviewRun::Dispatch(_))
        | Stage::Merging(..)
        | Stage::Refreshing(_)
        | Stage::Verifying(_)
        | Stage::Reverting(_)
        | Stage::Done(_)
        | Stage::Dropped { .. } => None,
    }
}

fn base_check_lease(view: &View<'_>) -> Option<DispatchId> {
    if !needs_base_check(view) {
        return None;
    }
    view.state.leases.iter().find(|(_, l)| l.subject == Subject::Target).map(|(d, _)| *d)
}

/// The obstacle the judge names; none when nothing but the next beat is awaited.
fn admission(view: &View<'_>, seen: &Observation, op: Op, task: Option<&Task>) -> Option<Obstacle> {
    match admit(view, seen, op, task) {
        Admission::Blocked(obstacle) => Some(obstacle),
        Admission::Hold { key, .. } => Some(Obstacle::Hold(key.subject)),
        Admission::Go { .. } => seen.repo.tip.is_none().then_some(Obstacle::TargetMissing),
    }
}

/// A pull request is looked at no sooner than this from now: a minute.
pub const POLL_FLOOR_MS: u64 = 60_000;

/// What ends an obstacle. A moment lies in the future.
fn waker(view: &View<'_>, seen: &Observation, obstacle: &Obstacle) -> Waker {
    let any = || match view.state.leases.keys().next() {
        Some(dispatch) => Waker::Lease(*dispatch),
        None => Waker::Person,
    };
    match obstacle {
        Obstacle::Hold(Subject::Loop) if midnight_helps(view) => {
            let midnight = view.state.clock.day.next_midnight();
            // After a step of the clock the next day may be there already and only has to be seen again.
            let soon = view.now.wall.plus(DAY_AGREES_MS);
            Waker::At(if midnight > view.now.wall { midnight } else { soon })
        }
        Obstacle::Hold(_) => Waker::Person,
        Obstacle::Dependency(id) | Obstacle::Overlap(id) => of_task(view, seen, id),
        Obstacle::Slot | Obstacle::Reserve(_) => any(),
        Obstacle::SharedSlot
        | Obstacle::SharedReserve
        | Obstacle::Checkout
        | Obstacle::Noop { .. }
        | Obstacle::Disk
        | Obstacle::TargetMissing => Waker::Shared,
        Obstacle::Route { until: Some(at), .. } => Waker::At(*at),
        // Looking at a pull request takes its time; one that is due is waited for in the future, too.
        Obstacle::Poll { at } => Waker::At((*at).max(view.now.wall.plus(POLL_FLOOR_MS))),
        Obstacle::Route { until: None, route } => {
            let users = view.state.leases.iter().find(|(_, l)| l.route.as_ref() == Some(route));
            users.map_or(Waker::Person, |(dispatch, _)| Waker::Lease(*dispatch))
        }
        Obstacle::MergeBusy(dispatch) | Obstacle::Preparation(dispatch) => Waker::Lease(*dispatch),
    }
}

/// Only a day's cap keeps the loop: the next day lifts it.
fn midnight_helps(view: &View<'_>) -> bool {
    let mut own = view.state.holds.iter().filter(|h| h.subject == Subject::Loop).peekable();
    let daily = |kind| matches!(kind, HoldKind::DailyCostCap | HoldKind::AllProjectsDailyCap);
    own.peek().is_some() && own.all(|h| daily(h.hold.kind))
}

/// What moves the task that another one waits for. Dependencies are acyclic; the walk is bounded all the
/// same. What it finds holds for every task on its way, so that a long chain is walked once.
fn of_task(view: &View<'_>, seen: &Observation, id: &TaskId) -> Waker {
    let mut walked: Vec<usize> = Vec::new();
    let mut at = id.clone();
    let found = loop {
        let Some(task) = view.state.tasks.get(&at) else { break Waker::Person };
        let rank = view.state.tasks.open_rank(&at);
        if let Some(rank) = rank {
            if let Some(known) = view.waker(rank) {
                break known;
            }
            // Found again before the walk ends, it is a circle, which only a person can break.
            view.set_waker(rank, Waker::Person);
            walked.push(rank);
        }
        if let Some(dispatch) = task.dispatch() {
            break Waker::Lease(dispatch);
        }
        match obstacle(view, seen, rank, task) {
            Some(Obstacle::Dependency(next) | Obstacle::Overlap(next)) => at = next,
            Some(other) => break waker(view, seen, &other),
            None => break Waker::Shared,
        }
    };
    walked.into_iter().for_each(|rank| view.set_waker(rank, found));
    found
}

/// Ends what was asked to end: a command of another process can only mark a lease, this asks for the
/// cancelling.
pub(crate) fn ending(view: &View<'_>) -> Draft {
    let marked = view.state.leases.iter().filter(|(_, lease)| lease.ending.is_some());
    let effects = marked.map(|(dispatch, _)| Effect::Cancel { dispatch: *dispatch }).collect();
    Draft { events: Vec::new(), effects }
}

/// The end of every tick: a wait with its reason, or a halt.
pub(crate) fn wait(view: &View<'_>, seen: &Observation) -> Decision {
    let found = all(view, seen);
    let wakers: Vec<Waker> = found.iter().map(|(_, obstacle)| waker(view, seen, obstacle)).collect();
    let until = wakers.iter().filter_map(|w| if let Waker::At(at) = w { Some(*at) } else { None }).min();
    let mut draft = ending(view);
    if seen.repo.tip.is_none()
        && let Some(branch) = &view.state.target.branch
        && branch.as_str() == goal_branch(view.state)
    {
        draft.effect(Effect::CreateTarget { branch: branch.clone() });
        return draft.done(Reason::Wait { why: WaitWhy::Shared, until });
    }
    match why(&found, &wakers, !view.state.leases.is_empty(), until) {
        Some(why) => draft.done(Reason::Wait { why, until }),
        None => draft.done(Reason::Halted),
    }
}

fn why(
    found: &[(Subject, Obstacle)],
    wakers: &[Waker],
    leased: bool,
    until: Option<WallMs>,
) -> Option<WaitWhy> {
    let noop = found.iter().find_map(|(subject, obstacle)| match obstacle {
        Obstacle::Noop { op, route } => {
            Some(WaitWhy::NoopBackend { op: *op, subject: subject.clone(), route: route.clone() })
        }
        _ => None,
    });
    if leased || wakers.iter().any(|w| matches!(w, Waker::Lease(_))) {
        return Some(WaitWhy::Lease);
    }
    if noop.is_some() {
        return noop;
    }
    if wakers.contains(&Waker::Shared) {
        return Some(WaitWhy::Shared);
    }
    until.map(|_| WaitWhy::Time)
}

/// What ends each obstacle of the list [`obstacles`] gives, in its order.
#[must_use]
pub fn wakers(state: &LoopState, policy: &Policy, stamp: &Stamp, seen: &Observation) -> Vec<Waker> {
    let view = View::new(state, policy, stamp);
    all(&view, seen).iter().map(|(_, obstacle)| waker(&view, seen, obstacle)).collect()
}
