//! The shell of DevLoop: everything that touches the world. It performs and observes; it decides nothing.

pub mod backend;
pub mod clock;
pub mod effects;
pub mod error;
pub mod files;
pub mod git;
pub mod machine;
pub mod process;
pub mod store;
pub mod worktree;
