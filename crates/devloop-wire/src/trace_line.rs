//! Lines of TRACE.jsonl, version 2: the exact inputs of decisions with what was decided, for replay. It is
//! never an authority over the state, and it must not be needed to open a project.

use devloop_core::decide::{Decision, Input};
use devloop_core::ids::Digest;
use devloop_core::policy::Policy;
use devloop_core::state::LoopState;
use serde::{Deserialize, Serialize};

use crate::fault::DocError;
use crate::{json, state_check, state_doc};

/// The name in refusals.
pub const DOCUMENT: &str = "TRACE.jsonl";
/// The version that is written, and the newest that is read.
pub const VERSION: u64 = 2;

/// The first line of a run: what the lines behind it are replayed from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceHead {
    /// Always 2.
    pub v: u64,
    /// The revision of the state.
    pub revision: u64,
    /// Digest of the core that decides.
    pub core: Digest,
    /// The policy it decides under. Another policy starts another run.
    pub policy: Policy,
    /// Digest of the state's saved form.
    pub state_digest: Digest,
    /// The state.
    pub state: LoopState,
}

/// Any other line: one input and every decision made on it, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceLine {
    /// Always 2.
    pub v: u64,
    /// The revision after the decisions.
    pub revision: u64,
    /// What was decided on, exactly.
    pub input: Input,
    /// What was decided; each on the state that the one before led to.
    pub decisions: Vec<Decision>,
    /// Digest of the state after them.
    pub state_digest: Digest,
}

/// A line of either kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceRecord {
    /// The first of a run.
    Head(Box<TraceHead>),
    /// Another.
    Line(Box<TraceLine>),
}

/// The parts of a line that its writer has.
#[derive(Clone, Copy, Debug)]
pub struct TraceEntry<'a> {
    /// The revision after the decisions.
    pub revision: u64,
    /// What was decided on.
    pub input: &'a Input,
    /// What was decided.
    pub decisions: &'a [Decision],
    /// Digest of the state after them.
    pub state_digest: &'a Digest,
}

/// Writes a line, without newline.
#[must_use]
pub fn write(entry: &TraceEntry<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Out<'a> {
        v: u64,
        revision: u64,
        input: &'a Input,
        decisions: &'a [Decision],
        state_digest: &'a Digest,
    }
    let TraceEntry { revision, input, decisions, state_digest } = *entry;
    json::canonical(&Out { v: VERSION, revision, input, decisions, state_digest })
}

/// Writes the first line of a run, without newline.
#[must_use]
pub fn write_head(state: &LoopState, core: &Digest, policy: &Policy) -> Vec<u8> {
    #[derive(Serialize)]
    struct Out<'a> {
        v: u64,
        revision: u64,
        core: &'a Digest,
        policy: &'a Policy,
        state_digest: Digest,
        state: &'a LoopState,
    }
    let state_digest = state_doc::digest(state);
    json::canonical(&Out { v: VERSION, revision: state.revision, core, policy, state_digest, state })
}

/// Reads a line of either kind.
///
/// # Errors
/// [`DocError`]: newer, torn or a defect.
pub fn parse(bytes: &[u8]) -> Result<TraceRecord, DocError> {
    #[derive(Deserialize)]
    struct Peek {
        #[serde(default)]
        core: Option<Digest>,
    }
    json::require_version(DOCUMENT, bytes, VERSION)?;
    let peek: Peek = json::read(DOCUMENT, "", bytes)?;
    if peek.core.is_none() {
        return json::read(DOCUMENT, "", bytes).map(|line| TraceRecord::Line(Box::new(line)));
    }
    let head: TraceHead = json::read(DOCUMENT, "", bytes)?;
    state_check::check(DOCUMENT, "state", &head.state)?;
    Ok(TraceRecord::Head(Box::new(head)))
}
