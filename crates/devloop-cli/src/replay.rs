//! `devloop replay`: runs the recorded journal and trace again and says whether they hold. It only reads.

use std::path::{Path, PathBuf};

use clap::Args;
use devloop_host::error::{ErrorKind, HostError};
use devloop_host::replay::{self, Core, Divergence, Engine, JournalReport, Recording, Replayed, TraceReport};
use devloop_host::store::layout;

use crate::cli::{FINE, Form, NEEDS_A_PERSON, Outcome};
use crate::picture::count;
use crate::place::{self, Root};
use crate::{page, say, what_if};

/// Runs the recorded journal and trace through the component and verifies them
#[derive(Clone, Debug, Args)]
pub struct Replay {
    /// The project; or one file: a segment of its journal (also a compressed one of .devloop/journal/), a
    /// trace, or a single recorded decision. Without it the repository around the current folder
    #[arg(value_name = "ROOT|FILE")]
    pub what: Option<PathBuf>,
    /// Run the core without a sandbox instead of the component
    #[arg(long, conflicts_with = "component")]
    pub native: bool,
    /// Run the component in this file
    #[arg(long, value_name = "FILE")]
    pub component: Option<PathBuf>,
    /// Decide the last goal again under other limits, routes, prices or slots: keys of a configuration in a
    /// JSON file, laid over the recorded policy. The answer states what was drawn from the recording, and how
    #[arg(long, value_name = "FILE", conflicts_with_all = ["native", "component"])]
    pub with: Option<PathBuf>,
    /// Write the last goal's night into this file: a page that decides it again under whatever limits are
    /// typed there, in any browser, and needs nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["native", "component", "with"])]
    pub page: Option<PathBuf>,
    #[command(flatten)]
    pub form: Form,
}

/// Performs the verb.
///
/// # Errors
/// Integrity where a line cannot be believed; User or Config for what is no recording.
pub fn perform(verb: &Replay) -> Outcome {
    let what = Root { root: verb.what.clone() }.folder()?;
    let is_file = devloop_host::files::stamp(&what).is_some_and(|stamp| !stamp.folder && !stamp.symlink);
    let armed = || layout::require_armed(&what).map_err(|error| place::about(error.into(), &what));
    if verb.with.is_some() || verb.page.is_some() {
        return if is_file {
            once_more(verb, Recording::File(&what), &what)
        } else {
            let armed = armed()?;
            let answer = once_more(verb, Recording::Project(&armed), armed.root());
            answer.map_err(|error| place::about(error, armed.root()))
        };
    }
    let engine = match (&verb.component, verb.native) {
        (Some(path), _) => Engine::File(path),
        (None, true) => Engine::Native,
        (None, false) => Engine::Embedded,
    };
    let mut core = Core::load(engine)?;
    if is_file {
        let found = replay::file(&what, &mut core)?.ok_or_else(|| nothing(&what))?;
        return tell(&found, verb.form);
    }
    let armed = armed()?;
    let about = |error| place::about(error, armed.root());
    let journal = replay::journal(&armed, &mut core).map_err(about)?.ok_or_else(|| nothing(armed.root()))?;
    let trace = replay::retrace(&armed, &mut core).map_err(about)?;
    tell(&Replayed { journal: Some(journal), trace: Some(trace) }, verb.form)
}

/// What needs the trace as a night that can be decided again.
fn once_more(verb: &Replay, recording: Recording<'_>, what: &Path) -> Outcome {
    let name = what.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match (&verb.with, &verb.page) {
        (Some(policy), _) => what_if::answer(recording, policy, verb.form),
        (None, Some(page)) => page::write(recording, page, &name, verb.form),
        (None, None) => Ok(FINE),
    }
}

fn nothing(path: &Path) -> HostError {
    let run = ["devloop".to_owned(), "run".to_owned(), path.to_string_lossy().into_owned()];
    HostError::new(ErrorKind::Config, "nothing was recorded yet").at(path).hint(run)
}

fn tell(found: &Replayed, form: Form) -> Outcome {
    if form.json {
        say::json(&serde_json::json!(found));
    } else {
        found.journal.iter().flat_map(journal_lines).for_each(say::line);
        found.trace.iter().flat_map(trace_lines).for_each(say::line);
    }
    Ok(if found.divergence().is_some() { NEEDS_A_PERSON } else { FINE })
}

/// The journal's report in words.
#[must_use]
pub fn journal_lines(report: &JournalReport) -> Vec<String> {
    let whole = if report.complete { "from the very start" } else { "older segments are gone" };
    let verified = if report.divergence.is_none() { "verified" } else { "contradicted" };
    let mut lines = vec![
        format!(
            "journal {verified} by replay in {}: {}, {}, digest {}",
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
    if report.torn_bytes > 0 {
        lines.push(format!(
            "  the last line was not written to its end: {} bytes left out",
            report.torn_bytes
        ));
    }
    lines.extend(report.divergence.iter().flat_map(divergence_lines));
    lines
}

fn trace_lines(report: &TraceReport) -> Vec<String> {
    let mut lines = match report.covers {
        Some((from, to)) => vec![format!(
            "trace: {} decided again by {}, {} compared, revisions {from} to {to}",
            count(report.inputs, "input"),
            report.core,
            count(report.decisions, "decision")
        )],
        None => vec!["trace: nothing to decide again".to_owned()],
    };
    if report.digests_of_other_cores > 0 {
        let n = count(report.digests_of_other_cores, "digest");
        lines.push(format!("  {n} of another core: decisions compared, digests not"));
    }
    if report.skipped > 0 {
        let n = count(report.skipped, "input");
        lines.push(format!("  {n} left out: the revisions before are in no trace"));
    }
    if report.torn_bytes > 0 {
        lines.push(format!(
            "  the last line was not written to its end: {} bytes left out",
            report.torn_bytes
        ));
    }
    match &report.divergence {
        None => lines.push("  no difference".into()),
        Some(found) => lines.extend(divergence_lines(found)),
    }
    lines
}

/// The first difference, field by field.
fn divergence_lines(found: &Divergence) -> Vec<String> {
    let mut lines = vec![format!(
        "  first difference at revision {} ({} line {}):",
        found.revision,
        found.file.display(),
        found.line
    )];
    for field in &found.fields {
        lines.push(format!("    {}", field.path));
        lines.push(format!("      recorded: {}", field.recorded));
        lines.push(format!("      replayed: {}", field.replayed));
    }
    if found.more > 0 {
        lines.push(format!("    and {}", count(found.more, "more field")));
    }
    lines
}
