//! Owns `cargo xtask guest`: source of the pure ring in, sealed component and its ahead-of-time image out
//! (crates/devloop-component/built). It must not decide what the guest does.

mod build;
mod gate;
mod inputs;
mod output;

use std::error::Error;
use std::path::{Path, PathBuf};

use output::Built;

/// Failure of a step, worded for the person who runs it.
pub type Failure = Box<dyn Error>;

const USAGE: &str = "usage: cargo xtask guest [--force] [--target <triple>]";

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    /// Build even if no input changed.
    force: bool,
    /// Platform of the ahead-of-time image; the platform of this toolchain when absent.
    target: Option<String>,
}

/// Runs the command. `args` are the words after `guest`.
pub fn run(args: &[String]) -> Result<(), String> {
    make(args).map_err(|failure| failure.to_string())
}

fn make(args: &[String]) -> Result<(), Failure> {
    let wish = parse(args)?;
    let root = workspace_root()?;
    let toolchain = build::Toolchain::current()?;
    let target = wish.target.unwrap_or_else(|| toolchain.host.clone());
    let built = Built::new(&root, &target);
    let wanted = inputs::digest(&root, &toolchain.version)?;
    if !wish.force && built.is_current(&wanted) {
        return Ok(());
    }
    eprintln!("guest: building the component for {target}");
    let core = build::component(&root, build::Variant::Core)?;
    gate::check(&core)?;
    let hostile = build::component(&root, build::Variant::Hostile)?;
    let callable = build::wasip2_program(&root)?;
    if gate::check(&callable).is_ok() {
        return Err(
            "the import gate let a WASI program pass: it would not notice an open guest either".into()
        );
    }
    let wit = inputs::wit_digest(&root)?;
    built.write(&output::Parts {
        core_image: build::image(&core, &target)?,
        hostile_image: build::image(&hostile, &target)?,
        core,
        hostile,
        callable_image: build::image(&callable, &target)?,
        callable,
        wit,
        inputs: wanted,
    })
}

fn parse(args: &[String]) -> Result<Wish, Failure> {
    let mut wish = Wish::default();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--force" => wish.force = true,
            "--target" => wish.target = Some(words.next().ok_or(USAGE)?.clone()),
            other => return Err(format!("unknown word {other:?}; {USAGE}").into()),
        }
    }
    Ok(wish)
}

fn workspace_root() -> Result<PathBuf, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Ok(root.canonicalize().map_err(|e| format!("no workspace at {}: {e}", root.display()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn words_of_the_command_line() {
        let both = Wish { force: true, target: Some("a-b-c".into()) };
        assert_eq!(parse(&[]).unwrap(), Wish::default());
        assert_eq!(parse(&words("--force --target a-b-c")).unwrap(), both);
        assert!(parse(&words("--target")).is_err());
        assert!(parse(&words("--fast")).is_err());
    }
}
