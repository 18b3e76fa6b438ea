//! One loop per repository, by whatever way a second one comes: a subfolder, a link, a bind mount, another
//! container; beside a loop that sleeps; and after one whose process id belongs to somebody else now.

use std::fs;
use std::path::Path;

use crate::running::Loop;
use crate::support::{Bench, PROGRAM, Ran};

/// A command in namespaces of its own, as a container has them. `None`: this machine lets nobody make any.
fn contained(bench: &Bench, script: &str) -> Option<Ran> {
    let possible = bench.sh("unshare --user --map-root-user --mount --pid --fork --mount-proc true");
    if possible.code != 0 {
        eprintln!("skipped: this machine gives no namespaces: {}", possible.err.trim());
        return None;
    }
    Some(
        bench.sh(&format!(
            "unshare --user --map-root-user --mount --pid --fork --mount-proc sh -c '{script}'"
        )),
    )
}

fn refused(ran: &Ran, pid: u32, way: &str) {
    assert_eq!(ran.code, 1, "{way}: {ran:?}");
    assert!(ran.err.contains("another supervisor runs this project"), "{way}: {}", ran.err);
    assert!(ran.err.contains(&format!("process {pid} on ")), "{way}: {}", ran.err);
    assert!(ran.err.contains("try: "), "{way}: {}", ran.err);
}

#[test]
fn a_second_loop_is_refused_by_every_way_to_the_repository() {
    let bench = Bench::new();
    let root = bench.sample("sample", 600_000);
    let mut running = Loop::start(&bench, &root);
    running.until("plan      the goal");
    let pid = running.child.id();
    let shown = root.display();
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    for folder in [format!("{shown}/sub/deep"), format!("{shown}/.devloop")] {
        refused(&bench.sh(&format!("cd {folder} && {PROGRAM} run")), pid, &folder);
    }
    // Another container sees other process ids; the same folder at another place has the same locks.
    let Some(there) = contained(&bench, &format!("{PROGRAM} run {shown}")) else { return };
    refused(&there, pid, "another container");
    let bound = bench.path("bound");
    fs::create_dir(&bound).unwrap();
    let bind = format!("mount --bind {shown} {0} && {PROGRAM} run {0}", bound.display());
    refused(&contained(&bench, &bind).unwrap(), pid, "a bind mount");
}

/// A loop in a container is not taken for dead because its process id means nobody here.
#[test]
fn a_loop_in_another_container_is_presumed_to_run() {
    let bench = Bench::new();
    let root = bench.sample("sample", 600_000);
    if contained(&bench, "true").is_none() {
        return;
    }
    let inside = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child", PROGRAM];
    let mut running = Loop::start_with(&bench, &root, "unshare", &inside);
    running.until("plan      the goal");
    let status = bench.verb("status", &root);
    assert!(status.out.contains("or in a container of it, runs the loop, or died there"), "{}", status.out);
    let second = bench.verb("run", &root);
    assert!(second.code == 1 && second.err.contains("another supervisor runs"), "{second:?}");
    let paused = bench.devloop(&["pause", root.to_str().unwrap(), "--now"]);
    assert_eq!(paused.code, 0, "{paused:?}");
    running.until("The loop is paused.");
}

/// A loop that is stopped keeps the project; what is committed beside it is done when it goes on.
#[test]
fn beside_a_suspended_loop_commands_work_and_another_loop_is_refused() {
    let bench = Bench::new();
    let root = bench.sample("sample", 600_000);
    let mut running = Loop::start(&bench, &root);
    running.until("plan      the goal");
    running.signal(&bench, "STOP");
    refused(&bench.verb("run", &root), running.child.id(), "a suspended loop");
    let status = bench.verb("status", &root);
    assert!(status.code == 0 && status.out.contains("runs the loop"), "{status:?}");
    let paused = bench.devloop(&["pause", root.to_str().unwrap(), "--now"]);
    assert_eq!(paused.code, 0, "{paused:?}");
    running.signal(&bench, "CONT");
    running.until("The loop is paused.");
}

/// OWNER of a killed loop whose process id is another program's now.
#[test]
fn a_reused_process_id_is_not_the_loop() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let owner = root.join(".devloop/OWNER");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&owner).unwrap()).unwrap();
    record["pid"] = std::process::id().into();
    record["released"] = false.into();
    fs::write(&owner, record.to_string()).unwrap();
    let status = bench.verb("status", &root);
    assert!(status.out.contains("No loop runs: the last one"), "{}", status.out);
    assert_eq!(bench.verb("tick", &root).code, 0);
    check_released(&owner);
}

fn check_released(owner: &Path) {
    let record: serde_json::Value = serde_json::from_slice(&fs::read(owner).unwrap()).unwrap();
    assert_eq!(record["released"], true, "{record}");
}
