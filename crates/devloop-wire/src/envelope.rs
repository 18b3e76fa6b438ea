//! The `<devloop_result>` envelope, version 1: what a planner, a worker or a reviewer returns. Parsed
//! strictly; when in doubt there is no verdict. It must not judge a plan or a review: the core does.

use std::fmt;

use devloop_core::finding::{MAX_FINDING_TEXT, MAX_FINDINGS};
use devloop_core::ids::{Oid, TaskId};
use devloop_core::plan::PlannedTask;
use devloop_core::report::Outcome;
use devloop_core::review::Review;
use devloop_core::task::clip;
use serde::Deserialize;

use crate::envelope_form::{FindingIn, ImplementationIn, PlanIn, ReviewIn, TaskIn};
use crate::envelope_text::{MAX_BLOCKS, START, blocks};
use crate::fault::DocError;
use crate::json;

/// The name in refusals.
pub const DOCUMENT: &str = "devloop_result";
/// The version of the envelope.
pub const VERSION: u64 = 1;

/// What a model returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// A plan.
    Plan {
        /// Its tasks; not judged yet.
        tasks: Vec<PlannedTask>,
    },
    /// The end of a work.
    Implementation {
        /// The task it names.
        task: String,
        /// How it ended.
        ended: WorkEnd,
        /// The worker's words, cut at 8,192 characters.
        summary: String,
    },
    /// A verdict.
    Review {
        /// The task it names.
        task: String,
        /// The verdict; its notes are cut at 8,192 characters.
        review: Review,
    },
}

/// How a work ended, in the worker's own judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WorkEnd {
    /// Done.
    Completed,
    /// Cannot go on.
    Blocked,
    /// Tried and failed.
    Failed,
}

/// What a dispatch may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected<'a> {
    /// A plan.
    Plan,
    /// The end of the work on this task.
    Implementation(&'a TaskId),
    /// A verdict on this task.
    Review(&'a TaskId),
}

/// Why there is no envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoEnvelope {
    /// Nothing that looks like one.
    Absent,
    /// A start tag, but nothing readable behind it.
    Unreadable,
    /// Several that differ: none of them counts.
    Several(usize),
    /// One that breaks a rule.
    Refused(DocError),
}

impl NoEnvelope {
    /// Whether one more run that asks for nothing but the envelope makes sense: the model knows the form
    /// and missed it.
    #[must_use]
    pub fn is_repairable(&self) -> bool {
        !matches!(self, NoEnvelope::Absent)
    }
}

impl fmt::Display for NoEnvelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoEnvelope::Absent => write!(f, "the output holds no {START} envelope"),
            NoEnvelope::Unreadable => {
                write!(f, "the output holds {START}, but no whole JSON object with its end tag")
            }
            NoEnvelope::Several(n) => {
                write!(f, "the output holds {n} different {START} envelopes; none of them counts")
            }
            NoEnvelope::Refused(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for NoEnvelope {}

/// Finds and reads the one envelope of an output. A text that is one JSON object as a whole is read as it
/// is; else exactly one tagged envelope counts. Equal ones count as one. Tags at the start of a line
/// outrank tags that are indented, quoted or inside a sentence: those are examples.
///
/// # Errors
/// [`NoEnvelope`].
pub fn parse(text: &str) -> Result<Envelope, NoEnvelope> {
    let whole = text.trim();
    if whole.starts_with('{') && serde_json::from_str::<Head>(whole).is_ok_and(|head| head.kind.is_some()) {
        return read(whole).map_err(NoEnvelope::Refused);
    }
    let mut found = blocks(text);
    if found.len() > MAX_BLOCKS {
        return Err(NoEnvelope::Several(found.len()));
    }
    if found.iter().any(|block| block.own_line) {
        found.retain(|block| block.own_line);
    }
    let mut texts: Vec<&Option<String>> = Vec::new();
    for block in &found {
        if !texts.contains(&&block.json) {
            texts.push(&block.json);
        }
    }
    match texts.as_slice() {
        [] => Err(NoEnvelope::Absent),
        [None] => Err(NoEnvelope::Unreadable),
        [Some(json)] => read(json).map_err(NoEnvelope::Refused),
        several => same(several),
    }
}

/// Several texts that all say the same are one envelope.
fn same(texts: &[&Option<String>]) -> Result<Envelope, NoEnvelope> {
    let several = NoEnvelope::Several(texts.len());
    let read_one = |json: &Option<String>| json.as_ref().and_then(|json| read(json).ok());
    let mut envelopes = texts.iter().map(|json| read_one(json));
    let first = envelopes.next().flatten().ok_or_else(|| several.clone())?;
    if envelopes.all(|other| other.as_ref() == Some(&first)) { Ok(first) } else { Err(several) }
}

/// The output without its envelopes: what the model said besides.
#[must_use]
pub fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut from = 0;
    for block in blocks(text).iter().filter(|block| block.json.is_some()) {
        out.push_str(&text[from..block.range.start]);
        from = block.range.end;
    }
    out.push_str(&text[from..]);
    out.trim().to_owned()
}

/// Reads an output as the end of a dispatch that was to return `expected`.
#[must_use]
pub fn outcome(text: &str, expected: Expected<'_>) -> Outcome {
    match parse(text) {
        Ok(envelope) => settle(envelope, expected),
        Err(NoEnvelope::Absent) => Outcome::NoResult { detail: NoEnvelope::Absent.to_string() },
        Err(other) => Outcome::InvalidResult { detail: clip(&other.to_string()) },
    }
}

fn settle(envelope: Envelope, expected: Expected<'_>) -> Outcome {
    let other_task = |named: &str, task: &TaskId| Outcome::InvalidResult {
        detail: clip(&format!("the result names task {named:?}, but the dispatch was for task {task}")),
    };
    match (envelope, expected) {
        (Envelope::Plan { tasks }, Expected::Plan) => Outcome::Planned { tasks },
        (Envelope::Implementation { task, ended, summary }, Expected::Implementation(id)) => match ended {
            _ if task != id.as_str() => other_task(&task, id),
            WorkEnd::Completed => Outcome::Worked { summary },
            WorkEnd::Blocked => Outcome::WorkBlocked { summary },
            WorkEnd::Failed => Outcome::WorkFailed { summary },
        },
        (Envelope::Review { task, review }, Expected::Review(id)) => {
            if task == id.as_str() {
                Outcome::Reviewed(review)
            } else {
                other_task(&task, id)
            }
        }
        (envelope, expected) => Outcome::InvalidResult {
            detail: format!("a result of kind {} was expected, not {}", expected.kind(), envelope.kind()),
        },
    }
}

impl Envelope {
    /// The word in its field `kind`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Envelope::Plan { .. } => "plan",
            Envelope::Implementation { .. } => "implementation",
            Envelope::Review { .. } => "review",
        }
    }
}

impl Expected<'_> {
    fn kind(self) -> &'static str {
        match self {
            Expected::Plan => "plan",
            Expected::Implementation(_) => "implementation",
            Expected::Review(_) => "review",
        }
    }
}

#[derive(Deserialize)]
struct Head {
    version: Option<serde_json::Value>,
    kind: Option<String>,
}

/// Reads the JSON of one envelope. It is read into its type directly, so that a field given twice is refused.
fn read(text: &str) -> Result<Envelope, DocError> {
    let bytes = text.as_bytes();
    let head: Head = json::read(DOCUMENT, "", bytes)?;
    let version = head.version.as_ref().and_then(serde_json::Value::as_u64);
    if version != Some(VERSION) {
        return Err(DocError::defect(DOCUMENT, "version", format!("must be {VERSION}")));
    }
    match head.kind.as_deref() {
        Some("plan") => {
            let plan: PlanIn = json::read(DOCUMENT, "", bytes)?;
            Ok(Envelope::Plan { tasks: plan.tasks.into_iter().map(TaskIn::planned).collect() })
        }
        Some("implementation") => {
            let work: ImplementationIn = json::read(DOCUMENT, "", bytes)?;
            require_text("summary", &work.summary)?;
            let summary = clip(&work.summary);
            Ok(Envelope::Implementation { task: work.task_id, ended: work.outcome, summary })
        }
        Some("review") => review(json::read(DOCUMENT, "", bytes)?),
        _ => Err(DocError::defect(DOCUMENT, "kind", "must be plan, implementation or review")),
    }
}

fn review(review: ReviewIn) -> Result<Envelope, DocError> {
    let sha = review.reviewed_sha.to_ascii_lowercase();
    let head = Oid::parse(&sha).map_err(|_| {
        DocError::defect(DOCUMENT, "reviewedSha", "must be a whole commit id of 40 or 64 hex digits")
    })?;
    let notes = review.notes.unwrap_or_default();
    if notes.contains('\0') {
        return Err(DocError::defect(DOCUMENT, "notes", "must not contain NUL"));
    }
    let found = review.findings.unwrap_or_default();
    if found.len() > MAX_FINDINGS {
        let rule = format!("must be at most {MAX_FINDINGS}: join the small ones");
        return Err(DocError::defect(DOCUMENT, "findings", rule));
    }
    for (i, finding) in found.iter().enumerate() {
        require_text(&format!("findings[{i}].text"), &finding.text)?;
        let path = finding.path.as_deref().unwrap_or_default();
        if path.contains('\0') || path.chars().count() > MAX_FINDING_TEXT {
            let rule = format!("must be a path of at most {MAX_FINDING_TEXT} characters without NUL");
            return Err(DocError::defect(DOCUMENT, format!("findings[{i}].path"), rule));
        }
    }
    let findings = found.into_iter().map(FindingIn::found).collect();
    let task = review.task_id;
    let review = Review { verdict: review.verdict.into(), head, notes: clip(&notes), findings };
    match review.contradiction() {
        Some(fault) => Err(DocError::defect(DOCUMENT, "findings", fault.to_string())),
        None => Ok(Envelope::Review { task, review }),
    }
}

fn require_text(field: &str, text: &str) -> Result<(), DocError> {
    if text.trim().is_empty() || text.contains('\0') {
        return Err(DocError::defect(DOCUMENT, field, "must be a text that is not empty and has no NUL"));
    }
    Ok(())
}
