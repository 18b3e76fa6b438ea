//! `cargo xtask tidy`: the rules of the house, each one small function over the tree. It reads, and with
//! `--fix` writes what can be generated; no rule runs a build.

mod commands;
mod docs;
mod invariants;
mod provoked;
mod reach;
mod rings;
mod rooms;
mod rules;
mod sizes;
mod tokens;
mod tree;
mod words;
mod wrap;

use tree::{Finding, Tree};

/// A rule: its name in the report, and the function that finds what breaks it.
type Rule = (&'static str, fn(&Tree) -> Vec<Finding>);

const RULES: &[Rule] = &[
    ("D1 the core requires nothing", rings::core_requires_nothing),
    ("D1 the core forbids unsafe code and std", rings::core_is_forbidden_std_and_unsafe),
    ("D2 the wire stays small", rings::wire_requires_little),
    ("D2 only the xtask asks for schemas", rings::schema_is_for_the_xtask),
    ("D3 nothing depends on the guest", rings::nothing_depends_on_the_guest),
    ("D4 one owner per heavy crate", rings::heavy_crates_have_owners),
    ("D1-D4 arrows between rings", rings::arrows),
    ("D5 the host does not look at a stage", rooms::host_ignores_stages),
    ("D6 one file loads the addon", rooms::one_file_loads_the_addon),
    ("D7 processes and files have their rooms", rooms::processes_and_files_have_rooms),
    ("D8 the test kit is for tests", rings::testkit_is_for_tests),
    ("file length", sizes::files),
    ("line length", sizes::lines),
    ("function length", sizes::functions),
    ("first line", words::first_lines),
    ("banned words", words::banned),
    ("no unwrap", words::unwraps),
    ("every file is reached", reach::dead_files),
    ("paths in documents", docs::paths),
    ("commands in documents", commands::named),
    ("WIT digest", docs::wit_digest),
    ("schemas of documents", docs::schemas),
    ("decisions of the core", docs::decisions),
    ("invariants have tests", invariants::named_tests),
    ("rules and hazards have tests", rules::proven),
    ("provoked failures have tests", provoked::exists),
];

/// Checks every rule; `--fix` first rewrites what is generated, and wraps comments.
pub fn run(args: &[String]) -> Result<(), String> {
    let root = crate::tools::root();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {}
        ["--fix"] => {
            let tree = Tree::load(&root)?;
            docs::fix(&tree, &root)?;
            wrap_comments(&tree, &root)?;
            crate::schema::run(&[])?;
            crate::decisions::run(&[])?;
        }
        _ => return Err("usage: cargo xtask tidy [--fix]".to_owned()),
    }
    let tree = Tree::load(&root)?;
    for note in sizes::notes(&tree).into_iter().chain(invariants::untested(&tree)) {
        println!("note: {note}");
    }
    println!("note: {}", rules::tally(&tree));
    let report = report(&tree);
    match report.is_empty() {
        true => {
            println!("tidy: {} rules, {} files, nothing to say", RULES.len(), tree.files().count());
            Ok(())
        }
        false => Err(format!("{}\ntidy: {} findings", report.join("\n"), report.len())),
    }
}

/// Rewrites the files whose comments are too wide.
fn wrap_comments(tree: &Tree, root: &std::path::Path) -> Result<(), String> {
    for (path, text) in tree.with_extension(&["rs", "ts", "mts", "mjs", "js", "wit"]) {
        let wrapped = wrap::wrapped(text);
        if wrapped != text {
            std::fs::write(root.join(path), wrapped).map_err(|error| format!("{path}: {error}"))?;
            println!("wrapped comments of {path}");
        }
    }
    Ok(())
}

/// Every finding of every rule, one line each.
fn report(tree: &Tree) -> Vec<String> {
    let found = RULES
        .iter()
        .flat_map(|(name, rule)| rule(tree).into_iter().map(move |finding| format!("{finding} [{name}]")));
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::{report, tree::Tree};

    #[test]
    fn the_tree_is_tidy() {
        let tree = Tree::load(&crate::tools::root()).expect("git and cargo can list the tree");
        let report = report(&tree);
        assert!(report.is_empty(), "{}", report.join("\n"));
    }

    #[test]
    fn every_rule_has_a_name_of_its_own() {
        let mut names: Vec<&str> = super::RULES.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), super::RULES.len());
    }
}
