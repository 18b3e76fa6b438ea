//! Operators' wishes become events: answers, resume, pause, edit, next goal. What is not possible changes
//! nothing.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::answer::Answer;
use crate::command::{Command, TaskEdit, Wish};
use crate::decide::Decision;
use crate::draft::{Draft, View, rework};
use crate::effect::Effect;
use crate::event::Event;
use crate::hold::{Hold, HoldKey, HoldKind, Subject};
use crate::ids::{Branch, Digest, TaskId};
use crate::invariant::MAX_GRANTS;
use crate::plan::{check_criteria, check_paths};
use crate::question::{goal_branch, offered};
use crate::reason::{Reason, Refusal};
use crate::settle::lift_caps;
use crate::state::{AnswerRecord, Ending, Gate, Grant, GrantScope, Phase};
use crate::task::{ResumeTo, Task};

/// Decides on a wish.
pub(crate) fn operate(view: &View<'_>, command: &Command) -> Decision {
    let by = command.by.as_str();
    let done = match &command.wish {
        Wish::Answer { answer, hold, revision } => give(view, by, *answer, hold.as_ref(), *revision),
        Wish::Resume { task, reset_cost } => resume(view, by, task.as_ref(), *reset_cost),
        Wish::Pause { now } => pause(view, by, *now),
        Wish::Edit { task, edit } => change(view, task, edit),
        Wish::NextGoal => match view.state.phase {
            Phase::Complete { .. } => {
                Ok(Draft::of(alloc::vec![Event::GoalArchived]).done(Reason::GoalArchived))
            }
            Phase::Active | Phase::Paused { .. } => Err(Refusal::GoalNotComplete),
        },
    };
    match done {
        Ok(mut decision) => {
            decision.effects.push(Effect::Wake);
            decision
        }
        Err(refusal) => Draft::default().done(Reason::Refused(refusal)),
    }
}

fn give(
    view: &View<'_>,
    by: &str,
    answer: Answer,
    named: Option<&HoldKey>,
    revision: Option<u64>,
) -> Result<Decision, Refusal> {
    let (key, hold) = find(view, named)?;
    if revision.is_some_and(|revision| revision != hold.revision) {
        return Err(Refusal::Reopened { key, revision: hold.revision });
    }
    if let (Answer::Stop, Some(said)) = (answer, &hold.acknowledged) {
        return Err(Refusal::Stale { key, answer, by: said.by.clone(), at: said.at });
    }
    let instance = view.state.last_instance(view.stamp.owner.instance);
    let offered = offered(view.state, view.policy, instance, &key.subject, hold);
    if !offered.contains(&answer) {
        return Err(Refusal::NotOffered { key, offered });
    }
    let record = AnswerRecord { key: key.clone(), answer, by: by.to_string(), at: view.now.wall };
    let mut draft = Draft::of(alloc::vec![Event::AnswerGiven { record }]);
    if answer == Answer::Stop {
        let (by, at) = (by.to_string(), view.now.wall);
        draft.event(Event::HoldAcknowledged { key: key.clone(), by, at });
    } else {
        draft.event(Event::HoldLifted { key: key.clone(), at: view.now.active });
        effect_of_answer(view, &mut draft, by, answer, &key, hold);
    }
    Ok(draft.done(Reason::Answered { key, answer }))
}

/// The hold that is meant: the named one, or the only one.
fn find<'a>(view: &View<'a>, named: Option<&HoldKey>) -> Result<(HoldKey, &'a Hold), Refusal> {
    let open: Vec<(HoldKey, &Hold)> = view
        .state
        .open_holds()
        .into_iter()
        .map(|(subject, hold)| (HoldKey { subject, kind: hold.kind }, hold))
        .collect();
    let Some(name) = named else {
        return match open.as_slice() {
            [] => Err(Refusal::NoQuestion),
            [(key, hold)] => Ok((key.clone(), hold)),
            _ => Err(Refusal::Ambiguous { keys: open.into_iter().map(|(key, _)| key).collect() }),
        };
    };
    if let Some(found) = open.into_iter().find(|(key, _)| key == name) {
        return Ok(found);
    }
    match view.state.answers.iter().rev().find(|record| record.key == *name) {
        Some(AnswerRecord { key, answer, by, at }) => {
            Err(Refusal::Stale { key: key.clone(), answer: *answer, by: by.clone(), at: *at })
        }
        None => Err(Refusal::NoSuchHold { key: name.clone() }),
    }
}

fn effect_of_answer(
    view: &View<'_>,
    draft: &mut Draft,
    by: &str,
    answer: Answer,
    key: &HoldKey,
    hold: &Hold,
) {
    match &key.subject {
        Subject::Task(id) => {
            if let Some(task) = view.state.tasks.get(id) {
                answer_task(view, draft, by, answer, task, hold);
            }
        }
        Subject::Loop => {
            if answer == Answer::Allow {
                allow(view, draft, by, key, hold);
            }
        }
        Subject::Planning => {
            draft.event(Event::PlanCountersReset);
        }
        Subject::Goal => answer_goal(view, draft, answer, hold),
        Subject::Target => answer_target(view, draft, by, answer, key.kind),
        Subject::Route(route) => {
            draft.event(Event::RouteGated { route: route.clone(), gate: Gate::Open });
        }
    }
}

fn answer_task(view: &View<'_>, draft: &mut Draft, by: &str, answer: Answer, task: &Task, hold: &Hold) {
    let id = task.id.clone();
    let key = HoldKey { subject: Subject::Task(id.clone()), kind: hold.kind };
    match answer {
        Answer::Retry => {
            draft.event(Event::CountersReset { task: id.clone() });
            if hold.kind.retry_redoes_work() {
                let to = match task.restart_point() {
                    ResumeTo::Rework { .. } => rework(hold.detail.clone()),
                    other => other,
                };
                draft.event(Event::TaskMoved { task: id, to });
            }
        }
        Answer::RetryFresh => {
            draft.event(Event::CountersReset { task: id.clone() });
            draft.event(Event::StartedAfresh { task: id.clone() });
            draft.event(Event::TaskMoved { task: id, to: ResumeTo::Ready });
        }
        Answer::Review => {
            if let Some(head) = task.tip.clone() {
                draft.event(Event::TaskMoved { task: id, to: ResumeTo::AwaitingReview { head } });
            }
        }
        Answer::Accept => {
            draft.event(Event::TaskAccepted { task: id });
        }
        Answer::Approve => {
            let scope = match &task.tip {
                Some(head) => GrantScope::Head { head: head.clone(), contract: task.edition },
                None => GrantScope::Goal(view.state.goal.number),
            };
            grant(view, draft, by, hold.kind, key.subject, scope);
        }
        Answer::Drop => {
            draft.event(Event::TaskDropped { task: id });
        }
        Answer::Allow => allow(view, draft, by, &key, hold),
        Answer::GoOn => {
            for name in &hold.items {
                if let Ok(dependency) = TaskId::parse(name) {
                    draft.event(Event::DependencyRemoved { task: id.clone(), dependency });
                }
            }
        }
        Answer::Replan => {
            draft.event(Event::ReplanRequested { task: id });
        }
        Answer::Stop | Answer::Continue | Answer::Branch | Answer::Open => {}
    }
}

/// The text that was asked about is what the answer is for, whatever the file holds meanwhile.
fn answer_goal(view: &View<'_>, draft: &mut Draft, answer: Answer, hold: &Hold) {
    if hold.kind == HoldKind::GoalUnusable {
        return;
    }
    let seen = view.state.goal.pending.as_ref().map(|pending| pending.digest.clone());
    let Some(digest) = Digest::parse(&hold.detail).ok().or(seen) else { return };
    if answer == Answer::Replan {
        end_models(view, draft);
        // What was asked about the old plan is asked no more.
        let asked = view.state.holds.iter().filter(|held| held.subject == Subject::Planning);
        for held in asked {
            let key = HoldKey { subject: Subject::Planning, kind: held.hold.kind };
            draft.event(Event::HoldLifted { key, at: view.now.active });
        }
        draft.event(Event::GoalReplanned { digest });
    } else {
        draft.event(Event::GoalContinued { digest });
    }
}

fn answer_target(view: &View<'_>, draft: &mut Draft, by: &str, answer: Answer, kind: HoldKind) {
    match (kind, answer) {
        (_, Answer::Branch) => {
            if let Ok(branch) = Branch::parse(&goal_branch(view.state)) {
                draft.event(Event::TargetChosen { branch });
            }
        }
        (_, Answer::Allow) => {
            let scope = GrantScope::Goal(view.state.goal.number);
            grant(view, draft, by, kind, Subject::Target, scope);
        }
        (HoldKind::ChecksRedAtBase, Answer::Retry) => {
            draft.event(Event::TargetUnverified);
        }
        (HoldKind::TargetRewound, Answer::GoOn) => {
            draft.event(Event::LastMergeForgotten);
        }
        _ => {}
    }
}

/// One more limit's worth, for as long as the cap's own scope lasts.
fn allow(view: &View<'_>, draft: &mut Draft, by: &str, key: &HoldKey, hold: &Hold) {
    let kind = match hold.kind {
        HoldKind::ReserveExceedsCap => {
            let named = hold.items.first().map(String::as_str).unwrap_or_default();
            let row = crate::circuit::TABLE.iter().find(|row| row.key == named);
            row.and_then(|row| row.hold).unwrap_or(HoldKind::DailyCostCap)
        }
        kind => kind,
    };
    let scope = match kind {
        // It opens before the session's first dispatch, when no state knows the session yet: for the goal.
        HoldKind::SessionCostCap if hold.kind == HoldKind::ReserveExceedsCap => {
            GrantScope::Goal(view.state.goal.number)
        }
        HoldKind::DailyCostCap | HoldKind::AllProjectsDailyCap => GrantScope::Day(view.state.clock.day),
        HoldKind::SessionCostCap => GrantScope::Session(view.state.last_instance(view.stamp.owner.instance)),
        _ => GrantScope::Goal(view.state.goal.number),
    };
    grant(view, draft, by, kind, key.subject.clone(), scope);
}

fn grant(view: &View<'_>, draft: &mut Draft, by: &str, kind: HoldKind, subject: Subject, scope: GrantScope) {
    let grant = Grant { kind, subject, scope, by: by.to_string(), at: view.now.wall };
    draft.event(Event::GrantGiven { grant });
}

fn resume(view: &View<'_>, by: &str, task: Option<&TaskId>, reset_cost: bool) -> Result<Decision, Refusal> {
    match view.state.phase {
        Phase::Complete { .. } => return Err(Refusal::GoalComplete),
        Phase::Active | Phase::Paused { .. } => {}
    }
    if view.state.goal.number == 0 && view.state.phase == Phase::Active {
        return Err(Refusal::NotStarted);
    }
    let mut draft = Draft::of(alloc::vec![Event::Resumed { by: by.to_string(), at: view.now.wall }]);
    if let Some(id) = task {
        retry_named(view, &mut draft, by, id)?;
    }
    if reset_cost {
        if view.state.grants.len() >= MAX_GRANTS {
            let rule = format!("left out: this goal has {MAX_GRANTS} permissions already");
            return Err(Refusal::BadEdit { field: "reset_cost".to_string(), rule });
        }
        let scope = GrantScope::Day(view.state.clock.day);
        grant(view, &mut draft, by, HoldKind::DailyCostCap, Subject::Loop, scope);
    }
    let named = |event: &Event| match event {
        Event::HoldLifted { key, .. } => task.is_none_or(|id| key.subject != Subject::Task(id.clone())),
        _ => true,
    };
    draft.events.extend(lift_caps(view).into_iter().filter(named));
    let stuck = HoldKey { subject: Subject::Target, kind: HoldKind::NoProgress };
    if view.state.hold(&stuck).is_some() {
        draft.event(Event::HoldLifted { key: stuck, at: view.now.active });
    }
    Ok(draft.done(Reason::Resumed))
}

/// `resume --task`: as the answer `retry`, also for a task that is not held.
fn retry_named(view: &View<'_>, draft: &mut Draft, by: &str, id: &TaskId) -> Result<(), Refusal> {
    let task = view.state.tasks.get(id).ok_or_else(|| Refusal::UnknownTask { task: id.clone() })?;
    check_idle(view, task)?;
    if let Some(hold) = task.hold() {
        let key = HoldKey { subject: Subject::Task(id.clone()), kind: hold.kind };
        let (answer, at) = (Answer::Retry, view.now.wall);
        let record = AnswerRecord { key: key.clone(), answer, by: by.to_string(), at };
        draft.event(Event::AnswerGiven { record });
        draft.event(Event::HoldLifted { key, at: view.now.active });
        answer_task(view, draft, by, answer, task, hold);
    } else {
        draft.event(Event::CountersReset { task: id.clone() });
    }
    Ok(())
}

/// A task that nobody works on and that is not over.
fn check_idle(view: &View<'_>, task: &Task) -> Result<(), Refusal> {
    if let Some(lease) = task.dispatch().and_then(|dispatch| view.state.leases.get(&dispatch)) {
        return Err(Refusal::TaskBusy { task: task.id.clone(), op: lease.op });
    }
    if task.is_done() || !task.is_live() {
        return Err(Refusal::TaskOver { task: task.id.clone() });
    }
    Ok(())
}

fn pause(view: &View<'_>, by: &str, now: bool) -> Result<Decision, Refusal> {
    match view.state.phase {
        Phase::Complete { .. } => return Err(Refusal::GoalComplete),
        // A draining pause may be sharpened to one that cancels.
        Phase::Paused { .. } if !now || view.state.leases.is_empty() => {
            return Err(Refusal::AlreadyPaused);
        }
        Phase::Active | Phase::Paused { .. } => {}
    }
    let mut draft = Draft::of(alloc::vec![Event::Paused { by: by.to_string(), at: view.now.wall }]);
    if now {
        end_models(view, &mut draft);
    }
    Ok(draft.done(Reason::Paused))
}

/// Asks every running model to end. The supervisor cancels what is marked so at its next beat.
fn end_models(view: &View<'_>, draft: &mut Draft) {
    let running = view.state.leases.iter().filter(|(_, l)| l.op.is_model() && l.ending.is_none());
    let marks = running.map(|(d, _)| Event::LeaseEnding { dispatch: *d, why: Ending::Operator });
    draft.events.extend(marks);
}

fn change(view: &View<'_>, id: &TaskId, edit: &TaskEdit) -> Result<Decision, Refusal> {
    let task = view.state.tasks.get(id).ok_or_else(|| Refusal::UnknownTask { task: id.clone() })?;
    check_idle(view, task)?;
    let bad = |name: &str, (at, rule): (Option<usize>, &str)| Refusal::BadEdit {
        field: at.map_or_else(|| name.to_string(), |i| alloc::format!("{name}[{i}]")),
        rule: rule.to_string(),
    };
    if let Some(paths) = &edit.allowed_paths {
        check_paths(paths).map_err(|fault| bad("allowed_paths", fault))?;
    }
    if let Some(criteria) = &edit.criteria {
        check_criteria(criteria).map_err(|fault| bad("criteria", fault))?;
    }
    let differs = edit.allowed_paths.as_ref().is_some_and(|paths| *paths != task.allowed_paths)
        || edit.criteria.as_ref().is_some_and(|criteria| *criteria != task.criteria)
        || edit.tier.is_some_and(|tier| tier != task.tier)
        || edit.risk.is_some_and(|risk| risk != task.risk);
    if !differs {
        return Err(Refusal::EmptyEdit);
    }
    let event = Event::TaskEdited { task: id.clone(), edit: edit.clone() };
    Ok(Draft::of(alloc::vec![event]).done(Reason::TaskEdited { task: id.clone() }))
}
