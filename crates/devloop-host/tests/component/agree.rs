//! Native and component give the same bytes, whatever happens to the instance in between.

use devloop_bridge::Step;
use devloop_core::decide::Input;
use devloop_core::event::Event;
use devloop_core::task::MAX_TEXT;
use devloop_core::units::{ActiveMs, AwakeMs, Day, MAX_NUMBER, UsdMicros, WallMs};
use devloop_host::machine::{Component, Machine, Native};
use devloop_testkit::corpus::recordings;
use devloop_testkit::random::{Inputs, Random};

use super::fresh_state;
use super::run::{bytes, lines, native, steps, tick};

const SEEDS: u64 = 10;
const INPUTS_PER_SEED: usize = 100;

fn policy_of(inputs: &mut Inputs) -> Vec<u8> {
    devloop_wire::policy_doc::policy_bytes(&inputs.policy())
}

#[test]
fn native_and_component_agree_byte_for_byte_on_a_thousand_random_inputs() {
    let mut component = Component::embedded().expect("the embedded image loads");
    let mut reasons = std::collections::BTreeSet::new();
    let mut merged = 0;
    for seed in 0..SEEDS {
        let mut inputs = Inputs::new(seed);
        let policy = policy_of(&mut inputs);
        let mut native = native(&fresh_state(), &policy);
        component.open(&fresh_state(), &policy).expect("opens");
        let mut dice = Random::new(seed);
        for _ in 0..INPUTS_PER_SEED {
            let input = inputs.next(state_of(&native));
            let expected = tick(&mut native, &input);
            let found = tick(&mut component, &input);
            assert_eq!(bytes(&found), bytes(&expected), "seed {seed}, {input:?}");
            reasons.extend(found.iter().map(|decision| decision.reason.key()));
            merged += lines(&found).iter().flatten().filter(|e| matches!(e, Event::Merged { .. })).count();
            let machines: [&mut dyn Machine; 2] = [&mut native, &mut component];
            let forget = dice.chance(10);
            for machine in machines {
                if forget { machine.discard() } else { machine.commit() }.expect("adopts or forgets");
            }
            agree(&mut native, &mut component);
        }
    }
    // The comparison is worth something only if the loops got somewhere.
    assert!(reasons.len() >= 15, "only these reasons came up: {reasons:?}");
    assert!(merged >= 10, "only {merged} merges in {} inputs", SEEDS as usize * INPUTS_PER_SEED);
}

/// Random runs, runs with hostile values, golden traces and refusals: the recordings that the addon and the
/// page are compared with too.
#[test]
fn the_component_decides_the_corpus_exactly_so() {
    let traces = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces");
    let mut component = Component::embedded().expect("the embedded image loads");
    for recording in recordings(&traces).expect("the golden traces are there") {
        let (name, state, policy) = (&recording.name, &recording.state, &recording.policy);
        let opened = component.open(state.as_bytes(), policy.as_bytes()).map_err(|error| error.to_string());
        match (&recording.refused, opened) {
            (None, Ok(())) => {}
            (Some(refused), Err(said)) if said.ends_with(refused) => continue,
            (expected, found) => panic!("{name}: {found:?} instead of {expected:?}"),
        }
        for (at, step) in recording.steps.iter().enumerate() {
            if let Ok(input) = serde_json::from_str::<Input>(&step.input) {
                let decision = component.decide(&input).expect("decides");
                component.commit().expect("adopts");
                let decision = String::from_utf8(devloop_wire::canonical(&decision)).ok();
                assert_eq!(decision, step.decision, "{name}, step {at}");
            }
            assert_eq!(component.digest().ok().as_ref(), Some(&step.digest), "{name}, step {at}");
        }
    }
}

/// The state of the native machine, which the next input is made for.
fn state_of(native: &Native) -> &devloop_core::state::LoopState {
    native.session().expect("it is open").state()
}

fn agree(native: &mut Native, component: &mut Component) {
    assert_eq!(component.save(), native.save());
    assert_eq!(component.digest(), native.digest());
    assert_eq!(component.revision(), native.revision());
    assert_eq!(component.questions(1), native.questions(1));
    assert_eq!(component.view(1), native.view(1));
}

/// Rebuilds an instance from what is on disk: the snapshot and the lines since.
fn rebuild(component: &mut Component, snapshot: &[u8], policy: &[u8], journal: &[Vec<Event>]) {
    component.close();
    component.open(snapshot, policy).expect("opens");
    for line in journal {
        component.fold(line).expect("a recorded line fits");
    }
}

#[test]
fn an_instance_dropped_at_random_points_and_rebuilt_changes_nothing() {
    let mut component = Component::embedded().expect("the embedded image loads");
    let mut dropped = 0;
    for seed in 100..110 {
        let mut inputs = Inputs::new(seed);
        let policy = policy_of(&mut inputs);
        let mut native = native(&fresh_state(), &policy);
        component.open(&fresh_state(), &policy).expect("opens");
        let (mut snapshot, mut journal) = (fresh_state(), Vec::new());
        let mut dice = Random::new(seed);
        for _ in 0..40 {
            let input = inputs.next(state_of(&native));
            let expected = tick(&mut native, &input);
            if dice.chance(30) {
                // In the middle of a tick: what was decided and not recorded is decided again.
                for _ in 0..dice.below(expected.len() as u64) {
                    component.decide(&input).expect("decides");
                }
                rebuild(&mut component, &snapshot, &policy, &journal);
                dropped += 1;
            }
            assert_eq!(bytes(&tick(&mut component, &input)), bytes(&expected), "seed {seed}");
            if dice.chance(30) {
                // After the lines became durable and before the pending copy was adopted.
                journal.extend(lines(&expected));
                rebuild(&mut component, &snapshot, &policy, &journal);
                dropped += 1;
            } else {
                component.commit().expect("adopts");
                journal.extend(lines(&expected));
            }
            native.commit().expect("adopts");
            assert_eq!(component.digest(), native.digest(), "seed {seed}");
            if dice.chance(10) {
                snapshot = component.save().expect("saves");
                journal.clear();
            }
        }
    }
    assert!(dropped > 50, "only {dropped} drops");
}

#[test]
fn a_batch_replay_gives_what_was_decided_step_by_step() {
    let mut component = Component::embedded().expect("the embedded image loads");
    let mut inputs = Inputs::new(7);
    let policy = policy_of(&mut inputs);
    let mut native = native(&fresh_state(), &policy);
    let (mut recorded, mut decided) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let input = inputs.next(state_of(&native));
        let decisions = tick(&mut native, &input);
        native.commit().expect("adopts");
        recorded.extend(steps(&input, &decisions));
        decided.extend(decisions);
    }
    let replayed = component.replay(&fresh_state(), &policy, &recorded, 10).expect("replays");
    assert_eq!(native.replay(&fresh_state(), &policy, &recorded, 10).expect("replays"), replayed);
    let again: Vec<_> = replayed.iter().filter_map(|step| step.decision.clone()).collect();
    assert_eq!(bytes(&again), bytes(&decided));
    let last = replayed.last().expect("steps were replayed");
    assert_eq!(last.digest, native.digest().ok());
    assert_eq!(replayed.iter().filter(|step| step.digest.is_some()).count(), recorded.len().div_ceil(10));
    // The journal alone leads to the same state as the decisions.
    let folded: Vec<Step> = lines(&decided).into_iter().map(Step::Line).collect();
    let folded = component.replay(&fresh_state(), &policy, &folded, 0).expect("folds");
    assert_eq!(folded.last().and_then(|step| step.digest.clone()), last.digest);
}

#[test]
fn a_line_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut inputs = Inputs::new(3);
    let policy = policy_of(&mut inputs);
    let mut component = Component::embedded().expect("the embedded image loads");
    let mut native = native(&fresh_state(), &policy);
    component.open(&fresh_state(), &policy).expect("opens");
    let nobody = devloop_core::ids::TaskId::parse("nobody").expect("a task id");
    let line = [Event::TaskAccepted { task: nobody }];
    let machines: [&mut dyn Machine; 2] = [&mut native, &mut component];
    for machine in machines {
        let before = machine.digest();
        let refused = machine.fold(&line).expect_err("there is no such task");
        assert!(
            matches!(
                &refused,
                devloop_host::machine::MachineError::Core(devloop_bridge::CoreError::Story(_))
            ),
            "{refused:?}"
        );
        assert!(machine.is_open());
        assert_eq!(machine.digest(), before);
    }
}

#[cfg(feature = "compiler")]
#[test]
fn fuel_is_the_same_number_every_time_and_the_compiled_core_agrees() {
    use devloop_host::machine::{GuestLimits, Metering, Program};
    let program = Program::compile(devloop_component::CORE_WASM, Metering::Fuel).expect("compiles");
    let program = std::sync::Arc::new(program);
    let mut inputs = Inputs::new(5);
    let policy = policy_of(&mut inputs);
    let mut native = native(&fresh_state(), &policy);
    let input = inputs.next(state_of(&native));
    let expected = bytes(&tick(&mut native, &input));
    let mut used = Vec::new();
    for _ in 0..2 {
        let mut component = Component::new(std::sync::Arc::clone(&program), GuestLimits::default());
        component.open(&fresh_state(), &policy).expect("opens");
        used.push(component.fuel_used());
        assert_eq!(bytes(&tick(&mut component, &input)), expected);
        used.push(component.fuel_used());
    }
    assert!(used[0] > Some(1_000));
    assert_eq!(used[..2], used[2..]);
}

/// Events of a journal come from a disk: what no document could hold is refused by its field, in both cores.
#[test]
fn a_line_with_a_number_above_the_limit_is_refused_with_its_field_and_changes_nothing() {
    let mut inputs = Inputs::new(2);
    let policy = policy_of(&mut inputs);
    let mut native = native(&fresh_state(), &policy);
    let mut component = Component::embedded().expect("the embedded image loads");
    component.open(&fresh_state(), &policy).expect("opens");
    let awake = |ms| AwakeMs { boot: 1, ms };
    let anchored = |ms| Event::ClockAnchored { wall: WallMs(5), awake: awake(ms), active: ActiveMs(ms) };
    let told = |amount| Event::UsageUnattributed { dispatch: "d9".into(), day: Day(0), amount };
    let rows: [(Vec<Event>, Option<&str>); 5] = [
        (vec![anchored(MAX_NUMBER)], None),
        (vec![anchored(MAX_NUMBER + 1)], Some("line[0].awake.ms")),
        (vec![told(UsdMicros(MAX_NUMBER))], None),
        (vec![anchored(7), told(UsdMicros(u64::MAX))], Some("line[1].amount")),
        (vec![Event::PlanRefused { detail: "x".repeat(MAX_TEXT + 1) }], Some("line[0].detail")),
    ];
    let machines: [&mut dyn Machine; 2] = [&mut native, &mut component];
    for machine in machines {
        for (line, refused) in &rows {
            let before = machine.digest().expect("open");
            match (machine.fold(line), refused) {
                (Ok(()), None) => {}
                (Err(error), Some(field)) => {
                    assert!(error.to_string().contains(field), "{error} does not name {field}");
                    assert_eq!(machine.digest().expect("open"), before, "{field}");
                }
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }
}
