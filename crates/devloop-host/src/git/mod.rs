//! The repository through git's own program: facts, commits, merges and the publishing of a merge.
//! Hooks, drivers, prompts and the network are off; paths are bytes; refs move by compare-and-swap only.

pub mod commit;
mod content;
mod direct;
mod filters;
mod ignored;
pub mod inspect;
pub mod merge;
pub mod path;
pub mod publish;
pub mod repo;
pub mod restore;
pub mod run;
pub mod scope;
pub mod status;

use std::io;
use std::path::PathBuf;

pub use devloop_core::ids::Oid;
pub use path::{Entry, RepoPath};
pub use repo::{Identity, NewCommit, Repo, RootProblem};
pub use run::Git;
pub use scope::{Scope, ScopeError, Violation};

use crate::error::{ErrorKind, HostError};
use crate::process::SpawnError;

/// A git call that did not give an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// There is no git, or it is not a version this host was tried with.
    #[error("git {found} is too old; {minimum} or newer is needed")]
    TooOld { found: String, minimum: String },
    /// git could not be started.
    #[error(transparent)]
    Start(#[from] SpawnError),
    /// It did not end in time and was killed.
    #[error("git {command} did not end within {limit_ms} ms")]
    TimedOut { command: String, limit_ms: u64 },
    /// It ended with an error; `stderr` is the end of what it said.
    #[error("git {command} failed ({}): {stderr}", code.map_or("signal".into(), |c| c.to_string()))]
    Failed { command: String, code: Option<i32>, stderr: String },
    /// A lock file of git is in the way; another git works here, or one died.
    #[error("git {command} found a lock in the way: {stderr}")]
    Locked { command: String, stderr: String },
    /// It answered with more bytes than are read.
    #[error("git {command} answered with more than {max_bytes} bytes")]
    TooMuch { command: String, max_bytes: usize },
    /// Its answer could not be read.
    #[error("git {command} answered with something unexpected: {what}")]
    Answer { command: String, what: String },
    /// HEAD of a task's worktree is not the task's branch.
    #[error("HEAD is {found}, expected {expected}")]
    WrongHead { expected: String, found: String },
    /// The recorded base is not an ancestor of the branch, so no list of changes can be trusted.
    #[error("{head} does not continue from the recorded base {base}")]
    BaseLost { base: Oid, head: Oid },
    /// A file of the repository could not be used.
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

impl From<GitError> for HostError {
    fn from(error: GitError) -> Self {
        let kind = match &error {
            GitError::TooOld { .. } => ErrorKind::Config,
            GitError::Start(SpawnError::NotFound { .. }) => ErrorKind::Config,
            GitError::Locked { .. } => ErrorKind::Busy,
            GitError::WrongHead { .. } | GitError::BaseLost { .. } => ErrorKind::Stale,
            _ => ErrorKind::External,
        };
        HostError::new(kind, error.to_string()).because(error)
    }
}
