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
