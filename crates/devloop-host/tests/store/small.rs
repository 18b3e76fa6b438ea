//! Small files, the trace and the reserve.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use devloop_host::store::*;

use super::support::{ENOSPC, Faults, Project};

#[test]
fn small_files_are_replaced_whole_private_and_never_through_a_symlink() {
    let project = Project::new();
    let (faults, disk) = Faults::disk();
    let armed = &project.armed;
    small::write_progress(&disk, armed, "one").unwrap();
    faults.next(Point::SmallWrite, Verdict::Short { bytes: 1, errno: ENOSPC });
    assert!(small::write_progress(&disk, armed, "two").unwrap_err().is_disk_full());
    assert_eq!(fs::read_to_string(armed.progress()).unwrap(), "one");
    assert_eq!(fs::metadata(armed.progress()).unwrap().permissions().mode() & 0o777, 0o600);
    small::write_budget(&disk, armed, b"{}").unwrap();
    assert_eq!(fs::read(armed.budget()).unwrap(), b"{}");

    small::write_plan(&disk, armed, "the plan").unwrap();
    small::write_plan(&disk, armed, " \n").unwrap();
    assert!(!armed.plan().exists(), "a stale plan does not outlive an empty one");
    let victim = project.temp.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, armed.review()).unwrap();
    assert!(matches!(small::write_review(&disk, armed, "x"), Err(StoreError::Escaped { .. })));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn reports_are_parked_and_run_records_kept_by_plain_names() {
    let project = Project::new();
    let disk = Disk::default();
    let armed = &project.armed;
    assert!(small::parked_reports(&disk, armed).unwrap().is_empty());
    small::park_report(&disk, armed, "d2", b"two").unwrap();
    small::park_report(&disk, armed, "d1", b"one").unwrap();
    let parked = small::parked_reports(&disk, armed).unwrap();
    assert_eq!(parked, [("d1".to_owned(), b"one".to_vec()), ("d2".to_owned(), b"two".to_vec())]);
    small::unpark_report(armed, "d1").unwrap();
    small::unpark_report(armed, "d1").unwrap();
    assert_eq!(small::parked_reports(&disk, armed).unwrap().len(), 1);
    // What is no report stops none; one at the limit is read, one above it is not parked at all.
    let limit = small::REPORT_MAX_BYTES as usize;
    small::park_report(&disk, armed, "d3", &vec![b' '; limit]).unwrap();
    let above = small::park_report(&disk, armed, "d4", &vec![b' '; limit + 1]);
    assert!(matches!(above, Err(StoreError::TooLarge { .. })), "{above:?}");
    fs::create_dir(armed.inbox().join("d5.json")).unwrap();
    symlink("/etc/hostname", armed.inbox().join("d6.json")).unwrap();
    fs::File::create(armed.inbox().join("d7.json")).unwrap().set_len(limit as u64 + 1).unwrap();
    let names: Vec<String> =
        small::parked_reports(&disk, armed).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["d2", "d3"]);

    small::write_run(&disk, armed, "d1", b"{}").unwrap();
    assert_eq!(small::read_run(&disk, armed, "d1", 10).unwrap(), Some(b"{}".to_vec()));
    assert_eq!(small::read_run(&disk, armed, "d9", 10).unwrap(), None);
    assert_eq!(small::read_runs(&disk, armed, 10).unwrap().len(), 1);
    small::remove_run(armed, "d1").unwrap();
    for bad in ["", ".", "../x", "a/b", ".hidden", "a b", &"x".repeat(129)] {
        assert!(matches!(small::write_run(&disk, armed, bad, b"{}"), Err(StoreError::Misuse(_))), "{bad}");
    }
    small::write_run(&disk, armed, &"x".repeat(128), b"{}").unwrap();
}

#[test]
fn the_trace_keeps_two_segments_and_every_one_starts_with_a_head() {
    let project = Project::new();
    let disk = Disk::default();
    let mut trace = trace::Trace::with_segment_bytes(project.armed.clone(), disk.clone(), 200);
    assert!(matches!(trace.append(&[b"x"]), Err(StoreError::Misuse(_))));
    for revision in 1..=30 {
        if trace.wants_head() {
            trace.begin(format!("{{\"revision\":{revision},\"head\":true}}").as_bytes()).unwrap();
        }
        trace.append(&[format!("{{\"revision\":{revision}}}").as_bytes()]).unwrap();
    }
    let parts = trace::read(&disk, &project.armed).unwrap();
    assert_eq!(parts.len(), 2);
    for (path, lines) in &parts {
        assert!(String::from_utf8_lossy(&lines[0]).contains("head"), "{}", path.display());
        assert!(fs::metadata(path).unwrap().len() < 300);
    }
    let (first, last) = trace::coverage(&parts).unwrap();
    assert!(first > 1 && last == 30, "{first} to {last}");

    // Another instance continues the file of the first, behind its last whole line.
    let before = parts[1].1.len();
    let mut torn = fs::read(project.armed.trace()).unwrap();
    torn.extend_from_slice(b"{\"revision\":31");
    fs::write(project.armed.trace(), torn).unwrap();
    let mut next = trace::Trace::with_segment_bytes(project.armed.clone(), disk.clone(), 10_000);
    assert!(next.wants_head());
    next.begin(b"{\"revision\":31,\"head\":true}").unwrap();
    let parts = trace::read(&disk, &project.armed).unwrap();
    assert_eq!(parts[1].1.len(), before + 1);
    assert_eq!(trace::coverage(&parts).unwrap().1, 31);
    trace::clear(&project.armed).unwrap();
    assert!(trace::read(&disk, &project.armed).unwrap().is_empty());
}

#[test]
fn after_a_failed_trace_write_a_head_is_wanted_again() {
    let project = Project::new();
    let (faults, disk) = Faults::disk();
    let mut trace = trace::Trace::new(project.armed.clone(), disk.clone());
    trace.begin(b"{\"revision\":1}").unwrap();
    faults.next(Point::TraceWrite, Verdict::Short { bytes: 5, errno: ENOSPC });
    assert!(trace.append(&[b"{\"revision\":2}"]).unwrap_err().is_disk_full());
    assert!(trace.wants_head());
    trace.begin(b"{\"revision\":3}").unwrap();
    let parts = trace::read(&disk, &project.armed).unwrap();
    assert_eq!(parts[0].1, [b"{\"revision\":1}".to_vec(), b"{\"revision\":3}".to_vec()]);
}

#[test]
fn the_registry_is_written_under_the_ledger_lock() {
    let project = Project::new();
    let disk = Disk::default();
    assert!(!ledger::exists(&project.user));
    assert_eq!(ledger::read_registry(&disk, &project.user, 100).unwrap(), None);
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let guard = lock.ledger(Wait::ONCE).unwrap();
    ledger::write_registry(&guard, &disk, b"{\"projects\":[]}").unwrap();
    let read = ledger::read_registry(&disk, &project.user, 100).unwrap();
    assert_eq!(read.as_deref(), Some(&b"{\"projects\":[]}"[..]));
    assert_eq!(fs::metadata(project.user.folder()).unwrap().permissions().mode() & 0o777, 0o700);
}
