//! `devloop replay --page`: the recorded night as one document for a browser, which decides it again under
//! whatever limits are typed there. It writes that one file and nothing of another's.

use std::path::{Path, PathBuf};

use devloop_host::error::{ErrorKind, HostError};
use devloop_host::files;
use devloop_host::replay::{self, Recording};

use crate::cli::{FINE, Form, Outcome};
use crate::say;

/// The largest file that is looked at before it is written over, in bytes.
const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// Writes the document of a recording; `name` is what the night belongs to.
///
/// # Errors
/// As [`replay::trace_text`]; User when another's file is in the way, Environment when it cannot be written.
pub fn write(recording: Recording<'_>, to: &Path, name: &str, form: Form) -> Outcome {
    may_write(to)?;
    let trace = replay::trace_text(recording)?;
    let document = devloop_page::document(name, &trace);
    files::write_whole(to, document.as_bytes()).map_err(|source| HostError::io(to, "write", source))?;
    let shown = shown(to);
    if form.json {
        say::json(&serde_json::json!({ "page": shown, "bytes": document.len() }));
    } else {
        say::line(format_args!("Wrote {shown}: open it in a browser. It loads nothing and sends nothing."));
    }
    Ok(FINE)
}

/// An earlier page may be replaced, anything else stays.
fn may_write(to: &Path) -> Result<(), HostError> {
    let Some(stamp) = files::stamp(to) else { return Ok(()) };
    let refused = |what: &str| Err(HostError::new(ErrorKind::User, what).at(to));
    if stamp.folder || stamp.symlink {
        return refused("--page names a file to be written, and this is none");
    }
    match files::read_bytes(to, MAX_BYTES) {
        Ok(bytes) if devloop_page::is_document(&bytes) => Ok(()),
        _ => refused("there is a file of another kind already; name another for --page"),
    }
}

/// Where it is, for a browser's address line.
fn shown(to: &Path) -> String {
    files::canonical(to).unwrap_or_else(|_| PathBuf::from(to)).display().to_string()
}
