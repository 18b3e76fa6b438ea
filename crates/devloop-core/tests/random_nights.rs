//! Random nights: outcomes, faults and operators drawn from a seed. After every step the invariants hold,
//! every offered answer is an accepted answer, money keeps below its caps, and no night ends without a
//! reason.

use devloop_core::answer::Answer;
use devloop_core::apply::apply_line;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Input, decide};
use devloop_core::effect::{Effect, Job};
use devloop_core::hold::HoldKey;
use devloop_core::policy::{Acceptance, Backend, Policy, PostMerge};
use devloop_core::question::open_questions;
use devloop_core::reason::{Reason, WaitWhy};
use devloop_core::report::{CheckOutcome, CommitFault, FailureClass, MergeFault, Outcome};
use devloop_core::review::Verdict;
use devloop_core::state::Phase;
use devloop_core::tier::Risk;
use devloop_core::units::{UsdMicros, WallMs};
use devloop_testkit::random::Random;
use devloop_testkit::world::{World, digest, oid, planned, policy, verdict};

const SEEDS: u64 = 400;
const STEPS: u64 = 60;

fn plan(random: &mut Random) -> Vec<devloop_core::plan::PlannedTask> {
    let count = random.below(5);
    (0..count)
        .map(|i| {
            let id = format!("t{i}");
            let dependency = format!("t{}", random.below(count));
            let deps: Vec<&str> =
                if random.chance(40) && dependency != id { vec![&dependency] } else { vec![] };
            let paths = format!("dir{}/**", random.below(3));
            let risk = if random.chance(15) { Risk::High } else { Risk::Low };
            planned(&id, &deps, &paths, risk)
        })
        .collect()
}

fn rules(random: &mut Random) -> Policy {
    let mut policy = policy(Backend::Scripted);
    if random.chance(50) {
        policy.acceptance = Acceptance::Digest(digest(random.below(3)));
    }
    if random.chance(30) {
        policy.post_merge = PostMerge::Always;
    }
    if random.chance(30) {
        policy.limits.cost_goal = Some(UsdMicros(random.below(800_000)));
    }
    if random.chance(30) {
        policy.limits.cost_task = Some(UsdMicros(random.below(400_000)));
    }
    policy.limits.parallel_project = 1 + u32::try_from(random.below(3)).expect("small");
    policy
}

fn model_fault(random: &mut Random, wall: u64) -> Outcome {
    let detail = String::from("it went wrong");
    let class = match random.below(9) {
        0 => FailureClass::Task,
        1 => FailureClass::Deadline,
        2 => FailureClass::Cancelled,
        3 => FailureClass::OutOfCredit,
        4 => FailureClass::RateLimited { until: Some(WallMs(wall + random.below(200_000_000))) },
        5 => FailureClass::LoginExpired,
        6 => FailureClass::Overloaded,
        7 => FailureClass::NetworkDown,
        _ => FailureClass::Machine,
    };
    match random.below(4) {
        0 => Outcome::Refused { detail },
        1 => Outcome::NoResult { detail },
        2 => Outcome::InvalidResult { detail },
        _ => Outcome::Failed { class, detail },
    }
}

fn merge_fault(random: &mut Random) -> Outcome {
    let why = random.pick(&[
        MergeFault::Conflict,
        MergeFault::Overlap,
        MergeFault::LostSwap,
        MergeFault::CandidateRed,
        MergeFault::ChecksUnavailable,
        MergeFault::Checkout,
        MergeFault::Rewound,
        MergeFault::BuriedMerge,
        MergeFault::UnknownCommit,
        MergeFault::Git,
    ]);
    Outcome::NotMerged { why, detail: "x".into(), paths: vec!["p".into()] }
}

fn outcome(random: &mut Random, effect: &Effect, wall: u64) -> Option<Outcome> {
    if random.chance(55) {
        return None;
    }
    let text = || String::from("notes");
    Some(match effect {
        Effect::Dispatch { job: Job::Work { .. }, .. } => match random.below(4) {
            0 => Outcome::WorkBlocked { summary: text() },
            1 => Outcome::WorkFailed { summary: text() },
            _ => model_fault(random, wall),
        },
        Effect::Dispatch { job: Job::Review { head, .. }, .. } => match random.below(6) {
            0 => verdict(Verdict::Rework, head, "mend"),
            1 => verdict(Verdict::Replan, head, "too big"),
            2 => verdict(Verdict::Blocked, head, "cannot tell"),
            3 => verdict(Verdict::Pass, &oid(9), "another commit"),
            _ => model_fault(random, wall),
        },
        Effect::Dispatch { job: Job::Plan { .. }, .. } => model_fault(random, wall),
        Effect::Commit { .. } => match random.below(3) {
            0 => Outcome::CommitEmpty,
            1 => Outcome::CommitRefused {
                why: random.pick(&[
                    CommitFault::Scope,
                    CommitFault::Secret,
                    CommitFault::Late,
                    CommitFault::Git,
                ]),
                detail: text(),
                paths: vec!["x".into()],
            },
            _ => model_fault(random, wall),
        },
        Effect::Check { .. } | Effect::Verify { .. } => match random.below(2) {
            0 => Outcome::Checked(CheckOutcome::Red { commands: vec!["t".into()], output: text() }),
            _ => Outcome::Checked(CheckOutcome::Unavailable { detail: text() }),
        },
        _ => merge_fault(random),
    })
}

/// Every answer a question lists is accepted in that very state, and changes it.
fn offered_is_accepted(world: &World) {
    let stamp = world.stamp();
    for question in open_questions(&world.state, &world.policy, stamp.owner.instance) {
        assert!(!question.answers.is_empty(), "{} has no answer", question.key);
        for offer in &question.answers {
            let wish = Wish::Answer {
                answer: offer.answer,
                hold: Some(question.key.clone()),
                revision: Some(question.revision),
            };
            let command = Command { by: "test".into(), wish };
            let input = Input::Command { stamp: stamp.clone(), command };
            let decision = decide(&world.state, &world.policy, &input);
            assert!(
                matches!(decision.reason, Reason::Answered { .. }),
                "{}: {:?}",
                question.key,
                decision.reason
            );
            let mut copy = world.state.clone();
            apply_line(&mut copy, &decision.events).expect("an answer folds");
            devloop_core::invariant::check(&copy).expect("an answer keeps the invariants");
            let gone = offer.answer == Answer::Stop || copy.hold(&question.key).is_none();
            assert!(gone, "{} stays after {:?}", question.key, offer.answer);
        }
    }
}

/// What is committed to a goal is above its cap by no more than the overruns of what was measured.
fn money_keeps_below_its_cap(world: &World) {
    let Some(limit) = world.policy.limits.cost_goal else { return };
    let granted = devloop_core::circuit::grants(&world.state, devloop_core::hold::HoldKind::GoalCostCap, 4);
    let spend = world.state.ledger.goal(world.state.goal.number);
    // The world's workers cost less than they reserve, so there is no overrun at all.
    let cap = UsdMicros(limit.0 * (1 + granted));
    assert!(spend.committed() <= cap, "{spend:?} above {cap:?}");
}

fn operate(world: &mut World, random: &mut Random) {
    let open = open_questions(&world.state, &world.policy, 4);
    if open.is_empty() || random.chance(20) {
        let wish = match random.below(4) {
            0 => Wish::Pause { now: random.chance(50) },
            1 => Wish::NextGoal,
            _ => Wish::Resume { task: None, reset_cost: random.chance(20) },
        };
        world.say(wish);
        return;
    }
    let question = random.pick(&open);
    let answer = random.pick(&question.answers).answer;
    let hold: Option<HoldKey> = Some(question.key.clone());
    world.say(Wish::Answer { answer, hold, revision: Some(question.revision) });
}

fn night(seed: u64) {
    let mut random = Random::new(seed);
    let rules = rules(&mut random);
    let mut world = World::new(plan(&mut random), rules);
    let mut inner = random.clone();
    let wall = world.wall;
    world.script = Box::new(move |effect, _| outcome(&mut inner, effect, wall));
    for step in 0..STEPS {
        world.wall += random.below(400_000);
        let reason = world.tick();
        offered_is_accepted(&world);
        money_keeps_below_its_cap(&world);
        match &reason {
            Reason::Halted => {
                assert!(
                    !world.state.open_holds().is_empty(),
                    "seed {seed} step {step}: a halt without a question"
                );
                operate(&mut world, &mut random);
            }
            Reason::StillPaused | Reason::StillComplete => operate(&mut world, &mut random),
            Reason::Wait { why: WaitWhy::Lease, .. } => {
                assert!(!world.state.leases.is_empty(), "seed {seed} step {step}: waits for no lease");
                if random.chance(10) {
                    operate(&mut world, &mut random);
                }
            }
            Reason::Wait { why: WaitWhy::Time, until } => {
                let until =
                    until.unwrap_or_else(|| panic!("seed {seed} step {step}: a wait without its moment"));
                world.wall = world.wall.max(until.0);
            }
            other => panic!("seed {seed} step {step}: {other:?}"),
        }
        let paused_with_work = matches!(world.state.phase, Phase::Paused { .. });
        assert!(paused_with_work || world.state.revision > 0);
    }
}

#[test]
fn random_nights_keep_every_promise() {
    (0..SEEDS).for_each(night);
}
