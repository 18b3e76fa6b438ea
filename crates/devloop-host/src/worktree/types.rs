//! What the pool of work trees says: its errors by name, and the data of its answers. No work is done here.

use std::io;
use std::path::PathBuf;

use devloop_core::ids::{DispatchId, Oid};

use crate::error::{ErrorKind, HostError};
use crate::git::inspect::Registered;
use crate::git::{GitError, Repo, RepoPath};

/// Why a work tree could not be made, used or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorktreeError {
    /// git gave no answer.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A symbolic link stands where a folder must be.
    #[error("{} is a symbolic link", path.display())]
    Symlink { path: PathBuf },
    /// Something else stands where a folder must be.
    #[error("{} is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    /// The branch is checked out somewhere else.
    #[error("{branch} is checked out in {}", by.display())]
    BranchHeld { branch: String, by: PathBuf },
    /// A new task's branch exists and holds work that the base does not have.
    #[error("{branch} already exists at {tip} with work of its own")]
    BranchTaken { branch: String, tip: Oid },
    /// The branch is not where the last dispatch of the task left it: somebody committed late.
    #[error("{branch} is at {}, expected {expected}", found.as_ref().map_or("nothing", Oid::as_str))]
    BranchMoved { branch: String, expected: Oid, found: Option<Oid> },
    /// Another branch takes the name of its folder, as `devloop` does for `devloop/x`.
    #[error("{branch} cannot be made: {said}")]
    BranchNameBlocked { branch: String, said: String },
    /// git refused; nothing else was used instead.
    #[error("git could not add {}: {said}", path.display())]
    AddFailed { path: PathBuf, said: String },
    /// The folder is gone, but git keeps its registration.
    #[error("git could not remove the registration of {}: {said}", path.display())]
    RemoveFailed { path: PathBuf, said: String },
    /// git does not know a work tree there.
    #[error("{} is not a registered worktree", path.display())]
    NotRegistered { path: PathBuf },
    /// Somebody locked it.
    #[error("{} is locked: {reason}", path.display())]
    Locked { path: PathBuf, reason: String },
    /// It holds work that is not committed.
    #[error("{} holds work that is not committed ({total} paths)", path.display())]
    Unclean { path: PathBuf, paths: Vec<RepoPath>, total: usize },
    /// It is on a commit that no ref leads to.
    #[error("{} is on commit {head}, which nothing else leads to", path.display())]
    Unreachable { path: PathBuf, head: Oid },
    /// It holds repositories with work of their own, which no commit here could save.
    #[error("{} holds repositories of their own with unsaved work", path.display())]
    InnerRepositories { path: PathBuf, paths: Vec<RepoPath> },
    /// The file system failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

impl From<WorktreeError> for HostError {
    fn from(error: WorktreeError) -> Self {
        let kind = match error {
            WorktreeError::Git(git) => return git.into(),
            WorktreeError::Symlink { .. } | WorktreeError::NotAFolder { .. } => ErrorKind::Config,
            WorktreeError::BranchTaken { .. } | WorktreeError::BranchNameBlocked { .. } => ErrorKind::Config,
            WorktreeError::BranchHeld { .. } | WorktreeError::Locked { .. } => ErrorKind::Busy,
            WorktreeError::BranchMoved { .. } => ErrorKind::Stale,
            _ => ErrorKind::External,
        };
        HostError::new(kind, error.to_string()).because(error)
    }
}

/// An answer of the pool.
pub type Outcome<T> = Result<T, WorktreeError>;

/// Where a task's branch must stand before its work tree is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start<'a> {
    /// The task starts: the branch is made at this base.
    New { base: &'a Oid },
    /// The task goes on: the branch must be at exactly this commit.
    At { head: &'a Oid },
}

/// A work tree of a dispatch, with git's folder for it pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Folder name: the dispatch.
    pub name: String,
    /// The tree; every git call in it goes through this.
    pub tree: Repo,
    /// Full ref of its branch; `None` when detached.
    pub branch: Option<String>,
    /// The commit it was on when it was opened.
    pub head: Oid,
    /// Where a stray folder of the same name was moved to, to be told to the operator.
    pub moved_aside: Option<PathBuf>,
}

/// How much a removal cares for what is in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Refuses when anything is not committed.
    Clean,
    /// Saves what is not committed under `refs/devloop/orphan/<dispatch>` first.
    SaveOrphan,
    /// A checkout for checks, review or planning: whatever was written there is meant to go.
    Throwaway,
}

/// What a removal did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// False: there was nothing to remove.
    pub existed: bool,
    /// The commit that holds the saved work, when there was any.
    pub saved: Option<Oid>,
}

/// One folder or registration of the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Folder name.
    pub name: String,
    /// The dispatch that owns it; `None`: nobody of the loop, `doctor` names it.
    pub owner: Option<DispatchId>,
    /// Where it stands.
    pub path: PathBuf,
    /// git's registration; `None` for a stray folder.
    pub registered: Option<Registered>,
    /// Is the folder there?
    pub present: bool,
}

/// What became of a branch that should go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchEnd {
    /// Deleted; the target contains it.
    Deleted { tip: Oid },
    /// There is no such branch.
    Absent,
    /// Kept: the target does not contain it.
    NotContained { tip: Oid },
}
