//! Decides on every traced input again and compares. It reads the trace and writes nothing.

use std::collections::BTreeMap;
use std::path::Path;

use devloop_core::decide::{Decision, Input};
use devloop_core::event::Event;
use devloop_core::ids::Digest;
use devloop_wire::trace_line::{self, TraceHead, TraceLine, TraceRecord};
use devloop_wire::{policy_doc, state_doc};
use serde::Serialize;

use super::difference::{Divergence, Found};
use super::journal::state_difference;
use super::{Core, bad_line};
use crate::error::HostError;
use crate::store::{Armed, Disk, trace};

/// What a replay of the trace found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceReport {
    /// Which core decided.
    pub core: String,
    /// Runs of the trace, each with a state of its own at its start.
    pub runs: usize,
    /// Inputs decided on again.
    pub inputs: usize,
    /// Decisions compared.
    pub decisions: usize,
    /// Inputs that were not decided again because revisions before them are in no trace.
    pub skipped: usize,
    /// First and last revision covered.
    pub covers: Option<(u64, u64)>,
    /// State digests that were compared.
    pub digests_compared: usize,
    /// State digests that were not compared because another core wrote them.
    pub digests_of_other_cores: usize,
    /// Bytes of a last line that was not written to its end; they are left out.
    pub torn_bytes: usize,
    /// The first difference, if there is one.
    pub divergence: Option<Divergence>,
}

/// Decides on every traced input of a project again and compares.
///
/// # Errors
/// When the trace cannot be read or the core stops. A difference is no error but part of the report.
pub fn retrace(armed: &Armed, core: &mut Core) -> Result<TraceReport, HostError> {
    let mut walk = Walk::new(core);
    for (path, lines) in trace::read(&Disk::default(), armed)? {
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        if walk.file(&path, &lines, core)? {
            break;
        }
    }
    Ok(walk.report)
}

/// The same with the bytes of one trace file.
///
/// # Errors
/// As [`retrace`].
pub(super) fn retrace_bytes(path: &Path, bytes: &[u8], core: &mut Core) -> Result<TraceReport, HostError> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n');
    let lines: Vec<&[u8]> = lines.filter_map(|line| line.strip_suffix(b"\n")).collect();
    let mut walk = Walk::new(core);
    walk.file(path, &lines, core)?;
    walk.report.torn_bytes = bytes.len() - whole;
    Ok(walk.report)
}

/// What is known while walking through a trace.
struct Walk {
    report: TraceReport,
    /// Every policy that a head named. Two processes that take turns may each have their own.
    policies: BTreeMap<Digest, Vec<u8>>,
    /// The policy that the machine decides under.
    current: Option<Digest>,
    /// The policy in force according to the events.
    in_force: Option<Digest>,
    /// The policy of the last head, until a look of the loop follows it.
    of_head: Option<Digest>,
    /// Whether this core wrote the state digests behind the last head.
    own: bool,
    open: bool,
}

impl Walk {
    fn new(core: &Core) -> Walk {
        Walk {
            report: TraceReport { core: core.name.clone(), ..TraceReport::default() },
            policies: BTreeMap::new(),
            current: None,
            in_force: None,
            of_head: None,
            own: false,
            open: false,
        }
    }

    /// Walks through one file. True when the recording and the replay parted.
    fn file(&mut self, path: &Path, lines: &[&[u8]], core: &mut Core) -> Result<bool, HostError> {
        for (i, bytes) in lines.iter().enumerate() {
            let parsed = trace_line::parse(bytes).map_err(|error| bad_line(path, i + 1, &error))?;
            let (found, revision) = match parsed {
                TraceRecord::Head(head) => (self.head(&head, core)?, head.revision),
                TraceRecord::Line(line) => (self.line(&line, core)?, line.revision),
            };
            self.report.divergence = found.at(path, i + 1, revision);
            if self.report.divergence.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A new run starts from its own state, which is that of the run before when no revision lies between
    /// them.
    fn head(&mut self, head: &TraceHead, core: &mut Core) -> Result<Found, HostError> {
        self.report.runs += 1;
        self.own = head.core.as_str() == core.digest;
        let mut found = Found::default();
        let held = state_doc::digest(&head.state);
        if self.own {
            found.compare("state_digest", &head.state_digest.as_str().into(), &held.as_str().into());
            self.report.digests_compared += 1;
        } else {
            self.report.digests_of_other_cores += 1;
        }
        let follows = self.open && core.machine.revision()? == head.revision;
        if found.is_empty() && follows && core.machine.digest()? != held.as_str() {
            found = state_difference(core, &head.state)?;
        }
        let policy = policy_doc::policy_bytes(&head.policy);
        core.machine.open(&state_doc::write(&head.state), &policy)?;
        self.policies.insert(head.policy.digest.clone(), policy);
        self.current = Some(head.policy.digest.clone());
        self.of_head.clone_from(&self.current);
        self.in_force.clone_from(&head.state.policy);
        self.open = true;
        Ok(found)
    }

    fn line(&mut self, line: &TraceLine, core: &mut Core) -> Result<Found, HostError> {
        let before = if self.open { core.machine.revision()? } else { 0 };
        let recorded_lines = line.decisions.iter().filter(|d| !d.events.is_empty()).count() as u64;
        if !self.open || before + recorded_lines != line.revision {
            // Revisions in between were recorded by a process whose trace is gone: nothing can be compared
            // up to the next head.
            self.open = false;
            self.report.skipped += 1;
            return Ok(Found::default());
        }
        self.choose_policy(line, core)?;
        let mut replayed: Vec<Decision> = Vec::new();
        for _ in 0..line.decisions.len() {
            replayed.push(core.machine.decide(&line.input)?);
        }
        core.machine.commit()?;
        let report = &mut self.report;
        report.inputs += 1;
        report.decisions += replayed.len();
        report.covers = Some((report.covers.map_or(before, |(first, _)| first), line.revision));
        let mut found = Found::default();
        found.compare_as_json("decisions", &line.decisions, &replayed);
        if !self.own {
            report.digests_of_other_cores += 1;
        } else {
            report.digests_compared += 1;
            let digest = core.machine.digest()?;
            found.compare("state_digest", &line.state_digest.as_str().into(), &digest.into());
        }
        Ok(found)
    }

    /// A look of the loop is decided under the policy its own events name, else under the one in force. A
    /// command of another process has the policy of that process, whose head stands before it.
    fn choose_policy(&mut self, line: &TraceLine, core: &mut Core) -> Result<(), HostError> {
        let changed = line.decisions.iter().flat_map(|d| &d.events).find_map(|event| match event {
            Event::PolicyChanged { digest } => Some(digest.clone()),
            _ => None,
        });
        if changed.is_some() {
            self.in_force = changed;
        }
        let wanted = match &line.input {
            Input::Command { .. } => self.of_head.as_ref().or(self.in_force.as_ref()),
            Input::Observation(_) => {
                self.of_head = None;
                self.in_force.as_ref()
            }
        };
        if let Some(wanted) = wanted.filter(|digest| Some(*digest) != self.current.as_ref())
            && let Some(policy) = self.policies.get(wanted)
        {
            core.machine.set_policy(policy)?;
            self.current = Some(wanted.clone());
        }
        Ok(())
    }
}
