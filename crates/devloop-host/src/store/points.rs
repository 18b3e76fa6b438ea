//! The numbered points of a beat where a process can die or a disk can fail: the one list, and the hook by
//! which a test makes it happen there. It knows no state; a build without debug assertions has no hook.

use std::fmt::Display;

use super::disk::Verdict;

/// Which step of a beat a point belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// What was decided becomes durable.
    Commit,
    /// The world is changed as the effects ask for.
    Perform,
    /// What came of it is told and cleared away.
    Settle,
}

/// What can happen at a point besides the death of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The store writes bytes: an error, or only a part of them.
    Write,
    /// The store asks something else of the disk: an error.
    Step,
    /// Nothing: it lies between two operations.
    Moment,
}

macro_rules! points {
    ($($phase:ident { $($kind:ident $name:ident $text:literal,)+ })+) => {
        /// The numbered points. The sentence of each completes "the process dies …".
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Point { $($(#[doc = $text] $name,)+)+ }

        impl Point {
            /// Every point in the order of its number.
            pub const ALL: &'static [Point] = &[$($(Point::$name,)+)+];

            fn row(self) -> (Phase, Kind, &'static str, &'static str) {
                match self { $($(Point::$name => {
                    (Phase::$phase, Kind::$kind, stringify!($name), $text)
                })+)+ }
            }
        }
    };
}

points! {
    Commit {
        Step Lock "before a lock is taken",
        Write SegmentWrite "before the first line of a segment is written beside the old one",
        Step SegmentSync "before the new segment is synced",
        Write ArchiveWrite "before the old segment is compressed",
        Step ArchiveRename "before the compressed segment has its name",
        Step SegmentRename "before the new segment replaces the old one",
        Write JournalWrite "before a group of lines is appended",
        Step JournalSync "after the append, before its sync",
        Moment JournalSynced "after the sync of the journal",
        Step JournalCut "before a torn or failed group is cut off",
        Write StateWrite "before the new state is written beside the old one",
        Step StateSync "before the new state is synced",
        Step StateRename "before the new state replaces the old one",
        Moment StateRenamed "after the state was replaced",
        Step FolderSync "before a folder is synced behind a rename",
        Write TraceWrite "before the inputs are appended to the trace",
        Write LedgerWrite "before money is noted in the user's ledger",
        Step LedgerSync "before the ledger is synced",
        Moment LockRelease "before LOCK is given back",
    }
    Perform {
        Moment WorktreeAdd "before a worktree is made",
        Moment WorktreeAdded "after git made a worktree, before the host's own files are in it",
        Write RunWrite "before the run record is written",
        Step RunSync "before the run record is synced",
        Step RunRename "before the run record has its name",
        Moment RunWritten "after the run record is durable",
        Moment Spawn "before the worker's process is started",
        Moment Spawned "after it was started, before its process is noted",
        Moment ProviderReached "while the worker runs and its process is noted",
        Moment RunEnded "after the worker ended, before its traces are looked at",
        Moment CommitStage "before a worker's files are staged",
        Moment CommitWritten "after the host's commit exists, before the branch moves to it",
        Moment CommitSwapped "after the branch moved, before the worktree's index follows",
        Moment CheckTree "before the commit is checked out for a check",
        Moment CheckRun "before the check is started",
        Moment Checked "after the check ended, before its checkout is removed",
        Moment MergeSwap "before the target moves to the merge",
        Moment MergeSwapped "after the target moved, before its checkout follows",
        Moment MergeFollowed "after the checkout followed",
    }
    Settle {
        Write ReportWrite "before a report is parked",
        Step ReportSync "before the parked report is synced",
        Step ReportRename "before the parked report has its name",
        Moment ReportWritten "after the report is durable, before it is told",
        Moment ReportRemove "after a report was recorded, before its parked file is removed",
        Moment TreeRemove "before a worktree is removed",
        Moment TreeRemoved "after the folder is gone, before git forgets it",
        Moment RunRemove "after the worktree is gone, before the run record is removed",
        Moment BranchDelete "before the branch of a merged task is deleted",
        Write SmallWrite "before a small file is written (limits, progress, prose)",
        Write ReserveWrite "before the reserve file is filled",
        Moment OwnerRelease "before OWNER is given back",
    }
}

impl Point {
    /// Its number, from 1.
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// The step of a beat it belongs to.
    pub fn phase(self) -> Phase {
        self.row().0
    }

    /// What can happen there.
    pub fn kind(self) -> Kind {
        self.row().1
    }

    /// Its name, for tests and tables.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Completes "the process dies …".
    pub fn sentence(self) -> &'static str {
        self.row().3
    }

    /// The point with this name.
    pub fn named(name: &str) -> Option<Point> {
        Point::ALL.iter().copied().find(|point| point.name() == name)
    }
}

/// Passes a moment between two operations; `about` says whose, for the record of a test.
#[cfg_attr(not(debug_assertions), inline(always))]
pub fn reach(point: Point, about: impl Display) {
    // Nothing can fail between two operations: a verdict other than death has no meaning there.
    let _ = ask(point, about);
}

/// What the hook of a test wants to happen at this pass; without one everything goes on.
#[cfg_attr(not(debug_assertions), inline(always))]
pub fn ask(point: Point, about: impl Display) -> Verdict {
    #[cfg(debug_assertions)]
    return hook::pass(point, &about);
    #[cfg(not(debug_assertions))]
    {
        let _ = (point, about);
        Verdict::Go
    }
}

/// The hook. Shipped builds have no debug assertions, so nothing in the environment can reach it there.
#[cfg(debug_assertions)]
mod hook {
    use std::fmt::Display;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Mutex, OnceLock, PoisonError};

    use super::Point;
    use crate::store::disk::Verdict;

    /// `<point> <nth pass> kill`, or `… fail <errno>`, or `… short <bytes> <errno>`; several with `;`
    /// between.
    const PLAN: &str = "DEVLOOP_TEST_POINT";
    /// A file that gets a line for every pass: `<point> <about>`.
    const RECORD: &str = "DEVLOOP_TEST_POINTS";

    #[derive(Clone, Copy)]
    enum Fate {
        Kill,
        Verdict(Verdict),
    }

    struct Plan {
        point: Point,
        nth: u32,
        fate: Fate,
    }

    static PASSES: [AtomicU32; Point::ALL.len()] = [const { AtomicU32::new(0) }; Point::ALL.len()];
    static RECORDING: Mutex<()> = Mutex::new(());

    fn plans() -> &'static [Plan] {
        static READ: OnceLock<Vec<Plan>> = OnceLock::new();
        let read = || std::env::var(PLAN).unwrap_or_default().split(';').filter_map(parse).collect();
        READ.get_or_init(read)
    }

    fn parse(text: &str) -> Option<Plan> {
        let words: Vec<&str> = text.split(' ').collect();
        let fate = match words.get(2..)? {
            ["kill"] => Fate::Kill,
            ["fail", errno] => Fate::Verdict(Verdict::Fail(errno.parse().ok()?)),
            ["short", bytes, errno] => {
                Fate::Verdict(Verdict::Short { bytes: bytes.parse().ok()?, errno: errno.parse().ok()? })
            }
            _ => return None,
        };
        Some(Plan { point: Point::named(words[0])?, nth: words[1].parse().ok()?, fate })
    }

    pub(super) fn pass(point: Point, about: &dyn Display) -> Verdict {
        let nth = PASSES[point as usize].fetch_add(1, Ordering::SeqCst) + 1;
        record(point, about);
        match plans().iter().find(|plan| plan.point == point && plan.nth == nth).map(|plan| plan.fate) {
            None => Verdict::Go,
            Some(Fate::Verdict(verdict)) => verdict,
            Some(Fate::Kill) => {
                let me = rustix::process::getpid();
                // Never returns: the kernel ends every thread of this process at once.
                let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
                loop {
                    std::thread::park();
                }
            }
        }
    }

    fn record(point: Point, about: &dyn Display) {
        static PATH: OnceLock<Option<std::ffi::OsString>> = OnceLock::new();
        let Some(path) = PATH.get_or_init(|| std::env::var_os(RECORD)) else { return };
        let _turn = RECORDING.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{} {about}\n", point.name());
        // A test that finds no record fails by itself.
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
            let _ = file.write_all(line.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_numbered_in_order_and_found_by_name() {
        for (index, point) in Point::ALL.iter().enumerate() {
            assert_eq!((point.number(), Point::named(point.name())), (index + 1, Some(*point)));
        }
        assert_eq!(Point::named("Nowhere"), None);
    }

    /// What is shipped is built with the profile `dist` and `release`: neither may switch the hook on.
    #[test]
    fn no_shipped_profile_has_debug_assertions() {
        let workspace = include_str!("../../../../Cargo.toml");
        assert!(workspace.contains("[profile.dist]\ninherits = \"release\""));
        assert!(!workspace.contains("debug-assertions"));
    }
}
