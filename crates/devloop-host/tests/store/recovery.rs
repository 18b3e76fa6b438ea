//! What is believed at start: the journal over the state, a person over a contradiction, old files kept.

use std::fs;
use std::sync::Arc;

use devloop_host::error::{ErrorKind, HostError};
use devloop_host::store::*;

use super::support::{Project, TestLines, TestStates, group, snapshot, start, state, step, tip, tree};

/// A project with `n` lines behind its snapshot; its lines, the snapshot first.
fn with_lines(project: &Project, n: usize) -> Vec<Line> {
    let mut journal = project.started(&Disk::default());
    let locks = project.locks();
    let lines = group(&tip(&journal), n, "a");
    journal.append(&locks.lock(Wait::ONCE).unwrap(), &lines).unwrap();
    [vec![snapshot(&start(), "new")], lines].concat()
}

fn refused(project: &Project, expect: &str) {
    let before = tree(project.armed.folder());
    let said = project.load().unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Integrity, "{said}");
    assert!(said.to_string().contains(expect), "{said}");
    assert_eq!(tree(project.armed.folder()), before, "nothing was written over");
}

#[test]
fn a_goal_that_was_never_worked_on_is_fresh() {
    assert_eq!(Project::new().load().unwrap(), Loaded::Fresh);
}

#[test]
fn a_state_in_the_journal_saves_folding_and_an_older_one_is_rebuilt() {
    let project = Project::new();
    let lines = with_lines(&project, 3);
    for (index, line) in lines.iter().enumerate() {
        let document = state(&line.tip(), "s");
        fs::write(project.armed.state(), &document).unwrap();
        let recovered = project.ready();
        assert_eq!(recovered.base, Base::State(document));
        assert_eq!(recovered.lines, lines[index + 1..]);
        assert_eq!(recovered.tip, lines[3].tip());
    }
    // A segment later the old document is too old to fold onto.
    let mut journal = project.journal(&Disk::default());
    journal.poll_changes(&lines[3].tip()).unwrap();
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let head = snapshot(&lines[3].tip(), "later");
    journal.start_segment(&lock, &head).unwrap();
    journal.append(&lock, &[step(&head.tip(), "b")]).unwrap();
    fs::write(project.armed.state(), state(&lines[2].tip(), "s")).unwrap();
    let recovered = project.ready();
    assert_eq!((recovered.base, recovered.lines.len()), (Base::Snapshot(head.clone()), 1));
    // Written right before the snapshot of the same revision: usable.
    let document = state(&lines[3].tip(), "s");
    fs::write(project.armed.state(), &document).unwrap();
    let recovered = project.ready();
    assert_eq!(
        (recovered.base, recovered.lines.len(), recovered.set_aside),
        (Base::State(document), 1, false)
    );
}

#[test]
fn a_missing_empty_or_torn_state_is_rebuilt_and_its_bytes_are_kept_aside() {
    let project = Project::new();
    let lines = with_lines(&project, 2);
    let whole = state(&lines[2].tip(), "s");
    for damaged in [None, Some(&whole[..0]), Some(&whole[..10]), Some(&whole[..whole.len() - 2])] {
        match damaged {
            Some(bytes) => fs::write(project.armed.state(), bytes).unwrap(),
            None => assert!(!project.armed.state().exists()),
        }
        let recovered = project.ready();
        assert_eq!((recovered.base, recovered.lines.len()), (Base::Snapshot(lines[0].clone()), 2));
        assert_eq!(recovered.set_aside, damaged.is_some_and(|bytes| !bytes.is_empty()));
    }
    let mut store =
        Store::new(project.armed.clone(), Disk::default(), Arc::new(TestLines), Arc::new(TestStates));
    store.load().unwrap();
    let locks = project.locks();
    let line = step(&lines[2].tip(), "b");
    let document = state(&line.tip(), "s");
    let committed = store.commit(&locks.lock(Wait::ONCE).unwrap(), &[line], &document, false).unwrap();
    assert!(committed.state_error.is_none());
    let kept = fs::read(project.armed.aside().join("STATE.1.json")).unwrap();
    assert_eq!(kept, &whole[..whole.len() - 2]);
    assert_eq!(fs::read(project.armed.state()).unwrap(), document);
    assert!(project.ready().notes.is_empty());
}

#[test]
fn a_contradiction_is_for_a_person_and_names_both_sides() {
    let project = Project::new();
    let lines = with_lines(&project, 2);
    let ahead = step(&lines[2].tip(), "b");
    fs::write(project.armed.state(), state(&ahead.tip(), "s")).unwrap();
    refused(&project, "it is at revision 3, ahead of EVENTS.jsonl, which ends at revision 2");

    let other = Tip { revision: 2, chain: "cd".repeat(32) };
    fs::write(project.armed.state(), state(&other, "s")).unwrap();
    refused(&project, "at revision 2 it has chain cdcdcdcdcdcd, but EVENTS.jsonl line 3 has chain ");

    let edited = String::from_utf8(state(&lines[2].tip(), "s")).unwrap().replace("\"s\"", "\"t\"");
    fs::write(project.armed.state(), edited).unwrap();
    refused(&project, "it was changed by something other than DevLoop");
    let host = HostError::from(project.load().unwrap_err());
    assert_eq!(host.hints()[0][..2], ["devloop", "doctor"]);

    fs::write(project.armed.state(), state(&lines[2].tip(), "s")).unwrap();
    fs::remove_file(project.armed.events()).unwrap();
    refused(&project, "it is at revision 2, but EVENTS.jsonl is missing or empty");
    fs::write(project.armed.events(), "").unwrap();
    refused(&project, "it is at revision 2, but EVENTS.jsonl is missing or empty");
    fs::write(project.armed.state(), "").unwrap();
    refused(&project, "there is no EVENTS.jsonl to rebuild it from");

    fs::remove_file(project.armed.state()).unwrap();
    fs::remove_file(project.armed.events()).unwrap();
    fs::create_dir(project.armed.journal()).unwrap();
    fs::write(project.armed.journal().join("0-9.jsonl.gz"), "x").unwrap();
    refused(&project, "journal/ ends at revision 9");
}

#[test]
fn newer_files_are_refused_untouched() {
    let project = Project::new();
    let newer = "{\"version\":3,\"revision\":9}\n";
    fs::write(project.armed.state(), newer).unwrap();
    refused(&project, "STATE.json has version 3, newer than this DevLoop reads");
    fs::remove_file(project.armed.state()).unwrap();
    fs::write(project.armed.events(), "{\"v\":4,\"revision\":9}\n").unwrap();
    refused(&project, "EVENTS.jsonl has version 4, newer than this DevLoop reads");
}

#[test]
fn a_changed_snapshot_does_not_chain_from_the_archive() {
    let project = Project::new();
    let lines = with_lines(&project, 2);
    let mut journal = project.journal(&Disk::default());
    journal.poll_changes(&lines[2].tip()).unwrap();
    let locks = project.locks();
    journal.start_segment(&locks.lock(Wait::ONCE).unwrap(), &snapshot(&lines[2].tip(), "true")).unwrap();
    let text = String::from_utf8(project.event_bytes()).unwrap();
    fs::write(project.armed.events(), text.replace("true", "false")).unwrap();
    refused(&project, "its snapshot does not chain from");
}

const OLD_STATE: &str = "{\"version\":1,\"revision\":4,\"tasks\":[]}\n";
const OLD_EVENTS: &str = "{\"version\":1,\"revision\":4,\"state\":{}}\n";

#[test]
fn version_1_files_are_returned_for_migration_and_kept() {
    let project = Project::new();
    fs::write(project.armed.state(), OLD_STATE).unwrap();
    let Loaded::Legacy(only_state) = project.load().unwrap() else { panic!("not of version 1") };
    assert_eq!((only_state.state.as_deref(), only_state.events), (Some(OLD_STATE.as_bytes()), None));
    fs::write(project.armed.events(), OLD_EVENTS).unwrap();
    let Loaded::Legacy(legacy) = project.load().unwrap() else { panic!("not of version 1") };
    assert_eq!(legacy.events.as_deref(), Some(OLD_EVENTS.as_bytes()));

    let disk = Disk::default();
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let mut store =
        Store::new(project.armed.clone(), disk.clone(), Arc::new(TestLines), Arc::new(TestStates));
    store.load().unwrap();
    let head = snapshot(&Tip { revision: 5, ..start() }, "migrated");
    let document = state(&head.tip(), "migrated");
    let early = store.start_segment(&lock, &head, &document).unwrap_err();
    assert!(matches!(early, StoreError::Misuse(_)), "the old journal is not kept yet: {early}");
    for _ in 0..2 {
        recover::keep_legacy(&disk, &lock, &project.armed, &legacy).unwrap();
    }
    let _ = store.start_segment(&lock, &head, &document).unwrap();
    assert_eq!(fs::read_to_string(project.armed.state_v1()).unwrap(), OLD_STATE);
    assert_eq!(fs::read_to_string(project.armed.events_v1()).unwrap(), OLD_EVENTS);
    assert_eq!(project.ready().tip, head.tip());

    // Interrupted between journal and state: finished from the journal.
    fs::write(project.armed.state(), OLD_STATE).unwrap();
    let recovered = project.ready();
    assert_eq!(recovered.tip, head.tip());
    assert!(recovered.notes[0].contains("the migration from version 1 was interrupted"));
    // But a state that the old plugin wrote later is for a person.
    fs::write(project.armed.state(), OLD_STATE.replace('4', "6")).unwrap();
    refused(&project, "the earlier plugin wrote it afterwards");
    fs::write(project.armed.state(), &document).unwrap();
    fs::write(project.armed.events(), OLD_EVENTS).unwrap();
    refused(&project, "it is of version 1 while STATE.json is at revision 5 of version 2");

    let other = Legacy { state: Some(b"other".to_vec()), ..Legacy::default() };
    let said = recover::keep_legacy(&disk, &lock, &project.armed, &other).unwrap_err();
    assert!(said.to_string().contains("already keeps another version 1 file"), "{said}");
}

#[test]
fn a_state_that_is_a_symlink_or_folder_is_not_followed() {
    let project = Project::new();
    with_lines(&project, 1);
    let victim = project.temp.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, project.armed.state()).unwrap();
    let said = project.load().unwrap_err();
    assert!(said.to_string().contains("STATE.json is a symlink"), "{said}");
    let locks = project.locks();
    let written = project.state_file(&Disk::default()).write(&locks.lock(Wait::ONCE).unwrap(), b"x", false);
    assert!(matches!(written, Err(StoreError::Escaped { .. })));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}
