//! Which project a command means and where the user's devloop folder is. It must not write anything.

use std::path::{Path, PathBuf};

use clap::Args;
use devloop_host::command::Desk;
use devloop_host::error::{ErrorKind, HostError};
use devloop_host::store::{UserFolder, layout};

/// The project.
#[derive(Clone, Debug, Args)]
pub struct Root {
    /// The project; without it the repository around the current folder
    pub root: Option<PathBuf>,
}

impl Root {
    /// The folder meant.
    ///
    /// # Errors
    /// When the current folder is gone.
    pub fn folder(&self) -> Result<PathBuf, HostError> {
        match &self.root {
            Some(root) => absolute(root),
            None => Ok(layout::find_root(&current()?)?),
        }
    }

    /// The project, for commands and views. Before a loop has begun, its goal must be readable.
    ///
    /// # Errors
    /// When it cannot be worked with, with what to do.
    pub fn desk(&self) -> Result<Desk, HostError> {
        let folder = self.folder()?;
        Desk::open(&folder, user()?).map_err(|error| about(error, &folder))
    }
}

/// An absolute path for what was typed; links in it stay.
///
/// # Errors
/// When the current folder is gone.
pub fn absolute(path: &Path) -> Result<PathBuf, HostError> {
    if path.is_absolute() {
        return Ok(path.to_path_buf());
    }
    Ok(current()?.join(path).components().filter(|c| !matches!(c, std::path::Component::CurDir)).collect())
}

fn current() -> Result<PathBuf, HostError> {
    std::env::current_dir().map_err(|source| HostError::io(".", "find the current folder", source))
}

/// The user's devloop folder.
///
/// # Errors
/// When there is no home at all.
pub fn user() -> Result<UserFolder, HostError> {
    UserFolder::from_env(|name| std::env::var(name).ok()).ok_or_else(|| {
        HostError::new(
            ErrorKind::Config,
            "there is no home folder for the ledger of spend: set DSH_HOME or HOME to an absolute path",
        )
    })
}

/// The folder that holds the user's devloop folder.
///
/// # Errors
/// As [`user`].
pub fn devloop_home() -> Result<PathBuf, HostError> {
    let user = user()?;
    Ok(user.folder().parent().map_or_else(|| user.folder().to_path_buf(), Path::to_path_buf))
}

/// Gives an error that names no next command the one that looks closer.
#[must_use]
pub fn about(error: HostError, root: &Path) -> HostError {
    if !error.hints().is_empty() {
        return error;
    }
    let verb = match error.kind() {
        ErrorKind::Busy | ErrorKind::Stale => "status",
        _ => "doctor",
    };
    error.hint(["devloop".to_owned(), verb.to_owned(), root.to_string_lossy().into_owned()])
}
