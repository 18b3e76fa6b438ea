//! Reports become events, whatever the phase: money first, then the stage the outcome leads to.

mod host;
mod model;
mod route;

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::apply::MAX_UNATTRIBUTED;
use crate::basis::{Basis, BasisField};
use crate::decide::Decision;
use crate::draft::{Draft, View};
use crate::effect::Effect;
use crate::event::Event;
use crate::hold::{HoldKey, HoldKind, Subject};
use crate::ids::DispatchId;
use crate::ledger::{Certainty, Entry, Unattributed};
use crate::observation::Observation;
use crate::reason::Reason;
use crate::report::{CheckOutcome, FailureClass, Outcome, Report, Usage, UsageBasis};
use crate::state::{Lease, Op};
use crate::task::{ResumeTo, Task};
use crate::units::{DAY_MS, UsdMicros, WallMs};

pub(crate) use host::take_host;
pub use host::{AUTO_CONFLICTS, LOST_SWAPS};
pub(crate) use model::has_approval;
pub use route::{QUOTA_WAIT_MAX_MS, ROUTE_PAUSE_MS};

/// Settles what late reports tell of money, then the first report that ends a lease.
pub(crate) fn settle(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let ends = || seen.reports.iter().find_map(|report| lease_of(view, report).map(|lease| (report, lease)));
    late(view, &seen.reports).or_else(|| ends().map(|(report, lease)| end(view, report, lease)))
}

/// The lease that a report ends.
fn lease_of<'a>(view: &View<'a>, report: &Report) -> Option<&'a Lease> {
    view.state.leases.get(&report.dispatch).filter(|lease| lease.epoch == report.epoch)
}

/// Reports without their leases: only their money counts. All of them are settled at once: a tick has an end,
/// and the host forgets what it has shown. Of several reports of one dispatch the first that tells something
/// new counts now and the next one after it, because each is judged by what is booked already.
fn late(view: &View<'_>, reports: &[Report]) -> Option<Decision> {
    let mut draft = Draft::default();
    let mut told: BTreeSet<DispatchId> = BTreeSet::new();
    for report in reports.iter().filter(|report| lease_of(view, report).is_none()) {
        if told.contains(&report.dispatch) {
            continue;
        }
        if let Some(event) = booked(view, report) {
            told.insert(report.dispatch);
            draft.event(event);
        }
    }
    if draft.events.is_empty() {
        return None;
    }
    draft.events.splice(0..0, remembered(view, reports, &draft.events));
    withdraw_caps(view, &mut draft);
    Some(draft.done(Reason::UsageSettledLate))
}

/// When the book of foreign names is about to be full: the names of this look that are in it already are told
/// again, without money, so that they are not the ones that make room.
fn remembered(view: &View<'_>, reports: &[Report], events: &[Event]) -> Vec<Event> {
    let book = &view.state.ledger.unattributed;
    let new = events.iter().filter(|event| matches!(event, Event::UsageUnattributed { .. })).count();
    if new == 0 || book.len().saturating_add(new) <= MAX_UNATTRIBUTED {
        return Vec::new();
    }
    let names: BTreeSet<DispatchId> = reports.iter().map(|report| report.dispatch).collect();
    let kept = names.iter().filter_map(|dispatch| book.get(&dispatch.to_string()));
    let again = |usage: &Unattributed| Event::UsageUnattributed {
        dispatch: usage.dispatch.clone(),
        day: usage.day,
        amount: UsdMicros(0),
    };
    kept.map(again).collect()
}

/// What a report adds to the ledger: on its dispatch, or under the name it gave when no such dispatch is
/// booked, be it unknown, refused or put away. None when that is known already, and for numbers that may
/// cover other runs too: those were booked with them, and what this one used stays unknown.
fn booked(view: &View<'_>, report: &Report) -> Option<Event> {
    let own = |usage: &Usage| matches!(usage.basis, UsageBasis::PerDispatch | UsageBasis::Partial);
    let usage = report.usage.filter(own)?.bounded();
    if let Some(entry) = view.state.ledger.entries.get(&report.dispatch) {
        return usage_event(view, report.dispatch, entry, usage);
    }
    let name = report.dispatch.to_string();
    let (day, amount) = (view.state.clock.day, usage.cost.unwrap_or(UsdMicros(0)));
    // Tokens alone are noted as nothing spent; the money may still come.
    let known =
        view.state.ledger.unattributed.get(&name).is_some_and(|kept| kept.amount.0 > 0 || amount.0 == 0);
    (!known).then_some(Event::UsageUnattributed { dispatch: name, day, amount })
}

/// The amount a report makes more certain, or the first tokens it tells of a dispatch that was silent.
fn usage_event(view: &View<'_>, dispatch: DispatchId, entry: &Entry, usage: Usage) -> Option<Event> {
    let to = view.now.wall;
    let from = match view.state.leases.get(&dispatch) {
        Some(lease) => WallMs(to.0.saturating_sub(view.now.active.since(lease.started_at))),
        // What comes late is known by its day.
        None => WallMs(entry.day.0.saturating_mul(DAY_MS)),
    };
    let price = view.policy.routes.get(&entry.route).and_then(|route| route.price_between(from, to));
    let (amount, certainty) = match (usage.cost, price) {
        (Some(cost), _) => (cost, Certainty::Measured),
        (None, Some(price)) => (price.cost(&usage.tokens), Certainty::Priced),
        // Tokens without a price: the reserve stays as the assumption, the tokens are kept.
        (None, None) => (entry.amount, Certainty::Assumed),
    };
    // A part of the use proves no sum: the reserve stays, unless the part alone is dearer.
    let (amount, certainty) = match usage.basis {
        UsageBasis::Partial => (amount.max(entry.amount), Certainty::Assumed),
        _ => (amount, certainty),
    };
    let told = usage.tokens.total() > 0;
    let first_tokens = told && entry.tokens.total() == 0 && certainty == entry.certainty;
    // Money alone takes no tokens back.
    let tokens = if told { usage.tokens } else { entry.tokens };
    let event = Event::UsageSettled { dispatch, amount, certainty, tokens };
    (certainty > entry.certainty || (first_tokens && certainty == Certainty::Assumed)).then_some(event)
}

/// The end of a live lease.
fn end(view: &View<'_>, report: &Report, lease: &Lease) -> Decision {
    let mut draft = Draft::default();
    // Usage beside a refusal is a contradiction in which the money counts.
    let refused = lease.op.is_model() && matches!(report.outcome, Outcome::Refused { .. });
    let assumed = || if refused { None } else { assume(view, report.dispatch) };
    draft.events.extend(booked(view, report).or_else(assumed));
    if refused {
        draft.event(Event::DispatchRefused { dispatch: report.dispatch });
    }
    let ended = Event::LeaseEnded { dispatch: report.dispatch, at: view.now.active };
    let not_the_tasks = match &report.outcome {
        Outcome::Failed { class, .. } => {
            class.is_route() || *class == FailureClass::Cancelled || report.is_unworked()
        }
        outcome => lease.op == Op::Review && model::is_no_verdict(outcome),
    };
    if not_the_tasks && lease.op.is_model() {
        draft.event(Event::AttemptReturned { dispatch: report.dispatch });
    }
    draft.event(ended);
    withdraw_caps(view, &mut draft);
    match &lease.subject {
        Subject::Planning => model::plan_ended(view, &mut draft, report, lease),
        Subject::Target => base_checked(view, &mut draft, report, lease),
        Subject::Task(id) => {
            if let Some(task) = view.state.tasks.get(id) {
                task_ended(view, &mut draft, report, lease, task);
            }
        }
        Subject::Route(_) | Subject::Goal | Subject::Loop => {}
    }
    if lease.op.is_model() {
        route::gate_route(view, &mut draft, lease, &report.outcome);
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
    let holds = view.state.open_holds();
    let found = holds.into_iter().filter(|(_, hold)| hold.kind.is_about_money());
    let key = |(subject, kind)| HoldKey { subject, kind };
    found.map(|(s, h)| Event::HoldLifted { key: key((s, h.kind)), at: view.now.active }).collect()
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
    let landed = matches!(report.outcome, Outcome::Merged { .. } | Outcome::AlreadyMerged { .. });
    let difference = lease.basis.difference(&now).filter(|_| !landed);
    let published = matches!(lease.op, Op::Verify | Op::Revert);
    if difference == Some(BasisField::GoalEpoch) && !published {
        // The plan for the new text covers whatever did not land.
        draft.event(Event::TaskDropped { task: task.id.clone() });
        return;
    }
    if difference.is_some() && matches!(lease.op, Op::Review | Op::Check | Op::Merge) {
        let to = task.tip.clone().map_or(back, |head| ResumeTo::Committed { head });
        draft.event(Event::TaskMoved { task: task.id.clone(), to });
        return;
    }
    match lease.op {
        Op::Work => model::work_ended(view, draft, report, lease, task, back),
        Op::Commit => host::commit_ended(view, draft, report, lease, task, back),
        Op::Check => host::check_ended(view, draft, &report.outcome, task, back),
        Op::Review => model::review_ended(view, draft, report, lease, task, back),
        Op::Merge => host::merge_ended(view, draft, report, task, back),
        Op::Refresh => host::refresh_ended(view, draft, &report.outcome, task, back),
        Op::Verify => host::verify_ended(view, draft, &report.outcome, lease, task),
        Op::Revert => {
            host::revert_ended(view, draft, &report.outcome, lease, task);
            let taken_back = matches!(report.outcome, Outcome::Reverted { .. });
            if taken_back && difference == Some(BasisField::GoalEpoch) {
                draft.event(Event::TaskDropped { task: task.id.clone() });
            }
        }
        Op::Plan => {}
    }
}

/// A lease that does not say whose work it is; the invariants let no state have one.
const NOBODY: &str = "its lease does not say who it ran as";

pub(super) fn moved(draft: &mut Draft, task: &Task, to: ResumeTo) {
    draft.event(Event::TaskMoved { task: task.id.clone(), to });
}

/// What an outcome says of itself.
pub(crate) fn detail_of(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Worked { summary } | Outcome::WorkBlocked { summary } | Outcome::WorkFailed { summary } => {
            summary.clone()
        }
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
