//! Runs what was recorded through a machine again: the journal line by line, the trace input by input. It
//! reads files and writes none, and it names the first difference instead of repairing it.

mod trace;

use std::path::Path;

use devloop_bridge::Step;
use devloop_component::CORE_DIGEST;
use devloop_wire::config_doc::Config;
use devloop_wire::event_line::{self, EventLine, JournalLine};
use devloop_wire::fault::DocError;
use devloop_wire::{policy_doc, state_doc};
use serde::Serialize;

use crate::error::{ErrorKind, HostError};
use crate::files;
use crate::machine::{Component, Machine, Native};
use crate::store::history::{self, Part};
use crate::store::line::{FIRST_CHAIN, SegmentFault, read_segment};
use crate::store::wire_format::WireLines;
use crate::store::{Armed, Disk, Tip};

pub use trace::{Divergence, TraceReport, retrace};

/// The largest journal or component file that is read, in bytes.
const FILE_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Which core runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine<'a> {
    /// The component inside this program.
    Embedded,
    /// The core linked into this program, without a sandbox.
    Native,
    /// A component in a file; it is compiled here and metered by fuel.
    File(&'a Path),
}

/// A core that is ready to run.
pub struct Core {
    machine: Box<dyn Machine>,
    /// Its digest, as journals name it.
    pub digest: String,
    /// What it is, in words.
    pub name: String,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Core {
    /// Loads a core.
    ///
    /// # Errors
    /// When the component does not load or its file cannot be read.
    pub fn load(engine: Engine<'_>) -> Result<Core, HostError> {
        match engine {
            Engine::Embedded => Ok(Core {
                machine: Box::new(Component::embedded()?),
                digest: CORE_DIGEST.into(),
                name: "the component".into(),
            }),
            Engine::Native => Ok(Core {
                machine: Box::new(Native::new()),
                digest: CORE_DIGEST.into(),
                name: "the native core".into(),
            }),
            Engine::File(path) => from_file(path),
        }
    }
}

#[cfg(feature = "compiler")]
fn from_file(path: &Path) -> Result<Core, HostError> {
    use crate::machine::{GuestLimits, Metering, Program};
    use std::sync::Arc;

    let bytes = files::read_bytes(path, FILE_MAX_BYTES)?;
    let program = Program::compile(&bytes, Metering::Fuel).map_err(|error| {
        HostError::new(ErrorKind::User, format!("this file is no core: {error}")).at(path)
    })?;
    Ok(Core {
        machine: Box::new(Component::new(Arc::new(program), GuestLimits::default())),
        digest: devloop_wire::digest_bytes(&bytes).into(),
        name: format!("the component {}", path.display()),
    })
}

#[cfg(not(feature = "compiler"))]
fn from_file(path: &Path) -> Result<Core, HostError> {
    let what = "this program carries no compiler; use the command line to run another component";
    Err(HostError::new(ErrorKind::User, what).at(path))
}

/// What a replay of the journal found.
#[derive(Clone, Debug, Serialize)]
pub struct JournalReport {
    /// Which core folded.
    pub core: String,
    /// Segments read.
    pub segments: usize,
    /// Lines folded or compared, snapshots included.
    pub lines: usize,
    /// Events folded.
    pub events: usize,
    /// Revision of the oldest snapshot.
    pub first_revision: u64,
    /// Last revision.
    pub last_revision: u64,
    /// Whether the oldest snapshot is the very first line.
    pub complete: bool,
    /// Chain of the last line.
    pub chain: String,
    /// SHA-256 of the state that the lines lead to.
    pub state_digest: String,
    /// State digests that were compared and agreed.
    pub digests_compared: usize,
    /// State digests that were not compared because another core wrote them.
    pub digests_of_other_cores: usize,
}

/// The events of a recorded journal, from a revision on.
///
/// # Errors
/// Integrity when a line cannot be believed.
pub fn events(armed: &Armed, since: u64) -> Result<Vec<(EventLine, Vec<u8>)>, HostError> {
    let mut found = Vec::new();
    for part in parts_of(armed, since)? {
        for step in part.segment.steps {
            if step.revision >= since {
                let line = event_line::parse_line(&step.bytes).map_err(|error| bad(&part.path, &error))?;
                found.push((line, step.bytes));
            }
        }
    }
    Ok(found)
}

fn parts_of(armed: &Armed, since: u64) -> Result<Vec<Part>, HostError> {
    if files::stamp(&armed.events()).is_none() {
        return Ok(Vec::new());
    }
    Ok(history::parts(armed, &WireLines, since)?)
}

/// Folds the whole journal of a project and compares every digest on the way, STATE.json's included. `None`
/// when nothing was recorded yet.
///
/// # Errors
/// Integrity at the first line that does not follow, or where the state is another one.
pub fn journal(armed: &Armed, core: &mut Core) -> Result<Option<JournalReport>, HostError> {
    history::verify(armed, &WireLines)?;
    let parts = parts_of(armed, 0)?;
    let Some(report) = fold_parts(&parts, core)? else { return Ok(None) };
    compare_state_file(armed, report).map(Some)
}

/// Folds the journal lines of one file.
///
/// # Errors
/// As [`journal`].
pub fn journal_file(path: &Path, core: &mut Core) -> Result<Option<JournalReport>, HostError> {
    let bytes = files::read_bytes(path, FILE_MAX_BYTES)?;
    let segment = match read_segment(&WireLines, path, &bytes) {
        Ok(found) => found,
        Err(SegmentFault::Legacy) => {
            let what = "this journal is of version 1; only its own plugin can replay it";
            return Err(HostError::new(ErrorKind::Config, what).at(path));
        }
        Err(SegmentFault::Other(error)) => return Err(error.into()),
    };
    let parts: Vec<Part> = segment.into_iter().map(|segment| Part { path: path.into(), segment }).collect();
    fold_parts(&parts, core)
}

fn fold_parts(parts: &[Part], core: &mut Core) -> Result<Option<JournalReport>, HostError> {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(None) };
    let start = Tip { revision: first.segment.head.revision, chain: FIRST_CHAIN.into() };
    let mut report = JournalReport {
        core: core.name.clone(),
        segments: parts.len(),
        lines: 0,
        events: 0,
        first_revision: first.segment.head.revision,
        last_revision: last.segment.last().revision,
        complete: history::follows(&WireLines, &start, &first.segment.head),
        chain: last.segment.last().chain.clone(),
        state_digest: String::new(),
        digests_compared: 0,
        digests_of_other_cores: 0,
    };
    let mut before: Option<String> = None;
    for part in parts {
        before = Some(fold_part(part, core, before.as_deref(), &mut report)?);
    }
    report.state_digest = before.unwrap_or_default();
    Ok(Some(report))
}

/// Folds one segment on its snapshot, which must be the state that the segment before it led to.
fn fold_part(
    part: &Part,
    core: &mut Core,
    before: Option<&str>,
    report: &mut JournalReport,
) -> Result<String, HostError> {
    let head = event_line::parse_head(&part.segment.head.bytes).map_err(|error| bad(&part.path, &error))?;
    let mut steps = Vec::new();
    for line in &part.segment.steps {
        if let JournalLine::Events(line) = event_line::parse(&line.bytes).map_err(|e| bad(&part.path, &e))? {
            report.events += line.events.len();
            steps.push(Step::Line(line.events));
        }
    }
    report.lines += 1 + steps.len();
    let document = state_doc::write(&head.state);
    let snapshot = String::from(state_doc::digest(&head.state));
    if head.core.as_str() == core.digest {
        same(part, head.revision, head.state_digest.as_str(), &snapshot)?;
        report.digests_compared += 1;
    } else {
        report.digests_of_other_cores += 1;
    }
    if let Some(before) = before {
        same(part, head.revision, &snapshot, before)?;
        report.digests_compared += 1;
    }
    // Folding reads no policy, so any one serves to open the machine.
    let policy = policy_doc::policy_bytes(&Config::default().policy());
    if steps.is_empty() {
        core.machine.open(&document, &policy)?;
        return Ok(core.machine.digest()?);
    }
    let replayed = core.machine.replay(&document, &policy, &steps, 0)?;
    let last = replayed.into_iter().last();
    last.and_then(|step| step.digest)
        .ok_or_else(|| HostError::new(ErrorKind::Internal, "the core returned no digest for a replay"))
}

fn same(part: &Part, revision: u64, recorded: &str, folded: &str) -> Result<(), HostError> {
    if recorded == folded {
        return Ok(());
    }
    let what =
        format!("at revision {revision} the recorded state has digest {recorded}, the replayed one {folded}");
    Err(HostError::new(ErrorKind::Integrity, what).at(&part.path).in_field("state_digest"))
}

/// STATE.json is a projection: at the same revision it holds the very state.
fn compare_state_file(armed: &Armed, mut report: JournalReport) -> Result<JournalReport, HostError> {
    let Some(bytes) = Disk::default().read(&armed.state(), FILE_MAX_BYTES)? else { return Ok(report) };
    let Ok(doc) = state_doc::parse_doc(&bytes) else { return Ok(report) };
    if doc.state.revision != report.last_revision {
        return Ok(report);
    }
    let written = state_doc::digest(&doc.state);
    if written.as_str() != report.state_digest {
        let what = format!("it has digest {written}, the journal leads to {}", report.state_digest);
        return Err(HostError::new(ErrorKind::Integrity, what).at(armed.state()).in_field("state"));
    }
    report.digests_compared += 1;
    Ok(report)
}

fn bad(path: &Path, error: &DocError) -> HostError {
    HostError::new(ErrorKind::Integrity, error.to_string()).at(path)
}
