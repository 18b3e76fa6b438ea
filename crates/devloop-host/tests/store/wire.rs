//! The store with the documents of production: lines and states as the wire crate writes them.

use std::fs;

use devloop_core::event::Event;
use devloop_core::ids::Digest;
use devloop_core::reason::Reason;
use devloop_core::state::LoopState;
use devloop_core::units::{ActiveMs, AwakeMs, WallMs};
use devloop_host::error::ErrorKind;
use devloop_host::store::{wire_format, *};
use devloop_wire::{digest_bytes, event_line, state_doc};

use super::support::Project;

fn store(project: &Project) -> Store {
    let (lines, states) = wire_format::formats();
    Store::new(project.armed.clone(), Disk::default(), lines, states)
}

fn head(state: &LoopState, previous: Option<&Digest>) -> Line {
    let core = digest_bytes(b"core");
    Line::written(state.revision, event_line::write_head(state, &core, None, previous))
}

fn line(revision: u64, reason: &Reason, events: &[Event], previous: &Tip) -> Line {
    let entry = event_line::Entry { revision, at: WallMs(5), by: "test", reason, events };
    let previous = Digest::parse(&previous.chain).unwrap();
    Line::written(revision, event_line::write_line(&entry, Some(&previous)))
}

fn document(state: &LoopState, tip: &Tip) -> Vec<u8> {
    state_doc::write_file(state, Some(&Digest::parse(&tip.chain).unwrap()))
}

#[test]
fn the_wire_documents_are_committed_recovered_and_refused() {
    let project = Project::new();
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let mut store = store(&project);
    assert_eq!(store.load().unwrap(), Loaded::Fresh);
    let mut state = LoopState::default();
    let first = head(&state, None);
    let tip = store.start_segment(&lock, &first, &document(&state, &first.tip())).unwrap().tip;
    let event = Event::ClockAnchored { wall: WallMs(5), awake: AwakeMs::default(), active: ActiveMs(0) };
    state.revision += 1;
    let step = line(state.revision, &Reason::UsageSettledLate, &[event], &tip);
    let tip =
        store.commit(&lock, std::slice::from_ref(&step), &document(&state, &step.tip()), false).unwrap().tip;
    let second = head(&state, Some(&Digest::parse(&tip.chain).unwrap()));
    let tip = store.start_segment(&lock, &second, &document(&state, &second.tip())).unwrap().tip;

    let (lines, _) = wire_format::formats();
    let report = history::verify(&project.armed, lines.as_ref()).unwrap().unwrap();
    assert_eq!((report.segments, report.lines, report.last_revision, report.complete), (2, 3, 1, true));
    let Loaded::Ready(recovered) = store.load().unwrap() else { panic!("not ready") };
    assert_eq!((recovered.tip, recovered.lines.len(), recovered.notes.len()), (tip, 0, 0));
    let Base::State(bytes) = recovered.base else { panic!("not from STATE.json") };
    assert_eq!(state_doc::parse(&bytes).unwrap(), state);

    let check = |store: &mut Store, text: &str, kind: Option<ErrorKind>, expect: &str| {
        fs::write(project.armed.state(), text).unwrap();
        match store.load() {
            Ok(Loaded::Ready(recovered)) => {
                assert_eq!(kind, None);
                assert!(recovered.notes[0].contains(expect), "{:?}", recovered.notes);
                assert_eq!(recovered.base, Base::Snapshot(second.clone()));
            }
            Err(said) => {
                assert_eq!(Some(said.kind()), kind, "{said}");
                assert!(said.to_string().contains(expect), "{said}");
                assert_eq!(fs::read_to_string(project.armed.state()).unwrap(), text);
            }
            Ok(other) => panic!("{other:?}"),
        }
    };
    let text = String::from_utf8(bytes).unwrap();
    let integrity = Some(ErrorKind::Integrity);
    check(
        &mut store,
        &text.replace("\"revision\":1", "\"revision\":2"),
        integrity,
        "something other than DevLoop",
    );
    check(&mut store, &text[..text.len() / 2], None, "STATE.json is not whole");
    check(&mut store, "", None, "STATE.json is not whole");
    check(&mut store, &"\0".repeat(4096), None, "STATE.json is not whole");
    check(
        &mut store,
        &text.replace("\"version\":2", "\"version\":3"),
        integrity,
        "has version 3, newer than",
    );
    check(&mut store, "{\"version\":1,\"revision\":1}", integrity, "the earlier plugin wrote it afterwards");
}
