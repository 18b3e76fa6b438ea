//! Limits of a state: how long lists and texts may be and how large numbers. It judges sizes, never meaning.

use super::{Checked, Violation, ensure};
use crate::apply::MAX_UNATTRIBUTED;
use crate::command::TaskEdit;
use crate::event::Event;
use crate::finding::{Finding, MAX_FINDING_TEXT, MAX_FINDINGS};
use crate::hold::{Hold, MAX_ITEMS};
use crate::ledger::Archived;
use crate::report::CheckOutcome;
use crate::state::{AnswerRecord, Gate, Grant, GrantScope, Lease, LoopState, MAX_ANSWERS, Owner, Phase};
use crate::task::{MAX_TEXT, ResumeTo, ReviewRun, Stage, Task};
use crate::units::{MAX_NUMBER, Tokens};

/// The most permissions that one goal may gather: each is an answer of a person.
pub const MAX_GRANTS: usize = 1_000;

/// Checks lists, texts and numbers.
///
/// # Errors
/// The first that is too large.
pub fn check(state: &LoopState) -> Checked {
    many("answers", state.answers.len(), MAX_ANSWERS)?;
    many("grants", state.grants.len(), MAX_GRANTS)?;
    many("target.known_red", state.target.known_red.len(), MAX_ITEMS)?;
    // One more for the name that the rest is kept under.
    many("ledger.unattributed", state.ledger.unattributed.len(), MAX_UNATTRIBUTED + 1)?;
    of_loop(state)?;
    clock(state)?;
    state.holds.iter().try_for_each(|open| hold(&open.hold))?;
    state.tasks.iter().try_for_each(task)?;
    state.leases.values().try_for_each(lease)?;
    ledger(state)
}

fn many(what: &'static str, count: usize, limit: usize) -> Checked {
    ensure(count <= limit, || Violation::TooMany(what))
}

fn text(what: &'static str, text: &str) -> Checked {
    // The count of bytes is an upper bound of the count of characters, and is known at once.
    ensure(text.len() <= MAX_TEXT || text.chars().count() <= MAX_TEXT, || Violation::TextTooLong(what))
}

fn number(what: &'static str, number: u64) -> Checked {
    ensure(number <= MAX_NUMBER, || Violation::NumberTooLarge(what))
}

fn of_loop(state: &LoopState) -> Checked {
    number("revision", state.revision)?;
    number("next_dispatch", state.next_dispatch)?;
    number("progress_at", state.progress_at.0)?;
    number("goal.started_at", state.goal.started_at.0)?;
    number("goal.pending.seen_at", state.goal.pending.as_ref().map_or(0, |pending| pending.seen_at.0))?;
    match &state.phase {
        Phase::Active => {}
        Phase::Paused { by, at } => {
            text("phase.by", by)?;
            number("phase.at", at.0)?;
        }
        Phase::Complete { at } => number("phase.at", at.0)?,
    }
    text("plan_counters.notes", &state.plan_counters.notes)?;
    state.target.known_red.iter().try_for_each(|line| text("target.known_red", line))?;
    state.answers.iter().try_for_each(answer)?;
    state.grants.iter().try_for_each(grant)?;
    state.routes.values().try_for_each(|route| gate(&route.gate))
}

fn answer(answer: &AnswerRecord) -> Checked {
    text("answers.by", &answer.by)?;
    number("answers.at", answer.at.0)
}

fn grant(grant: &Grant) -> Checked {
    text("grants.by", &grant.by)?;
    number("grants.at", grant.at.0)?;
    match &grant.scope {
        GrantScope::Day(day) => number("grants.scope", day.0),
        GrantScope::Session(instance) => number("grants.scope", *instance),
        GrantScope::Goal(_) | GrantScope::Head { .. } => Ok(()),
    }
}

fn gate(gate: &Gate) -> Checked {
    match gate {
        Gate::ClosedUntil { at, why } => {
            text("routes.why", why)?;
            number("routes.at", at.0)
        }
        Gate::Open | Gate::Closed => Ok(()),
    }
}

fn clock(state: &LoopState) -> Checked {
    let clock = &state.clock;
    number("clock.wall", clock.wall.0)?;
    number("clock.awake.boot", clock.awake.boot)?;
    number("clock.awake.ms", clock.awake.ms)?;
    number("clock.active", clock.active.0)?;
    number("clock.day", clock.day.0)?;
    let pending = clock.pending_day.map_or((0, 0), |pending| (pending.day.0, pending.seen_at.0));
    number("clock.pending_day.day", pending.0)?;
    number("clock.pending_day.seen_at", pending.1)
}

fn hold(hold: &Hold) -> Checked {
    many("hold.items", hold.items.len(), MAX_ITEMS)?;
    text("hold.detail", &hold.detail)?;
    hold.items.iter().try_for_each(|item| text("hold.items", item))?;
    number("hold.revision", hold.revision)?;
    number("hold.opened_at", hold.opened_at.0)?;
    match &hold.acknowledged {
        Some(said) => {
            text("hold.acknowledged.by", &said.by)?;
            number("hold.acknowledged.at", said.at.0)
        }
        None => Ok(()),
    }
}

fn resume_to(to: &ResumeTo) -> Checked {
    match to {
        ResumeTo::Rework { notes } => text("resume_to.notes", notes),
        ResumeTo::Ready
        | ResumeTo::Committed { .. }
        | ResumeTo::AwaitingReview { .. }
        | ResumeTo::MergeReady(_) => Ok(()),
    }
}

fn task(task: &Task) -> Checked {
    text("task.title", &task.title)?;
    task.criteria.iter().try_for_each(|line| text("task.criteria", line))?;
    task.allowed_paths.iter().try_for_each(|glob| text("task.allowed_paths", glob))?;
    number("task.counters.busy_ms", task.counters.busy_ms)?;
    findings(&task.findings.open)?;
    ensure(task.findings.names_are_own(), || Violation::FindingName(task.id.clone()))?;
    task.checked.as_ref().map_or(Ok(()), checked)?;
    match &task.stage {
        Stage::Rework { notes } => text("task.notes", notes),
        Stage::Held { resume_to: to, hold: why } => {
            hold(why)?;
            resume_to(to)
        }
        Stage::InReview(ReviewRun::Forge { pr, next_poll, .. }) => {
            number("task.pr", *pr)?;
            number("task.next_poll", next_poll.0)
        }
        _ => Ok(()),
    }
}

fn findings(all: &[Finding]) -> Checked {
    many("task.findings", all.len(), MAX_FINDINGS)?;
    all.iter().try_for_each(finding)
}

fn finding(finding: &Finding) -> Checked {
    let fits = |text: &str| text.chars().count() <= MAX_FINDING_TEXT;
    let whole = fits(&finding.text) && finding.path.as_deref().is_none_or(fits);
    ensure(whole, || Violation::TextTooLong("task.findings"))
}

fn checked(outcome: &CheckOutcome) -> Checked {
    match outcome {
        CheckOutcome::Green => Ok(()),
        CheckOutcome::Red { commands, output } => {
            many("task.checked", commands.len(), MAX_ITEMS)?;
            commands.iter().chain([output]).try_for_each(|line| text("task.checked", line))
        }
        CheckOutcome::Unavailable { detail } => text("task.checked", detail),
    }
}

fn lease(lease: &Lease) -> Checked {
    owner(&lease.owner)?;
    number("lease.started_at", lease.started_at.0)?;
    number("lease.deadline", lease.deadline.0)?;
    number("lease.reserve", lease.reserve.0)?;
    lease.resume_to.as_ref().map_or(Ok(()), resume_to)
}

fn owner(owner: &Owner) -> Checked {
    text("lease.owner.host", &owner.host)?;
    number("lease.owner.boot", owner.boot)?;
    number("lease.owner.started", owner.started)?;
    number("lease.owner.instance", owner.instance)
}

fn ledger(state: &LoopState) -> Checked {
    let ledger = &state.ledger;
    for entry in ledger.entries.values() {
        number("ledger.amount", entry.amount.0)?;
        number("ledger.day", entry.day.0)?;
        number("ledger.instance", entry.instance)?;
        tokens(&entry.tokens)?;
    }
    for (name, usage) in &ledger.unattributed {
        text("ledger.unattributed", name)?;
        number("ledger.unattributed", usage.amount.0)?;
        number("ledger.unattributed.revision", usage.revision)?;
        number("ledger.unattributed.day", usage.day.0)?;
    }
    let Archived { measured, priced, assumed, tokens } = ledger.archived;
    [measured.0, priced.0, assumed.0, tokens].iter().try_for_each(|n| number("ledger.archived", *n))
}

fn tokens(tokens: &Tokens) -> Checked {
    let Tokens { input_uncached, cache_read, cache_write, output, reasoning } = *tokens;
    [input_uncached, cache_read, cache_write, output, reasoning]
        .into_iter()
        .try_for_each(|count| number("ledger.tokens", count))
}

/// Checks one event before it is folded: what it carries fits into a state.
///
/// # Errors
/// The first that is too large.
pub fn event(event: &Event) -> Checked {
    match event {
        Event::ClockAnchored { wall, awake, active } | Event::ClockStepped { wall, awake, active } => {
            number("wall", wall.0)?;
            number("awake.boot", awake.boot)?;
            number("awake.ms", awake.ms)?;
            number("active", active.0)
        }
        Event::DayRolled { day } => number("day", day.0),
        Event::GoalStarted { at, .. } | Event::GoalCompleted { at } => number("at", at.0),
        Event::GoalEditSeen { at, .. } | Event::HoldLifted { at, .. } => number("at", at.0),
        Event::TargetVerified { known_red, .. } => {
            many("known_red", known_red.len(), MAX_ITEMS)?;
            known_red.iter().try_for_each(|line| text("known_red", line))
        }
        Event::PlanAccepted { tasks, .. } => tasks.iter().try_for_each(task),
        Event::Checked { outcome, .. } => checked(outcome),
        Event::FindingsNamed { findings: named, .. } => findings(named),
        Event::PlanRefused { detail } => text("detail", detail),
        Event::TaskMoved { to, .. } => resume_to(to),
        Event::TaskEdited { edit, .. } => edited(edit),
        Event::HoldOpened { hold: opened, resume_to: to, .. } => {
            hold(opened)?;
            to.as_ref().map_or(Ok(()), resume_to)
        }
        Event::HoldAcknowledged { by, at, .. } | Event::Paused { by, at } | Event::Resumed { by, at } => {
            text("by", by)?;
            number("at", at.0)
        }
        Event::AnswerGiven { record } => answer(record),
        Event::GrantGiven { grant: given } => grant(given),
        Event::RouteGated { gate: new, .. } => gate(new),
        Event::LeaseTaken { .. }
        | Event::LeaseEnding { .. }
        | Event::LeaseAdopted { .. }
        | Event::LeaseEnded { .. }
        | Event::DispatchRefused { .. }
        | Event::AttemptReturned { .. }
        | Event::DispatchOrphaned { .. }
        | Event::UsageSettled { .. }
        | Event::UsageUnattributed { .. } => of_dispatch(event),
        Event::PolicyChanged { .. }
        | Event::GoalTextReturned
        | Event::GoalContinued { .. }
        | Event::GoalReplanned { .. }
        | Event::GoalArchived
        | Event::TargetUnverified
        | Event::TargetChosen { .. }
        | Event::LastMergeForgotten
        | Event::PlanWanted { .. }
        | Event::PlanCountersReset
        | Event::WorkCommitted { .. }
        | Event::Refreshed { .. }
        | Event::ReviewPassed { .. }
        | Event::Merged { .. }
        | Event::MergedElsewhere { .. }
        | Event::MergeReverted { .. }
        | Event::Counted { .. }
        | Event::CountersReset { .. }
        | Event::StartedAfresh { .. }
        | Event::ReplanRequested { .. }
        | Event::TaskAccepted { .. }
        | Event::TaskDropped { .. }
        | Event::DependencyRemoved { .. }
        | Event::GrantConsumed { .. }
        | Event::RouteRefused { .. } => Ok(()),
    }
}

fn edited(edit: &TaskEdit) -> Checked {
    let (paths, criteria) = (edit.allowed_paths.iter().flatten(), edit.criteria.iter().flatten());
    paths.chain(criteria).try_for_each(|line| text("edit", line))
}

fn of_dispatch(event: &Event) -> Checked {
    match event {
        // The next id is one more.
        Event::LeaseTaken { dispatch, lease: taken } => {
            number("dispatch", dispatch.0.saturating_add(1))?;
            lease(taken)
        }
        Event::LeaseAdopted { owner: new, deadline, .. } => {
            owner(new)?;
            number("deadline", deadline.0)
        }
        Event::LeaseEnded { at, .. } => number("at", at.0),
        Event::UsageSettled { amount, tokens: used, .. } => {
            number("amount", amount.0)?;
            tokens(used)
        }
        Event::UsageUnattributed { dispatch, day, amount } => {
            text("dispatch", dispatch)?;
            number("day", day.0)?;
            number("amount", amount.0)
        }
        _ => Ok(()),
    }
}
