//! SIGKILL at any moment: the loop is killed again and again at times drawn from a seed, and started again
//! until the night is over. Nothing is lost, nothing is done twice, nothing is left behind.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use devloop_host::process::tree::{self, ProcessId};
use serde_json::Value;

use crate::support::{Bench, PROGRAM, ran};

/// Loops are killed until so many lives have been taken.
const LIVES: u64 = 25;

fn start(bench: &Bench, root: &Path) -> Child {
    let mut command = bench.command(PROGRAM);
    command.args(["run", root.to_str().unwrap(), "--until-idle"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits for the end of a life; none when it was still running after `ms`.
fn life(child: &mut Child, ms: u64) -> Option<i32> {
    let until = Instant::now() + Duration::from_millis(ms);
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    None
}

/// Answers everything that is open with the first choice, as a person would paste it.
fn paste_first_choices(bench: &Bench, root: &Path) {
    let (_, view) = bench.status(root);
    for question in view["questions"].as_array().unwrap() {
        let offers = question["answers"].as_array().unwrap();
        let first = offers.iter().find(|offer| offer["recommended"] == true).unwrap();
        bench.sh(first["command"].as_str().unwrap());
    }
}

fn git(bench: &Bench, root: &Path, args: &[&str]) -> String {
    ran(bench.command("git").arg("-C").arg(root).args(args).output().unwrap()).out
}

#[test]
fn a_loop_killed_again_and_again_finishes_its_night_once() {
    // Each seed was the first to find a fault of its own: a lost worktree removal, a question answered for
    // ever.
    [1, 7, 20_261_130].into_iter().for_each(night);
}

fn night(seed: u64) {
    let bench = Bench::new();
    let root = bench.sample("sample", 60);
    let mut random = devloop_testkit::random::Random::new(seed);
    for _ in 0..LIVES {
        let mut child = start(&bench, &root);
        match life(&mut child, 40 + random.below(900)) {
            Some(_) => paste_first_choices(&bench, &root),
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
    }
    let mut phase = String::new();
    for _ in 0..40 {
        let mut child = start(&bench, &root);
        child.wait().unwrap();
        phase = bench.status(&root).1["phase"].as_str().unwrap().to_owned();
        if phase == "complete" {
            break;
        }
        paste_first_choices(&bench, &root);
    }
    let (_, view) = bench.status(&root);
    assert_eq!(phase, "complete", "{view:#}");

    let dispatches = git(
        &bench,
        &root,
        &["log", "--merges", "--format=%(trailers:key=Devloop-Dispatch,valueonly)", "work"],
    );
    let all: Vec<&str> = dispatches.split_whitespace().collect();
    let unique: BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(all.len(), unique.len(), "no merge is done twice: {all:?}");
    let tasks =
        git(&bench, &root, &["log", "--merges", "--format=%(trailers:key=Devloop-Task,valueonly)", "work"]);
    let merged: BTreeSet<&str> = tasks.split_whitespace().collect();
    let done = view["tasks"].as_array().unwrap().iter().filter(|task| task["stage"] == "merged").count();
    assert_eq!(merged.len(), done, "every merged task is in the target: {view:#}");

    assert_eq!(bench.verb("replay", &root).code, 0, "the journal proves itself");
    a_what_if_reproduces_it(&bench, &root);
    let left = |args: &[&str]| git(&bench, &root, args);
    assert_eq!(left(&["status", "--porcelain"]), "", "the checkout is clean");
    assert_eq!(left(&["worktree", "list"]).lines().count(), 1, "no worktree is left");
    assert_eq!(view["money"]["goal"]["reserved"], 0, "no money stays set aside");
    assert!(view["running"].as_array().unwrap().is_empty());
    let doctor = bench.verb("doctor", &root);
    assert_eq!(doctor.code, 0, "{}", doctor.out);
}

/// The run record of a worker that runs: its process.
fn worker(root: &Path) -> Option<ProcessId> {
    let names = std::fs::read_dir(root.join(".devloop/runs")).ok()?;
    let records = names.flatten().filter_map(|name| std::fs::read(name.path()).ok());
    let records = records.filter_map(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let leader = |record: Value| {
        let leader = (record["role"] == "work").then(|| record["leader"].clone())?;
        let pid = i32::try_from(leader["pgid"].as_i64()?).ok()?;
        Some(ProcessId { pid, started_ticks: leader["child_started"].as_u64()? })
    };
    records.filter_map(leader).next()
}

/// Looks until there is something to see.
fn wait_for<T>(look: impl Fn() -> Option<T>) -> Option<T> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match look() {
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(3)),
            seen => return seen,
        }
    }
}

/// Nobody has to start the next loop for that: the kernel ends what the killed one started.
#[test]
fn a_worker_dies_with_the_loop_that_was_killed() {
    let bench = Bench::new();
    let root = bench.sample("sample", 0);
    let path = root.join(".devloop/demo.json");
    let mut script: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for rule in script["rules"].as_array_mut().unwrap().iter_mut().filter(|rule| rule["role"] == "work") {
        rule["process"] = true.into();
        rule["result"] = serde_json::json!({ "end": "hang" });
    }
    std::fs::write(&path, serde_json::to_vec(&script).unwrap()).unwrap();
    let mut child = start(&bench, &root);
    let worker = wait_for(|| worker(&root)).expect("a worker runs");
    assert!(tree::is_alive(worker), "it hangs");
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = wait_for(|| (!tree::is_alive(worker)).then_some(()));
    assert_eq!(gone, Some(()), "the worker outlived the loop");
}

/// The night with its crashes comes out of the drawing again.
fn a_what_if_reproduces_it(bench: &Bench, root: &Path) {
    let policy = bench.path("policy.json");
    std::fs::write(&policy, "{}").unwrap();
    let ran = bench.devloop(&["replay", root.to_str().unwrap(), "--with", policy.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for part in ["Nothing differs.", "the recorded night comes out, line by line", "0 unknown"] {
        assert!(ran.out.contains(part), "no {part:?} in {}", ran.out);
    }
}
