//! Providers that say no to what is asked of them: the prompt is too long, the answer is cut off, the content
//! is refused. An attempt is charged where a model worked, and nothing is asked again and again for free.

use devloop_core::apply::apply_line;
use devloop_core::decide::{Input, decide};
use devloop_core::policy::Backend;
use devloop_core::report::{FailureClass, Outcome, Report, Usage, UsageSource};
use devloop_core::state::{Op, Planning};
use devloop_core::task::Stage;
use devloop_core::tier::Risk;
use devloop_core::units::{Tokens, UsdMicros};
use devloop_testkit::world::{World, planned, policy};

/// A report of the first `op` that runs.
fn ended(op: Op, class: &FailureClass, usage: Option<Usage>) -> World {
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy(Backend::Scripted));
    for _ in 0..40 {
        world.tick();
        if let Some((dispatch, lease)) = world.state.leases.iter().find(|(_, lease)| lease.op == op) {
            let outcome = Outcome::Failed { class: class.clone(), detail: "it said so".into() };
            world.queue = vec![Report { dispatch: *dispatch, epoch: lease.epoch, usage, outcome }];
            let decision = decide(&world.state, &world.policy, &Input::Observation(world.observe()));
            apply_line(&mut world.state, &decision.events).expect("fold");
            return world;
        }
    }
    panic!("no {op:?} ever runs");
}

fn nothing() -> Option<Usage> {
    Some(Usage::per_dispatch(UsageSource::Result, Tokens::default(), Some(UsdMicros(0))))
}

fn something() -> Option<Usage> {
    let tokens = Tokens { output: 9, ..Tokens::default() };
    Some(Usage::per_dispatch(UsageSource::SessionRecords, tokens, None))
}

/// Class, what it used, attempts that stay charged, and what becomes of the task.
#[test]
fn work_is_charged_where_a_model_worked_and_never_repeated_for_nothing() {
    use FailureClass::{ContentRefusal, ContextTooLong, OutputLimit};
    let rows = [
        (ContextTooLong, nothing(), 0, "replanning"),
        (ContextTooLong, something(), 1, "replanning"),
        (ContextTooLong, None, 1, "replanning"),
        (OutputLimit, nothing(), 0, "held"),
        (OutputLimit, something(), 1, "rework"),
        (OutputLimit, None, 1, "rework"),
        (ContentRefusal, nothing(), 0, "held"),
        (ContentRefusal, something(), 1, "rework"),
        (ContentRefusal, None, 1, "rework"),
    ];
    for (class, usage, attempts, stage) in rows {
        let world = ended(Op::Work, &class, usage);
        let task = world.state.tasks.iter().next().expect("a");
        let what = format!("{class:?} {usage:?}");
        assert_eq!(task.counters.attempts, attempts, "{what}");
        assert_eq!(devloop_core::render::stage_word(&task.stage), stage, "{what}");
        assert!(world.state.routes.is_empty(), "{what}: the route is open");
    }
}

#[test]
fn a_task_that_fits_no_window_is_asked_about_when_no_replan_is_left() {
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::Low)], {
        let mut policy = policy(Backend::Scripted);
        policy.limits.replans = 0;
        policy
    });
    world.script = Box::new(|effect, _| {
        use devloop_core::effect::{Effect, Job};
        let works = matches!(effect, Effect::Dispatch { job: Job::Work { .. }, .. });
        let class = FailureClass::ContextTooLong;
        works.then(|| Outcome::Failed { class, detail: "200001 tokens".into() })
    });
    world.run();
    assert_eq!(world.holds(), ["task/a:task_over_budget"]);
}

#[test]
fn a_reviewer_that_is_not_served_asks_at_once_and_keeps_the_commit() {
    for class in [FailureClass::ContextTooLong, FailureClass::OutputLimit, FailureClass::ContentRefusal] {
        let world = ended(Op::Review, &class, nothing());
        let task = world.state.tasks.iter().next().expect("a");
        assert_eq!((task.counters.review_cycles, task.tip.is_some()), (0, true), "{class:?}");
        assert_eq!(world.holds(), ["task/a:backend_failed"], "{class:?}");
        let world = ended(Op::Review, &class, something());
        let task = world.state.tasks.iter().next().expect("a");
        assert_eq!(task.counters.review_cycles, 1, "{class:?}");
        assert!(matches!(task.stage, Stage::AwaitingReview { .. }), "{class:?}: {:?}", task.stage);
    }
}

#[test]
fn a_goal_that_is_refused_for_nothing_is_asked_about_at_once() {
    let world = ended(Op::Plan, &FailureClass::ContentRefusal, nothing());
    assert_eq!(world.state.plan_counters.attempts, 0);
    assert_eq!(world.holds(), ["planning:plan_attempts"]);
    let world = ended(Op::Plan, &FailureClass::ContentRefusal, something());
    assert_eq!(world.state.plan_counters.attempts, 1);
    assert!(matches!(world.state.planning, Planning::Wanted { .. }), "{:?}", world.state.planning);
}
