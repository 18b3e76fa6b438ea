//! The deterministic core: `decide(state, policy, observation) -> decision` and `apply(state, event)`,
//! nothing else. It owns every rule of the loop and must not hold a clock, a file, a random source or a
//! float.
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;

/// Derives every domain type shares; serde and schemars stay optional (rule D1).
macro_rules! data {
    ($($item:item)*) => {$(
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        $item
    )*};
}

pub mod admit;
pub mod answer;
pub mod apply;
pub mod basis;
mod bounded;
pub mod circuit;
pub mod clock;
pub mod command;
pub mod cost;
pub mod decide;
pub mod diagnose;
mod draft;
pub mod effect;
pub mod entries;
pub mod event;
pub mod expected;
pub mod finding;
mod hashed;
pub mod hold;
pub mod ids;
pub mod invariant;
pub mod ledger;
pub mod observation;
pub mod obstacle;
pub mod operate;
pub mod paths;
pub mod plan;
pub mod policy;
pub mod price;
pub mod question;
pub mod reason;
pub mod recovery;
pub mod render;
pub mod report;
pub mod review;
pub mod settle;
pub mod state;
pub mod task;
pub mod tasks;
pub mod tier;
pub mod units;
pub mod untrusted;
mod view;
pub mod wait;

pub use decide::{Decision, Input, decide};
