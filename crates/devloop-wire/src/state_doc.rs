//! STATE.json, version 2: the state with where it stands in the journal. It must not repair anything.
//!
//! Two forms of one document. The saved form is `{"version":2,"state":{...}}`: what the component opens and
//! saves, and what a state's digest is taken of. The file adds `chain` (the journal line it follows from)
//! and `digest` in front of the state, so that an edit by hand is noticed.

use devloop_core::ids::Digest;
use devloop_core::state::LoopState;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::fault::DocError;
use crate::json;
use crate::state_check;

/// The name in refusals.
pub const DOCUMENT: &str = "STATE.json";
/// The version that is written, and the newest that is read.
pub const VERSION: u64 = 2;

const HEAD: &[u8] = br#"{"version":2,"state":"#;

/// A state document as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct StateDoc {
    /// Always 2.
    pub version: u64,
    /// Chain of the journal line that led to this state; absent in the saved form and before the first line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<Digest>,
    /// Digest of the saved form of the state; absent in the saved form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The state.
    pub state: LoopState,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(rename = "version")]
    _version: u64,
    chain: Option<Digest>,
    digest: Option<Digest>,
    #[serde(borrow)]
    state: &'a RawValue,
}

/// Where a document stands, without reading all of its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateHead {
    /// The state's revision.
    pub revision: u64,
    /// Chain of the journal line that led to it.
    pub chain: Option<Digest>,
}

/// Reads either form and returns the state.
///
/// # Errors
/// [`DocError`]; of a newer version before anything else.
pub fn parse(bytes: &[u8]) -> Result<LoopState, DocError> {
    parse_doc(bytes).map(|doc| doc.state)
}

/// Reads either form whole.
///
/// # Errors
/// [`DocError`]; of a newer version before anything else.
pub fn parse_doc(bytes: &[u8]) -> Result<StateDoc, DocError> {
    let envelope = open(bytes)?;
    let state: LoopState = json::read(DOCUMENT, "state", envelope.state.get().as_bytes())?;
    state_check::check(DOCUMENT, "state", &state)?;
    Ok(StateDoc { version: VERSION, chain: envelope.chain, digest: envelope.digest, state })
}

/// Reads where a file stands, after checking it against its own digest. Cheaper than reading it whole.
///
/// # Errors
/// [`DocError`]; a defect at `digest` when the file was changed by something else.
pub fn read_head(bytes: &[u8]) -> Result<StateHead, DocError> {
    #[derive(Deserialize)]
    struct Revision {
        revision: u64,
    }
    let envelope = open(bytes)?;
    let state: Revision = json::read(DOCUMENT, "state", envelope.state.get().as_bytes())?;
    Ok(StateHead { revision: state.revision, chain: envelope.chain })
}

fn open(bytes: &[u8]) -> Result<Envelope<'_>, DocError> {
    json::require_version(DOCUMENT, bytes, VERSION)?;
    let envelope: Envelope<'_> = json::read_frame(DOCUMENT, "", bytes)?;
    let expect = saved_digest(envelope.state.get().as_bytes());
    match &envelope.digest {
        Some(written) if *written != expect => {
            let what = "the state does not have this digest: it was changed by something other than DevLoop";
            Err(DocError::defect(DOCUMENT, "digest", what))
        }
        _ => Ok(envelope),
    }
}

fn saved_digest(state: &[u8]) -> Digest {
    json::digest_parts(&[HEAD, state, b"}"])
}

/// The saved form: canonical bytes, the same for the same state everywhere.
#[must_use]
pub fn write(state: &LoopState) -> Vec<u8> {
    wrap(&json::canonical(state))
}

fn wrap(state: &[u8]) -> Vec<u8> {
    [HEAD, state, b"}"].concat()
}

/// The file's form, with a newline at its end. `chain` is that of the journal line the state follows from.
#[must_use]
pub fn write_file(state: &LoopState, chain: Option<&Digest>) -> Vec<u8> {
    file_and_digest(state, chain).0
}

/// As [`write_file`], with the digest that [`digest`] would give.
#[must_use]
pub fn file_and_digest(state: &LoopState, chain: Option<&Digest>) -> (Vec<u8>, Digest) {
    let state = json::canonical(state);
    let digest = saved_digest(&state);
    let chain = chain.map(|c| format!(r#""chain":"{c}","#)).unwrap_or_default();
    let head = format!(r#"{{"version":2,{chain}"digest":"{digest}","state":"#);
    ([head.as_bytes(), &state, b"}\n"].concat(), digest)
}

/// SHA-256 of the saved form.
#[must_use]
pub fn digest(state: &LoopState) -> Digest {
    saved_digest(&json::canonical(state))
}
