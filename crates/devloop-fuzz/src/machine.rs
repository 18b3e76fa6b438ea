//! A JSON object `{"state", "policy", "steps"}` given to the native core and to the component, which must
//! answer alike to the last byte. Nothing stops the component; what it saves it opens again.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use devloop_bridge::{CoreError, Step};
use devloop_core::decide::Input;
use devloop_core::event::Event;
use devloop_core::invariant;
use devloop_core::units::MAX_NUMBER;
use devloop_host::machine::{Component, GuestLimits, Machine, MachineError, Metering, Native, Program};
use devloop_wire::digest_bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The documents stay as they are written: they may be anything.
#[derive(Deserialize)]
struct Story<'a> {
    #[serde(borrow)]
    state: &'a RawValue,
    #[serde(borrow)]
    policy: &'a RawValue,
    #[serde(default, borrow)]
    steps: Vec<&'a RawValue>,
}

/// Steps are read one by one: those that are none of the domain are left out, as a host could not ask them.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ask<'a> {
    Decide(Input),
    Fold(Vec<Event>),
    #[serde(borrow)]
    Policy(&'a RawValue),
    Commit,
    Discard,
}

/// Far above what the largest input needs: a decision on a small state takes less than a million.
const FUEL: u64 = 4_000_000_000;
const MAX_STEPS: usize = 32;

fn program() -> Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    let compile =
        || Program::compile(devloop_component::CORE_WASM, Metering::Fuel).expect("the core compiles");
    Arc::clone(PROGRAM.get_or_init(|| Arc::new(compile())))
}

thread_local! {
    static PAIR: RefCell<(Native, Component)> = RefCell::new((
        Native::new(),
        Component::new(program(), GuestLimits { fuel: FUEL, ..GuestLimits::default() }),
    ));
}

pub fn run(data: &[u8]) {
    let Ok(story) = serde_json::from_slice::<Story<'_>>(data) else { return };
    PAIR.with_borrow_mut(|(native, component)| tell(native, component, &story));
}

/// Asks both the same; the answers are equal, and the component returned.
fn both<T: PartialEq + std::fmt::Debug>(
    native: &mut Native,
    component: &mut Component,
    ask: impl Fn(&mut dyn Machine) -> Result<T, MachineError>,
) -> Result<T, MachineError> {
    let (expected, told) = (ask(native), ask(component));
    assert_eq!(told, expected, "component, native");
    told
}

fn tell(native: &mut Native, component: &mut Component, story: &Story<'_>) {
    let (state, policy) = (story.state.get().as_bytes(), story.policy.get().as_bytes());
    if let Err(error) = both(native, component, |machine| machine.open(state, policy)) {
        refused(&error);
        return;
    }
    let mut replayable = Vec::new();
    for raw in story.steps.iter().take(MAX_STEPS) {
        let Ok(ask) = serde_json::from_str::<Ask<'_>>(raw.get()) else { continue };
        // Lines come from the journal, whose reader refuses these before a machine sees them.
        if matches!(ask, Ask::Fold(_)) && has_large_number(raw.get()) {
            continue;
        }
        step(native, component, &ask);
        replayable.extend(ask.step());
    }
    both(native, component, |machine| machine.replay(state, policy, &replayable, 3)).ok();
    reopens(native, component, policy);
}

fn step(native: &mut Native, component: &mut Component, ask: &Ask<'_>) {
    let sound = native.session().is_some_and(|session| invariant::check(session.latest()).is_ok());
    let done = match ask {
        Ask::Decide(input) => {
            let decided = both(native, component, |machine| machine.decide(input)).map(drop);
            let story = matches!(decided, Err(MachineError::Core(CoreError::Story(_))));
            assert!(!(story && sound), "the core contradicts itself on a sound state: {decided:?}");
            decided
        }
        Ask::Fold(line) => both(native, component, |machine| machine.fold(line)),
        Ask::Policy(policy) => both(native, component, |machine| machine.set_policy(policy.get().as_bytes())),
        Ask::Commit => both(native, component, |machine| machine.commit()),
        Ask::Discard => both(native, component, |machine| machine.discard()),
    };
    if let Err(error) = done {
        refused(&error);
    }
    both(native, component, |machine| machine.digest()).expect("an open loop has a digest");
}

impl Ask<'_> {
    fn step(self) -> Option<Step> {
        match self {
            Ask::Decide(input) => Some(Step::Decide(input)),
            Ask::Fold(line) => Some(Step::Line(line)),
            Ask::Policy(policy) => Some(Step::Policy(policy.get().as_bytes().to_vec())),
            Ask::Commit | Ask::Discard => None,
        }
    }
}

/// Whether a text that is JSON holds a number above 2^53 - 1.
fn has_large_number(text: &str) -> bool {
    fn found(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Number(number) => number.as_u64().is_some_and(|n| n > MAX_NUMBER),
            serde_json::Value::Array(list) => list.iter().any(found),
            serde_json::Value::Object(map) => map.values().any(found),
            _ => false,
        }
    }
    serde_json::from_str(text).is_ok_and(|value| found(&value))
}

/// A refusal comes from the core: the machine goes on.
fn refused(error: &MachineError) {
    let MachineError::Core(error) = error else { panic!("the machine broke: {error}") };
    assert!(!error.to_string().trim().is_empty());
}

fn reopens(native: &mut Native, component: &mut Component, policy: &[u8]) {
    let saved = both(native, component, |machine| machine.save()).expect("an open loop is saved");
    let digest = both(native, component, |machine| machine.digest()).expect("and has a digest");
    assert_eq!(digest, digest_bytes(&saved).as_str());
    both(native, component, |machine| machine.questions(1)).expect("and has questions");
    both(native, component, |machine| machine.view(1)).expect("and a view");
    both(native, component, |machine| machine.revision()).expect("and a revision");
    let opened = both(native, component, |machine| machine.open(&saved, policy));
    assert_eq!(opened, Ok(()), "what was saved is opened");
    assert_eq!(both(native, component, |machine| machine.save()), Ok(saved));
}
