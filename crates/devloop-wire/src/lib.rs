//! The versioned documents: everything that lies on disk or comes from outside, parsed strictly, refused
//! with a field path. It owns their formats and must not do I/O, read a clock or decide anything.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod budget_doc;
mod config_adapters;
pub mod config_doc;
mod config_fields;
mod config_identity;
mod config_judge;
pub mod config_overlay;
pub mod config_price;
mod config_read;
mod config_routes;
#[cfg(feature = "schema")]
mod config_shape;
pub mod contract;
pub mod envelope;
mod envelope_form;
mod envelope_text;
pub mod event_line;
pub mod fault;
pub mod json;
mod legacy_doc;
pub mod migrate;
mod migrate_task;
pub mod money;
mod numbers;
pub mod policy_doc;
#[cfg(feature = "schema")]
pub mod schema;
mod state_check;
pub mod state_doc;
pub mod trace_line;
mod tree;

pub use fault::{DocError, Fault};
pub use json::{canonical, digest_bytes};
