//! Owns TRACE.jsonl: raw lines of the caller, bounded by keeping two whole segments. It is never an
//! authority.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use super::disk::{Disk, Point};
use super::error::{StoreError, StoreResult};
use super::layout::Armed;

/// A segment of the trace ends at this size, in bytes.
pub const TRACE_SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// The trace of one project. One instance writes it: the owner of the project, or a command under LOCK.
#[derive(Debug)]
pub struct Trace {
    armed: Armed,
    disk: Disk,
    segment_bytes: u64,
    file: Option<(File, u64)>,
}

impl Trace {
    /// With the usual size of a segment.
    pub fn new(armed: Armed, disk: Disk) -> Self {
        Trace::with_segment_bytes(armed, disk, TRACE_SEGMENT_BYTES)
    }

    /// With segments of another size, in bytes.
    pub fn with_segment_bytes(armed: Armed, disk: Disk, segment_bytes: u64) -> Self {
        Trace { armed, disk, segment_bytes, file: None }
    }

    /// True when [`Trace::begin`] must come next: this instance wrote nothing yet, a write failed, or the
    /// segment is full.
    pub fn wants_head(&self) -> bool {
        self.file.as_ref().is_none_or(|(_, len)| *len >= self.segment_bytes)
    }

    /// Writes a head: a line that the lines behind it can be replayed from. A full segment first becomes
    /// the one before (and that one is dropped); otherwise the head continues the file of an earlier
    /// instance.
    pub fn begin(&mut self, head: &[u8]) -> StoreResult<()> {
        self.file = None;
        let path = self.armed.trace();
        let mut len = self.whole_len()?;
        if len >= self.segment_bytes {
            fs::rename(&path, self.armed.trace_before()).map_err(StoreError::io("rename", &path))?;
            len = 0;
        }
        let file = self.disk.open_append(&path)?;
        file.set_len(len).map_err(StoreError::io("shorten", &path))?;
        self.file = Some((file, len));
        self.append(&[head])
    }

    /// Appends whole lines (without newlines), not synced. After an error a head is wanted again, because
    /// the file may end in half a line.
    pub fn append(&mut self, lines: &[&[u8]]) -> StoreResult<()> {
        let Some((file, len)) = &mut self.file else {
            return Err(StoreError::Misuse("the trace has no head yet".into()));
        };
        let mut bytes = Vec::new();
        for line in lines {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        match self.disk.write(Point::TraceWrite, file, &bytes) {
            Ok(()) => {
                *len += bytes.len() as u64;
                Ok(())
            }
            Err(e) => {
                self.file = None;
                Err(StoreError::io("write", self.armed.trace())(e))
            }
        }
    }

    /// Length of the current file up to its last newline.
    fn whole_len(&self) -> StoreResult<u64> {
        let bytes = self.disk.read(&self.armed.trace(), limit(self.segment_bytes))?.unwrap_or_default();
        Ok(bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at as u64 + 1))
    }
}

/// One file of the trace and its whole lines.
pub type TracePart = (PathBuf, Vec<Vec<u8>>);

/// The trace, oldest file first. A torn last line is left out.
pub fn read(disk: &Disk, armed: &Armed) -> StoreResult<Vec<TracePart>> {
    let mut found = Vec::new();
    for path in [armed.trace_before(), armed.trace()] {
        let Some(bytes) = disk.read(&path, limit(TRACE_SEGMENT_BYTES))? else { continue };
        let whole = bytes.split_inclusive(|b| *b == b'\n').filter_map(|l| l.strip_suffix(b"\n"));
        let lines: Vec<Vec<u8>> = whole.map(<[u8]>::to_vec).collect();
        found.push((path, lines));
    }
    Ok(found)
}

/// First and last revision that the trace covers, from the field `revision` of its outermost lines.
pub fn coverage(parts: &[TracePart]) -> Option<(u64, u64)> {
    let revision = |line: &Vec<u8>| -> Option<u64> {
        serde_json::from_slice::<serde_json::Value>(line).ok()?.get("revision")?.as_u64()
    };
    let mut lines = parts.iter().flat_map(|(_, lines)| lines);
    let first = lines.clone().find_map(revision)?;
    let last = lines.rfind(|line| revision(line).is_some()).and_then(revision)?;
    Some((first, last))
}

/// Removes the trace. Doing it again changes nothing.
pub fn clear(armed: &Armed) -> StoreResult<()> {
    for path in [armed.trace_before(), armed.trace()] {
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(StoreError::io("remove", path)(e)),
            _ => {}
        }
    }
    Ok(())
}

/// Largest file that is read: one group may carry a segment far over its size.
fn limit(segment_bytes: u64) -> u64 {
    segment_bytes.saturating_mul(16).max(64 * 1024 * 1024)
}
