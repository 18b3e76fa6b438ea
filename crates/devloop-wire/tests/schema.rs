//! The schemas under docs/schema are those of the types.
#![cfg(feature = "schema")]
#![allow(clippy::unwrap_used, reason = "tests")]

use devloop_wire::schema;

#[test]
fn the_schemas_in_the_documents_are_current() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    for (name, schema) in schema::all() {
        let written = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert_eq!(written, format!("{schema:#}\n"), "{name} is not current: `cargo xtask schema`");
    }
}

#[test]
fn every_reference_leads_somewhere_and_objects_are_closed() {
    fn walk(value: &serde_json::Value, root: &serde_json::Value, seen: &mut usize) {
        match value {
            serde_json::Value::Object(map) => {
                if let Some(target) = map.get("$ref").and_then(|target| target.as_str()) {
                    let pointer = target.strip_prefix('#').unwrap();
                    assert!(root.pointer(pointer).is_some(), "{target}");
                    *seen += 1;
                }
                map.values().for_each(|value| walk(value, root, seen));
            }
            serde_json::Value::Array(list) => list.iter().for_each(|value| walk(value, root, seen)),
            _ => {}
        }
    }
    let all = schema::all();
    assert_eq!(all.len(), 6);
    for (name, schema) in &all {
        let mut seen = 0;
        walk(schema, schema, &mut seen);
        assert!(seen > 0, "{name} refers to nothing");
    }
    let state = &all[0].1;
    assert_eq!(state["additionalProperties"], false);
    assert_eq!(state["$defs"]["LoopState"]["additionalProperties"], false);
}
