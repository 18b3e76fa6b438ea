//! Leases whose owner is gone and leases that ran out of time. A model is never started twice; host work is
//! done again.

use alloc::format;

use crate::decide::Decision;
use crate::draft::{Draft, View, deadline, effect_of, rework};
use crate::effect::Effect;
use crate::event::{Counter, Event};
use crate::hold::Subject;
use crate::ids::DispatchId;
use crate::observation::{Observation, OrphanSeen, ProcessTree};
use crate::reason::Reason;
use crate::settle::assume;
use crate::state::{Ending, Lease, Planning};
use crate::task::{ResumeTo, clip};

/// Deals with the first lease of another owner, then with the first that ran out of time.
pub(crate) fn recover(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let foreign = view.state.leases.iter().filter(|(_, lease)| lease.owner != view.stamp.owner);
    let orphaned = foreign.into_iter().find_map(|(dispatch, lease)| {
        if lease.op.is_model() {
            let seen = seen.orphans.iter().find(|seen| seen.dispatch == *dispatch)?;
            orphan(view, *dispatch, lease, seen)
        } else {
            Some(adopt(view, *dispatch, lease))
        }
    });
    orphaned.or_else(|| out_of_time(view))
}

/// A model dispatch of a dead owner: settled only when none of its processes lives.
fn orphan(view: &View<'_>, dispatch: DispatchId, lease: &Lease, seen: &OrphanSeen) -> Option<Decision> {
    let mut draft = Draft::default();
    if seen.tree == ProcessTree::Alive {
        if lease.ending.is_some() {
            return None;
        }
        draft.event(Event::LeaseEnding { dispatch, why: Ending::Orphan });
        draft.effect(Effect::Cancel { dispatch });
        return Some(draft.done(Reason::OrphanAlive { subject: lease.subject.clone() }));
    }
    if seen.run_record {
        // It may have worked: its money stays. That its owner died is not the task's failure; a plan has no
        // other count that would end a row of them.
        draft.events.extend(assume(view, dispatch));
        if let Subject::Task(id) = &lease.subject {
            draft.event(Event::AttemptReturned { dispatch });
            draft.event(Event::Counted { task: id.clone(), counter: Counter::Orphan });
        }
    } else {
        draft.event(Event::DispatchOrphaned { dispatch });
    }
    draft.event(Event::LeaseEnded { dispatch, at: view.now.active });
    match &lease.subject {
        Subject::Planning => {
            if let Planning::Working { dispatch: d, replaces } = &view.state.planning
                && *d == dispatch
            {
                draft.event(Event::PlanWanted { replaces: replaces.clone() });
            }
        }
        Subject::Task(id) => {
            if let Some(task) = view.state.tasks.get(id).filter(|t| t.dispatch() == Some(dispatch)) {
                let to = lease.resume_to.clone().unwrap_or_else(|| task.restart_point());
                let to = seen.saved.iter().fold(to, |to, name| with_saved(to, dispatch, name));
                draft.event(Event::TaskMoved { task: id.clone(), to });
            }
        }
        Subject::Target | Subject::Route(_) | Subject::Goal | Subject::Loop => {}
    }
    draft.effect(Effect::RemoveWorktree { dispatch });
    Some(draft.done(Reason::OrphanSettled { subject: lease.subject.clone() }))
}

/// Work that was cut off is named to whoever goes on with it, and to the person who asks about the task.
fn with_saved(to: ResumeTo, dispatch: DispatchId, name: &str) -> ResumeTo {
    let saved = format!("What {dispatch} left unfinished when its loop died is kept as {name}.");
    match to {
        ResumeTo::Ready => rework(clip(&saved)),
        ResumeTo::Rework { notes } => rework(clip(&format!("{saved}\n{notes}"))),
        other => other,
    }
}

/// A host operation of a dead owner is performed again: it is probed first or repeatable.
fn adopt(view: &View<'_>, dispatch: DispatchId, lease: &Lease) -> Decision {
    let mut draft = Draft::default();
    let adopted = Lease {
        owner: view.stamp.owner.clone(),
        epoch: lease.epoch.saturating_add(1),
        deadline: deadline(view, lease.op),
        ending: None,
        ..lease.clone()
    };
    let task = match &lease.subject {
        Subject::Task(id) => view.state.tasks.get(id),
        _ => None,
    };
    draft.event(Event::LeaseAdopted { dispatch, owner: adopted.owner.clone(), deadline: adopted.deadline });
    if let Some(effect) = effect_of(view, dispatch, &adopted, task) {
        draft.effect(effect);
    }
    draft.done(Reason::LeaseAdopted { op: lease.op })
}

fn out_of_time(view: &View<'_>) -> Option<Decision> {
    let over = |lease: &Lease| lease.ending.is_none() && lease.deadline <= view.now.active;
    let (dispatch, lease) = view.state.leases.iter().find(|(_, lease)| over(lease))?;
    let mut draft = Draft::default();
    draft.event(Event::LeaseEnding { dispatch: *dispatch, why: Ending::Deadline });
    draft.effect(Effect::Cancel { dispatch: *dispatch });
    Some(draft.done(Reason::DeadlinePassed { subject: lease.subject.clone() }))
}
