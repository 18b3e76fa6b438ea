//! What simulated nights found in the core, each as the shortest night that shows it.

use devloop_core::answer::Answer;
use devloop_core::apply::MAX_UNATTRIBUTED;
use devloop_core::command::Wish;
use devloop_core::effect::{Effect, Job};
use devloop_core::ids::DispatchId;
use devloop_core::ledger::Unattributed;
use devloop_core::policy::{Backend, Policy};
use devloop_core::reason::{Reason, WaitWhy};
use devloop_core::report::{MergeFault, Outcome, Report, Usage, UsageSource};
use devloop_core::state::{LoopState, Phase};
use devloop_core::task::{Done, Stage};
use devloop_core::tier::Risk;
use devloop_core::units::{DAY_MS, Tokens, UsdMicros, WallMs};
use devloop_testkit::world::{World, key, planned, policy, two};

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

#[test]
fn usage_of_one_more_unknown_dispatch_is_booked_once() {
    let mut world = world(policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::StillComplete);
    let day = world.state.clock.day;
    for n in 0..MAX_UNATTRIBUTED {
        let dispatch = format!("d{}", 1_000 + n);
        let usage = Unattributed { dispatch: dispatch.clone(), day, amount: UsdMicros(1) };
        world.state.ledger.unattributed.insert(dispatch, usage);
    }
    let before = world.state.ledger.day(day).spent();
    let usage = Some(Usage::per_dispatch(UsageSource::Result, Tokens::default(), Some(UsdMicros(70))));
    let outcome = Outcome::NoResult { detail: "late".into() };
    world.queue.push(Report { dispatch: DispatchId(9_999), epoch: 1, usage, outcome });
    assert_eq!(world.tick(), Reason::StillComplete);
    assert_eq!(world.state.ledger.day(day).spent(), before.plus(70));
}
