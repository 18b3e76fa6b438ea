//! `devloop replay`: runs the recorded journal and trace again and says whether they hold. It only reads.

use std::path::PathBuf;

use clap::Args;
use devloop_host::error::{ErrorKind, HostError};
use devloop_host::replay::{self, Core, Engine, JournalReport, TraceReport};
use devloop_host::store::layout;
use serde_json::json;

use crate::cli::{FINE, Form, NEEDS_A_PERSON, Outcome};
use crate::picture::count;
use crate::place::{self, Root};
use crate::say;

/// Runs the recorded journal and trace through the component and verifies them
#[derive(Clone, Debug, Args)]
pub struct Replay {
    /// The project, or a journal file; without it the repository around the current folder
    #[arg(value_name = "ROOT|FILE")]
    pub what: Option<PathBuf>,
    /// Run the core without a sandbox instead of the component
    #[arg(long, conflicts_with = "component")]
    pub native: bool,
    /// Run the component in this file
    #[arg(long, value_name = "FILE")]
    pub component: Option<PathBuf>,
    #[command(flatten)]
    pub form: Form,
}

/// Performs the verb.
///
/// # Errors
/// Integrity where the journal does not hold.
pub fn perform(verb: &Replay) -> Outcome {
    let engine = match (&verb.component, verb.native) {
        (Some(path), _) => Engine::File(path),
        (None, true) => Engine::Native,
        (None, false) => Engine::Embedded,
    };
    let mut core = Core::load(engine)?;
    let what = Root { root: verb.what.clone() }.folder()?;
    if devloop_host::files::stamp(&what).is_some_and(|stamp| !stamp.folder && !stamp.symlink) {
        let report = replay::journal_file(&what, &mut core)?.ok_or_else(|| nothing(&what))?;
        return tell(&report, None, verb.form);
    }
    let armed = layout::require_armed(&what).map_err(|error| place::about(error.into(), &what))?;
    let about = |error| place::about(error, armed.root());
    let journal = replay::journal(&armed, &mut core).map_err(about)?.ok_or_else(|| nothing(armed.root()))?;
    let trace = replay::retrace(&armed, &mut core).map_err(about)?;
    tell(&journal, Some(&trace), verb.form)
}

fn nothing(path: &std::path::Path) -> HostError {
    let run = ["devloop".to_owned(), "run".to_owned(), path.to_string_lossy().into_owned()];
    HostError::new(ErrorKind::Config, "nothing was recorded yet").at(path).hint(run)
}

fn tell(journal: &JournalReport, trace: Option<&TraceReport>, form: Form) -> Outcome {
    let diverged = trace.is_some_and(|trace| trace.divergence.is_some());
    if form.json {
        say::json(&json!({ "journal": journal, "trace": trace }));
    } else {
        for line in journal_lines(journal) {
            say::line(line);
        }
        if let Some(trace) = trace {
            trace_lines(trace).into_iter().for_each(say::line);
        }
    }
    Ok(if diverged { NEEDS_A_PERSON } else { FINE })
}

/// The journal's report in words.
#[must_use]
pub fn journal_lines(report: &JournalReport) -> Vec<String> {
    let whole = if report.complete { "from the very start" } else { "older segments are gone" };
    let mut lines = vec![
        format!(
            "journal verified by replay in {}: {}, {}, digest {}",
            report.core,
            count(report.lines, "line"),
            count(report.events, "event"),
            report.state_digest
        ),
        format!(
            "  {}, revisions {} to {} ({whole}), {} compared",
            count(report.segments, "segment"),
            report.first_revision,
            report.last_revision,
            count(report.digests_compared, "digest")
        ),
    ];
    if report.digests_of_other_cores > 0 {
        let n = count(report.digests_of_other_cores, "snapshot");
        lines.push(format!("  {n} of another core: chained and folded, digests not compared"));
    }
    lines
}

fn trace_lines(report: &TraceReport) -> Vec<String> {
    let mut lines = match report.covers {
        Some((from, to)) => vec![format!(
            "trace: {} decided again, {} compared, revisions {from} to {to}",
            count(report.inputs, "input"),
            count(report.decisions, "decision")
        )],
        None => vec!["trace: nothing to decide again".to_owned()],
    };
    match &report.divergence {
        None => lines.push("  no difference".into()),
        Some(found) => {
            lines.push(format!("  first difference at revision {}: {}", found.revision, found.field));
            lines.push(format!("    recorded: {}", found.recorded));
            lines.push(format!("    replayed: {}", found.replayed));
        }
    }
    lines
}
