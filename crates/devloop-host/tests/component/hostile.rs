//! Hostile: a guest that spins, hoards, recurses or panics is stopped, and everything around it goes on.

use std::sync::Arc;
use std::time::Duration;

use devloop_core::decide::Input;
use devloop_host::machine::{Component, GuestLimits, Machine, MachineError, Program, Stop};
use devloop_testkit::random::Inputs;

use super::{fresh_state, image, roomy};

/// Only a guest that spins has a short deadline: on a busy machine the others must end by their own limit
/// too.
fn tight(trouble: &str) -> GuestLimits {
    let deadline = if trouble == "spin" { Duration::from_millis(100) } else { Duration::from_secs(300) };
    GuestLimits { deadline, memory_bytes: 32 << 20, ..roomy() }
}

/// Whether `stop` is what `trouble` must end in. A shadow stack that overflows may show as a bad memory
/// access.
fn fits(trouble: &str, stop: &Stop) -> bool {
    match trouble {
        "spin" => *stop == Stop::Deadline,
        "bomb" => *stop == Stop::Memory,
        "recurse" => matches!(stop, Stop::Stack | Stop::Trap(_)),
        _ => matches!(stop, Stop::Trap(_)),
    }
}

fn some_input() -> Input {
    Inputs::new(1).next(&devloop_core::state::LoopState::default())
}

/// The stop of a call that must not return.
fn stopped<T: std::fmt::Debug>(answer: Result<T, MachineError>, trouble: &str) {
    match answer {
        Err(MachineError::Stopped(stop)) => assert!(fits(trouble, &stop), "{trouble}: {stop:?}"),
        other => panic!("{trouble} was not stopped: {other:?}"),
    }
}

#[test]
fn every_kind_of_trouble_is_stopped_and_the_host_goes_on() {
    let program = image("hostile").expect("the hostile guest loads");
    for trouble in ["spin", "bomb", "recurse", "panic"] {
        let mut machine = Component::new(Arc::clone(&program), tight(trouble));
        stopped(machine.open(b"quiet", trouble.as_bytes()), trouble);
        assert!(!machine.is_open());

        machine.open(trouble.as_bytes(), b"quiet").expect("this guest makes trouble when asked for more");
        stopped(machine.decide(&some_input()), trouble);
        assert!(!machine.is_open(), "an instance that failed is dropped");
        assert_eq!(machine.save(), Err(MachineError::Closed));

        machine.open(trouble.as_bytes(), b"quiet").expect("a fresh instance");
        stopped(machine.commit(), trouble);
        stopped(machine.replay(trouble.as_bytes(), b"quiet", &[], 0), trouble);

        machine.open(b"quiet", b"quiet").expect("a fresh instance of the same program");
        assert_eq!(machine.save(), Ok(b"quiet".to_vec()));
    }
}

#[test]
fn trouble_in_one_program_leaves_another_alone() {
    let policy = devloop_wire::policy_doc::policy_bytes(&Inputs::new(1).policy());
    let mut core = Component::embedded().expect("the embedded image loads");
    core.open(&fresh_state(), &policy).expect("opens");
    let program = image("hostile").expect("the hostile guest loads");
    std::thread::scope(|scope| {
        for trouble in ["spin", "bomb", "recurse", "panic"] {
            let program: Arc<Program> = Arc::clone(&program);
            scope.spawn(move || {
                let mut machine = Component::new(program, tight(trouble));
                machine.open(trouble.as_bytes(), b"quiet").expect("opens");
                stopped(machine.fold(&[]), trouble);
            });
        }
        for _ in 0..200 {
            assert_eq!(core.save().expect("saves"), fresh_state());
        }
    });
}

#[test]
fn memory_is_given_up_to_the_limit_and_not_beyond() {
    // The smallest whole number of MiB that the core opens in; one less is refused, so the limit is what
    // decides.
    let policy = devloop_wire::policy_doc::policy_bytes(&Inputs::new(1).policy());
    let program = Program::embedded().expect("the embedded image loads");
    let opens = |mebibytes: usize| {
        let limits = GuestLimits { memory_bytes: mebibytes << 20, ..roomy() };
        Component::new(Arc::clone(&program), limits).open(&fresh_state(), &policy)
    };
    let least = (1..64).find(|mebibytes| opens(*mebibytes).is_ok()).expect("64 MiB is plenty");
    assert!(least < 16, "an empty loop takes {least} MiB");
    for below in 0..least {
        assert_eq!(opens(below), Err(MachineError::Stopped(Stop::Memory)), "{below} MiB");
    }
}

#[test]
fn the_guest_has_a_ceiling_of_its_own_in_every_engine() {
    // Far above the 256 MiB that the module itself allows: its allocator fails before the host's limit is
    // reached.
    let limits = GuestLimits { memory_bytes: 1 << 30, ..roomy() };
    let mut machine = Component::new(image("hostile").expect("the hostile guest loads"), limits);
    let bomb = machine.open(b"quiet", b"bomb");
    assert!(matches!(&bomb, Err(MachineError::Stopped(Stop::Trap(_)))), "{bomb:?}");
}

#[cfg(feature = "compiler")]
#[test]
fn a_guest_without_fuel_is_stopped() {
    use devloop_host::machine::Metering;
    let component = super::built("hostile.wasm");
    let program = Arc::new(Program::compile(&component, Metering::Fuel).expect("compiles"));
    let limits = GuestLimits { fuel: 10_000_000, ..roomy() };
    let mut machine = Component::new(program, limits);
    machine.open(b"spin", b"quiet").expect("opens");
    assert_eq!(machine.decide(&some_input()), Err(MachineError::Stopped(Stop::Fuel)));
    assert_eq!(machine.fuel_used(), Some(10_000_000));
}
