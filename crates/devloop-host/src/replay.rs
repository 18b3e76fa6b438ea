//! Runs what was recorded through a machine again: the journal line by line, the trace input by input. It
//! reads files and writes none, and it names the first difference instead of repairing it.

use std::collections::BTreeMap;
use std::path::Path;

use devloop_bridge::Step;
use devloop_component::CORE_DIGEST;
use devloop_core::decide::Decision;
use devloop_core::event::Event;
use devloop_core::ids::Digest;
use devloop_wire::config_doc::Config;
use devloop_wire::event_line::{self, EventLine, JournalLine};
use devloop_wire::fault::DocError;
use devloop_wire::trace_line::{self, TraceHead, TraceLine, TraceRecord};
use devloop_wire::{policy_doc, state_doc};
use serde::Serialize;
use serde_json::Value;

use crate::error::{ErrorKind, HostError};
use crate::files;
use crate::machine::{Component, Machine, Native};
use crate::store::history::{self, Part};
use crate::store::line::{FIRST_CHAIN, SegmentFault, read_segment};
use crate::store::wire_format::WireLines;
use crate::store::{Armed, Disk, Tip, trace};

/// The largest journal or component file that is read, in bytes.
const FILE_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Which core runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine<'a> {
    /// The component inside this program.
    Embedded,
    /// The core linked into this program, without a sandbox.
    Native,
    /// A component in a file; it is compiled here and metered by fuel.
    File(&'a Path),
}

/// A core that is ready to run.
pub struct Core {
    machine: Box<dyn Machine>,
    /// Its digest, as journals name it.
    pub digest: String,
    /// What it is, in words.
    pub name: String,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Core {
    /// Loads a core.
    ///
    /// # Errors
    /// When the component does not load or its file cannot be read.
    pub fn load(engine: Engine<'_>) -> Result<Core, HostError> {
        match engine {
            Engine::Embedded => Ok(Core {
                machine: Box::new(Component::embedded()?),
                digest: CORE_DIGEST.into(),
                name: "the component".into(),
            }),
            Engine::Native => Ok(Core {
                machine: Box::new(Native::new()),
                digest: CORE_DIGEST.into(),
                name: "the native core".into(),
            }),
            Engine::File(path) => from_file(path),
        }
    }
}

#[cfg(feature = "compiler")]
fn from_file(path: &Path) -> Result<Core, HostError> {
    use crate::machine::{GuestLimits, Metering, Program};
    use std::sync::Arc;

    let bytes = files::read_bytes(path, FILE_MAX_BYTES)?;
    let program = Program::compile(&bytes, Metering::Fuel).map_err(|error| {
        HostError::new(ErrorKind::User, format!("this file is no core: {error}")).at(path)
    })?;
    Ok(Core {
        machine: Box::new(Component::new(Arc::new(program), GuestLimits::default())),
        digest: devloop_wire::digest_bytes(&bytes).into(),
        name: format!("the component {}", path.display()),
    })
}

#[cfg(not(feature = "compiler"))]
fn from_file(path: &Path) -> Result<Core, HostError> {
    let what = "this program carries no compiler; use the command line to run another component";
    Err(HostError::new(ErrorKind::User, what).at(path))
}

/// What a replay of the journal found.
#[derive(Clone, Debug, Serialize)]
pub struct JournalReport {
    /// Which core folded.
    pub core: String,
    /// Segments read.
    pub segments: usize,
    /// Lines folded or compared, snapshots included.
    pub lines: usize,
    /// Events folded.
    pub events: usize,
    /// Revision of the oldest snapshot.
    pub first_revision: u64,
    /// Last revision.
    pub last_revision: u64,
    /// Whether the oldest snapshot is the very first line.
    pub complete: bool,
    /// Chain of the last line.
    pub chain: String,
    /// SHA-256 of the state that the lines lead to.
    pub state_digest: String,
    /// State digests that were compared and agreed.
    pub digests_compared: usize,
    /// State digests that were not compared because another core wrote them.
    pub digests_of_other_cores: usize,
}

/// The events of a recorded journal, from a revision on.
///
/// # Errors
/// Integrity when a line cannot be believed.
pub fn events(armed: &Armed, since: u64) -> Result<Vec<(EventLine, Vec<u8>)>, HostError> {
    let mut found = Vec::new();
    for part in parts_of(armed, since)? {
        for step in part.segment.steps {
            if step.revision >= since {
                let line = event_line::parse_line(&step.bytes).map_err(|error| bad(&part.path, &error))?;
                found.push((line, step.bytes));
            }
        }
    }
    Ok(found)
}

fn parts_of(armed: &Armed, since: u64) -> Result<Vec<Part>, HostError> {
    if files::stamp(&armed.events()).is_none() {
        return Ok(Vec::new());
    }
    Ok(history::parts(armed, &WireLines, since)?)
}

/// Folds the whole journal of a project and compares every digest on the way, STATE.json's included. `None`
/// when nothing was recorded yet.
///
/// # Errors
/// Integrity at the first line that does not follow, or where the state is another one.
pub fn journal(armed: &Armed, core: &mut Core) -> Result<Option<JournalReport>, HostError> {
    history::verify(armed, &WireLines)?;
    let parts = parts_of(armed, 0)?;
    let Some(report) = fold_parts(&parts, core)? else { return Ok(None) };
    compare_state_file(armed, report).map(Some)
}

/// Folds the journal lines of one file.
///
/// # Errors
/// As [`journal`].
pub fn journal_file(path: &Path, core: &mut Core) -> Result<Option<JournalReport>, HostError> {
    let bytes = files::read_bytes(path, FILE_MAX_BYTES)?;
    let segment = match read_segment(&WireLines, path, &bytes) {
        Ok(found) => found,
        Err(SegmentFault::Legacy) => {
            let what = "this journal is of version 1; only its own plugin can replay it";
            return Err(HostError::new(ErrorKind::Config, what).at(path));
        }
        Err(SegmentFault::Other(error)) => return Err(error.into()),
    };
    let parts: Vec<Part> = segment.into_iter().map(|segment| Part { path: path.into(), segment }).collect();
    fold_parts(&parts, core)
}

fn fold_parts(parts: &[Part], core: &mut Core) -> Result<Option<JournalReport>, HostError> {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(None) };
    let start = Tip { revision: first.segment.head.revision, chain: FIRST_CHAIN.into() };
    let mut report = JournalReport {
        core: core.name.clone(),
        segments: parts.len(),
        lines: 0,
        events: 0,
        first_revision: first.segment.head.revision,
        last_revision: last.segment.last().revision,
        complete: history::follows(&WireLines, &start, &first.segment.head),
        chain: last.segment.last().chain.clone(),
        state_digest: String::new(),
        digests_compared: 0,
        digests_of_other_cores: 0,
    };
    let mut before: Option<String> = None;
    for part in parts {
        before = Some(fold_part(part, core, before.as_deref(), &mut report)?);
    }
    report.state_digest = before.unwrap_or_default();
    Ok(Some(report))
}

/// Folds one segment on its snapshot, which must be the state that the segment before it led to.
fn fold_part(
    part: &Part,
    core: &mut Core,
    before: Option<&str>,
    report: &mut JournalReport,
) -> Result<String, HostError> {
    let head = event_line::parse_head(&part.segment.head.bytes).map_err(|error| bad(&part.path, &error))?;
    let mut steps = Vec::new();
    for line in &part.segment.steps {
        if let JournalLine::Events(line) = event_line::parse(&line.bytes).map_err(|e| bad(&part.path, &e))? {
            report.events += line.events.len();
            steps.push(Step::Line(line.events));
        }
    }
    report.lines += 1 + steps.len();
    let document = state_doc::write(&head.state);
    let snapshot = String::from(state_doc::digest(&head.state));
    if head.core.as_str() == core.digest {
        same(part, head.revision, head.state_digest.as_str(), &snapshot)?;
        report.digests_compared += 1;
    } else {
        report.digests_of_other_cores += 1;
    }
    if let Some(before) = before {
        same(part, head.revision, &snapshot, before)?;
        report.digests_compared += 1;
    }
    // Folding reads no policy, so any one serves to open the machine.
    let policy = policy_doc::policy_bytes(&Config::default().policy());
    if steps.is_empty() {
        core.machine.open(&document, &policy)?;
        return Ok(core.machine.digest()?);
    }
    let replayed = core.machine.replay(&document, &policy, &steps, 0)?;
    let last = replayed.into_iter().last();
    last.and_then(|step| step.digest)
        .ok_or_else(|| HostError::new(ErrorKind::Internal, "the core returned no digest for a replay"))
}

fn same(part: &Part, revision: u64, recorded: &str, folded: &str) -> Result<(), HostError> {
    if recorded == folded {
        return Ok(());
    }
    let what =
        format!("at revision {revision} the recorded state has digest {recorded}, the replayed one {folded}");
    Err(HostError::new(ErrorKind::Integrity, what).at(&part.path).in_field("state_digest"))
}

/// STATE.json is a projection: at the same revision it holds the very state.
fn compare_state_file(armed: &Armed, mut report: JournalReport) -> Result<JournalReport, HostError> {
    let Some(bytes) = Disk::default().read(&armed.state(), FILE_MAX_BYTES)? else { return Ok(report) };
    let Ok(doc) = state_doc::parse_doc(&bytes) else { return Ok(report) };
    if doc.state.revision != report.last_revision {
        return Ok(report);
    }
    let written = state_doc::digest(&doc.state);
    if written.as_str() != report.state_digest {
        let what = format!("it has digest {written}, the journal leads to {}", report.state_digest);
        return Err(HostError::new(ErrorKind::Integrity, what).at(armed.state()).in_field("state"));
    }
    report.digests_compared += 1;
    Ok(report)
}

/// What a replay of the trace found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceReport {
    /// Runs of the trace, each with a state of its own at its start.
    pub runs: usize,
    /// Inputs decided on again.
    pub inputs: usize,
    /// Decisions compared.
    pub decisions: usize,
    /// First and last revision covered.
    pub covers: Option<(u64, u64)>,
    /// The first difference, if there is one.
    pub divergence: Option<Divergence>,
}

/// Where a replay decided something else than was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// The revision after the recorded decisions.
    pub revision: u64,
    /// Path of the field, for example `decisions[1].events[0].lease_taken.dispatch`.
    pub field: String,
    /// The recorded value as JSON.
    pub recorded: String,
    /// The replayed value as JSON.
    pub replayed: String,
}

/// Decides on every traced input again and compares.
///
/// # Errors
/// When the trace cannot be read or the core stops. A difference is no error but part of the report.
pub fn retrace(armed: &Armed, core: &mut Core) -> Result<TraceReport, HostError> {
    let mut report = TraceReport::default();
    let mut run = Run::default();
    for (path, lines) in trace::read(&Disk::default(), armed)? {
        for bytes in lines {
            match trace_line::parse(&bytes).map_err(|error| bad(&path, &error))? {
                TraceRecord::Head(head) => {
                    run.begin(&head, core)?;
                    report.runs += 1;
                }
                TraceRecord::Line(line) => run.line(*line, core, &mut report)?,
            }
            if report.divergence.is_some() {
                return Ok(report);
            }
        }
    }
    Ok(report)
}

/// What is known while walking through a trace.
#[derive(Default)]
struct Run {
    /// Every policy that a head named. Two processes that take turns may each have their own.
    policies: BTreeMap<Digest, Vec<u8>>,
    /// The policy that the machine decides under.
    current: Option<Digest>,
    /// The policy in force according to the events.
    in_force: Option<Digest>,
    open: bool,
}

impl Run {
    fn begin(&mut self, head: &TraceHead, core: &mut Core) -> Result<(), HostError> {
        let policy = policy_doc::policy_bytes(&head.policy);
        core.machine.open(&state_doc::write(&head.state), &policy)?;
        self.policies.insert(head.policy.digest.clone(), policy);
        self.current = Some(head.policy.digest.clone());
        self.in_force = head.state.policy.clone();
        self.open = true;
        Ok(())
    }

    fn line(&mut self, line: TraceLine, core: &mut Core, report: &mut TraceReport) -> Result<(), HostError> {
        if !self.open {
            return Ok(());
        }
        self.choose_policy(&line, core)?;
        let before = core.machine.revision()?;
        let recorded_lines = line.decisions.iter().filter(|d| !d.events.is_empty()).count() as u64;
        if before + recorded_lines != line.revision {
            // Revisions in between were recorded by a process whose trace is gone: nothing can be compared
            // up to the next head.
            self.open = false;
            return Ok(());
        }
        let mut replayed = Vec::new();
        for _ in 0..line.decisions.len() {
            replayed.push(core.machine.decide(&line.input)?);
        }
        core.machine.commit()?;
        let digest = core.machine.digest()?;
        report.inputs += 1;
        report.decisions += replayed.len();
        report.covers = Some((report.covers.map_or(before, |(first, _)| first), line.revision));
        report.divergence = compare(&line, &replayed, &digest);
        Ok(())
    }

    /// The policy of a line is the one its own events name, else the one in force.
    fn choose_policy(&mut self, line: &TraceLine, core: &mut Core) -> Result<(), HostError> {
        let changed = line.decisions.iter().flat_map(|d| &d.events).find_map(|event| match event {
            Event::PolicyChanged { digest } => Some(digest.clone()),
            _ => None,
        });
        if changed.is_some() {
            self.in_force = changed;
        }
        if self.in_force != self.current
            && let Some(policy) = self.in_force.as_ref().and_then(|digest| self.policies.get(digest))
        {
            core.machine.set_policy(policy)?;
            self.current.clone_from(&self.in_force);
        }
        Ok(())
    }
}

fn compare(line: &TraceLine, replayed: &[Decision], digest: &str) -> Option<Divergence> {
    let value = |decisions: &[Decision]| serde_json::to_value(decisions).unwrap_or(Value::Null);
    let found = first_difference("decisions", &value(&line.decisions), &value(replayed));
    let found = found.or_else(|| {
        let recorded = line.state_digest.as_str();
        (recorded != digest).then(|| ("state_digest".into(), recorded.to_owned(), digest.to_owned()))
    });
    found.map(|(field, recorded, replayed)| Divergence { revision: line.revision, field, recorded, replayed })
}

/// Path of the first difference of two values with both sides as JSON.
fn first_difference(path: &str, recorded: &Value, replayed: &Value) -> Option<(String, String, String)> {
    match (recorded, replayed) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| {
                let at = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
                first_difference(&format!("{path}.{key}"), &at(a), &at(b))
            })
        }
        (Value::Array(a), Value::Array(b)) => {
            let at = |list: &[Value], i: usize| list.get(i).cloned().unwrap_or(Value::Null);
            (0..a.len().max(b.len()))
                .find_map(|i| first_difference(&format!("{path}[{i}]"), &at(a, i), &at(b, i)))
        }
        _ if recorded == replayed => None,
        _ => Some((path.to_owned(), recorded.to_string(), replayed.to_string())),
    }
}

fn bad(path: &Path, error: &DocError) -> HostError {
    HostError::new(ErrorKind::Integrity, error.to_string()).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named_by_its_path() {
        let check = |a: &str, b: &str, expect: Option<&str>| {
            let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON of the test");
            let found = first_difference("d", &parse(a), &parse(b));
            assert_eq!(found.as_ref().map(|(path, ..)| path.as_str()), expect);
        };
        check(r#"[{"a":1}]"#, r#"[{"a":1}]"#, None);
        check(r#"[{"a":1,"b":[1,2]}]"#, r#"[{"a":1,"b":[1,3]}]"#, Some("d[0].b[1]"));
        check(r#"[1]"#, r#"[1,2]"#, Some("d[1]"));
        check(r#"{"a":1}"#, r#"{"b":1}"#, Some("d.a"));
        check(r#"{"a":{}}"#, r#"{"a":[]}"#, Some("d.a"));
    }
}
