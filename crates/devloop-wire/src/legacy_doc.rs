//! STATE.json and EVENTS.jsonl of the earlier plugin, version 1, as types: read, checked, not yet translated.
//! Unknown fields are tolerated, because releases 0.3 to 0.6 added many; known ones must have their shape.

use std::collections::BTreeMap;

use devloop_core::ids::TaskId;
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use crate::fault::{DocError, Fault};
use crate::json;

const STATE: &str = "STATE.json (version 1)";
const EVENTS: &str = "EVENTS.jsonl (version 1)";
const COMMIT_HOLD: &str = "COMMIT_HOLD (version 1)";
const PENDING_HOLD: &str = "PENDING_HOLD (version 1)";

/// The files of the earlier plugin that say where a loop stands; none for a file that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldFiles<'a> {
    /// STATE.json.
    pub state: Option<&'a [u8]>,
    /// EVENTS.jsonl.
    pub events: Option<&'a [u8]>,
    /// COMMIT_HOLD: the task whose hold could not be stored.
    pub commit_hold: Option<&'a [u8]>,
    /// PENDING_HOLD: the same with its reason.
    pub pending_hold: Option<&'a [u8]>,
}

/// The state. Only what the new one can hold is named.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Legacy {
    #[serde(default)]
    pub revision: u64,
    pub goal_completed: bool,
    pub kill_switch: bool,
    /// The key must be there, with null for no hold.
    #[serde(deserialize_with = "present")]
    pub supervisor: Option<LegacyHold>,
    pub tasks: Vec<LegacyTask>,
    pub usage: LegacyUsage,
    /// Was never checked by the plugin: a wrong shape is no acknowledgement.
    #[serde(default)]
    pub acknowledged: Option<Value>,
    /// A wrong shape was dropped by the plugin; the kill switch keeps the halt.
    #[serde(default)]
    pub paused: Option<Value>,
    #[serde(default)]
    pub work_branch: Option<String>,
    #[serde(default)]
    pub goal: Option<LegacyGoal>,
    pub updated_at: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LegacyHold {
    #[serde(deserialize_with = "present")]
    pub task_id: Option<String>,
    pub reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LegacyGoal {
    pub number: u32,
    pub started_at: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LegacyTask {
    pub id: String,
    pub title: String,
    pub tier: LegacyTier,
    pub status: LegacyStatus,
    pub risk: LegacyRisk,
    pub attempts: u32,
    pub review_cycles: u32,
    pub allowed_paths: Vec<String>,
    pub acceptance: Vec<String>,
    #[serde(default)]
    pub last_review_verdict: Option<LegacyVerdict>,
    #[serde(default)]
    pub base_sha: Option<String>,
    #[serde(default)]
    pub implementation_sha: Option<String>,
    #[serde(default)]
    pub estimate: Option<Value>,
    #[serde(default)]
    pub implementer: Option<String>,
    #[serde(default)]
    pub reviewer: Option<String>,
    #[serde(default)]
    pub review_notes: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) enum LegacyTier {
    T0,
    T1,
    T2,
    T3,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LegacyRisk {
    Low,
    Medium,
    High,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LegacyStatus {
    Ready,
    Running,
    ReviewPending,
    MergeReady,
    Rework,
    Blocked,
    Done,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum LegacyVerdict {
    Pass,
    PassWithNotes,
    Rework,
    Replan,
    Blocked,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LegacyUsage {
    pub task_attempts: BTreeMap<String, u32>,
    /// Absent before 0.4.
    #[serde(default)]
    pub refused_dispatches: BTreeMap<String, u32>,
    pub review_cycles: BTreeMap<String, u32>,
    pub task_started_at: BTreeMap<String, u64>,
    #[serde(default)]
    pub tokens: BTreeMap<String, Number>,
    pub cost_usd_session: Number,
    pub cost_usd_day: Number,
    pub last_progress_at: u64,
}

/// An option whose key must be there.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(source: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(source)
}

#[derive(Deserialize)]
struct Version {
    version: u64,
}

/// Reads the files: the state, or the last snapshot of the journal where the state is missing, torn or
/// behind it. None when there is neither.
pub(crate) fn read(files: &OldFiles<'_>) -> Result<Option<Legacy>, DocError> {
    let Some(mut legacy) = state_or_journal(files)? else { return Ok(None) };
    // A hold that could not be stored stops a loop that nothing else has stopped.
    if !legacy.kill_switch && legacy.supervisor.is_none() {
        legacy.supervisor = marker(files)?;
    }
    Ok(Some(legacy))
}

fn state_or_journal(files: &OldFiles<'_>) -> Result<Option<Legacy>, DocError> {
    let journal = files.events.filter(|bytes| !bytes.is_empty()).map(last_snapshot);
    let state = files.state.map(|bytes| read_state(STATE, "", bytes));
    match (state, journal) {
        // A crash between the two writes leaves the journal ahead: its line was durable first.
        (Some(Ok(state)), Some(Ok(last))) if last.revision > state.revision => Ok(Some(last)),
        (Some(Ok(state)), _) => Ok(Some(state)),
        (Some(Err(error)), journal) if error.fault == Fault::Torn => journal.unwrap_or(Err(error)).map(Some),
        (Some(Err(error)), _) => Err(error),
        (None, journal) => journal.transpose(),
    }
}

/// The hold of a marker file. The one with a reason says more than the one without.
fn marker(files: &OldFiles<'_>) -> Result<Option<LegacyHold>, DocError> {
    if let Some(bytes) = files.pending_hold {
        let hold: LegacyHold = json::read(PENDING_HOLD, "", bytes)?;
        let (base, detail) = hold.reason.split_once(':').unwrap_or((&hold.reason, ""));
        let word = !base.is_empty() && base.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        if !word || detail.contains('\n') || detail.chars().count() > 200 {
            let rule = "must be a word of lower-case letters and underscores, with at most 200 characters \
                        behind a colon";
            return Err(DocError::defect(PENDING_HOLD, "reason", rule));
        }
        return Ok(Some(hold));
    }
    let Some(bytes) = files.commit_hold else { return Ok(None) };
    let named = std::str::from_utf8(bytes).ok().map(str::trim).filter(|text| TaskId::parse(text).is_ok());
    let Some(task) = named else {
        return Err(DocError::defect(COMMIT_HOLD, "line 1", "must be the id of the task that is held"));
    };
    Ok(Some(LegacyHold { task_id: Some(task.to_owned()), reason: "parent_commit_failed".to_owned() }))
}

fn read_state(document: &'static str, prefix: &str, bytes: &[u8]) -> Result<Legacy, DocError> {
    let version: Version = json::read(document, prefix, bytes)?;
    if version.version != 1 {
        return Err(DocError::defect(document, "version", "must be 1"));
    }
    let state: Legacy = json::read(document, prefix, bytes)?;
    let at = |path: &str| if prefix.is_empty() { path.to_owned() } else { format!("{prefix}.{path}") };
    for (i, task) in state.tasks.iter().enumerate() {
        if let Err(bad) = TaskId::parse(&task.id) {
            return Err(DocError::defect(
                document,
                at(&format!("tasks[{i}].id")),
                format!("must be {}", bad.rule),
            ));
        }
        if task.status == LegacyStatus::Running && !state.usage.task_started_at.contains_key(&task.id) {
            let what = format!("task {} is running but has no start time in usage.taskStartedAt", task.id);
            return Err(DocError::defect(document, at(&format!("tasks[{i}].status")), what));
        }
    }
    for (name, cost) in
        [("costUsdSession", &state.usage.cost_usd_session), ("costUsdDay", &state.usage.cost_usd_day)]
    {
        if let Err(rule) = crate::money::parse_usd(&cost.to_string()) {
            return Err(DocError::defect(document, at(&format!("usage.{name}")), rule));
        }
    }
    if state.updated_at.is_empty() {
        return Err(DocError::defect(document, at("updatedAt"), "must not be empty"));
    }
    match &state.supervisor {
        Some(hold) if hold.reason.is_empty() => {
            Err(DocError::defect(document, at("supervisor.reason"), "must not be empty"))
        }
        _ => Ok(state),
    }
}

/// The last snapshot of a journal whose every line is one revision further. Only a last line without its
/// newline may be torn.
fn last_snapshot(bytes: &[u8]) -> Result<Legacy, DocError> {
    #[derive(Deserialize)]
    struct Line<'a> {
        version: u64,
        revision: u64,
        #[serde(borrow)]
        state: &'a serde_json::value::RawValue,
    }
    let Some(end) = bytes.iter().rposition(|b| *b == b'\n') else {
        return Err(DocError::torn(EVENTS, "it has no whole line"));
    };
    let mut last: Option<Line<'_>> = None;
    for (i, text) in bytes[..end].split(|b| *b == b'\n').enumerate() {
        let number = i + 1;
        let bad = |what: String| DocError::defect(EVENTS, format!("line {number}"), what);
        let line: Line<'_> = serde_json::from_slice(text).map_err(|error| bad(error.to_string()))?;
        let expect = last.as_ref().map(|before| before.revision.saturating_add(1));
        if line.version != 1 || expect.is_some_and(|expect| expect != line.revision) {
            return Err(bad(format!(
                "version {} and revision {} do not follow",
                line.version, line.revision
            )));
        }
        last = Some(line);
    }
    let Some(line) = last else { return Err(DocError::torn(EVENTS, "it has no whole line")) };
    let state = read_state(EVENTS, "state", line.state.get().as_bytes())?;
    if state.revision != line.revision {
        let what = format!("is {}, but the line is of revision {}", state.revision, line.revision);
        return Err(DocError::defect(EVENTS, "state.revision", what));
    }
    Ok(state)
}

/// The document that refusals of a translation name.
pub(crate) const DOCUMENT: &str = STATE;
