//! Owns loading a guest and starting instances of it under limits. It must not know the alphabet.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, ResourceLimiter, Store, Trap};

use super::bindings::{Core, CorePre};
use super::settings::{Metering, engine_config};
use super::watchdog::{Running, TICK_MS, Watchdog};
use super::{MachineError, Stop};

/// What one instance may use. Every call starts with the full deadline and fuel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestLimits {
    /// Wall time of one call, at least [`TICK_MS`]; not counted when fuel is metered.
    pub deadline: Duration,
    /// Linear memory of the instance, bytes.
    pub memory_bytes: usize,
    /// Fuel of one call; counts only in a program that meters fuel.
    pub fuel: u64,
}

impl Default for GuestLimits {
    /// Far above what a loop of 10,000 tasks needs (25 microseconds a decision, 6 MB) on a slow machine.
    fn default() -> Self {
        Self { deadline: Duration::from_secs(10), memory_bytes: 192 << 20, fuel: 20_000_000_000 }
    }
}

/// A loaded guest, shared by every instance of it.
pub struct Program {
    engine: Engine,
    pre: CorePre<Cap>,
    metering: Metering,
    watchdog: Option<Watchdog>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("metering", &self.metering).finish_non_exhaustive()
    }
}

/// The embedded program while somebody uses it: all projects of a process share one, and the last one out
/// ends its thread.
static EMBEDDED: Mutex<Weak<Program>> = Mutex::new(Weak::new());

impl Program {
    /// The core that was built into this program, from its ahead-of-time image. Deadlines are wall time.
    ///
    /// # Errors
    /// [`MachineError::Image`] when the image was made for another engine.
    pub fn embedded() -> Result<Arc<Self>, MachineError> {
        let mut slot = EMBEDDED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = slot.upgrade() {
            return Ok(program);
        }
        // SAFETY: the bytes were made by `cargo xtask guest` from our own component and are part of this
        // binary.
        let program = Arc::new(unsafe { Self::from_image(devloop_component::CORE_IMAGE)? });
        *slot = Arc::downgrade(&program);
        Ok(program)
    }

    /// Loads an ahead-of-time image.
    ///
    /// # Safety
    /// `image` must come from `cargo xtask guest`: an image is machine code, and its contents are not
    /// verified.
    ///
    /// # Errors
    /// [`MachineError::Image`] when it was made for another engine, platform or world.
    pub unsafe fn from_image(image: &[u8]) -> Result<Self, MachineError> {
        let engine = Engine::new(&engine_config(Metering::Epoch)).map_err(image_error)?;
        // SAFETY: the caller vouches for the origin of the bytes.
        let component = unsafe { Component::deserialize(&engine, image) }.map_err(image_error)?;
        Self::new(engine, &component, Metering::Epoch)
    }

    /// Compiles a component, which is safe for any bytes.
    ///
    /// # Errors
    /// [`MachineError::Image`] when it is no component of this world, or imports anything that can be called.
    #[cfg(feature = "compiler")]
    pub fn compile(component: &[u8], metering: Metering) -> Result<Self, MachineError> {
        let mut config = engine_config(metering);
        config.cranelift_nan_canonicalization(true);
        let engine = Engine::new(&config).map_err(image_error)?;
        let component = Component::new(&engine, component).map_err(image_error)?;
        Self::new(engine, &component, metering)
    }

    fn new(engine: Engine, component: &Component, metering: Metering) -> Result<Self, MachineError> {
        // Nothing is linked. A component that wants anything from outside fails here.
        let linker: Linker<Cap> = Linker::new(&engine);
        let pre = linker.instantiate_pre(component).and_then(CorePre::new).map_err(image_error)?;
        let watchdog = match metering {
            Metering::Epoch => {
                Some(Watchdog::start(&engine).map_err(|e| MachineError::Image(e.to_string()))?)
            }
            Metering::Fuel => None,
        };
        Ok(Self { engine, pre, metering, watchdog })
    }

    /// Everything that an instance could call outside itself, by name: the design wants this list empty.
    #[must_use]
    pub fn callable_imports(&self) -> Vec<String> {
        let component = self.pre.instance_pre().component().component_type();
        let mut callable = Vec::new();
        for (name, item) in component.imports(&self.engine) {
            reach(&self.engine, name, &item.ty, &mut callable);
        }
        callable
    }

    /// Starts an instance.
    pub(super) fn instantiate(&self, limits: &GuestLimits) -> Result<(Store<Cap>, Core), MachineError> {
        let mut store = Store::new(&self.engine, Cap { memory_bytes: limits.memory_bytes });
        store.limiter(|cap| cap);
        let _running = self.arm(&mut store, limits)?;
        let core = self.pre.instantiate(&mut store).map_err(|e| MachineError::Stopped(stop(&e)))?;
        Ok((store, core))
    }

    /// Gives the next call its full allowance; its deadline runs as long as the answer lives.
    pub(super) fn arm(
        &self,
        store: &mut Store<Cap>,
        limits: &GuestLimits,
    ) -> Result<Option<Running<'_>>, MachineError> {
        if self.metering == Metering::Fuel {
            store.set_fuel(limits.fuel).map_err(image_error)?;
            return Ok(None);
        }
        let ticks = u64::try_from(limits.deadline.as_millis()).unwrap_or(u64::MAX) / TICK_MS;
        store.set_epoch_deadline(ticks.max(1));
        Ok(self.watchdog.as_ref().map(Watchdog::watch))
    }

    /// Fuel that the last call used; none unless fuel is metered.
    pub(super) fn fuel_used(&self, store: &Store<Cap>, limits: &GuestLimits) -> Option<u64> {
        store.get_fuel().ok().map(|left| limits.fuel.saturating_sub(left))
    }
}

/// Adds what can be called in an import: a function or a resource, however deep.
fn reach(engine: &Engine, name: &str, item: &ComponentItem, callable: &mut Vec<String>) {
    match item {
        ComponentItem::Type(_) => {}
        ComponentItem::ComponentInstance(instance) => {
            for (inner, item) in instance.exports(engine) {
                reach(engine, &format!("{name} {inner}"), &item.ty, callable);
            }
        }
        ComponentItem::ComponentFunc(_)
        | ComponentItem::CoreFunc(_)
        | ComponentItem::Module(_)
        | ComponentItem::Component(_)
        | ComponentItem::Resource(_) => callable.push(name.to_owned()),
    }
}

/// The memory ceiling of one instance.
#[derive(Debug)]
pub(super) struct Cap {
    memory_bytes: usize,
}

/// A guest wanted more memory than it may have.
#[derive(Debug, thiserror::Error)]
#[error("the guest wanted {wanted_bytes} bytes of memory")]
struct OverCap {
    wanted_bytes: usize,
}

impl ResourceLimiter for Cap {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        // An error, not a refusal: a refused growth would reach the guest as an allocation failure it could
        // hide.
        if desired > self.memory_bytes {
            return Err(wasmtime::Error::new(OverCap { wanted_bytes: desired }));
        }
        Ok(true)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE_ELEMENTS)
    }
}

/// Functions a guest may hold references to: several times what it has.
const MAX_TABLE_ELEMENTS: usize = 20_000;

/// What ended a call that did not return.
pub(super) fn stop(error: &wasmtime::Error) -> Stop {
    if error.downcast_ref::<OverCap>().is_some() {
        return Stop::Memory;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => Stop::Deadline,
        Some(Trap::OutOfFuel) => Stop::Fuel,
        Some(Trap::StackOverflow) => Stop::Stack,
        Some(trap) => Stop::Trap(trap.to_string()),
        None => Stop::Trap(format!("{error:#}")),
    }
}

fn image_error(error: wasmtime::Error) -> MachineError {
    MachineError::Image(format!("{error:#}"))
}
