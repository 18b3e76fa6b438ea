//! Reports become events, whatever the phase: money first, then the stage the outcome leads to.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::basis::Basis;
use crate::decide::Decision;
use crate::draft::{Draft, NewLease, View, notes, rework, task_key};
use crate::effect::Effect;
use crate::event::{Counter, Event};
use crate::hold::{HoldKey, HoldKind, Subject};
use crate::ids::{DispatchId, Oid, RouteKey};
use crate::ledger::Certainty;
use crate::observation::Observation;
use crate::policy::{Acceptance, PostMerge};
use crate::reason::Reason;
use crate::report::{CheckOutcome, CommitFault, FailureClass, MergeFault, Outcome, Report};
use crate::review::{Review, ReviewFault, ReviewedHead, Verdict};
use crate::state::{Gate, Lease, Op, Planning};
use crate::task::{ResumeTo, Task};
use crate::units::{UsdMicros, WallMs};

/// How long a route stays closed when its provider names no moment: 15 minutes.
pub const ROUTE_PAUSE_MS: u64 = 15 * 60_000;
/// A quota that resets later than this needs a person: 24 hours.
pub const QUOTA_WAIT_MAX_MS: u64 = 24 * 3_600_000;

/// Settles the first report that has something left to settle.
pub(crate) fn settle(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    seen.reports.iter().find_map(|report| settle_report(view, report))
}

fn settle_report(view: &View<'_>, report: &Report) -> Option<Decision> {
    let lease = view.state.leases.get(&report.dispatch).filter(|lease| lease.epoch == report.epoch);
    match lease {
        Some(lease) => Some(end(view, report, lease)),
        None => late(view, report),
    }
}

/// A report without its lease: only its money counts.
fn late(view: &View<'_>, report: &Report) -> Option<Decision> {
    let usage = report.usage.as_ref()?;
    if let Some(event) = usage_event(view, report) {
        return Some(Draft::of(alloc::vec![event]).done(Reason::UsageSettledLate));
    }
    let name = report.dispatch.to_string();
    let known = view.state.ledger.entries.contains_key(&report.dispatch)
        || report.dispatch.0 < view.state.next_dispatch
        || view.state.ledger.unattributed.contains_key(&name);
    if known {
        return None;
    }
    let amount = usage.cost.unwrap_or(UsdMicros(0));
    let event = Event::UsageUnattributed { dispatch: name, day: view.state.clock.day, amount };
    Some(Draft::of(alloc::vec![event]).done(Reason::UsageSettledLate))
}

/// The amount a report makes more certain, if it does.
fn usage_event(view: &View<'_>, report: &Report) -> Option<Event> {
    let entry = view.state.ledger.entries.get(&report.dispatch)?;
    let usage = report.usage.as_ref()?;
    let price = view.policy.routes.get(&entry.route).and_then(|route| route.price);
    let (amount, certainty) = match (usage.cost, price) {
        (Some(cost), _) => (cost, Certainty::Measured),
        (None, Some(price)) => (price.cost(&usage.tokens), Certainty::Priced),
        // Tokens without a price: the reserve stays as the assumption, the tokens are kept.
        (None, None) => (entry.amount, Certainty::Assumed),
    };
    let event =
        Event::UsageSettled { dispatch: report.dispatch, amount, certainty, tokens: usage.tokens };
    (certainty > entry.certainty).then_some(event)
}

/// The end of a live lease.
fn end(view: &View<'_>, report: &Report, lease: &Lease) -> Decision {
    let mut draft = Draft::default();
    let refused = matches!(report.outcome, Outcome::Refused { .. });
    if refused && lease.op.is_model() {
        draft.event(Event::DispatchRefused { dispatch: report.dispatch });
    } else if let Some(event) = usage_event(view, report) {
        draft.event(event);
    } else if let Some(event) = assume(view, report.dispatch) {
        draft.event(event);
    }
    let ended = Event::LeaseEnded { dispatch: report.dispatch, at: view.now.active };
    if let (Outcome::Failed { class, .. }, true) = (&report.outcome, lease.op.is_model())
        && class.is_route()
    {
        draft.event(Event::AttemptReturned { dispatch: report.dispatch });
    }
    draft.event(ended);
    withdraw_caps(view, &mut draft);
    match &lease.subject {
        Subject::Planning => plan_ended(view, &mut draft, report, lease),
        Subject::Target => base_checked(view, &mut draft, report, lease),
        Subject::Task(id) => {
            if let Some(task) = view.state.tasks.get(id) {
                task_ended(view, &mut draft, report, lease, task);
            }
        }
        Subject::Route(_) | Subject::Goal | Subject::Loop => {}
    }
    if lease.op.is_model() {
        gate_route(view, &mut draft, lease, &report.outcome);
        if !draft.effects.iter().any(|e| matches!(e, Effect::Commit { .. })) {
            draft.effect(Effect::RemoveWorktree { dispatch: report.dispatch });
        }
    }
    if let (Op::Commit, Some(work)) = (lease.op, lease.worktree) {
        draft.effect(Effect::RemoveWorktree { dispatch: work });
    }
    draft.done(Reason::Settled { op: lease.op, subject: lease.subject.clone() })
}

/// A dispatch that reported nothing keeps its reserve as an assumption.
pub(crate) fn assume(view: &View<'_>, dispatch: DispatchId) -> Option<Event> {
    let entry = view.state.ledger.entries.get(&dispatch)?;
    (entry.certainty == Certainty::Reserved).then(|| Event::UsageSettled {
        dispatch,
        amount: entry.amount,
        certainty: Certainty::Assumed,
        tokens: entry.tokens,
    })
}

/// Settled money may make room below a cap: its hold is looked at again.
fn withdraw_caps(view: &View<'_>, draft: &mut Draft) {
    let lower = |event: &Event| match event {
        Event::UsageSettled { dispatch, amount, .. } => {
            view.state.ledger.entries.get(dispatch).is_some_and(|entry| amount < &entry.amount)
        }
        Event::DispatchRefused { .. } => true,
        _ => false,
    };
    if draft.events.iter().any(lower) {
        draft.events.extend(lift_caps(view));
    }
}

/// The events that lift every hold on money, to be judged again.
pub(crate) fn lift_caps(view: &View<'_>) -> Vec<Event> {
    let money = |kind: HoldKind| {
        matches!(
            kind,
            HoldKind::DailyCostCap
                | HoldKind::SessionCostCap
                | HoldKind::GoalCostCap
                | HoldKind::TaskCostCap
                | HoldKind::AllProjectsDailyCap
                | HoldKind::ReserveExceedsCap
        )
    };
    let holds = view.state.open_holds();
    let found = holds.into_iter().filter(|(_, hold)| money(hold.kind));
    let key = |(subject, kind)| HoldKey { subject, kind };
    found.map(|(s, h)| Event::HoldLifted { key: key((s, h.kind)), at: view.now.active }).collect()
}

fn plan_ended(view: &View<'_>, draft: &mut Draft, report: &Report, lease: &Lease) {
    let Planning::Working { dispatch, replaces } = &view.state.planning else { return };
    if *dispatch != report.dispatch {
        return;
    }
    let now = Basis::of_loop(view.state, view.policy, lease.basis.head.clone());
    let fault = match &report.outcome {
        Outcome::Refused { .. } => {
            draft.event(Event::PlanWanted { replaces: replaces.clone() });
            if view.state.plan_counters.refusals + 1 >= view.policy.limits.plan_refusals {
                hold_planning(view, draft, HoldKind::PlanRefusals, &detail_of(&report.outcome));
            }
            return;
        }
        Outcome::Failed { class, .. } if class.is_route() => {
            draft.event(Event::PlanWanted { replaces: replaces.clone() });
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
    if view.state.plan_counters.attempts >= view.policy.limits.plan_attempts {
        hold_planning(view, draft, HoldKind::PlanAttempts, &fault);
    }
}

fn hold_planning(view: &View<'_>, draft: &mut Draft, kind: HoldKind, detail: &str) {
    draft.hold(view, HoldKey { subject: Subject::Planning, kind }, detail, &[], None);
}

/// The checks ran once on the target, before any work of the goal.
fn base_checked(view: &View<'_>, draft: &mut Draft, report: &Report, lease: &Lease) {
    let Some(commit) = lease.basis.head.clone() else { return };
    let verified = |known_red: Vec<String>| Event::TargetVerified { commit, known_red };
    let (commands, detail) = match &report.outcome {
        Outcome::Checked(CheckOutcome::Green) => {
            draft.event(verified(Vec::new()));
            return;
        }
        Outcome::Checked(CheckOutcome::Red { commands, output }) => (commands.clone(), output.clone()),
        Outcome::Checked(CheckOutcome::Unavailable { detail }) => (Vec::new(), detail.clone()),
        other => (Vec::new(), detail_of(other)),
    };
    draft.event(verified(commands.clone()));
    let key = HoldKey { subject: Subject::Target, kind: HoldKind::ChecksRedAtBase };
    draft.hold(view, key, &detail, &commands, None);
}

/// The end of an operation on a task. A task that moved on meanwhile is left where it is.
fn task_ended(view: &View<'_>, draft: &mut Draft, report: &Report, lease: &Lease, task: &Task) {
    if task.dispatch() != Some(report.dispatch) {
        return;
    }
    let back = lease.resume_to.clone().unwrap_or_else(|| task.restart_point());
    let now = Basis::of_task(view.state, view.policy, task);
    let stale = matches!(lease.op, Op::Review | Op::Check | Op::Merge)
        && lease.basis.difference(&now).is_some();
    let landed = matches!(report.outcome, Outcome::Merged { .. } | Outcome::AlreadyMerged { .. });
    if stale && !landed {
        let to = task.tip.clone().map_or(back, |head| ResumeTo::Committed { head });
        draft.event(Event::TaskMoved { task: task.id.clone(), to });
        return;
    }
    match lease.op {
        Op::Work => work_ended(view, draft, report, lease, task, back),
        Op::Commit => commit_ended(view, draft, report, lease, task, back),
        Op::Check => check_ended(view, draft, &report.outcome, task, back),
        Op::Review => review_ended(view, draft, report, lease, task, back),
        Op::Merge => merge_ended(view, draft, report, task, back),
        Op::Refresh => refresh_ended(view, draft, &report.outcome, task, back),
        Op::Verify => verify_ended(view, draft, &report.outcome, lease, task),
        Op::Revert => revert_ended(view, draft, &report.outcome, lease, task),
        Op::Plan => {}
    }
}

fn moved(draft: &mut Draft, task: &Task, to: ResumeTo) {
    draft.event(Event::TaskMoved { task: task.id.clone(), to });
}

fn work_ended(
    view: &View<'_>,
    draft: &mut Draft,
    report: &Report,
    lease: &Lease,
    task: &Task,
    back: ResumeTo,
) {
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
        Outcome::Refused { .. } => moved(draft, task, back),
        Outcome::Failed { class: FailureClass::Task, detail } => {
            moved(draft, task, rework(crate::task::clip(detail)));
        }
        Outcome::Failed { .. } => moved(draft, task, back),
        other => hold(draft, HoldKind::InvalidAgentResult, &detail_of(other)),
    }
}

fn commit_ended(
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
            let who = lease.route.as_ref().and_then(|key| view.policy.routes.get(key));
            let Some(route) = who else {
                return hold(HoldKind::ResultTransitionFailed, "its route is no longer configured", &[]);
            };
            let implementer = route.identity.clone();
            draft.event(Event::WorkCommitted { task: task.id.clone(), head: head.clone(), implementer });
        }
        Outcome::CommitEmpty => hold(HoldKind::EmptyTask, "", &[]),
        Outcome::CommitRefused { why, detail, paths } => hold(commit_hold(*why), detail, paths),
        other => hold(HoldKind::ParentCommitFailed, &detail_of(other), &[]),
    }
}

fn commit_hold(why: CommitFault) -> HoldKind {
    match why {
        CommitFault::Scope => HoldKind::ScopeViolation,
        CommitFault::ScopeUnknown => HoldKind::ScopeCheckFailed,
        CommitFault::Secret => HoldKind::SecretInDiff,
        CommitFault::Escaped => HoldKind::EscapedWrite,
        CommitFault::Late => HoldKind::LateCommit,
        CommitFault::BranchTaken => HoldKind::TaskBranchTaken,
        CommitFault::Git => HoldKind::ParentCommitFailed,
    }
}

fn check_ended(view: &View<'_>, draft: &mut Draft, outcome: &Outcome, task: &Task, back: ResumeTo) {
    let head = task.tip.clone();
    let known = |commands: &[String]| commands.iter().all(|c| view.state.target.known_red.contains(c));
    match (outcome, head) {
        (Outcome::Checked(CheckOutcome::Green), Some(head)) => {
            moved(draft, task, ResumeTo::AwaitingReview { head });
        }
        (Outcome::Checked(CheckOutcome::Red { commands, .. }), Some(head))
            if !commands.is_empty() && known(commands) =>
        {
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
        (other, _) => {
            let key = task_key(&task.id, HoldKind::CheckUnavailable);
            draft.hold(view, key, &detail_of(other), &[], Some(back));
        }
    }
}

fn review_ended(
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
        Outcome::Reviewed(review) => judge_review(view, draft, review, lease, task, back),
        Outcome::NoResult { detail } => hold(draft, HoldKind::MissingAgentResult, detail, back),
        Outcome::Refused { .. } => moved(draft, task, back),
        Outcome::Failed { class, .. } if class.is_route() => moved(draft, task, back),
        Outcome::Failed { detail, .. } if used_up => hold(draft, HoldKind::BackendFailed, detail, back),
        Outcome::Failed { .. } => moved(draft, task, back),
        other => hold(draft, HoldKind::InvalidAgentResult, &detail_of(other), back),
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
    let who = lease.route.as_ref().and_then(|key| view.policy.routes.get(key)).map(|r| &r.identity);
    let (Some(head), Some(base), Some(who)) = (&task.tip, &task.base, who) else {
        return hold(draft, HoldKind::UnknownReviewSha, "the task has no commit to review", back);
    };
    let rule = view.policy.review.independence;
    let proven = ReviewedHead::prove(review, head, base, who, &task.implementers, rule);
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
            hold(draft, HoldKind::StaleReviewSha, review.head.as_str(), back);
        }
        (Err(ReviewFault::SameIdentity), _) => {
            hold(draft, HoldKind::ReviewerIdentityConflict, who.as_str(), back);
        }
        (Err(ReviewFault::NotAPass), Verdict::Replan) => replan(view, draft, task, &review.notes),
        (Err(ReviewFault::NotAPass), Verdict::Blocked) => {
            hold(draft, HoldKind::BlockedTask, &review.notes, back);
        }
        (Err(ReviewFault::NotAPass), _) => {
            let to = rework(crate::task::clip(&review.notes));
            if task.counters.review_cycles >= view.policy.limits.review_cycles {
                hold(draft, HoldKind::MaxReviewCycles, &review.notes, to);
            } else {
                moved(draft, task, to);
            }
        }
    }
}

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

fn merge_ended(view: &View<'_>, draft: &mut Draft, report: &Report, task: &Task, back: ResumeTo) {
    let id = task.id.clone();
    match &report.outcome {
        Outcome::Merged { commit } => {
            draft.event(Event::Merged { task: id.clone(), commit: commit.clone() });
            draft.event(Event::GrantConsumed {
                kind: HoldKind::SecurityHighRisk,
                subject: Subject::Task(id),
            });
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
        reserve: UsdMicros(0),
        basis,
        worktree: None,
        resume_to,
    };
    draft.take(view, Some(task), lease);
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
        MergeFault::LostSwap | MergeFault::Checkout => {
            if task.counters.lost_swaps + 1 >= LOST_SWAPS {
                return hold(draft, HoldKind::BaseMoved);
            }
            draft.event(Event::Counted { task: task.id.clone(), counter: Counter::LostSwap });
            moved(draft, task, back);
        }
        MergeFault::Rewound => {
            moved(draft, task, back);
            let key = HoldKey { subject: Subject::Target, kind: HoldKind::TargetRewound };
            draft.hold(view, key, detail, paths, None);
        }
        MergeFault::ChecksUnavailable => hold(draft, HoldKind::CheckUnavailable),
        MergeFault::UnknownCommit => hold(draft, HoldKind::UnknownBase),
        MergeFault::BuriedMerge => hold(draft, HoldKind::PostMergeRed),
        MergeFault::Git => hold(draft, HoldKind::MergeWedged),
    }
}

/// A merge may lose the swap of the target this often.
pub const LOST_SWAPS: u32 = 3;
/// Conflicts answered by an automatic rework before a person is asked.
pub const AUTO_CONFLICTS: u32 = 1;

/// The first conflict is worked on again from the new target, with the old change named; the second needs a person.
fn conflict(view: &View<'_>, draft: &mut Draft, detail: &str, paths: &[String], task: &Task, back: &ResumeTo) {
    if task.counters.conflicts >= AUTO_CONFLICTS {
        let key = task_key(&task.id, HoldKind::MergeConflict);
        draft.hold(view, key, detail, paths, Some(back.clone()));
        return;
    }
    let old = task.tip.as_ref().map(ToString::to_string).unwrap_or_default();
    let text = alloc::format!(
        "The target changed the same lines. Do the task again on the new base; the earlier change is commit {old}."
    );
    draft.event(Event::Counted { task: task.id.clone(), counter: Counter::Conflict });
    draft.event(Event::StartedAfresh { task: task.id.clone() });
    moved(draft, task, rework(notes(&text, paths)));
}

fn refresh_ended(view: &View<'_>, draft: &mut Draft, outcome: &Outcome, task: &Task, back: ResumeTo) {
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

fn verify_ended(view: &View<'_>, draft: &mut Draft, outcome: &Outcome, lease: &Lease, task: &Task) {
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

fn revert_ended(view: &View<'_>, draft: &mut Draft, outcome: &Outcome, lease: &Lease, task: &Task) {
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

/// Provider faults close the route, not the task; a route that refuses everybody is closed with one question.
fn gate_route(view: &View<'_>, draft: &mut Draft, lease: &Lease, outcome: &Outcome) {
    let Some(route) = &lease.route else { return };
    match outcome {
        Outcome::Refused { detail } => {
            let event = Event::RouteRefused { route: route.clone(), subject: lease.subject.clone() };
            draft.event(event);
            let refused = view.state.routes.get(route).map(|r| r.refused.as_slice()).unwrap_or_default();
            if refused.iter().any(|subject| *subject != lease.subject) {
                close(view, draft, route, HoldKind::RouteClosed, detail);
            }
        }
        Outcome::Failed { class, detail } => match class {
            FailureClass::OutOfCredit | FailureClass::LoginExpired => {
                close(view, draft, route, HoldKind::RouteClosed, detail);
            }
            FailureClass::RateLimited { until: Some(at) } if at.since(view.now.wall) > QUOTA_WAIT_MAX_MS => {
                close(view, draft, route, HoldKind::QuotaWaitTooLong, detail);
            }
            FailureClass::RateLimited { until } => close_until(view, draft, route, *until, detail),
            FailureClass::Overloaded | FailureClass::NetworkDown => {
                close_until(view, draft, route, None, detail);
            }
            FailureClass::Task
            | FailureClass::Deadline
            | FailureClass::Cancelled
            | FailureClass::Machine => {}
        },
        _ => {}
    }
}

fn close(view: &View<'_>, draft: &mut Draft, route: &RouteKey, kind: HoldKind, detail: &str) {
    draft.event(Event::RouteGated { route: route.clone(), gate: Gate::Closed });
    let key = HoldKey { subject: Subject::Route(route.clone()), kind };
    draft.hold(view, key, detail, &[], None);
}

fn close_until(
    view: &View<'_>,
    draft: &mut Draft,
    route: &RouteKey,
    until: Option<WallMs>,
    detail: &str,
) {
    let floor = view.now.wall.plus(1_000);
    let at = until.unwrap_or(view.now.wall.plus(ROUTE_PAUSE_MS)).max(floor);
    let gate = Gate::ClosedUntil { at, why: crate::task::clip(detail) };
    draft.event(Event::RouteGated { route: route.clone(), gate });
}

/// What an outcome says of itself.
pub(crate) fn detail_of(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Worked { summary }
        | Outcome::WorkBlocked { summary }
        | Outcome::WorkFailed { summary } => summary.clone(),
        Outcome::CommitRefused { detail, .. }
        | Outcome::NotMerged { detail, .. }
        | Outcome::NoResult { detail }
        | Outcome::InvalidResult { detail }
        | Outcome::Failed { detail, .. }
        | Outcome::Refused { detail }
        | Outcome::Checked(CheckOutcome::Unavailable { detail }) => detail.clone(),
        Outcome::Checked(CheckOutcome::Red { output, .. }) => output.clone(),
        Outcome::Planned { .. } => "a plan came back where none was asked for".to_string(),
        Outcome::Reviewed(_) => "a review came back where none was asked for".to_string(),
        Outcome::Committed { .. }
        | Outcome::CommitEmpty
        | Outcome::Checked(CheckOutcome::Green)
        | Outcome::Merged { .. }
        | Outcome::AlreadyMerged { .. }
        | Outcome::Refreshed { .. }
        | Outcome::Reverted { .. } => "the result belongs to another operation".to_string(),
    }
}
