//! The real files of version 1 under the store: a field of a wrong type is refused by its path with the file
//! named, and every byte in the folder stays as it was, whoever looks and whoever holds LOCK.

use std::fs;
use std::path::{Path, PathBuf};

use devloop_host::error::ErrorKind;
use devloop_host::machine::Native;
use devloop_host::session::Session;
use devloop_host::store::{Disk, Wait};
use devloop_wire::config_doc::Config;
use serde_json::{Value, json};

use crate::support::{Project, tree};

fn session(project: &Project) -> Session {
    let policy = Config::default().policy();
    Session::with_machine(project.armed.clone(), Disk::default(), policy, Box::new(Native::new())).unwrap()
}

fn fixtures() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/documents/v1");
    let mut cases: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|case| case.join("STATE.json").exists() && !case.join("EVENTS.jsonl").exists());
    cases.sort();
    let read = |case: &PathBuf| serde_json::from_slice(&fs::read(case.join("STATE.json")).unwrap()).unwrap();
    let name = |case: &PathBuf| case.file_name().unwrap().to_string_lossy().into_owned();
    cases.iter().map(|case| (name(case), read(case))).collect()
}

/// The JSON pointer of every value in a document.
fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, inner)| {
            out.push(format!("{at}/{key}"));
            pointers(inner, &format!("{at}/{key}"), out);
        }),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, inner)| {
            out.push(format!("{at}/{i}"));
            pointers(inner, &format!("{at}/{i}"), out);
        }),
        _ => {}
    }
}

/// What no release wrote, or what each may have dropped: the new loop takes any value there.
const LOOSE: [&str; 10] = [
    "lastAction",
    "lastDispatchStatus",
    "acknowledged",
    "paused",
    "release",
    "planner",
    "pullRequest",
    "overBudget",
    "estimate",
    "parallelWorkers",
];

#[test]
fn a_field_of_a_wrong_type_changes_no_byte_in_the_folder() {
    let mut refused = 0;
    for (name, whole) in fixtures() {
        let project = Project::new();
        let locks = project.locks();
        // LOCK writes who holds it, so it is taken before the picture.
        let lock = locks.lock(Wait::ONCE).unwrap();
        let mut found = Vec::new();
        pointers(&whole, "", &mut found);
        for pointer in found {
            if pointer.contains("lastActions") || LOOSE.iter().any(|loose| pointer.contains(loose)) {
                continue;
            }
            let mut bent = whole.clone();
            *bent.pointer_mut(&pointer).unwrap() = json!([[0]]);
            fs::write(project.armed.state(), bent.to_string()).unwrap();
            let before = tree(project.armed.folder());
            let key = pointer.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap();
            for with_lock in [false, true] {
                let mut session = session(&project);
                let done = if with_lock { session.sync(&lock) } else { session.look() };
                let error = done.expect_err(&format!("{name}: {pointer}"));
                let said = error.to_string();
                assert_eq!(error.kind(), ErrorKind::Integrity, "{name}: {pointer}: {said}");
                assert!(said.contains(key), "{name}: {pointer}: {said}");
                assert!(said.contains(project.armed.state().to_str().unwrap()), "{name}: {pointer}: {said}");
                assert!(tree(project.armed.folder()) == before, "{name}: {pointer}: a byte changed");
                refused += 1;
            }
        }
        // And as it was, it is taken over: the reader writes nothing, the holder of LOCK keeps the file.
        let text = serde_json::to_string_pretty(&whole).unwrap();
        fs::write(project.armed.state(), &text).unwrap();
        let before = tree(project.armed.folder());
        let mut session = session(&project);
        session.look().unwrap();
        assert!(tree(project.armed.folder()) == before, "{name}: looking wrote");
        session.sync(&lock).unwrap();
        assert_eq!(session.state().revision, whole["revision"].as_u64().unwrap(), "{name}");
        assert_eq!(fs::read_to_string(project.armed.state_v1()).unwrap(), text, "{name}");
        assert_eq!(fs::read_to_string(project.armed.state()).unwrap(), text, "{name}");
    }
    assert!(refused > 800, "{refused} refusals");
}

#[test]
fn markers_are_read_with_the_state_and_never_written() {
    let project = Project::new();
    let (_, state) = fixtures().into_iter().find(|(name, _)| name == "0.6.0-commit-hold").unwrap();
    fs::write(project.armed.state(), state.to_string()).unwrap();
    fs::write(project.armed.commit_hold_v1(), "TASK-001\n").unwrap();
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let mut held = session(&project);
    held.sync(&lock).unwrap();
    assert_eq!(held.state().open_holds().len(), 1);
    assert_eq!(fs::read_to_string(project.armed.commit_hold_v1()).unwrap(), "TASK-001\n");

    fs::write(project.armed.pending_hold_v1(), "[").unwrap();
    let before = tree(project.armed.folder());
    let error = session(&project).sync(&lock).unwrap_err();
    assert!(error.to_string().contains("PENDING_HOLD (version 1)"), "{error}");
    assert_eq!(error.path(), Some(project.armed.pending_hold_v1().as_path()));
    assert!(tree(project.armed.folder()) == before, "a byte changed");
}
