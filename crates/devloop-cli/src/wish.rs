//! What every operator's wish has in common: it is committed from here, the loop wakes by itself, and the
//! answer says what it led to. It must not judge the wish.

use devloop_core::command::{Command, Wish};
use devloop_host::command::{CommandReport, Desk};
use devloop_host::error::{ErrorKind, HostError};
use devloop_host::store::OwnerRecord;
use serde_json::json;

use crate::cli::{FINE, Form, NEEDS_A_PERSON, Outcome};
use crate::{place, say};

/// Who wishes, for the journal.
const BY: &str = "cli";

/// A wish of this program's user.
#[must_use]
pub fn command(wish: Wish) -> Command {
    Command { by: BY.into(), wish }
}

/// Commits a wish.
///
/// # Errors
/// When the project is busy or cannot be believed, with what to do.
pub fn commit(desk: &mut Desk, wish: Wish) -> Result<CommandReport, HostError> {
    let root = desk.armed().root().to_path_buf();
    desk.wish(command(wish)).map_err(|error| place::about(error, &root))
}

/// Prints what came of it; `needs` says whether an accepted wish that does not help is a failure.
///
/// # Errors
/// None at present; the signature is that of a verb.
pub fn tell(desk: &Desk, report: &CommandReport, form: Form, needs_help: bool) -> Outcome {
    let fine = report.accepted && (report.helps || !needs_help);
    if form.json {
        let value = serde_json::to_value(report)
            .map_err(|error| HostError::new(ErrorKind::Internal, "the report is no JSON").because(error))?;
        say::json(&value);
    } else {
        words(desk, report);
    }
    Ok(if fine { FINE } else { NEEDS_A_PERSON })
}

fn words(desk: &Desk, report: &CommandReport) {
    let root = desk.armed().root().to_string_lossy().into_owned();
    let status = say::command(&["devloop".into(), "status".into(), root]);
    if !report.accepted {
        say::note(format_args!("devloop: not accepted: {}", report.sentence));
        say::note(format_args!("  try: {status}"));
        return;
    }
    say::line(format_args!("{} Revision {}.", report.sentence, report.revision));
    if !report.cleared.is_empty() {
        say::line(format_args!("cleared:          {}", report.cleared.join(", ")));
    }
    if !report.open.is_empty() {
        say::line(format_args!("still blocked by: {}", report.open.join(", ")));
    }
    say::line(format_args!("next:             {}", report.next));
    if report.helps {
        say::line(pickup(desk));
    } else {
        say::line(format_args!("The loop does not move yet; what it needs: {status}"));
    }
}

/// Who will act on it.
fn pickup(desk: &Desk) -> String {
    let runs = |owner: &OwnerRecord| !owner.released && owner.identity().is_alive() != Some(false);
    match desk.owner() {
        Ok(Some(owner)) if runs(&owner) => {
            format!("The running loop (process {}) picks it up at once.", owner.pid)
        }
        _ => {
            let root = desk.armed().root().to_string_lossy().into_owned();
            let run = say::command(&["devloop".into(), "run".into(), root]);
            format!("No loop runs at the moment; start one: {run}")
        }
    }
}

/// The report as a value, for callers that print it with more.
#[must_use]
pub fn value(report: &CommandReport) -> serde_json::Value {
    serde_json::to_value(report).unwrap_or_else(|_| json!({}))
}
