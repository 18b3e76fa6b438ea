//! Whole nights of the core alone: each path from a plan to a finished goal is walked.

use devloop_core::answer::Answer;
use devloop_core::command::Wish;
use devloop_core::effect::{Effect, Job};
use devloop_core::ids::{Branch, TaskId};
use devloop_core::policy::{Acceptance, Backend, PostMerge};
use devloop_core::reason::{Reason, WaitWhy};
use devloop_core::report::{CheckOutcome, FailureClass, MergeFault, Outcome};
use devloop_core::review::Verdict;
use devloop_core::state::Phase;
use devloop_core::task::{Done, Stage};
use devloop_core::tier::Risk;
use devloop_core::units::{UsdMicros, WallMs};
use devloop_testkit::world::{World, digest, planned, policy, task_of, two, verdict};

#[test]
fn a_goal_goes_from_plan_to_merged_commits() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::StillComplete);
    assert!(matches!(world.stage("a"), Stage::Done(Done::Merged { .. })));
    assert!(matches!(world.stage("b"), Stage::Done(Done::Merged { .. })));
    assert_eq!(world.state.ledger.goal(1).measured, UsdMicros(5 * 50_000), "plan, two works, two reviews");
    assert!(world.state.leases.is_empty());
}

#[test]
fn checks_run_once_on_the_base_then_on_every_commit() {
    let mut policy = policy(Backend::Scripted);
    policy.acceptance = Acceptance::Digest(digest(9));
    policy.post_merge = PostMerge::Always;
    let mut world = World::new(two(), policy);
    let counted = std::rc::Rc::new(std::cell::RefCell::new((0, 0, 0)));
    let seen = counted.clone();
    world.script = Box::new(move |effect, _| {
        let mut n = seen.borrow_mut();
        match effect {
            Effect::Check { contract: None, .. } => n.0 += 1,
            Effect::Check { contract: Some(_), .. } => n.1 += 1,
            Effect::Verify { .. } => n.2 += 1,
            _ => {}
        }
        None
    });
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(*counted.borrow(), (1, 2, 2));
}

#[test]
fn a_held_task_holds_only_itself_and_retry_sets_it_going() {
    let plan = vec![planned("a", &[], "a/**", Risk::Low), planned("b", &[], "b/**", Risk::Low)];
    let mut world = World::new(plan, policy(Backend::Scripted));
    world.script = Box::new(|effect, _| match task_of(effect) {
        Some(("a", Job::Work { .. })) => Some(Outcome::WorkBlocked { summary: "no key".into() }),
        _ => None,
    });
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:blocked_task"]);
    assert!(matches!(world.stage("b"), Stage::Done(_)));
    world.script = Box::new(|_, _| None);
    assert!(matches!(world.answer(Answer::Retry), Reason::Answered { .. }));
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn attempts_run_out_and_ask() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.script = Box::new(|effect, _| match task_of(effect) {
        Some(("a", Job::Work { .. })) => {
            Some(Outcome::Failed { class: FailureClass::Task, detail: "compile error".into() })
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:max_task_attempts"]);
    assert_eq!(world.state.ledger.goal(1).measured, UsdMicros(4 * 50_000), "one plan, three attempts");
    assert!(matches!(world.answer(Answer::Accept), Reason::Refused(_)), "only offered answers count");
    world.answer(Answer::Drop);
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/b:dependency_dropped"]);
    world.script = Box::new(|_, _| None);
    world.answer(Answer::GoOn);
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn a_rework_carries_the_reviewers_notes() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    let noted = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = noted.clone();
    let mut first = true;
    world.script = Box::new(move |effect, _| match task_of(effect) {
        Some(("a", Job::Review { head, .. })) if std::mem::take(&mut first) => {
            Some(verdict(Verdict::Rework, head, "name it better"))
        }
        Some((_, Job::Work { notes, .. })) => {
            seen.borrow_mut().push(notes.clone());
            None
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(*noted.borrow(), ["", "name it better", ""]);
}

#[test]
fn high_risk_is_worked_and_reviewed_and_then_approved_by_a_person() {
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::High)], policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:security_high_risk"]);
    assert!(matches!(world.answer(Answer::Approve), Reason::Answered { .. }));
    assert_eq!(world.run(), Reason::StillComplete);
    assert!(matches!(world.stage("a"), Stage::Done(Done::Merged { .. })));
    assert!(world.state.grants.is_empty(), "the approval was consumed");
}

#[test]
fn a_goal_cap_stops_and_allow_grants_one_more_limit() {
    let mut policy = policy(Backend::Scripted);
    policy.limits.cost_goal = Some(UsdMicros(160_000));
    let mut world = World::new(two(), policy);
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["loop:goal_cost_cap"]);
    assert!(matches!(world.answer(Answer::Allow), Reason::Answered { .. }));
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn a_reserve_above_a_whole_cap_is_its_own_question() {
    let mut policy = policy(Backend::Scripted);
    policy.limits.cost_session = UsdMicros(60_000);
    let mut world = World::new(two(), policy);
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["loop:reserve_exceeds_cap"]);
    world.answer(Answer::Allow);
    assert_eq!(world.run(), Reason::Halted, "one more limit's worth is soon spent too");
    assert_eq!(world.holds(), ["loop:session_cost_cap"]);
}

#[test]
fn noop_names_what_it_would_do_and_takes_no_lease() {
    let mut world = World::new(two(), policy(Backend::Noop));
    let reason = world.run();
    assert!(matches!(reason, Reason::Wait { why: WaitWhy::NoopBackend { .. }, .. }), "{reason:?}");
    assert!(world.state.leases.is_empty() && world.state.ledger.entries.is_empty());
}

#[test]
fn refusals_cost_no_attempt_and_hold_only_that_task() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.script = Box::new(|effect, _| match task_of(effect) {
        Some(("a", Job::Work { .. })) => Some(Outcome::Refused { detail: "no such program".into() }),
        _ => None,
    });
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:dispatch_refused"]);
    assert_eq!(world.state.tasks.iter().next().expect("a").counters.attempts, 0);
}

#[test]
fn a_provider_fault_closes_the_route_until_its_reset() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    let until = WallMs(world.wall + 600_000);
    world.script = Box::new(move |effect, _| match task_of(effect) {
        Some((_, Job::Work { .. })) => {
            let class = FailureClass::RateLimited { until: Some(until) };
            Some(Outcome::Failed { class, detail: "limit reached".into() })
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::Wait { why: WaitWhy::Time, until: Some(until) });
    assert_eq!(world.state.tasks.iter().next().expect("a").counters.attempts, 0);
    world.script = Box::new(|_, _| None);
    world.wall += 600_000;
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn a_trunk_is_worked_for_but_not_merged_into() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.branch = "Main";
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["target:merge_onto_trunk"]);
    assert!(matches!(world.stage("a"), Stage::MergeReady(_)));
    world.answer(Answer::Branch);
    assert_eq!(world.state.target.branch.as_ref().map(Branch::as_str), Some("devloop/goal-1"));
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn overlap_refreshes_conflict_reworks_once_then_asks() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    let mut merges = 0;
    world.script = Box::new(move |effect, _| match effect {
        Effect::Merge { .. } => {
            merges += 1;
            let fault = |why| Outcome::NotMerged { why, detail: "x".into(), paths: vec!["a/x".into()] };
            match merges {
                1 => Some(fault(MergeFault::Overlap)),
                2 | 3 => Some(fault(MergeFault::Conflict)),
                _ => None,
            }
        }
        _ => None,
    });
    // Reviews: first, after the refresh, after the rework: two are the default, so give it room.
    world.policy.limits.review_cycles = 9;
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:merge_conflict"]);
    assert_eq!(world.state.tasks.iter().next().expect("a").counters.refreshes, 1);
}

#[test]
fn red_after_the_merge_is_reverted_and_worked_on_again() {
    let mut policy = policy(Backend::Scripted);
    policy.acceptance = Acceptance::Digest(digest(9));
    policy.post_merge = PostMerge::Always;
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy);
    let mut first = true;
    world.script = Box::new(move |effect, _| match effect {
        Effect::Verify { .. } if std::mem::take(&mut first) => {
            Some(Outcome::Checked(CheckOutcome::Red { commands: vec!["test".into()], output: "boom".into() }))
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(world.state.tasks.iter().next().expect("a").counters.attempts, 2);
}

#[test]
fn pause_drains_and_pause_now_cancels() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    while world.state.leases.is_empty() || world.state.tasks.is_empty() {
        world.tick();
    }
    assert_eq!(world.say(Wish::Pause { now: true }), Reason::Paused);
    assert_eq!(world.tick(), Reason::StillPaused);
    assert!(!matches!(world.state.phase, Phase::Active));
    assert_eq!(world.say(Wish::Resume { task: None, reset_cost: false }), Reason::Resumed);
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn replan_replaces_the_task_and_rewrites_who_waits_for_it() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    let mut first = true;
    world.script = Box::new(move |effect, _| match effect {
        Effect::Dispatch { job: Job::Review { contract, head, .. }, .. }
            if contract.task.as_str() == "a" && std::mem::take(&mut first) =>
        {
            Some(verdict(Verdict::Replan, head, "too big"))
        }
        Effect::Dispatch { job: Job::Plan { replaces: Some(_), .. }, .. } => Some(Outcome::Planned {
            tasks: vec![planned("a1", &[], "a/**", Risk::Low), planned("a2", &["a1"], "a/**", Risk::Low)],
        }),
        _ => None,
    });
    assert_eq!(world.run(), Reason::StillComplete);
    assert!(matches!(world.stage("a"), Stage::Dropped { replaced_by } if replaced_by.len() == 2));
    let waits: Vec<String> = world
        .state
        .tasks
        .get(&TaskId::parse("b").expect("id"))
        .expect("b")
        .depends_on
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(waits, ["a1", "a2"]);
}

#[test]
fn an_empty_plan_and_a_bad_plan_ask() {
    let mut world = World::new(Vec::new(), policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["planning:empty_plan"]);
    let cyclic = vec![planned("a", &["b"], "a/**", Risk::Low), planned("b", &["a"], "b/**", Risk::Low)];
    let mut world = World::new(cyclic, policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["planning:plan_attempts"]);
    let open = world.state.open_holds();
    assert!(open[0].1.detail.contains("a -> b -> a"), "{}", open[0].1.detail);
}

#[test]
fn a_reboot_does_not_turn_the_loops_own_time_back() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    while world.state.leases.is_empty() {
        world.tick();
    }
    world.wall += 36_000_000;
    world.tick();
    let before = world.state.progress_at;
    world.boot = 2;
    world.tick();
    assert!(world.state.clock.active >= before, "{:?} after {before:?}", world.state.clock);
    assert_eq!(world.state.clock.awake.boot, 2);
}

#[test]
fn a_checkout_without_a_branch_is_followed_when_it_gets_one() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.branch = "";
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["target:merge_detached_head"]);
    world.branch = "work";
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn a_merge_that_cannot_be_published_asks_after_three_tries_and_says_why() {
    for (why, asks) in
        [(MergeFault::LostSwap, "task/a:base_moved"), (MergeFault::Checkout, "task/a:merge_wedged")]
    {
        let mut world = World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy(Backend::Scripted));
        world.script = Box::new(move |effect, _| match effect {
            Effect::Merge { .. } => {
                Some(Outcome::NotMerged { why, detail: "in the way".into(), paths: vec!["x".into()] })
            }
            _ => None,
        });
        assert_eq!(world.run(), Reason::Halted);
        assert_eq!(world.holds(), [asks]);
        assert_eq!(world.state.open_holds()[0].1.items, ["x"]);
        world.script = Box::new(|_, _| None);
        assert!(matches!(world.answer(Answer::Retry), Reason::Answered { .. }));
        assert_eq!(world.run(), Reason::StillComplete);
    }
}

#[test]
fn a_stop_of_the_loop_is_not_the_tasks_failure() {
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy(Backend::Scripted));
    let mut stops = 8;
    world.script = Box::new(move |effect, _| {
        task_of(effect)?;
        stops -= 1;
        let class = FailureClass::Cancelled;
        (stops >= 0).then(|| Outcome::Failed { class, detail: "the loop was stopped".into() })
    });
    assert_eq!(world.run(), Reason::StillComplete, "{:?}", world.holds());
    let counters = &world.state.tasks.iter().next().expect("a").counters;
    assert_eq!((counters.attempts, counters.review_cycles), (1, 1));
}

#[test]
fn a_target_that_was_deleted_is_not_made_again_without_asking() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    while world.state.tasks.is_empty() {
        world.tick();
    }
    world.tip = 0;
    assert_eq!(world.run_to_halt(), ["target:merge_detached_head"]);
    assert!(world.state.open_holds()[0].1.detail.contains("work is gone"));
    world.tip = 1;
    assert_eq!(world.run(), Reason::StillComplete, "it goes on when the branch is back");
}
