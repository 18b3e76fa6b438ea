//! Folds what happened to plans and tasks. See the module above for who may call it.

use alloc::string::String;
use alloc::vec::Vec;

use super::{FoldError, Folded, bump, misfit};
use crate::event::{Counter, Event};
use crate::ids::{Oid, TaskId};
use crate::policy::Independence;
use crate::review::{Review, ReviewedHead, Verdict};
use crate::state::{LoopState, PlanCounters, Planning};
use crate::task::{Done, ResumeTo, Stage, Task};

pub(super) fn planning(state: &mut LoopState, event: &Event) -> Folded {
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
            state.tasks.change_all(|task| {
                if replaced.contains(&task.id) {
                    task.stage = Stage::Dropped { replaced_by: ids.clone() };
                } else if replaces.is_some() {
                    rewrite(&mut task.depends_on, &replaced, &ids);
                }
            });
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

pub(super) fn task_event(state: &mut LoopState, id: &TaskId, event: &Event) -> Folded {
    let Some(mut task) = state.tasks.get_mut(id) else { return misfit("no task", id) };
    let task = &mut *task;
    match event {
        Event::WorkCommitted { head, implementer, .. } => {
            task.implementers.insert(implementer.clone());
            commit(task, head);
        }
        Event::Refreshed { head, base, .. } => {
            task.base = Some(base.clone());
            commit(task, head);
        }
        Event::Checked { outcome, .. } => task.checked = Some(outcome.clone()),
        Event::FindingsNamed { findings, .. } => {
            let highest = findings.iter().map(|one| one.id.0).max().unwrap_or(0);
            task.findings.named = task.findings.named.max(highest);
            task.findings.open.clone_from(findings);
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
            (task.tip, task.checked) = (Some(reapplied.clone()), None);
            task.stage = Stage::Rework { notes: String::new() };
            state.target.last_merge = Some(commit.clone());
            if state.target.verified.is_some() {
                state.target.verified = Some(commit.clone());
            }
        }
        Event::TaskMoved { to, .. } => task.stage = to.clone().into(),
        Event::Counted { counter, .. } => match counter {
            Counter::Conflict => bump(&mut task.counters.conflicts),
            Counter::LostSwap => bump(&mut task.counters.lost_swaps),
            Counter::Orphan => bump(&mut task.counters.orphans),
            Counter::Refusal => bump(&mut task.counters.refusals),
        },
        Event::CountersReset { .. } => {
            let replans = task.counters.replans;
            task.counters = crate::task::Counters { replans, ..Default::default() };
        }
        Event::StartedAfresh { .. } => {
            (task.base, task.tip, task.checked) = (None, None, None);
            task.implementers.clear();
            task.findings.open.clear();
        }
        Event::ReplanRequested { .. } => {
            bump(&mut task.counters.replans);
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
    (task.tip, task.checked) = (Some(head.clone()), None);
    task.stage = Stage::Committed { head: head.clone() };
}

/// Rebuilds the proof from the recorded facts, so that no journal can merge what was not reviewed.
fn proof(task: &Task, event: &Event) -> Result<ReviewedHead, FoldError> {
    let Event::ReviewPassed { head, base, reviewer, .. } = event else {
        return misfit("no review of", &task.id);
    };
    let review = Review::bare(Verdict::Pass, head.clone());
    let (Some(tip), Some(from)) = (&task.tip, &task.base) else {
        return misfit("nothing to review in", &task.id);
    };
    if from != base {
        return misfit("the review is of another base in", &task.id);
    }
    // The rule in force was applied when the review was settled; identity is the part that never bends.
    ReviewedHead::prove(&review, tip, from, reviewer, &task.implementers, Independence::Model)
        .or_else(|fault| misfit("the review proves nothing:", &alloc::format!("{fault:?}")))
}

/// An edit voids what relied on the old contract: a reviewed head goes back to be reviewed again, and what
/// was found wrong under the old terms is not compared with what is found under the new ones.
fn edit_task(task: &mut Task, edit: &crate::command::TaskEdit) {
    task.edition = task.edition.saturating_add(1);
    task.findings.open.clear();
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
