//! `devloop next`: puts a finished goal away so that the next one can start. It must not write GOAL.md.

use clap::Args;
use devloop_core::command::Wish;

use crate::cli::{Form, Outcome};
use crate::place::Root;
use crate::{say, wish};

/// Starts the next goal after a finished one
#[derive(Clone, Debug, Args)]
pub struct Next {
    #[command(flatten)]
    pub root: Root,
    #[command(flatten)]
    pub form: Form,
}

/// Performs the verb.
///
/// # Errors
/// When the project cannot be worked with.
pub fn perform(verb: &Next) -> Outcome {
    let mut desk = verb.root.desk()?;
    let report = wish::commit(&mut desk, Wish::NextGoal)?;
    if report.accepted && !verb.form.json {
        say::line(format_args!("The next goal is what {} says now.", desk.armed().goal().display()));
    }
    wish::tell(&desk, &report, verb.form, false)
}
