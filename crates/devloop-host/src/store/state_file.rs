//! Owns STATE.json: a projection of the journal, replaced by rename. It must not be trusted over the journal.

use std::fmt::Debug;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::disk::{self, Disk, Keep, Point, Replace};
use super::error::{StoreError, StoreResult};
use super::layout::Armed;
use super::line::Tip;
use super::locks::LockGuard;

/// Largest STATE.json that is read, in bytes.
pub const STATE_LIMIT_BYTES: u64 = 128 * 1024 * 1024;

/// Where a state document stands.
pub type StateHead = Tip;

/// Why a state document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateFault {
    /// Written by the earlier plugin (version 1).
    Legacy,
    /// Written by a newer DevLoop.
    Newer {
        /// Its version.
        version: u64,
    },
    /// Not a whole document (empty, cut off, not JSON): rebuilt from the journal.
    Torn(String),
    /// A whole document whose content does not match its own digest, or has a wrong field: edited by hand.
    Edited(String),
}

/// The format of STATE.json. The wire crate knows it; the store only asks this question.
pub trait StateFormat: Debug + Send + Sync {
    /// Revision and chain of a document, after checking it against its own digest.
    fn read(&self, bytes: &[u8]) -> Result<StateHead, StateFault>;
}

/// STATE.json as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// There is none.
    Missing,
    /// A document of ours.
    Document {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Where it stands.
        head: StateHead,
    },
    /// Not usable.
    Unusable {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Why.
        fault: StateFault,
    },
}

/// The state file of one project.
#[derive(Debug)]
pub struct StateFile {
    armed: Armed,
    disk: Disk,
    format: Arc<dyn StateFormat>,
}

impl StateFile {
    /// Nothing is read yet.
    pub fn new(armed: Armed, disk: Disk, format: Arc<dyn StateFormat>) -> Self {
        StateFile { armed, disk, format }
    }

    /// Reads and classifies the file.
    pub fn read(&self) -> StoreResult<Found> {
        let Some(bytes) = self.disk.read(&self.armed.state(), STATE_LIMIT_BYTES)? else {
            return Ok(Found::Missing);
        };
        Ok(match self.format.read(&bytes) {
            Ok(head) => Found::Document { bytes, head },
            Err(fault) => Found::Unusable { bytes, fault },
        })
    }

    /// Replaces the document. `durable` asks for fsync of file and folder: at segment starts and on halts.
    /// Otherwise the system writes it when it likes, because the journal can rebuild it.
    pub fn write(&self, lock: &LockGuard<'_>, bytes: &[u8], durable: bool) -> StoreResult<()> {
        lock.require(&self.armed)?;
        let keep = if durable { Keep::Synced(Point::StateSync) } else { Keep::Rebuilt };
        let how = Replace { write: Point::StateWrite, rename: Point::StateRename, keep };
        self.disk.replace(&self.armed.state(), bytes, how)?;
        self.disk.passed(Point::StateRenamed);
        Ok(())
    }

    /// Moves an unusable file into `aside/` so that a rebuilt one does not destroy it. The new path; `None`
    /// when there was nothing to keep.
    pub fn set_aside(&self, lock: &LockGuard<'_>) -> StoreResult<Option<PathBuf>> {
        lock.require(&self.armed)?;
        let path = self.armed.state();
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.len() > 0 => {}
            Ok(_) => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(StoreError::io("look at", path)(e)),
        }
        disk::ensure_folder(&self.armed.aside())?;
        let to = free_name(&self.armed.aside())?;
        fs::rename(&path, &to).map_err(StoreError::io("move aside", &path))?;
        Ok(Some(to))
    }
}

fn free_name(folder: &std::path::Path) -> StoreResult<PathBuf> {
    // A bound, so that a folder full of them is an error and not an endless search.
    for n in 1..10_000 {
        let path = folder.join(format!("STATE.{n}.json"));
        if fs::symlink_metadata(&path).is_err() {
            return Ok(path);
        }
    }
    Err(StoreError::Misuse(format!("{} is full of old states", folder.display())))
}
