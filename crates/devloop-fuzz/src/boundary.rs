//! Any values of the WIT types, made from bytes, handed to the component as they are: it answers each as the
//! native core does behind the same conversion, and is never stopped. What is refused names its field.

use std::cell::RefCell;
use std::sync::OnceLock;

use arbitrary::{Arbitrary, Unstructured};
use devloop_bridge::{CoreError, Fault, IntoDomain, IntoWit, Replayed, Session, replay};
use devloop_core::decide::Input;
use devloop_core::event::Event;
use devloop_core::state::LoopState;
use devloop_testkit::random::{Inputs, Random};
use devloop_wire::{policy_doc, state_doc};
use wasmtime::component::{Component, Linker, ResourceAny};
use wasmtime::{Config, Engine, Store};

use bindings::devloop::core::types as wit;

#[allow(missing_debug_implementations, clippy::wildcard_imports, reason = "generated code")]
mod bindings {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "core",
        additional_derives: [arbitrary::Arbitrary, PartialEq],
    });
}

devloop_bridge::bridge!(crate::boundary::bindings::devloop::core::types);

/// One call of the interface.
#[derive(Arbitrary, Debug)]
enum Call {
    Decide(wit::Input),
    Fold(Vec<wit::Event>),
    Replay(Vec<wit::Step>, u32),
    SetPolicy(Vec<u8>),
    Commit,
    Discard,
    Questions(u64),
    View(u64),
}

const FUEL: u64 = 4_000_000_000;
const MAX_CALLS: usize = 16;

struct Guest {
    store: Store<()>,
    core: bindings::Core,
}

fn fresh() -> Guest {
    static LOADED: OnceLock<(Engine, bindings::CorePre<()>)> = OnceLock::new();
    let (engine, pre) = LOADED.get_or_init(|| {
        let engine = Engine::new(Config::new().consume_fuel(true)).expect("an engine");
        let component = Component::new(&engine, devloop_component::CORE_WASM).expect("the core compiles");
        let pre = Linker::new(&engine).instantiate_pre(&component).and_then(bindings::CorePre::new);
        (engine, pre.expect("an empty linker takes the core"))
    });
    let mut store = Store::new(engine, ());
    store.set_fuel(FUEL).expect("fuel is metered");
    let core = pre.instantiate(&mut store).expect("the core starts");
    Guest { store, core }
}

thread_local! {
    static GUEST: RefCell<Guest> = RefCell::new(fresh());
}

pub fn run(data: &[u8]) {
    // The head of the bytes is a short night that leads to the state; the rest is the calls.
    let (dice, calls) = data.split_at(data.len().min(64));
    let mut inputs = Inputs::of(Random::of_tape(dice), true);
    let policy = policy_doc::policy_bytes(&inputs.policy());
    let state = state_doc::write(&a_state(&mut inputs, &policy));
    let mut source = Unstructured::new(calls);
    let mut native = Session::open(&state, &policy).expect("a state of a night opens");
    GUEST.with_borrow_mut(|guest| {
        let machine = guest.core.devloop_core_machine();
        let opened = machine.session().call_open(&mut guest.store, &state, &policy).expect("returns");
        let session = opened.expect("a state of a night opens");
        for _ in 0..MAX_CALLS {
            if source.is_empty() {
                break;
            }
            let Ok(call) = Call::arbitrary(&mut source) else { break };
            guest.store.set_fuel(FUEL).expect("fuel is metered");
            compare(guest, session, &mut native, call, (&state, &policy));
        }
        session.resource_drop(&mut guest.store).expect("a session is dropped");
    });
}

fn a_state(inputs: &mut Inputs, policy: &[u8]) -> LoopState {
    let empty = state_doc::write(&LoopState::default());
    let mut session = Session::open(&empty, policy).expect("an empty state opens");
    while !inputs.is_worn() {
        let input = inputs.next(session.latest());
        while session.decide(&input).is_ok_and(|decision| !decision.reason.is_final()) {
            if matches!(input, Input::Command { .. }) {
                break;
            }
        }
    }
    session.commit();
    session.state().clone()
}

/// A value on its way in, as the guest reads it.
fn read<T, W: IntoDomain<T>>(value: W) -> Result<T, CoreError> {
    value.into_domain().map_err(|refused| CoreError::Value(Fault::from(refused)))
}

/// An answer as the guest gives it.
fn tell<T: IntoWit<W>, W>(answer: Result<T, CoreError>) -> Result<W, wit::CoreError> {
    answer.map(IntoWit::into_wit).map_err(IntoWit::into_wit)
}

fn compare(guest: &mut Guest, this: ResourceAny, native: &mut Session, call: Call, opened: (&[u8], &[u8])) {
    let Guest { store, core } = guest;
    let machine = core.devloop_core_machine();
    let session = machine.session();
    match call {
        Call::Decide(input) => {
            let told = session.call_decide(&mut *store, this, &input).expect("returns");
            let expected = read::<Input, _>(input).and_then(|input| native.decide(&input));
            assert_eq!(named(told), tell(expected));
        }
        Call::Fold(line) => {
            let told = session.call_fold(&mut *store, this, &line).expect("returns");
            let expected = read::<Vec<Event>, _>(line).and_then(|line| native.fold(&line));
            assert_eq!(named(told), expected.map_err(IntoWit::into_wit));
        }
        Call::Replay(steps, every) => {
            let told = machine.call_replay(&mut *store, opened.0, opened.1, &steps, every).expect("returns");
            let expected = replay::<_, Replayed>(opened.0, opened.1, steps.into_iter(), every);
            assert_eq!(named(told), tell(expected));
        }
        Call::SetPolicy(policy) => {
            let told = session.call_set_policy(&mut *store, this, &policy).expect("returns");
            assert_eq!(told, native.set_policy(&policy).map_err(IntoWit::into_wit));
        }
        Call::Commit => {
            session.call_commit(&mut *store, this).expect("returns");
            native.commit();
        }
        Call::Discard => {
            session.call_discard(&mut *store, this).expect("returns");
            native.discard();
        }
        Call::Questions(instance) => {
            let told = session.call_questions(&mut *store, this, instance).expect("returns");
            let expected: Vec<wit::Question> = native.questions(instance).into_wit();
            assert_eq!(told, expected);
        }
        Call::View(instance) => {
            let told = session.call_view(&mut *store, this, instance).expect("returns");
            assert_eq!(told, native.view(instance));
        }
    }
    assert_eq!(session.call_save(&mut *store, this).expect("returns"), native.save());
}

/// A value that is none of the domain is refused by its field.
fn named<T>(answer: Result<T, wit::CoreError>) -> Result<T, wit::CoreError> {
    if let Err(wit::CoreError::Value(fault)) = &answer {
        assert!(!fault.field.is_empty() && !fault.rule.is_empty(), "{fault:?}");
    }
    answer
}
