//! The backend of a route that is closed by choice. The core never dispatches to it; a dispatch that comes
//! anyway reaches nobody.

use super::{Backend, BackendResult, Run};

/// Runs nothing.
#[derive(Debug, Clone, Copy)]
pub struct Noop;

impl Backend for Noop {
    fn run(&self, run: &Run<'_>) -> BackendResult {
        BackendResult::refused(format_args!("route {} has the backend noop, which runs nothing", run.route))
    }
}
