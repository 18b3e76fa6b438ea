//! `npm test`: every part of the test run, in order, each with the closing lines of its own runner.
//! It owns the order and the summary; what is tested lives beside the code and in `tests/`.

use crate::tools;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// One part: its name, and what it does; it returns the closing lines of the runner it called.
struct Part {
    name: &'static str,
    what: &'static str,
    run: fn() -> Result<Vec<String>, String>,
}

const PARTS: &[Part] = &[
    Part { name: "guest", what: "the component with its image, and the core for a page", run: guest },
    Part { name: "rust", what: "unit, integration and tidy tests of the workspace", run: rust },
    Part { name: "help", what: "the help of every verb is what docs/cli.md says", run: help },
    Part { name: "dist", what: "addon, CLI and plugin, packed in the form for tests", run: dist },
    Part { name: "agree", what: "component in Node, page and recordings give the same bytes", run: agree },
    Part { name: "plugin", what: "the plugin's parts, and the plugin in a real DSH", run: plugin },
    Part {
        name: "workers",
        what: "nights with the real claude, codex and dsh on scripted models",
        run: workers,
    },
];

/// Targets of their own: the guest and the page are built for wasm, the addon is loaded by Node.
const CDYLIBS: [&str; 2] = ["devloop-guest", "devloop-node"];

/// Runs the parts (all, or those named by `--only`), goes on after a failure, fails if any part failed.
pub fn run(args: &[String]) -> Result<(), String> {
    let wanted = match parse(args)? {
        Request::List => {
            for part in PARTS {
                println!("{:<8} {}", part.name, part.what);
            }
            return Ok(());
        }
        Request::Run(wanted) => wanted,
    };
    let mut summary = Vec::new();
    let mut failed = Vec::new();
    for part in PARTS.iter().filter(|part| wanted.is_empty() || wanted.iter().any(|name| name == part.name)) {
        println!("== {}: {}", part.name, part.what);
        match (part.run)() {
            Ok(closing) => {
                summary.push(format!("{}: passed", part.name));
                summary.extend(closing.iter().map(|line| format!("  {line}")));
            }
            Err(sentence) => {
                summary.push(format!("{}: FAILED: {sentence}", part.name));
                failed.push(part.name);
            }
        }
    }
    println!("== summary\n{}", summary.join("\n"));
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}; again with `cargo xtask test --only <part>`", failed.join(", "))),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Request {
    List,
    Run(Vec<String>),
}

/// `--only a,b` (may be repeated) and `--list`; an unknown part is refused with the known ones.
fn parse(args: &[String]) -> Result<Request, String> {
    let mut wanted = Vec::new();
    let mut words = args.iter().filter(|word| *word != "--");
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => return Ok(Request::List),
            "--only" => {
                let names =
                    words.next().ok_or("--only needs the name of a part; see `cargo xtask test --list`")?;
                wanted.extend(names.split(',').map(str::to_owned));
            }
            other => return Err(format!("unknown argument {other}; known: --only <part>[,<part>], --list")),
        }
    }
    for name in &wanted {
        if !PARTS.iter().any(|part| part.name == name) {
            return Err(format!("no part is called {name}; see `cargo xtask test --list`"));
        }
    }
    Ok(Request::Run(wanted))
}

fn guest() -> Result<Vec<String>, String> {
    crate::guest::run(&[])?;
    crate::web::run(&[])?;
    Ok(vec!["component, image and page are current".to_owned()])
}

/// The xtask is tested on its own: so its dependencies are those that it was started with, the others' are
/// those of the CLI, and the engine is not compiled once more for a mixture of both.
fn rust() -> Result<Vec<String>, String> {
    let mut others = tools::cargo();
    others.args(["test", "--workspace", "--exclude", "xtask"]);
    for name in CDYLIBS {
        others.args(["--exclude", name]);
    }
    let mut own = tools::cargo();
    own.args(["test", "--package", "xtask"]);
    let closing = |line: &str| line.starts_with("test result:");
    let (others, own) = (tee(&mut others, closing), tee(&mut own, closing));
    Ok(vec![add_up(&[others?, own?].concat())])
}

fn help() -> Result<Vec<String>, String> {
    crate::help::run(&["--check".to_owned()])?;
    Ok(vec!["docs/cli.md is current".to_owned()])
}

fn dist() -> Result<Vec<String>, String> {
    crate::dist::run(&["--quick".to_owned()])?;
    Ok(vec!["the tarball for tests is packed".to_owned()])
}

/// The addon is the one that `dist` built, the page is that of `guest`; the recordings are made here.
fn agree() -> Result<Vec<String>, String> {
    let corpus = tools::target_dir()?.join("agree.jsonl");
    let mut write = tools::cargo();
    write.args(["run", "--quiet", "--package", "devloop-testkit", "--example", "corpus", "--"]).arg(&corpus);
    tools::run(&mut write)?;
    let page = crate::web::folder();
    node_tests("tests/agree", &[("DEVLOOP_CORPUS", &corpus), ("DEVLOOP_PAGE", &page)])
}

/// `dist` has installed Node 24 for its compiler.
fn plugin() -> Result<Vec<String>, String> {
    node_tests("tests/plugin", &[])
}

/// The command lines come from a lock file of their own; a run whose registry refuses them says so and skips.
fn workers() -> Result<Vec<String>, String> {
    let mut build = tools::cargo();
    build.args(["build", "--package", "devloop-cli"]);
    tee(&mut build, |_| false)?;
    node_tests("tests/workers", &[])
}

/// Runs the `*.test.mjs` of a folder with Node 24, which comes from the lock file of the plugin's tests.
fn node_tests(folder: &str, environment: &[(&str, &Path)]) -> Result<Vec<String>, String> {
    let folder = tools::root().join(folder);
    let node = tools::root().join("tests/plugin/node_modules/.bin/node");
    if !node.exists() {
        return Err(
            "Node 24 is not installed in tests/plugin: `cargo xtask dist --quick` installs it".to_owned()
        );
    }
    let mut command = Command::new(node);
    // One file at a time: each starts servers, and the real DSH is large.
    command.current_dir(&folder).args(["--test", "--test-concurrency=1", "--test-reporter=spec"]);
    command.args(test_files(&folder)?).envs(environment.iter().copied());
    let lines = tee(&mut command, |line| line.starts_with("\u{2139} ") || line.starts_with("skipped: "))?;
    Ok(vec![lines.iter().map(|line| line.trim_start_matches("\u{2139} ")).collect::<Vec<_>>().join(", ")])
}

/// The test files of a folder, by name; none is an error, since a run of nothing would pass.
fn test_files(folder: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut files: Vec<String> = names.filter(|name| name.ends_with(".test.mjs")).collect();
    files.sort();
    match files.is_empty() {
        true => Err(format!("{} holds no *.test.mjs", folder.display())),
        false => Ok(files),
    }
}

/// Sums the closing lines of every test binary: each must say how many passed.
fn add_up(lines: &[String]) -> String {
    let mut passed = 0;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let count =
            words.windows(2).find(|pair| pair[1] == "passed;").and_then(|pair| pair[0].parse::<u64>().ok());
        passed += count.unwrap_or(0);
    }
    format!("{passed} tests passed in {} binaries", lines.len())
}

/// Runs a command, shows its standard output as it comes, and keeps the lines that `keep` picks.
fn tee(command: &mut Command, keep: fn(&str) -> bool) -> Result<Vec<String>, String> {
    let shown = tools::shown(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{shown}` could not be started: {error}"))?;
    let mut kept = Vec::new();
    if let Some(pipe) = child.stdout.take() {
        for line in BufReader::new(pipe).split(b'\n') {
            let bytes = line.map_err(|error| format!("the output of `{shown}` broke off: {error}"))?;
            let line = String::from_utf8_lossy(&bytes);
            // A closed terminal must not end the tests.
            let _ = writeln!(std::io::stdout(), "{line}");
            if keep(&line) {
                kept.push(line.trim().to_owned());
            }
        }
    }
    let status = child.wait().map_err(|error| format!("`{shown}` was lost: {error}"))?;
    match status.success() {
        true => Ok(kept),
        false => Err(format!("`{shown}` ended with {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{CDYLIBS, Request, add_up, parse, tee, test_files};
    use std::process::Command;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn parts_are_named_once_and_unknown_ones_are_refused() {
        assert_eq!(parse(&words("")), Ok(Request::Run(vec![])));
        assert_eq!(parse(&words("-- --only rust,guest")), Ok(Request::Run(words("rust guest"))));
        assert_eq!(parse(&words("--list")), Ok(Request::List));
        assert!(parse(&words("--only rast")).is_err_and(|text| text.contains("rast")));
        assert!(parse(&words("--only")).is_err());
        assert!(parse(&words("--fast")).is_err_and(|text| text.contains("--fast")));
    }

    #[test]
    fn closing_lines_are_added_up() {
        let lines = [
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out".to_owned(),
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out".to_owned(),
        ];
        assert_eq!(add_up(&lines), "15 tests passed in 2 binaries");
    }

    #[test]
    fn output_is_kept_and_a_bad_exit_is_named() {
        let mut good = Command::new("sh");
        good.args(["-c", "echo keep me; echo not me"]);
        assert_eq!(tee(&mut good, |line| line.starts_with("keep")), Ok(vec!["keep me".to_owned()]));
        let mut bad = Command::new("sh");
        bad.args(["-c", "exit 3"]);
        assert!(
            tee(&mut bad, |_| true).is_err_and(|text| text.contains("sh -c exit 3") && text.contains('3'))
        );
    }

    #[test]
    fn a_folder_without_tests_is_an_error() {
        let root = crate::tools::root();
        assert!(test_files(&root.join("crates")).is_err_and(|text| text.contains("no *.test.mjs")));
        assert!(test_files(&root.join("tests/plugin")).is_ok_and(|files| !files.is_empty()));
    }

    #[test]
    fn every_package_left_out_is_a_cdylib() {
        for name in CDYLIBS {
            let manifest = crate::tools::root().join("crates").join(name).join("Cargo.toml");
            let text = std::fs::read_to_string(manifest).unwrap_or_default();
            assert!(text.contains("cdylib"), "{name} is left out of the tests and is no cdylib");
        }
    }
}
