//! Owns the check that the core for a page has been built. It must not build one: that needs the workspace's
//! own tool.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(crate_dir) = std::env::var_os("CARGO_MANIFEST_DIR") else {
        println!("cargo::error=cargo named no crate folder");
        return ExitCode::FAILURE;
    };
    for name in ["devloop_web.js", "devloop_web_bg.wasm.gz"] {
        println!("cargo::rerun-if-changed=built/{name}");
        if !Path::new(&crate_dir).join("built").join(name).is_file() {
            println!("cargo::error=no page is built (built/{name} is missing): run `cargo xtask web` first");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
