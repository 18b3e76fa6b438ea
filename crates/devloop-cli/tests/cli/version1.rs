//! Projects of the earlier plugin, with the real program: they are taken over and go on, its files are kept,
//! a living old plugin is respected, and what cannot be carried over is refused and left as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Bench, PROGRAM, everything};

/// The files of a fixture in tests/documents/v1.
fn fixture(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/documents/v1").join(name);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|path| !path.ends_with("MIGRATED.json")).collect();
    files.sort();
    let named =
        |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap());
    files.into_iter().map(named).collect()
}

fn put(root: &Path, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        fs::write(root.join(".devloop").join(name), bytes).unwrap();
    }
}

/// An armed repository with the files of a fixture, on the branch that the fixture worked on.
fn project(bench: &Bench, name: &str) -> PathBuf {
    let root = bench.armed(name);
    let files = fixture(name);
    put(&root, &files);
    let state = files.iter().find(|(name, _)| name == "STATE.json").map(|(_, bytes)| bytes);
    let state = state.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    if let Some(branch) = state.as_ref().and_then(|state| state["workBranch"].as_str()) {
        bench.git(&root, &["switch", "--quiet", "-c", branch]);
    }
    root
}

fn read(root: &Path, name: &str) -> Option<Vec<u8>> {
    fs::read(root.join(".devloop").join(name)).ok()
}

#[test]
fn every_fixture_is_shown_taken_over_and_kept() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/documents/v1");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().is_dir())
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(names.len() >= 15, "{names:?}");
    let bench = Bench::new();
    for name in names {
        let root = project(&bench, &name);
        let files = fixture(&name);
        let before = everything(&root);
        let (_, view) = bench.status(&root);
        assert!(view["revision"].as_u64().is_some(), "{name}: {view}");
        assert_eq!(everything(&root), before, "{name}: status writes nothing");

        let ticked = bench.verb("tick", &root);
        assert!(ticked.code == 0 || ticked.code == 1, "{name}: {ticked:?}");
        let kept = |old: &str| files.iter().find(|(name, _)| name == old).map(|(_, bytes)| bytes.clone());
        assert_eq!(read(&root, "STATE.v1.json"), kept("STATE.json"), "{name}");
        assert_eq!(read(&root, "EVENTS.v1.jsonl"), kept("EVENTS.jsonl"), "{name}");
        for marker in ["COMMIT_HOLD", "PENDING_HOLD"] {
            assert_eq!(read(&root, marker), kept(marker), "{name}");
        }
        let (_, after) = bench.status(&root);
        assert!(after["revision"].as_u64() > view["revision"].as_u64(), "{name}: {after}");
        let replayed = bench.verb("replay", &root);
        assert_eq!(replayed.code, 0, "{name}: {replayed:?}");
        let again = bench.verb("tick", &root);
        assert_eq!(again.code, ticked.code, "{name}: {again:?}");
        assert_eq!(read(&root, "STATE.v1.json"), kept("STATE.json"), "{name}");
    }
}

#[test]
fn a_night_that_the_earlier_plugin_began_is_finished() {
    let bench = Bench::new();
    let root = bench.sample("sample", 0);
    let task = |id: &str, status: &str, paths: &[&str]| {
        json!({
            "id": id, "title": id, "tier": "T1", "status": status, "risk": "low", "attempts": 0,
            "reviewCycles": 0, "allowedPaths": paths, "acceptance": ["it works"]
        })
    };
    let state = json!({
        "version": 1, "revision": 12, "goalCompleted": false, "killSwitch": false, "supervisor": null,
        "tasks": [task("before", "done", &["docs/**"]), task("farewell", "ready", &["bin/**", "tests/**"])],
        "usage": {
            "taskAttempts": {}, "refusedDispatches": {}, "reviewCycles": {}, "taskStartedAt": {},
            "tokens": {}, "costUsdSession": 0, "costUsdDay": 0.125, "lastActions": [],
            "lastProgressAt": 1_785_000_000_000_u64, "parallelWorkers": 0
        },
        "lastAction": { "type": "idle" }, "lastDispatchStatus": null, "updatedAt": "2026-07-25T17:20:00.000Z"
    });
    put(&root, &[("STATE.json".into(), state.to_string().into_bytes())]);
    let run = || bench.devloop(&["run", root.to_str().unwrap(), "--until-idle"]);
    let first = run();
    // Nothing of old says which text was planned for and on which branch: both are there now.
    assert_eq!(first.code, 0, "{first:?}");
    assert!(first.out.contains("merged    farewell"), "{}", first.out);
    let (_, view) = bench.status(&root);
    assert_eq!(view["phase"], "complete", "{view:#}");
    assert_eq!(bench.verb("replay", &root).code, 0);
    let text = bench.sh(&format!("cd {} && sh tests/run.sh", root.display()));
    assert_eq!(text.code, 0, "{text:?}");
}

#[test]
fn a_pause_and_a_hold_of_old_end_by_the_commands_that_status_prints() {
    let bench = Bench::new();
    let paused = project(&bench, "0.5-paused");
    let said = bench.verb("status", &paused);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.out.contains("The loop is paused.") && said.out.contains("today      $0.80"),
        "{}",
        said.out
    );
    assert_eq!(bench.verb("tick", &paused).code, 1);
    assert_eq!(bench.verb("resume", &paused).code, 0);
    assert_ne!(bench.status(&paused).1["phase"], "paused");

    let held = project(&bench, "0.6.0-both-holds");
    let (_, view) = bench.status(&held);
    let question = &view["questions"][0];
    assert_eq!(question["key"], "task/TASK-001:acceptance_failed", "{view:#}");
    let retry = question["answers"][0]["command"].as_str().unwrap();
    assert!(retry.starts_with(PROGRAM) && retry.contains(" answer retry "), "{retry}");
    let answered = bench.sh(retry);
    assert_eq!(answered.code, 0, "{answered:?}");
    assert_eq!(bench.status(&held).1["questions"].as_array().map(Vec::len), Some(0));
    assert!(read(&held, "STATE.v1.json").is_some(), "an answer takes the project over too");
}

#[test]
fn a_living_plugin_of_old_is_left_its_project() {
    let bench = Bench::new();
    let root = project(&bench, "0.4-refused");
    let mut plugin = bench.command("cat").stdin(Stdio::piped()).spawn().unwrap();
    let lock = root.join(".devloop/LOCK");
    let files = fixture("0.4-refused");
    for verb in ["tick", "run", "resume", "pause"] {
        // The old plugin touches it every five seconds.
        fs::write(&lock, plugin.id().to_string()).unwrap();
        let refused = bench.verb(verb, &root);
        assert_eq!(refused.code, 1, "{verb}: {refused:?}");
        let says = format!("the earlier DevLoop plugin (process {}) is at work on this project", plugin.id());
        assert!(refused.err.contains(&says), "{verb}: {}", refused.err);
        assert!(refused.err.contains("  try: "), "{verb}: {}", refused.err);
        assert_eq!(fs::read_to_string(&lock).unwrap(), plugin.id().to_string(), "{verb}");
        for (name, bytes) in &files {
            assert_eq!(read(&root, name).as_ref(), Some(bytes), "{verb} touched {name}");
        }
        assert_eq!(read(&root, "STATE.v1.json"), None, "{verb}");
    }
    assert!(bench.status(&root).1["revision"].as_u64().is_some(), "reading is allowed");
    drop(plugin.stdin.take());
    plugin.wait().unwrap();
    assert!([0, 1].contains(&bench.verb("tick", &root).code));
    assert_eq!(read(&root, "STATE.v1.json").as_ref(), Some(&files[0].1));
}

#[test]
fn what_cannot_be_carried_over_is_refused_by_its_field_and_left_as_it_is() {
    let bench = Bench::new();
    let good = fixture("0.6.1-over-budget").remove(0).1;
    let change = |pointer: &str, value: Value| {
        let mut state: Value = serde_json::from_slice(&good).unwrap();
        *state.pointer_mut(pointer).unwrap() = value;
        state.to_string().into_bytes()
    };
    let table = [
        (change("/tasks/0/tier", json!("T9")), "tasks[0].tier"),
        (change("/usage/costUsdDay", json!("much")), "usage.costUsdDay"),
        (change("/supervisor/taskId", json!("nobody")), "supervisor.taskId"),
        (change("/tasks/1/allowedPaths/0", json!("../x")), "tasks[1].allowedPaths[0]"),
        (change("/killSwitch", json!(null)), "killSwitch"),
    ];
    for (i, (bytes, field)) in table.into_iter().enumerate() {
        let root = bench.armed(&format!("r{i}"));
        let state = root.join(".devloop/STATE.json");
        fs::write(&state, &bytes).unwrap();
        let before = everything(&root.join(".devloop"));
        for verb in ["status", "doctor"] {
            let said = bench.verb(verb, &root);
            assert_eq!(said.code, 1, "{verb}: {said:?}");
            assert!(format!("{}{}", said.out, said.err).contains(field), "{verb} {field}: {said:?}");
            assert_eq!(everything(&root.join(".devloop")), before, "{verb}");
        }
        for verb in ["tick", "run", "resume", "pause", "next"] {
            let said = bench.verb(verb, &root);
            assert_eq!(said.code, 1, "{verb}: {said:?}");
            assert!(said.err.contains(field) && said.err.contains(state.to_str().unwrap()), "{}", said.err);
            assert_eq!(fs::read(&state).unwrap(), bytes, "{verb}");
            assert_eq!((read(&root, "EVENTS.jsonl"), read(&root, "STATE.v1.json")), (None, None), "{verb}");
        }
        // The command that is named works: the file is out of the way, nothing is lost, and the loop goes on.
        let said = bench.verb("tick", &root);
        let line = said.err.lines().find_map(|line| line.strip_prefix("  try: mv")).unwrap_or_default();
        let moved = bench.sh(&format!("mv{line}"));
        assert_eq!(moved.code, 0, "{moved:?} {said:?}");
        assert_eq!(read(&root, "STATE.json.refused").as_ref(), Some(&bytes));
        assert_eq!(bench.verb("tick", &root).code, 0, "the goal starts anew");
    }
}
