//! Owns the record inside a lock file: who holds it, for the sentence of whoever is refused. It locks
//! nothing.

use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};

use super::identity::Identity;

/// Records have this many bytes, padded, so that a rewrite is one write and never leaves an older tail.
const RECORD_BYTES: usize = 512;

/// Who holds or last held a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// Format of the record.
    pub v: u32,
    /// Name of the machine.
    pub host: String,
    /// Id of its boot.
    pub boot: String,
    /// Process id.
    pub pid: u32,
    /// Start of the process, clock ticks after boot.
    pub started: u64,
    /// Instance of the loop in that process.
    pub instance: String,
    /// The namespace that the process id counts in.
    #[serde(default)]
    pub pid_space: String,
    /// Grows by one with every owner.
    pub epoch: u64,
    /// Wall time of taking, in milliseconds.
    pub since_ms: u64,
    /// True once the owner left in an orderly way.
    pub released: bool,
}

impl OwnerRecord {
    pub(crate) fn new(me: &Identity, epoch: u64) -> Self {
        OwnerRecord {
            v: 2,
            host: me.host.clone(),
            boot: me.boot.clone(),
            pid: me.pid,
            started: me.started,
            instance: me.instance.clone(),
            pid_space: me.pid_space.clone(),
            epoch,
            since_ms: crate::clock::system_wall_ms(),
            released: false,
        }
    }

    /// The process in the record.
    pub fn identity(&self) -> Identity {
        Identity {
            host: self.host.clone(),
            boot: self.boot.clone(),
            pid: self.pid,
            started: self.started,
            instance: self.instance.clone(),
            pid_space: self.pid_space.clone(),
        }
    }
}

/// The start of a lock file as text.
pub(crate) fn read_start(file: &File) -> Option<String> {
    let mut bytes = [0_u8; RECORD_BYTES];
    let mut filled = 0;
    while filled < RECORD_BYTES {
        match read_at(file, &mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    String::from_utf8(bytes[..filled].to_vec()).ok()
}

/// The record in a lock file; `None` when there is none that can be read.
pub(crate) fn read_record(file: &File) -> Option<OwnerRecord> {
    serde_json::from_str(read_start(file)?.trim()).ok()
}

/// Replaces the record by one write, without truncating first: a reader never finds an empty file.
pub(crate) fn write_record(file: &File, record: &OwnerRecord) -> io::Result<()> {
    let mut text = serde_json::to_vec(record)?;
    text.resize(RECORD_BYTES.max(text.len() + 1) - 1, b' ');
    text.push(b'\n');
    write_at(file, &text)?;
    file.set_len(text.len() as u64)
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, at)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, 0)
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, at)
}

#[cfg(windows)]
fn write_at(file: &File, bytes: &[u8]) -> io::Result<()> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, 0).map(|_| ())
}
