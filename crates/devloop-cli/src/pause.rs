//! `devloop pause`: stops taking new work, and says what still runs. It must not end anything itself.

use clap::Args;
use devloop_core::command::Wish;

use crate::cli::{FINE, Form, NEEDS_A_PERSON, Outcome};
use crate::place::{self, Root};
use crate::{say, wish};

/// Stops taking new work
#[derive(Clone, Debug, Args)]
pub struct Pause {
    #[command(flatten)]
    pub root: Root,
    /// Also end what runs
    #[arg(long)]
    pub now: bool,
    #[command(flatten)]
    pub form: Form,
}

/// Performs the verb.
///
/// # Errors
/// When the project cannot be worked with.
pub fn perform(verb: &Pause) -> Outcome {
    let mut desk = verb.root.desk()?;
    let report = wish::commit(&mut desk, Wish::Pause { now: verb.now })?;
    let root = desk.armed().root().to_string_lossy().into_owned();
    let view = desk.view().map_err(|error| place::about(error, desk.armed().root()))?;
    let runs: Vec<String> = view
        .running
        .iter()
        .map(|run| {
            let end = if run.ending { ", being ended" } else { "" };
            format!("{} of {} ({}{end})", run.op, run.subject, run.dispatch)
        })
        .collect();
    if verb.form.json {
        let mut value = wish::value(&report);
        value["running"] = runs.into();
        say::json(&value);
    } else if report.accepted {
        say::line(format_args!("{} Revision {}.", report.sentence, report.revision));
        let still = if runs.is_empty() { "nothing".to_owned() } else { runs.join(", ") };
        say::line(format_args!("still runs: {still}"));
        say::line(format_args!("go on with: {}", say::command(&["devloop".into(), "resume".into(), root])));
    } else {
        say::note(format_args!("devloop: not accepted: {}", report.sentence));
        say::note(format_args!("  try: {}", say::command(&["devloop".into(), "status".into(), root])));
    }
    Ok(if report.accepted { FINE } else { NEEDS_A_PERSON })
}
