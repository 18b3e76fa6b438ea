//! The rooms inside the shell and the edge: who may look at a stage (D5), load the addon (D6), start a
//! process or touch a file (D7). It looks for words; test code is exempt.

use super::reach;
use super::tokens::{self, Token};
use super::tree::{Finding, Tree};

const HOST: &str = "crates/devloop-host/src/";
const CLI: &str = "crates/devloop-cli/src/";
/// The one file that loads the addon.
const ADDON_LOADER: &str = "npm/dsh-devloop/src/native.ts";

/// The shipped code of one package: path inside its `src/`, whole path, tokens without tests.
fn shipped<'a>(tree: &'a Tree, source: &'a str) -> impl Iterator<Item = (&'a str, &'a str, Vec<Token>)> {
    let for_tests = reach::test_only(tree);
    tree.with_extension(&["rs"]).filter(move |(path, _)| !for_tests.contains(*path)).filter_map(
        move |(path, text)| {
            Some((path.strip_prefix(source)?, path, tokens::without_tests(text).unwrap_or_default()))
        },
    )
}

/// D5: outside `effects/` and `view.rs` the host does not name the type of a stage.
pub fn host_ignores_stages(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (inside, path, found) in shipped(tree, HOST) {
        if inside.starts_with("effects/") || inside == "view.rs" {
            continue;
        }
        for line in tokens::lines_of(&found, &["Stage"]) {
            findings.push(Finding::on_line(path, line, "the host decides nothing by a task's stage"));
        }
    }
    findings
}

/// D6: one TypeScript file knows that there is an addon.
pub fn one_file_loads_the_addon(tree: &Tree) -> Vec<Finding> {
    let loads =
        |line: &str| [".node\"", ".node'", ".node`", "process.dlopen"].iter().any(|mark| line.contains(mark));
    let mut findings = Vec::new();
    let sources =
        tree.with_extension(&["ts", "mts", "js", "mjs"]).filter(|(path, _)| path.starts_with("npm/"));
    for (path, text) in sources.filter(|(path, _)| *path != ADDON_LOADER) {
        for (index, _) in text.lines().enumerate().filter(|(_, line)| loads(line)) {
            findings.push(Finding::on_line(
                path,
                index + 1,
                format!("the addon is loaded in {ADDON_LOADER} only"),
            ));
        }
    }
    findings
}

/// D7: processes start in `process/`; files are touched in `store/`, `worktree.rs` and `files.rs`; the CLI
/// does neither.
pub fn processes_and_files_have_rooms(tree: &Tree) -> Vec<Finding> {
    let in_files_room =
        |inside: &str| inside.starts_with("store/") || ["worktree.rs", "files.rs"].contains(&inside);
    let mut findings = Vec::new();
    for (inside, path, found) in shipped(tree, HOST) {
        if !inside.starts_with("process/") {
            findings.extend(starts_processes(path, &found));
        }
        if !in_files_room(inside) {
            findings.extend(touches_files(path, &found));
        }
    }
    for (_, path, found) in shipped(tree, CLI) {
        findings.extend(starts_processes(path, &found));
        findings.extend(touches_files(path, &found));
    }
    findings
}

fn starts_processes(path: &str, found: &[Token]) -> Vec<Finding> {
    let lines = tokens::lines_of_path(found, "process", "Command");
    lines
        .into_iter()
        .map(|line| Finding::on_line(path, line, "processes start in the host's process/"))
        .collect()
}

fn touches_files(path: &str, found: &[Token]) -> Vec<Finding> {
    let lines = tokens::lines_of_path(found, "std", "fs");
    let text = "std::fs belongs to the host's store/, worktree.rs and files.rs";
    lines.into_iter().map(|line| Finding::on_line(path, line, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Finding, Tree};

    fn check(rule: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
        rule(&Tree::of(files)).into_iter().map(|finding| finding.at).collect()
    }

    #[test]
    fn a_stage_outside_its_rooms_is_found() {
        let source =
            "use devloop_core::task::Stage;\nfn f(s: &Stage) {}\n#[cfg(test)]\nmod t { use x::Stage; }";
        let files = [
            ("crates/devloop-host/src/tick.rs", source),
            ("crates/devloop-host/src/view.rs", source),
            ("crates/devloop-host/src/effects/merge.rs", source),
            ("crates/devloop-core/src/task.rs", source),
        ];
        let expected = ["crates/devloop-host/src/tick.rs:1", "crates/devloop-host/src/tick.rs:2"];
        assert_eq!(check(super::host_ignores_stages, &files), expected);
    }

    #[test]
    fn a_second_loader_of_the_addon_is_found() {
        let files = [
            ("npm/dsh-devloop/src/native.ts", "process.dlopen(m, 'x.node')"),
            ("npm/dsh-devloop/src/index.ts", "//\nrequire('./devloop.node')"),
            ("npm/dsh-devloop/src/bin.ts", "import fs from 'node:fs'"),
        ];
        assert_eq!(check(super::one_file_loads_the_addon, &files), ["npm/dsh-devloop/src/index.ts:2"]);
    }

    #[test]
    fn processes_and_files_outside_their_rooms_are_found() {
        let files = [
            ("crates/devloop-host/src/process/spawn.rs", "use std::process::Command;"),
            ("crates/devloop-host/src/store/journal.rs", "use std::{fs, io};"),
            ("crates/devloop-host/src/files.rs", "use std::fs;\nuse std::process::{Command, Stdio};"),
            ("crates/devloop-host/src/git/run.rs", "use std::{fs::File, process::Command};"),
            ("crates/devloop-cli/src/main.rs", "fn f() -> std::process::ExitCode { std::fs::write(a, b) }"),
        ];
        let expected = [
            "crates/devloop-host/src/files.rs:2",
            "crates/devloop-host/src/git/run.rs:1",
            "crates/devloop-host/src/git/run.rs:1",
            "crates/devloop-cli/src/main.rs:1",
        ];
        assert_eq!(check(super::processes_and_files_have_rooms, &files), expected);
    }
}
