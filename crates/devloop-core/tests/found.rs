//! What simulated nights found in the core, each as the shortest night that shows it.

use devloop_core::answer::Answer;
use devloop_core::apply::MAX_UNATTRIBUTED;
use devloop_core::command::Wish;
use devloop_core::effect::{Effect, Job};
use devloop_core::ids::DispatchId;
use devloop_core::observation::MAX_REPORTS;
use devloop_core::policy::{Backend, Policy};
use devloop_core::reason::{Reason, WaitWhy};
use devloop_core::report::{MergeFault, Outcome, Report, Usage, UsageSource};
use devloop_core::state::{LoopState, Op, Phase};
use devloop_core::task::{Done, Stage};
use devloop_core::tier::Risk;
use devloop_core::units::{DAY_MS, Tokens, UsdMicros, WallMs};
use devloop_testkit::world::{World, key, planned, policy, route, two};

fn world(policy: Policy) -> World {
    World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy)
}

/// Ticks until the state is as wanted.
fn tick_until(world: &mut World, wanted: impl Fn(&LoopState) -> bool) {
    for _ in 0..30 {
        if wanted(&world.state) {
            return;
        }
        world.tick();
    }
    panic!("never came: {:?}", world.state.tasks);
}

fn replan_with_new_text(world: &mut World) {
    world.goal = 8;
    let reports = std::mem::take(&mut world.queue);
    world.tick();
    world.wall += 10_000;
    world.tick();
    assert_eq!(world.holds(), ["goal:goal_changed"]);
    assert!(matches!(world.answer(Answer::Replan), Reason::Answered { .. }));
    world.queue = reports;
    world.plan = vec![planned("b", &[], "b/**", Risk::Low)];
}

#[test]
fn a_commit_that_runs_while_the_goal_is_planned_anew_runs_out_and_its_task_is_replaced() {
    let mut world = world(policy(Backend::Scripted));
    tick_until(&mut world, |state| state.tasks.iter().any(|t| matches!(t.stage, Stage::Committing(_))));
    replan_with_new_text(&mut world);
    assert!(matches!(world.stage("a"), Stage::Committing(_)));
    assert_eq!(world.run(), Reason::StillComplete, "{:?}", world.holds());
    assert!(matches!(world.stage("a"), Stage::Dropped { .. }));
    assert!(matches!(world.stage("b"), Stage::Done(Done::Merged { .. })));
}

#[test]
fn a_merge_that_lands_while_the_goal_is_planned_anew_counts() {
    let mut world = world(policy(Backend::Scripted));
    tick_until(&mut world, |state| state.tasks.iter().any(|t| matches!(t.stage, Stage::Merging(..))));
    replan_with_new_text(&mut world);
    assert_eq!(world.run(), Reason::StillComplete, "{:?}", world.holds());
    assert!(matches!(world.stage("a"), Stage::Done(Done::Merged { .. })));
    assert!(matches!(world.stage("b"), Stage::Done(Done::Merged { .. })));
}

#[test]
fn a_new_goal_text_answers_the_questions_about_the_old_plan() {
    let mut world = World::new(Vec::new(), policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["planning:empty_plan"]);
    world.goal = 8;
    world.tick();
    world.wall += 10_000;
    world.tick();
    let hold = devloop_core::hold::HoldKey::parse("goal:goal_changed").ok();
    world.plan = vec![planned("b", &[], "b/**", Risk::Low)];
    let wish = Wish::Answer { answer: Answer::Replan, hold, revision: None };
    assert!(matches!(world.say(wish), Reason::Answered { .. }));
    assert_eq!(world.run(), Reason::StillComplete, "{:?}", world.holds());
}

#[test]
fn a_target_that_lost_the_base_of_a_task_asks_about_that_task_and_does_not_try_for_ever() {
    let mut world = world(policy(Backend::Scripted));
    world.script = Box::new(|effect, _| match effect {
        Effect::Merge { .. } => {
            let why = MergeFault::Rewound;
            Some(Outcome::NotMerged { why, detail: "the base is gone".into(), paths: Vec::new() })
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:unknown_base"]);
    world.script = Box::new(|_, _| None);
    assert!(matches!(world.answer(Answer::RetryFresh), Reason::Answered { .. }));
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn a_pause_before_the_first_goal_can_be_taken_back() {
    let mut world = world(policy(Backend::Scripted));
    assert_eq!(world.say(Wish::Pause { now: false }), Reason::Paused);
    assert_eq!(world.run(), Reason::StillPaused);
    assert_eq!(world.say(Wish::Resume { task: None, reset_cost: false }), Reason::Resumed);
    assert_eq!(world.run(), Reason::StillComplete);
    assert!(matches!(world.state.phase, Phase::Complete { .. }));
}

#[test]
fn a_day_that_has_to_be_seen_again_is_waited_for_in_the_future() {
    let mut policy = policy(Backend::Scripted);
    policy.limits.cost_day = UsdMicros(110_000);
    let mut world = world(policy);
    world.script = Box::new(|effect, _| match effect {
        Effect::Dispatch { job: Job::Work { .. }, .. } => Some(Outcome::NoResult { detail: "gone".into() }),
        _ => None,
    });
    let reason = world.run();
    assert!(matches!(reason, Reason::Wait { why: WaitWhy::Time, .. }), "{reason:?} {:?}", world.holds());
    world.step_clock(DAY_MS);
    let Reason::Wait { why: WaitWhy::Time, until: Some(until) } = world.tick() else { panic!("no wait") };
    assert!(until > WallMs(world.wall), "{until:?} is over");
}

#[test]
fn a_session_too_small_for_one_reserve_is_allowed_for_every_run_of_the_goal() {
    let mut policy = policy(Backend::Scripted);
    policy.limits.cost_session = UsdMicros(120_000);
    policy.routes.get_mut(&key("work")).expect("route").reserve = Some(UsdMicros(150_000));
    let mut world = World::new(two(), policy);
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["loop:reserve_exceeds_cap"]);
    world.answer(Answer::Allow);
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["loop:session_cost_cap"], "the second task does not fit into twice the limit");
    world.instance += 1;
    assert_eq!(world.run(), Reason::StillComplete, "{:?}", world.holds());
}

/// A finished night and the reports of this many dispatches that nobody knows, one millionth each.
fn strangers(count: usize) -> (World, Vec<Report>) {
    let mut world = world(policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::StillComplete);
    let report = |n: usize| Report {
        dispatch: DispatchId(5_000 + n as u64),
        epoch: 1,
        usage: Some(Usage::per_dispatch(UsageSource::Result, Tokens::default(), Some(UsdMicros(1)))),
        outcome: Outcome::NoResult { detail: "late".into() },
    };
    (world, (0..count).map(report).collect())
}

#[test]
fn usage_of_unknown_dispatches_is_booked_once_however_many_one_look_tells_of() {
    for count in [1, MAX_UNATTRIBUTED - 1, MAX_UNATTRIBUTED] {
        let (mut world, reports) = strangers(count);
        let day = world.state.clock.day;
        let before = world.state.ledger.day(day).spent();
        // The host shows them again when it died before it dropped them.
        for _ in 0..3 {
            world.queue.clone_from(&reports);
            assert_eq!(world.tick(), Reason::StillComplete, "{count}");
            assert_eq!(world.state.ledger.day(day).spent(), before.plus(count as u64), "{count}");
        }
    }
}

#[test]
fn names_that_one_look_tells_of_do_not_push_each_other_out_of_a_full_book() {
    let (mut world, reports) = strangers(2 * MAX_UNATTRIBUTED);
    let day = world.state.clock.day;
    let before = world.state.ledger.day(day).spent();
    let (old, new) = reports.split_at(MAX_UNATTRIBUTED);
    world.queue = old.to_vec();
    world.tick();
    // Half of them are known, and of all names those were told first.
    world.queue = [&old[..MAX_UNATTRIBUTED / 2], &new[..MAX_UNATTRIBUTED / 2]].concat();
    for _ in 0..2 {
        let again = world.queue.clone();
        world.tick();
        world.queue = again;
    }
    let all = (MAX_UNATTRIBUTED + MAX_UNATTRIBUTED / 2) as u64;
    assert_eq!(world.state.ledger.day(day).spent(), before.plus(all));
    assert_eq!(world.state.ledger.unattributed.len(), MAX_UNATTRIBUTED + 1, "the names and the rest");
}

#[test]
fn one_report_more_than_a_look_has_is_left_for_the_next_look() {
    let (mut world, reports) = strangers(MAX_REPORTS + 1);
    let day = world.state.clock.day;
    let before = world.state.ledger.day(day).spent();
    world.queue.clone_from(&reports);
    world.tick();
    assert_eq!(world.state.ledger.day(day).spent(), before.plus(MAX_REPORTS as u64));
    world.queue = reports[MAX_REPORTS..].to_vec();
    world.tick();
    assert_eq!(world.state.ledger.day(day).spent(), before.plus(MAX_REPORTS as u64 + 1));
}

#[test]
fn work_belongs_to_whom_its_route_named_when_it_was_dispatched() {
    let mut world = world(policy(Backend::Scripted));
    tick_until(&mut world, |state| state.tasks.iter().any(|t| matches!(t.stage, Stage::Working(_))));
    // Whoever reviews from now on is the one that works on it at this moment.
    let worker = world.policy.routes[&key("work")].identity.clone();
    let reviewer = world.policy.routes[&key("review")].identity.clone();
    world.policy.routes.get_mut(&key("work")).expect("route").identity = reviewer.clone();
    world.policy.routes.get_mut(&key("review")).expect("route").identity = worker.clone();
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:no_independent_reviewer"]);
    let task = world.state.tasks.iter().next().expect("a");
    assert_eq!(task.implementers.iter().collect::<Vec<_>>(), [&worker]);
}

#[test]
fn a_route_that_leaves_the_configuration_while_it_works_takes_nothing_with_it() {
    for wanted in [Op::Work, Op::Review] {
        let mut policy = policy(Backend::Scripted);
        policy.routes.insert(key("spare"), route(Backend::Scripted, "far/spare"));
        let mut world = world(policy);
        tick_until(&mut world, |state| state.leases.values().any(|lease| lease.op == wanted));
        let spare = key("spare");
        if wanted == Op::Work {
            world.policy.routes.remove(&key("work"));
            world.policy.routing.values_mut().for_each(|route| *route = spare.clone());
        } else {
            world.policy.routes.remove(&key("review"));
            world.policy.reviewer = spare;
        }
        assert_eq!(world.run(), Reason::StillComplete, "{wanted:?} {:?}", world.holds());
    }
}
