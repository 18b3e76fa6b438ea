//! Owns what is believed at start: STATE.json is compared with the journal, and the journal wins or nobody
//! does. It must not write, except to keep version 1 files beside the new ones.

use std::fs;
use std::io;
use std::path::Path;

use super::archive;
use super::disk::{self, Disk};
use super::error::{StoreError, StoreResult};
use super::history::{self, Join};
use super::journal::{Journal, SEGMENT_LIMIT_BYTES};
use super::layout::Armed;
use super::line::{Line, Segment, SegmentFault, Tip, short};
use super::locks::LockGuard;
use super::state_file::{Found, STATE_LIMIT_BYTES, StateFault, StateFile};

/// What a project's files hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loaded {
    /// Neither state nor journal: a goal that was never worked on.
    Fresh,
    /// Files of the earlier plugin, to be migrated.
    Legacy(Legacy),
    /// A trusted state.
    Ready(Recovered),
}

/// Largest marker of version 1 that is read, in bytes.
const MARKER_LIMIT_BYTES: u64 = 64 * 1024;

/// Version 1 files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Legacy {
    /// STATE.json, when there is one.
    pub state: Option<Vec<u8>>,
    /// EVENTS.jsonl, when there is one.
    pub events: Option<Vec<u8>>,
    /// COMMIT_HOLD, when there is one. Only read: nothing of version 2 has its name.
    pub commit_hold: Option<Vec<u8>>,
    /// PENDING_HOLD, when there is one. Only read.
    pub pending_hold: Option<Vec<u8>>,
}

impl Legacy {
    fn read(armed: &Armed, state: Option<Vec<u8>>) -> StoreResult<Loaded> {
        let disk = Disk::default();
        Ok(Loaded::Legacy(Legacy {
            state,
            // Also what has no whole line: it is replaced by the first segment, so it is kept.
            events: disk.read(&armed.events(), SEGMENT_LIMIT_BYTES)?.filter(|bytes| !bytes.is_empty()),
            commit_hold: disk.read(&armed.commit_hold_v1(), MARKER_LIMIT_BYTES)?,
            pending_hold: disk.read(&armed.pending_hold_v1(), MARKER_LIMIT_BYTES)?,
        }))
    }
}

/// A document to start from and the lines to fold into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Where to start.
    pub base: Base,
    /// Lines to fold, in order.
    pub lines: Vec<Line>,
    /// Where the result stands.
    pub tip: Tip,
    /// What an operator should be told: a rebuilt state, a history that cannot be checked.
    pub notes: Vec<String>,
    /// True when STATE.json holds bytes that are not believed; `StateFile::set_aside` before the next write.
    pub set_aside: bool,
}

/// What folding starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// The bytes of STATE.json.
    State(Vec<u8>),
    /// The snapshot line of the current segment.
    Snapshot(Line),
}

/// Reads state and journal and says what is believed. Call it under LOCK to act on it; without LOCK it
/// serves views.
pub fn load(journal: &mut Journal, state: &StateFile) -> StoreResult<Loaded> {
    // The state first: it is written after the journal, so a reader without LOCK never sees it ahead.
    let found = state.read()?;
    let armed = journal.armed().clone();
    if let Found::Unusable { fault: StateFault::Newer { version }, .. } = found {
        return Err(StoreError::Newer { path: armed.state(), version });
    }
    match journal.read() {
        Ok(Some(segment)) => ready(journal, segment, found).map(Loaded::Ready),
        Ok(None) => without_journal(&armed, found),
        Err(SegmentFault::Legacy) => legacy(&armed, found),
        Err(SegmentFault::Other(error)) => Err(error),
    }
}

fn ready(journal: &Journal, segment: Segment, found: Found) -> StoreResult<Recovered> {
    let armed = journal.armed();
    let mut notes = Vec::new();
    if let Join::Unproven(why) = history::check_join(armed, journal.format().as_ref(), &segment)? {
        notes.push(format!("the history before revision {} cannot be checked: {why}", segment.head.revision));
    }
    let mut set_aside = false;
    let base = match found {
        Found::Document { bytes, head } => place(journal, &segment, &head)?.map(|at| (bytes, at)),
        Found::Missing => None,
        Found::Unusable { bytes, fault } => {
            set_aside = !bytes.is_empty();
            notes.push(believe_journal(armed, &bytes, fault)?);
            None
        }
    };
    let tip = segment.last().tip();
    let (base, lines) = match base {
        Some((bytes, at)) => (Base::State(bytes), segment.steps[at..].to_vec()),
        None => (Base::Snapshot(segment.head), segment.steps),
    };
    Ok(Recovered { base, lines, tip, notes, set_aside })
}

/// How many steps of the segment a state document already contains. `None` when it is older than the segment.
fn place(journal: &Journal, segment: &Segment, head: &Tip) -> StoreResult<Option<usize>> {
    let last = segment.last();
    let refuse = |why: String| Err(StoreError::integrity(journal.armed().state(), None, why));
    if head.revision > last.revision {
        return refuse(format!(
            "it is at revision {}, ahead of EVENTS.jsonl, which ends at revision {}",
            head.revision, last.revision
        ));
    }
    if head.revision < segment.head.revision {
        return Ok(None);
    }
    let at = (head.revision - segment.head.revision) as usize;
    let Some(line) = segment.lines().nth(at) else { return Ok(None) };
    if line.chain == head.chain {
        return Ok(Some(at));
    }
    // Written before the snapshot of the same revision: a crash between the two.
    if at == 0 && history::follows(journal.format().as_ref(), head, line) {
        return Ok(Some(0));
    }
    refuse(format!(
        "at revision {} it has chain {}, but EVENTS.jsonl line {} has chain {}",
        head.revision,
        short(&head.chain),
        at + 1,
        short(&line.chain)
    ))
}

/// The note for a state that the journal replaces, or the refusal where a person has to look.
fn believe_journal(armed: &Armed, bytes: &[u8], fault: StateFault) -> StoreResult<String> {
    match fault {
        StateFault::Torn(why) => {
            Ok(format!("STATE.json is not whole ({why}); it was rebuilt from EVENTS.jsonl"))
        }
        StateFault::Legacy if kept_as(&armed.state_v1(), bytes)? => {
            Ok("the migration from version 1 was interrupted; it was finished from EVENTS.jsonl".into())
        }
        StateFault::Legacy => {
            let why = "it is of version 1 while EVENTS.jsonl is not: the earlier plugin wrote it afterwards";
            Err(StoreError::integrity(armed.state(), None, why))
        }
        StateFault::Edited(why) => {
            let why = format!(
                "it was changed by something other than DevLoop ({why}); \
                 move it away and it is rebuilt from EVENTS.jsonl"
            );
            Err(StoreError::integrity(armed.state(), None, why))
        }
        StateFault::Newer { version } => Err(StoreError::Newer { path: armed.state(), version }),
    }
}

fn without_journal(armed: &Armed, found: Found) -> StoreResult<Loaded> {
    let refuse = |why: String| Err(StoreError::integrity(armed.state(), None, why));
    match found {
        Found::Missing => match archive::list(&armed.journal())?.last() {
            None => Ok(Loaded::Fresh),
            Some(old) => {
                let why = format!("it is missing or empty, but journal/ ends at revision {}", old.last);
                Err(StoreError::integrity(armed.events(), None, why))
            }
        },
        Found::Unusable { bytes, fault: StateFault::Legacy } => Legacy::read(armed, Some(bytes)),
        Found::Unusable { fault: StateFault::Torn(why) | StateFault::Edited(why), .. } => {
            refuse(format!("it is not usable ({why}) and there is no EVENTS.jsonl to rebuild it from"))
        }
        Found::Unusable { fault: StateFault::Newer { version }, .. } => {
            Err(StoreError::Newer { path: armed.state(), version })
        }
        Found::Document { head, .. } => {
            refuse(format!("it is at revision {}, but EVENTS.jsonl is missing or empty", head.revision))
        }
    }
}

fn legacy(armed: &Armed, found: Found) -> StoreResult<Loaded> {
    match found {
        Found::Document { head, .. } => {
            let why = format!(
                "it is of version 1 while STATE.json is at revision {} of version 2: \
                 the earlier plugin wrote it",
                head.revision
            );
            Err(StoreError::integrity(armed.events(), Some(1), why))
        }
        Found::Missing => Legacy::read(armed, None),
        // A torn state of version 1 is recovered from its journal, as the earlier plugin did.
        Found::Unusable { bytes, .. } => Legacy::read(armed, Some(bytes)),
    }
}

/// Keeps the version 1 files as STATE.v1.json and EVENTS.v1.jsonl, durably, before the first write of
/// version 2. Doing it again changes nothing; a different file under a kept name is refused.
pub fn keep_legacy(disk: &Disk, lock: &LockGuard<'_>, armed: &Armed, legacy: &Legacy) -> StoreResult<()> {
    lock.require(armed)?;
    let pairs = [(&legacy.state, armed.state_v1()), (&legacy.events, armed.events_v1())];
    for (bytes, path) in pairs {
        let Some(bytes) = bytes else { continue };
        if kept_as(&path, bytes)? {
            continue;
        }
        keep(disk, armed.folder(), &path, bytes).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                StoreError::integrity(&path, None, "it already keeps another version 1 file")
            }
            _ => StoreError::io("write", &path)(e),
        })?;
    }
    Ok(())
}

fn keep(disk: &Disk, folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temp = disk::temporary(folder, "v1")?;
    disk.write(disk::Point::SmallWrite, temp.as_file(), bytes)?;
    temp.as_file().sync_all()?;
    temp.persist_noclobber(path).map_err(|refused| refused.error)?;
    disk.sync_folder(folder)
}

fn kept_as(path: &Path, bytes: &[u8]) -> StoreResult<bool> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.len() != bytes.len() as u64 => return Ok(false),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        _ => {}
    }
    let limit = SEGMENT_LIMIT_BYTES.max(STATE_LIMIT_BYTES);
    Ok(Disk::default().read(path, limit)?.is_some_and(|kept| kept == bytes))
}
