//! What came of a night in numbers, and where two nights part. It must not decide.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use devloop_core::event::Event;
use devloop_core::hold::HoldKey;
use devloop_core::ids::{DispatchId, TaskId};
use devloop_core::ledger::Spend;
use devloop_core::reason::Reason;
use devloop_core::render::stage_word;
use devloop_core::state::{LoopState, Op};
use devloop_core::task::{Done, Stage};
use devloop_core::units::{Map, UsdMicros};
use serde::Serialize;
use serde_json::Value;

use crate::drive::Line;

/// Fields of the first difference that are listed at most; the rest is counted.
pub const MAX_FIELDS: usize = 20;

/// A night in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Journal lines.
    pub lines: u64,
    /// Plan dispatches; refused ones and those that never started do not count here and below.
    pub plans: u32,
    /// Work dispatches.
    pub attempts: u32,
    /// Review dispatches.
    pub reviews: u32,
    /// Tasks that were merged.
    pub merged: u32,
    /// Tasks that were not dropped.
    pub tasks: u32,
    /// Money that backends reported, in millionths of a dollar.
    pub measured_usd_micros: UsdMicros,
    /// Reported tokens times a price.
    pub priced_usd_micros: UsdMicros,
    /// Kept for dispatches that reported nothing.
    pub assumed_usd_micros: UsdMicros,
    /// Set aside for what still runs.
    pub reserved_usd_micros: UsdMicros,
    /// Wall time from the first line to the last, in milliseconds.
    pub wall_ms: u64,
    /// Questions that were asked.
    pub questions: u32,
    /// Questions that are open at the end.
    pub open: Vec<String>,
    /// The last answer of the core.
    pub ended: String,
    /// Where each task is at the end.
    pub stages: Map<TaskId, String>,
}

/// The first line in which the nights differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parting {
    /// The revision that the line leads to.
    pub revision: u64,
    /// What was recorded there; none where the recorded night was over.
    pub recorded: Option<String>,
    /// What is decided there instead; none where the what-if is over.
    pub what_if: Option<String>,
    /// The fields that differ, at most [`MAX_FIELDS`].
    pub fields: Vec<Field>,
    /// How many more differ.
    pub more: usize,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Its path.
    pub path: String,
    /// The recorded value as JSON; `absent` where it is not there.
    pub recorded: String,
    /// The other value.
    pub what_if: String,
}

impl Figures {
    /// Counts a night that began in `start` and ended in `end`.
    pub(crate) fn count(
        start: &LoopState,
        lines: &[Line],
        end: &LoopState,
        last: Option<&Reason>,
    ) -> Figures {
        let mut started: Map<DispatchId, Op> = Map::new();
        let mut questions = 0;
        for event in lines.iter().flat_map(|line| &line.decision.events) {
            match event {
                Event::LeaseTaken { dispatch, lease } => {
                    started.insert(*dispatch, lease.op);
                }
                Event::DispatchRefused { dispatch } | Event::DispatchOrphaned { dispatch } => {
                    started.remove(dispatch);
                }
                Event::HoldOpened { .. } => questions += 1,
                _ => {}
            }
        }
        let times =
            |op: Op| u32::try_from(started.values().filter(|o| **o == op).count()).unwrap_or(u32::MAX);
        let spend = spent_since(start, end);
        let live = end.tasks.iter().filter(|task| task.is_live());
        let merged =
            |stage: &Stage| matches!(stage, Stage::Done(Done::Merged { .. } | Done::MergedElsewhere));
        let wall = lines.last().zip(lines.first()).map_or(0, |(last, first)| last.wall.since(first.wall));
        let open = end.open_holds().into_iter();
        Figures {
            lines: lines.len() as u64,
            plans: times(Op::Plan),
            attempts: times(Op::Work),
            reviews: times(Op::Review),
            merged: u32::try_from(live.clone().filter(|task| merged(&task.stage)).count())
                .unwrap_or(u32::MAX),
            tasks: u32::try_from(live.count()).unwrap_or(u32::MAX),
            measured_usd_micros: spend.measured,
            priced_usd_micros: spend.priced,
            assumed_usd_micros: spend.assumed,
            reserved_usd_micros: spend.reserved,
            wall_ms: wall,
            questions,
            open: open.map(|(subject, hold)| HoldKey { subject, kind: hold.kind }.to_string()).collect(),
            ended: last.map(Reason::sentence).unwrap_or_default(),
            stages: end.tasks.iter().map(|t| (t.id.clone(), stage_word(&t.stage).to_string())).collect(),
        }
    }
}

/// What the dispatches that began after `start` have cost in `end`.
pub(crate) fn spent_since(start: &LoopState, end: &LoopState) -> Spend {
    let mut ledger = end.ledger.clone();
    ledger.entries.retain(|dispatch, _| dispatch.0 >= start.next_dispatch);
    ledger.spend(|_| true)
}

/// The first line in which the two differ, and how.
pub(crate) fn parting(recorded: &[Line], what_if: &[Line]) -> Option<Parting> {
    let at = |i: usize| (recorded.get(i), what_if.get(i));
    let first = (0..recorded.len().max(what_if.len())).find(|i| {
        let (a, b) = at(*i);
        a.map(|line| &line.decision) != b.map(|line| &line.decision)
    })?;
    let (a, b) = at(first);
    let mut found = Found::default();
    if let (Some(a), Some(b)) = (a, b) {
        let value = |line: &Line| serde_json::to_value(&line.decision).unwrap_or(Value::Null);
        found.walk("", Some(&value(a)), Some(&value(b)));
    }
    let words = |line: Option<&Line>| line.map(|line| line.decision.reason.sentence());
    let revision = a.or(b).map_or(0, |line| line.revision);
    let Found { fields, more } = found;
    Some(Parting { revision, recorded: words(a), what_if: words(b), fields, more })
}

#[derive(Default)]
struct Found {
    fields: Vec<Field>,
    more: usize,
}

impl Found {
    fn walk(&mut self, path: &str, recorded: Option<&Value>, what_if: Option<&Value>) {
        match (recorded, what_if) {
            (Some(Value::Object(a)), Some(Value::Object(b))) => {
                let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
                for key in keys {
                    let path = if path.is_empty() { key.clone() } else { alloc::format!("{path}.{key}") };
                    self.walk(&path, a.get(key), b.get(key));
                }
            }
            (Some(Value::Array(a)), Some(Value::Array(b))) => {
                for i in 0..a.len().max(b.len()) {
                    self.walk(&alloc::format!("{path}[{i}]"), a.get(i), b.get(i));
                }
            }
            _ if recorded == what_if => {}
            _ if self.fields.len() >= MAX_FIELDS => self.more += 1,
            _ => {
                let text = |value: Option<&Value>| value.map_or_else(|| "absent".into(), Value::to_string);
                let shown = |value| devloop_core::render::one_line(&text(value), 200);
                let (recorded, what_if) = (shown(recorded), shown(what_if));
                self.fields.push(Field { path: path.into(), recorded, what_if });
            }
        }
    }
}
