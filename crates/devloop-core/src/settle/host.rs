//! What the outcome of the host's own operations means: commits, checks, merges, refreshes, verifications,
//! reverts.

use alloc::string::{String, ToString};

use super::{NOBODY, detail_of, moved};
use crate::basis::Basis;
use crate::draft::{Draft, NewLease, View, notes, rework, task_key};
use crate::event::{Counter, Event};
use crate::hold::{HoldKind, Subject};
use crate::policy::{Acceptance, PostMerge};
use crate::report::{CheckOutcome, CommitFault, MergeFault, Outcome, Report};
use crate::state::{Lease, Op};
use crate::task::{ResumeTo, Task, clip};
use crate::units::UsdMicros;

/// A merge may lose the swap of the target this often.
pub const LOST_SWAPS: u32 = 3;

/// Conflicts answered by an automatic rework before a person is asked.
pub const AUTO_CONFLICTS: u32 = 1;

/// Takes a lease for one of the host's own operations on a task.
pub(crate) fn take_host(
    view: &View<'_>,
    draft: &mut Draft,
    task: &Task,
    op: Op,
    basis: Basis,
    resume_to: Option<ResumeTo>,
) {
    let lease = NewLease {
        op,
        subject: Subject::Task(task.id.clone()),
        route: None,
        who: None,
        reserve: UsdMicros(0),
        basis,
        worktree: None,
        resume_to,
    };
    draft.take(view, Some(task), lease);
}

pub(super) fn commit_ended(
    view: &View<'_>,
    draft: &mut Draft,
    report: &Report,
    lease: &Lease,
    task: &Task,
    back: ResumeTo,
) {
    let mut hold = |kind, detail: &str, paths: &[String]| {
        draft.hold(view, task_key(&task.id, kind), detail, paths, Some(back.clone()));
    };
    match &report.outcome {
        Outcome::Committed { head } => {
            let Some(implementer) = lease.who.clone() else {
                return hold(HoldKind::ResultTransitionFailed, NOBODY, &[]);
            };
            draft.event(Event::WorkCommitted { task: task.id.clone(), head: head.clone(), implementer });
        }
        Outcome::CommitEmpty => hold(HoldKind::EmptyTask, "", &[]),
        Outcome::CommitRefused { why: CommitFault::TooLarge, detail, paths } => {
            too_large(view, draft, task, detail, paths);
        }
        Outcome::CommitRefused { why, detail, paths } => hold(commit_hold(*why), detail, paths),
        other => hold(HoldKind::ParentCommitFailed, &detail_of(other), &[]),
    }
}

/// A planner splits what one review cannot judge or one model cannot take in, unless that happened too often.
pub(super) fn too_large(view: &View<'_>, draft: &mut Draft, task: &Task, detail: &str, paths: &[String]) {
    if task.counters.replans < view.policy.limits.replans {
        draft.event(Event::ReplanRequested { task: task.id.clone() });
        return;
    }
    let to = rework(notes(&alloc::format!("The task is too large as it is.\n{detail}"), paths));
    draft.hold(view, task_key(&task.id, HoldKind::TaskOverBudget), detail, paths, Some(to));
}

/// The question that a refusal to take something over puts.
pub(super) fn commit_hold(why: CommitFault) -> HoldKind {
    match why {
        CommitFault::TooLarge => HoldKind::TaskOverBudget,
        CommitFault::Scope => HoldKind::ScopeViolation,
        CommitFault::ScopeUnknown => HoldKind::ScopeCheckFailed,
        CommitFault::Secret => HoldKind::SecretInDiff,
        CommitFault::Escaped => HoldKind::EscapedWrite,
        CommitFault::Late => HoldKind::LateCommit,
        CommitFault::BranchTaken => HoldKind::TaskBranchTaken,
        CommitFault::Git => HoldKind::ParentCommitFailed,
    }
}

pub(super) fn check_ended(
    view: &View<'_>,
    draft: &mut Draft,
    outcome: &Outcome,
    task: &Task,
    back: ResumeTo,
) {
    let head = task.tip.clone();
    let known = |commands: &[String]| commands.iter().all(|c| view.state.target.known_red.contains(c));
    let checked = |draft: &mut Draft, outcome: CheckOutcome| {
        draft.event(Event::Checked { task: task.id.clone(), outcome });
    };
    match (outcome, head) {
        (Outcome::Checked(CheckOutcome::Green), Some(head)) => {
            checked(draft, CheckOutcome::Green);
            moved(draft, task, ResumeTo::AwaitingReview { head });
        }
        (Outcome::Checked(red @ CheckOutcome::Red { commands, .. }), Some(head))
            if !commands.is_empty() && known(commands) =>
        {
            checked(draft, red.clone());
            moved(draft, task, ResumeTo::AwaitingReview { head });
        }
        (Outcome::Checked(CheckOutcome::Red { commands, output }), _) => {
            let text = notes(&alloc::format!("Required checks failed.\n{output}"), commands);
            if task.counters.attempts >= view.policy.limits.task_attempts {
                let key = task_key(&task.id, HoldKind::AcceptanceFailed);
                draft.hold(view, key, output, commands, Some(rework(text)));
            } else {
                moved(draft, task, rework(text));
            }
        }
        (Outcome::NotMerged { why: MergeFault::UnknownCommit, detail, .. }, _) => {
            let key = task_key(&task.id, HoldKind::MissingReviewWorktree);
            draft.hold(view, key, detail, &[], Some(ResumeTo::Ready));
        }
        (other, _) => {
            checked(draft, CheckOutcome::Unavailable { detail: clip(&detail_of(other)) });
            let key = task_key(&task.id, HoldKind::CheckUnavailable);
            draft.hold(view, key, &detail_of(other), &[], Some(back));
        }
    }
}

pub(super) fn merge_ended(view: &View<'_>, draft: &mut Draft, report: &Report, task: &Task, back: ResumeTo) {
    let id = task.id.clone();
    match &report.outcome {
        Outcome::Merged { commit } => {
            draft.event(Event::Merged { task: id.clone(), commit: commit.clone() });
            draft
                .event(Event::GrantConsumed { kind: HoldKind::SecurityHighRisk, subject: Subject::Task(id) });
            let checked = view.policy.acceptance != Acceptance::Absent;
            if checked && view.policy.post_merge == PostMerge::Always {
                let basis = Basis { head: Some(commit.clone()), ..merge_basis(view, task) };
                take_host(view, draft, task, Op::Verify, basis, None);
            }
        }
        Outcome::AlreadyMerged { tip } => {
            draft.event(Event::MergedElsewhere { task: id, tip: tip.clone() });
        }
        Outcome::NotMerged { why, detail, paths } => {
            not_merged(view, draft, *why, detail, paths, task, back);
        }
        other => {
            let key = task_key(&task.id, HoldKind::MergeWedged);
            draft.hold(view, key, &detail_of(other), &[], Some(back));
        }
    }
}

fn merge_basis(view: &View<'_>, task: &Task) -> Basis {
    Basis::of_task(view.state, view.policy, task)
}

fn not_merged(
    view: &View<'_>,
    draft: &mut Draft,
    why: MergeFault,
    detail: &str,
    paths: &[String],
    task: &Task,
    back: ResumeTo,
) {
    let hold = |draft: &mut Draft, kind| {
        draft.hold(view, task_key(&task.id, kind), detail, paths, Some(back.clone()));
    };
    match why {
        MergeFault::Conflict => conflict(view, draft, detail, paths, task, &back),
        MergeFault::Overlap | MergeFault::CandidateRed => {
            if task.counters.refreshes >= view.policy.limits.refreshes {
                return hold(draft, HoldKind::Refreshes);
            }
            take_host(view, draft, task, Op::Refresh, merge_basis(view, task), Some(back));
        }
        MergeFault::LostSwap => {
            if task.counters.lost_swaps.saturating_add(1) >= LOST_SWAPS {
                return hold(draft, HoldKind::BaseMoved);
            }
            draft.event(Event::Counted { task: task.id.clone(), counter: Counter::LostSwap });
            moved(draft, task, back);
        }
        // It got in the way after it was looked at: the next look waits for it. A checkout that is in the way
        // of every merge and never of a look is a question.
        MergeFault::Checkout => {
            let tries = task.counters.repeats.as_ref().map_or(0, |repeats| repeats.count);
            if tries >= view.policy.limits.same_action {
                return hold(draft, HoldKind::MergeWedged);
            }
            moved(draft, task, back);
        }
        MergeFault::ChecksUnavailable => hold(draft, HoldKind::CheckUnavailable),
        // Whether the target lost the loop's own merge is observed; here it lost what this task started from.
        MergeFault::UnknownCommit | MergeFault::Rewound => hold(draft, HoldKind::UnknownBase),
        MergeFault::BuriedMerge => hold(draft, HoldKind::PostMergeRed),
        MergeFault::Git => hold(draft, HoldKind::MergeWedged),
    }
}

/// The first conflict is worked on again from the new target, with the old change named; the second needs a
/// person.
fn conflict(
    view: &View<'_>,
    draft: &mut Draft,
    detail: &str,
    paths: &[String],
    task: &Task,
    back: &ResumeTo,
) {
    if task.counters.conflicts >= AUTO_CONFLICTS {
        let key = task_key(&task.id, HoldKind::MergeConflict);
        draft.hold(view, key, detail, paths, Some(back.clone()));
        return;
    }
    let old = task.tip.as_ref().map(ToString::to_string).unwrap_or_default();
    let text = alloc::format!(
        "The target changed the same lines. Do the task again on the new base; \
         the earlier change is commit {old}."
    );
    draft.event(Event::Counted { task: task.id.clone(), counter: Counter::Conflict });
    draft.event(Event::StartedAfresh { task: task.id.clone() });
    moved(draft, task, rework(notes(&text, paths)));
}

pub(super) fn refresh_ended(
    view: &View<'_>,
    draft: &mut Draft,
    outcome: &Outcome,
    task: &Task,
    back: ResumeTo,
) {
    match outcome {
        Outcome::Refreshed { head, base } => {
            draft.event(Event::Refreshed { task: task.id.clone(), head: head.clone(), base: base.clone() });
        }
        // A refresh never asks for another refresh: it goes back and the merge is tried again.
        Outcome::NotMerged { why: MergeFault::Overlap | MergeFault::CandidateRed, .. } => {
            moved(draft, task, back);
        }
        Outcome::NotMerged { why, detail, paths } => {
            not_merged(view, draft, *why, detail, paths, task, back);
        }
        other => {
            let key = task_key(&task.id, HoldKind::MergeWedged);
            draft.hold(view, key, &detail_of(other), &[], Some(back));
        }
    }
}

pub(super) fn verify_ended(
    view: &View<'_>,
    draft: &mut Draft,
    outcome: &Outcome,
    lease: &Lease,
    task: &Task,
) {
    let Some(commit) = lease.basis.head.clone() else { return };
    let known = |commands: &[String]| commands.iter().all(|c| view.state.target.known_red.contains(c));
    match outcome {
        Outcome::Checked(CheckOutcome::Green) => {
            draft.event(Event::Merged { task: task.id.clone(), commit });
        }
        Outcome::Checked(CheckOutcome::Red { commands, .. }) if !commands.is_empty() && known(commands) => {
            draft.event(Event::Merged { task: task.id.clone(), commit });
        }
        Outcome::Checked(CheckOutcome::Red { commands, output }) => {
            let text = alloc::format!("The checks failed after the merge, which was taken back.\n{output}");
            let to = rework(notes(&text, commands));
            take_host(view, draft, task, Op::Revert, lease.basis.clone(), Some(to));
        }
        other => {
            let key = task_key(&task.id, HoldKind::PostMergeRed);
            draft.hold(view, key, &detail_of(other), &[], Some(task.restart_point()));
        }
    }
}

pub(super) fn revert_ended(
    view: &View<'_>,
    draft: &mut Draft,
    outcome: &Outcome,
    lease: &Lease,
    task: &Task,
) {
    let back = lease.resume_to.clone().unwrap_or_else(|| task.restart_point());
    match outcome {
        Outcome::Reverted { commit, reapplied } => {
            draft.event(Event::MergeReverted {
                task: task.id.clone(),
                commit: commit.clone(),
                reapplied: reapplied.clone(),
            });
            moved(draft, task, back);
        }
        Outcome::NotMerged { why: MergeFault::BuriedMerge | MergeFault::LostSwap, detail, paths } => {
            let key = task_key(&task.id, HoldKind::PostMergeRed);
            draft.hold(view, key, detail, paths, Some(back));
        }
        other => {
            let key = task_key(&task.id, HoldKind::MergeWedged);
            draft.hold(view, key, &detail_of(other), &[], Some(back));
        }
    }
}
