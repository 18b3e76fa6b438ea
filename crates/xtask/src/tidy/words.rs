//! Words: the first line that says what a file owns, and the words that no file may hold.

use super::tree::{Finding, Tree};
use super::{reach, tokens};

const SCRIPTS: [&str; 5] = ["ts", "mts", "mjs", "js", "cjs"];

/// Token sequences that no Rust file may hold, with the reason.
const BANNED_IN_RUST: &[(&[&str], &str)] = &[
    (&["#", "[", "ignore"], "a test that does not run is no test"),
    (&["#", "[", "should_panic"], "name the error instead of expecting a panic"),
    (&["todo", "!"], "no stubs"),
    (&["unimplemented", "!"], "no stubs"),
];

/// Calls that no test in JavaScript or TypeScript may hold.
const BANNED_IN_SCRIPTS: [&str; 2] = ["skip", "only"];

/// The first line of a Rust file is `//!`, of a script `//` (after a `#!` line, where there is one).
pub fn first_lines(tree: &Tree) -> Vec<Finding> {
    let rust = tree.with_extension(&["rs"]).map(|(path, text)| (path, text, "//! "));
    let scripts = tree.with_extension(&SCRIPTS).map(|(path, text)| (path, text, "// "));
    rust.chain(scripts)
        .filter(|(_, text, mark)| {
            !text.lines().find(|line| !line.starts_with("#!/")).unwrap_or_default().starts_with(mark)
        })
        .map(|(path, _, mark)| {
            Finding::on_line(path, 1, format!("must begin with `{mark}`: what the file owns"))
        })
        .collect()
}

/// Skipped tests and stubs.
pub fn banned(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension(&["rs"]) {
        let found = tokens::all(text).unwrap_or_default();
        for (sequence, why) in BANNED_IN_RUST {
            let lines = tokens::lines_of(&found, sequence);
            findings.extend(lines.into_iter().map(|line| Finding::on_line(path, line, *why)));
        }
    }
    for (path, text) in tree.with_extension(&SCRIPTS) {
        for (index, line) in text.lines().enumerate().filter(|(_, line)| skips(line)) {
            findings.push(Finding::on_line(
                path,
                index + 1,
                format!("a test that does not run: {}", line.trim()),
            ));
        }
    }
    findings
}

/// `unwrap()` in code that ships: a person would read a line number instead of a sentence.
pub fn unwraps(tree: &Tree) -> Vec<Finding> {
    let for_tests = reach::test_only(tree);
    let ships = |path: &str| !for_tests.contains(path) && !path.contains("devloop-testkit/");
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension(&["rs"]).filter(|(path, _)| ships(path)) {
        let found = tokens::without_tests(text).unwrap_or_default();
        for line in tokens::lines_of(&found, &[".", "unwrap", "("]) {
            findings.push(Finding::on_line(path, line, "unwrap() outside tests: return an error"));
        }
    }
    findings
}

/// `test.skip(`, `it.only(`, `{ skip: true }` and their like.
fn skips(line: &str) -> bool {
    let call = |name: &str| {
        ["test", "it", "describe", "suite", "t"].iter().any(|of| {
            line.match_indices(&format!("{of}.{name}(")).any(|(at, _)| {
                !line[..at]
                    .ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == '.')
            })
        })
    };
    let option =
        |name: &str| line.contains(&format!("{{ {name}: ")) || line.contains(&format!(", {name}: true"));
    BANNED_IN_SCRIPTS.iter().any(|name| call(name) || option(name))
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;

    #[test]
    fn a_file_says_what_it_owns() {
        let tree = Tree::of(&[
            ("good.rs", "//! Owns x.\n"),
            ("bad.rs", "// x\n"),
            ("good.mjs", "#!/usr/bin/env node\n// x\n"),
            ("bad.ts", "import x\n"),
            ("empty.rs", ""),
        ]);
        let at: Vec<String> = super::first_lines(&tree).into_iter().map(|finding| finding.at).collect();
        assert_eq!(at, ["bad.rs:1", "empty.rs:1", "bad.ts:1"]);
    }

    #[test]
    fn unwrapping_is_for_tests() {
        let source = "fn a() { b().unwrap() }\nfn c() { b().unwrap_or(1) }\n\
                      #[cfg(test)] mod t { fn d() { b().unwrap() } }";
        let tree =
            Tree::of(&[("crates/a/src/lib.rs", source), ("crates/devloop-testkit/src/lib.rs", source)]);
        let at: Vec<String> = super::unwraps(&tree).into_iter().map(|finding| finding.at).collect();
        assert_eq!(at, ["crates/a/src/lib.rs:1"]);
    }

    #[test]
    fn skipped_tests_and_stubs_are_found() {
        let rust = "#[ignore]\nfn a() { todo!() }\n#[should_panic(expected = \"x\")]\n\
                    fn b() { unimplemented!() }\n\
                    // todo!()\nconst C: &str = \"todo!()\";";
        let script = "test.skip('a', f);\nit.only('b', f);\ntest('c', { skip: true }, f);\n\
                      list.skip(1);\nlatest.skip(1);";
        let tree = Tree::of(&[("a.rs", rust), ("b.mjs", script)]);
        let mut at: Vec<String> = super::banned(&tree).into_iter().map(|finding| finding.at).collect();
        at.sort();
        assert_eq!(at, ["a.rs:1", "a.rs:2", "a.rs:3", "a.rs:4", "b.mjs:1", "b.mjs:2", "b.mjs:3"]);
    }
}
