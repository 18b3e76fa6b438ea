//! What a file is that somebody wants replayed, and the one sentence for what cannot be. It must not replay.

use std::path::Path;

use serde_json::Value;

use super::FILE_MAX_BYTES;
use crate::error::{ErrorKind, HostError};
use crate::files;
use crate::store::archive;

/// The first two bytes of a compressed file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A recording by its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A segment of the journal.
    Journal,
    /// A trace.
    Trace,
    /// One recorded decision, as in `tests/traces/`.
    Golden,
}

/// Reads a recording, unpacked where it was compressed, and says which kind it is.
///
/// # Errors
/// One sentence for what is no recording, with a command that works.
pub(super) fn read(path: &Path) -> Result<(Kind, Vec<u8>), HostError> {
    let mut bytes = files::read_bytes(path, FILE_MAX_BYTES)?;
    if bytes.starts_with(&GZIP) {
        bytes = archive::read(path, FILE_MAX_BYTES)?;
    }
    let kind = kind_of(path, &bytes)?;
    Ok((kind, bytes))
}

fn kind_of(path: &Path, bytes: &[u8]) -> Result<Kind, HostError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(no_recording(path, "the file is empty"));
    }
    if !bytes.contains(&b'\n') && looks_like_a_line(bytes) {
        return Err(no_recording(path, "its only line was not written to its end"));
    }
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let whole = serde_json::from_slice::<Value>(first).or_else(|_| serde_json::from_slice(bytes));
    let Ok(Value::Object(map)) = whole else {
        return Err(no_recording(path, "its first line is no JSON object"));
    };
    let has = |key: &str| map.contains_key(key);
    let version = map.get("v").and_then(Value::as_u64);
    match () {
        () if has("state") && has("input") && has("decision") => Ok(Kind::Golden),
        () if has("input") && has("decisions") => Err(no_recording(
            path,
            "it starts in the middle of a trace: a line with the state is missing before it",
        )),
        () if version == Some(1) => Err(legacy(path)),
        () if has("policy") && has("core") && !has("chain") => Ok(Kind::Trace),
        () if version.is_some() => Ok(Kind::Journal),
        () if has("budget") || has("agentBackend") || has("routing") => {
            Err(no_recording(path, "it is a configuration; use it with --with beside a project"))
        }
        () if has("version") && (has("state") || has("tasks")) => {
            Err(no_recording(path, "it is a state; the journal beside it is what can be replayed"))
        }
        () => Err(no_recording(path, "it is neither a journal nor a trace")),
    }
}

/// The start of a line that a writer did not finish.
fn looks_like_a_line(bytes: &[u8]) -> bool {
    bytes.starts_with(b"{\"v\":") && serde_json::from_slice::<Value>(bytes).is_err()
}

/// A journal of the earlier plugin.
pub(super) fn legacy(path: &Path) -> HostError {
    let what = "this journal is of version 1; only its own plugin can replay it";
    with_next(HostError::new(ErrorKind::Config, what).at(path), path)
}

pub(super) fn no_recording(path: &Path, why: &str) -> HostError {
    with_next(HostError::new(ErrorKind::User, format!("this cannot be replayed: {why}")).at(path), path)
}

/// The project around the file is what can be replayed, where there is one.
fn with_next(error: HostError, path: &Path) -> HostError {
    let root = path.ancestors().find(|above| above.file_name().is_some_and(|name| name == ".devloop"));
    let root =
        root.and_then(Path::parent).filter(|root| files::stamp(&root.join(".devloop/GOAL.md")).is_some());
    match root {
        Some(root) => {
            let root = root.to_string_lossy().into_owned();
            error.hint(["devloop".to_owned(), "status".to_owned(), root])
        }
        None => error.hint(["devloop", "replay", "--help"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_replayed_is_told_from_what_can() {
        let check = |text: &str, expect: Result<Kind, &str>| {
            let found = kind_of(Path::new("/nowhere/x"), text.as_bytes());
            match (found, expect) {
                (Ok(kind), Ok(expect)) => assert_eq!(kind, expect, "{text}"),
                (Err(error), Err(part)) => {
                    assert!(error.to_string().contains(part), "{text}: {error}");
                    assert_eq!(error.hints().len(), 1, "{text}");
                }
                (found, expect) => panic!("{text}: {found:?} instead of {expect:?}"),
            }
        };
        check("", Err("the file is empty"));
        check(" \n\n", Err("the file is empty"));
        check("{\"v\":2,\"revis", Err("was not written to its end"));
        check("Say hello.\n", Err("no JSON object"));
        check("{\"v\":2,\"revision\":1,\"input\":{},\"decisions\":[]}\n", Err("in the middle of a trace"));
        check("{\"v\":1,\"revision\":1}\n", Err("is of version 1"));
        check("{\"agentBackend\":\"noop\"}\n", Err("it is a configuration"));
        check("{\"version\":2,\"state\":{}}\n", Err("it is a state"));
        check("{\"a\":1}\n", Err("neither a journal nor a trace"));
        check("{\"v\":2,\"core\":\"x\",\"policy\":{},\"state\":{}}\n", Ok(Kind::Trace));
        check("{\"v\":2,\"core\":\"x\",\"policy\":null,\"state\":{},\"chain\":\"y\"}\n", Ok(Kind::Journal));
        check("{\n \"policy\":{},\n \"state\":{},\"input\":{},\"decision\":{}}\n", Ok(Kind::Golden));
    }
}
