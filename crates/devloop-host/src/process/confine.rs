//! What a child may touch, held by the kernel (Landlock): only the folders named here, and what programs need
//! of the system to run. It chooses no folders; where the kernel has no such thing, it says so.

use std::io;
use std::path::{Path, PathBuf};

/// The folders of one child. Anything else can be neither read nor written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Files and folders that may be read, and programs in them started.
    pub read: Vec<PathBuf>,
    /// Files and folders that may also be written.
    pub write: Vec<PathBuf>,
}

/// Parts of the system that every program may read; those that are missing are left out.
const SYSTEM: [&str; 22] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/proc",
    "/sys",
    "/dev",
    "/snap",
    "/run/current-system",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/run/nscd",
    "/var/lib/ca-certificates",
    "/var/cache/fontconfig",
    "/mnt/wsl/resolv.conf",
];
/// Devices that hold nothing.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm"];

/// Whether this machine can confine a child.
#[must_use]
pub fn is_available() -> bool {
    kernel::ruleset(&Confinement::default()).is_ok()
}

/// Whether every program may read this, confined or not by anything more.
pub fn is_open(path: &Path) -> bool {
    SYSTEM.iter().any(|part| path.starts_with(part))
}

/// Confines the calling thread, and every child that it starts from now on. There is no way back.
///
/// # Errors
/// The kernel cannot do it; nothing is confined then, and nothing must be started instead.
pub(super) fn enter(confinement: &Confinement) -> io::Result<()> {
    kernel::enter(confinement)
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::io;

    use landlock::{
        ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
        RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
    };

    use super::{Confinement, DEVICES, SYSTEM};

    /// The first version that also guards against cutting a file short. An older kernel confines nothing:
    /// half a fence would be taken for one.
    const NEEDED: ABI = ABI::V3;

    pub(super) fn ruleset(confinement: &Confinement) -> Result<RulesetCreated, RulesetError> {
        let (all, read) = (AccessFs::from_all(NEEDED), AccessFs::from_read(NEEDED));
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(all)?
            .set_compatibility(CompatLevel::BestEffort)
            // A kernel that can keeps signals inside too.
            .scope(Scope::Signal)?
            .create()?
            .add_rules(path_beneath_rules(SYSTEM, read))?
            .add_rules(path_beneath_rules(DEVICES, all))?
            .add_rules(path_beneath_rules(&confinement.read, read))?
            .add_rules(path_beneath_rules(&confinement.write, all))
    }

    pub(super) fn enter(confinement: &Confinement) -> io::Result<()> {
        let status =
            ruleset(confinement).and_then(RulesetCreated::restrict_self).map_err(io::Error::other)?;
        match status.ruleset {
            RulesetStatus::NotEnforced => Err(io::ErrorKind::Unsupported.into()),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::io;

    use super::Confinement;

    pub(super) fn ruleset(_confinement: &Confinement) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn enter(confinement: &Confinement) -> io::Result<()> {
        ruleset(confinement)
    }
}
