//! Other limits, routes, prices and slots lead where they must, with the right numbers, and nothing is ever
//! better than what was recorded.

use devloop_core::answer::Answer;
use devloop_core::command::Wish;
use devloop_core::effect::{Effect, Job};
use devloop_core::hold::Subject;
use devloop_core::ids::TaskId;
use devloop_core::observation::Checkout;
use devloop_core::policy::{Acceptance, Backend};
use devloop_core::reason::Reason;
use devloop_core::report::{CheckOutcome, FailureClass, Outcome, Usage, UsageSource};
use devloop_core::review::Verdict;
use devloop_core::task::Stage;
use devloop_core::tier::Risk;
use devloop_core::units::{Price, Tokens, UsdMicros};
use devloop_testkit::night::Night;
use devloop_testkit::world::{World, digest, key, planned, policy, route, task_of, verdict};
use devloop_whatif::{WhatIf, lines_of, what_if};

const MINUTE: u64 = 60_000;

fn wide() -> World {
    let plan = ["a", "b", "c", "d"].map(|id| planned(id, &[], &format!("{id}/**"), Risk::Low));
    World::new(plan.to_vec(), policy(Backend::Scripted))
}

fn recorded(world: World) -> Night {
    let mut night = Night::new(world);
    night.run();
    night
}

fn under(night: &Night, overlay: &str) -> WhatIf {
    let found = what_if(lines_of(&night.trace()), overlay.as_bytes()).expect(overlay);
    assert_eq!((&found.control, found.cut), (&None, false));
    found
}

#[test]
fn a_lower_goal_cap_stops_earlier_with_the_exact_money() {
    let night = recorded(wide());
    let found = under(&night, r#"{"budget":{"maxCostUsdPerGoal":0.3}}"#);
    assert_eq!(found.recorded.measured_usd_micros, UsdMicros(450_000), "a plan, four works, four reviews");
    // 5 cents for the plan; two reservations of 10 cents fit; each settles at 5 and lets one more start,
    // until
    // 25 cents are spent and no 10 fit.
    let what_if = &found.what_if;
    assert_eq!(what_if.measured_usd_micros, UsdMicros(250_000), "{found:#?}");
    assert_eq!((what_if.assumed_usd_micros, what_if.reserved_usd_micros), (UsdMicros(0), UsdMicros(0)));
    assert_eq!((what_if.questions, what_if.open.as_slice()), (1, &["loop:goal_cost_cap".to_owned()][..]));
    assert_eq!((what_if.attempts + what_if.reviews, what_if.merged), (4, 1), "{found:#?}");
    let parting = found.parting.expect("it differs");
    assert!(parting.revision < found.covers.1 && !parting.fields.is_empty());
    assert_eq!(found.drawn.unknown, Vec::<String>::new());
    assert_eq!(what_if.ended, "Only a person can move the loop.");
}

#[test]
fn a_recorded_answer_to_the_same_question_comes_after_the_same_time() {
    let mut world = wide();
    world.policy.limits.cost_goal = Some(UsdMicros(400_000));
    let mut night = Night::new(world);
    assert_eq!(night.run(), Reason::Halted);
    night.world.wall += 30 * MINUTE;
    night.say(Wish::Answer { answer: Answer::Allow, hold: None, revision: None });
    assert_eq!(night.run(), Reason::StillComplete);
    let found = under(&night, r#"{"budget":{"maxCostUsdPerGoal":0.25}}"#);
    // It trips earlier, is allowed once more as recorded, and then stays: there is no second answer.
    assert_eq!(found.recorded.questions, 1);
    assert_eq!(found.what_if.questions, 1, "{found:#?}");
    assert_eq!(found.what_if.measured_usd_micros, UsdMicros(450_000));
    assert_eq!(found.what_if.ended, "The goal is complete.");
    let twice = under(&night, r#"{"budget":{"maxCostUsdPerGoal":0.15}}"#);
    assert_eq!((twice.what_if.questions, twice.what_if.open.len()), (2, 1), "{twice:#?}");
    assert_eq!(twice.what_if.measured_usd_micros, UsdMicros(250_000));
}

#[test]
fn more_slots_shorten_the_night_and_fewer_lengthen_it() {
    let mut world = wide();
    world.policy.limits.parallel_project = 2;
    let night = recorded(world);
    let walls = |overlay: &str| {
        let found = under(&night, overlay);
        assert_eq!((found.what_if.merged, found.what_if.measured_usd_micros), (4, UsdMicros(450_000)));
        assert_eq!(found.drawn.unknown, Vec::<String>::new());
        (found.recorded.wall_ms / MINUTE, found.what_if.wall_ms / MINUTE)
    };
    // Nine minutes of models: one for the plan, then four pairs.
    assert_eq!(walls(r#"{"budget":{"maxParallelPerProject":2}}"#), (5, 5));
    assert_eq!(walls(r#"{"budget":{"maxParallelPerProject":4}}"#), (5, 3));
    assert_eq!(walls(r#"{"budget":{"maxParallelPerProject":1}}"#), (5, 9));
}

/// Routes with a price, and tokens for every dispatch: 10,000 in and 2,000 out.
fn priced() -> Night {
    let mut world = wide();
    let price =
        Price { input_uncached: 1_000_000, cache_read: 1_000_000, cache_write: 1_000_000, output: 5_000_000 };
    world.policy.routes.values_mut().for_each(|route| route.price = Some(price));
    let mut dear = route(Backend::Scripted, "dear/work");
    dear.price = Some(Price { input_uncached: 10_000_000, output: 50_000_000, ..price });
    world.policy.routes.insert(key("dear"), dear);
    world.policy.limits.cost_goal = Some(UsdMicros(1_000_000));
    let mut night = Night::new(world);
    night.used = Box::new(|effect| {
        let tokens = Tokens { input_uncached: 10_000, output: 2_000, ..Tokens::default() };
        matches!(effect, Effect::Dispatch { .. }).then_some(Usage::per_dispatch(
            UsageSource::Result,
            tokens,
            None,
        ))
    });
    assert_eq!(night.run(), Reason::StillComplete);
    night
}

#[test]
fn a_dearer_price_trips_the_cap() {
    let night = priced();
    let dearer = r#"{"routes":{"work":{"price":{"input":10,"output":50}}}}"#;
    let found = under(&night, dearer);
    assert_eq!(found.recorded.priced_usd_micros, UsdMicros(9 * 20_000));
    // The plan at 2 cents, four works at 20 cents each, reviews at 2: nine dispatches would be 90 cents.
    assert_eq!(found.what_if.priced_usd_micros, UsdMicros(900_000), "{found:#?}");
    assert_eq!(found.what_if.questions, 0);
    let tighter =
        r#"{"routes":{"work":{"price":{"input":10,"output":50}}},"budget":{"maxCostUsdPerGoal":0.5}}"#;
    let found = under(&night, tighter);
    assert_eq!(found.what_if.open, ["loop:goal_cost_cap"]);
    // Beside the plan three works of 10 cents each are admitted and settle at 62 cents.
    assert_eq!(found.what_if.priced_usd_micros, UsdMicros(620_000), "{found:#?}");
    assert_eq!(found.what_if.merged, 0);
}

#[test]
fn another_route_is_repriced_from_the_recorded_tokens() {
    let moved = r#"{"routing":{"T0":"dear","T1":"dear","T2":"dear","T3":"dear"}}"#;
    let found = under(&priced(), moved);
    assert_eq!(found.what_if.priced_usd_micros, UsdMicros(20_000 + 4 * 200_000 + 4 * 20_000), "{found:#?}");
    assert_eq!((found.what_if.merged, found.drawn.unknown.len()), (4, 0));
}

#[test]
fn money_without_tokens_cannot_be_repriced_and_is_assumed() {
    let mut world = wide();
    let mut dear = route(Backend::Scripted, "dear/work");
    dear.price = Some(Price { input_uncached: 1, cache_read: 1, cache_write: 1, output: 1 });
    world.policy.routes.insert(key("dear"), dear);
    let found = under(&recorded(world), r#"{"routing":{"T1":"dear"}}"#);
    let what_if = &found.what_if;
    assert_eq!((what_if.measured_usd_micros, what_if.priced_usd_micros), (UsdMicros(250_000), UsdMicros(0)));
    assert_eq!(what_if.assumed_usd_micros, UsdMicros(4 * 100_000), "the reserve of each work: {found:#?}");
}

#[test]
fn what_was_never_recorded_ends_as_unknown_and_never_as_a_success() {
    let mut world = wide();
    world.script = Box::new(|effect, _| match task_of(effect) {
        Some(("a", Job::Work { .. })) => {
            Some(Outcome::Failed { class: FailureClass::Task, detail: "compile error".into() })
        }
        _ => None,
    });
    world.policy.limits.task_attempts = 1;
    let night = recorded(world);
    let found = under(&night, r#"{"budget":{"maxTaskAttempts":5}}"#);
    let (before, after) = (&found.recorded, &found.what_if);
    assert_eq!((before.merged, before.attempts), (3, 4));
    assert_eq!(before.open, ["task/a:max_task_attempts"]);
    // The second attempt takes the median's time and money and a worker's word; its commit is in no
    // recording.
    assert_eq!((after.merged, after.attempts), (3, 5), "{found:#?}");
    assert_eq!(after.open, ["task/a:parent_commit_failed"]);
    assert_eq!(after.measured_usd_micros.0 - before.measured_usd_micros.0, 50_000);
    assert_eq!((found.drawn.peers, found.drawn.unknown.len()), (1, 1), "{:?}", found.drawn);
    assert!(found.drawn.unknown[0].contains("commit of task/a"));
}

#[test]
fn a_cap_that_is_raised_over_a_night_that_it_ended_shows_the_unknown() {
    let mut world = wide();
    world.policy.limits.cost_goal = Some(UsdMicros(300_000));
    let night = recorded(world);
    let found = under(&night, r#"{"budget":{"maxCostUsdPerGoal":null}}"#);
    assert!(found.what_if.merged <= found.recorded.merged + 1, "{found:#?}");
    assert!(!found.drawn.unknown.is_empty());
    assert!(found.what_if.merged < 4);
}

#[test]
fn a_verdict_belongs_to_the_commit_it_was_given_for() {
    let mut world = wide();
    world.plan.truncate(1);
    let mut first = true;
    world.script = Box::new(move |effect, _| match task_of(effect) {
        Some((_, Job::Review { head, .. })) if std::mem::take(&mut first) => {
            Some(verdict(Verdict::Rework, head, "name it better"))
        }
        _ => None,
    });
    let night = recorded(world);
    // One review only: the commit that was sent back asks, and the pass of the next one is not drawn for it.
    let found = under(&night, r#"{"budget":{"maxReviewCycles":1}}"#);
    assert_eq!((found.recorded.merged, found.what_if.merged), (1, 0));
    assert_eq!(found.what_if.open, ["task/a:max_review_cycles"]);
    assert_eq!(found.what_if.reviews, 1);
}

/// Without its checks a red commit is reviewed, by the verdict of that number; its merge was never recorded.
#[test]
fn a_commit_that_was_never_reviewed_takes_the_verdict_of_that_number_and_is_not_merged() {
    let mut world = wide();
    world.plan.truncate(1);
    world.policy.acceptance = Acceptance::Digest(digest(9));
    let mut first = true;
    world.script = Box::new(move |effect, _| match effect {
        Effect::Check { contract: Some(_), .. } if std::mem::take(&mut first) => {
            let (commands, output) = (vec!["test".into()], "boom".into());
            Some(Outcome::Checked(CheckOutcome::Red { commands, output }))
        }
        _ => None,
    });
    let night = recorded(world);
    let found = under(&night, r#"{"acceptance":[]}"#);
    assert_eq!((found.recorded.merged, found.recorded.attempts), (1, 2));
    assert_eq!(
        (found.what_if.merged, found.what_if.attempts, found.what_if.reviews),
        (0, 1, 1),
        "{found:#?}"
    );
    assert_eq!(found.what_if.open, ["task/a:merge_wedged"]);
    assert_eq!(found.drawn.unknown, ["unknown: the recording has no such merge of task/a"]);
}

/// What a stop ended belongs to the moment of the stop: the same dispatch started earlier meets it too.
#[test]
fn a_stop_ends_what_runs_then_and_not_earlier() {
    let mut world = wide();
    world.plan.truncate(2);
    world.policy.limits.parallel_project = 1;
    let mut night = Night::new(world);
    let b = TaskId::parse("b").expect("id");
    while !night.world.state.leases.values().any(|lease| lease.subject == Subject::Task(b.clone())) {
        night.beat();
    }
    (0..5).for_each(|_| drop(night.beat()));
    night.say(Wish::Pause { now: true });
    night.run();
    night.world.wall += 10 * MINUTE;
    night.say(Wish::Resume { task: None, reset_cost: false });
    assert_eq!(night.run(), Reason::StillComplete);
    let found = under(&night, r#"{"budget":{"maxParallelPerProject":2}}"#);
    assert_eq!((found.what_if.merged, &found.unfit), (2, &vec![]), "{found:#?}");
    let (before, after) = (found.recorded.wall_ms, found.what_if.wall_ms);
    assert!(after > 10 * MINUTE && after < before, "both end after the pause: {found:#?}");
    assert_eq!(found.drawn.unknown, Vec::<String>::new(), "what a stop cut short is drawn again");
}

/// The recorded loop had nothing to record while it waited; the other one asks in the middle of it.
#[test]
fn a_moment_between_two_recorded_looks_counts_when_only_the_other_policy_acts() {
    let mut world = wide();
    world.plan.truncate(1);
    let mut night = Night::new(world);
    night.checkout = Checkout::Dirty { paths: vec!["README.md".into()] };
    while night.world.state.tasks.is_empty() || !matches!(night.world.stage("a"), Stage::MergeReady(_)) {
        night.beat();
    }
    let ready = night.world.wall;
    while night.world.wall < ready + 5 * MINUTE {
        night.beat();
    }
    night.checkout = Checkout::Free;
    assert_eq!(night.run(), Reason::StillComplete);
    let found = under(&night, r#"{"budget":{"noProgressMinutes":2}}"#);
    assert_eq!((found.recorded.questions, found.what_if.questions), (0, 1), "{found:#?}");
    // It is withdrawn when the checkout is free again, as recorded.
    assert_eq!((found.what_if.merged, found.what_if.wall_ms), (1, found.recorded.wall_ms));
    let longer = under(&night, r#"{"budget":{"noProgressMinutes":6}}"#);
    assert_eq!((longer.parting, longer.what_if), (None, longer.recorded));
}

/// A command line that knows the limits only decides on commands with routes of its own.
#[test]
fn a_command_of_another_process_keeps_the_policy_of_that_process() {
    let mut world = wide();
    world.policy.limits.cost_goal = Some(UsdMicros(400_000));
    let mut night = Night::new(world);
    assert_eq!(night.run(), Reason::Halted);
    night.desk = Some(devloop_wire::config_doc::Config::default().policy());
    night.world.wall += MINUTE;
    night.say(Wish::Answer { answer: Answer::Allow, hold: None, revision: None });
    assert_eq!(night.run(), Reason::StillComplete);
    let same = under(&night, "{}");
    assert_eq!((same.parting, same.what_if), (None, same.recorded));
    let found = under(&night, r#"{"routing":{"T1":"plan"}}"#);
    assert_eq!((found.recorded.merged, found.what_if.merged), (4, 4), "{found:#?}");
    let error =
        what_if(lines_of(&night.trace()), br#"{"routing":{"T1":"nobody"}}"#).expect_err("no such route");
    assert!(error.of_the_policy && error.what.contains("nobody"), "{error}");
}

#[test]
fn a_refused_dispatch_is_no_attempt() {
    let mut world = wide();
    let mut first = true;
    world.script = Box::new(move |effect, _| match task_of(effect) {
        Some(("a", Job::Work { .. })) if std::mem::take(&mut first) => {
            Some(Outcome::Refused { detail: "no binary".into() })
        }
        _ => None,
    });
    let found = under(&recorded(world), "{}");
    assert_eq!((found.recorded.attempts, found.recorded.merged), (4, 4));
    assert_eq!(found.what_if, found.recorded);
}

#[test]
fn other_checks_were_never_run() {
    let mut world = wide();
    world.policy.acceptance = Acceptance::Digest(digest(9));
    let found = under(&recorded(world), r#"{"acceptance":[["make","test"]]}"#);
    assert_eq!((found.recorded.merged, found.what_if.merged), (4, 0));
    assert!(found.drawn.unknown.iter().all(|unknown| unknown.contains("check of")), "{:?}", found.drawn);
    assert!(found.what_if.open.contains(&"target:checks_red_at_base".to_owned()), "{:?}", found.what_if.open);
}

#[test]
fn a_shorter_deadline_ends_what_took_longer() {
    let mut night = Night::new(wide());
    night.took = Box::new(|effect| match task_of(effect) {
        Some(("a", Job::Work { .. })) => 10 * MINUTE,
        _ => MINUTE,
    });
    assert_eq!(night.run(), Reason::StillComplete);
    let found = under(&night, r#"{"budget":{"taskTimeoutMinutes":5,"maxTaskAttempts":1}}"#);
    assert_eq!((found.recorded.merged, found.what_if.merged), (4, 3), "{found:#?}");
    assert_eq!(found.what_if.open, ["task/a:backend_failed"]);
    assert_eq!(found.what_if.assumed_usd_micros, UsdMicros(100_000), "what it cost until then is unknown");
}

#[test]
fn leave_before_the_work_is_asked_for_and_never_given_unrecorded() {
    let mut world = wide();
    world.plan[0].risk = Risk::High;
    let mut night = Night::new(world);
    assert_eq!(night.run(), Reason::Halted);
    night.say(Wish::Answer { answer: Answer::Approve, hold: None, revision: None });
    assert_eq!(night.run(), Reason::StillComplete);
    let found = under(&night, r#"{"highRisk":"hold_before_work"}"#);
    let a = TaskId::parse("a").expect("id");
    // The recorded approval answers the first time it is asked, before the work; the second time nobody does.
    assert_eq!(found.what_if.questions, 2, "{found:#?}");
    assert_eq!(found.what_if.stages[&a], "held");
}

#[test]
fn a_recording_or_a_policy_file_that_cannot_be_used_is_refused_with_a_sentence() {
    let night = recorded(wide());
    let text = night.trace();
    let refused = |lines: &[u8], overlay: &str| {
        what_if(lines_of(lines), overlay.as_bytes()).expect_err("refused").to_string()
    };
    assert_eq!(refused(b"", "{}"), "the trace holds nothing that could be decided again");
    assert!(refused(&text, r#"{"budgt":{}}"#).contains("did you mean budget?"));
    assert!(refused(&text.replace(b"\"lease_taken\"", b"\"lease_token\""), "{}").starts_with("line "));
    let headless: Vec<u8> = text.split_inclusive(|b| *b == b'\n').skip(1).flatten().copied().collect();
    assert_eq!(refused(&headless, "{}"), "the trace holds nothing that could be decided again");
}

trait Replace {
    fn replace(&self, from: &[u8], to: &[u8]) -> Vec<u8>;
}

impl Replace for Vec<u8> {
    fn replace(&self, from: &[u8], to: &[u8]) -> Vec<u8> {
        let text = String::from_utf8(self.clone()).expect("JSON");
        let (from, to) = (std::str::from_utf8(from).expect("text"), std::str::from_utf8(to).expect("text"));
        assert!(text.contains(from));
        text.replacen(from, to, 1).into_bytes()
    }
}
