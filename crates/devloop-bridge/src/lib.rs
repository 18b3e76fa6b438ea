//! Owns the way between the domain and WIT, in both directions and for every set of generated bindings. It
//! must not decide, and it knows neither wasmtime nor wit-bindgen: [`bridge!`] is told where the bindings
//! are.
//!
//! Each type is spelled once, in the file of its alphabet. A field or case that one side has and the other
//! has not is an error of the compiler.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod convert;
mod proof;
mod shape;

mod command;
mod common;
mod decision;
mod effect;
mod event;
mod hold;
mod observation;
mod question;
mod reason;
mod run;
mod session;
mod state;
mod task;

pub use convert::{IntoDomain, IntoWit, Refused};
#[doc(hidden)]
pub use proof::reviewed_head;
pub use session::{CoreError, Fault, FaultKind, Replayed, Session, Step, replay};

/// Every module with a type that crosses, under one roof for the macros.
#[doc(hidden)]
pub mod domain {
    pub use devloop_core::*;

    /// What is spoken about the alphabet.
    pub mod run {
        pub use crate::session::{CoreError, Fault, FaultKind, Replayed, Step};
    }
}

/// Converts a part of a value; a refusal names it.
#[doc(hidden)]
pub fn field<T, W: IntoDomain<T>>(value: W, name: &str) -> Result<T, Refused> {
    value.into_domain().map_err(|refused| refused.within(name))
}

/// Implements [`IntoWit`] and [`IntoDomain`] for the whole alphabet, given the module of the generated types:
/// `devloop_bridge::bridge!(crate::bindings::devloop::core::types);`
#[macro_export]
macro_rules! bridge {
    ($($wit:tt)+) => {
        const _: () = {
            use $($wit)+ as wit;
            use $crate::{record, reviewed_head, variant};
            $crate::shapes!(record variant reviewed_head wit);
        };
    };
}

/// Walks over every type of the alphabet and hands its shape to the macros named: records to the first, enums
/// to the second, the proof to the third. The tests walk it too, so no shape can be left untried.
#[doc(hidden)]
#[macro_export]
macro_rules! shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $crate::common_shapes!($record $variant $proof $wit);
        $crate::hold_shapes!($record $variant $proof $wit);
        $crate::task_shapes!($record $variant $proof $wit);
        $crate::state_shapes!($record $variant $proof $wit);
        $crate::observation_shapes!($record $variant $proof $wit);
        $crate::command_shapes!($record $variant $proof $wit);
        $crate::event_shapes!($record $variant $proof $wit);
        $crate::effect_shapes!($record $variant $proof $wit);
        $crate::reason_shapes!($record $variant $proof $wit);
        $crate::question_shapes!($record $variant $proof $wit);
        $crate::decision_shapes!($record $variant $proof $wit);
        $crate::run_shapes!($record $variant $proof $wit);
    };
}
