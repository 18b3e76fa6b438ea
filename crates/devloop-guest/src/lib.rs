//! Owns the exports of the component. It must not decide: every call goes to the core through the bridge.

wit_bindgen::generate!({ path: "../../wit", world: "core" });

mod allocator;
#[cfg(target_family = "wasm")]
mod compare;
#[cfg(feature = "hostile")]
mod hostile;
#[cfg(not(feature = "hostile"))]
mod machine;

#[cfg(not(feature = "hostile"))]
devloop_bridge::bridge!(crate::devloop::core::types);

#[global_allocator]
static BLOCKS: allocator::Blocks = allocator::Blocks::new();
