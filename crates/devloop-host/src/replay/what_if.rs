//! Brings a recorded trace and a policy file to the one who decides the night again. It reads both and writes
//! nothing.

use std::path::Path;

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
    let (path, texts) = match recording {
        Recording::Project(armed) => {
            let parts = trace::read(&Disk::default(), armed)?;
            (armed.trace(), parts.into_iter().flat_map(|(_, lines)| lines).collect::<Vec<Vec<u8>>>())
        }
        Recording::File(path) => match kind::read(path)? {
            (Kind::Trace, bytes) => {
                (path.to_path_buf(), devloop_whatif::lines_of(&bytes).map(<[u8]>::to_vec).collect())
            }
            _ => {
                return Err(kind::no_recording(
                    path,
                    "another policy needs a trace, with the inputs of decisions",
                ));
            }
        },
    };
    let lines = texts.iter().map(Vec::as_slice);
    devloop_whatif::what_if(lines, &overlay).map_err(|refused| {
        if refused.of_the_policy {
            HostError::new(ErrorKind::Config, refused.what).at(policy).hint(["devloop", "replay", "--help"])
        } else if texts.is_empty() {
            HostError::new(ErrorKind::Config, refused.what).at(&path)
        } else {
            HostError::new(ErrorKind::Integrity, refused.what).at(&path)
        }
    })
}
