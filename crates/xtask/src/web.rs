//! `cargo xtask web`: the core for a page, compiled and bound to JavaScript into
//! `crates/devloop-page/built`. What a page does with it is not its business.

use crate::tools;
use std::path::{Path, PathBuf};

const TARGET: &str = "wasm32-unknown-unknown";
/// What a document and the tests in Node take up.
const FILES: [&str; 3] = ["devloop_web.js", "devloop_web_bg.wasm", "devloop_web_bg.wasm.gz"];

/// Builds the module, then the JavaScript beside it.
pub fn run(args: &[String]) -> Result<(), String> {
    if let [word, ..] = args {
        return Err(format!("unknown argument {word}; `cargo xtask web` takes none"));
    }
    let target = tools::target_dir()?;
    // The guest's folder and profile: what both are made of is compiled once. Symbols stay until the binding,
    // which reads them.
    let guest = target.join("guest");
    let mut build = tools::cargo();
    build.args(["build", "--quiet", "--package", "devloop-web", "--lib", "--profile", "guest"]);
    build.args(["--target", TARGET, "--config", "profile.guest.strip=\"none\"", "--target-dir"]).arg(&guest);
    tools::run(&mut build)?;
    let mut bind = tools::cargo();
    bind.args(["run", "--quiet", "--package", "devloop-web", "--features", "bindgen"]);
    bind.args(["--bin", "devloop-web-bindgen", "--"]);
    let bound = target.join("web");
    bind.arg(guest.join(TARGET).join("guest/devloop_web.wasm")).arg(&bound);
    tools::run(&mut bind)?;
    FILES.iter().try_for_each(|name| take_up(&bound.join(name), &folder().join(name)))
}

/// Copies what is new: a file that keeps its time makes nobody compile again.
fn take_up(from: &Path, to: &Path) -> Result<(), String> {
    let about = |error: std::io::Error| format!("{}: {error}", to.display());
    let bytes = std::fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
    if std::fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    std::fs::create_dir_all(folder()).and_then(|()| std::fs::write(to, bytes)).map_err(about)
}

/// Where the page's files are.
pub fn folder() -> PathBuf {
    tools::root().join("crates/devloop-page/built")
}
