//! Owns every path below `.devloop/` and of the user's devloop folder, and the rule that arms a project.
//! Only an [`Armed`] can name a file to write, so an unarmed or bare folder is never written to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{self, Disk};
use super::error::{StoreError, StoreResult};

/// Largest GOAL.md that is read, in bytes.
pub const GOAL_LIMIT_BYTES: u64 = 64 * 1024;

const FOLDER: &str = ".devloop";

/// What a folder is to DevLoop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arming {
    /// `.devloop/GOAL.md` is there: the loop may work.
    Armed(Armed),
    /// A `.devloop` folder without a goal.
    Bare {
        /// The canonical root.
        root: PathBuf,
    },
    /// No `.devloop` at all.
    Unarmed {
        /// The canonical root.
        root: PathBuf,
    },
    /// `.devloop` or GOAL.md is a symlink, resolves elsewhere, or is of the wrong kind.
    Escaped {
        /// The offending path.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// An armed project: the canonical root and the names below its `.devloop`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Armed {
    root: PathBuf,
    folder: PathBuf,
}

/// Looks at a folder without writing. Errors only when the folder itself cannot be resolved.
pub fn inspect(root: &Path) -> StoreResult<Arming> {
    let root = fs::canonicalize(root).map_err(StoreError::io("find the folder", root))?;
    let folder = root.join(FOLDER);
    let escaped = |path: &Path, why: &str| Arming::Escaped { path: path.into(), why: why.into() };
    match fs::symlink_metadata(&folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Arming::Unarmed { root }),
        Err(e) => return Err(StoreError::io("look at", folder)(e)),
        Ok(meta) if meta.is_symlink() => return Ok(escaped(&folder, "is a symlink")),
        Ok(meta) if !meta.is_dir() => return Ok(escaped(&folder, "is not a folder")),
        Ok(_) => {}
    }
    let real = fs::canonicalize(&folder).map_err(StoreError::io("resolve", &folder))?;
    if real != folder {
        return Ok(escaped(&folder, &format!("resolves to {}", real.display())));
    }
    let goal = folder.join("GOAL.md");
    match disk::refuse_strange(&goal) {
        Ok(true) => Ok(Arming::Armed(Armed { root, folder })),
        Ok(false) => Ok(Arming::Bare { root }),
        Err(StoreError::Escaped { path, why }) => Ok(Arming::Escaped { path, why }),
        Err(other) => Err(other),
    }
}

/// The armed project at `root`, or the sentence that says what is missing.
pub fn require_armed(root: &Path) -> StoreResult<Armed> {
    match inspect(root)? {
        Arming::Armed(armed) => Ok(armed),
        Arming::Escaped { path, why } => Err(StoreError::Escaped { path, why }),
        Arming::Bare { root } => Err(StoreError::NotArmed { root, why: "it has no .devloop/GOAL.md".into() }),
        Arming::Unarmed { root } => {
            Err(StoreError::NotArmed { root, why: "it has no .devloop folder".into() })
        }
    }
}

/// The project of a loop that has begun, whatever stands under the goal's name now: a broken goal keeps
/// nobody from looking at the loop or stopping it. `None` when none has begun, or when there is no goal at
/// all.
pub fn begun(root: &Path) -> StoreResult<Option<Armed>> {
    let armed = match inspect(root)? {
        Arming::Armed(armed) => armed,
        Arming::Escaped { path, .. } if path.ends_with("GOAL.md") => {
            let folder = path.parent().unwrap_or(&path).to_path_buf();
            Armed { root: folder.parent().unwrap_or(&folder).to_path_buf(), folder }
        }
        Arming::Escaped { .. } | Arming::Bare { .. } | Arming::Unarmed { .. } => return Ok(None),
    };
    let is_file = |path: PathBuf| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    Ok((is_file(armed.events()) || is_file(armed.state())).then_some(armed))
}

/// The project root that a command started in `start` means: the nearest folder upwards that holds `.git`,
/// and never a worktree below a `.devloop`. `start` itself (canonical) when there is none.
pub fn find_root(start: &Path) -> StoreResult<PathBuf> {
    let start = fs::canonicalize(start).map_err(StoreError::io("find the folder", start))?;
    let outside = start.ancestors().filter(|p| p.file_name().is_some_and(|n| n == FOLDER)).last();
    let from = outside.and_then(Path::parent).unwrap_or(&start);
    let found = from.ancestors().find(|p| fs::symlink_metadata(p.join(".git")).is_ok());
    Ok(found.unwrap_or(from).to_path_buf())
}

/// Arms a folder: makes `.devloop` and writes GOAL.md, which must not exist yet.
pub fn arm(disk: &Disk, root: &Path, goal: &str) -> StoreResult<Armed> {
    if goal.len() as u64 > GOAL_LIMIT_BYTES {
        return Err(StoreError::TooLarge {
            path: root.join(FOLDER).join("GOAL.md"),
            limit: GOAL_LIMIT_BYTES,
        });
    }
    let root = match inspect(root)? {
        Arming::Bare { root } | Arming::Unarmed { root } => root,
        Arming::Escaped { path, why } => return Err(StoreError::Escaped { path, why }),
        Arming::Armed(armed) => {
            let source = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(StoreError::io("create", armed.goal())(source));
        }
    };
    let folder = root.join(FOLDER);
    disk::ensure_folder(&folder)?;
    let path = folder.join("GOAL.md");
    let write = || -> io::Result<()> {
        let temp = disk::temporary(&folder, "GOAL.md")?;
        disk.write(disk::Point::SmallWrite, temp.as_file(), goal.as_bytes())?;
        temp.as_file().sync_all()?;
        temp.persist_noclobber(&path).map_err(|refused| refused.error)?;
        disk.sync_folder(&folder)
    };
    write().map_err(StoreError::io("create", &path))?;
    require_armed(&root)
}

impl Armed {
    /// The canonical project root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The `.devloop` folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fails when the project is no longer armed as it was (a removed goal, a folder turned into a symlink).
    pub fn recheck(&self) -> StoreResult<()> {
        require_armed(&self.root).map(|_| ())
    }

    /// The bytes of GOAL.md; larger than 64 KiB is refused, `None` when it is gone.
    pub fn read_goal(&self, disk: &Disk) -> StoreResult<Option<Vec<u8>>> {
        disk.read(&self.goal(), GOAL_LIMIT_BYTES)
    }

    /// The goal text; the file that arms.
    pub fn goal(&self) -> PathBuf {
        self.folder.join("GOAL.md")
    }
    /// The projection of the journal.
    pub fn state(&self) -> PathBuf {
        self.folder.join("STATE.json")
    }
    /// Where the version 1 state is kept after migration.
    pub fn state_v1(&self) -> PathBuf {
        self.folder.join("STATE.v1.json")
    }
    /// Version 1's marker of a hold that could not be stored: the task's id.
    pub fn commit_hold_v1(&self) -> PathBuf {
        self.folder.join("COMMIT_HOLD")
    }
    /// Version 1's marker of a hold that could not be stored: task and reason.
    pub fn pending_hold_v1(&self) -> PathBuf {
        self.folder.join("PENDING_HOLD")
    }
    /// The journal's current segment.
    pub fn events(&self) -> PathBuf {
        self.folder.join("EVENTS.jsonl")
    }
    /// Where the version 1 journal is kept after migration.
    pub fn events_v1(&self) -> PathBuf {
        self.folder.join("EVENTS.v1.jsonl")
    }
    /// Folder of compressed segments.
    pub fn journal(&self) -> PathBuf {
        self.folder.join("journal")
    }
    /// Inputs and decisions, replayable.
    pub fn trace(&self) -> PathBuf {
        self.folder.join("TRACE.jsonl")
    }
    /// The trace segment before the current one.
    pub fn trace_before(&self) -> PathBuf {
        self.folder.join("TRACE.1.jsonl")
    }
    /// Lock of one commit.
    pub fn lock(&self) -> PathBuf {
        self.folder.join("LOCK")
    }
    /// Lock and record of the one supervisor that performs effects.
    pub fn owner(&self) -> PathBuf {
        self.folder.join("OWNER")
    }
    /// The limits in force.
    pub fn budget(&self) -> PathBuf {
        self.folder.join("BUDGET.json")
    }
    /// The snapshot for people; never read back.
    pub fn progress(&self) -> PathBuf {
        self.folder.join("PROGRESS.md")
    }
    /// Prose of the last plan; never read back.
    pub fn plan(&self) -> PathBuf {
        self.folder.join("PLAN.md")
    }
    /// Prose of the last review; never read back.
    pub fn review(&self) -> PathBuf {
        self.folder.join("REVIEW.md")
    }
    /// The project's own configuration.
    pub fn config(&self) -> PathBuf {
        self.folder.join("config.json")
    }
    /// Reports that could not be committed yet.
    pub fn inbox(&self) -> PathBuf {
        self.folder.join("inbox")
    }
    /// Run records, one per dispatch.
    pub fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }
    /// Worktrees, one per dispatch.
    pub fn worktrees(&self) -> PathBuf {
        self.folder.join("worktrees")
    }
    /// What was moved out of the way instead of being deleted.
    pub fn aside(&self) -> PathBuf {
        self.folder.join("aside")
    }
    /// Output of dispatches and checks.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }
    /// Space given back when the disk is full, so that the halt can still be written.
    pub fn reserve(&self) -> PathBuf {
        self.folder.join("reserve")
    }
}

/// The user's devloop folder: spend of all projects and the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFolder {
    folder: PathBuf,
}

impl UserFolder {
    /// A folder chosen by the caller.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        UserFolder { folder: folder.into() }
    }

    /// `$DSH_HOME/devloop`; without it `~/.dsh/devloop` where a `~/.dsh` exists, else `devloop` in the state
    /// directory (`$XDG_STATE_HOME` or `~/.local/state`). `None` without any home, or when the one that is
    /// named is not absolute: it would be another folder for each folder a loop is started in, with a cap of
    /// its own.
    pub fn from_env(var: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let set = |name: &str| var(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        if let Some(dsh) = set("DSH_HOME") {
            return dsh.is_absolute().then(|| UserFolder::at(dsh.join("devloop")));
        }
        let home = set("HOME").or_else(|| set("USERPROFILE")).filter(|home| home.is_absolute());
        if let Some(dsh) = home.as_ref().map(|h| h.join(".dsh")).filter(|d| d.is_dir()) {
            return Some(UserFolder::at(dsh.join("devloop")));
        }
        let state = set("XDG_STATE_HOME").filter(|p| p.is_absolute());
        let state = state.or_else(|| home.map(|h| h.join(".local").join("state")))?;
        Some(UserFolder::at(state.join("devloop")))
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    /// Reservations and settlements of all projects, one line each.
    pub fn ledger(&self) -> PathBuf {
        self.folder.join("ledger.jsonl")
    }
    /// The ledger before it was last shortened.
    pub fn ledger_before(&self) -> PathBuf {
        self.folder.join("ledger.1.jsonl")
    }
    /// The lock over the ledger.
    pub fn ledger_lock(&self) -> PathBuf {
        self.folder.join("LEDGER")
    }
    /// The registry of projects.
    pub fn projects(&self) -> PathBuf {
        self.folder.join("projects.json")
    }
}
