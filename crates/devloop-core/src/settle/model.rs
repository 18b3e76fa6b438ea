//! What the outcome of a model means: plans, work, reviews.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::host::{commit_hold, too_large};
use super::{NOBODY, detail_of, moved};
use crate::basis::Basis;
use crate::draft::{Draft, NewLease, View, rework, task_key};
use crate::event::{Counter, Event};
use crate::finding::Finding;
use crate::hold::{HoldKey, HoldKind, Subject};
use crate::ids::Oid;
use crate::report::{CommitFault, FailureClass, MergeFault, Outcome, Report};
use crate::review::{Review, ReviewFault, ReviewedHead, Verdict};
use crate::state::{Lease, Op, Planning};
use crate::task::{ResumeTo, Task};
use crate::units::UsdMicros;

pub(super) fn plan_ended(view: &View<'_>, draft: &mut Draft, report: &Report, lease: &Lease) {
    let Planning::Working { dispatch, replaces } = &view.state.planning else { return };
    if *dispatch != report.dispatch {
        return;
    }
    let now = Basis::of_loop(view.state, view.policy, lease.basis.head.clone());
    let fault = match &report.outcome {
        Outcome::Refused { .. } => {
            draft.event(Event::PlanWanted { replaces: replaces.clone() });
            if view.state.plan_counters.refusals.saturating_add(1) >= view.policy.limits.plan_refusals {
                hold_planning(view, draft, HoldKind::PlanRefusals, &detail_of(&report.outcome));
            }
            return;
        }
        Outcome::Failed { class, .. } if class.is_route() => {
            draft.event(Event::PlanWanted { replaces: replaces.clone() });
            return;
        }
        Outcome::CommitRefused { why: CommitFault::Escaped, detail, paths } => {
            draft.event(Event::PlanRefused { detail: crate::task::clip(detail) });
            let key = HoldKey { subject: Subject::Planning, kind: HoldKind::EscapedWrite };
            draft.hold(view, key, detail, paths, None);
            return;
        }
        _ if lease.basis.goal_epoch != now.goal_epoch => "the goal changed while it was planned".to_string(),
        Outcome::Planned { tasks } => match crate::plan::judge(view.state, tasks, replaces.as_ref()) {
            Ok(tasks) => {
                draft.event(Event::PlanAccepted { tasks, replaces: replaces.clone() });
                return;
            }
            Err(crate::plan::PlanFault::Empty) => {
                draft.event(Event::PlanRefused { detail: "the plan has no task".to_string() });
                hold_planning(view, draft, HoldKind::EmptyPlan, "");
                return;
            }
            Err(fault) => fault.to_string(),
        },
        other => detail_of(other),
    };
    draft.event(Event::PlanRefused { detail: crate::task::clip(&fault) });
    // The same goal would be refused again, and no count would end that.
    if view.state.plan_counters.attempts >= view.policy.limits.plan_attempts || report.is_unworked() {
        hold_planning(view, draft, HoldKind::PlanAttempts, &fault);
    }
}

fn hold_planning(view: &View<'_>, draft: &mut Draft, kind: HoldKind, detail: &str) {
    draft.hold(view, HoldKey { subject: Subject::Planning, kind }, detail, &[], None);
}

pub(super) fn work_ended(
    view: &View<'_>,
    draft: &mut Draft,
    report: &Report,
    lease: &Lease,
    task: &Task,
    back: ResumeTo,
) {
    let used_up = task.counters.attempts >= view.policy.limits.task_attempts;
    let hold = |draft: &mut Draft, kind, detail: &str| {
        draft.hold(view, task_key(&task.id, kind), detail, &[], Some(back.clone()));
    };
    match &report.outcome {
        Outcome::Worked { .. } => {
            let basis = lease.basis.clone();
            let commit = NewLease {
                op: Op::Commit,
                subject: lease.subject.clone(),
                route: lease.route.clone(),
                who: lease.who.clone(),
                reserve: UsdMicros(0),
                basis,
                worktree: Some(report.dispatch),
                resume_to: Some(back),
            };
            draft.take(view, Some(task), commit);
        }
        Outcome::WorkBlocked { summary } => hold(draft, HoldKind::BlockedTask, summary),
        Outcome::WorkFailed { summary } => hold(draft, HoldKind::RepeatedTestFailure, summary),
        Outcome::NoResult { detail } => hold(draft, HoldKind::MissingAgentResult, detail),
        Outcome::Refused { detail } if refused_too_often(view, task) => {
            hold(draft, HoldKind::DispatchRefused, detail);
        }
        Outcome::Refused { .. } => moved(draft, task, back),
        Outcome::Failed { class: FailureClass::ContextTooLong, detail } => {
            too_large(view, draft, task, detail, &[]);
        }
        Outcome::Failed { class: FailureClass::OutputLimit | FailureClass::ContentRefusal, detail }
            if report.is_unworked() =>
        {
            hold(draft, HoldKind::BackendFailed, detail);
        }
        Outcome::Failed {
            class: FailureClass::Task | FailureClass::OutputLimit | FailureClass::ContentRefusal,
            detail,
        } => moved(draft, task, rework(crate::task::clip(detail))),
        Outcome::Failed { class: FailureClass::Deadline | FailureClass::Machine, detail } if used_up => {
            hold(draft, HoldKind::BackendFailed, detail);
        }
        Outcome::Failed { .. } => moved(draft, task, back),
        Outcome::CommitRefused { why, detail, paths } => {
            draft.hold(view, task_key(&task.id, commit_hold(*why)), detail, paths, Some(back));
        }
        other => hold(draft, HoldKind::InvalidAgentResult, &detail_of(other)),
    }
}

/// This refusal is the last one the circuit allows: asked here, while the reason is known.
fn refused_too_often(view: &View<'_>, task: &Task) -> bool {
    task.counters.refusals.saturating_add(1) >= view.policy.limits.refusals
}

pub(super) fn review_ended(
    view: &View<'_>,
    draft: &mut Draft,
    report: &Report,
    lease: &Lease,
    task: &Task,
    back: ResumeTo,
) {
    let used_up = task.counters.review_cycles >= view.policy.limits.review_cycles;
    let hold = |draft: &mut Draft, kind, detail: &str, to: ResumeTo| {
        draft.hold(view, task_key(&task.id, kind), detail, &[], Some(to));
    };
    match &report.outcome {
        Outcome::Reviewed(review) => match review.contradiction() {
            Some(fault) => {
                no_verdict(view, draft, task, HoldKind::InvalidAgentResult, &fault.to_string(), back);
            }
            None => judge_review(view, draft, review, lease, task, back),
        },
        Outcome::NoResult { detail } => {
            no_verdict(view, draft, task, HoldKind::MissingAgentResult, detail, back);
        }
        Outcome::InvalidResult { detail } => {
            no_verdict(view, draft, task, HoldKind::InvalidAgentResult, detail, back);
        }
        Outcome::Refused { detail } if refused_too_often(view, task) => {
            hold(draft, HoldKind::DispatchRefused, detail, back);
        }
        Outcome::Refused { .. } => moved(draft, task, back),
        // It could not be shown whole, so no pass of it counts: a planner splits it.
        Outcome::CommitRefused { why: CommitFault::TooLarge, detail, paths } => {
            too_large(view, draft, task, detail, paths);
        }
        // Nothing that a reviewer says counts when it wrote where it must not.
        Outcome::CommitRefused { why, detail, paths } => {
            draft.hold(view, task_key(&task.id, commit_hold(*why)), detail, paths, Some(back));
        }
        Outcome::NotMerged { why: MergeFault::UnknownCommit, detail, .. } => {
            hold(draft, HoldKind::MissingReviewWorktree, detail, ResumeTo::Ready);
        }
        Outcome::Failed { class, .. } if class.is_route() || *class == FailureClass::Cancelled => {
            moved(draft, task, back);
        }
        // A reviewer that the provider will not serve is no fault of the work.
        Outcome::Failed { detail, .. } if used_up || report.is_unworked() => {
            hold(draft, HoldKind::BackendFailed, detail, back);
        }
        Outcome::Failed { .. } => moved(draft, task, back),
        other => hold(draft, HoldKind::InvalidAgentResult, &detail_of(other), back),
    }
}

/// Whether a review ended without a verdict that counts. That is the reviewer's doing.
pub(super) fn is_no_verdict(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::NoResult { .. } | Outcome::InvalidResult { .. } => true,
        Outcome::Reviewed(review) => review.contradiction().is_some(),
        _ => false,
    }
}

/// A review without a verdict counts as a refusal of the reviewer: its attempt was returned and the commit is
/// reviewed again, until the circuit trips.
fn no_verdict(view: &View<'_>, draft: &mut Draft, task: &Task, kind: HoldKind, detail: &str, back: ResumeTo) {
    draft.event(Event::Counted { task: task.id.clone(), counter: Counter::Refusal });
    if refused_too_often(view, task) {
        draft.hold(view, task_key(&task.id, kind), detail, &[], Some(back));
    } else {
        moved(draft, task, back);
    }
}

fn judge_review(
    view: &View<'_>,
    draft: &mut Draft,
    review: &Review,
    lease: &Lease,
    task: &Task,
    back: ResumeTo,
) {
    let hold = |draft: &mut Draft, kind, detail: &str, to: ResumeTo| {
        draft.hold(view, task_key(&task.id, kind), detail, &[], Some(to));
    };
    let Some(who) = &lease.who else {
        return hold(draft, HoldKind::ResultTransitionFailed, NOBODY, back);
    };
    let (Some(head), Some(base)) = (&task.tip, &task.base) else {
        return hold(draft, HoldKind::ResultTransitionFailed, "the task has no commit to review", back);
    };
    let rule = view.policy.review.independence;
    let proven = ReviewedHead::prove(review, head, base, who, &task.implementers, rule);
    let named = task.findings.name(&review.findings);
    let counts = matches!(proven, Ok(_) | Err(ReviewFault::NotAPass));
    if counts && !(named.is_empty() && task.findings.open.is_empty()) {
        draft.event(Event::FindingsNamed { task: task.id.clone(), findings: named.clone() });
    }
    match (proven, review.verdict) {
        (Ok(proof), _) => {
            draft.event(Event::ReviewPassed {
                task: task.id.clone(),
                head: head.clone(),
                base: base.clone(),
                reviewer: who.clone(),
            });
            if task.risk == crate::tier::Risk::High && !has_approval(view, task, head) {
                let to = ResumeTo::MergeReady(proof);
                hold(draft, HoldKind::SecurityHighRisk, &review.notes, to);
            }
        }
        (Err(ReviewFault::WrongHead), _) => {
            let known = knows(view, &review.head);
            let kind = if known { HoldKind::StaleReviewSha } else { HoldKind::UnknownReviewSha };
            hold(draft, kind, review.head.as_str(), back);
        }
        (Err(ReviewFault::SameIdentity), _) => {
            hold(draft, HoldKind::ReviewerIdentityConflict, who.as_str(), back);
        }
        (Err(ReviewFault::NotAPass), Verdict::Replan) => replan(view, draft, task, &review.notes),
        (Err(ReviewFault::NotAPass), Verdict::Blocked) => {
            hold(draft, HoldKind::BlockedTask, &review.notes, back);
        }
        (Err(ReviewFault::NotAPass), _) => send_back(view, draft, task, &review.notes, &named),
    }
}

/// Whether the commit is one that this loop relies on somewhere: then a reviewer looked at the wrong one,
/// else nobody knows what it looked at.
fn knows(view: &View<'_>, commit: &Oid) -> bool {
    let target = &view.state.target;
    let on_target = [&target.verified, &target.last_merge].into_iter().flatten();
    let of_tasks = view.state.tasks.iter().flat_map(|task| [&task.base, &task.tip]).flatten();
    on_target.chain(of_tasks).any(|known| known == commit)
}

/// Another rework, when it may come closer to a pass and reviews are left.
fn send_back(view: &View<'_>, draft: &mut Draft, task: &Task, notes: &str, named: &[Finding]) {
    let to = rework(crate::task::clip(notes));
    let standstill = task.findings.standstill(named);
    if let Some(why) = standstill {
        let again = named.iter().filter(|one| why.again.contains(&one.id));
        let items: Vec<String> = again.map(|one| one.line(MAX_ITEM)).collect();
        let key = task_key(&task.id, HoldKind::NoConvergence);
        draft.hold(view, key, &why.sentence(), &items, Some(to));
    } else if task.counters.review_cycles >= view.policy.limits.review_cycles {
        draft.hold(view, task_key(&task.id, HoldKind::MaxReviewCycles), notes, &[], Some(to));
    } else {
        moved(draft, task, to);
    }
}

/// The longest line of a finding that a hold keeps, in characters.
const MAX_ITEM: usize = 200;

/// Whether a person approved exactly this head.
pub(crate) fn has_approval(view: &View<'_>, task: &Task, head: &Oid) -> bool {
    view.state.grants.iter().any(|g| {
        g.kind == HoldKind::SecurityHighRisk
            && g.subject == Subject::Task(task.id.clone())
            && matches!(&g.scope, crate::state::GrantScope::Head { head: h, contract }
                if h == head && *contract == task.edition)
    })
}

/// The reviewer rejected the task itself: a planner replaces it, unless that happened too often.
fn replan(view: &View<'_>, draft: &mut Draft, task: &Task, why: &str) {
    if task.counters.replans < view.policy.limits.replans {
        draft.event(Event::ReplanRequested { task: task.id.clone() });
    } else {
        let to = rework(crate::task::clip(why));
        draft.hold(view, task_key(&task.id, HoldKind::Replans), why, &[], Some(to));
    }
}
