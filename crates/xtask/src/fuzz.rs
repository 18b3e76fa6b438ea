//! `cargo xtask fuzz`: builds the fuzzing program with coverage on the pinned toolchain and runs targets one
//! after the other. It owns how they are built and run; what they try is in crates/devloop-fuzz.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{guest, tools};

/// Set for the compiler that cargo starts: this program then stands in front of it and adds coverage.
pub const COVER: &str = "DEVLOOP_FUZZ_COVER";

/// What gives the engine its feedback. All of it is stable.
const COVERAGE: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Ours are optimised here, with overflow checks and assertions left on; only ours are measured.
const OURS: [&str; 7] = ["core", "wire", "bridge", "testkit", "component", "host", "fuzz"];

const DEFAULT_SECONDS: &str = "1200";

/// `cargo xtask fuzz <target> [seconds]`; `all` stands for every target. Findings are named by the engine.
pub fn run(args: &[String]) -> Result<(), String> {
    let (wanted, seconds) = match args {
        [target] => (target, DEFAULT_SECONDS),
        [target, seconds] if seconds.parse::<u32>().is_ok() => (target, seconds.as_str()),
        _ => return Err("usage: cargo xtask fuzz <target>|all [seconds]".to_owned()),
    };
    guest::run(&[])?;
    let program = build()?;
    let known = tools::output(Command::new(&program).env("DEVLOOP_FUZZ", "list"))?;
    let known: Vec<&str> = known.lines().collect();
    let targets: Vec<&str> = known.iter().copied().filter(|name| wanted == "all" || wanted == name).collect();
    if targets.is_empty() {
        return Err(format!("no target is called {wanted}; known: {}", known.join(", ")));
    }
    targets.into_iter().try_for_each(|target| fuzz(&program, target, seconds))
}

/// Runs one target from its seeds; what it learns stays in target/fuzz, and a finding stops it.
fn fuzz(program: &Path, target: &str, seconds: &str) -> Result<(), String> {
    let home = tools::target_dir()?.join("fuzz").join(target);
    let seeds = home.join("seeds");
    let learned = home.join("learned");
    std::fs::create_dir_all(&learned).map_err(|error| format!("{}: {error}", learned.display()))?;
    let mut write = Command::new(program);
    tools::run(write.env("DEVLOOP_FUZZ", target).env("DEVLOOP_FUZZ_SEEDS", &seeds))?;
    let mut artifacts = OsString::from("-artifact_prefix=");
    artifacts.push(home.join("finding-"));
    let mut command = Command::new(program);
    command.env("DEVLOOP_FUZZ", target).arg(artifacts).arg(format!("-max_total_time={seconds}"));
    // Tapes of dice and printed texts gain nothing from length; documents do.
    let max_len = if matches!(target, "boundary" | "nights" | "envelope") { 4_096 } else { 32_768 };
    command.arg(format!("-max_len={max_len}"));
    command.args(["-timeout=30", "-rss_limit_mb=4096", "-print_final_stats=1"]);
    tools::run(command.arg(&learned).arg(&seeds))
}

fn build() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    let mut cargo = tools::cargo();
    cargo.env("RUSTC_WORKSPACE_WRAPPER", this).env(COVER, "1");
    cargo.args(["build", "--package", "devloop-fuzz", "--features", "engine", "--bin", "devloop-fuzz"]);
    for name in OURS {
        cargo.arg("--config").arg(format!("profile.dev.package.devloop-{name}.opt-level=2"));
    }
    tools::run(&mut cargo)?;
    Ok(tools::target_dir()?.join("debug").join(format!("devloop-fuzz{}", std::env::consts::EXE_SUFFIX)))
}

/// Stands in front of the compiler: its command, with coverage unless a build script is compiled or a
/// question is asked.
pub fn compile(words: &[String]) -> Result<(), String> {
    let [compiler, rest @ ..] = words else { return Err("no compiler was named".to_owned()) };
    let mut command = Command::new(compiler);
    command.args(rest);
    if is_measured(rest) {
        command.args(COVERAGE);
    }
    tools::run(&mut command)
}

fn is_measured(words: &[String]) -> bool {
    let name = words.windows(2).find(|pair| pair[0] == "--crate-name").map(|pair| pair[1].as_str());
    name.is_some_and(|name| name.starts_with("devloop"))
}

#[cfg(test)]
mod tests {
    use super::{COVERAGE, is_measured, run};

    #[test]
    fn build_scripts_and_questions_are_compiled_as_they_are() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
        assert!(is_measured(&words("--crate-name devloop_core --edition=2024 src/lib.rs")));
        assert!(!is_measured(&words("--crate-name build_script_build build.rs")));
        assert!(!is_measured(&words("- --crate-name ___ --print=file-names")));
        assert!(!is_measured(&words("-vV")));
    }

    #[test]
    fn nothing_unstable_is_asked_of_the_compiler() {
        assert!(COVERAGE.iter().all(|word| word.starts_with("-C")));
    }

    #[test]
    fn a_target_must_be_named() {
        assert!(run(&[]).is_err_and(|said| said.contains("usage: cargo xtask fuzz")));
        assert!(run(&["state".to_owned(), "soon".to_owned()]).is_err());
    }
}
