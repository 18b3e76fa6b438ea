//! Owns the failures of the store as sentences; it must not decide exit codes (the table of `HostError`
//! does).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use devloop_core::untrusted::Untrusted;

use super::owner_record::OwnerRecord;
use crate::error::{ErrorKind, HostError};

/// Result of everything in the store.
pub type StoreResult<T> = Result<T, StoreError>;

/// Which lock a sentence is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockName {
    /// The one supervisor that performs effects.
    Owner,
    /// One commit.
    Lock,
    /// The spend of all projects.
    Ledger,
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockName::Owner => "OWNER",
            LockName::Lock => "LOCK",
            LockName::Ledger => "LEDGER",
        })
    }
}

/// What can go wrong. Every text is one sentence for the person who must act.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk refused an operation.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The verb phrase of the sentence, for example `read`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A path of ours is a symlink, a folder, or resolves elsewhere; nothing was read or written through it.
    #[error("{} {why}; nothing was read or written through it", path.display())]
    Escaped {
        /// The offending path.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The folder is not armed, so it is never written to.
    #[error("{} is not armed: {why}", root.display())]
    NotArmed {
        /// The folder asked for.
        root: PathBuf,
        /// What is missing.
        why: String,
    },
    /// A file is larger than its limit.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// Another supervisor performs the effects of this project.
    #[error("another supervisor runs this project: {holder}; stop it first, or use the commands beside it")]
    OwnerHeld {
        /// Who holds OWNER.
        holder: Holder,
    },
    /// A lock was not free within the wait.
    #[error("{lock} is held by {holder} and was not free within {waited_ms} ms; try again")]
    LockBusy {
        /// Which lock.
        lock: LockName,
        /// Who holds it.
        holder: Holder,
        /// How long was waited, in milliseconds.
        waited_ms: u64,
    },
    /// The earlier plugin (version 1) is at work on this project.
    #[error("the earlier DevLoop plugin (process {pid}) is at work on this project; stop it first")]
    ForeignLock {
        /// Process id in the old LOCK file.
        pid: u32,
    },
    /// The file system has no locks.
    #[error(
        "the file system of {} has no file locks ({source}); put the project on a local disk",
        path.display()
    )]
    NoLocks {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// This owner was replaced; no side effect may follow.
    #[error("this supervisor (epoch {mine}) no longer owns the project: {now}; it performs nothing more")]
    Fenced {
        /// Epoch of this owner.
        mine: u64,
        /// Who owns it now.
        now: Holder,
    },
    /// The journal moved since it was read.
    #[error("the journal moved since it was read ({why}); load again")]
    Stale {
        /// What was seen.
        why: String,
    },
    /// The commit did not happen. The instance that decided it must be dropped.
    #[error("the commit failed: {source}; {}", cut_words(*cut_back))]
    CommitFailed {
        /// What the system said.
        source: io::Error,
        /// True when the journal was cut back to where it was. False: only a reload tells what is on disk.
        cut_back: bool,
    },
    /// A file contradicts itself or another one.
    #[error("{}{} cannot be trusted: {why}; nothing was written over", path.display(), line_words(*line))]
    Integrity {
        /// The file.
        path: PathBuf,
        /// Line number from 1, where there is one.
        line: Option<usize>,
        /// The contradiction.
        why: String,
    },
    /// A file was written by a newer DevLoop.
    #[error(
        "{} has version {version}, newer than this DevLoop reads; it was left untouched: update DevLoop",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// The caller broke a rule of the store.
    #[error("internal: {0}")]
    Misuse(String),
}

impl StoreError {
    /// Whether the file itself is wrong (its kind, its size, its rights), and not the disk or the process.
    pub fn is_about_the_file(&self) -> bool {
        match self {
            StoreError::Escaped { .. } | StoreError::TooLarge { .. } => true,
            StoreError::Io { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }

    /// The kind of the failure, which selects exit code and HTTP status.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StoreError::Escaped { .. } | StoreError::NotArmed { .. } | StoreError::TooLarge { .. } => {
                ErrorKind::Config
            }
            StoreError::OwnerHeld { .. } | StoreError::LockBusy { .. } | StoreError::ForeignLock { .. } => {
                ErrorKind::Busy
            }
            StoreError::Fenced { .. } | StoreError::Stale { .. } => ErrorKind::Stale,
            StoreError::Io { .. } | StoreError::NoLocks { .. } | StoreError::CommitFailed { .. } => {
                ErrorKind::External
            }
            StoreError::Integrity { .. } | StoreError::Newer { .. } => ErrorKind::Integrity,
            StoreError::Misuse(_) => ErrorKind::Internal,
        }
    }

    /// Why there is no state to decide on; none for what is no matter of the recorded state.
    pub fn untrusted(&self) -> Option<Untrusted> {
        match self {
            StoreError::Escaped { .. } => Some(Untrusted::EscapedDevloop),
            StoreError::Integrity { .. } => Some(Untrusted::InvalidState),
            StoreError::Newer { .. } => Some(Untrusted::NewerState),
            StoreError::Io { doing: "read" | "look at" | "resolve", path, .. }
            | StoreError::TooLarge { path, .. }
                if project_of(path).is_some() && !path.ends_with("GOAL.md") =>
            {
                Some(Untrusted::UnreadableState)
            }
            _ => None,
        }
    }

    /// The file or folder that it is about, where it is about one.
    fn path(&self) -> Option<&Path> {
        match self {
            StoreError::Io { path, .. }
            | StoreError::Escaped { path, .. }
            | StoreError::TooLarge { path, .. }
            | StoreError::Integrity { path, .. }
            | StoreError::Newer { path, .. } => Some(path),
            _ => None,
        }
    }

    /// True when the disk is full, whatever was being written.
    pub fn is_disk_full(&self) -> bool {
        let source = match self {
            StoreError::Io { source, .. } | StoreError::CommitFailed { source, .. } => source,
            _ => return false,
        };
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.into();
        move |source| StoreError::Io { doing, path, source }
    }

    pub(crate) fn integrity(path: impl Into<PathBuf>, line: Option<usize>, why: impl Into<String>) -> Self {
        StoreError::Integrity { path: path.into(), line, why: why.into() }
    }
}

/// Who holds a lock, as far as its record can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder(pub Option<Box<OwnerRecord>>);

impl Holder {
    pub(crate) fn of(record: Option<OwnerRecord>) -> Holder {
        Holder(record.map(Box::new))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(r) => write!(f, "process {} on {} since {}", r.pid, r.host, utc(r.since_ms)),
            None => f.write_str("a process that left no record"),
        }
    }
}

/// `2026-01-02T03:04:05Z` for a wall time in milliseconds.
fn utc(ms: u64) -> String {
    let (days, secs) = ((ms / 86_400_000) as i64, ms / 1000 % 86_400);
    // Civil date from days since 1970-01-01, with the year starting in March so that leap days come last.
    let z = days + 719_468;
    let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", secs / 3600, secs / 60 % 60, secs % 60)
}

fn cut_words(cut_back: bool) -> &'static str {
    if cut_back {
        "the journal was cut back to where it was"
    } else {
        "the journal could not be cut back and must be loaded again"
    }
}

fn line_words(line: Option<usize>) -> String {
    line.map(|n| format!(" line {n}")).unwrap_or_default()
}

impl From<StoreError> for HostError {
    fn from(error: StoreError) -> HostError {
        let mut host = HostError::new(error.kind(), error.to_string());
        if let StoreError::NotArmed { root, .. } = &error {
            let root = root.to_string_lossy().into_owned();
            return host.hint(["devloop".to_owned(), "init".to_owned(), root]);
        }
        let Some(why) = error.untrusted() else { return host };
        host = host.as_untrusted(why);
        let Some(path) = error.path() else { return host };
        host = host.at(path);
        match project_of(path) {
            Some(root) => {
                let root = root.to_string_lossy().into_owned();
                host.hint(["devloop".to_owned(), "doctor".to_owned(), root])
            }
            None => host,
        }
    }
}

fn project_of(path: &Path) -> Option<&Path> {
    path.ancestors().find(|p| p.file_name().is_some_and(|name| name == ".devloop"))?.parent()
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn utc_of_known_moments() {
        let check = |ms, expect: &str| assert_eq!(utc(ms), expect);
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_400_000, "2000-02-29T00:00:00Z");
        check(1_709_251_199_999, "2024-02-29T23:59:59Z");
        check(4_102_444_800_000, "2100-01-01T00:00:00Z");
    }
}
