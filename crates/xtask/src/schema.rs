//! `cargo xtask schema`: a JSON Schema of every document, generated from the types of the wire crate. It owns
//! what lies in docs/schema; what a document holds is decided by the types.

use crate::tools;
use std::collections::BTreeMap;

/// Where the schemas live.
pub const FOLDER: &str = "docs/schema";

/// Writes every schema; with `--check` only compares.
pub fn run(args: &[String]) -> Result<(), String> {
    let check = match args {
        [] => false,
        [word] if word == "--check" => true,
        _ => return Err("usage: cargo xtask schema [--check]".to_owned()),
    };
    let folder = tools::root().join(FOLDER);
    let differing: Vec<(String, String)> = documents()
        .into_iter()
        .filter(|(name, text)| std::fs::read_to_string(folder.join(name)).ok().as_deref() != Some(text))
        .collect();
    if check && !differing.is_empty() {
        let names: Vec<&str> = differing.iter().map(|(name, _)| name.as_str()).collect();
        return Err(format!("{FOLDER}: {} differ from the types: `cargo xtask schema`", names.join(", ")));
    }
    let said = |error: std::io::Error| format!("{FOLDER}: {error}");
    std::fs::create_dir_all(&folder).map_err(said)?;
    differing.iter().try_for_each(|(name, text)| std::fs::write(folder.join(name), text).map_err(said))
}

/// Every schema: file name and text.
pub fn documents() -> BTreeMap<String, String> {
    devloop_wire::schema::all()
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), format!("{schema:#}\n")))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    /// The files in docs/schema are exactly these.
    const FILES: [&str; 6] = [
        "config.schema.json",
        "contract.schema.json",
        "envelope.schema.json",
        "events.schema.json",
        "state.schema.json",
        "trace.schema.json",
    ];

    #[test]
    fn the_schemas_in_the_documents_are_current_and_no_other_lies_there() {
        assert_eq!(super::run(&["--check".to_owned()]), Ok(()));
        let folder = crate::tools::root().join(super::FOLDER);
        let entries = std::fs::read_dir(folder).expect("docs/schema is there");
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name.ends_with(".json"));
        names.sort();
        assert_eq!(names, FILES);
        assert_eq!(super::documents().into_keys().collect::<Vec<_>>(), FILES);
    }

    /// Counts the references, each of which must lead somewhere.
    fn references(value: &Value, root: &Value) -> usize {
        match value {
            Value::Object(map) => {
                let own = map.get("$ref").and_then(Value::as_str);
                if let Some(target) = own {
                    let pointer = target.strip_prefix('#').expect("a reference into the same document");
                    assert!(root.pointer(pointer).is_some(), "{target}");
                }
                usize::from(own.is_some()) + map.values().map(|inner| references(inner, root)).sum::<usize>()
            }
            Value::Array(list) => list.iter().map(|inner| references(inner, root)).sum(),
            _ => 0,
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_what_is_ours_is_closed() {
        for (name, text) in super::documents() {
            let schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
            assert!(references(&schema, &schema) > 0, "{name} refers to nothing");
            // The envelope comes from models: what it says besides is ignored.
            let definitions = schema["$defs"].as_object().expect("definitions");
            for (kind, definition) in definitions.iter().filter(|_| name != "envelope.schema.json") {
                if definition.get("properties").is_some() {
                    assert_eq!(definition["additionalProperties"], false, "{name}: {kind} is open");
                }
            }
        }
    }
}
