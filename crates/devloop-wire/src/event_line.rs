//! Lines of EVENTS.jsonl, version 2, and the chain that ties them together. It must not fold or keep lines.
//!
//! Every line ends in `,"chain":"<64 hex digits>"}`. The chain is SHA-256 over the chain before (as hex
//! text, empty before the very first line) and the line's own bytes without that field, so it can be
//! checked without knowing what a line says, also on lines that another core wrote.

use devloop_core::event::Event;
use devloop_core::ids::Digest;
use devloop_core::reason::Reason;
use devloop_core::state::LoopState;
use devloop_core::units::WallMs;
use serde::{Deserialize, Serialize};

use crate::fault::DocError;
use crate::json;
use crate::{state_check, state_doc};

/// The name in refusals.
pub const DOCUMENT: &str = "EVENTS.jsonl";
/// The version that is written, and the newest that is read.
pub const VERSION: u64 = 2;
/// The longest name of who did something, in characters.
pub const MAX_BY: usize = 200;

const CHAIN_FIELD: &[u8] = br#","chain":""#;
/// `,"chain":"`, 64 digits, `"}`.
const TAIL: usize = CHAIN_FIELD.len() + 64 + 2;

/// The first line of a segment: what the lines behind it start from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SegmentHead {
    /// Always 2.
    pub v: u64,
    /// The revision of the snapshot; the line before has the same.
    pub revision: u64,
    /// Digest of the core that wrote it: only that core compares `state_digest`.
    pub core: Digest,
    /// Digest of the policy in force.
    pub policy: Option<Digest>,
    /// Digest of the state's saved form.
    pub state_digest: Digest,
    /// The snapshot.
    pub state: LoopState,
    /// Ties it to the line before.
    pub chain: Digest,
}

/// Any other line: what happened between two revisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventLine {
    /// Always 2.
    pub v: u64,
    /// The revision it leads to.
    pub revision: u64,
    /// Wall time in milliseconds.
    pub at: WallMs,
    /// Who: `loop/<instance>` of a supervisor, or the operator's surface, for example `cli`; at most 200
    /// characters.
    pub by: String,
    /// Why.
    pub reason: Reason,
    /// What happened, in order; at least one.
    pub events: Vec<Event>,
    /// Ties it to the line before.
    pub chain: Digest,
}

/// A line of either kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalLine {
    /// The first of a segment.
    Head(Box<SegmentHead>),
    /// Another.
    Events(EventLine),
}

/// Where a line stands, without reading all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineHead {
    /// Its revision.
    pub revision: u64,
    /// The chain written in it.
    pub chain: Digest,
    /// Whether it is the first of a segment.
    pub is_head: bool,
}

/// The parts of an event line that its writer decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The revision it leads to.
    pub revision: u64,
    /// Wall time.
    pub at: WallMs,
    /// Who; cut at 200 characters, `unknown` when empty.
    pub by: &'a str,
    /// Why.
    pub reason: &'a Reason,
    /// What happened.
    pub events: &'a [Event],
}

#[derive(Serialize)]
struct EntryOut<'a> {
    v: u64,
    revision: u64,
    at: WallMs,
    by: &'a str,
    reason: &'a Reason,
    events: &'a [Event],
}

#[derive(Serialize)]
struct HeadOut<'a> {
    v: u64,
    revision: u64,
    core: &'a Digest,
    policy: Option<&'a Digest>,
    state_digest: &'a Digest,
    state: &'a LoopState,
}

/// A written line, without newline, and its chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The chain, to be handed on to the next line.
    pub chain: Digest,
}

/// Writes an event line behind `previous`, the chain of the line before (none at the very start).
#[must_use]
pub fn write_line(entry: &Entry<'_>, previous: Option<&Digest>) -> Written {
    let end = entry.by.char_indices().nth(MAX_BY).map_or(entry.by.len(), |(at, _)| at);
    let by = if end == 0 { "unknown" } else { &entry.by[..end] };
    let Entry { revision, at, reason, events, .. } = *entry;
    seal(json::canonical(&EntryOut { v: VERSION, revision, at, by, reason, events }), previous)
}

/// Writes the first line of a segment behind `previous`, the chain of the last line (none at the very start).
#[must_use]
pub fn write_head(
    state: &LoopState,
    core: &Digest,
    policy: Option<&Digest>,
    previous: Option<&Digest>,
) -> Written {
    let state_digest = &state_doc::digest(state);
    let head = HeadOut { v: VERSION, revision: state.revision, core, policy, state_digest, state };
    seal(json::canonical(&head), previous)
}

fn seal(mut bytes: Vec<u8>, previous: Option<&Digest>) -> Written {
    let chain = link(previous.map_or("", Digest::as_str), &bytes);
    bytes.pop();
    bytes.extend_from_slice(CHAIN_FIELD);
    bytes.extend_from_slice(chain.as_str().as_bytes());
    bytes.extend_from_slice(b"\"}");
    Written { bytes, chain }
}

fn link(previous: &str, body: &[u8]) -> Digest {
    json::digest_parts(&[previous.as_bytes(), body])
}

/// The chain that this line must carry behind `previous` (empty at the very start).
///
/// # Errors
/// [`DocError`] when the line does not end in its chain.
pub fn chain_of(previous: &str, bytes: &[u8]) -> Result<Digest, DocError> {
    let (body, _) = split(bytes)?;
    Ok(json::digest_parts(&[previous.as_bytes(), body, b"}"]))
}

/// The line without its chain field (and without the closing brace), and the chain.
fn split(bytes: &[u8]) -> Result<(&[u8], Digest), DocError> {
    let bad = || DocError::defect(DOCUMENT, "chain", "the line must end in its chain of 64 hex digits");
    let (body, tail) = bytes.split_at_checked(bytes.len().saturating_sub(TAIL)).ok_or_else(bad)?;
    let digits = tail.strip_prefix(CHAIN_FIELD).and_then(|t| t.strip_suffix(b"\"}")).ok_or_else(bad)?;
    let text = std::str::from_utf8(digits).map_err(|_| bad())?;
    Ok((body, Digest::parse(text).map_err(|_| bad())?))
}

/// Checks that a line follows from `previous` (empty at the very start) and returns its chain.
///
/// # Errors
/// [`DocError`] at `chain` when it does not.
pub fn verify(previous: &str, bytes: &[u8]) -> Result<Digest, DocError> {
    let (_, written) = split(bytes)?;
    if chain_of(previous, bytes)? == written {
        return Ok(written);
    }
    Err(DocError::defect(DOCUMENT, "chain", "the chain does not follow from the line before it"))
}

/// Checks a run of lines, the first of which follows from `previous`: chains, and that every event line is
/// one revision further than the line before it, and every first line of a segment repeats its revision.
///
/// # Errors
/// The number of the line in the run, from 1, and what is wrong with it.
pub fn verify_chain<'a>(
    previous: &str,
    lines: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Option<LineHead>, (usize, DocError)> {
    let mut before: Option<LineHead> = None;
    for (i, bytes) in lines.into_iter().enumerate() {
        let step = || -> Result<LineHead, DocError> {
            let head = read_head(bytes)?;
            verify(before.as_ref().map_or(previous, |b| b.chain.as_str()), bytes)?;
            let expect = before.as_ref().map(|b| b.revision + u64::from(!head.is_head));
            match expect {
                Some(expect) if expect != head.revision => {
                    let what = format!("revision {} where {expect} was expected", head.revision);
                    Err(DocError::defect(DOCUMENT, "revision", what))
                }
                _ => Ok(head),
            }
        };
        before = Some(step().map_err(|error| (i + 1, error))?);
    }
    Ok(before)
}

/// Reads where a line stands.
///
/// # Errors
/// [`DocError`]: legacy, newer, torn or a defect.
pub fn read_head(bytes: &[u8]) -> Result<LineHead, DocError> {
    #[derive(Deserialize)]
    struct Peek {
        revision: u64,
        #[serde(default)]
        state_digest: Option<Digest>,
    }
    json::require_version(DOCUMENT, bytes, VERSION)?;
    let peek: Peek = json::read(DOCUMENT, "", bytes)?;
    let (_, chain) = split(bytes)?;
    Ok(LineHead { revision: peek.revision, chain, is_head: peek.state_digest.is_some() })
}

/// Reads a line of either kind, whole. The chain is not checked: see [`verify`].
///
/// # Errors
/// [`DocError`]: legacy, newer, torn or a defect.
pub fn parse(bytes: &[u8]) -> Result<JournalLine, DocError> {
    if read_head(bytes)?.is_head {
        parse_head(bytes).map(|head| JournalLine::Head(Box::new(head)))
    } else {
        parse_line(bytes).map(JournalLine::Events)
    }
}

/// Reads an event line.
///
/// # Errors
/// [`DocError`]: legacy, newer, torn or a defect.
pub fn parse_line(bytes: &[u8]) -> Result<EventLine, DocError> {
    json::require_version(DOCUMENT, bytes, VERSION)?;
    let line: EventLine = json::read(DOCUMENT, "", bytes)?;
    split(bytes)?;
    if line.by.is_empty() || line.by.chars().count() > MAX_BY {
        return Err(DocError::defect(DOCUMENT, "by", format!("must be 1 to {MAX_BY} characters")));
    }
    if line.events.is_empty() {
        return Err(DocError::defect(DOCUMENT, "events", "a line without an event is not written"));
    }
    Ok(line)
}

/// Reads the first line of a segment. Its `state_digest` is compared only when `core` is the digest of the
/// core that reads it: another core may write the same state in another form.
///
/// # Errors
/// [`DocError`]: legacy, newer, torn or a defect.
pub fn parse_head(bytes: &[u8]) -> Result<SegmentHead, DocError> {
    json::require_version(DOCUMENT, bytes, VERSION)?;
    let head: SegmentHead = json::read(DOCUMENT, "", bytes)?;
    split(bytes)?;
    if head.state.revision != head.revision {
        let what = format!("the snapshot is of revision {}", head.state.revision);
        return Err(DocError::defect(DOCUMENT, "revision", what));
    }
    state_check::check(DOCUMENT, "state", &head.state)?;
    Ok(head)
}

/// Checks a snapshot against its digest, when `core` is the digest of the core that wrote it.
///
/// # Errors
/// [`DocError`] at `state_digest`.
pub fn check_snapshot(head: &SegmentHead, core: &Digest) -> Result<(), DocError> {
    if head.core == *core && state_doc::digest(&head.state) != head.state_digest {
        return Err(DocError::defect(DOCUMENT, "state_digest", "the snapshot does not have this digest"));
    }
    Ok(())
}
