//! Golden traces. `tests/traces/holds` and `tests/traces/circuits`: see `golden/holds.rs`. Here: for every
//! reason one recorded decision, `tests/traces/<key>.json`, that must be decided
//! again exactly so. `DEVLOOP_BLESS=1 cargo test -p devloop-wire --test golden` records them anew; they are
//! read in review.

#[path = "golden/holds.rs"]
mod holds;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use devloop_core::apply::apply_line;
use devloop_core::decide::{Decision, Input, decide};
use devloop_core::observation::{GoalSeen, Observation};
use devloop_core::policy::{Backend, Policy};
use devloop_core::reason::Reason;
use devloop_core::state::LoopState;
use devloop_testkit::random::Inputs;
use devloop_testkit::world::{World, digest, policy, two};
use serde::{Deserialize, Serialize};

/// One recorded decision.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Golden {
    policy: Policy,
    state: LoopState,
    input: Input,
    decision: Decision,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces")
}

/// Keeps the smallest recording of every key: the easiest one to read.
#[derive(Default)]
struct Recorder(BTreeMap<&'static str, String>);

impl Recorder {
    fn take(&mut self, policy: &Policy, state: &LoopState, input: &Input) -> Decision {
        let decision = decide(state, policy, input);
        let golden = Golden {
            policy: policy.clone(),
            state: state.clone(),
            input: input.clone(),
            decision: decision.clone(),
        };
        let text = serde_json::to_string_pretty(&golden).expect("a recording is JSON");
        let key = decision.reason.key();
        if self.0.get(key).is_none_or(|kept| text.len() < kept.len()) {
            self.0.insert(key, text);
        }
        decision
    }
}

/// Random walks, and two nights of a tiny world for the reasons that a random walk seldom meets.
fn record() -> Recorder {
    let mut recorder = Recorder::default();
    for seed in 0..60 {
        let mut inputs = Inputs::new(seed);
        let policy = inputs.policy();
        let mut state = LoopState::default();
        for _ in 0..150 {
            let input = inputs.next(&state);
            let decision = recorder.take(&policy, &state, &input);
            apply_line_if_any(&mut state, &decision);
        }
    }
    for backend in [Backend::Noop, Backend::Scripted] {
        let mut world = World::new(two(), policy(backend));
        for _ in 0..20 {
            let input = Input::Observation(world.observe());
            recorder.take(&world.policy, &world.state, &input);
            world.tick();
        }
    }
    edited_and_undone(&mut recorder);
    recorder
}

/// Somebody edits the goal's text and takes it back.
fn edited_and_undone(recorder: &mut Recorder) {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.tick();
    let original = world.observe();
    let edited = Observation { goal: GoalSeen::Present(digest(8)), ..original.clone() };
    for seen in [edited, original] {
        for _ in 0..4 {
            let decision = recorder.take(&world.policy, &world.state, &Input::Observation(seen.clone()));
            apply_line_if_any(&mut world.state, &decision);
        }
    }
}

fn apply_line_if_any(state: &mut LoopState, decision: &Decision) {
    if !decision.events.is_empty() {
        apply_line(state, &decision.events).expect("a decision folds");
    }
}

#[test]
fn every_reason_has_a_recorded_trace_that_is_decided_again_exactly_so() {
    if std::env::var_os("DEVLOOP_BLESS").is_some() {
        fs::create_dir_all(folder()).expect("the folder of the traces");
        for (key, text) in record().0 {
            fs::write(folder().join(format!("{key}.json")), text + "\n").expect("a trace is written");
        }
    }
    let mut unknown: Vec<String> = fs::read_dir(folder())
        .expect("tests/traces is there")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".json"))
        .collect();
    for key in Reason::KEYS {
        let name = format!("{key}.json");
        unknown.retain(|found| *found != name);
        let text = fs::read_to_string(folder().join(&name)).unwrap_or_else(|_| panic!("no trace for {key}"));
        let golden: Golden = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let again = decide(&golden.state, &golden.policy, &golden.input);
        assert_eq!(again, golden.decision, "{name}");
        assert_eq!(again.reason.key(), key);
        assert!(again.reason.sentence().ends_with('.'), "{key}: {}", again.reason.sentence());
    }
    assert!(unknown.is_empty(), "traces of no reason: {unknown:?}");
}

#[test]
fn no_reason_is_missing_from_the_list() {
    for key in record().0.keys() {
        assert!(Reason::KEYS.contains(key), "{key} is in no list");
    }
}
