//! Nights that could stop for no reason, or go on for a wrong one: each must move as an operator expects.

use devloop_core::answer::Answer;
use devloop_core::command::Wish;
use devloop_core::decide::{Input, decide};
use devloop_core::diagnose::max_decisions;
use devloop_core::effect::{Effect, Job};
use devloop_core::hold::{HoldKey, Subject};
use devloop_core::observation::Observation;
use devloop_core::policy::{Acceptance, Backend};
use devloop_core::reason::{Reason, Refusal, WaitWhy};
use devloop_core::report::{
    CheckOutcome, CommitFault, FailureClass, MergeFault, Outcome, Report, Usage, UsageSource,
};
use devloop_core::review::Verdict;
use devloop_core::state::{Gate, Op};
use devloop_core::task::Stage;
use devloop_core::tier::Risk;
use devloop_core::units::{AwakeMs, DAY_MS, Day, MAX_NUMBER, Tokens, UsdMicros, WallMs};
use devloop_testkit::world::{World, digest, key, planned, policy, route, task_of, two, verdict};

fn one() -> World {
    World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy(Backend::Scripted))
}

/// Ticks until an operation of that kind runs; its report is left to the caller.
fn until(world: &mut World, op: Op) -> Report {
    for _ in 0..40 {
        world.tick();
        if let Some((dispatch, lease)) = world.state.leases.iter().find(|(_, l)| l.op == op) {
            let (dispatch, epoch) = (*dispatch, lease.epoch);
            world.queue.retain(|report| report.dispatch != dispatch);
            let outcome = Outcome::NoResult { detail: String::new() };
            return Report { dispatch, epoch, usage: None, outcome };
        }
    }
    panic!("no {op:?} ever runs");
}

#[test]
fn of_two_overlapping_reworks_one_goes_first() {
    let plan = vec![planned("a", &[], "src/**", Risk::Low), planned("b", &[], "src/**", Risk::Low)];
    let mut world = World::new(plan, policy(Backend::Scripted));
    let mut blocked = true;
    world.script = Box::new(move |effect, _| match task_of(effect)? {
        ("a", Job::Work { .. }) if std::mem::take(&mut blocked) => {
            Some(Outcome::WorkBlocked { summary: "no key".into() })
        }
        _ => None,
    });
    // `a` is held, `b` works; then `a` is to go on while `b` is sent back.
    for _ in 0..20 {
        world.tick();
        if !world.holds().is_empty() {
            break;
        }
    }
    assert_eq!(world.holds(), ["task/a:blocked_task"]);
    let mut first = true;
    world.script = Box::new(move |effect, _| match task_of(effect)? {
        ("b", Job::Review { head, .. }) if std::mem::take(&mut first) => {
            Some(verdict(Verdict::Rework, head, "mend it"))
        }
        _ => None,
    });
    world.answer(Answer::Retry);
    assert_eq!(world.run(), Reason::StillComplete, "{:?}", world.state.tasks);
}

#[test]
fn a_second_stop_is_told_of_the_first() {
    let mut world = one();
    world.script = Box::new(|effect, _| match task_of(effect)? {
        (_, Job::Work { .. }) => Some(Outcome::WorkBlocked { summary: "no key".into() }),
        _ => None,
    });
    assert_eq!(world.run(), Reason::Halted);
    assert!(matches!(world.answer(Answer::Stop), Reason::Answered { .. }));
    let before = world.state.clone();
    let said = world.answer(Answer::Stop);
    assert!(matches!(said, Reason::Refused(Refusal::Stale { answer: Answer::Stop, .. })), "{said:?}");
    assert_eq!(world.state, before);
    world.script = Box::new(|_, _| None);
    assert!(matches!(world.answer(Answer::Retry), Reason::Answered { .. }), "stop closes no other way");
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn usage_that_comes_after_a_refusal_counts_once() {
    let mut world = one();
    let mut report = until(&mut world, Op::Work);
    report.outcome = Outcome::Refused { detail: "offline".into() };
    world.queue.push(report.clone());
    world.tick();
    report.usage = Some(Usage::per_dispatch(UsageSource::Result, Tokens::default(), Some(UsdMicros(70_000))));
    for _ in 0..2 {
        world.queue.push(report.clone());
        world.tick();
    }
    let day = world.state.ledger.day(world.state.clock.day);
    let named = world.state.ledger.unattributed.get(&report.dispatch.to_string()).map(|u| u.amount);
    assert_eq!(named, Some(UsdMicros(70_000)), "{day:?}");
}

#[test]
fn a_noop_fallback_takes_nothing() {
    let mut policy = policy(Backend::Scripted);
    policy.routes.insert(key("spare"), route(Backend::Noop, "none/spare"));
    policy.routes.get_mut(&key("work")).expect("work").fallback = vec![key("spare")];
    let mut world = World::new(two(), policy);
    world.script = Box::new(|effect, _| match task_of(effect)? {
        (_, Job::Work { .. }) => {
            Some(Outcome::Failed { class: FailureClass::OutOfCredit, detail: "empty".into() })
        }
        _ => None,
    });
    let reason = world.run();
    let Reason::Wait { why: WaitWhy::NoopBackend { route, .. }, .. } = &reason else { panic!("{reason:?}") };
    assert_eq!(*route, key("spare"));
}

#[test]
fn a_later_fault_never_opens_a_route_earlier() {
    let plan = vec![planned("a", &[], "a/**", Risk::Low), planned("b", &[], "b/**", Risk::Low)];
    for (first, second, open) in [
        (
            FailureClass::RateLimited { until: Some(WallMs(1_790_009_000_000)) },
            FailureClass::Overloaded,
            false,
        ),
        (FailureClass::OutOfCredit, FailureClass::Overloaded, true),
        (FailureClass::OutOfCredit, FailureClass::LoginExpired, true),
    ] {
        let mut world = World::new(plan.clone(), policy(Backend::Scripted));
        let mut faults = vec![second, first.clone()];
        world.script = Box::new(move |effect, _| match task_of(effect)? {
            (_, Job::Work { .. }) => {
                faults.pop().map(|class| Outcome::Failed { class, detail: "provider".into() })
            }
            _ => None,
        });
        until(&mut world, Op::Plan);
        world.queue.push(Report {
            dispatch: *world.state.leases.keys().next().expect("the plan"),
            epoch: 1,
            usage: None,
            outcome: Outcome::Planned { tasks: plan.clone() },
        });
        (0..4).for_each(|_| drop(world.tick()));
        let gate = world.state.gate(&key("work"));
        match first {
            FailureClass::RateLimited { until: Some(at) } => {
                assert!(matches!(gate, Gate::ClosedUntil { at: until, .. } if until == at), "{gate:?}");
            }
            _ => assert_eq!(gate, Gate::Closed),
        }
        assert_eq!(world.holds().len(), usize::from(open), "{:?}", world.holds());
    }
}

#[test]
fn a_quota_that_resets_tomorrow_is_asked_about_and_opens_by_itself() {
    let mut world = one();
    let reset = WallMs(world.wall + 30 * 3_600_000);
    let mut first = true;
    world.script = Box::new(move |effect, _| match effect {
        Effect::Dispatch { job: Job::Plan { .. }, .. } if std::mem::take(&mut first) => {
            Some(Outcome::Failed {
                class: FailureClass::RateLimited { until: Some(reset) },
                detail: "weekly limit".into(),
            })
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::Wait { why: WaitWhy::Time, until: Some(reset) });
    assert_eq!(world.holds(), ["route/plan:quota_wait_too_long"]);
    world.wall = reset.0 + 1_000;
    assert_eq!(world.run(), Reason::StillComplete);
    assert!(world.holds().is_empty());
}

#[test]
fn a_new_process_starts_its_sessions_money_anew() {
    let mut world = one();
    world.policy.limits.cost_session = UsdMicros(120_000);
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["loop:session_cost_cap"]);
    world.instance = 5;
    world.run();
    assert!(
        world.state.tasks.iter().any(|t| t.counters.attempts == 1),
        "it works again: {:?}",
        world.holds()
    );
}

#[test]
fn an_answer_about_the_goal_is_about_the_text_that_was_read() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    until(&mut world, Op::Work);
    let asked = |world: &World| {
        let open = world.state.open_holds();
        open.iter().find(|(_, hold)| hold.kind.key() == "goal_changed").map(|(_, hold)| hold.revision)
    };
    world.goal = 8;
    (0..4).for_each(|_| drop(world.tick()));
    let first = asked(&world).expect("the edit is asked about");
    world.goal = 9;
    world.tick();
    assert_eq!(asked(&world), Some(first), "a text seen once is no news yet");
    let early = world.state.clone();
    (0..4).for_each(|_| drop(world.tick()));
    let second = asked(&world).expect("and the next one again");
    assert!(second > first);
    let hold = HoldKey::parse("goal:goal_changed").ok();
    let wish = |revision| Wish::Answer { answer: Answer::Continue, hold: hold.clone(), revision };
    let late = world.say(wish(Some(first)));
    assert!(matches!(late, Reason::Refused(Refusal::Reopened { .. })), "{late:?}");
    world.say(wish(Some(second)));
    assert_eq!(world.state.goal.digest, Some(digest(9)));
    // Answered in the moment in which the text was changed again: the answer is for the old question.
    world.state = early;
    world.say(wish(Some(first)));
    assert_eq!(world.state.goal.digest, Some(digest(8)));
}

#[test]
fn a_merge_that_lands_while_the_goal_is_planned_anew_is_not_forgotten() {
    let mut world = one();
    let mut report = until(&mut world, Op::Merge);
    world.goal = 8;
    (0..4).for_each(|_| drop(world.tick()));
    assert_eq!(world.holds(), ["goal:goal_changed"]);
    world.plan = vec![planned("c", &[], "c/**", Risk::Low)];
    assert!(matches!(world.answer(Answer::Replan), Reason::Answered { .. }));
    report.outcome = Outcome::Merged { commit: devloop_testkit::world::oid(77) };
    world.queue.push(report);
    assert_eq!(world.run(), Reason::StillComplete);
    assert!(matches!(world.stage("a"), Stage::Done(_)));
    assert!(matches!(world.stage("c"), Stage::Done(_)));
}

#[test]
fn a_checkout_in_the_way_of_a_merge_counts_as_no_lost_swap() {
    let mut world = one();
    let mut first = true;
    world.script = Box::new(move |effect, _| match effect {
        Effect::Merge { .. } if std::mem::take(&mut first) => Some(Outcome::NotMerged {
            why: MergeFault::Checkout,
            detail: "dirty".into(),
            paths: vec!["x".into()],
        }),
        _ => None,
    });
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(world.state.tasks.iter().next().expect("a").counters.lost_swaps, 0);
}

#[test]
fn the_checks_are_seen_once_on_the_base_of_every_goal() {
    let mut world = one();
    world.policy.acceptance = Acceptance::Digest(digest(9));
    let counted = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = counted.clone();
    world.script = Box::new(move |effect, _| {
        let base = matches!(effect, Effect::Check { contract: None, .. });
        seen.set(seen.get() + u32::from(base));
        None
    });
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(counted.get(), 1);
    world.say(Wish::NextGoal);
    world.goal = 8;
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(counted.get(), 2);
}

#[test]
fn a_planner_or_reviewer_that_wrote_into_the_checkout_is_asked_about() {
    for (op, asks) in [(Op::Plan, "planning:escaped_write"), (Op::Review, "task/a:escaped_write")] {
        let mut world = one();
        let mut report = until(&mut world, op);
        let (detail, paths) = ("changed while it ran".into(), vec!["README.md".into()]);
        report.outcome = Outcome::CommitRefused { why: CommitFault::Escaped, detail, paths };
        world.queue.push(report);
        assert_eq!(world.run(), Reason::Halted);
        assert_eq!(world.holds(), [asks]);
        assert_eq!(world.state.open_holds()[0].1.items, ["README.md"]);
        assert!(matches!(world.answer(Answer::Drop), Reason::Answered { .. }) == (op == Op::Review));
        if op == Op::Plan {
            world.answer(Answer::Retry);
            assert_eq!(world.run(), Reason::StillComplete);
        }
    }
}

#[test]
fn a_change_that_is_too_large_is_split_by_a_planner_then_asked_about() {
    let mut world = one();
    let mut names = ["c", "b"].into_iter().map(|id| planned(id, &[], "a/**", Risk::Low)).collect::<Vec<_>>();
    let mut planned_again = false;
    world.script = Box::new(move |effect, _| match effect {
        Effect::Commit { .. } => Some(Outcome::CommitRefused {
            why: CommitFault::TooLarge,
            detail: "2,000 lines".into(),
            paths: vec!["a/x".into()],
        }),
        Effect::Dispatch { job: Job::Plan { .. }, .. } if std::mem::replace(&mut planned_again, true) => {
            Some(Outcome::Planned { tasks: vec![names.pop()?] })
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/c:task_over_budget"], "two replans of the lineage, then a person");
    assert!(matches!(world.answer(Answer::Replan), Reason::Answered { .. }), "exactly one more");
}

#[test]
fn a_commit_that_is_gone_is_no_fault_of_its_review_or_check() {
    let fresh = Wish::Answer { answer: Answer::RetryFresh, hold: None, revision: None };
    for op in [Op::Review, Op::Check] {
        let mut world = one();
        world.policy.acceptance = Acceptance::Digest(digest(9));
        let mut report = until(&mut world, op);
        if world.state.leases[&report.dispatch].subject == Subject::Target {
            report.outcome = Outcome::Checked(CheckOutcome::Green);
            world.queue.push(report);
            report = until(&mut world, op);
        }
        let (why, detail) = (MergeFault::UnknownCommit, "it is gone".into());
        report.outcome = Outcome::NotMerged { why, detail, paths: Vec::new() };
        world.queue.push(report);
        world.tick();
        assert_eq!(world.holds(), ["task/a:missing_review_worktree"]);
        assert!(matches!(world.say(fresh.clone()), Reason::Answered { .. }));
        assert_eq!(world.run(), Reason::StillComplete);
    }
}

/// Decides until the tick is over; fails when it never is.
fn settle(world: &mut World, seen: Observation) -> Reason {
    let input = Input::Observation(seen);
    for _ in 0..max_decisions(&world.state, &world.policy) {
        let decision = decide(&world.state, &world.policy, &input);
        if decision.reason.is_final() {
            return decision.reason;
        }
        devloop_core::apply::apply_line(&mut world.state, &decision.events).expect("fold");
    }
    panic!("the tick does not end: {:?}", world.state.clock);
}

#[test]
fn the_day_follows_although_midnight_passes_while_it_waits_to_be_confirmed() {
    let mut world = one();
    until(&mut world, Op::Work);
    let day = world.state.clock.day;
    // Asleep until half a minute before the next but one midnight.
    let mut seen = world.observe();
    let night = (day.0 + 2) * DAY_MS - 30_000;
    seen.stamp.wall = WallMs(night);
    settle(&mut world, seen.clone());
    assert_eq!(
        (world.state.clock.day, world.state.clock.pending_day.map(|p| p.day)),
        (day, Some(Day(day.0 + 1)))
    );
    for passed in [45_000, 110_000] {
        let boot = seen.stamp.awake.boot;
        let awake = AwakeMs { boot, ms: world.state.clock.awake.ms + passed };
        let mut later = seen.clone();
        (later.stamp.wall, later.stamp.awake) = (WallMs(night + passed), awake);
        settle(&mut world, later);
    }
    assert_eq!(world.state.clock.day, Day(day.0 + 2));
}

#[test]
fn times_at_their_limits_end_the_tick() {
    for (wall, awake) in [(0, 0), (u64::MAX, u64::MAX), (MAX_NUMBER, 0), (0, u64::MAX), (u64::MAX, 1)] {
        let mut world = one();
        let mut seen = world.observe();
        (seen.stamp.wall, seen.stamp.awake) = (WallMs(wall), AwakeMs { boot: awake, ms: awake });
        settle(&mut world, seen);
        assert_eq!(devloop_core::invariant::check(&world.state), Ok(()), "{wall} {awake}");
        assert!(world.state.goal.number == 1, "the goal starts all the same");
    }
}
