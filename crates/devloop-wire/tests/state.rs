//! STATE.json: what is written is read back, and everything else is refused with its path.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use devloop_core::state::LoopState;
use devloop_wire::fault::Fault;
use devloop_wire::{digest_bytes, state_doc};
use support::{digest, state};

#[test]
fn what_is_written_is_read_back_in_both_forms() {
    for state in [LoopState::default(), state()] {
        let saved = state_doc::write(&state);
        assert_eq!(state_doc::parse(&saved).unwrap(), state);
        assert_eq!(state_doc::digest(&state), digest_bytes(&saved));

        let file = state_doc::write_file(&state, Some(&digest('c')));
        let doc = state_doc::parse_doc(&file).unwrap();
        assert_eq!((doc.chain, doc.digest), (Some(digest('c')), Some(state_doc::digest(&state))));
        assert_eq!(doc.state, state);
        let head = state_doc::read_head(&file).unwrap();
        assert_eq!((head.revision, head.chain), (state.revision, Some(digest('c'))));
        assert_eq!(state_doc::parse_doc(&state_doc::write_file(&state, None)).unwrap().chain, None);
    }
}

#[test]
fn equal_states_have_equal_bytes_and_different_states_differ() {
    assert_eq!(state_doc::write(&state()), state_doc::write(&state()));
    let mut other = state();
    other.next_dispatch += 1;
    assert_ne!(state_doc::digest(&other), state_doc::digest(&state()));
}

/// Changes the saved form by replacing `from` (which must be there) and tells how it is refused.
fn refused(from: &str, to: &str) -> String {
    let text = String::from_utf8(state_doc::write(&state())).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    state_doc::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string()
}

#[test]
fn every_refusal_names_the_field() {
    let table = [
        (r#""revision":5"#, r#""revision":"5""#, "state.revision: invalid type: string"),
        (r#""revision":5"#, r#""revision":5.0"#, "state.revision: invalid type: floating point"),
        (r#""revision":5"#, r#""revision":-5"#, "state.revision: invalid value: integer `-5`"),
        (
            r#""revision":5"#,
            r#""revision":9007199254740992"#,
            "state.revision: the number is above 9007199254740991",
        ),
        (r#""revision":5"#, r#""revison":5"#, "state.revison: unknown field `revison`"),
        (r#""revision":5,"#, r#""revision":5,"revision":5,"#, "duplicate field `revision`"),
        (r#""revision":5,"#, "", "state: missing field `revision`"),
        (r#""id":"a""#, r#""id":"a/b""#, "state.tasks[0].id: a task id must be 1 to 64 characters"),
        (r#""id":"b""#, r#""id":"a""#, "state.tasks: task id a is used twice"),
        (r#""tier":"t1""#, r#""tier":"t9""#, "state.tasks[0].tier: unknown variant `t9`"),
        (r#""depends_on":["a"]"#, r#""depends_on":["z"]"#, "state.tasks[2].depends_on: there is no task z"),
        (
            r#"{"working":"d2"}"#,
            r#"{"working":"d9"}"#,
            "state.tasks[0].stage: it names d9, which is no lease of task a",
        ),
        (r#"{"working":"d2"}"#, r#"{"working":2}"#, "state.tasks[0].stage.working: invalid type"),
        (r#""subject":"task/a""#, r#""subject":"task/z""#, "state.leases.d2.subject: there is no task z"),
        (
            r#""subject":"task/a""#,
            r#""subject":"goal""#,
            "state.leases.d2.subject: no operation runs on goal",
        ),
        (
            r#""subject":"task/a""#,
            r#""subject":"target""#,
            "state.leases.d2.op: the target takes no other operation",
        ),
        (r#""next_dispatch":3"#, r#""next_dispatch":2"#, "state.next_dispatch: it must be above 2"),
        (
            r#""planning":"idle""#,
            r#""planning":{"held":{"replaces":null}}"#,
            "state.planning: it is held, but there is",
        ),
        (
            r#""subject":"target""#,
            r#""subject":"task/a""#,
            "state.holds[0].subject: the hold of task a belongs",
        ),
        (r#""phase":"active""#, r#""phase":"halted""#, "state.phase: unknown variant `halted`"),
    ];
    for (from, to, expect) in table {
        let said = refused(from, to);
        assert!(said.contains(expect), "{from} -> {to}\nexpected {expect}\nsaid {said}");
        assert!(said.starts_with("STATE.json: "), "{said}");
    }
}

#[test]
fn documents_of_other_kinds_have_their_own_refusal() {
    let fault = |bytes: &[u8]| state_doc::parse(bytes).unwrap_err().fault;
    assert_eq!(fault(b""), Fault::Torn);
    assert_eq!(fault(br#"{"version":1,"revision":3,"tasks":[]}"#), Fault::Legacy);
    assert_eq!(fault(br#"{"version":3,"state":{"of":"a shape to come"}}"#), Fault::Newer { version: 3 });
    let whole = state_doc::write_file(&state(), None);
    for cut in [1, 20, whole.len() / 2, whole.len() - 3] {
        assert_eq!(fault(&whole[..cut]), Fault::Torn, "cut at {cut}");
    }
}

#[test]
fn a_wrong_type_beside_the_state_is_named_too() {
    let said = |text: &str| state_doc::parse(text.as_bytes()).unwrap_err().to_string();
    let check = |text: &str, expect: &str| assert!(said(text).starts_with(expect), "{}", said(text));
    check(r#"{"version":2,"chain":{},"state":{}}"#, "STATE.json: chain: invalid type: map");
    check(r#"{"version":2,"chain":"12","state":{}}"#, "STATE.json: chain: ");
    check(r#"{"version":2,"digest":7,"state":{}}"#, "STATE.json: digest: invalid type: integer");
    check(r#"{"version":2,"more":7,"state":{}}"#, "STATE.json: more: unknown field `more`");
    check(r#"{"version":2}"#, "STATE.json: missing field `state`");
}

#[test]
fn a_hand_that_edits_the_file_is_noticed() {
    let text = String::from_utf8(state_doc::write_file(&state(), None)).unwrap();
    let edited = text.replacen(r#""risk":"low""#, r#""risk":"high""#, 1);
    assert_ne!(edited, text);
    for error in [
        state_doc::parse(edited.as_bytes()).unwrap_err(),
        state_doc::read_head(edited.as_bytes()).unwrap_err(),
    ] {
        assert_eq!((error.path.as_str(), error.fault), ("digest", Fault::Defect));
    }
}
