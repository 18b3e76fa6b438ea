//! The core in its sandbox: closed to the outside, equal to the native core byte for byte, replaceable at any
//! moment, and stopped by its limits when it runs wild. `cargo xtask guest` builds what these tests load.

#[path = "component/agree.rs"]
mod agree;
#[path = "component/closed.rs"]
mod closed;
#[path = "component/hostile.rs"]
mod hostile;
#[path = "component/run.rs"]
mod run;

use std::path::PathBuf;
use std::sync::Arc;

use devloop_core::state::LoopState;
use devloop_host::machine::{GuestLimits, MachineError, Program};

/// A file that `cargo xtask guest` built for this platform.
fn built(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../devloop-component/built");
    let path = folder.join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; run `cargo xtask guest`", path.display()))
}

/// The program in an image of this platform.
fn image(name: &str) -> Result<Arc<Program>, MachineError> {
    let bytes = built(&format!("{name}.{}.cwasm", devloop_component::CORE_TARGET));
    // SAFETY: the image was made by `cargo xtask guest` in this very tree.
    unsafe { Program::from_image(&bytes) }.map(Arc::new)
}

fn roomy() -> GuestLimits {
    GuestLimits::default()
}

/// A project before its first goal, as a document.
fn fresh_state() -> Vec<u8> {
    devloop_wire::state_doc::write(&LoopState::default())
}
