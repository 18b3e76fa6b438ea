//! Rules of docs/rules/loop.md that no other test shows, each on the smallest night in which the old fault
//! could happen.

use devloop_core::answer::Answer;
use devloop_core::command::{Command, Wish};
use devloop_core::diagnose::outlook;
use devloop_core::effect::{Effect, Job};
use devloop_core::hold::{HoldKey, Subject};
use devloop_core::ids::TaskId;
use devloop_core::observation::Checkout;
use devloop_core::policy::{Backend, Limits};
use devloop_core::question::open_questions;
use devloop_core::reason::{Reason, WaitWhy};
use devloop_core::report::{Outcome, Report};
use devloop_core::review::Verdict;
use devloop_core::state::{LoopState, Op, Phase};
use devloop_core::task::{Counters, Stage, Task};
use devloop_core::tier::Risk;
use devloop_core::units::UsdMicros;
use devloop_core::{Input, decide};
use devloop_testkit::world::{World, oid, planned, policy, task_of, two, verdict};

fn id(name: &str) -> TaskId {
    TaskId::parse(name).expect("an id")
}

fn task<'a>(state: &'a LoopState, name: &str) -> &'a Task {
    state.tasks.get(&id(name)).expect("a task")
}

/// A night whose worker says that it cannot go on: task `a` is held.
fn blocked() -> World {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.script = Box::new(|effect, _| match task_of(effect)? {
        (_, Job::Work { .. }) => Some(Outcome::WorkBlocked { summary: "no access".into() }),
        _ => None,
    });
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:blocked_task"]);
    world
}

/// Ticks until such an operation runs.
fn until(world: &mut World, op: Op) {
    for _ in 0..30 {
        if world.state.leases.values().any(|lease| lease.op == op) {
            return;
        }
        world.tick();
    }
    panic!("{op:?} never starts");
}

#[test]
fn a_task_named_like_another_subject_is_told_apart() {
    for name in ["planning", "goal", "target", "loop", "null", "_"] {
        let own = Subject::Task(id(name));
        assert_eq!(Subject::parse(&own.to_string()), Ok(own.clone()));
        assert_ne!(Subject::parse(name), Ok(own), "{name}");
    }
    let mut world = blocked();
    world.plan = vec![planned("planning", &[], "p/**", Risk::Low)];
    assert!(matches!(world.answer(Answer::Replan), Reason::Answered { .. }));
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/planning:blocked_task"]);
}

#[test]
fn a_spent_cap_does_not_stop_a_goal_whose_tasks_are_done() {
    let plan = vec![planned("a", &[], "a/**", Risk::Low)];
    let mut world = World::new(plan, policy(Backend::Scripted));
    until(&mut world, Op::Merge);
    world.policy.limits.cost_day = UsdMicros(0);
    world.policy.limits.cost_session = UsdMicros(0);
    assert_eq!(world.run(), Reason::StillComplete, "{:?}", world.holds());
}

#[test]
fn an_open_question_is_not_replaced_by_one_about_progress() {
    let mut world = blocked();
    for _ in 0..3 {
        world.wall += 3_600_000;
        let mut seen = world.observe();
        seen.repo.checkout = Checkout::Dirty { paths: vec!["README.md".into()] };
        assert_eq!(decide(&world.state, &world.policy, &Input::Observation(seen)).reason, Reason::Halted);
        world.tick();
        assert_eq!(world.holds(), ["task/a:blocked_task"]);
    }
}

#[test]
fn the_lifetime_of_a_task_is_what_it_was_busy() {
    let limits = Limits { lifetime_minutes: 1, dispatch_minutes: 45, task_attempts: 3, ..Limits::default() };
    assert_eq!(limits.lifetime_ms(), 135 * 60_000, "all attempts fit into it");
    let mut world = World::new(two(), policy(Backend::Scripted));
    until(&mut world, Op::Review);
    let busy = task(&world.state, "a").counters.busy_ms;
    assert!(busy > 0 && busy < 60_000, "work and commit took their ticks: {busy}");
    // A weekend in which the loop is paused.
    world.queue.clear();
    world.say(Wish::Pause { now: false });
    world.wall += 3 * 86_400_000;
    world.say(Wish::Resume { task: None, reset_cost: false });
    assert_eq!(task(&world.state, "a").counters.busy_ms, busy);
    // A review whose end comes late counts up to its deadline and no further.
    let deadline = world.state.leases.values().map(|lease| lease.deadline.0 - lease.started_at.0).max();
    world.tick();
    let Some((dispatch, epoch)) = world.state.leases.iter().map(|(d, lease)| (*d, lease.epoch)).next() else {
        panic!("the review runs until it is reported")
    };
    let outcome = Outcome::NoResult { detail: "late".into() };
    world.queue = vec![Report { dispatch, epoch, usage: None, outcome }];
    world.tick();
    assert_eq!(Some(task(&world.state, "a").counters.busy_ms - busy), deadline);
}

#[test]
fn the_next_goal_starts_with_counters_of_its_own() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(task(&world.state, "a").counters.attempts, 1);
    assert_eq!(world.say(Wish::NextGoal), Reason::GoalArchived);
    world.goal = 8;
    until(&mut world, Op::Work);
    let seen = world.state.tasks.iter().next().expect("a task").counters.clone();
    let fresh = Counters { attempts: 1, repeats: seen.repeats.clone(), ..Counters::default() };
    assert_eq!(seen, fresh);
}

#[test]
fn a_stop_is_a_line_of_the_journal_like_any_other() {
    let mut world = blocked();
    let before = world.state.revision;
    assert!(matches!(world.answer(Answer::Stop), Reason::Answered { .. }));
    assert_eq!(world.state.revision, before + 1);
    let said = task(&world.state, "a").hold().and_then(|hold| hold.acknowledged.clone());
    assert_eq!(said.map(|said| said.by), Some("test".to_string()));
    // It goes with its hold: the same question, asked again, is a new one.
    assert!(matches!(world.answer(Answer::Retry), Reason::Answered { .. }));
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:blocked_task"]);
    assert_eq!(task(&world.state, "a").hold().and_then(|hold| hold.acknowledged.clone()), None);
}

#[test]
fn a_reached_goal_and_a_pause_ask_nothing() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.tick();
    world.say(Wish::Pause { now: false });
    assert_eq!(world.run(), Reason::StillPaused);
    assert_eq!(open_questions(&world.state, &world.policy, world.instance), []);
    world.say(Wish::Resume { task: None, reset_cost: false });
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(open_questions(&world.state, &world.policy, world.instance), []);
}

#[test]
fn a_pause_leaves_an_open_question_open() {
    let mut world = blocked();
    assert_eq!(world.say(Wish::Pause { now: false }), Reason::Paused);
    assert_eq!(world.run(), Reason::StillPaused);
    assert_eq!(world.holds(), ["task/a:blocked_task"]);
    assert!(matches!(world.answer(Answer::Retry), Reason::Answered { .. }));
    assert!(matches!(world.state.phase, Phase::Paused { .. }), "an answer is no resume");
}

#[test]
fn review_and_accept_keep_what_was_counted() {
    let elsewhere = |effect: &Effect| match task_of(effect)? {
        (_, Job::Review { .. }) => Some(verdict(Verdict::Pass, &oid(77), "")),
        _ => None,
    };
    let empty = |effect: &Effect| match effect {
        Effect::Commit { .. } => Some(Outcome::CommitEmpty),
        _ => None,
    };
    type Says = fn(&Effect) -> Option<Outcome>;
    for (word, says) in [(Answer::Review, elsewhere as Says), (Answer::Accept, empty as Says)] {
        let mut world = World::new(two(), policy(Backend::Scripted));
        world.script = Box::new(move |effect, _| says(effect));
        assert_eq!(world.run(), Reason::Halted);
        let before = task(&world.state, "a").counters.clone();
        assert!(before.attempts > 0 && before.busy_ms > 0);
        assert!(matches!(world.answer(word), Reason::Answered { .. }), "{word:?} {:?}", world.holds());
        assert_eq!(task(&world.state, "a").counters, before, "{word:?}");
    }
}

#[test]
fn resume_by_name_clears_the_counters_of_that_task_alone() {
    let plan = vec![planned("a", &[], "a/**", Risk::Low), planned("b", &[], "b/**", Risk::Low)];
    let mut world = World::new(plan, policy(Backend::Scripted));
    world.script =
        Box::new(|effect, _| task_of(effect).map(|_| Outcome::Refused { detail: "no binary".into() }));
    world.run_to_halt();
    let refusals = |world: &World, name: &str| task(&world.state, name).counters.refusals;
    assert!(refusals(&world, "a") > 0 && refusals(&world, "b") > 0);
    let kept = refusals(&world, "b");
    world.say(Wish::Resume { task: Some(id("a")), reset_cost: false });
    assert_eq!((refusals(&world, "a"), refusals(&world, "b")), (0, kept));
}

#[test]
fn a_resume_that_would_not_help_is_known_before() {
    let world = blocked();
    let asked = |task: Option<TaskId>| {
        let command = Command { by: "test".into(), wish: Wish::Resume { task, reset_cost: false } };
        outlook(&world.state, &world.policy, &world.observe(), Some(&command))
    };
    let plain = asked(None);
    assert!(!plain.helps(), "{plain:?}");
    assert_eq!(plain.open, [HoldKey::parse("task/a:blocked_task").expect("a key")]);
    let named = asked(Some(id("a")));
    assert!(named.helps() && matches!(named.reason, Reason::Wait { why: WaitWhy::Lease, .. }), "{named:?}");
    assert!(matches!(task(&world.state, "a").stage, Stage::Held { .. }), "only a copy was resumed");
}
