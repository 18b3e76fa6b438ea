//! Which Rust files the compiler reaches, and which of them only for tests. It follows `mod` and paths in
//! strings, nothing else.

use super::tree::{Finding, Tree};
use std::collections::{BTreeMap, BTreeSet};
use syn::{Attribute, Item};

/// A module file: where it is looked for, and whether only tests are built with it.
struct Child {
    candidates: [String; 2],
    test_only: bool,
}

/// Every Rust file that no target reaches.
pub fn dead_files(tree: &Tree) -> Vec<Finding> {
    let reached = reached(tree);
    tree.with_extension(&["rs"])
        .filter(|(path, _)| !reached.contains_key(*path) && !is_named_by_path(tree, path))
        .map(|(path, _)| Finding::new(path, "is reached by no `mod`: declare it or delete it"))
        .collect()
}

/// Whether other code hands the file to a compiler by its path: a string that ends in folder and file name.
fn is_named_by_path(tree: &Tree, path: &str) -> bool {
    let mut parts = path.rsplitn(3, '/');
    let (Some(name), Some(folder)) = (parts.next(), parts.next()) else { return false };
    let ending = format!("{folder}/{name}\"");
    tree.with_extension(&["rs"]).any(|(other, text)| other != path && text.contains(&ending))
}

/// The files that are built for tests only: test targets, and what stands under `#[cfg(test)]`.
pub fn test_only(tree: &Tree) -> BTreeSet<String> {
    reached(tree).into_iter().filter(|(_, test_only)| *test_only).map(|(path, _)| path).collect()
}

/// Every reached file, with whether all the ways to it are for tests.
fn reached(tree: &Tree) -> BTreeMap<String, bool> {
    let mut found: BTreeMap<String, bool> = BTreeMap::new();
    let mut todo: Vec<(String, bool, bool)> = Vec::new(); // path, is a root, for tests only
    for path in roots(tree) {
        let for_tests = path.contains("/tests/") || path.contains("/benches/");
        todo.push((path, true, for_tests));
    }
    while let Some((path, is_root, for_tests)) = todo.pop() {
        let Some(text) = tree.text(&path) else { continue };
        if found.get(&path).is_some_and(|known| !known || for_tests) {
            continue;
        }
        found.insert(path.clone(), for_tests);
        let Ok(file) = syn::parse_file(text) else { continue };
        let mut children = Vec::new();
        modules(&file.items, folder_of_children(&path, is_root), folder(&path), false, &mut children);
        for child in children {
            if let Some(path) = child.candidates.into_iter().find(|path| tree.text(path).is_some()) {
                todo.push((path, false, for_tests || child.test_only));
            }
        }
    }
    found
}

/// The root files: what cargo names, and the usual names beside a manifest outside the workspace.
fn roots(tree: &Tree) -> BTreeSet<String> {
    let mut roots: BTreeSet<String> =
        tree.packages.iter().flat_map(|package| package.roots.clone()).collect();
    for (path, _) in tree.files().filter(|(path, _)| path.ends_with("/Cargo.toml")) {
        let folder = path.trim_end_matches("Cargo.toml");
        roots.extend(["src/lib.rs", "src/main.rs", "build.rs"].map(|name| format!("{folder}{name}")));
    }
    roots.retain(|path| tree.text(path).is_some());
    roots
}

fn folder(path: &str) -> String {
    path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"))
}

/// Where the children of a file live: beside a root or a `mod.rs`, else in a folder of the file's name.
fn folder_of_children(path: &str, is_root: bool) -> String {
    match is_root || path.ends_with("/mod.rs") {
        true => folder(path),
        false => format!("{}/", path.trim_end_matches(".rs")),
    }
}

fn modules(items: &[Item], home: String, beside: String, in_tests: bool, out: &mut Vec<Child>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let test_only = in_tests || module.attrs.iter().any(is_cfg_test);
        let name = module.ident.to_string().trim_start_matches("r#").to_owned();
        match &module.content {
            Some((_, inner)) => modules(inner, format!("{home}{name}/"), beside.clone(), test_only, out),
            None => {
                let candidates = match module.attrs.iter().find_map(path_attribute) {
                    Some(path) => [normal(&format!("{beside}{path}")), String::new()],
                    None => [format!("{home}{name}.rs"), format!("{home}{name}/mod.rs")],
                };
                out.push(Child { candidates, test_only });
            }
        }
    }
}

fn is_cfg_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
}

fn path_attribute(attribute: &Attribute) -> Option<String> {
    if !attribute.path().is_ident("path") {
        return None;
    }
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// A path without `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Package, Tree};
    use super::{dead_files, test_only};

    fn sample() -> Tree {
        let mut tree = Tree::of(&[
            (
                "crates/a/src/lib.rs",
                "mod b; #[cfg(test)] mod only; mod inline { mod deep; } #[path = \"../odd.rs\"] mod p;",
            ),
            ("crates/a/src/b.rs", "mod c;"),
            ("crates/a/src/b/c.rs", ""),
            ("crates/a/src/c.rs", ""),
            ("crates/a/src/only/mod.rs", "mod kit;"),
            ("crates/a/src/only/kit.rs", ""),
            ("crates/a/src/inline/deep.rs", ""),
            ("crates/a/odd.rs", ""),
            ("crates/a/tests/it.rs", "mod common;"),
            ("crates/a/tests/common.rs", ""),
            ("crates/a/build.rs", "fn main() { compile(\"kits/probe.rs\") }"),
            ("crates/a/kits/probe.rs", ""),
            ("crates/a/kits/dead.rs", ""),
            ("crates/a/probe/Cargo.toml", ""),
            ("crates/a/probe/src/main.rs", ""),
        ]);
        let roots =
            ["crates/a/src/lib.rs", "crates/a/build.rs", "crates/a/tests/it.rs"].map(str::to_owned).to_vec();
        tree.packages.push(Package { name: "a".to_owned(), roots, dependencies: vec![] });
        tree
    }

    #[test]
    fn a_file_that_no_mod_names_is_dead() {
        let at: Vec<String> = dead_files(&sample()).into_iter().map(|finding| finding.at).collect();
        assert_eq!(at, ["crates/a/kits/dead.rs", "crates/a/src/c.rs"]);
    }

    #[test]
    fn files_for_tests_are_known() {
        let found: Vec<String> = test_only(&sample()).into_iter().collect();
        let only = ["crates/a/src/only/kit.rs", "crates/a/src/only/mod.rs"];
        assert_eq!(found, [&only[..], &["crates/a/tests/common.rs", "crates/a/tests/it.rs"]].concat());
    }
}
