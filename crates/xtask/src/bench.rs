//! `cargo xtask bench`: runs the measurements, shows them, and keeps them in docs/bench.md with the machine
//! named in words. What is measured lives in crates/devloop-host/benches.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{guest, tools};

/// Parts of the bench program, in the order of the document.
const PARTS: [&str; 6] = ["core", "first", "durable", "pipeline", "parallel", "scale"];
/// The part that runs in Node.
const ADDON: &str = "addon";

/// Runs all parts and writes docs/bench.md; with names of parts, only shows those.
pub fn run(args: &[String]) -> Result<(), String> {
    let known = |word: &String| word == ADDON || PARTS.contains(&word.as_str());
    if let Some(unknown) = args.iter().find(|word| !known(word)) {
        return Err(format!("no part is called {unknown}; known: {}, {ADDON}", PARTS.join(", ")));
    }
    guest::run(&[])?;
    let wanted = |part: &&str| args.is_empty() || args.iter().any(|word| word == part);
    let program = build()?;
    let mut text = String::new();
    for part in PARTS.iter().filter(|part| wanted(part)) {
        text.push_str(&show(Command::new(&program).arg(part))?);
    }
    if wanted(&ADDON) {
        text.push_str(&addon(&program)?);
    }
    if !args.is_empty() {
        return Ok(());
    }
    let path = tools::root().join("docs/bench.md");
    std::fs::write(&path, document(&text)).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("\nwritten: docs/bench.md");
    Ok(())
}

/// Runs a command, prints what it said, and returns it.
fn show(command: &mut Command) -> Result<String, String> {
    let text = tools::output(command)?;
    print!("{text}");
    Ok(text)
}

/// Builds the bench program; cargo says where it is.
fn build() -> Result<PathBuf, String> {
    let args = ["bench", "--package", "devloop-host", "--bench", "devloop", "--no-run"];
    let told = tools::output(tools::cargo().args(args).arg("--message-format=json"))?;
    let built = told.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let program = built
        .filter(|line| line["target"]["kind"][0] == "bench")
        .find_map(|line| line["executable"].as_str().map(PathBuf::from));
    program.ok_or_else(|| "cargo did not say where the bench program is".to_owned())
}

/// The addon as it ships, in Node 24, over a sample project.
fn addon(program: &Path) -> Result<String, String> {
    let addon = built_addon()?;
    let folder = tools::target_dir()?.join("bench-addon");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let (project, home) = (folder.join("project"), folder.join("home"));
    std::fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    tools::run(Command::new(program).arg("sample-project").arg(&project))?;
    let script = tools::root().join("crates/devloop-host/benches/devloop/addon.mjs");
    let node = tools::root().join("tests/plugin/node_modules/.bin/node");
    let args: [OsString; 4] = [script.into(), addon.into(), project.into(), home.into()];
    show(Command::new(node).args(args))
}

/// The addon that `cargo xtask dist` made for this machine.
fn built_addon() -> Result<PathBuf, String> {
    let folder = tools::root().join("npm/dsh-devloop");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let found = paths.find(|path| path.extension().is_some_and(|extension| extension == "node"));
    found.ok_or_else(|| "there is no addon in npm/dsh-devloop: run `cargo xtask dist` first".to_owned())
}

fn document(tables: &str) -> String {
    format!(
        "# Measurements\n\n\
         Made by `cargo xtask bench`; the commands and what they do are in crates/devloop-host/benches.\n\n\
         {} What is compared was measured in turns, in one run; ratios are sturdier than times, and CPU time \
         of the calling thread is sturdier than wall time.\n\n\
         How to run: `cargo xtask bench` measures everything and writes this page; with names of parts ({}) \
         it only shows those. For a profiler, `cargo bench -p devloop-host --bench devloop -- load replay \
         component 20` makes one call (decide, fold, replay, open or save; native or component; so many \
         tasks) over and over.\n{tables}",
        machine(),
        PARTS.join(", "),
    )
}

/// The machine in words: nothing that names it.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let kernel: Vec<&str> = kernel.trim().split(['.', '-']).take(2).collect();
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    let memory = read("/proc/meminfo");
    let kilobytes = memory.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    format!(
        "The machine: {cores} virtual cores ({}), {} GB of memory, {} {}, shared with other work (load \
         average {load} when the run ended).",
        std::env::consts::ARCH,
        kilobytes.div_ceil(1_000_000),
        std::env::consts::OS,
        kernel.join("."),
    )
}

/// A file that other systems do not have.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
