//! The shell of DevLoop: everything that touches the world. It performs and observes; it decides nothing.

pub mod backend;
pub mod clock;
pub mod command;
pub mod cost;
pub mod distrust;
pub mod doctor;
pub mod effects;
pub mod error;
mod fair;
pub mod files;
pub mod git;
pub mod left;
mod lost;
pub mod machine;
pub mod observe;
pub mod process;
pub mod replay;
mod scratch;
pub mod session;
pub mod settings;
pub mod shared;
pub mod store;
pub mod supervisor;
mod told;
pub mod view;
pub mod watch;
pub mod worktree;
