//! Closed: an empty linker takes the component, and nothing in it can be called from inside.

use devloop_bridge::{CoreError, FaultKind};
use devloop_host::machine::{Component, Machine, MachineError, Program};
use devloop_testkit::random::Inputs;

use super::{fresh_state, image};

#[test]
fn the_component_imports_no_function_and_no_resource() {
    let program = Program::embedded().expect("the embedded image loads");
    assert_eq!(program.callable_imports(), Vec::<String>::new());
}

#[test]
fn an_empty_linker_takes_the_component() {
    let policy = devloop_wire::policy_doc::policy_bytes(&Inputs::new(1).policy());
    let mut machine = Component::embedded().expect("the embedded image loads");
    machine.open(&fresh_state(), &policy).expect("a fresh project opens");
    assert_eq!(machine.save().expect("saves"), fresh_state());
    assert_eq!(machine.revision(), Ok(0));
}

#[test]
fn an_empty_linker_refuses_a_program_that_reaches_for_wasi() {
    match image("wasip2") {
        Err(MachineError::Image(why)) => assert!(why.contains("wasi:"), "{why}"),
        other => panic!("a WASI program was taken: {other:?}"),
    }
}

#[test]
fn the_digest_names_the_component() {
    let digest = devloop_wire::digest_bytes(devloop_component::CORE_WASM);
    assert_eq!(digest.as_str(), devloop_component::CORE_DIGEST);
}

#[test]
fn refused_documents_leave_the_machine_closed_and_say_which_field() {
    let policy = devloop_wire::policy_doc::policy_bytes(&Inputs::new(1).policy());
    let mut machine = Component::embedded().expect("the embedded image loads");
    let torn = machine.open(b"{\"version\":2,", &policy).expect_err("half a document");
    assert!(
        matches!(&torn, MachineError::Core(CoreError::State(fault)) if fault.kind == FaultKind::Torn),
        "{torn:?}"
    );
    let newer = machine.open(b"{\"version\":99}", &policy).expect_err("a document of the future");
    assert!(
        matches!(&newer, MachineError::Core(CoreError::State(fault)) if fault.kind == FaultKind::Newer),
        "{newer:?}"
    );
    let policy = machine.open(&fresh_state(), b"[]").expect_err("no policy");
    assert!(matches!(policy, MachineError::Core(CoreError::Policy(_))), "{policy:?}");
    assert!(!machine.is_open());
    assert_eq!(machine.save(), Err(MachineError::Closed));
}
