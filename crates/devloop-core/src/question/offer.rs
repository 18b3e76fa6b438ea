//! Which answers a hold takes in this very state, what each does, spends and discards. It applies none.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Facts, Offer, goal_branch};
use crate::answer::Answer;
use crate::circuit::{Circuit, TABLE, lineage_grants};
use crate::hold::{HoldKind, Subject};
use crate::ids::Branch;
use crate::invariant::MAX_GRANTS;
use crate::render::{short, usd};
use crate::task::{ResumeTo, Task};
use crate::units::UsdMicros;

/// The accepted answers, in the order of the kind's list.
pub(super) fn answers(f: &Facts<'_>) -> Vec<Answer> {
    f.hold.kind.answers().iter().copied().filter(|answer| is_accepted(f, *answer)).collect()
}

/// The accepted answers with their words; exactly one is recommended.
pub(super) fn offers(f: &Facts<'_>) -> Vec<Offer> {
    let answers = answers(f);
    let first = recommended(f, &answers);
    let offer = |answer: Answer| Offer {
        answer,
        text: text(f, answer),
        spends: spends(f, answer),
        discards: discards(f, answer),
        recommended: answer == first,
    };
    answers.iter().copied().map(offer).collect()
}

fn is_accepted(f: &Facts<'_>, answer: Answer) -> bool {
    let orphaned = matches!(f.subject, Subject::Task(_)) && f.task.is_none();
    match answer {
        // Once is enough: a second one would say nothing new.
        Answer::Stop => f.hold.acknowledged.is_none(),
        // Work that waits for leave would only be held again.
        Answer::Retry => !orphaned && !f.waits_for_leave(),
        Answer::Accept | Answer::Drop => f.task.is_some(),
        Answer::GoOn => !orphaned,
        Answer::Continue | Answer::Open => true,
        Answer::RetryFresh => f.task.is_some_and(|task| task.tip.is_some() || task.base.is_some()),
        // A review keeps the counters, so at the limit it would only open the next question.
        Answer::Review => f.task.is_some_and(|task| {
            task.tip.is_some() && task.counters.review_cycles < f.policy.limits.review_cycles
        }),
        Answer::Approve => has_room(f) && (f.is_reviewed() || f.waits_for_leave()),
        Answer::Allow => has_room(f) && more(f).is_some(),
        Answer::Replan => match f.subject {
            Subject::Task(_) => f.task.is_some_and(|task| may_replan(f, task)),
            _ => true,
        },
        // A branch that is configured as a trunk would only open the same hold again.
        Answer::Branch => Branch::parse(&goal_branch(f.state)).is_ok_and(|b| !f.policy.is_trunk(&b, None)),
    }
}

/// Whether one more permission can be kept.
fn has_room(f: &Facts<'_>) -> bool {
    f.state.grants.len() < MAX_GRANTS
}

/// The holds `replans` and `task_over_budget` ask for exactly one more; everywhere else the lineage must have
/// one left.
fn may_replan(f: &Facts<'_>, task: &Task) -> bool {
    let granted = lineage_grants(f.state, HoldKind::Replans, &task.lineage);
    let limit = u64::from(f.policy.limits.replans).saturating_mul(1 + granted);
    let asks_for_one = matches!(f.hold.kind, HoldKind::Replans | HoldKind::TaskOverBudget);
    asks_for_one || u64::from(task.counters.replans) < limit
}

/// The cap on money that a hold is about; for a reserve above a cap the first item names it.
pub(super) fn circuit(f: &Facts<'_>) -> Option<Circuit> {
    match f.hold.kind {
        HoldKind::ReserveExceedsCap => {
            let named = f.hold.items.first()?;
            TABLE.iter().find(|row| row.key == named).map(|row| row.circuit)
        }
        kind => TABLE.iter().find(|row| row.hold == Some(kind)).map(|row| row.circuit),
    }
}

/// What the answer `allow` adds; none when it would add nothing: twice zero is zero.
fn more(f: &Facts<'_>) -> Option<String> {
    let limits = &f.policy.limits;
    let money = |limit: UsdMicros, until: &str| (limit.0 > 0).then(|| format!("{} more {until}", usd(limit)));
    if f.hold.kind == HoldKind::MergeOntoTrunk {
        return f.state.target.branch.as_ref().map(|branch| format!("merges into {branch} for this goal"));
    }
    match circuit(f)? {
        Circuit::DailyCostCap => money(limits.cost_day, "until midnight UTC"),
        Circuit::AllProjectsDailyCap => money(limits.cost_day_all_projects, "until midnight UTC"),
        Circuit::SessionCostCap if f.hold.kind == HoldKind::ReserveExceedsCap => {
            money(limits.cost_session, "in every run of this goal")
        }
        Circuit::SessionCostCap => money(limits.cost_session, "as long as this process runs"),
        Circuit::GoalCostCap => match limits.cost_goal {
            Some(limit) => money(limit, "for this goal"),
            None => Some("it: this cap is no longer configured".to_string()),
        },
        Circuit::TaskCostCap => match limits.cost_task {
            Some(limit) => money(limit, "for this task and its replacements"),
            None => Some("it: this cap is no longer configured".to_string()),
        },
        Circuit::MaxTokensPerTask => {
            let tokens = limits.tokens_per_task;
            (tokens > 0).then(|| format!("{tokens} more tokens for this task and its replacements"))
        }
        _ => None,
    }
}

/// The first choice. Never to throw a task away, and not money that midnight gives anyway.
fn recommended(f: &Facts<'_>, answers: &[Answer]) -> Answer {
    let kind = f.hold.kind;
    let wanted = match kind {
        HoldKind::DailyCostCap | HoldKind::AllProjectsDailyCap => Answer::Stop,
        // Nothing is known of checks that could not start; going on would be blind.
        HoldKind::ChecksRedAtBase if f.hold.items.is_empty() => Answer::Retry,
        _ => answers.iter().copied().find(|a| *a != Answer::Drop).unwrap_or(Answer::Stop),
    };
    if answers.contains(&wanted) { wanted } else { Answer::Stop }
}

fn spends(f: &Facts<'_>, answer: Answer) -> bool {
    match answer {
        Answer::Retry => match retry_to(f) {
            Some(ResumeTo::MergeReady(_)) => false,
            Some(_) => true,
            None => !matches!(f.hold.kind, HoldKind::ChecksRedAtBase | HoldKind::GoalUnusable),
        },
        Answer::RetryFresh | Answer::Review | Answer::Replan | Answer::Continue | Answer::Open => true,
        Answer::Allow => f.hold.kind != HoldKind::MergeOntoTrunk,
        Answer::GoOn => match f.hold.kind {
            HoldKind::ChecksRedAtBase => true,
            HoldKind::DependencyDropped => !f.is_reviewed(),
            _ => false,
        },
        Answer::Approve => f.waits_for_leave(),
        Answer::Accept | Answer::Drop | Answer::Stop | Answer::Branch => false,
    }
}

fn discards(f: &Facts<'_>, answer: Answer) -> bool {
    match answer {
        // A pass that was paid for no longer counts.
        Answer::Retry => f.is_reviewed() && f.hold.kind.retry_redoes_work(),
        Answer::RetryFresh => f.tip().is_some() && f.hold.kind != HoldKind::PostMergeRed,
        Answer::Drop => f.tip().is_some(),
        Answer::Accept => f.tip().is_some() && f.hold.kind != HoldKind::PostMergeRed,
        Answer::Replan => match f.subject {
            Subject::Task(_) => f.tip().is_some(),
            _ => open_tasks(f).any(|task| task.tip.is_some() || task.dispatch().is_some()),
        },
        Answer::Review
        | Answer::Approve
        | Answer::Stop
        | Answer::Allow
        | Answer::GoOn
        | Answer::Continue
        | Answer::Branch
        | Answer::Open => false,
    }
}

fn open_tasks<'a>(f: &Facts<'a>) -> impl Iterator<Item = &'a Task> {
    f.state.tasks.iter().filter(|task| task.is_live() && !task.is_done())
}

fn text(f: &Facts<'_>, answer: Answer) -> String {
    match answer {
        Answer::Retry => retry(f),
        Answer::RetryFresh => fresh(f),
        Answer::Review => review(f),
        Answer::Accept => accept(f),
        Answer::Approve => approve(f),
        Answer::Drop => drop(f),
        Answer::Stop => "Leaves it as it is: listed last and not announced again.".to_string(),
        Answer::Allow => format!("Allows {}.", more(f).unwrap_or_default()),
        Answer::GoOn => go_on(f),
        Answer::Continue => {
            "Keeps every task and records the new text as the one that they are for.".to_string()
        }
        Answer::Replan => replan(f),
        Answer::Branch => format!("Makes the branch {} and merges this goal there.", goal_branch(f.state)),
        Answer::Open => "Opens the route at once; the next dispatch tries it.".to_string(),
    }
}

/// Where the answer `retry` leads a task.
pub(super) fn retry_to(f: &Facts<'_>) -> Option<ResumeTo> {
    f.task
        .map(|task| if f.hold.kind.retry_redoes_work() { task.restart_point() } else { task.resume_point() })
}

fn retry(f: &Facts<'_>) -> String {
    let what = match (retry_to(f), f.hold.kind) {
        (None, HoldKind::ChecksRedAtBase) => {
            return format!("Runs the checks on {} again; no model is paid.", f.target());
        }
        (None, HoldKind::GoalUnusable) => return "Looks at the file again at once.".to_string(),
        (None, _) => "Makes another plan; the tasks that are there are kept".to_string(),
        (Some(ResumeTo::Ready | ResumeTo::Rework { .. }), _) => work_again(f),
        (Some(ResumeTo::Committed { head }), _) => {
            format!("Runs the checks on {} again, then its review; the commits are kept", short(&head))
        }
        (Some(ResumeTo::AwaitingReview { head }), _) => {
            format!("Has {} reviewed again; the commits are kept", short(&head))
        }
        (Some(ResumeTo::MergeReady(reviewed)), _) => {
            format!("Merges {} when possible; its review still counts", short(reviewed.head()))
        }
    };
    let pass = if discards(f, Answer::Retry) { " The review that passed no longer counts." } else { "" };
    let again =
        if f.hold.kind == HoldKind::NoConvergence { " What comes again is asked about again." } else { "" };
    format!("{what}. Its circuits start anew.{pass}{again}")
}

fn work_again(f: &Facts<'_>) -> String {
    match (f.tip(), f.task.and_then(|task| task.base.as_ref())) {
        (Some(tip), _) => format!(
            "Continues from the task's last host commit {}: the commits are kept, what was not committed is \
             moved aside",
            short(tip)
        ),
        (None, Some(_)) => {
            "Works on it again from the current target: nothing was committed, leftovers are moved aside"
                .to_string()
        }
        (None, None) => "Starts the task from the current target: there is nothing to keep yet".to_string(),
    }
}

fn fresh(f: &Facts<'_>) -> String {
    if f.hold.kind == HoldKind::PostMergeRed {
        return format!(
            "Starts from {} as it is now, the merge included. Its circuits start anew.",
            f.target()
        );
    }
    let gone = f.tip().map_or("discards nothing but leftovers".to_string(), |tip| {
        format!("discards the task's commits up to {} (kept under refs/devloop/retired/)", short(tip))
    });
    format!("Starts from the current target and {gone}. Its circuits start anew.")
}

fn review(f: &Facts<'_>) -> String {
    let commit = f.tip().map_or("the commit", short);
    let what = if f.hold.kind == HoldKind::CheckUnavailable {
        format!("Has {commit} reviewed without its checks")
    } else {
        format!("Has {commit} reviewed again")
    };
    format!("{what}; no worker runs and the commits are kept.")
}

fn accept(f: &Facts<'_>) -> String {
    if f.hold.kind == HoldKind::PostMergeRed {
        return format!("Counts the task as done and leaves {} as it is.", f.target());
    }
    let rest = match (f.task, f.tip()) {
        (Some(task), Some(_)) => format!("without a merge; the branch devloop/{} is kept", task.id),
        _ => "without a change".to_string(),
    };
    format!("Counts the task as done {rest}.")
}

fn approve(f: &Facts<'_>) -> String {
    let Some(ResumeTo::MergeReady(reviewed)) = f.resume_to() else {
        return "Lets the work start; before its merge you are asked again.".to_string();
    };
    let (head, who) = (short(reviewed.head()), reviewed.reviewer());
    format!(
        "Merges exactly {head}, which {who} passed, into {}. Another head would be asked about \
        again.",
        f.target()
    )
}

fn drop(f: &Facts<'_>) -> String {
    let Some(task) = f.task else { return String::new() };
    let waiting = open_tasks(f).filter(|other| other.depends_on.contains(&task.id)).count();
    let rest = match waiting {
        0 => String::new(),
        1 => " One task depends on it and will ask whether to go on without it.".to_string(),
        n => format!(" {n} tasks depend on it and will ask whether to go on without it."),
    };
    format!("Gives the task up; the branch devloop/{} is kept if there is one.{rest}", task.id)
}

fn go_on(f: &Facts<'_>) -> String {
    match (f.hold.kind, f.hold.items.len()) {
        (HoldKind::ChecksRedAtBase, 0) => {
            "Lets the work start without knowing whether the checks are green.".to_string()
        }
        (HoldKind::ChecksRedAtBase, n) => {
            format!("Lets the work start; the failing checks ({n}) are recorded as known and stop no merge.")
        }
        (HoldKind::DependencyDropped, _) => "Takes it out of the dependencies and goes on.".to_string(),
        (HoldKind::TargetRewound, _) => {
            format!("Takes {} as it is now; the lost merge is not made again.", f.target())
        }
        _ => "Keeps waiting and counts the time anew.".to_string(),
    }
}

fn replan(f: &Facts<'_>) -> String {
    match f.task {
        Some(task) => format!(
            "Has a planner replace it by new tasks, for which its dependants then wait; devloop/{} is kept.",
            task.id
        ),
        None => format!(
            "Ends what runs, gives up the tasks that are not done ({}) and plans for the new text.",
            open_tasks(f).count()
        ),
    }
}
