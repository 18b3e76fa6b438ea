//! Owns the import gate: a component passes only when it imports nothing that can be called. It must not
//! build.

use wit_component::DecodedWasm;
use wit_parser::{Interface, Resolve, TypeDefKind, WorldItem};

use super::Failure;

/// Fails, naming each function and resource that `component` imports. Interfaces of plain types are allowed:
/// there is nothing in them to call.
pub fn check(component: &[u8]) -> Result<(), Failure> {
    let DecodedWasm::Component(resolve, world) =
        wit_component::decode(component).map_err(|e| format!("not a readable component: {e:?}"))?
    else {
        return Err("a WIT package is not a component".into());
    };
    let world = &resolve.worlds[world];
    let mut callable = Vec::new();
    for (key, item) in &world.imports {
        match item {
            WorldItem::Function(function) => callable.push(function.name.clone()),
            WorldItem::Interface { id, .. } => {
                let name = resolve.name_world_key(key);
                callable
                    .extend(reach(&resolve, &resolve.interfaces[*id]).map(|what| format!("{name} {what}")));
            }
            WorldItem::Type { id, .. } => {
                if is_resource(&resolve, *id) {
                    callable.push(resolve.name_world_key(key));
                }
            }
        }
    }
    if callable.is_empty() {
        return Ok(());
    }
    Err(format!("the component can reach out of the sandbox through: {}", callable.join(", ")).into())
}

fn reach<'a>(resolve: &'a Resolve, interface: &'a Interface) -> impl Iterator<Item = String> + 'a {
    let resources =
        interface.types.iter().filter(|(_, id)| is_resource(resolve, **id)).map(|(name, _)| name.clone());
    interface.functions.keys().cloned().chain(resources)
}

fn is_resource(resolve: &Resolve, id: wit_parser::TypeId) -> bool {
    matches!(resolve.types[id].kind, TypeDefKind::Resource)
}
