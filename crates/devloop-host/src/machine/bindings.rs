//! Owns the host's generated bindings and their conversions. It must not hold logic.
#![allow(
    missing_debug_implementations,
    clippy::wildcard_imports,
    reason = "generated code follows the generator's style"
)]

wasmtime::component::bindgen!({ path: "../../wit", world: "core" });

devloop_bridge::bridge!(self::devloop::core::types);
