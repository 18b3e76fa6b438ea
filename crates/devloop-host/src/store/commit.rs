//! Owns the order of one commit: the journal group durable first, then STATE.json. It must not perform
//! anything.

use std::sync::Arc;

use super::disk::Disk;
use super::error::{StoreError, StoreResult};
use super::journal::{Changes, Journal};
use super::layout::Armed;
use super::line::{Line, LineFormat, Tip};
use super::locks::LockGuard;
use super::recover::{self, Loaded};
use super::state_file::{StateFile, StateFormat};

/// Journal and state file of one project, read and committed together.
#[derive(Debug)]
pub struct Store {
    journal: Journal,
    state: StateFile,
    set_aside: bool,
    /// The last load was refused: until one succeeds, nothing is written to what nobody could believe.
    refused: bool,
}

/// A group that is durable in the journal.
#[derive(Debug)]
#[must_use]
pub struct Committed {
    /// Where the journal stands now.
    pub tip: Tip,
    /// Why STATE.json could not be replaced. The commit stands; the next one or the next start repairs it.
    pub state_error: Option<StoreError>,
}

impl Store {
    /// Nothing is read yet.
    pub fn new(armed: Armed, disk: Disk, lines: Arc<dyn LineFormat>, states: Arc<dyn StateFormat>) -> Self {
        let journal = Journal::new(armed.clone(), disk.clone(), lines);
        Store { journal, state: StateFile::new(armed, disk, states), set_aside: false, refused: false }
    }

    /// Reads state and journal; see [`recover::load`].
    pub fn load(&mut self) -> StoreResult<Loaded> {
        let loaded = recover::load(&mut self.journal, &self.state);
        self.refused = loaded.is_err();
        let loaded = loaded?;
        if let Loaded::Ready(recovered) = &loaded {
            self.set_aside = recovered.set_aside;
        }
        Ok(loaded)
    }

    /// What others committed since `from`; see [`Journal::poll_changes`].
    pub fn poll_changes(&mut self, from: &Tip) -> StoreResult<Changes> {
        self.journal.poll_changes(from)
    }

    /// The journal, for its tip, its room and its history.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Commits one group (at most [`Journal::room`] lines) and the state behind it. `durable` as in
    /// [`StateFile::write`]: on halts. After an error nothing is committed or only a reload tells what is.
    pub fn commit(
        &mut self,
        lock: &LockGuard<'_>,
        group: &[Line],
        state: &[u8],
        durable: bool,
    ) -> StoreResult<Committed> {
        self.require_believed()?;
        self.journal.append(lock, group)?;
        self.project(lock, state, durable)
    }

    /// Starts a segment with a snapshot of the present state (see [`Journal::start_segment`]) and writes
    /// the state document with the new chain, durably.
    pub fn start_segment(
        &mut self,
        lock: &LockGuard<'_>,
        head: &Line,
        state: &[u8],
    ) -> StoreResult<Committed> {
        self.require_believed()?;
        self.journal.start_segment(lock, head)?;
        self.project(lock, state, true)
    }

    fn require_believed(&self) -> StoreResult<()> {
        if self.refused {
            return Err(StoreError::Misuse("the last load was refused".into()));
        }
        Ok(())
    }

    fn project(&mut self, lock: &LockGuard<'_>, state: &[u8], durable: bool) -> StoreResult<Committed> {
        let Some(tip) = self.journal.tip().cloned() else {
            return Err(StoreError::Misuse("the journal has no end behind a commit".into()));
        };
        Ok(Committed { tip, state_error: self.write_state(lock, state, durable).err() })
    }

    fn write_state(&mut self, lock: &LockGuard<'_>, state: &[u8], durable: bool) -> StoreResult<()> {
        if self.set_aside {
            self.state.set_aside(lock)?;
            self.set_aside = false;
        }
        self.state.write(lock, state, durable)
    }
}
