//! Seeded nights with every kind of trouble: each is reproduced exactly by drawing, and under any other
//! policy nothing is merged that was not.

use devloop_core::command::Wish;
use devloop_core::effect::{Effect, Job};
use devloop_core::policy::{Acceptance, Backend, PostMerge};
use devloop_core::question::open_questions;
use devloop_core::reason::Reason;
use devloop_core::report::{
    CheckOutcome, CommitFault, FailureClass, MergeFault, Outcome, Usage, UsageSource,
};
use devloop_core::review::Verdict;
use devloop_core::tier::Risk;
use devloop_core::units::{Tokens, UsdMicros, WallMs};
use devloop_testkit::night::Night;
use devloop_testkit::random::Random;
use devloop_testkit::world::{World, digest, planned, policy, verdict};
use devloop_whatif::{lines_of, what_if};

const SEEDS: u64 = 24;
const OVERLAYS: [&str; 6] = [
    r#"{"budget":{"maxCostUsdPerGoal":0.4}}"#,
    r#"{"budget":{"maxParallelPerProject":1,"maxTaskAttempts":9,"maxReviewCycles":9}}"#,
    r#"{"budget":{"maxParallelPerProject":9,"maxSameAction":9,"maxRefreshes":9,"maxOrphans":9}}"#,
    r#"{"budget":{"taskTimeoutMinutes":1}}"#,
    r#"{"postMerge":"never","acceptance":[],"highRisk":"hold_before_work"}"#,
    r#"{"routes":{"work":{"price":{"input":1,"output":9}}},"budget":{"maxCostUsdPerTask":0.1}}"#,
];

/// What goes wrong, now and then.
fn trouble(random: &mut Random, effect: &Effect, wall: u64) -> Option<Outcome> {
    if !random.chance(25) {
        return None;
    }
    let detail = || "so it was".to_owned();
    let failed = |class| Some(Outcome::Failed { class, detail: "so it was".into() });
    let red = || CheckOutcome::Red { commands: vec!["test".into()], output: "boom".into() };
    match effect {
        Effect::Dispatch { job: Job::Review { head, .. }, .. } => {
            let word =
                random.pick(&[Verdict::Rework, Verdict::Replan, Verdict::Blocked, Verdict::PassWithNotes]);
            Some(verdict(word, head, "notes"))
        }
        Effect::Dispatch { .. } => match random.below(7) {
            0 => failed(FailureClass::Task),
            1 => failed(FailureClass::RateLimited { until: Some(WallMs(wall + 600_000)) }),
            2 => failed(FailureClass::LoginExpired),
            3 => failed(FailureClass::Overloaded),
            4 => Some(Outcome::Refused { detail: detail() }),
            5 => Some(Outcome::NoResult { detail: detail() }),
            _ => Some(Outcome::WorkBlocked { summary: detail() }),
        },
        Effect::Commit { .. } => match random.below(3) {
            0 => Some(Outcome::CommitEmpty),
            1 => failed(FailureClass::Machine),
            _ => Some(Outcome::CommitRefused { why: CommitFault::Scope, detail: detail(), paths: vec![] }),
        },
        Effect::Check { .. } | Effect::Verify { .. } => match random.below(3) {
            0 => Some(Outcome::Checked(CheckOutcome::Unavailable { detail: detail() })),
            _ => Some(Outcome::Checked(red())),
        },
        Effect::Merge { .. } | Effect::Refresh { .. } => {
            let all =
                [MergeFault::Overlap, MergeFault::Conflict, MergeFault::LostSwap, MergeFault::CandidateRed];
            Some(Outcome::NotMerged { why: random.pick(&all), detail: detail(), paths: vec![] })
        }
        _ => None,
    }
}

fn night(seed: u64) -> Night {
    let mut random = Random::new(seed);
    let plan = ["a", "b", "c", "d", "e"].map(|id| {
        let risk = if random.chance(15) { Risk::High } else { Risk::Low };
        let waits: &[&str] = if id > "b" && random.chance(40) { &["a"] } else { &[] };
        planned(id, waits, &format!("{id}/**"), risk)
    });
    let mut world = World::new(plan.to_vec(), policy(Backend::Scripted));
    if random.chance(70) {
        world.policy.acceptance = Acceptance::Digest(digest(9));
        world.policy.post_merge = random.pick(&[PostMerge::Always, PostMerge::Never]);
    }
    world.policy.limits.parallel_project = 1 + u32::try_from(random.below(4)).expect("small");
    if random.chance(50) {
        world.policy.limits.cost_goal = Some(UsdMicros(300_000 + random.below(900_000)));
    }
    let (mut troubles, wall) = (Random::new(seed + 1_000), world.wall);
    world.script = Box::new(move |effect, _| trouble(&mut troubles, effect, wall));
    let mut night = Night::new(world);
    let mut times = Random::new(seed + 2_000);
    night.took = Box::new(move |effect| match effect {
        Effect::Dispatch { .. } => 5_000 + times.below(300_000),
        _ => 100 + times.below(9_000),
    });
    let mut usages = Random::new(seed + 3_000);
    night.used = Box::new(move |effect| {
        let tokens =
            Tokens { input_uncached: usages.below(9_000), output: usages.below(900), ..Tokens::default() };
        let cost = usages.chance(60).then(|| UsdMicros(usages.below(90_000)));
        (matches!(effect, Effect::Dispatch { .. }) && usages.chance(80)).then_some(Usage::per_dispatch(
            UsageSource::Result,
            tokens,
            cost,
        ))
    });
    live(&mut night, &mut random);
    night
}

/// Beats, kills, pauses and answers, as they come.
fn live(night: &mut Night, random: &mut Random) {
    for _ in 0..40 {
        for _ in 0..random.below(60) {
            night.beat();
        }
        match random.below(8) {
            0 => night.kill(random.below(200_000)),
            1 => drop(night.say(Wish::Pause { now: random.chance(50) })),
            2 => drop(night.say(Wish::Resume { task: None, reset_cost: random.chance(20) })),
            3 => night.world.tip = 5_000 + random.below(1_000),
            _ => answer(night, random),
        }
    }
}

fn answer(night: &mut Night, random: &mut Random) {
    let asked = open_questions(&night.world.state, &night.world.policy, 4);
    let open: Vec<_> = asked.iter().filter(|question| !question.answers.is_empty()).collect();
    if open.is_empty() {
        return;
    }
    let question = random.pick(&open);
    let answer = random.pick(&question.answers).answer;
    let hold = Some(question.key.clone()).filter(|_| open.len() > 1 || random.chance(50));
    night.world.wall += random.below(900_000);
    let said = night.say(Wish::Answer { answer, hold, revision: None });
    assert!(!matches!(said, Reason::Refused(_)), "{said:?}");
}

#[test]
fn every_night_comes_out_of_the_drawing_again() {
    let (mut merged, mut questions) = (0, 0);
    for seed in 0..SEEDS {
        let night = night(seed);
        let found = what_if(lines_of(&night.trace()), b"{}").expect("an answer");
        assert_eq!(found.parting, None, "seed {seed}");
        assert_eq!((found.control, found.cut), (None, false), "seed {seed}");
        assert_eq!(found.what_if, found.recorded, "seed {seed}");
        assert_eq!((found.drawn.peers, found.drawn.unknown.len()), (0, 0), "seed {seed}");
        assert!(found.unfit.is_empty(), "seed {seed}: {:?}", found.unfit);
        merged += found.recorded.merged;
        questions += found.recorded.questions;
    }
    assert!(merged > 24 && questions > 40, "the nights are worth it: {merged} merged, {questions} asked");
}

/// Whatever the policy: it ends, it is the same twice, and a task is merged only if it was.
#[test]
fn no_policy_invents_a_merge() {
    let mut unknown = 0;
    for seed in 0..SEEDS / 3 {
        let trace = night(seed).trace();
        for overlay in OVERLAYS {
            let ask = || what_if(lines_of(&trace), overlay.as_bytes()).expect("an answer");
            let found = ask();
            assert_eq!((&found.control, found.cut), (&None, false), "seed {seed} {overlay}");
            assert_eq!(found, ask(), "seed {seed} {overlay}");
            unknown += found.drawn.unknown.len();
            for (task, stage) in &found.what_if.stages {
                let recorded = found.recorded.stages.get(task).map(String::as_str);
                let was = format!("\"merged\":{{\"task\":\"{task}\"");
                let ever = recorded == Some("merged") || String::from_utf8_lossy(&trace).contains(&was);
                assert!(stage != "merged" || ever, "seed {seed} {overlay}: {task} is {recorded:?}");
            }
        }
    }
    assert!(unknown > 0, "some nights go where nothing was recorded");
}
