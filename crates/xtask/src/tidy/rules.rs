//! docs/rules/ against the tests: every rule and every hazard has one row, and every row names tests that
//! exist or says why there is none. It reads tables; it judges no test.

use super::docs;
use super::invariants;
use super::tree::{Finding, Tree};
use std::collections::BTreeMap;

const FOLDER: &str = "docs/rules/";
/// A row without a test begins its last cell with this and goes on with the reason.
const NONE: &str = "none: ";
/// A row whose test is still to be written.
const NOT_YET: &str = "not yet";

/// The rules that need a row, by their first and last number.
const RULES: (u32, u32) = (1, 169);
/// Numbers among them that no rule has.
const NO_RULE: [u32; 17] = [7, 12, 23, 33, 44, 49, 57, 66, 78, 84, 85, 92, 98, 100, 110, 112, 120];
/// Further numbers that no rule has.
const NO_RULE_EITHER: [u32; 6] = [124, 144, 145, 153, 160, 165];
/// The hazards that need a row; those from 101 are the ones without a number of their own.
const HAZARDS: (u32, u32) = (1, 40);
const FURTHER_HAZARDS: (u32, u32) = (101, 115);
/// Numbers among the hazards that none has.
const NO_HAZARD: [u32; 8] = [7, 10, 11, 17, 22, 29, 33, 38];

/// A row of a table: where it stands, its name, its last cell.
struct Row<'a> {
    path: &'a str,
    line: usize,
    name: &'a str,
    proof: &'a str,
}

/// Every rule and hazard has one row, whose last cell names tests that exist, or why there is none.
pub fn proven(tree: &Tree) -> Vec<Finding> {
    let known = invariants::test_names(tree);
    let mut findings = Vec::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows(tree) {
        *seen.entry(row.name).or_default() += 1;
        let at = |text: String| Finding::on_line(row.path, row.line, text);
        let named = docs::code_spans(row.proof);
        let reason = row.proof.strip_prefix(NONE).is_some_and(|why| why.trim().len() > 10);
        if !wanted().any(|name| name == row.name) {
            findings.push(at(format!("{} is no rule and no hazard", row.name)));
        }
        if named.is_empty() && !reason && row.proof != NOT_YET {
            findings.push(at(format!("{} names no test and no reason (`{NONE}why`)", row.name)));
        }
        let missing = named.iter().filter(|(_, test)| !reason && !known.contains(*test));
        findings.extend(missing.map(|(_, test)| at(format!("no test is called {test}"))));
    }
    for name in wanted() {
        match seen.get(name.as_str()).copied().unwrap_or_default() {
            1 => {}
            count => findings.push(Finding::new(FOLDER, format!("{name} needs one row, not {count}"))),
        }
    }
    findings
}

/// How many rows name a test, give a reason, and have neither yet: one line for the report.
pub fn tally(tree: &Tree) -> String {
    let rows: Vec<Row> = rows(tree).collect();
    let of = |wanted: fn(&str) -> bool| rows.iter().filter(|row| wanted(row.proof)).count();
    let none = of(|proof| proof.starts_with(NONE));
    let open = of(|proof| proof == NOT_YET);
    let tested = rows.len() - none - open;
    format!("{FOLDER}: {tested} rules and hazards with a test, {none} with a reason, {open} with neither")
}

/// The names that need a row.
fn wanted() -> impl Iterator<Item = String> {
    let rules = (RULES.0..=RULES.1).filter(|number| !NO_RULE.contains(number));
    let rules = rules.filter(|number| !NO_RULE_EITHER.contains(number)).map(|number| format!("R{number}"));
    let hazards = (HAZARDS.0..=HAZARDS.1).filter(|number| !NO_HAZARD.contains(number));
    let hazards = hazards.chain(FURTHER_HAZARDS.0..=FURTHER_HAZARDS.1);
    rules.chain(hazards.map(|number| format!("H{number}")))
}

/// The rows of every table in the folder.
fn rows(tree: &Tree) -> impl Iterator<Item = Row<'_>> {
    let documents = tree.with_extension(&["md"]).filter(|(path, _)| path.starts_with(FOLDER));
    documents.flat_map(|(path, text)| {
        text.lines().enumerate().filter_map(move |(index, line)| {
            let cells = line.trim_end().strip_prefix("| ")?.strip_suffix(" |")?;
            let (name, rest) = cells.split_once(" | ")?;
            let number = name.strip_prefix(['R', 'H'])?;
            let is_row = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            let proof = rest.rsplit_once(" | ")?.1.trim();
            is_row.then_some(Row { path, line: index + 1, name, proof })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;

    /// The findings for tables in which every name but R2 is proven, and R2 by this cell.
    fn check(cell: &str) -> Vec<String> {
        let rows =
            super::wanted().filter(|name| name != "R2").map(|name| format!("| {name} | s | `good` |\n"));
        let loop_text: String = rows.collect();
        let host_text = format!("| number | rule | proof |\n|---|---|---|\n{cell}");
        let code = "#[test]\nfn good() {}\nfn helper() {}";
        let tree = [("docs/rules/a.md", &*loop_text), ("docs/rules/b.md", &host_text), ("a.rs", code)];
        super::proven(&Tree::of(&tree)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_rule_has_one_row_with_tests_or_a_reason() {
        assert!(check("| R2 | s | `good` |").is_empty());
        assert!(check("| R2 | s | none: only a `page` shows it |").is_empty());
        assert!(check("| R2 | s | not yet |").is_empty());
        assert_eq!(check("| R2 | s | `gone` |"), ["docs/rules/b.md:3: no test is called gone"]);
        assert_eq!(check("| R2 | s | `helper`, `good` |"), ["docs/rules/b.md:3: no test is called helper"]);
        let nothing = ["docs/rules/b.md:3: R2 names no test and no reason (`none: why`)"];
        assert_eq!(check("| R2 | s | by hand |"), nothing);
        assert_eq!(check("| R2 | s | none: |"), nothing);
        assert_eq!(check(""), ["docs/rules/: R2 needs one row, not 0"]);
        assert_eq!(
            check("| R2 | s | `good` |\n| R2 | t | `good` |"),
            ["docs/rules/: R2 needs one row, not 2"]
        );
        assert_eq!(
            check("| R2 | s | `good` |\n| R7 | s | `good` |"),
            ["docs/rules/b.md:4: R7 is no rule and no hazard"]
        );
    }

    #[test]
    fn rows_are_counted_by_their_proof() {
        let text = "| R1 | s | `a` |\n| R2 | s | none: because |\n| H3 | s | not yet |\n| H4 | s | `b` |";
        let tally = super::tally(&Tree::of(&[("docs/rules/a.md", text)]));
        assert!(
            tally.ends_with("2 rules and hazards with a test, 1 with a reason, 1 with neither"),
            "{tally}"
        );
    }
}
