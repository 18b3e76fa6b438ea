//! Documents against the tree: paths that they name, the digest of the WIT, and what is generated into them.

use super::tree::{Finding, Tree};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
/// The line of ARCHITECTURE.md that carries the digest ends with it, in a code span.
const WIT_MARK: &str = "SHA-256 of `wit/*.wit`: `";
/// A code span that begins with one of these is a path of the tree.
const FOLDERS: [&str; 9] =
    ["crates/", "docs/", "npm/", "templates/", "tests/", "wit/", ".ci/", ".cargo/", ".github/"];
/// What a build makes and git ignores; documents may name it.
const BUILT: [&str; 2] = ["crates/devloop-component/built", "npm/dsh-devloop/lib"];

/// The documents whose paths are checked.
pub fn documents(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let of_a_room = |path: &str| path.starts_with("docs/") || path.starts_with("npm/") || !path.contains('/');
    tree.with_extension(&["md"]).filter(move |(path, _)| of_a_room(path))
}

/// Every path in a code span, and every relative link, names something that exists.
pub fn paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (document, text) in documents(tree) {
        for (line, span) in code_spans(text) {
            let is_path = FOLDERS.iter().any(|folder| span.starts_with(folder))
                && span.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
            let built = BUILT.iter().any(|folder| span.starts_with(folder));
            if is_path && !built && !tree.exists(span) {
                findings.push(Finding::on_line(document, line, format!("`{span}` does not exist")));
            }
        }
        for (line, target) in links(text) {
            let here = document.rsplit_once('/').map_or("", |(folder, _)| folder);
            let path = join(here, target.split('#').next().unwrap_or_default());
            if !path.is_empty() && !tree.exists(&path) {
                findings.push(Finding::on_line(
                    document,
                    line,
                    format!("the link to {target} leads nowhere"),
                ));
            }
        }
    }
    findings
}

/// The code spans of a document, fenced blocks left out: line and text.
pub fn code_spans(text: &str) -> Vec<(usize, &str)> {
    let mut spans = Vec::new();
    for (line, text) in prose(text) {
        spans.extend(text.split('`').skip(1).step_by(2).map(|span| (line, span)));
    }
    spans
}

/// The lines outside fenced blocks, counted from 1.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((index + 1, line));
        }
    }
    lines
}

/// The targets of links that stay in the tree.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (line, text) in prose(text) {
        for rest in text.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            if !target.contains(':') && !target.starts_with('#') {
                found.push((line, target));
            }
        }
    }
    found
}

fn join(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "" | "." => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The digest of the WIT that ARCHITECTURE.md describes is the digest of the WIT in the tree.
pub fn wit_digest(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(ARCHITECTURE) else { return vec![Finding::new(ARCHITECTURE, "is missing")] };
    let current = digest_of_wit(tree);
    match with_digest(text, &current) {
        Some(updated) if updated == text => vec![],
        Some(_) => vec![Finding::new(
            ARCHITECTURE,
            "describes another wit/: read what changed, then `cargo xtask tidy --fix`",
        )],
        None => vec![Finding::new(ARCHITECTURE, format!("has no line with {WIT_MARK}…`"))],
    }
}

/// The schemas in the tree are those of the types.
pub fn schemas(tree: &Tree) -> Vec<Finding> {
    differing(tree, &crate::schema::documents())
}

/// The page of decisions is what the core says.
pub fn decisions(tree: &Tree) -> Vec<Finding> {
    let read = |path: &str| tree.text(path).map(str::to_owned);
    match crate::decisions::page(&read) {
        Ok(page) if tree.text(crate::decisions::PAGE) == Some(page.as_str()) => Vec::new(),
        Ok(_) => {
            vec![Finding::new(crate::decisions::PAGE, "is not what the core says: `cargo xtask decisions`")]
        }
        Err(sentence) => vec![Finding::new(crate::decisions::PAGE, sentence)],
    }
}

/// Schemas that are missing, differ, or belong to no type any more.
fn differing(tree: &Tree, wanted: &BTreeMap<String, String>) -> Vec<Finding> {
    let prefix = format!("{}/", crate::schema::FOLDER);
    let found = tree.files().filter_map(|(path, text)| Some((path.strip_prefix(&prefix)?, text)));
    let found: BTreeMap<&str, &str> = found.collect();
    let stale = found
        .keys()
        .filter(|name| !wanted.contains_key(**name))
        .map(|name| (*name, "is generated from no type"));
    let differ = wanted.iter().filter(|(name, text)| found.get(name.as_str()) != Some(&text.as_str()));
    let differ = differ.map(|(name, _)| (name.as_str(), "differs from the types: `cargo xtask schema`"));
    stale.chain(differ).map(|(name, text)| Finding::new(&format!("{prefix}{name}"), text)).collect()
}

/// Rewrites what can be generated into documents.
pub fn fix(tree: &Tree, root: &Path) -> Result<(), String> {
    let Some(text) = tree.text(ARCHITECTURE) else { return Ok(()) };
    match with_digest(text, &digest_of_wit(tree)) {
        Some(updated) if updated != text => std::fs::write(root.join(ARCHITECTURE), updated)
            .map_err(|error| format!("{ARCHITECTURE} could not be written: {error}")),
        _ => Ok(()),
    }
}

/// The document with this digest in its place, if it has the place.
fn with_digest(text: &str, digest: &str) -> Option<String> {
    let start = text.find(WIT_MARK)? + WIT_MARK.len();
    let end = start + text[start..].find('`')?;
    Some(format!("{}{digest}{}", &text[..start], &text[end..]))
}

/// SHA-256 of the WIT files, one after the other in the order of their names.
fn digest_of_wit(tree: &Tree) -> String {
    let mut hash = Sha256::new();
    for (_, text) in tree.with_extension(&["wit"]).filter(|(path, _)| path.starts_with("wit/")) {
        hash.update(text.as_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;

    #[test]
    fn paths_and_links_of_documents_must_exist() {
        let text = "`crates/a/src/lib.rs` `crates/gone.rs` `docs/<x>` `tests`\n```\n`crates/fenced.rs`\n```\n\
                    [a](../README.md#top) [b](gone.md) [c](https://example.org/x) [d](#here)\n";
        let tree = Tree::of(&[("docs/A.md", text), ("README.md", ""), ("crates/a/src/lib.rs", "")]);
        let found: Vec<String> = super::paths(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/A.md:1: `crates/gone.rs` does not exist",
                "docs/A.md:5: the link to gone.md leads nowhere"
            ]
        );
    }

    #[test]
    fn schemas_are_compared_both_ways() {
        let wanted =
            [("a.json", "1"), ("b.json", "2")].map(|(name, text)| (name.to_owned(), text.to_owned()));
        let tree =
            Tree::of(&[("docs/schema/a.json", "1"), ("docs/schema/b.json", "3"), ("docs/schema/c.json", "")]);
        let found: Vec<String> =
            super::differing(&tree, &wanted.into()).into_iter().map(|finding| finding.at).collect();
        assert_eq!(found, ["docs/schema/c.json", "docs/schema/b.json"]);
    }

    #[test]
    fn a_changed_wit_is_noticed_and_can_be_fixed() {
        let document = |digest: &str| format!("x\n{}{digest}`.\n", super::WIT_MARK);
        let tree = |digest: &str| {
            Tree::of(&[("docs/ARCHITECTURE.md", &document(digest)), ("wit/a.wit", "a"), ("wit/b.wit", "bc")])
        };
        // SHA-256 of the three letters "abc".
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(super::wit_digest(&tree(right)).is_empty());
        assert_eq!(super::wit_digest(&tree("00")).len(), 1);
        assert_eq!(super::with_digest(&document("00"), right), Some(document(right)));
        assert_eq!(super::wit_digest(&Tree::of(&[("docs/ARCHITECTURE.md", "no line")])).len(), 1);
    }
}
