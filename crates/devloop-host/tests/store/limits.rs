//! Sizes of files at their limit and one byte above it: read whole, or refused by name and left as they are.

use std::fs;
use std::path::{Path, PathBuf};

use devloop_host::effects::run_record::{self, Role, RunRecord};
use devloop_host::files::{self, FileProblem};
use devloop_host::settings;
use devloop_host::store::ledger::Ledger;
use devloop_host::store::*;

use super::support::Project;

/// Makes a file of exactly this length without writing it: zeros that no disk holds.
fn sparse(path: &Path, length: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::File::create(path).unwrap().set_len(length).unwrap();
}

/// A document with blanks behind it up to this length.
fn padded(path: &Path, document: &[u8], length: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut bytes = document.to_vec();
    bytes.resize(length, b' ');
    fs::write(path, bytes).unwrap();
}

/// Reads a file of both lengths: what is above the limit must be named with it, and nothing else may be.
fn check(path: &Path, limit: u64, fill: impl Fn(u64), read: impl Fn() -> Result<(), String>) {
    fill(limit);
    let at = read();
    assert!(at.as_ref().err().is_none_or(|said| !said.contains("larger than")), "{}: {at:?}", path.display());
    fill(limit + 1);
    let above = read().unwrap_err();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    assert!(above.contains(&name) && above.contains("larger than"), "{above}");
    assert_eq!(fs::metadata(path).unwrap().len(), limit + 1, "{above}: it is left as it is");
}

fn said<T>(result: Result<T, impl std::fmt::Display>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
}

#[test]
fn both_ways_to_read_a_file_take_the_limit_and_no_byte_more() {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("file");
    let disk = Disk::default();
    for length in [0, 1, 7, 8] {
        fs::write(&path, vec![b'x'; length]).unwrap();
        assert_eq!(disk.read(&path, 7).is_ok(), length <= 7, "{length}");
        assert_eq!(files::read_bytes(&path, 7).is_ok(), length <= 7, "{length}");
    }
    let problem = files::read_bytes(&path, 7).unwrap_err();
    assert!(matches!(problem, FileProblem::TooLarge { max_bytes: 7, .. }), "{problem}");
    assert!(matches!(disk.read(&path, 7), Err(StoreError::TooLarge { limit: 7, .. })));
    assert_eq!(disk.read(&path, u64::MAX - 1).unwrap().unwrap().len(), 8);
}

#[test]
fn documents_of_a_project_are_read_up_to_their_limit() {
    let project = Project::new();
    let (armed, disk) = (&project.armed, Disk::default());
    let path = armed.config();
    let fill = |length| padded(&path, b"{}", length as usize);
    check(&path, 1024 * 1024, fill, || said(settings::for_command(&disk, armed)));
    fs::remove_file(&path).unwrap();

    let dispatch = devloop_core::ids::DispatchId(7);
    let head = devloop_core::ids::Oid::parse(&"a".repeat(40)).unwrap();
    let record = RunRecord::new(dispatch, 1, Role::Work, "marker".into(), head);
    record.write(&disk, armed).unwrap();
    let path = armed.runs().join("d7.json");
    let written = fs::read(&path).unwrap();
    let fill = |length| padded(&path, &written, length as usize);
    check(&path, 256 * 1024, fill, || said(run_record::read(&disk, armed, dispatch)));
    padded(&path, &written, 256 * 1024);
    assert_eq!(run_record::read(&disk, armed, dispatch).unwrap(), Some(record));
}

#[test]
fn the_state_and_the_ledger_are_read_up_to_their_limit() {
    const MIB: u64 = 1024 * 1024;
    let project = Project::new();
    let disk = Disk::default();
    let path = project.armed.state();
    let state = project.state_file(&disk);
    check(&path, 128 * MIB, |length| sparse(&path, length), || said(state.read()));
    let path = project.user.ledger();
    let look = || said(Ledger::look(&project.user, &disk));
    check(&path, 64 * MIB, |length| sparse(&path, length), look);
}

#[test]
fn a_run_record_keeps_as_many_escaped_paths_as_it_says() {
    let head = devloop_core::ids::Oid::parse(&"a".repeat(40)).unwrap();
    let mut record = RunRecord::new(devloop_core::ids::DispatchId(1), 1, Role::Work, "marker".into(), head);
    for (count, kept) in [(50, 50), (51, 50)] {
        record.set_escaped((0..count).map(|n| format!("path {n}")).collect());
        assert_eq!(record.escaped.len(), kept);
    }
}
