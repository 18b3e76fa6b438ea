//! `npm start`: builds what the demo needs and hands the terminal to it. The demo itself lives in the CLI.

use crate::tools;
use std::path::PathBuf;
use std::process::Command;

/// Builds the guest and the CLI (dev profile), then runs `devloop demo [path]` with our stdio.
pub fn run(args: &[String]) -> Result<(), String> {
    // `npm start -- /path` arrives as the path alone, `cargo xtask start -- /path` with the dashes.
    let args = args.iter().filter(|word| *word != "--");
    let program = crate::help::cli()?;
    // npm and pnpm change to the root; a relative path must mean what the person typed.
    let typed_in = std::env::var_os("INIT_CWD").map(PathBuf::from).or_else(|| std::env::current_dir().ok());
    let mut demo = Command::new(program);
    demo.arg("demo").args(args).current_dir(typed_in.unwrap_or_else(tools::root));
    tools::run(&mut demo)
}
