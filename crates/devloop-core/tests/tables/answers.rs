//! Every hold with every answer that it takes, and what the next tick makes of it.

use devloop_core::answer::Answer;
use devloop_core::apply::{apply, apply_line};
use devloop_core::command::Wish;
use devloop_core::event::Event;
use devloop_core::hold::{Hold, HoldKey, HoldKind, Subject};
use devloop_core::ids::{Branch, TaskId};
use devloop_core::policy::{Acceptance, Backend};
use devloop_core::question::{open_questions, question};
use devloop_core::state::{Gate, LoopState, Op};
use devloop_core::task::{ResumeTo, Stage};
use devloop_core::tier::Risk;
use devloop_testkit::world::{World, digest, key, planned, policy};

use crate::sheet::{Sheet, until, wish};

/// Task `a` has passed its review and is about to be merged; `b` waits for it.
fn reviewed(risk: Risk) -> World {
    let mut policy = policy(Backend::Scripted);
    policy.acceptance = Acceptance::Digest(digest(9));
    policy.limits.cost_goal = Some(policy.limits.cost_day);
    policy.limits.cost_task = Some(policy.limits.cost_day);
    let plan = vec![planned("a", &[], "a/**", risk), planned("b", &["a"], "b/**", Risk::Low)];
    let mut world = World::new(plan, policy);
    if risk == Risk::High {
        world.run();
    } else {
        until(&mut world, Op::Merge);
    }
    world
}

/// Where a task stands when such a hold opens.
fn places(world: &World) -> Vec<ResumeTo> {
    let task = world.state.tasks.iter().next().expect("a");
    let head = task.tip.clone().expect("a commit");
    let proof = match &task.stage {
        Stage::Merging(_, reviewed) => reviewed.clone(),
        Stage::Held { resume_to: ResumeTo::MergeReady(reviewed), .. } => reviewed.clone(),
        other => panic!("not about to be merged: {other:?}"),
    };
    vec![
        ResumeTo::MergeReady(proof),
        ResumeTo::AwaitingReview { head: head.clone() },
        ResumeTo::Committed { head },
        ResumeTo::Rework { notes: "as the reviewer said".into() },
        ResumeTo::Ready,
    ]
}

/// The place that the core itself opens this kind at.
fn place(kind: HoldKind, world: &World) -> ResumeTo {
    let at = match kind {
        HoldKind::NoReviewPass
        | HoldKind::SecurityHighRisk
        | HoldKind::MergeWedged
        | HoldKind::UnknownBase
        | HoldKind::ForgeMergeRefused
        | HoldKind::Refreshes
        | HoldKind::MergeConflict
        | HoldKind::BaseMoved => 0,
        HoldKind::StaleReviewSha
        | HoldKind::UnknownReviewSha
        | HoldKind::ReviewerIdentityConflict
        | HoldKind::ReviewRequestedReplan
        | HoldKind::InvalidAgentResult
        | HoldKind::MissingAgentResult
        | HoldKind::BackendFailed
        | HoldKind::MaxTokensPerTask
        | HoldKind::TaskCostCap => 1,
        HoldKind::CheckUnavailable | HoldKind::PreprBlocked | HoldKind::PreprUnavailable => 2,
        HoldKind::DependencyDropped | HoldKind::MissingReviewWorktree => 4,
        _ => 3,
    };
    places(world).swap_remove(at)
}

/// The night with this one hold open, however it came about.
fn held(kind: HoldKind) -> (World, HoldKey) {
    let mut world = reviewed(if kind == HoldKind::SecurityHighRisk { Risk::High } else { Risk::Low });
    let subject = kind.usual_subject(&TaskId::parse("a").expect("id"), &key("work"));
    let resume_to = matches!(subject, Subject::Task(_)).then(|| place(kind, &world));
    world.queue.clear();
    // Nothing runs while a person is asked.
    let running: Vec<_> = world.state.leases.keys().copied().collect();
    for dispatch in running {
        let at = world.state.clock.active;
        apply(&mut world.state, &Event::LeaseEnded { dispatch, at }).expect("a lease");
    }
    let task = TaskId::parse("a").expect("id");
    if kind != HoldKind::SecurityHighRisk {
        let to = places(&world).swap_remove(0);
        apply(&mut world.state, &Event::TaskMoved { task, to }).expect("a task");
    }
    around(kind, &mut world.state);
    let items = match kind {
        HoldKind::ReserveExceedsCap => vec!["daily_cost_cap".into()],
        HoldKind::DependencyDropped => vec!["gone".into()],
        HoldKind::ChecksRedAtBase => vec!["make test".into()],
        _ => Vec::new(),
    };
    let detail = if kind == HoldKind::GoalChanged { digest(8).as_str().into() } else { "as seen".into() };
    let revision = world.state.revision + 1;
    let opened_at = world.state.clock.wall;
    let hold = Hold { kind, revision, opened_at, detail, items, acknowledged: None };
    if kind != HoldKind::SecurityHighRisk {
        let event = Event::HoldOpened { subject: subject.clone(), hold, resume_to };
        apply_line(&mut world.state, &[event]).expect("a hold");
    }
    (world, HoldKey { subject, kind })
}

/// What else is true when such a hold is open.
fn around(kind: HoldKind, state: &mut LoopState) {
    let mut say = |event: Event| apply(state, &event).expect("it fits");
    match kind {
        HoldKind::GoalChanged => {
            let at = devloop_core::units::ActiveMs(0);
            say(Event::GoalEditSeen { digest: digest(8), at });
        }
        HoldKind::RouteClosed => say(Event::RouteGated { route: key("work"), gate: Gate::Closed }),
        HoldKind::MergeOntoTrunk => say(Event::TargetChosen { branch: Branch::parse("main").expect("name") }),
        HoldKind::PlanAttempts | HoldKind::PlanRefusals | HoldKind::EmptyPlan => {
            say(Event::PlanWanted { replaces: None });
        }
        _ => {}
    }
}

pub fn write(sheet: &mut Sheet) {
    sheet.section("a is being merged, b waits for it; below, what differs", &reviewed(Risk::Low).state);
    for kind in HoldKind::ALL {
        let (mut world, key) = held(*kind);
        if *kind == HoldKind::GoalChanged {
            world.goal = 8;
        }
        sheet.variant(&format!("{key}"), &world.state);
        let offered = open_questions(&world.state, &world.policy, world.instance);
        let asked = offered.iter().find(|q| q.key == key).expect("the hold is open");
        sheet.note(&asked.text);
        for offer in &asked.answers {
            let marks =
                [(offer.spends, "spends"), (offer.discards, "discards"), (offer.recommended, "first")];
            let marks: Vec<&str> = marks.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
            let name = format!("{} ({}): {}", offer.answer.word(), marks.join(", "), offer.text);
            let input = wish(&world, answer(offer.answer, &key));
            let after = sheet.row(&name.replace(" ()", ""), &world.state, &world.policy, &input);
            world.wall += 2_000;
            sheet.then(&after, &world.policy, &world.observe());
            world.wall -= 2_000;
        }
    }
    twice(sheet);
}

fn answer(answer: Answer, key: &HoldKey) -> Wish {
    Wish::Answer { answer, hold: Some(key.clone()), revision: None }
}

/// Answers that come too late, twice, or to nothing.
fn twice(sheet: &mut Sheet) {
    let (world, key) = held(HoldKind::BlockedTask);
    sheet.section("answers that do not fit", &world.state);
    let say = |sheet: &mut Sheet, name: &str, state: &LoopState, wanted: Wish| {
        sheet.row(name, state, &world.policy, &wish(&world, wanted))
    };
    let retried = say(sheet, "retry", &world.state, answer(Answer::Retry, &key));
    say(sheet, "retry again", &retried, answer(Answer::Retry, &key));
    let left = say(sheet, "stop", &world.state, answer(Answer::Stop, &key));
    say(sheet, "stop again", &left, answer(Answer::Stop, &key));
    say(sheet, "retry after stop", &left, answer(Answer::Retry, &key));
    say(sheet, "an answer that is not offered", &world.state, answer(Answer::Approve, &key));
    let other = HoldKey::parse("task/z:blocked_task").expect("a key");
    say(sheet, "an answer to nothing", &world.state, answer(Answer::Retry, &other));
    let old = Wish::Answer { answer: Answer::Retry, hold: Some(key.clone()), revision: Some(1) };
    say(sheet, "an answer to an older question", &world.state, old);
    let unnamed = Wish::Answer { answer: Answer::Retry, hold: None, revision: None };
    say(sheet, "an answer without a name", &world.state, unnamed.clone());
    say(sheet, "an answer without a question", &retried, unnamed);
    // A question can be put before its hold is in the state; the words are the same.
    let hold = world.state.hold(&key).expect("open");
    let put = question(&world.state, &world.policy, world.instance, &key.subject, hold);
    assert_eq!(put.key, key);
}
