//! Decides one recorded decision again: a file of `tests/traces/`. It reads the file and writes nothing.

use std::path::Path;

use devloop_core::decide::{Decision, Input};
use devloop_core::policy::Policy;
use devloop_core::state::LoopState;
use devloop_wire::{json, policy_doc, state_doc};
use serde::Deserialize;

use super::difference::Found;
use super::{Core, TraceReport, bad};
use crate::error::HostError;

/// One recorded decision, whole in itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Golden {
    policy: Policy,
    state: LoopState,
    input: Input,
    decision: Decision,
}

pub(super) fn replay(path: &Path, bytes: &[u8], core: &mut Core) -> Result<TraceReport, HostError> {
    let golden: Golden = json::read("trace", "", bytes).map_err(|error| bad(path, &error))?;
    let (state, policy) = (state_doc::write(&golden.state), policy_doc::policy_bytes(&golden.policy));
    core.machine.open(&state, &policy)?;
    let replayed = core.machine.decide(&golden.input)?;
    let revision = golden.state.revision;
    let mut found = Found::default();
    found.compare_as_json("decision", &golden.decision, &replayed);
    Ok(TraceReport {
        core: core.name.clone(),
        runs: 1,
        inputs: 1,
        decisions: 1,
        covers: Some((revision, revision + u64::from(!golden.decision.events.is_empty()))),
        divergence: found.at(path, 1, revision),
        ..TraceReport::default()
    })
}
