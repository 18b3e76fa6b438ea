//! A disk that fails in the middle of a commit: the journal is cut back, the state and the loop lose nothing.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use devloop_host::store::*;

use super::support::{
    EIO, ENOSPC, Faults, Project, TestLines, TestStates, group, snapshot, start, state, step, tree,
};

fn store(project: &Project, disk: &Disk) -> Store {
    Store::new(project.armed.clone(), disk.clone(), Arc::new(TestLines), Arc::new(TestStates))
}

/// A store with one segment and one committed line.
fn begun(project: &Project, disk: &Disk) -> (Store, Tip) {
    let mut store = store(project, disk);
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let head = snapshot(&start(), "new");
    let committed = store.start_segment(&lock, &head, &state(&head.tip(), "new")).unwrap();
    let line = step(&committed.tip, "one");
    let committed =
        store.commit(&lock, std::slice::from_ref(&line), &state(&line.tip(), "one"), false).unwrap();
    assert!(committed.state_error.is_none());
    (store, committed.tip)
}

/// All files of the project but LOCK, whose record names the last holder.
fn files_but_lock(project: &Project) -> Vec<(PathBuf, Vec<u8>)> {
    tree(project.armed.folder()).into_iter().filter(|(path, _)| !path.ends_with("LOCK")).collect()
}

#[test]
fn a_failed_group_is_cut_back_and_the_next_one_succeeds() {
    let failures = [
        (Point::JournalWrite, Verdict::Fail(ENOSPC)),
        (Point::JournalWrite, Verdict::Short { bytes: 1, errno: ENOSPC }),
        (Point::JournalWrite, Verdict::Short { bytes: 300, errno: ENOSPC }),
        (Point::JournalWrite, Verdict::Short { bytes: usize::MAX, errno: EIO }),
        (Point::JournalSync, Verdict::Fail(EIO)),
    ];
    for (point, verdict) in failures {
        let project = Project::new();
        let (faults, disk) = Faults::disk();
        let (mut store, before) = begun(&project, &disk);
        let bytes = files_but_lock(&project);
        let locks = project.locks();
        let lock = locks.lock(Wait::ONCE).unwrap();
        let lines = group(&before, 3, "two");
        let document = state(&lines[2].tip(), "two");
        faults.next(point, verdict);
        let failed = store.commit(&lock, &lines, &document, false).unwrap_err();
        assert!(matches!(failed, StoreError::CommitFailed { cut_back: true, .. }), "{failed}");
        let full = matches!(verdict, Verdict::Fail(ENOSPC) | Verdict::Short { errno: ENOSPC, .. });
        assert_eq!(failed.is_disk_full(), full);
        assert_eq!(store.journal().tip(), None, "the instance must load again");
        assert_eq!(files_but_lock(&project), bytes, "{point:?} {verdict:?}");
        assert!(matches!(store.commit(&lock, &lines, &document, false), Err(StoreError::Misuse(_))));

        assert!(matches!(store.load().unwrap(), Loaded::Ready(r) if r.tip == before && r.lines.is_empty()));
        let committed = store.commit(&lock, &lines, &document, true).unwrap();
        assert_eq!(committed.tip, project.ready().tip);
    }
}

#[test]
fn when_even_the_cut_fails_the_next_load_tells_what_is_on_disk() {
    let project = Project::new();
    let (faults, disk) = Faults::disk();
    let (mut store, before) = begun(&project, &disk);
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let lines = group(&before, 2, "two");
    faults.next(Point::JournalWrite, Verdict::Short { bytes: lines[0].bytes.len() + 20, errno: EIO });
    faults.next(Point::JournalCut, Verdict::Fail(EIO));
    let failed = store.commit(&lock, &lines, &state(&lines[1].tip(), "two"), false).unwrap_err();
    assert!(matches!(failed, StoreError::CommitFailed { cut_back: false, .. }), "{failed}");
    let Loaded::Ready(recovered) = store.load().unwrap() else { panic!("not ready") };
    assert_eq!(recovered.lines, lines[..1], "the first line reached the disk whole, the second did not");
    let next = step(&recovered.tip, "three");
    let _ = store.commit(&lock, std::slice::from_ref(&next), &state(&next.tip(), "three"), false).unwrap();
    assert_eq!(project.ready().tip, next.tip());
}

#[test]
fn a_state_file_that_cannot_be_written_does_not_undo_the_commit() {
    for (point, errno) in [(Point::StateWrite, ENOSPC), (Point::StateSync, EIO), (Point::StateRename, EIO)] {
        let project = Project::new();
        let (faults, disk) = Faults::disk();
        let (mut store, before) = begun(&project, &disk);
        let locks = project.locks();
        let lock = locks.lock(Wait::ONCE).unwrap();
        let line = step(&before, "two");
        faults.next(point, Verdict::Fail(errno));
        let committed =
            store.commit(&lock, std::slice::from_ref(&line), &state(&line.tip(), "two"), true).unwrap();
        assert!(committed.state_error.is_some());
        let recovered = project.ready();
        assert_eq!((recovered.tip, recovered.lines), (line.tip(), vec![line]));
        assert!(matches!(recovered.base, Base::State(bytes) if bytes == state(&before, "one")));
    }
}

#[test]
fn a_failed_segment_start_leaves_the_old_segment_whole() {
    let points = [
        (Point::SegmentWrite, Verdict::Short { bytes: 10, errno: ENOSPC }),
        (Point::SegmentSync, Verdict::Fail(EIO)),
        (Point::ArchiveWrite, Verdict::Fail(ENOSPC)),
        (Point::ArchiveRename, Verdict::Fail(EIO)),
        (Point::FolderSync, Verdict::Fail(EIO)),
        (Point::SegmentRename, Verdict::Fail(EIO)),
    ];
    for (point, verdict) in points {
        let project = Project::new();
        let (faults, disk) = Faults::disk();
        let (mut store, before) = begun(&project, &disk);
        let events = project.event_bytes();
        let locks = project.locks();
        let lock = locks.lock(Wait::ONCE).unwrap();
        let head = snapshot(&before, "next");
        faults.next(point, verdict);
        store.start_segment(&lock, &head, &state(&head.tip(), "one")).unwrap_err();
        assert_eq!(project.event_bytes(), events, "{point:?}");
        assert!(matches!(store.load().unwrap(), Loaded::Ready(r) if r.tip == before), "{point:?}");
        // A line more, so that the archive of the failed try is only the start of the segment.
        let line = step(&before, "more");
        let _ = store.commit(&lock, std::slice::from_ref(&line), &state(&line.tip(), "more"), false).unwrap();
        let head = snapshot(&line.tip(), "next");
        let _ = store.start_segment(&lock, &head, &state(&head.tip(), "more")).unwrap();
        let report = history::verify(&project.armed, &TestLines).unwrap().unwrap();
        assert_eq!((report.segments, report.lines, report.complete), (2, 4, true), "{point:?}");
        let left = tree(project.armed.folder());
        assert!(!left.iter().any(|(p, _)| p.to_string_lossy().ends_with("devloop-tmp")), "{point:?}");
    }
}

#[test]
fn a_full_disk_commits_nothing_and_the_reserve_lets_the_halt_through() {
    let mut project = Project::new();
    let small = project.temp.path().join("small");
    fs::create_dir(&small).unwrap();
    // A real full disk where this user may mount one; elsewhere the same errors from the medium.
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1200k", "tmpfs"])
        .arg(&small)
        .output()
        .is_ok_and(|out| out.status.success());
    let _unmount = Unmount(mounted.then(|| small.clone()));
    let (faults, disk) = Faults::disk();
    project.armed = layout::arm(&disk, &small, "# Goal\n").unwrap();
    let (mut store, before) = begun(&project, &disk);
    reserve::fill(&disk, &project.armed).unwrap();
    assert_eq!(fs::metadata(project.armed.reserve()).unwrap().len(), reserve::RESERVE_BYTES as u64);
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let line = step(&before, &"x".repeat(400_000));
    if !mounted {
        faults.next(Point::JournalWrite, Verdict::Short { bytes: 4096, errno: ENOSPC });
    }
    let failed =
        store.commit(&lock, std::slice::from_ref(&line), &state(&line.tip(), "x"), false).unwrap_err();
    assert!(
        failed.is_disk_full() && matches!(failed, StoreError::CommitFailed { cut_back: true, .. }),
        "{failed}"
    );
    assert_eq!(project.ready().tip, before);
    let free = reserve::free_bytes(project.armed.folder()).unwrap().unwrap();
    assert!(!mounted || free < 400_000, "{free} bytes free");

    assert!(reserve::release(&project.armed).unwrap());
    assert!(!reserve::release(&project.armed).unwrap());
    store.load().unwrap();
    let committed = store.commit(&lock, std::slice::from_ref(&line), &state(&line.tip(), "x"), true).unwrap();
    assert!(committed.state_error.is_none());
    assert_eq!(project.ready().tip, line.tip());
}

struct Unmount(Option<PathBuf>);

impl Drop for Unmount {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = Command::new("umount").arg("-l").arg(path).output();
        }
    }
}
