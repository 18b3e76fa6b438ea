//! Decides on every traced input again and compares. It reads the trace and writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use devloop_core::decide::Decision;
use devloop_core::event::Event;
use devloop_core::ids::Digest;
use devloop_wire::trace_line::{self, TraceHead, TraceLine, TraceRecord};
use devloop_wire::{policy_doc, state_doc};
use serde::Serialize;
use serde_json::Value;

use super::{Core, bad};
use crate::error::HostError;
use crate::store::{Armed, Disk, trace};

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
                    report.divergence = run.begin(&head, core)?;
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
    /// A new run starts from its own state, which is that of the run before when no revision lies between
    /// them.
    fn begin(&mut self, head: &TraceHead, core: &mut Core) -> Result<Option<Divergence>, HostError> {
        let before = match self.open {
            true => Some((core.machine.revision()?, core.machine.digest()?)),
            false => None,
        };
        let policy = policy_doc::policy_bytes(&head.policy);
        core.machine.open(&state_doc::write(&head.state), &policy)?;
        self.policies.insert(head.policy.digest.clone(), policy);
        self.current = Some(head.policy.digest.clone());
        self.in_force = head.state.policy.clone();
        self.open = true;
        let held = core.machine.digest()?;
        let replayed = match before {
            Some((revision, digest)) if revision == head.revision => digest,
            _ => held.clone(),
        };
        let recorded = if head.core.as_str() == core.digest { head.state_digest.to_string() } else { held };
        Ok((recorded != replayed).then(|| Divergence {
            revision: head.revision,
            field: "state_digest".into(),
            recorded,
            replayed,
        }))
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
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
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
