//! The failures that docs/backends.md says were provoked, against the tests: every test it names exists, and
//! no cell is empty. It reads one section; it judges no test.

use super::docs;
use super::invariants;
use super::tree::{Finding, Tree};

const DOCUMENT: &str = "docs/backends.md";
const HEADING: &str = "## Which failures were provoked";
/// The first cell of a row of heads.
const HEAD: &str = "failure | ";
/// A cell without a test begins with this and goes on with the reason.
const NONE: &str = "none: ";

/// Every name of a test in the section is one, in Rust or as a text of a script; every cell has one or a
/// reason.
pub fn exists(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(DOCUMENT) else { return Vec::new() };
    let known = invariants::test_names(tree);
    let scripts: Vec<&str> = tree.with_extension(&["mjs"]).map(|(_, text)| text).collect();
    let is_test = |name: &str| {
        let quoted = format!("'{name}'");
        known.contains(name) || scripts.iter().any(|text| text.contains(&quoted))
    };
    let (mut inside, mut findings) = (false, Vec::new());
    for (index, line) in text.lines().enumerate() {
        inside = if line.starts_with("## ") { line == HEADING } else { inside };
        let at = |text: String| Finding::on_line(DOCUMENT, index + 1, text);
        let cells = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |"));
        let Some(cells) = cells.filter(|cells| inside && !cells.starts_with(HEAD)) else { continue };
        for cell in cells.split(" | ").skip(1) {
            let named = docs::code_spans(cell);
            if named.is_empty() && !cell.starts_with(NONE) {
                findings.push(at(format!("{cell:?} names no test and no reason (`{NONE}why`)")));
            }
            let gone = named.iter().filter(|(_, name)| !is_test(name));
            findings.extend(gone.map(|(_, name)| at(format!("no test is called {name}"))));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;

    fn check(row: &str) -> Vec<String> {
        let text = format!("| x | `no` |\n{}\n| failure | claude |\n|---|---|\n{row}\n", super::HEADING);
        let text = format!("{text}## Next\n| x | `no` |\n");
        let files = [
            (super::DOCUMENT, &*text),
            ("tests/a.test.mjs", "const F = { 'claude: 503': 1 }"),
            ("a.rs", "#[test]\nfn good() {}\nfn helper() {}"),
        ];
        super::exists(&Tree::of(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_cell_of_the_section_names_tests_that_exist_or_says_why_not() {
        assert!(check("| overloaded | `claude: 503`, `good` | none: it cannot be |").is_empty());
        assert_eq!(check("| x | `claude: 504` |"), ["docs/backends.md:5: no test is called claude: 504"]);
        assert_eq!(check("| x | `good`, `helper` |"), ["docs/backends.md:5: no test is called helper"]);
        let nothing = "docs/backends.md:5: \"by hand\" names no test and no reason (`none: why`)";
        assert_eq!(check("| x | by hand |"), [nothing]);
    }
}
