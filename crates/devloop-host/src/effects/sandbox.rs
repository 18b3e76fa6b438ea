//! Which folders a confined run may touch: its worktree, its own folders, what git keeps beside them, and
//! what the operator names. Whether that is held is the kernel's matter.

use std::path::{Path, PathBuf};

use devloop_core::policy::Backend;
use devloop_wire::config_doc::SandboxMode;

use super::{EffectConfig, Shared};
use crate::backend::installed;
use crate::error::{ErrorKind, HostError};
use crate::git::Repo;
use crate::process::{Confinement, confine};

/// What a run in this worktree, with its folders below `own`, may touch; none when it is not confined.
///
/// # Errors
/// Config, when it must be confined and this machine cannot do that.
pub(super) fn of_run(
    shared: &Shared,
    config: &EffectConfig,
    backend: Backend,
    worktree: &Repo,
    own: &Path,
) -> Result<Option<Confinement>, HostError> {
    match (config.sandbox.mode, confine::is_available()) {
        (SandboxMode::Off, _) | (SandboxMode::Auto, false) => return Ok(None),
        (SandboxMode::Landlock, false) => {
            let what = "sandbox is landlock, and the kernel of this machine has none of version 3 or newer; \
                        say auto or off";
            return Err(HostError::new(ErrorKind::Config, what).at(shared.setting.armed.config()));
        }
        // Its agents are threads of the process that the loop runs in, which is as free as its user.
        (SandboxMode::Landlock, true) if matches!(backend, Backend::Subagent | Backend::DshAgent) => {
            let what = "sandbox is landlock, and agents of the running DSH cannot be confined; say auto or \
                        off, or route to a program";
            return Err(HostError::new(ErrorKind::Config, what).at(shared.setting.armed.config()));
        }
        (SandboxMode::Auto | SandboxMode::Landlock, true) => {}
    }
    let home = config.around.get("HOME").map(PathBuf::from);
    let named = |paths: &[String]| paths.iter().map(|path| expand(path, home.as_deref())).collect::<Vec<_>>();
    let mut read: Vec<PathBuf> = vec![shared.repo().common_dir().to_path_buf()];
    let on_path = installed::on_search_path(&config.around);
    read.extend(on_path.into_iter().filter(|path| !confine::is_open(path)));
    read.extend(named(&config.sandbox.read));
    let mut write = vec![worktree.root().to_path_buf(), own.to_path_buf()];
    write.extend(named(&config.sandbox.write));
    Ok(Some(Confinement { read, write }))
}

/// A path as the operator wrote it, `~/` being their home.
fn expand(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}
