//! The three locks: who may, who is refused and how, and that a dead holder lets go.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use devloop_host::error::ErrorKind;
use devloop_host::store::*;

use super::support::{ENOLCK, Faults, Project};

const CHILD: &str = "DEVLOOP_TEST_LOCK_CHILD";

/// Entry of the child process: holds OWNER and LOCK until it is killed.
#[test]
fn child_that_holds_the_locks() {
    let Ok(text) = std::env::var(CHILD) else { return };
    let (root, user) = text.split_once('\n').unwrap();
    let armed = layout::require_armed(root.as_ref()).unwrap();
    let locks = Locks::new(armed, UserFolder::at(user), Disk::default(), Identity::new_instance());
    let owner = locks.own(Wait::ONCE).unwrap();
    let _lock = owner.lock(Wait::ONCE).unwrap();
    println!("holding");
    let mut end = String::new();
    std::io::stdin().read_line(&mut end).unwrap();
}

fn spawn_holder(project: &Project) -> Child {
    let text = format!("{}\n{}", project.armed.root().display(), project.user.folder().display());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "locks::child_that_holds_the_locks", "--nocapture", "--test-threads=1"])
        .env(CHILD, text)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    assert!(out.lines().map_while(Result::ok).any(|line| line.contains("holding")));
    child
}

#[test]
fn a_second_supervisor_is_refused_with_the_holder_named_until_the_holder_is_killed() {
    let project = Project::new();
    let mut child = spawn_holder(&project);
    let refused = project.locks().own(Wait::ONCE).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    let said = refused.to_string();
    assert!(said.contains(&format!("process {} on ", child.id())), "{said}");
    assert!(said.contains(" since 20"), "{said}");
    let locks = project.locks();
    let busy = locks.lock(Wait::up_to_ms(30)).unwrap_err();
    assert!(matches!(busy, StoreError::LockBusy { waited_ms: 30.., .. }), "{busy}");
    assert!(busy.to_string().contains(&format!("LOCK is held by process {}", child.id())), "{busy}");

    child.kill().unwrap();
    child.wait().unwrap();
    let record = locks.owner_record().unwrap().unwrap();
    assert!(!record.released);
    assert_eq!(record.identity().is_alive(), Some(false));
    let owner = locks.own(Wait::ONCE).unwrap();
    assert_eq!(owner.epoch(), record.epoch + 1);
    owner.lock(Wait::ONCE).unwrap();
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// A laptop that sleeps, a debugger, Ctrl-Z: who holds a lock holds it, however long nothing is heard.
#[test]
fn a_suspended_holder_keeps_its_locks_and_is_named() {
    let project = Project::new();
    let mut child = spawn_holder(&project);
    signal(&child, "STOP");
    let refused = project.locks().own(Wait::up_to_ms(50)).unwrap_err();
    assert!(matches!(refused, StoreError::OwnerHeld { .. }), "{refused}");
    assert!(refused.to_string().contains(&format!("process {} on ", child.id())), "{refused}");
    let locks = project.locks();
    let busy = locks.lock(Wait::up_to_ms(50)).unwrap_err();
    assert!(matches!(busy, StoreError::LockBusy { .. }), "{busy}");
    assert_eq!(locks.owner_record().unwrap().unwrap().identity().is_alive(), Some(true));
    signal(&child, "CONT");
    child.kill().unwrap();
    child.wait().unwrap();
    project.locks().own(Wait::ONCE).unwrap();
}

/// Only the lock of the system counts; what the file says is for people.
#[test]
fn what_a_lock_file_says_neither_holds_nor_frees_it() {
    let project = Project::new();
    // An id that runs (this process), as another process with that id would have written it.
    let first = project.locks().own(Wait::ONCE).unwrap();
    let mut reused = first.record().clone();
    drop(first);
    (reused.started, reused.released) = (reused.started.wrapping_sub(1), false);
    assert_eq!(reused.identity().is_alive(), Some(false), "a reused process id is another process");
    fs::write(project.armed.owner(), serde_json::to_vec(&reused).unwrap()).unwrap();
    let next = project.locks().own(Wait::ONCE).unwrap();
    assert_eq!(next.epoch(), reused.epoch + 1);
    drop(next);
    for torn in ["", "{", "4711\n", "\u{0}\u{0}\u{0}", "{\"v\":2,\"pid\":\"x\"}"] {
        fs::write(project.armed.owner(), torn).unwrap();
        let owner = project.locks().own(Wait::ONCE).unwrap();
        assert_eq!(owner.epoch(), 1, "{torn:?}");
        // Emptied by somebody while it is held: still held, by one who left no record, and fenced.
        fs::write(project.armed.owner(), torn).unwrap();
        let refused = project.locks().own(Wait::ONCE).unwrap_err();
        assert!(refused.to_string().contains("a process that left no record"), "{torn:?}: {refused}");
        assert!(matches!(owner.verify(), Err(StoreError::Fenced { .. })), "{torn:?}");
    }
}

#[test]
fn a_command_commits_beside_a_supervisor_and_waits_for_its_lock() {
    let project = Project::new();
    let owner = project.locks().own(Wait::ONCE).unwrap();
    let command = project.locks();
    drop(command.lock(Wait::ONCE).unwrap());
    std::thread::scope(|scope| {
        let held = owner.lock(Wait::ONCE).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = scope.spawn(move || {
            tell.send(matches!(command.lock(Wait::ONCE), Err(StoreError::LockBusy { .. }))).unwrap();
            command.lock(Wait::up_to_ms(60_000)).map(drop)
        });
        assert!(told.recv().unwrap(), "held by the supervisor");
        drop(held);
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn every_way_to_the_same_repository_meets_the_same_lock() {
    let project = Project::new();
    let root = project.armed.root().to_path_buf();
    fs::create_dir(root.join(".git")).unwrap();
    fs::create_dir(root.join("sub")).unwrap();
    let link = project.temp.path().join("link");
    symlink(&root, &link).unwrap();
    let _owner = project.locks().own(Wait::ONCE).unwrap();
    for way in [link.clone(), link.join("sub"), root.join("sub")] {
        let armed = layout::require_armed(&layout::find_root(&way).unwrap()).unwrap();
        let locks = Locks::new(armed, project.user.clone(), Disk::default(), Identity::new_instance());
        assert!(matches!(locks.own(Wait::ONCE), Err(StoreError::OwnerHeld { .. })), "{}", way.display());
    }
    // A bind mount gives the same inode under a path that canonicalize cannot unite; so does a hard link.
    let other = project.temp.path().join("bound");
    fs::create_dir_all(other.join(".devloop")).unwrap();
    fs::write(other.join(".devloop/GOAL.md"), "x").unwrap();
    fs::hard_link(project.armed.owner(), other.join(".devloop/OWNER")).unwrap();
    let armed = layout::require_armed(&other).unwrap();
    let locks = Locks::new(armed, project.user.clone(), Disk::default(), Identity::new_instance());
    assert!(matches!(locks.own(Wait::ONCE), Err(StoreError::OwnerHeld { .. })));
}

#[test]
fn the_epoch_grows_and_a_replaced_owner_is_fenced() {
    let project = Project::new();
    let first = project.locks().own(Wait::ONCE).unwrap();
    assert_eq!(first.epoch(), 1);
    first.verify().unwrap();
    drop(first);
    assert!(project.locks().owner_record().unwrap().unwrap().released);
    let second = project.locks().own(Wait::ONCE).unwrap();
    assert_eq!(second.epoch(), 2);

    // Somebody removes the file by hand; a third supervisor then gets a fresh one.
    fs::remove_file(project.armed.owner()).unwrap();
    assert!(matches!(second.verify(), Err(StoreError::Fenced { mine: 2, .. })));
    let third = project.locks().own(Wait::ONCE).unwrap();
    let fenced = second.verify().unwrap_err();
    assert_eq!(fenced.kind(), ErrorKind::Stale);
    assert!(fenced.to_string().contains("no longer owns"), "{fenced}");
    drop(second);
    third.verify().unwrap();
    assert!(
        !project.locks().owner_record().unwrap().unwrap().released,
        "the fenced one left the record alone"
    );
}

#[test]
fn a_lock_removed_under_its_holder_commits_nothing() {
    let project = Project::new();
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    lock.require(&project.armed).unwrap();
    fs::remove_file(project.armed.lock()).unwrap();
    assert!(matches!(lock.require(&project.armed), Err(StoreError::Stale { .. })));
    let other = Project::new();
    let locks = other.locks();
    let foreign = locks.lock(Wait::ONCE).unwrap();
    assert!(matches!(foreign.require(&project.armed), Err(StoreError::Misuse(_))));
}

#[test]
fn a_file_system_without_locks_is_refused_in_a_sentence() {
    let project = Project::new();
    let (faults, disk) = Faults::disk();
    faults.next(Point::Lock, Verdict::Fail(ENOLCK));
    let said = project.locks_on(&disk).own(Wait::up_to_ms(1000)).unwrap_err();
    assert!(matches!(said, StoreError::NoLocks { .. }), "{said}");
    assert!(said.to_string().contains("has no file locks"), "{said}");
}

#[test]
fn a_living_plugin_of_version_1_is_refused_and_a_dead_one_is_not() {
    let project = Project::new();
    let locks = project.locks();
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    fs::write(project.armed.lock(), format!("{}\n", child.id())).unwrap();
    let refused = locks.lock(Wait::ONCE).unwrap_err();
    assert!(matches!(refused, StoreError::ForeignLock { pid } if pid == child.id()), "{refused}");
    assert_eq!(fs::read_to_string(project.armed.lock()).unwrap(), format!("{}\n", child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    drop(locks.lock(Wait::ONCE).unwrap());

    // One that may not be looked at (to a user who is not root, process 1) lives.
    fs::write(project.armed.lock(), "1").unwrap();
    let refused = locks.lock(Wait::ONCE).unwrap_err();
    assert!(matches!(refused, StoreError::ForeignLock { pid: 1 }), "{refused}");

    // A pid that lives again is not the old plugin when nothing refreshed the file for half a minute.
    fs::write(project.armed.lock(), "1").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(31);
    fs::File::options().write(true).open(project.armed.lock()).unwrap().set_modified(old).unwrap();
    drop(locks.lock(Wait::ONCE).unwrap());
}

#[test]
fn a_symlink_in_place_of_a_lock_file_is_refused() {
    let project = Project::new();
    let victim = project.temp.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, project.armed.lock()).unwrap();
    let locks = project.locks();
    let said = locks.lock(Wait::ONCE).unwrap_err();
    assert!(matches!(said, StoreError::Escaped { .. }), "{said}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn leftover_temporary_files_are_swept_and_others_stay() {
    let project = Project::new();
    let folder = project.armed.folder();
    fs::write(folder.join(".STATE.json.abc.devloop-tmp"), "half").unwrap();
    fs::write(folder.join(".hidden"), "mine").unwrap();
    fs::create_dir(project.armed.inbox()).unwrap();
    fs::write(project.armed.inbox().join(".d1.json.abc.devloop-tmp"), "half").unwrap();
    fs::write(project.armed.inbox().join("d2.json"), "{}").unwrap();
    let elsewhere = project.temp.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join(".x.devloop-tmp"), "theirs").unwrap();
    symlink(&elsewhere, project.armed.runs()).unwrap();
    let owner = project.locks().own(Wait::ONCE).unwrap();
    let lock = owner.lock(Wait::ONCE).unwrap();
    assert_eq!(owner.sweep(&lock).unwrap(), 2);
    assert!(folder.join(".hidden").exists() && project.armed.goal().exists());
    assert!(project.armed.inbox().join("d2.json").exists());
    assert!(elsewhere.join(".x.devloop-tmp").exists(), "nothing is removed through a link");
}

#[test]
fn ledger_is_reached_through_lock_only_and_is_one_for_all_projects() {
    let (one, mut two) = (Project::new(), Project::new());
    two.user = one.user.clone();
    let (locks_one, locks_two) = (one.locks(), two.locks());
    let (lock_one, lock_two) = (locks_one.lock(Wait::ONCE).unwrap(), locks_two.lock(Wait::ONCE).unwrap());
    let held = lock_one.ledger(Wait::ONCE).unwrap();
    let busy = lock_two.ledger(Wait::ONCE).unwrap_err();
    assert!(matches!(busy, StoreError::LockBusy { lock: error::LockName::Ledger, .. }), "{busy}");
    drop(held);
    lock_two.ledger(Wait::ONCE).unwrap();
}
