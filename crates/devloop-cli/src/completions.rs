//! `devloop completions`: prints completions for a shell. It knows nothing but the command line.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::{Cli, FINE, Outcome};
use crate::say;

/// Prints completions for a shell
#[derive(Clone, Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

/// Performs the verb.
///
/// # Errors
/// None; the signature is that of a verb.
pub fn perform(verb: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(verb.shell, &mut Cli::command(), "devloop", &mut script);
    say::raw(&String::from_utf8_lossy(&script));
    Ok(FINE)
}
