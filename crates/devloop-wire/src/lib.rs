//! The versioned documents: everything that lies on disk or comes from outside, parsed strictly, refused with a field
//! path. It owns their formats and must not do I/O, read a clock or decide anything.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod envelope;
mod envelope_text;
pub mod event_line;
pub mod fault;
pub mod json;
mod numbers;
pub mod policy_doc;
mod state_check;
pub mod state_doc;

pub use fault::{DocError, Fault};
pub use json::{canonical, digest_bytes};
