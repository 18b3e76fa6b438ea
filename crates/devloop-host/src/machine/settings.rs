//! Owns the engine settings that decide what a guest can observe and how it can be stopped. It must not
//! compile or run anything: the host and `cargo xtask guest` share this one file, so an image is made exactly
//! as it will be loaded.

use wasmtime::Config;

/// How a runaway guest is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metering {
    /// Deadline in wall time, almost free: production.
    Epoch,
    /// Deadline in executed instructions, the same number on every machine: replay.
    Fuel,
}

/// Stack a guest may use inside the engine, bytes. The guest's own shadow stack is smaller and runs out
/// first.
pub const MAX_STACK_BYTES: usize = 1 << 20;

/// Settings of an engine that runs (and, where a compiler is present, compiles) the core.
///
/// A compiling caller also turns NaN canonicalisation on; that setter exists only beside a compiler.
pub fn engine_config(metering: Metering) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(metering == Metering::Epoch);
    config.consume_fuel(metering == Metering::Fuel);
    config.wasm_component_model(true);
    config.wasm_relaxed_simd(false);
    config.max_wasm_stack(MAX_STACK_BYTES);
    // Where a trap lay is of no use in a stripped module, and the table of it is a third of the image.
    config.generate_address_map(false);
    config
}
