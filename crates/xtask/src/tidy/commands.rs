//! Commands that documents name: each must exist. It reads the xtask's table and the generated page of the
//! CLI; it runs neither.

use super::docs;
use super::tree::{Finding, Tree};
use std::collections::BTreeSet;

const XTASK_TABLE: &str = "crates/xtask/src/main.rs";
const CLI_PAGE: &str = "docs/cli.md";

/// Every `cargo xtask <command>` and `devloop <verb>` in a document exists.
pub fn named(tree: &Tree) -> Vec<Finding> {
    let xtask = xtask_commands(tree);
    let verbs = cli_verbs(tree);
    let mut findings = Vec::new();
    for (name, known) in [(XTASK_TABLE, &xtask), (CLI_PAGE, &verbs)] {
        if known.is_empty() {
            findings.push(Finding::new(name, "names no command, so nothing in the documents can be checked"));
        }
    }
    for (document, text) in docs::documents(tree).filter(|(path, _)| *path != CLI_PAGE) {
        for (line, command) in docs::code_spans(text).into_iter().chain(shell_lines(text)) {
            for (program, known) in [("cargo xtask ", &xtask), ("devloop ", &verbs)] {
                let Some(rest) = command.trim_start().strip_prefix(program) else { continue };
                let word = rest.split_whitespace().next().unwrap_or_default();
                let is_word = word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
                if is_word && !word.starts_with('-') && !known.contains(word) {
                    findings.push(Finding::on_line(document, line, format!("there is no `{program}{word}`")));
                }
            }
        }
    }
    findings
}

/// The first words of the rows of the xtask's table.
fn xtask_commands(tree: &Tree) -> BTreeSet<String> {
    let text = tree.text(XTASK_TABLE).unwrap_or_default();
    let rows = text.lines().filter_map(|line| line.trim_start().strip_prefix("(\""));
    rows.filter_map(|row| row.split('"').next()).map(str::to_owned).collect()
}

/// The headings of the generated page.
fn cli_verbs(tree: &Tree) -> BTreeSet<String> {
    let text = tree.text(CLI_PAGE).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("## devloop ")).map(str::to_owned).collect()
}

/// The lines of fenced blocks: line and text.
fn shell_lines(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            lines.push((index + 1, line));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;

    #[test]
    fn commands_in_documents_must_exist() {
        let readme = "`cargo xtask tidy` `cargo xtask gone --fix` `devloop run` `devloop` `devloop <verb>`\n\
                      ```sh\ndevloop status /x   # says\ndevloop fly\n```\n";
        let table = "const COMMANDS: X = &[\n    (\"tidy\", \"checks\", tidy::run),\n];";
        let page = "## devloop\n## devloop run\n## devloop status\n";
        let tree = Tree::of(&[("README.md", readme), (super::XTASK_TABLE, table), (super::CLI_PAGE, page)]);
        let found: Vec<String> = super::named(&tree).iter().map(ToString::to_string).collect();
        let expected =
            ["README.md:1: there is no `cargo xtask gone`", "README.md:4: there is no `devloop fly`"];
        assert_eq!(found, expected);
        assert_eq!(super::named(&Tree::of(&[])).len(), 2);
    }
}
