//! docs/INVARIANTS.md against the tests: every invariant has a row, and every row names tests that exist.

use super::docs;
use super::tokens::{self, Token};
use super::tree::{Finding, Tree};
use std::collections::BTreeSet;

const DOCUMENT: &str = "docs/INVARIANTS.md";
/// The invariants are I1 to this one.
const LAST: usize = 15;
/// What a row says while its test is being written.
const NOT_YET: &str = "not yet";

/// Invariants whose row admits that no test stands there: named in notes until there is one.
pub fn untested(tree: &Tree) -> Vec<Finding> {
    let rows = tree.text(DOCUMENT).unwrap_or_default().lines().enumerate();
    rows.filter(|(_, row)| row.starts_with("| I") && row.ends_with(&format!("| {NOT_YET} |")))
        .map(|(index, _)| Finding::on_line(DOCUMENT, index + 1, "has no test yet"))
        .collect()
}

/// Every invariant names, in the last cell of its row, at least one test, and every named test exists.
pub fn named_tests(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(DOCUMENT) else { return vec![Finding::new(DOCUMENT, "is missing")] };
    let known = test_names(tree);
    let mut findings = Vec::new();
    for number in 1..=LAST {
        let mark = format!("| I{number} |");
        let rows: Vec<(usize, &str)> =
            text.lines().enumerate().filter(|(_, row)| row.starts_with(&mark)).collect();
        let [(index, row)] = rows[..] else {
            findings.push(Finding::new(DOCUMENT, format!("I{number} needs one row, not {}", rows.len())));
            continue;
        };
        let cell = row.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let named = docs::code_spans(cell);
        if named.is_empty() && cell.trim() != NOT_YET {
            findings.push(Finding::on_line(DOCUMENT, index + 1, format!("I{number} names no test")));
        }
        for (_, name) in named.into_iter().filter(|(_, name)| !known.contains(*name)) {
            findings.push(Finding::on_line(DOCUMENT, index + 1, format!("no test is called {name}")));
        }
    }
    findings
}

/// Every test: the names of Rust tests, and the paths of test files of Node.
pub fn test_names(tree: &Tree) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in tree.with_extension(&["rs"]) {
        names.extend(tests_of(&tokens::all(text).unwrap_or_default()));
    }
    let scripts = tree.with_extension(&["mjs", "ts", "js"]);
    names.extend(scripts.filter(|(_, text)| text.contains("test(")).map(|(path, _)| path.to_owned()));
    names
}

/// The functions that stand right after `#[test]` and further attributes, inside macros too.
fn tests_of(found: &[Token]) -> Vec<String> {
    let mut names = Vec::new();
    for start in 0..found.len() {
        let after: Vec<&str> = found[start..].iter().take(2).map(|token| token.text.as_str()).collect();
        if after != ["fn", after.get(1).copied().unwrap_or_default()] {
            continue;
        }
        if has_test_attribute(&found[..start]) {
            names.push(after[1].to_owned());
        }
    }
    names
}

/// Whether the attributes that end here include `#[test]`.
fn has_test_attribute(mut before: &[Token]) -> bool {
    while before.last().is_some_and(|token| token.text == "]") {
        let Some(open) = before.iter().rposition(|token| token.text == "[") else { return false };
        if before[open + 1..].iter().map(|token| token.text.as_str()).eq(["test", "]"]) {
            return true;
        }
        before = &before[..open.saturating_sub(1)];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;

    fn document(last: &str) -> String {
        let rows: String = (1..=14).map(|number| format!("| I{number} | s | w | `good` |\n")).collect();
        format!("{rows}{last}")
    }

    fn check(last: &str) -> Vec<String> {
        let code = "fn helper() {}\nproptest! { #[test]\n/// Why.\n fn good(x in 0..1) {} }\n\
                    #[test] #[cfg(unix)] fn other() {}";
        let text = document(last);
        let tree =
            Tree::of(&[("docs/INVARIANTS.md", &text), ("a.rs", code), ("tests/x.test.mjs", "test('x')")]);
        super::named_tests(&tree).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn rows_name_tests_that_exist() {
        assert!(check("| I15 | s | `helper` | `good`, `other`, `tests/x.test.mjs` |").is_empty());
        assert_eq!(check("| I15 | s | w | `helper` |"), ["no test is called helper"]);
        assert_eq!(check("| I15 | s | `good` | by hand |"), ["I15 names no test"]);
        assert_eq!(check(""), ["I15 needs one row, not 0"]);
        assert!(check("| I15 | s | w | not yet |").is_empty());
        let tree = Tree::of(&[("docs/INVARIANTS.md", &document("| I15 | s | w | not yet |"))]);
        assert_eq!(super::untested(&tree)[0].at, "docs/INVARIANTS.md:15");
    }
}
