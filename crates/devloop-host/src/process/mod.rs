//! Starting, watching and ending child processes: the only place of the host that may.
//! It knows nothing of tasks, routes or git; it never uses a shell.

pub mod capture;
pub mod deadline;
pub mod env;
pub mod spawn;
pub mod tree;

pub use capture::{Captured, Sink};
pub use deadline::{CancelToken, Deadline};
pub use env::{ChildEnv, Folders, MARKER_VAR};
pub use spawn::{Exit, Running, SpawnError, Spec, StopPlan, spawn};
