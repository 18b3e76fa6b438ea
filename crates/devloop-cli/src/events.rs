//! `devloop events`: the journal, as lines for people or as it was written. It only reads.

use clap::Args;
use devloop_host::replay;
use devloop_host::store::layout;
use devloop_host::view::utc;

use crate::cli::{FINE, Form, Outcome};
use crate::place::{self, Root};
use crate::say;

/// Prints the journal
#[derive(Clone, Debug, Args)]
pub struct Events {
    #[command(flatten)]
    pub root: Root,
    /// Only from this revision on
    #[arg(long, value_name = "REVISION", default_value_t = 0)]
    pub since: u64,
    #[command(flatten)]
    pub form: Form,
}

/// Performs the verb.
///
/// # Errors
/// When the project is unarmed or a line cannot be believed.
pub fn perform(verb: &Events) -> Outcome {
    let root = verb.root.folder()?;
    let armed = layout::require_armed(&root).map_err(|error| place::about(error.into(), &root))?;
    let lines = replay::events(&armed, verb.since).map_err(|error| place::about(error, armed.root()))?;
    for (line, bytes) in lines {
        if verb.form.json {
            say::line(String::from_utf8_lossy(&bytes));
        } else {
            let by = if line.by.starts_with("loop/") { "loop" } else { line.by.as_str() };
            say::line(format_args!(
                "{:>5}  {}  {by:<5}  {}",
                line.revision,
                utc(line.at.0),
                line.reason.sentence()
            ));
        }
    }
    Ok(FINE)
}
