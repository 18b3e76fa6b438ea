//! Under the recorded policy every night is reproduced exactly, line by line, by drawing alone.

use devloop_core::answer::Answer;
use devloop_core::command::{TaskEdit, Wish};
use devloop_core::effect::{Effect, Job};
use devloop_core::ids::DispatchId;
use devloop_core::policy::{Acceptance, Backend, PostMerge};
use devloop_core::reason::Reason;
use devloop_core::report::{CheckOutcome, FailureClass, MergeFault, Outcome, Report, Usage, UsageSource};
use devloop_core::review::Verdict;
use devloop_core::tier::Risk;
use devloop_core::units::{Tokens, UsdMicros, WallMs};
use devloop_testkit::night::Night;
use devloop_testkit::world::{World, digest, planned, policy, task_of, two, verdict};
use devloop_whatif::{Figures, WhatIf, lines_of, what_if};

fn again(night: &Night) -> WhatIf {
    what_if(lines_of(&night.trace()), b"{}").expect("an answer")
}

/// Exactly the same night, and nothing left open by the rule.
fn same(night: &Night) -> WhatIf {
    let found = again(night);
    assert_eq!(found.parting, None, "{found:#?}");
    assert_eq!(found.control, None);
    assert_eq!(found.what_if, found.recorded);
    assert_eq!(
        (found.drawn.peers, &found.drawn.unknown, &found.unfit, found.cut),
        (0, &vec![], &vec![], false)
    );
    assert!(found.from_the_start);
    by_its_own_clock(night, &found.recorded);
    found
}

/// A longer deadline that nothing meets differs from the first dispatch on, so that events drive the clock:
/// the night is the same all the same.
fn by_its_own_clock(night: &Night, recorded: &Figures) {
    let longer = br#"{"budget":{"taskTimeoutMinutes":46}}"#;
    let found = what_if(lines_of(&night.trace()), longer).expect("an answer");
    assert!(found.parting.as_ref().is_none_or(|parting| parting.recorded == parting.what_if), "{found:#?}");
    assert_eq!((found.drawn.peers, &found.drawn.unknown, &found.unfit), (0, &vec![], &vec![]));
    // A timer fires at its moment, where the loop had noticed it at its next look.
    assert!(found.what_if.wall_ms.abs_diff(recorded.wall_ms) <= 10_000, "{found:#?}");
    assert_eq!(Figures { wall_ms: recorded.wall_ms, ..found.what_if.clone() }, *recorded, "{found:#?}");
}

fn wide() -> World {
    let plan = ["a", "b", "c", "d"].map(|id| planned(id, &[], &format!("{id}/**"), Risk::Low));
    World::new(plan.to_vec(), policy(Backend::Scripted))
}

fn checked() -> World {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.policy.acceptance = Acceptance::Digest(digest(9));
    world.policy.post_merge = PostMerge::Always;
    world
}

#[test]
fn a_plain_night() {
    let mut night = Night::new(World::new(two(), policy(Backend::Scripted)));
    assert_eq!(night.run(), Reason::StillComplete);
    let found = same(&night);
    let recorded = &found.recorded;
    assert_eq!((recorded.plans, recorded.attempts, recorded.reviews, recorded.merged), (1, 2, 2, 2));
    assert_eq!(recorded.measured_usd_micros, UsdMicros(250_000));
    assert_eq!(
        recorded.wall_ms,
        5 * 60_000 + 4 * 1_000,
        "five dispatches one after the other, four host steps"
    );
    assert_eq!(found.drawn.own, 9);
}

#[test]
fn a_night_with_several_at_once() {
    let mut night = Night::new(wide());
    assert_eq!(night.run(), Reason::StillComplete);
    assert_eq!(same(&night).recorded.merged, 4);
}

#[test]
fn a_night_with_checks_a_red_merge_and_a_revert() {
    let mut world = checked();
    let mut first = true;
    world.script = Box::new(move |effect, _| match effect {
        Effect::Verify { .. } if std::mem::take(&mut first) => {
            let (commands, output) = (vec!["test".into()], "boom".into());
            Some(Outcome::Checked(CheckOutcome::Red { commands, output }))
        }
        _ => None,
    });
    let mut night = Night::new(world);
    assert_eq!(night.run(), Reason::StillComplete);
    same(&night);
}

#[test]
fn a_night_with_a_rework_an_overlap_and_a_conflict() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.policy.limits.review_cycles = 9;
    let (mut reviews, mut merges) = (0, 0);
    world.script = Box::new(move |effect, _| match effect {
        Effect::Dispatch { job: Job::Review { head, .. }, .. } => {
            reviews += 1;
            (reviews == 1).then(|| verdict(Verdict::Rework, head, "better"))
        }
        Effect::Merge { .. } => {
            merges += 1;
            let why = match merges {
                1 => MergeFault::Overlap,
                2 => MergeFault::Conflict,
                3 => MergeFault::LostSwap,
                _ => return None,
            };
            Some(Outcome::NotMerged { why, detail: "x".into(), paths: vec!["a/x".into()] })
        }
        _ => None,
    });
    let mut night = Night::new(world);
    assert_eq!(night.run(), Reason::StillComplete);
    same(&night);
}

#[test]
fn a_night_in_which_the_loop_is_killed_while_models_and_checks_run() {
    let mut world = checked();
    world.plan = wide().plan;
    let mut night = Night::new(world);
    night.took = Box::new(|effect| if matches!(effect, Effect::Dispatch { .. }) { 60_000 } else { 9_000 });
    for beats in [20, 37, 51, 80] {
        for _ in 0..beats {
            night.beat();
        }
        night.kill(90_000);
    }
    assert_eq!(night.run(), Reason::StillComplete);
    let found = same(&night);
    assert!(
        found.recorded.assumed_usd_micros > UsdMicros(0),
        "orphans keep their reserve: {:?}",
        found.recorded
    );
}

/// What a dead loop's dispatch cost, and what nobody knows, is told later.
#[test]
fn a_night_with_usage_that_comes_late() {
    let mut night = Night::new(wide());
    (0..50).for_each(|_| drop(night.beat()));
    let running = *night.world.state.leases.keys().next().expect("something runs");
    night.kill(10_000);
    let usage =
        |micros| Some(Usage::per_dispatch(UsageSource::Result, Tokens::default(), Some(UsdMicros(micros))));
    let late = |dispatch, micros| Report {
        dispatch,
        epoch: 1,
        usage: usage(micros),
        outcome: Outcome::NoResult { detail: String::new() },
    };
    (0..5).for_each(|_| drop(night.beat()));
    night.arrive(5_000, late(running, 70_000));
    night.arrive(9_000, late(DispatchId(900), 30_000));
    assert_eq!(night.run(), Reason::StillComplete);
    let recorded = same(&night).recorded;
    assert_eq!(recorded.measured_usd_micros, UsdMicros(9 * 50_000 + 70_000));
    assert_eq!(recorded.assumed_usd_micros, UsdMicros(2 * 100_000), "three ran, one told what it cost");
}

#[test]
fn a_night_after_a_reboot() {
    let mut night = Night::new(wide());
    (0..50).for_each(|_| drop(night.beat()));
    night.kill(3_600_000);
    night.world.boot = 2;
    assert_eq!(night.run(), Reason::StillComplete);
    same(&night);
}

#[test]
fn a_night_with_pauses() {
    let mut night = Night::new(wide());
    (0..50).for_each(|_| drop(night.beat()));
    assert_eq!(night.say(Wish::Pause { now: false }), Reason::Paused);
    assert_eq!(night.run(), Reason::StillPaused);
    night.world.wall += 600_000;
    assert_eq!(night.say(Wish::Resume { task: None, reset_cost: false }), Reason::Resumed);
    (0..10).for_each(|_| drop(night.beat()));
    assert_eq!(night.say(Wish::Pause { now: true }), Reason::Paused);
    assert_eq!(night.run(), Reason::StillPaused);
    night.world.wall += 600_000;
    assert_eq!(night.say(Wish::Resume { task: None, reset_cost: false }), Reason::Resumed);
    assert_eq!(night.run(), Reason::StillComplete);
    same(&night);
}

#[test]
fn a_night_with_questions_and_answers() {
    let mut world = wide();
    world.plan[0].risk = Risk::High;
    world.policy.limits.cost_goal = Some(UsdMicros(300_000));
    world.script = Box::new(|effect, _| match task_of(effect) {
        Some(("b", Job::Work { .. })) => {
            Some(Outcome::Failed { class: FailureClass::Task, detail: "compile error".into() })
        }
        _ => None,
    });
    let mut night = Night::new(world);
    for _ in 0..8 {
        if night.run() == Reason::StillComplete {
            break;
        }
        night.world.wall += 1_800_000;
        let open = night.world.state.open_holds();
        let (subject, hold) = open.first().expect("a question");
        let key = devloop_core::hold::HoldKey { subject: subject.clone(), kind: hold.kind };
        let answer = match key.to_string().as_str() {
            "loop:goal_cost_cap" => Answer::Allow,
            "task/a:security_high_risk" => Answer::Approve,
            _ => Answer::Drop,
        };
        let revision = Some(hold.revision);
        let said = night.say(Wish::Answer { answer, hold: Some(key), revision });
        assert!(matches!(said, Reason::Answered { .. }), "{said:?}");
    }
    let found = same(&night);
    assert!(found.recorded.questions >= 3, "{:?}", found.recorded);
}

#[test]
fn a_night_with_an_edit_a_replan_and_a_closed_route() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    let until = WallMs(world.wall + 900_000);
    let (mut limited, mut replanned) = (false, false);
    world.script = Box::new(move |effect, _| match effect {
        Effect::Dispatch { job: Job::Work { .. }, .. } if !std::mem::replace(&mut limited, true) => {
            let class = FailureClass::RateLimited { until: Some(until) };
            Some(Outcome::Failed { class, detail: "limit reached".into() })
        }
        Effect::Dispatch { job: Job::Review { contract, head, .. }, .. }
            if contract.task.as_str() == "a" && !std::mem::replace(&mut replanned, true) =>
        {
            Some(verdict(Verdict::Replan, head, "too big"))
        }
        Effect::Dispatch { job: Job::Plan { replaces: Some(_), .. }, .. } => {
            Some(Outcome::Planned { tasks: vec![planned("a1", &[], "a/**", Risk::Low)] })
        }
        _ => None,
    });
    let mut night = Night::new(world);
    (0..60).for_each(|_| drop(night.beat()));
    let edit = TaskEdit { criteria: Some(vec!["it works well".into()]), ..TaskEdit::default() };
    let said = night.say(Wish::Edit { task: devloop_core::ids::TaskId::parse("b").expect("id"), edit });
    assert!(matches!(said, Reason::TaskEdited { .. }), "{said:?}");
    assert_eq!(night.run(), Reason::StillComplete);
    same(&night);
}

#[test]
fn the_target_moves_under_the_loop() {
    let mut night = Night::new(wide());
    for tip in [900, 901, 902] {
        (0..40).for_each(|_| drop(night.beat()));
        night.world.tip = tip;
    }
    assert_eq!(night.run(), Reason::StillComplete);
    same(&night);
}

#[test]
fn a_trunk_that_is_left_for_a_branch() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.branch = "main";
    let mut night = Night::new(world);
    assert_eq!(night.run(), Reason::Halted);
    night.world.wall += 60_000;
    night.say(Wish::Answer { answer: Answer::Branch, hold: None, revision: None });
    assert_eq!(night.run(), Reason::StillComplete);
    same(&night);
}

#[test]
fn a_goal_that_was_put_away_is_still_the_last_night_and_the_next_goal_is_another() {
    let mut night = Night::new(wide());
    assert_eq!(night.run(), Reason::StillComplete);
    let before = same(&night);
    assert_eq!(night.say(Wish::NextGoal), Reason::GoalArchived);
    let after = same(&night);
    assert_eq!((after.recorded, after.covers), (before.recorded, before.covers));
    // The next goal is planned with the same names, which get its number in front.
    assert_eq!(night.run(), Reason::StillComplete);
    let next = same(&night);
    assert_eq!((next.goal, next.recorded.merged, next.recorded.measured_usd_micros.0), (2, 4, 450_000));
    assert!(next.covers.0 > after.covers.1);
}

#[test]
fn a_recording_that_ends_in_the_middle_ends_there_again() {
    for beats in [3, 40, 75, 100, 160] {
        let mut night = Night::new(checked());
        (0..beats).for_each(|_| drop(night.beat()));
        same(&night);
    }
}

#[test]
fn a_recording_that_begins_in_the_middle_is_reproduced_from_there() {
    let mut night = Night::new(wide());
    (0..50).for_each(|_| drop(night.beat()));
    let cut = lines_of(&night.trace()).count();
    night.kill(10_000);
    assert_eq!(night.run(), Reason::StillComplete);
    let text = night.trace();
    let found = what_if(lines_of(&text).skip(cut), b"{}").expect("an answer");
    assert_eq!((found.parting, found.control), (None, None));
    assert_eq!(found.what_if, found.recorded);
    assert!(!found.from_the_start);
}
