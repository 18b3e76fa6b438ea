//! Folds a recorded journal line by line and compares every digest on the way. It reads files and writes
//! none.

use std::path::Path;

use devloop_bridge::Step;
use devloop_core::state::LoopState;
use devloop_wire::config_doc::Config;
use devloop_wire::event_line::{self, EventLine, JournalLine, SegmentHead};
use devloop_wire::{policy_doc, state_doc};
use serde::Serialize;

use super::difference::{Divergence, Found};
use super::{Core, FILE_MAX_BYTES, bad};
use crate::error::{ErrorKind, HostError};
use crate::files;
use crate::store::history::{self, Part};
use crate::store::line::FIRST_CHAIN;
use crate::store::wire_format::WireLines;
use crate::store::{Armed, Disk, Tip};

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
    /// Bytes of a last line that was not written to its end; they are left out.
    pub torn_bytes: u64,
    /// Chain of the last line.
    pub chain: String,
    /// SHA-256 of the state that the lines lead to.
    pub state_digest: String,
    /// State digests that were compared and agreed.
    pub digests_compared: usize,
    /// State digests that were not compared because another core wrote them.
    pub digests_of_other_cores: usize,
    /// The first state that is not the one that the lines lead to.
    pub divergence: Option<Divergence>,
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
/// Integrity at the first line that does not follow from the one before.
pub fn journal(armed: &Armed, core: &mut Core) -> Result<Option<JournalReport>, HostError> {
    history::verify(armed, &WireLines)?;
    let parts = parts_of(armed, 0)?;
    let Some(mut report) = fold_parts(&parts, core)? else { return Ok(None) };
    let written = files::stamp(&armed.events()).map_or(0, |stamp| stamp.bytes);
    let whole = parts.last().filter(|part| part.path == armed.events()).map(|part| part.segment.valid_len);
    report.torn_bytes = written.saturating_sub(whole.unwrap_or(written));
    if let (None, Some(last)) = (&report.divergence, parts.last()) {
        compare_state_file(armed, last, core, &mut report)?;
    }
    Ok(Some(report))
}

/// Folds segments in their order. `None` when there is none.
///
/// # Errors
/// As [`journal`].
pub(super) fn fold_parts(parts: &[Part], core: &mut Core) -> Result<Option<JournalReport>, HostError> {
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
        torn_bytes: 0,
        chain: last.segment.last().chain.clone(),
        state_digest: String::new(),
        digests_compared: 0,
        digests_of_other_cores: 0,
        divergence: None,
    };
    let mut before: Option<&Part> = None;
    for part in parts {
        let folded = report.state_digest.clone();
        let earlier = before.map(|part| (part, folded.as_str()));
        report.state_digest = fold_part(part, core, earlier, &mut report)?;
        before = Some(part);
        if report.divergence.is_some() {
            break;
        }
    }
    Ok(Some(report))
}

/// Folds one segment on its snapshot, which must be the state that the segment before it led to. Returns the
/// digest of the state it leads to.
fn fold_part(
    part: &Part,
    core: &mut Core,
    before: Option<(&Part, &str)>,
    report: &mut JournalReport,
) -> Result<String, HostError> {
    let head = event_line::parse_head(&part.segment.head.bytes).map_err(|error| bad(&part.path, &error))?;
    let document = state_doc::write(&head.state);
    let snapshot = String::from(state_doc::digest(&head.state));
    report.lines += 1;
    report.divergence = compare_snapshot(part, &head, &snapshot, core, report);
    match before {
        Some((_, folded)) if folded == snapshot => report.digests_compared += 1,
        Some((earlier, _)) if report.divergence.is_none() => {
            lead_to_the_end(earlier, core)?;
            report.divergence = state_difference(core, &head.state)?.at(&part.path, 1, head.revision);
        }
        _ => {}
    }
    if report.divergence.is_some() {
        return Ok(snapshot);
    }
    let steps = steps_of(part, report)?;
    if steps.is_empty() {
        core.machine.open(&document, &any_policy())?;
        return Ok(core.machine.digest()?);
    }
    let replayed = core.machine.replay(&document, &any_policy(), &steps, 0)?;
    let last = replayed.into_iter().last();
    last.and_then(|step| step.digest)
        .ok_or_else(|| HostError::new(ErrorKind::Internal, "the core returned no digest for a replay"))
}

/// Folding reads no policy, so any one serves to open the machine.
fn any_policy() -> Vec<u8> {
    policy_doc::policy_bytes(&Config::default().policy())
}

/// Folds a segment once more, line by line, so that the state itself can be looked at.
fn lead_to_the_end(part: &Part, core: &mut Core) -> Result<(), HostError> {
    let head = event_line::parse_head(&part.segment.head.bytes).map_err(|error| bad(&part.path, &error))?;
    core.machine.open(&state_doc::write(&head.state), &any_policy())?;
    for line in &part.segment.steps {
        let line = event_line::parse_line(&line.bytes).map_err(|error| bad(&part.path, &error))?;
        core.machine.fold(&line.events)?;
    }
    Ok(())
}

fn steps_of(part: &Part, report: &mut JournalReport) -> Result<Vec<Step>, HostError> {
    let mut steps = Vec::new();
    for line in &part.segment.steps {
        if let JournalLine::Events(line) = event_line::parse(&line.bytes).map_err(|e| bad(&part.path, &e))? {
            report.events += line.events.len();
            steps.push(Step::Line(line.events));
        }
    }
    report.lines += steps.len();
    Ok(steps)
}

/// The digest in a snapshot line is that of its state, when this very core wrote it.
fn compare_snapshot(
    part: &Part,
    head: &SegmentHead,
    snapshot: &str,
    core: &Core,
    report: &mut JournalReport,
) -> Option<Divergence> {
    if head.core.as_str() != core.digest {
        report.digests_of_other_cores += 1;
        return None;
    }
    report.digests_compared += 1;
    let mut found = Found::default();
    found.compare("state_digest", &head.state_digest.as_str().into(), &snapshot.into());
    found.at(&part.path, 1, head.revision)
}

/// Field by field: a recorded state against the one in the machine.
pub(super) fn state_difference(core: &mut Core, recorded: &LoopState) -> Result<Found, HostError> {
    let replayed = state_doc::parse(&core.machine.save()?)
        .map_err(|error| HostError::new(ErrorKind::Internal, error.to_string()))?;
    let mut found = Found::default();
    found.compare_as_json("state", recorded, &replayed);
    if found.is_empty() {
        // The core writes the same state in another form; the digests are all there is to show.
        let (recorded, replayed) = (state_doc::digest(recorded), core.machine.digest()?);
        found.compare("state_digest", &recorded.as_str().into(), &replayed.into());
    }
    Ok(found)
}

/// STATE.json is a projection: at the same revision it holds the very state.
fn compare_state_file(
    armed: &Armed,
    last: &Part,
    core: &mut Core,
    report: &mut JournalReport,
) -> Result<(), HostError> {
    let Some(bytes) = Disk::default().read(&armed.state(), FILE_MAX_BYTES)? else { return Ok(()) };
    let Ok(doc) = state_doc::parse_doc(&bytes) else { return Ok(()) };
    if doc.state.revision != report.last_revision {
        return Ok(());
    }
    if state_doc::digest(&doc.state).as_str() == report.state_digest {
        report.digests_compared += 1;
    } else {
        lead_to_the_end(last, core)?;
        report.divergence = state_difference(core, &doc.state)?.at(armed.state(), 1, report.last_revision);
    }
    Ok(())
}

/// Reads one segment out of bytes.
///
/// # Errors
/// Config for a journal of version 1, Integrity for a line that cannot be believed.
pub(super) fn part(path: &Path, bytes: &[u8]) -> Result<Option<Part>, HostError> {
    use crate::store::line::{SegmentFault, read_segment};

    match read_segment(&WireLines, path, bytes) {
        Ok(segment) => Ok(segment.map(|segment| Part { path: path.into(), segment })),
        Err(SegmentFault::Legacy) => Err(super::kind::legacy(path)),
        Err(SegmentFault::Other(error)) => Err(error.into()),
    }
}
