//! `cargo xtask web`: the core for a page, compiled and bound to JavaScript into `target/web`. What a page
//! does with it is not its business.

use crate::tools;
use std::path::PathBuf;

const TARGET: &str = "wasm32-unknown-unknown";

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
    let folder = folder()?;
    bind.arg(guest.join(TARGET).join("guest/devloop_web.wasm")).arg(&folder);
    tools::run(&mut bind)?;
    // The JavaScript is a module, which Node believes only when told.
    let manifest = folder.join("package.json");
    std::fs::write(&manifest, "{\"type\":\"module\"}\n")
        .map_err(|error| format!("{}: {error}", manifest.display()))
}

/// Where the page's files are.
pub fn folder() -> Result<PathBuf, String> {
    Ok(tools::target_dir()?.join("web"))
}
