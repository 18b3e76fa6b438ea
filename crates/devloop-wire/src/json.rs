//! Canonical JSON, SHA-256 and strict reading with a field path. It must not know any document.

use devloop_core::ids::Digest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::fault::DocError;
use crate::numbers;

/// Canonical JSON: compact, fields in the order of the type, maps ordered by key. The same value gives the
/// same bytes on every machine, so digests are taken of these bytes.
#[must_use]
pub fn canonical<T: Serialize>(value: &T) -> Vec<u8> {
    // Serializing fails only for maps whose keys are not text and for failing writers; no document has
    // either.
    serde_json::to_vec(value).unwrap_or_default()
}

/// SHA-256.
#[must_use]
pub fn digest_bytes(bytes: &[u8]) -> Digest {
    digest_parts(&[bytes])
}

/// SHA-256 of the parts one behind the other.
#[must_use]
pub fn digest_parts(parts: &[&[u8]]) -> Digest {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    let mut text = String::with_capacity(64);
    for byte in hasher.finalize() {
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    Digest::parse(&text).expect("64 lower-case hex digits")
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Reads a whole document of one type: trailing text, unknown fields, wrong types and numbers above 2^53 -
/// 1 are refused with their path. `prefix` is the path of the text inside its document; empty for a whole
/// document.
///
/// # Errors
/// [`DocError`] of kind torn or defect.
pub fn read<T: DeserializeOwned>(document: &'static str, prefix: &str, bytes: &[u8]) -> Result<T, DocError> {
    let value = read_frame(document, prefix, bytes)?;
    match numbers::first_too_large(bytes) {
        Some(path) => Err(DocError::defect(
            document,
            join(prefix, &path),
            "the number is above 9007199254740991 (2^53 - 1)",
        )),
        None => Ok(value),
    }
}

/// As [`read`] without looking at the size of numbers: for a type that borrows parts which are read later.
///
/// # Errors
/// [`DocError`] of kind torn or defect.
pub(crate) fn read_frame<'a, T: Deserialize<'a>>(
    document: &'static str,
    prefix: &str,
    bytes: &'a [u8],
) -> Result<T, DocError> {
    let at = |path: &str| join(prefix, path);
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let value: T = serde_path_to_error::deserialize(&mut source).map_err(|error| {
        let path = error.path().to_string();
        refuse(document, bytes, at(if path == "." { "" } else { &path }), error.inner())
    })?;
    source.end().map_err(|error| refuse(document, bytes, at(""), &error))?;
    Ok(value)
}

/// The path of a key inside `path`. A key that is no word is quoted, so that a path always names something.
pub(crate) fn key_path(path: &str, key: &str) -> String {
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '[' | ']');
    match (path.is_empty(), key.is_empty() || key.contains(odd)) {
        (_, true) => format!("{path}[{key:?}]"),
        (true, false) => key.to_owned(),
        (false, false) => format!("{path}.{key}"),
    }
}

fn join(prefix: &str, path: &str) -> String {
    match (prefix.is_empty(), path.is_empty()) {
        (true, _) => path.to_owned(),
        (false, true) => prefix.to_owned(),
        (false, false) if path.starts_with('[') => format!("{prefix}{path}"),
        (false, false) => format!("{prefix}.{path}"),
    }
}

fn refuse(document: &'static str, bytes: &[u8], path: String, error: &serde_json::Error) -> DocError {
    let text = error.to_string();
    if error.is_data() {
        return DocError::defect(document, path, text);
    }
    // A number where a word belongs reads like a syntax error, but the document is whole.
    match serde_json::from_slice::<serde::de::IgnoredAny>(bytes) {
        Ok(_) => DocError::defect(document, path, format!("the value has the wrong type: {text}")),
        Err(_) => DocError::torn(document, text),
    }
}

/// The two ways a document says its version: ours and the journal's short one.
#[derive(serde::Deserialize)]
struct Version {
    version: Option<serde_json::Value>,
    v: Option<serde_json::Value>,
}

/// Refuses documents of other versions before anything else in them is looked at.
///
/// # Errors
/// [`DocError`]: legacy for version 1, newer for a version above `known`, torn or a defect otherwise.
pub fn require_version(document: &'static str, bytes: &[u8], known: u64) -> Result<(), DocError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(DocError::torn(document, "it is empty"));
    }
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let found: Version = serde_path_to_error::deserialize(&mut source)
        .map_err(|error| refuse(document, bytes, error.path().to_string(), error.inner()))?;
    source.end().map_err(|error| refuse(document, bytes, String::new(), &error))?;
    let (name, value) = match (&found.version, &found.v) {
        (Some(value), None) => ("version", value),
        (None, Some(value)) => ("v", value),
        _ => return Err(DocError::defect(document, "version", "the version is missing")),
    };
    match value.as_u64() {
        Some(version) if version == known => Ok(()),
        Some(version) if version > known => Err(DocError::newer(document, version, known)),
        Some(1) => Err(DocError::legacy(document)),
        _ => Err(DocError::defect(document, name, format!("the version must be {known}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_sha256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest_bytes(b"").as_str(), empty);
        assert_eq!(digest_parts(&[b"a", b"bc"]), digest_bytes(b"abc"));
    }

    #[test]
    fn a_path_always_names_something() {
        let check = |path: &str, key: &str, expect: &str| assert_eq!(key_path(path, key), expect);
        check("", "budget", "budget");
        check("budget", "max", "budget.max");
        check("routes", "gpt-5.4:x/y", "routes.gpt-5.4:x/y");
        check("", "", r#"[""]"#);
        check("a", "b c", r#"a["b c"]"#);
        check("a", "\u{1b}[2J", r#"a["\u{1b}[2J"]"#);
    }

    #[test]
    fn versions_are_judged_before_anything_else() {
        let said = |text: &str| match require_version("X.json", text.as_bytes(), 2) {
            Ok(()) => "fine".to_owned(),
            Err(error) => format!("{:?} {error}", error.fault),
        };
        assert_eq!(said(r#"{"version":2,"nonsense":[1]}"#), "fine");
        assert_eq!(said(r#"{"v":2}"#), "fine");
        assert_eq!(
            said(r#"{"version":7,"state":"of a shape to come"}"#),
            "Newer { version: 7 } X.json: it has version 7, written by a newer DevLoop; \
             this one knows versions up to 2: update DevLoop"
        );
        assert!(said(r#"{"version":1,"tasks":[]}"#).starts_with("Legacy"));
        assert_eq!(said(""), "Torn X.json: it is empty");
        assert!(said(r#"{"version":2"#).starts_with("Torn"));
        assert!(said(r#"{"version":2} x"#).starts_with("Torn"));
        assert_eq!(said("{}"), "Defect X.json: version: the version is missing");
        assert_eq!(said(r#"{"version":"2"}"#), "Defect X.json: version: the version must be 2");
        assert_eq!(said(r#"{"version":0}"#), "Defect X.json: version: the version must be 2");
        assert!(said("[1]").starts_with("Defect"));
    }
}
