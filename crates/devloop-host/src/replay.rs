//! Runs what was recorded through a core again: the journal line by line, the trace input by input. It
//! reads files and writes none, and it names the first difference instead of repairing it.

mod core;
mod difference;
mod golden;
mod journal;
mod kind;
mod trace;
mod what_if;

use std::path::Path;

use devloop_wire::fault::DocError;
use serde::Serialize;

use crate::error::{ErrorKind, HostError};

pub use self::core::{Core, Engine};
pub use difference::{Difference, Divergence, MAX_FIELDS};
pub use journal::{JournalReport, events, journal};
pub use trace::{TraceReport, retrace};
pub use what_if::{Figures, Parting, Recording, WhatIf, trace_text, what_if};

/// The largest recording or component file that is read, in bytes, also after unpacking.
const FILE_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// What was found in a recording.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Replayed {
    /// The journal; none for a trace alone.
    pub journal: Option<JournalReport>,
    /// The trace; none for a journal alone.
    pub trace: Option<TraceReport>,
}

impl Replayed {
    /// The first difference: the journal's, else the trace's.
    #[must_use]
    pub fn divergence(&self) -> Option<&Divergence> {
        let journal = self.journal.as_ref().and_then(|report| report.divergence.as_ref());
        journal.or_else(|| self.trace.as_ref().and_then(|report| report.divergence.as_ref()))
    }
}

/// Replays one file: a segment of the journal (also compressed), a trace, or one recorded decision. `None`
/// when it holds no whole line.
///
/// # Errors
/// User or Config for what is no recording; Integrity at the first line that cannot be believed.
pub fn file(path: &Path, core: &mut Core) -> Result<Option<Replayed>, HostError> {
    let (kind, bytes) = kind::read(path)?;
    Ok(match kind {
        kind::Kind::Journal => {
            let part = journal::part(path, &bytes)?;
            let torn = part.as_ref().map_or(0, |part| bytes.len() as u64 - part.segment.valid_len);
            let parts: Vec<_> = part.into_iter().collect();
            journal::fold_parts(&parts, core)?.map(|report| Replayed {
                journal: Some(JournalReport { torn_bytes: torn, ..report }),
                trace: None,
            })
        }
        kind::Kind::Trace => {
            Some(Replayed { journal: None, trace: Some(trace::retrace_bytes(path, &bytes, core)?) })
        }
        kind::Kind::Golden => {
            Some(Replayed { journal: None, trace: Some(golden::replay(path, &bytes, core)?) })
        }
    })
}

fn bad(path: &Path, error: &DocError) -> HostError {
    HostError::new(ErrorKind::Integrity, error.to_string()).at(path)
}

fn bad_line(path: &Path, number: usize, error: &DocError) -> HostError {
    HostError::new(ErrorKind::Integrity, format!("line {number} cannot be believed: {error}")).at(path)
}
