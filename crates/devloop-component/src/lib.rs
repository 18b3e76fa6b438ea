//! Owns the bytes of the built guest. It must not load or run them.
#![no_std]

/// The component: what a machine with a compiler loads, and what the digest names.
pub const CORE_WASM: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/built/core.wasm"));

/// The component compiled ahead of time for [`CORE_TARGET`]: loads without a compiler in under a millisecond.
pub const CORE_IMAGE: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/built/core.",
    env!("DEVLOOP_CORE_TARGET"),
    ".cwasm"
));

/// Platform of [`CORE_IMAGE`], a target triple.
pub const CORE_TARGET: &str = env!("DEVLOOP_CORE_TARGET");

/// SHA-256 of [`CORE_WASM`] in lower-case hex: the name of the core that wrote a document.
pub const CORE_DIGEST: &str = env!("DEVLOOP_CORE_DIGEST");

/// SHA-256 of the WIT package in lower-case hex.
pub const WIT_DIGEST: &str = env!("DEVLOOP_WIT_DIGEST");
