//! Bad input is a value: whatever comes in, the core answers, keeps every promise and names what is wrong.

use devloop_core::answer::Answer;
use devloop_core::apply::{apply, apply_line};
use devloop_core::command::{Command, TaskEdit, Wish};
use devloop_core::decide::{Input, decide};
use devloop_core::event::Event;
use devloop_core::hold::{HoldKey, HoldKind, Subject};
use devloop_core::ids::{DispatchId, TaskId};
use devloop_core::invariant::{self, MAX_GRANTS};
use devloop_core::observation::Observation;
use devloop_core::plan::{PlanFault, PlannedTask, judge};
use devloop_core::policy::{Acceptance, Backend};
use devloop_core::reason::{Reason, Refusal};
use devloop_core::report::{CheckOutcome, FailureClass, Outcome, Report, Usage, UsageSource};
use devloop_core::review::Verdict;
use devloop_core::state::{Grant, GrantScope, LoopState, Op};
use devloop_core::task::{MAX_TEXT, Stage, Task};
use devloop_core::tier::Risk;
use devloop_core::units::{AwakeMs, Day, MAX_NUMBER, Price, Tokens, UsdMicros, WallMs};
use devloop_testkit::world::{World, digest, planned, policy, two, verdict};

fn one() -> World {
    World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy(Backend::Scripted))
}

/// Ticks until such an operation runs on a task or planning; its own report is left to the caller.
fn until(world: &mut World, op: Op) -> Report {
    for _ in 0..40 {
        world.tick();
        let found = world.state.leases.iter().find(|(_, l)| l.op == op);
        if let Some((dispatch, lease)) = found {
            let (dispatch, epoch) = (*dispatch, lease.epoch);
            world.queue.retain(|report| report.dispatch != dispatch);
            return Report { dispatch, epoch, usage: None, outcome: Outcome::CommitEmpty };
        }
    }
    panic!("no {op:?} ever runs");
}

fn until_held(world: &mut World, kind: HoldKind) {
    world.run();
    let open = world.state.open_holds();
    assert_eq!(open.iter().map(|(_, hold)| hold.kind).collect::<Vec<_>>(), [kind]);
}

fn refusal(reason: Reason) -> Refusal {
    match reason {
        Reason::Refused(refusal) => refusal,
        other => panic!("accepted: {other:?}"),
    }
}

fn id(text: &str) -> TaskId {
    TaskId::parse(text).expect("an id")
}

#[test]
fn an_unknown_task_is_named() {
    let mut world = one();
    until(&mut world, Op::Work);
    let task = id("nobody");
    let resumed = world.say(Wish::Resume { task: Some(task.clone()), reset_cost: false });
    assert_eq!(refusal(resumed), Refusal::UnknownTask { task: task.clone() });
    let edit = TaskEdit { risk: Some(Risk::High), ..TaskEdit::default() };
    let edited = world.say(Wish::Edit { task: task.clone(), edit });
    assert_eq!(refusal(edited), Refusal::UnknownTask { task });
    let hold = HoldKey::parse("task/nobody:blocked_task").ok();
    let answered = world.say(Wish::Answer { answer: Answer::Retry, hold: hold.clone(), revision: None });
    assert_eq!(refusal(answered), Refusal::NoSuchHold { key: hold.expect("a key") });
    let moved = apply(&mut world.state, &Event::TaskAccepted { task: id("nobody") });
    assert_eq!(moved.map_err(|error| error.what), Err("no task nobody".to_string()));
}

#[test]
fn a_stale_revision_names_the_newer_one() {
    let mut world = World::new(Vec::new(), policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::Halted);
    let (_, hold) = world.state.open_holds()[0].clone();
    let opened = hold.revision;
    for revision in [0, opened - 1, opened + 1, u64::MAX] {
        let wish = Wish::Answer { answer: Answer::Retry, hold: None, revision: Some(revision) };
        let said = refusal(world.say(wish));
        assert!(matches!(said, Refusal::Reopened { revision, .. } if revision == opened), "{said:?}");
    }
    let wish = Wish::Answer { answer: Answer::Retry, hold: None, revision: Some(opened) };
    assert!(matches!(world.say(wish), Reason::Answered { .. }));
}

#[test]
fn a_report_of_another_epoch_or_of_nobody_changes_no_stage() {
    let mut world = one();
    let report = until(&mut world, Op::Work);
    let worked = Outcome::Worked { summary: "done".into() };
    for (dispatch, epoch) in
        [(report.dispatch, 0), (report.dispatch, u32::MAX), (DispatchId(u64::MAX), 1), (DispatchId(0), 1)]
    {
        world.queue.push(Report { dispatch, epoch, usage: None, outcome: worked.clone() });
        world.tick();
        assert!(matches!(world.stage("a"), Stage::Working(d) if *d == report.dispatch), "{dispatch} {epoch}");
    }
}

#[test]
fn every_report_that_belongs_to_another_operation_is_a_question_or_a_way_back() {
    for op in [Op::Plan, Op::Work, Op::Commit, Op::Check, Op::Review, Op::Merge] {
        let mut strange = one();
        strange.policy.acceptance = Acceptance::Digest(digest(9));
        let report = until(&mut strange, op);
        for outcome in [
            Outcome::Planned { tasks: two() },
            Outcome::Worked { summary: String::new() },
            Outcome::Committed { head: devloop_testkit::world::oid(3) },
            Outcome::Checked(CheckOutcome::Green),
            Outcome::Merged { commit: devloop_testkit::world::oid(4) },
            Outcome::Reverted {
                commit: devloop_testkit::world::oid(5),
                reapplied: devloop_testkit::world::oid(6),
            },
        ] {
            let mut world = one();
            (world.state, world.policy) = (strange.state.clone(), strange.policy.clone());
            world.queue = vec![Report { outcome, ..report.clone() }];
            world.wall = strange.wall;
            world.tick();
        }
    }
}

#[test]
fn usage_at_the_end_of_64_bits_saturates_and_fits_no_cap() {
    let all = u64::MAX;
    let most = Tokens { input_uncached: all, cache_read: all, cache_write: all, output: all, reasoning: all };
    for cost in
        [None, Some(UsdMicros(u64::MAX)), Some(UsdMicros(MAX_NUMBER)), Some(UsdMicros(MAX_NUMBER + 1))]
    {
        let mut world = one();
        let dear = Price { input_uncached: all, cache_read: all, cache_write: all, output: all };
        world.policy.routes.values_mut().for_each(|route| route.price = Some(dear));
        let mut report = until(&mut world, Op::Plan);
        report.outcome = Outcome::Planned { tasks: two() };
        report.usage = Some(Usage::per_dispatch(UsageSource::Result, most, cost));
        world.queue.push(report);
        world.run();
        assert_eq!(invariant::check(&world.state), Ok(()));
        let spent = world.state.ledger.goal(1).spent();
        assert!(spent.is_saturated(), "{spent:?}");
        assert!(world.holds()[0].ends_with("_cap"), "{:?}", world.holds());
    }
}

#[test]
fn limits_at_their_ends_are_limits() {
    for (count, amount) in [(0, 0), (1, 1), (u32::MAX, u64::MAX)] {
        let mut world = one();
        let limits = &mut world.policy.limits;
        for number in [
            &mut limits.task_attempts,
            &mut limits.refusals,
            &mut limits.review_cycles,
            &mut limits.dispatch_minutes,
            &mut limits.lifetime_minutes,
            &mut limits.no_progress_minutes,
            &mut limits.same_action,
            &mut limits.parallel_process,
            &mut limits.parallel_project,
            &mut limits.refreshes,
            &mut limits.replans,
            &mut limits.orphans,
            &mut limits.plan_attempts,
            &mut limits.plan_refusals,
        ] {
            *number = count;
        }
        let money = UsdMicros(amount);
        (limits.cost_day, limits.cost_session, limits.cost_day_all_projects) = (money, money, money);
        (limits.cost_goal, limits.cost_task) = (Some(money), Some(money));
        (limits.tokens_per_task, limits.disk_low_bytes) = (amount, 0);
        world.policy.routes.values_mut().for_each(|route| {
            (route.reserve, route.max_parallel, route.max_tokens) = (Some(money), Some(count), Some(amount));
        });
        let reason = world.run();
        let asked = !world.holds().is_empty();
        assert!(reason == Reason::StillComplete || asked, "{count}: {reason:?} asks nothing");
    }
}

#[test]
fn a_reserve_above_every_number_is_asked_about() {
    let mut world = one();
    world.policy.routes.values_mut().for_each(|route| route.reserve = Some(UsdMicros(u64::MAX)));
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["loop:reserve_exceeds_cap"]);
}

#[test]
fn counters_at_their_ends_stay_there() {
    let mut world = one();
    let report = until(&mut world, Op::Merge);
    let mut tasks: Vec<Task> = world.state.tasks.clone().into();
    let end = u32::MAX;
    for task in &mut tasks {
        let seen = &mut task.counters;
        (seen.attempts, seen.refusals, seen.review_cycles, seen.refreshes) = (end, end, end, end);
        (seen.replans, seen.orphans, seen.conflicts, seen.lost_swaps) = (end, end, end, end);
        if let Some(repeats) = &mut seen.repeats {
            repeats.count = end;
        }
    }
    world.state.tasks = tasks.try_into().expect("ids stay");
    world.queue.push(Report {
        outcome: Outcome::Failed { class: FailureClass::Cancelled, detail: String::new() },
        ..report
    });
    world.tick();
    assert_eq!(world.holds(), ["task/a:merge_wedged"]);
    let mut tasks: Vec<Task> = world.state.tasks.clone().into();
    tasks.iter_mut().for_each(|task| task.edition = end);
    world.state.tasks = tasks.try_into().expect("ids stay");
    world.state.goal.epoch = end;
    for wish in [
        Wish::Resume { task: Some(id("a")), reset_cost: true },
        Wish::Edit { task: id("a"), edit: TaskEdit { risk: Some(Risk::High), ..TaskEdit::default() } },
    ] {
        world.say(wish);
        world.tick();
    }
}

#[test]
fn permissions_end_at_their_limit_and_those_of_another_day_are_let_go() {
    let mut world = one();
    world.policy.limits.cost_day = UsdMicros(1);
    until_held(&mut world, HoldKind::ReserveExceedsCap);
    let permit = |scope: GrantScope| Grant {
        kind: HoldKind::DailyCostCap,
        subject: Subject::Loop,
        scope,
        by: "cli".into(),
        at: WallMs(0),
    };
    let goal = world.state.goal.number;
    let today = world.state.clock.day;
    world.state.grants = vec![permit(GrantScope::Goal(goal)); MAX_GRANTS];
    let allow = || Wish::Answer { answer: Answer::Allow, hold: None, revision: None };
    let offered = vec![Answer::Stop];
    assert!(matches!(refusal(world.say(allow())), Refusal::NotOffered { offered: o, .. } if o == offered));
    let reset = world.say(Wish::Resume { task: None, reset_cost: true });
    assert_eq!(
        refusal(reset).sentence(),
        "reset_cost must be left out: this goal has 1000 permissions already."
    );
    // One less, and the last one fits.
    world.state.grants[0] = permit(GrantScope::Day(Day(today.0 - 1)));
    world.state.grants.pop();
    assert!(matches!(world.say(allow()), Reason::Answered { answer: Answer::Allow, .. }));
    assert_eq!(invariant::check(&world.state), Ok(()));
    let days = world.state.grants.iter().filter(|grant| matches!(grant.scope, GrantScope::Day(_)));
    assert_eq!(days.map(|grant| &grant.scope).collect::<Vec<_>>(), [&GrantScope::Day(today)]);
}

#[test]
fn revisions_and_dispatch_ids_at_their_ends_do_not_wrap() {
    let mut world = one();
    (world.state.revision, world.state.next_dispatch) = (MAX_NUMBER, MAX_NUMBER - 1);
    world.tick();
    assert_eq!(world.state.revision, MAX_NUMBER);
    assert!(world.state.leases.keys().all(|dispatch| dispatch.0 >= MAX_NUMBER - 1));
}

#[test]
fn a_reset_at_the_end_of_time_is_a_wait_that_a_person_can_end() {
    let mut world = one();
    let mut report = until(&mut world, Op::Plan);
    let class = FailureClass::RateLimited { until: Some(WallMs(u64::MAX)) };
    report.outcome = Outcome::Failed { class, detail: "never".into() };
    world.queue.push(report);
    assert!(matches!(world.run(), Reason::Wait { until: Some(WallMs(MAX_NUMBER)), .. }));
    assert!(matches!(world.answer(Answer::Open), Reason::Answered { .. }));
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn ten_thousand_tasks_are_decided_on() {
    let mut world = one();
    until(&mut world, Op::Work);
    let own = world.state.tasks.iter().next().expect("a").clone();
    let more = (0..9_999).map(|n| Task {
        id: id(&format!("t{n}")),
        lineage: id(&format!("t{n}")),
        allowed_paths: vec![format!("t{n}/**")],
        depends_on: if n % 3 == 0 { vec![] } else { vec![id(&format!("t{}", n - 1))] },
        stage: Stage::Ready,
        base: None,
        tip: None,
        ..own.clone()
    });
    let all: Vec<Task> = std::iter::once(own.clone()).chain(more).collect();
    world.state.tasks = all.try_into().expect("ids are used once");
    assert_eq!(invariant::check(&world.state), Ok(()));
    world.tick();
    assert_eq!(world.state.leases.len(), 3, "as many as there are slots");
}

#[test]
fn a_circle_is_refused_at_plan_time_and_named() {
    let circle = [
        planned("a", &["d"], "a/**", Risk::Low),
        planned("b", &["a"], "b/**", Risk::Low),
        planned("c", &["b"], "c/**", Risk::Low),
        planned("d", &["c"], "d/**", Risk::Low),
        planned("e", &["a"], "e/**", Risk::Low),
    ];
    let fault = judge(&LoopState::default(), &circle, None).expect_err("a circle");
    assert_eq!(fault.to_string(), "the tasks depend on each other in a circle: a -> d -> c -> b -> a");
    let names: Vec<String> = ["a", "d", "c", "b", "a"].map(String::from).into();
    assert_eq!(fault, PlanFault::Cycle(names));
}

/// Found by fuzzing: the state that such a line left was saved and never opened again.
#[test]
fn a_line_that_ends_a_lease_moves_what_waited_for_it() {
    let check = |op: Op, who: &str| {
        let mut world = one();
        let dispatch = until(&mut world, op).dispatch;
        let ended = Event::LeaseEnded { dispatch, at: world.state.clock.active };
        let orphaned = Event::DispatchOrphaned { dispatch };
        let folded = apply_line(&mut world.state, &[orphaned, ended]);
        let said = folded.map_err(|error| error.what);
        assert_eq!(said, Err(format!("{who} still waits for {dispatch}")));
    };
    check(Op::Plan, "planning");
    check(Op::Work, "task/a");
    check(Op::Review, "task/a");
}

#[test]
fn a_circle_in_a_state_is_a_violation_and_no_endless_walk() {
    let mut world = one();
    until(&mut world, Op::Plan);
    let own = judge(&LoopState::default(), &two(), None).expect("a plan");
    let mut tasks: Vec<Task> = own;
    tasks[0].depends_on = vec![id("b")];
    world.state.tasks = tasks.try_into().expect("ids are used once");
    assert!(matches!(invariant::check(&world.state), Err(invariant::Violation::Cycle(_))));
    let seen = Input::Observation(world.observe());
    let mut state = world.state.clone();
    for _ in 0..20 {
        let decision = decide(&state, &world.policy, &seen);
        if decision.reason.is_final() {
            return;
        }
        apply_line(&mut state, &decision.events).expect("fold");
    }
    panic!("no end");
}

#[test]
fn names_of_other_peoples_objects_are_names() {
    let plan: Vec<PlannedTask> = ["constructor", "toString", "hasOwnProperty", "valueOf", "null", "NaN"]
        .into_iter()
        .map(|name| planned(name, &[], &format!("{name}/**"), Risk::Low))
        .collect();
    let mut world = World::new(plan, policy(Backend::Scripted));
    world.policy.limits.cost_session = UsdMicros::DOLLAR;
    assert_eq!(world.run(), Reason::StillComplete);
    assert!(world.state.tasks.iter().all(|task| task.counters.attempts == 1));
    let proto = judge(&LoopState::default(), &[planned("__proto__", &[], "a/**", Risk::Low)], None);
    let said = proto.expect_err("a leading underscore is the loop's own").to_string();
    assert_eq!(said, "tasks[0].id must be a name that starts with a letter or digit");
    // A state may hold it all the same: the earlier plugin let it pass.
    let mut tasks: Vec<Task> = world.state.tasks.clone().into();
    tasks[0].id = id("__proto__");
    world.state.tasks = tasks.try_into().expect("ids are used once");
    assert_eq!(world.state.tasks.get(&id("__proto__")).map(|task| task.counters.attempts), Some(1));
}

#[test]
fn unicode_passes_through_whole() {
    let title =
        "\u{202e}\u{1f600} e\u{301} \u{65e5}\u{672c}\u{8a9e} \u{0}".trim_end_matches('\0').to_string();
    let mut plan = planned("a", &[], "\u{65e5}\u{672c}/**", Risk::Low);
    plan.title = title.clone();
    let mut world = World::new(vec![plan], policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(world.state.tasks.iter().next().expect("a").title, title);
}

#[test]
fn texts_are_kept_at_their_limit_and_cut_or_refused_above_it() {
    for letter in ["x", "\u{65e5}", "\u{1f600}"] {
        for over in [0, 1] {
            let long = letter.repeat(MAX_TEXT + over);
            let mut plan = planned("a", &[], "a/**", Risk::Low);
            plan.criteria = vec![long.clone()];
            assert_eq!(judge(&LoopState::default(), &[plan], None).is_ok(), over == 0);
            for op in [Op::Plan, Op::Work, Op::Review, Op::Check] {
                long_words(op, &long);
            }
            let mut world = one();
            let command = Command { by: long.clone(), wish: Wish::Pause { now: false } };
            until(&mut world, Op::Work);
            let input = Input::Command { stamp: world.stamp(), command };
            let decision = decide(&world.state, &world.policy, &input);
            apply_line(&mut world.state, &decision.events).expect("fold");
            assert_eq!(invariant::check(&world.state), Ok(()), "{letter} {over}");
        }
    }
}

/// Every outcome that carries words, with these.
fn long_words(op: Op, words: &str) {
    let mut start = one();
    start.policy.acceptance = Acceptance::Digest(digest(9));
    let report = until(&mut start, op);
    let detail = || words.to_string();
    let head = start.state.tasks.iter().next().and_then(|task| task.tip.clone());
    let mut outcomes = vec![
        Outcome::NoResult { detail: detail() },
        Outcome::InvalidResult { detail: detail() },
        Outcome::Refused { detail: detail() },
        Outcome::WorkBlocked { summary: detail() },
        Outcome::WorkFailed { summary: detail() },
        Outcome::Failed { class: FailureClass::Task, detail: detail() },
        Outcome::Failed { class: FailureClass::OutOfCredit, detail: detail() },
        Outcome::Failed { class: FailureClass::Overloaded, detail: detail() },
        Outcome::Checked(CheckOutcome::Red { commands: vec![detail(); 60], output: detail() }),
        Outcome::Checked(CheckOutcome::Unavailable { detail: detail() }),
    ];
    let verdicts = [Verdict::Rework, Verdict::Blocked, Verdict::Replan, Verdict::Pass];
    outcomes.extend(head.iter().flat_map(|head| verdicts.map(|word| verdict(word, head, words))));
    for outcome in outcomes {
        let mut world = one();
        (world.state, world.policy, world.wall) = (start.state.clone(), start.policy.clone(), start.wall);
        world.queue = vec![Report { outcome, ..report.clone() }];
        // The world checks every promise after every line, the bounds of texts among them.
        world.tick();
    }
}

#[test]
fn an_observation_of_nothing_is_an_answer() {
    let world = one();
    let mut seen: Observation = world.observe();
    seen.repo.branch = None;
    seen.repo.tip = None;
    seen.free_disk_bytes = 0;
    seen.stamp.awake = AwakeMs { boot: 0, ms: 0 };
    seen.stamp.wall = WallMs(0);
    let mut state = LoopState::default();
    for _ in 0..20 {
        let decision = decide(&state, &world.policy, &Input::Observation(seen.clone()));
        if decision.reason.is_final() {
            assert!(!state.open_holds().is_empty(), "a checkout without a branch is asked about");
            return;
        }
        apply_line(&mut state, &decision.events).expect("fold");
        assert_eq!(invariant::check(&state), Ok(()));
    }
    panic!("no end");
}
