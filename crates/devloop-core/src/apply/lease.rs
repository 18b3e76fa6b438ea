//! Folds what leases and their money did. See the module above for who may call it.

use alloc::string::{String, ToString};

use super::{Folded, bump, misfit};
use crate::event::Event;
use crate::hold::Subject;
use crate::ids::{DispatchId, RouteKey};
use crate::ledger::{Certainty, Entry, Unattributed};
use crate::state::{Gate, Lease, LoopState, Op, Planning};
use crate::task::{Repeats, ReviewRun, Stage, Task};
use crate::units::{MAX_NUMBER, Map, UsdMicros};

pub(super) fn lease(state: &mut LoopState, event: &Event) -> Folded {
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
            if let Subject::Task(id) = &lease.subject
                && let Some(mut task) = state.tasks.get_mut(id)
            {
                // An owner that died did nothing beyond the deadline, however late that is noticed.
                let busy = &mut task.counters.busy_ms;
                let ran = lease.deadline.min(*at).since(lease.started_at);
                *busy = busy.saturating_add(ran).min(MAX_NUMBER);
            }
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
            let Some(mut task) = state.tasks.get_mut(id) else { return misfit("no task", id) };
            start(&mut task, dispatch, lease)?;
            Some(task.lineage.clone())
        }
        Subject::Planning => {
            let Planning::Wanted { replaces } = &state.planning else {
                return misfit("no plan is wanted for", &dispatch);
            };
            state.planning = Planning::Working { dispatch, replaces: replaces.clone() };
            bump(&mut state.plan_counters.attempts);
            None
        }
        Subject::Target => None,
        Subject::Route(_) | Subject::Goal | Subject::Loop => {
            return misfit("no lease is possible on", &lease.subject);
        }
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
    let count = counters.repeats.as_ref().filter(|r| same(r)).map_or(0, |r| r.count).saturating_add(1);
    counters.repeats = Some(Repeats { op: lease.op, basis: lease.basis.clone(), count });
    task.stage = match lease.op {
        Op::Work => {
            bump(&mut counters.attempts);
            // Without a commit of its own a task starts on the base that its lease names.
            task.base = task.base.take().filter(|_| task.tip.is_some()).or_else(|| lease.basis.base.clone());
            Stage::Working(d)
        }
        Op::Commit => Stage::Committing(d),
        Op::Check => Stage::Checking(d),
        Op::Review => {
            bump(&mut counters.review_cycles);
            Stage::InReview(ReviewRun::Dispatch(d))
        }
        Op::Refresh => {
            bump(&mut counters.refreshes);
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

pub(super) fn spending(state: &mut LoopState, event: &Event) -> Folded {
    match event {
        Event::DispatchRefused { dispatch } => give_back(state, *dispatch, true, |c| bump(&mut c.refusals)),
        Event::DispatchOrphaned { dispatch } => give_back(state, *dispatch, true, |c| bump(&mut c.orphans)),
        Event::AttemptReturned { dispatch } => give_back(state, *dispatch, false, |_| ()),
        Event::UsageSettled { dispatch, amount, certainty, tokens } => {
            let settle = |entry: &mut Entry| {
                (entry.amount, entry.certainty, entry.tokens) = (*amount, *certainty, *tokens);
            };
            let booked = state.ledger.entries.change(dispatch, settle);
            if booked { Ok(()) } else { misfit("no ledger entry", dispatch) }
        }
        Event::UsageUnattributed { dispatch, day, amount } => {
            let revision = state.revision;
            let book = &mut state.ledger.unattributed;
            if book.len() >= MAX_UNATTRIBUTED && !book.contains_key(dispatch) {
                make_room(book);
            }
            let none = Unattributed { dispatch: dispatch.clone(), day: *day, revision, amount: UsdMicros(0) };
            let slot = book.entry(dispatch.clone()).or_insert(none);
            slot.revision = revision;
            slot.amount = slot.amount.plus(amount.0);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Puts the name that was not told for the longest time away under a shared one, which is the sum of what has
/// no name any more. Shared money counts on the later day, so that no cap forgets any of it.
fn make_room(book: &mut Map<String, Unattributed>) {
    let named = book.values().filter(|usage| usage.dispatch != SHARED);
    let oldest = named.min_by_key(|usage| (usage.revision, usage.day)).map(|usage| usage.dispatch.clone());
    let Some(old) = oldest.and_then(|name| book.remove(&name)) else { return };
    let amount = UsdMicros(0);
    let none = Unattributed { dispatch: SHARED.to_string(), day: old.day, revision: old.revision, amount };
    let shared = book.entry(SHARED.to_string()).or_insert(none);
    shared.day = shared.day.max(old.day);
    shared.revision = shared.revision.max(old.revision);
    shared.amount = shared.amount.plus(old.amount.0);
}

/// Returns the attempt of a dispatch, with the money set aside when `refund`, and counts what happened
/// instead. Money that was reported meanwhile stays.
fn give_back(
    state: &mut LoopState,
    dispatch: DispatchId,
    refund: bool,
    count: impl Fn(&mut crate::task::Counters),
) -> Folded {
    let Some(lease) = state.leases.get(&dispatch) else { return misfit("no lease", &dispatch) };
    let set_aside = |entry: &Entry| entry.certainty == Certainty::Reserved;
    if refund && state.ledger.entries.get(&dispatch).is_some_and(set_aside) {
        state.ledger.entries.remove(&dispatch);
    }
    match &lease.subject {
        Subject::Task(id) => {
            let Some(mut task) = state.tasks.get_mut(id) else { return misfit("no task", id) };
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
            if refund {
                bump(&mut plan.refusals);
            }
        }
    }
    Ok(())
}

/// The name that older usage of unknown ids shares.
const SHARED: &str = "more";

/// Usage of unknown ids is kept for this many ids by name. A look has no more reports than that
/// ([`crate::observation::MAX_REPORTS`]), so what one look tells never pushes its own names out.
pub const MAX_UNATTRIBUTED: usize = 1_000;
