//! Owns the check that a guest has been built. It must not build one: that needs the workspace's own tool.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let (Some(crate_dir), Some(target)) = (variable("CARGO_MANIFEST_DIR"), variable("TARGET")) else {
        return refuse("cargo named no crate folder or no target");
    };
    let built = Path::new(&crate_dir).join("built");
    let image = format!("core.{target}.cwasm");
    for name in ["core.wasm", image.as_str(), "digest", "wit-digest"] {
        println!("cargo::rerun-if-changed=built/{name}");
        if !built.join(name).is_file() {
            return refuse(&format!(
                "no guest is built (built/{name} is missing): run `cargo xtask guest` first"
            ));
        }
    }
    for (key, name) in [("DEVLOOP_CORE_DIGEST", "digest"), ("DEVLOOP_WIT_DIGEST", "wit-digest")] {
        match digest(&built.join(name)) {
            Some(text) => println!("cargo::rustc-env={key}={text}"),
            None => return refuse(&format!("built/{name} is damaged: run `cargo xtask guest --force`")),
        }
    }
    // No path is passed on: what a build script once said outlives a checkout that is moved.
    println!("cargo::rustc-env=DEVLOOP_CORE_TARGET={target}");
    ExitCode::SUCCESS
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// 64 lower-case hex digits, or nothing.
fn digest(path: &PathBuf) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let well_formed =
        text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    well_formed.then_some(text)
}

fn refuse(sentence: &str) -> ExitCode {
    println!("cargo::error={sentence}");
    ExitCode::FAILURE
}
