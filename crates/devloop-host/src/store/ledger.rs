//! Owns the global ledger: what all projects of a user spent and reserved today, and the slots they hold.
//! It is a projection keyed by project and dispatch; each project's journal is the authority for its own
//! entries.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::disk::{self, Disk, Keep, Point, Replace};
use super::error::{StoreError, StoreResult};
use super::identity::Identity;
use super::layout::UserFolder;
use super::locks::LedgerGuard;

/// Largest ledger that is read, in bytes.
const LEDGER_LIMIT_BYTES: u64 = 64 * 1024 * 1024;
/// The ledger is shortened when it is longer than this, in bytes.
pub const SHORTEN_BYTES: u64 = 4 * 1024 * 1024;
/// Settled entries older than this many days are dropped by shortening.
const KEEP_DAYS: u64 = 7;

/// How far the money of a dispatch is known. It only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Set aside at dispatch; the dispatch may still run.
    Reserved,
    /// Ended without a report: the reserve stays as spend.
    Assumed,
    /// Reported tokens times a known price.
    Priced,
    /// Reported by the backend.
    Measured,
    /// The project's journal does not know this dispatch: it was never committed and counts nothing.
    Void,
}

/// One line of the ledger: the newest of a key counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Canonical root of the project.
    pub project: String,
    /// Dispatch id, unique in its project.
    pub dispatch: String,
    /// How far the money is known.
    pub certainty: Certainty,
    /// Money in millionths of a US dollar.
    pub usd_micros: u64,
    /// Day of the dispatch, in days since 1970-01-01 UTC.
    pub day: u64,
    /// True while the dispatch holds one of the slots shared by all projects.
    pub slot: bool,
    /// What its project waits for, on the one line of a project that no dispatch has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Who reserved; tells whether a slot is held by a living process.
    pub owner: Option<Identity>,
    /// The route of the dispatch; none in lines of a DevLoop that did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// What the dispatch did: `plan`, `work` or `review`; none as for `route`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// Fields of another DevLoop, kept as they are.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Slots that a project would take if it got them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Claim {
    /// How many more.
    pub slots: u32,
    /// Since when it waits for the next one, in milliseconds since 1970.
    pub since_ms: u64,
    /// When its loop last said so, in milliseconds since 1970.
    pub said_ms: u64,
}

/// The slots of one project.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Those it holds.
    pub slots: u32,
    /// Those it waits for.
    pub claim: Option<Claim>,
}

/// The money of the other projects, or of all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Measured, priced and assumed money of the day, in millionths of a US dollar; saturates at 2^53 - 1.
    pub spent_usd_micros: u64,
    /// Reserved money of the day; saturates like it.
    pub reserved_usd_micros: u64,
}

/// The ledger as read under LEDGER.
#[derive(Debug)]
pub struct Ledger {
    disk: Disk,
    user: UserFolder,
    entries: BTreeMap<(String, String), Entry>,
    skipped: usize,
    file_len: u64,
    valid_len: u64,
}

impl Ledger {
    /// Reads the ledger. A torn last line is dropped; lines that cannot be read are counted and kept in the
    /// file.
    pub fn read(guard: &LedgerGuard<'_>, disk: &Disk) -> StoreResult<Ledger> {
        Self::look(guard.user(), disk)
    }

    /// Reads the ledger without a lock, for reports: a line that is being written is not seen yet. What is
    /// read so cannot be written to, which needs the guard.
    pub fn look(user: &UserFolder, disk: &Disk) -> StoreResult<Ledger> {
        let user = user.clone();
        let bytes = disk.read(&user.ledger(), LEDGER_LIMIT_BYTES)?.unwrap_or_default();
        let valid = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let (entries, skipped) = fold(&bytes[..valid]);
        let (file_len, valid_len) = (bytes.len() as u64, valid as u64);
        Ok(Ledger { disk: disk.clone(), user, entries, skipped, file_len, valid_len })
    }

    /// Why the sums may be too low, in a sentence for whoever looks at a project or starts its loop.
    pub fn doubt(&self) -> Option<String> {
        (self.skipped > 0).then(|| {
            format!(
                "lines of {} that cannot be read: {}; they are left out of every sum, so more may have been \
                 spent than is told and compared with the caps",
                self.user.ledger().display(),
                self.skipped
            )
        })
    }

    /// The newest entry of every key.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Sums of one UTC day over all projects but `except`.
    pub fn sums(&self, day: u64, except: Option<&str>) -> Sums {
        let mut sums = Sums::default();
        let others = self.entries.values().filter(|e| Some(e.project.as_str()) != except);
        for entry in others.filter(|e| e.day == day) {
            match entry.certainty {
                Certainty::Reserved => add(&mut sums.reserved_usd_micros, entry.usd_micros),
                Certainty::Assumed | Certainty::Priced | Certainty::Measured => {
                    add(&mut sums.spent_usd_micros, entry.usd_micros);
                }
                Certainty::Void => {}
            }
        }
        sums
    }

    /// The slots of every project that holds or wants one, whatever their day. A slot counts while its owner
    /// lives, nothing can be told of it, or `runs` says that the dispatch outlives it; nobody waits for a
    /// loop that may be gone.
    pub fn shares(&self, runs: impl Fn(&Entry) -> bool) -> BTreeMap<String, Share> {
        let mut shares: BTreeMap<String, Share> = BTreeMap::new();
        let asks = |entry: &&Entry| entry.claim.is_some() || entry.slot && entry.certainty != Certainty::Void;
        for entry in self.entries.values().filter(asks) {
            let alive = entry.owner.as_ref().and_then(Identity::is_alive);
            let share = shares.entry(entry.project.clone()).or_default();
            if entry.claim.is_some() {
                share.claim = entry.claim.filter(|_| alive == Some(true));
            } else if alive != Some(false) || runs(entry) {
                share.slots = share.slots.saturating_add(1);
            }
        }
        shares
    }

    /// Appends the entries that say more than what is there, with one fsync; their number. Doing it again
    /// appends nothing. An entry never goes back from measured to assumed or reserved.
    pub fn record(&mut self, _guard: &LedgerGuard<'_>, entries: &[Entry]) -> StoreResult<usize> {
        let mut news: Vec<Entry> = Vec::new();
        let mut known = self.entries.clone();
        for entry in entries {
            if is_news(known.get(&key(entry)), entry) {
                known.insert(key(entry), entry.clone());
                news.push(entry.clone());
            }
        }
        if news.is_empty() {
            return Ok(0);
        }
        self.append(&news)?;
        self.entries = known;
        Ok(news.len())
    }

    /// Makes the ledger agree with a project's journal at start: `journal` holds the newest entry of every
    /// dispatch. What is missing is added; what the journal does not know becomes void. The number of lines
    /// appended.
    pub fn complete(
        &mut self,
        guard: &LedgerGuard<'_>,
        project: &str,
        journal: &[Entry],
    ) -> StoreResult<usize> {
        if let Some(stranger) = journal.iter().find(|e| e.project != project) {
            return Err(StoreError::Misuse(format!("an entry of {} in {project}", stranger.project)));
        }
        let known = |dispatch: &str| journal.iter().any(|e| e.dispatch == dispatch);
        let unknown = self.entries.values().filter(|e| e.project == project && !known(&e.dispatch));
        // Only reservations: money that was measured is never taken back, whoever forgot it.
        let unknown = unknown.filter(|e| e.certainty == Certainty::Reserved);
        let void = |e: &Entry| Entry { certainty: Certainty::Void, slot: false, ..e.clone() };
        let wanted: Vec<Entry> = unknown.map(void).chain(journal.iter().cloned()).collect();
        self.record(guard, &wanted)
    }

    /// Shortens a ledger that grew past `limit` bytes: settled entries older than a week are dropped, the
    /// whole old file is kept as ledger.1.jsonl. Lines that cannot be read stay. True when it did.
    pub fn shorten(&mut self, _guard: &LedgerGuard<'_>, today: u64, limit: u64) -> StoreResult<bool> {
        if self.file_len <= limit {
            return Ok(false);
        }
        let path = self.user.ledger();
        let bytes = self.disk.read(&path, LEDGER_LIMIT_BYTES)?.unwrap_or_default();
        let mut kept = Vec::new();
        for text in bytes.split_inclusive(|b| *b == b'\n').filter(|t| t.ends_with(b"\n")) {
            let keep = match serde_json::from_slice::<Entry>(text) {
                Err(_) => true,
                // Superseded lines of a key go, so that a line is kept once.
                Ok(entry) => self.entries.get(&key(&entry)) == Some(&entry) && is_wanted(&entry, today),
            };
            if keep {
                kept.extend_from_slice(text);
            }
        }
        let how = Replace {
            write: Point::LedgerWrite,
            rename: Point::LedgerWrite,
            keep: Keep::Synced(Point::LedgerSync),
        };
        self.disk.replace(&self.user.ledger_before(), &bytes, how)?;
        self.disk.replace(&path, &kept, how)?;
        let (entries, skipped) = fold(&kept);
        (self.entries, self.skipped) = (entries, skipped);
        (self.file_len, self.valid_len) = (kept.len() as u64, kept.len() as u64);
        Ok(true)
    }

    fn append(&mut self, entries: &[Entry]) -> StoreResult<()> {
        let path = self.user.ledger();
        let mut bytes = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut bytes, entry)
                .map_err(|e| StoreError::Misuse(format!("a ledger entry cannot be written: {e}")))?;
            bytes.push(b'\n');
        }
        let file = self.disk.open_append(&path)?;
        let write = || {
            if self.file_len > self.valid_len {
                file.set_len(self.valid_len)?;
            }
            self.disk.write(Point::LedgerWrite, &file, &bytes)?;
            self.disk.sync(Point::LedgerSync, &file)
        };
        if let Err(source) = write() {
            let cut_back = file.set_len(self.valid_len).and_then(|()| file.sync_data()).is_ok();
            return Err(StoreError::CommitFailed { source, cut_back });
        }
        self.valid_len += bytes.len() as u64;
        self.file_len = self.valid_len;
        Ok(())
    }
}

/// Whether the folder of the user holds a ledger at all; nothing is created.
pub fn exists(user: &UserFolder) -> bool {
    fs::symlink_metadata(user.ledger()).is_ok()
}

/// Reads projects.json, the registry. `None` when there is none.
pub fn read_registry(disk: &Disk, user: &UserFolder, limit: u64) -> StoreResult<Option<Vec<u8>>> {
    disk.read(&user.projects(), limit)
}

/// Replaces projects.json durably, under LEDGER so that two writers do not lose each other's entry.
pub fn write_registry(guard: &LedgerGuard<'_>, disk: &Disk, json: &[u8]) -> StoreResult<PathBuf> {
    disk::ensure_folder(guard.user().folder())?;
    let path = guard.user().projects();
    let keep = Keep::Synced(Point::SmallWrite);
    disk.replace(&path, json, Replace { write: Point::SmallWrite, rename: Point::SmallWrite, keep })?;
    Ok(path)
}

fn fold(bytes: &[u8]) -> (BTreeMap<(String, String), Entry>, usize) {
    let (mut entries, mut skipped) = (BTreeMap::new(), 0);
    for text in bytes.split(|b| *b == b'\n').filter(|t| !t.is_empty()) {
        match serde_json::from_slice::<Entry>(text) {
            Ok(entry) if is_news(entries.get(&key(&entry)), &entry) => {
                entries.insert(key(&entry), entry);
            }
            Ok(_) => {}
            Err(_) => skipped += 1,
        }
    }
    (entries, skipped)
}

fn is_news(there: Option<&Entry>, entry: &Entry) -> bool {
    let Some(there) = there else { return true };
    // The day may move (a clock that was wrong) and a slot may be given back at the same certainty.
    entry.certainty > there.certainty
        || entry.certainty == there.certainty
            && (entry.usd_micros, entry.day, entry.slot, entry.claim)
                != (there.usd_micros, there.day, there.slot, there.claim)
}

fn is_wanted(entry: &Entry, today: u64) -> bool {
    entry.slot
        || entry.claim.is_some()
        || entry.certainty == Certainty::Reserved
        || entry.day.saturating_add(KEEP_DAYS) >= today
}

fn key(entry: &Entry) -> (String, String) {
    (entry.project.clone(), entry.dispatch.clone())
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more).min((1 << 53) - 1);
}
