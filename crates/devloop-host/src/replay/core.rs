//! Which core a replay runs in: the embedded component, the native one, or a component in a file.

use std::path::Path;

use devloop_component::CORE_DIGEST;

use super::FILE_MAX_BYTES;
use crate::error::{ErrorKind, HostError};
use crate::files;
use crate::machine::{Component, Machine, Native};

/// Which core runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine<'a> {
    /// The component inside this program.
    Embedded,
    /// The core linked into this program, without a sandbox.
    Native,
    /// A component in a file; it is compiled here and metered by fuel.
    File(&'a Path),
}

/// A core that is ready to run.
pub struct Core {
    pub(super) machine: Box<dyn Machine>,
    /// Its digest, as journals name it.
    pub digest: String,
    /// What it is, in words.
    pub name: String,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Core {
    /// Loads a core.
    ///
    /// # Errors
    /// When the component does not load or its file cannot be read.
    pub fn load(engine: Engine<'_>) -> Result<Core, HostError> {
        match engine {
            Engine::Embedded => Ok(Core::of(Component::embedded()?, CORE_DIGEST, "the component")),
            Engine::Native => Ok(Core::of(Native::new(), CORE_DIGEST, "the native core")),
            Engine::File(path) => from_file(path),
        }
    }

    /// Any machine as a core: a core that decides otherwise, for tests.
    pub fn of(machine: impl Machine + 'static, digest: &str, name: &str) -> Core {
        Core { machine: Box::new(machine), digest: digest.into(), name: name.into() }
    }
}

#[cfg(feature = "compiler")]
fn from_file(path: &Path) -> Result<Core, HostError> {
    use crate::machine::{GuestLimits, Metering, Program};
    use std::sync::Arc;

    let bytes = files::read_bytes(path, FILE_MAX_BYTES)?;
    let program = Program::compile(&bytes, Metering::Fuel).map_err(|error| {
        let help = ["devloop", "replay", "--help"];
        HostError::new(ErrorKind::User, format!("this file is no core: {error}")).at(path).hint(help)
    })?;
    let machine = Component::new(Arc::new(program), GuestLimits::default());
    let digest = String::from(devloop_wire::digest_bytes(&bytes));
    Ok(Core::of(machine, &digest, &format!("the component {}", path.display())))
}

#[cfg(not(feature = "compiler"))]
fn from_file(path: &Path) -> Result<Core, HostError> {
    // Not read: without a compiler no bytes become a core.
    let _ = (FILE_MAX_BYTES, files::stamp(path));
    let what = "this program carries no compiler; use the command line to run another component";
    Err(HostError::new(ErrorKind::User, what).at(path))
}
