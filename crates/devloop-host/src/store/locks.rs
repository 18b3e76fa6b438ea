//! Owns the three locks and their order: OWNER (life of the one supervisor), LOCK (one commit), LEDGER (all
//! projects). They are locks of the operating system, so a dead holder releases them; the records inside
//! only name the holder.
//!
//! The order is in the types: OWNER is taken by giving [`Locks`] away, so no LOCK of it can be open then;
//! LEDGER is only reachable from a [`LockGuard`].
//!
//! ```compile_fail,E0505
//! # fn order(locks: devloop_host::store::Locks) -> devloop_host::store::StoreResult<()> {
//! use devloop_host::store::Wait;
//! let lock = locks.lock(Wait::ONCE)?;
//! let owner = locks.own(Wait::ONCE)?; // refused: LOCK is open
//! lock.ledger(Wait::ONCE)?;
//! # drop(owner); Ok(())
//! # }
//! ```
//!
//! ```
//! # fn order(locks: devloop_host::store::Locks) -> devloop_host::store::StoreResult<()> {
//! use devloop_host::store::Wait;
//! let owner = locks.own(Wait::ONCE)?;
//! let lock = owner.lock(Wait::up_to_ms(1000))?;
//! let ledger = lock.ledger(Wait::up_to_ms(1000))?;
//! # drop(ledger); Ok(())
//! # }
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::disk::{self, Disk, FileId};
use super::error::{Holder, LockName, StoreError, StoreResult};
use super::identity::Identity;
use super::layout::{Armed, UserFolder};
use super::owner_record::{OwnerRecord, read_record, read_start, write_record};
use super::points::Point;

/// Pause between two tries, in milliseconds.
const POLL_FLOOR_MS: u64 = 20;
/// The old plugin refreshed its lock every 5 s and called it stale after this long, in seconds.
const FOREIGN_STALE_S: u64 = 30;

/// How long to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    up_to_ms: u64,
}

impl Wait {
    /// One try.
    pub const ONCE: Wait = Wait { up_to_ms: 0 };

    /// Tries every 20 ms until so many milliseconds have passed.
    pub const fn up_to_ms(up_to_ms: u64) -> Wait {
        Wait { up_to_ms }
    }
}

/// The way to the locks of one project for one instance. A command takes LOCK from it; a supervisor OWNER
/// first.
#[derive(Debug)]
pub struct Locks {
    armed: Armed,
    user: UserFolder,
    disk: Disk,
    me: Identity,
}

impl Locks {
    /// Nothing is taken or written yet.
    pub fn new(armed: Armed, user: UserFolder, disk: Disk, me: Identity) -> Self {
        Locks { armed, user, disk, me }
    }

    /// Becomes the one supervisor. Refused with the holder named when another one lives.
    pub fn own(self, wait: Wait) -> StoreResult<OwnerGuard> {
        let path = self.armed.owner();
        let held = match take(&self.disk, &path, LockName::Owner, wait) {
            Err(StoreError::LockBusy { holder, .. }) => return Err(StoreError::OwnerHeld { holder }),
            other => other?,
        };
        let before = read_record(&held.file);
        let epoch = before.map_or(1, |record| record.epoch.saturating_add(1));
        let record = OwnerRecord::new(&self.me, epoch);
        write_record(&held.file, &record).map_err(StoreError::io("write", &path))?;
        Ok(OwnerGuard { held, record, locks: self })
    }

    /// LOCK without OWNER: for commands, which commit events and perform no effect.
    pub fn lock(&self, wait: Wait) -> StoreResult<LockGuard<'_>> {
        let path = self.armed.lock();
        let held = take(&self.disk, &path, LockName::Lock, wait)?;
        refuse_foreign(&held.file)?;
        // The record only serves the sentence of whoever has to wait, so it need not be durable.
        write_record(&held.file, &OwnerRecord::new(&self.me, 0)).map_err(StoreError::io("write", &path))?;
        Ok(LockGuard { held, locks: self })
    }

    /// The record in OWNER, without touching the lock. `None` when there never was an owner.
    pub fn owner_record(&self) -> StoreResult<Option<OwnerRecord>> {
        Ok(disk::open_existing(&self.armed.owner())?.as_ref().and_then(read_record))
    }

    /// The project.
    pub fn armed(&self) -> &Armed {
        &self.armed
    }

    /// The user's devloop folder.
    pub fn user(&self) -> &UserFolder {
        &self.user
    }

    /// This instance.
    pub fn me(&self) -> &Identity {
        &self.me
    }
}

/// Proof of being the one supervisor that performs effects. Dropping it gives OWNER back.
#[derive(Debug)]
pub struct OwnerGuard {
    held: Held,
    record: OwnerRecord,
    locks: Locks,
}

impl OwnerGuard {
    /// LOCK, for one commit of the supervisor.
    pub fn lock(&self, wait: Wait) -> StoreResult<LockGuard<'_>> {
        self.locks.lock(wait)
    }

    /// The fencing epoch: larger than that of every owner before.
    pub fn epoch(&self) -> u64 {
        self.record.epoch
    }

    /// The record that others read.
    pub fn record(&self) -> &OwnerRecord {
        &self.record
    }

    /// The project, the user's folder and this instance.
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// To be asked right before a side effect: fails when OWNER was removed or taken by somebody else.
    pub fn verify(&self) -> StoreResult<()> {
        let path = &self.held.path;
        let now = disk::open_existing(path)?.as_ref().and_then(read_record);
        let same_file = self.held.is_at_path().map_err(StoreError::io("look at", path))?;
        let mine = |r: &OwnerRecord| r.epoch == self.record.epoch && r.instance == self.record.instance;
        if same_file && now.as_ref().is_some_and(mine) {
            return Ok(());
        }
        Err(StoreError::Fenced { mine: self.record.epoch, now: Holder::of(now) })
    }

    /// Removes temporary files that dead processes left in `.devloop`; their number. Needs both guards,
    /// because only then nobody else can be writing one.
    pub fn sweep(&self, _lock: &LockGuard<'_>) -> StoreResult<usize> {
        let mut removed = 0;
        let armed = &self.locks.armed;
        for folder in [armed.folder().to_path_buf(), armed.journal(), armed.inbox(), armed.runs()] {
            // Nothing is removed through a link.
            if fs::symlink_metadata(&folder).is_ok_and(|meta| meta.is_symlink()) {
                continue;
            }
            let entries = match fs::read_dir(&folder) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(StoreError::io("list", &folder))?,
            };
            for entry in entries.flatten() {
                if entry.file_name().to_str().is_some_and(disk::is_temporary) {
                    fs::remove_file(entry.path()).map_err(StoreError::io("remove", entry.path()))?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }
}

impl Drop for OwnerGuard {
    fn drop(&mut self) {
        self.locks.disk.passed(Point::OwnerRelease);
        if self.verify().is_ok() {
            let left = OwnerRecord { released: true, ..self.record.clone() };
            // Nobody can act on a failure here; the lock is released either way.
            let _ = write_record(&self.held.file, &left);
        }
    }
}

/// Proof of holding LOCK: nobody else commits. Every write of the journal and of STATE.json asks for it.
#[derive(Debug)]
pub struct LockGuard<'a> {
    held: Held,
    locks: &'a Locks,
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        self.locks.disk.passed(Point::LockRelease);
    }
}

impl LockGuard<'_> {
    /// LEDGER, the last lock of the order. The user's folder is created when it is missing.
    pub fn ledger(&self, wait: Wait) -> StoreResult<LedgerGuard<'_>> {
        disk::ensure_folder(self.locks.user.folder())?;
        let path = self.locks.user.ledger_lock();
        let held = take(&self.locks.disk, &path, LockName::Ledger, wait)?;
        write_record(&held.file, &OwnerRecord::new(&self.locks.me, 0))
            .map_err(StoreError::io("write", &path))?;
        Ok(LedgerGuard { _held: held, user: &self.locks.user, me: &self.locks.me })
    }

    /// Fails when this guard belongs to another project, or when LOCK was removed under it.
    pub fn require(&self, armed: &Armed) -> StoreResult<()> {
        if self.locks.armed != *armed {
            return Err(StoreError::Misuse("the LOCK of another project was shown".into()));
        }
        if !self.held.is_at_path().map_err(StoreError::io("look at", &self.held.path))? {
            return Err(StoreError::Stale { why: "LOCK was removed while it was held".into() });
        }
        Ok(())
    }
}

/// Proof of holding LEDGER.
#[derive(Debug)]
pub struct LedgerGuard<'a> {
    _held: Held,
    user: &'a UserFolder,
    me: &'a Identity,
}

impl LedgerGuard<'_> {
    /// The folder whose ledger is locked.
    pub fn user(&self) -> &UserFolder {
        self.user
    }

    /// The instance that holds it.
    pub fn me(&self) -> &Identity {
        self.me
    }
}

/// An open, locked file.
#[derive(Debug)]
struct Held {
    file: File,
    path: PathBuf,
}

impl Held {
    fn is_at_path(&self) -> io::Result<bool> {
        let mine = FileId::of(&self.file.metadata()?);
        match fs::symlink_metadata(&self.path) {
            Ok(meta) => Ok(FileId::of(&meta) == mine),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Explicit, because a child caught between fork and exec still shares the descriptor for a moment.
        let _ = self.file.unlock();
    }
}

fn take(disk: &Disk, path: &Path, lock: LockName, wait: Wait) -> StoreResult<Held> {
    let started = Instant::now();
    loop {
        let file = open_lock_file(path)?;
        let tried = disk.pass(Point::Lock).map_err(TryLockError::Error).and_then(|()| file.try_lock());
        match tried {
            Ok(()) => {
                let held = Held { file, path: path.into() };
                // Somebody may have removed the file between open and lock; then it locks nothing.
                if held.is_at_path().map_err(StoreError::io("look at", path))? {
                    return Ok(held);
                }
            }
            Err(TryLockError::Error(source)) => {
                return Err(StoreError::NoLocks { path: path.into(), source });
            }
            Err(TryLockError::WouldBlock) => {
                let waited_ms = started.elapsed().as_millis() as u64;
                if waited_ms >= wait.up_to_ms {
                    return Err(StoreError::LockBusy {
                        lock,
                        holder: Holder::of(read_record(&file)),
                        waited_ms,
                    });
                }
                let left = wait.up_to_ms - waited_ms;
                std::thread::sleep(Duration::from_millis(POLL_FLOOR_MS.min(left.max(1))));
            }
        }
    }
}

fn open_lock_file(path: &Path) -> StoreResult<File> {
    disk::refuse_strange(path)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    disk::private(&mut options);
    options.open(path).map_err(StoreError::io("open", path))
}

/// Refuses beside a living plugin of version 1, whose LOCK holds a bare process id and is refreshed every 5
/// s.
fn refuse_foreign(file: &File) -> StoreResult<()> {
    let Some(pid) = read_start(file).and_then(|text| text.trim().parse::<u32>().ok()) else { return Ok(()) };
    let age = file.metadata().and_then(|meta| meta.modified()).ok();
    let age = age.and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default();
    if pid != std::process::id() && age.as_secs() < FOREIGN_STALE_S && pid_exists(pid) {
        return Err(StoreError::ForeignLock { pid });
    }
    Ok(())
}

fn pid_exists(pid: u32) -> bool {
    #[cfg(unix)]
    {
        let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else {
            return false;
        };
        // Not being allowed to signal a process proves that it exists.
        rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
    }
    #[cfg(not(unix))]
    {
        pid != 0
    }
}
