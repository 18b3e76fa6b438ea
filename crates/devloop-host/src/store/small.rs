//! Owns the small files that others read and the loop never reads back, and free names for reports and logs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{self, Disk, Keep, Point, Replace};
use super::error::{StoreError, StoreResult};
use super::layout::Armed;

const VOLATILE: Replace =
    Replace { write: Point::SmallWrite, rename: Point::SmallWrite, keep: Keep::Renamed };
const REPORT: Replace =
    Replace { write: Point::ReportWrite, rename: Point::ReportRename, keep: Keep::Synced(Point::ReportSync) };
const RUN: Replace =
    Replace { write: Point::RunWrite, rename: Point::RunRename, keep: Keep::Synced(Point::RunSync) };

/// Writes BUDGET.json, the limits in force.
pub fn write_budget(disk: &Disk, armed: &Armed, json: &[u8]) -> StoreResult<()> {
    disk.replace(&armed.budget(), json, VOLATILE)
}

/// Writes PROGRESS.md, the snapshot for people.
pub fn write_progress(disk: &Disk, armed: &Armed, text: &str) -> StoreResult<()> {
    disk.replace(&armed.progress(), text.as_bytes(), VOLATILE)
}

/// Writes PLAN.md; a text of white space removes the stale one.
pub fn write_plan(disk: &Disk, armed: &Armed, text: &str) -> StoreResult<()> {
    write_prose(disk, &armed.plan(), text)
}

/// Writes REVIEW.md; a text of white space removes the stale one.
pub fn write_review(disk: &Disk, armed: &Armed, text: &str) -> StoreResult<()> {
    write_prose(disk, &armed.review(), text)
}

fn write_prose(disk: &Disk, path: &Path, text: &str) -> StoreResult<()> {
    if text.trim().is_empty() {
        return remove(path);
    }
    disk.replace(path, text.as_bytes(), VOLATILE)
}

/// The largest report that is parked, in bytes: what is larger could never be read again.
pub const REPORT_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Parks a report in `inbox/<name>.json`, durably, to be observed again.
pub fn park_report(disk: &Disk, armed: &Armed, name: &str, json: &[u8]) -> StoreResult<PathBuf> {
    let path = child(&armed.inbox(), name, "json")?;
    if json.len() as u64 > REPORT_MAX_BYTES {
        return Err(StoreError::TooLarge { path, limit: REPORT_MAX_BYTES });
    }
    disk::ensure_folder(&armed.inbox())?;
    disk.replace(&path, json, REPORT)?;
    Ok(path)
}

/// Parked reports as (name, bytes), by name.
pub fn parked_reports(disk: &Disk, armed: &Armed) -> StoreResult<Vec<(String, Vec<u8>)>> {
    read_all(disk, &armed.inbox(), REPORT_MAX_BYTES)
}

/// Forgets a parked report once it was committed. Doing it again changes nothing.
pub fn unpark_report(armed: &Armed, name: &str) -> StoreResult<()> {
    remove(&child(&armed.inbox(), name, "json")?)
}

/// Writes the run record `runs/<name>.json`, durably, before the process of a dispatch is started.
pub fn write_run(disk: &Disk, armed: &Armed, name: &str, json: &[u8]) -> StoreResult<()> {
    let path = child(&armed.runs(), name, "json")?;
    disk::ensure_folder(&armed.runs())?;
    disk.replace(&path, json, RUN)
}

/// The run record of a dispatch. `None` when none was written.
pub fn read_run(disk: &Disk, armed: &Armed, name: &str, limit: u64) -> StoreResult<Option<Vec<u8>>> {
    disk.read(&child(&armed.runs(), name, "json")?, limit)
}

/// All run records as (name, bytes), by name; each at most `limit` bytes.
pub fn read_runs(disk: &Disk, armed: &Armed, limit: u64) -> StoreResult<Vec<(String, Vec<u8>)>> {
    read_all(disk, &armed.runs(), limit)
}

/// Removes the run record of a settled dispatch. Doing it again changes nothing.
pub fn remove_run(armed: &Armed, name: &str) -> StoreResult<()> {
    remove(&child(&armed.runs(), name, "json")?)
}

fn read_all(disk: &Disk, folder: &Path, limit: u64) -> StoreResult<Vec<(String, Vec<u8>)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("list", folder)(e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("list", folder))?;
        let file = entry.file_name();
        let Some(name) = file.to_str().and_then(|n| n.strip_suffix(".json")) else { continue };
        match disk.read(&entry.path(), limit) {
            Ok(Some(bytes)) => found.push((name.to_owned(), bytes)),
            Ok(None) => {}
            // A folder, a link or a giant among them is nobody's report and stops nothing.
            Err(error) if error.is_about_the_file() => {}
            Err(error) => return Err(error),
        }
    }
    found.sort();
    Ok(found)
}

/// A file in `folder` for a name that came from outside: letters, digits, `-`, `_` and inner dots only.
fn child(folder: &Path, name: &str, suffix: &str) -> StoreResult<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 128 || name.starts_with('.') || !name.chars().all(plain) {
        return Err(StoreError::Misuse(format!("{name:?} is no name for a file")));
    }
    Ok(folder.join(format!("{name}.{suffix}")))
}

fn remove(path: &Path) -> StoreResult<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", path)(e)),
        _ => Ok(()),
    }
}
