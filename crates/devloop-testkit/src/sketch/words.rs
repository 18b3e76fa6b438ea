//! Events and effects in a few words each. See the module above for what is left out.

use devloop_core::effect::{Effect, Job, Start};
use devloop_core::event::Event;
use devloop_core::finding::Finding;
use devloop_core::render::usd;
use devloop_core::report::CheckOutcome;
use devloop_core::state::Gate;

use super::{digest, list, place, short};

/// An event in a few words.
#[must_use]
pub fn event(event: &Event) -> String {
    match event {
        Event::ClockAnchored { .. } => "clock anchored".into(),
        Event::ClockStepped { .. } => "clock stepped".into(),
        Event::DayRolled { day } => format!("day is {}", day.0),
        Event::PolicyChanged { .. } => "policy changed".into(),
        Event::GoalStarted { number, .. } => format!("goal {number} started"),
        Event::GoalEditSeen { digest: seen, .. } => format!("goal {} seen", digest(seen)),
        Event::GoalTextReturned => "goal text returned".into(),
        Event::GoalContinued { digest: seen } => format!("goal continued with {}", digest(seen)),
        Event::GoalReplanned { digest: seen } => format!("goal replanned for {}", digest(seen)),
        Event::GoalCompleted { .. } => "goal completed".into(),
        Event::GoalArchived => "goal archived".into(),
        Event::TargetVerified { commit, known_red } => {
            format!("target verified at {}{}", short(commit), list(known_red))
        }
        Event::TargetUnverified => "target unverified".into(),
        Event::TargetChosen { branch } => format!("target is {branch}"),
        Event::LastMergeForgotten => "last merge forgotten".into(),
        Event::Paused { .. } => "paused".into(),
        Event::Resumed { .. } => "resumed".into(),
        Event::PlanWanted { replaces: None } => "plan wanted".into(),
        Event::PlanWanted { replaces: Some(id) } => format!("plan wanted for {id}"),
        Event::PlanAccepted { tasks, .. } => {
            let ids: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
            format!("plan accepted{}", list(&ids))
        }
        Event::PlanRefused { detail } => format!("plan refused: {detail}"),
        Event::PlanCountersReset => "planning counted anew".into(),
        Event::HoldOpened { subject, hold, resume_to } => {
            let then = resume_to.as_ref().map_or(String::new(), |to| format!(", then {}", place(to)));
            format!("hold {subject}:{}{then}", hold.kind)
        }
        Event::HoldLifted { key, .. } => format!("lifted {key}"),
        Event::HoldAcknowledged { key, .. } => format!("acknowledged {key}"),
        Event::AnswerGiven { record } => format!("answered {}", record.answer.word()),
        Event::GrantGiven { grant } => format!("granted {} on {}", grant.kind, grant.subject),
        Event::GrantConsumed { kind, subject } => format!("grant {kind} on {subject} used"),
        Event::RouteGated { route, gate } => match gate {
            Gate::Open => format!("route {route} opened"),
            Gate::ClosedUntil { .. } => format!("route {route} closed for a while"),
            Gate::Closed => format!("route {route} closed"),
        },
        Event::RouteRefused { route, subject } => format!("route {route} refused {subject}"),
        other => of_work(other),
    }
}

/// Events of leases, money and tasks.
fn of_work(event: &Event) -> String {
    match event {
        Event::LeaseTaken { dispatch, lease } => {
            format!("{} {dispatch} of {}", lease.op.key(), lease.subject)
        }
        Event::LeaseEnding { dispatch, why } => format!("{dispatch} ending: {why:?}").to_lowercase(),
        Event::LeaseAdopted { dispatch, .. } => format!("{dispatch} adopted"),
        Event::LeaseEnded { dispatch, .. } => format!("{dispatch} ended"),
        Event::DispatchRefused { dispatch } => format!("{dispatch} refused, attempt and reserve returned"),
        Event::AttemptReturned { dispatch } => format!("attempt of {dispatch} returned"),
        Event::DispatchOrphaned { dispatch } => format!("{dispatch} orphaned, attempt and reserve returned"),
        Event::UsageSettled { dispatch, amount, certainty, .. } => {
            format!("{dispatch} cost {} ({certainty:?})", usd(*amount)).to_lowercase()
        }
        Event::UsageUnattributed { dispatch, amount, .. } => format!("{dispatch} cost {} more", usd(*amount)),
        Event::WorkCommitted { task, head, .. } => format!("{task} committed {}", short(head)),
        Event::Refreshed { task, head, base } => {
            format!("{task} refreshed to {} on {}", short(head), short(base))
        }
        Event::Checked { task, outcome } => format!("{task} checked: {}", checks(outcome)),
        Event::FindingsNamed { task, findings: found } => format!("{task} reviewed{}", findings(found)),
        Event::ReviewPassed { task, head, .. } => format!("{task} passed at {}", short(head)),
        Event::Merged { task, commit } => format!("{task} merged as {}", short(commit)),
        Event::MergedElsewhere { task, .. } => format!("{task} merged elsewhere"),
        Event::MergeReverted { task, reapplied, .. } => {
            format!("merge of {task} reverted, again as {}", short(reapplied))
        }
        Event::TaskMoved { task, to } => format!("{task} to {}", place(to)),
        Event::Counted { task, counter } => format!("{task} counts a {counter:?}").to_lowercase(),
        Event::CountersReset { task } => format!("{task} counted anew"),
        Event::StartedAfresh { task } => format!("{task} set aside"),
        Event::ReplanRequested { task } => format!("{task} to be replanned"),
        Event::TaskAccepted { task } => format!("{task} accepted"),
        Event::TaskDropped { task } => format!("{task} dropped"),
        Event::DependencyRemoved { task, dependency } => format!("{task} no longer after {dependency}"),
        Event::TaskEdited { task, .. } => format!("{task} edited"),
        other => format!("{other:?}"),
    }
}

fn checks(outcome: &CheckOutcome) -> &'static str {
    match outcome {
        CheckOutcome::Green => "green",
        CheckOutcome::Red { .. } => "red",
        CheckOutcome::Unavailable { .. } => "unavailable",
    }
}

/// Findings by name, those for later in brackets; nothing when there are none.
fn findings(found: &[Finding]) -> String {
    let name = |one: &Finding| if one.is_blocking() { one.id.to_string() } else { format!("({})", one.id) };
    let names: Vec<String> = found.iter().map(name).collect();
    if names.is_empty() { String::new() } else { format!(" with {}", names.join(" ")) }
}

/// An effect in a few words.
#[must_use]
pub fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Dispatch { dispatch, route, job, .. } => {
            let job = match job {
                Job::Plan { replaces: None, .. } => "plan".to_string(),
                Job::Plan { replaces: Some(old), .. } => format!("plan anew {}", old.task),
                Job::Work { contract, start: Start::Fresh, .. } => {
                    format!("work on {} afresh", contract.task)
                }
                Job::Work { contract, start: Start::Continue { tip }, findings: found, .. } => {
                    format!("work on {} from {}{}", contract.task, short(tip), findings(found))
                }
                Job::Review { contract, head, earlier, .. } => {
                    let earlier = findings(earlier);
                    format!("review {} at {}{earlier}", contract.task, short(head))
                }
            };
            format!("{dispatch} {job} by {route}")
        }
        Effect::Commit { dispatch, work, .. } => format!("{dispatch} commit what {work} left"),
        Effect::Check { dispatch, commit, .. } => format!("{dispatch} check {}", short(commit)),
        Effect::Merge { dispatch, head, target, .. } => {
            format!("{dispatch} merge {} into {target}", short(head))
        }
        Effect::Refresh { dispatch, head, target, .. } => {
            format!("{dispatch} merge {target} into {}", short(head))
        }
        Effect::Verify { dispatch, commit, .. } => format!("{dispatch} verify {}", short(commit)),
        Effect::Revert { dispatch, commit, .. } => format!("{dispatch} revert {}", short(commit)),
        Effect::RemoveWorktree { dispatch } => format!("remove the worktree of {dispatch}"),
        Effect::Cancel { dispatch } => format!("cancel {dispatch}"),
        Effect::CreateTarget { branch } => format!("create {branch}"),
        Effect::Wake => "wake".into(),
        Effect::Notify { key, .. } => format!("notify {key}"),
    }
}
