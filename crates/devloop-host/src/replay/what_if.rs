//! Brings a recorded trace and a policy file to the one who decides the night again. It reads both and writes
//! nothing.

use std::path::{Path, PathBuf};

use super::kind::{self, Kind};
use crate::error::{ErrorKind, HostError};
use crate::files;
use crate::store::{Armed, Disk, trace};

pub use devloop_whatif::{Figures, Parting, WhatIf};

/// The largest policy file, in bytes.
const POLICY_MAX_BYTES: u64 = 1024 * 1024;

/// Where the recording is.
#[derive(Clone, Copy, Debug)]
pub enum Recording<'a> {
    /// A project, with its whole trace.
    Project(&'a Armed),
    /// One trace file.
    File(&'a Path),
}

/// What the last recorded goal would have been under a policy file.
///
/// # Errors
/// User for a file that is no trace, Config for every fault of the policy file or when nothing was recorded,
/// Integrity when the trace cannot be believed.
pub fn what_if(recording: Recording<'_>, policy: &Path) -> Result<WhatIf, HostError> {
    let overlay = files::read_bytes(policy, POLICY_MAX_BYTES)?;
    let Lines { path, texts } = lines(recording)?;
    devloop_whatif::what_if(texts.iter().map(Vec::as_slice), &overlay).map_err(|refused| {
        if refused.of_the_policy {
            HostError::new(ErrorKind::Config, refused.what).at(policy).hint(["devloop", "replay", "--help"])
        } else {
            disbelief(refused.what, &path, &texts)
        }
    })
}

/// The trace itself as text, each line ended by a newline, once it is known that it can be decided again.
///
/// # Errors
/// User for a file that is no trace, Config when nothing was recorded, Integrity when the trace cannot be
/// believed.
pub fn trace_text(recording: Recording<'_>) -> Result<Vec<u8>, HostError> {
    let Lines { path, texts } = lines(recording)?;
    devloop_whatif::nights(texts.iter().map(Vec::as_slice), b"{}")
        .map_err(|refused| disbelief(refused.what, &path, &texts))?;
    Ok(texts.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect())
}

/// The whole lines of a trace, and where they came from.
struct Lines {
    path: PathBuf,
    texts: Vec<Vec<u8>>,
}

fn lines(recording: Recording<'_>) -> Result<Lines, HostError> {
    match recording {
        Recording::Project(armed) => {
            let parts = trace::read(&Disk::default(), armed)?;
            let texts = parts.into_iter().flat_map(|(_, lines)| lines).collect();
            Ok(Lines { path: armed.trace(), texts })
        }
        Recording::File(path) => match kind::read(path)? {
            (Kind::Trace, bytes) => {
                let texts = devloop_whatif::lines_of(&bytes).map(<[u8]>::to_vec).collect();
                Ok(Lines { path: path.to_path_buf(), texts })
            }
            _ => {
                let what = "another policy needs a trace, with the inputs of decisions";
                Err(kind::no_recording(path, what))
            }
        },
    }
}

/// Nothing recorded is no fault of the recording.
fn disbelief(what: String, path: &Path, texts: &[Vec<u8>]) -> HostError {
    let kind = if texts.is_empty() { ErrorKind::Config } else { ErrorKind::Integrity };
    HostError::new(kind, what).at(path)
}
