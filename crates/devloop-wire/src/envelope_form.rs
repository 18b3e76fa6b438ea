//! The fields of the three kinds of envelopes as models write them, old names included. It must not judge
//! them.

use devloop_core::finding::{Found, Severity};
use devloop_core::ids::FindingId;
use devloop_core::plan::PlannedTask;
use devloop_core::review::Verdict;
use devloop_core::task::Estimate;
use devloop_core::tier::{Risk, Tier};
use serde::Deserialize;

use crate::envelope::WorkEnd;

/// A plan as it is written. Fields that are not listed are ignored: they cannot widen anything.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct PlanIn {
    pub tasks: Vec<TaskIn>,
}

/// One planned task as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct TaskIn {
    id: String,
    title: String,
    tier: TierIn,
    risk: Risk,
    #[serde(alias = "depends_on", default)]
    depends_on: Vec<String>,
    #[serde(alias = "allowed_paths")]
    allowed_paths: Vec<String>,
    /// What a reviewer checks; `acceptance` is its older name.
    #[serde(alias = "acceptance")]
    criteria: Vec<String>,
    /// A size guess; a malformed one is dropped.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Estimate>"))]
    estimate: Option<serde_json::Value>,
}

#[derive(Clone, Copy, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
enum TierIn {
    #[serde(alias = "t0")]
    T0,
    #[serde(alias = "t1")]
    T1,
    #[serde(alias = "t2")]
    T2,
    #[serde(alias = "t3")]
    T3,
}

/// The end of a work as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct ImplementationIn {
    #[serde(alias = "task_id")]
    pub task_id: String,
    pub outcome: WorkEnd,
    pub summary: String,
}

/// A verdict as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct ReviewIn {
    #[serde(alias = "task_id")]
    pub task_id: String,
    #[serde(alias = "reviewed_sha")]
    pub reviewed_sha: String,
    pub verdict: VerdictIn,
    #[serde(default)]
    pub notes: Option<String>,
    /// What was found, at most 20. REWORK names at least one that is blocking, a PASS none.
    #[serde(default)]
    pub findings: Option<Vec<FindingIn>>,
}

/// A finding as it is written.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct FindingIn {
    /// The id of the earlier finding that this is again; a new one has none.
    #[serde(default)]
    pub id: Option<String>,
    /// `blocking` keeps the change from being merged, `note` is for later.
    pub severity: Severity,
    /// The file it is about.
    #[serde(default)]
    pub path: Option<String>,
    /// The line in it, from 1.
    #[serde(default)]
    pub line: Option<u32>,
    /// What is wrong, at most 1,000 characters.
    pub text: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) enum VerdictIn {
    Pass,
    PassWithNotes,
    Rework,
    Replan,
    Blocked,
}

impl TaskIn {
    /// The task in the core's words.
    pub(crate) fn planned(self) -> PlannedTask {
        PlannedTask {
            id: self.id,
            title: self.title,
            tier: match self.tier {
                TierIn::T0 => Tier::T0,
                TierIn::T1 => Tier::T1,
                TierIn::T2 => Tier::T2,
                TierIn::T3 => Tier::T3,
            },
            risk: self.risk,
            depends_on: self.depends_on,
            allowed_paths: self.allowed_paths,
            criteria: self.criteria,
            estimate: self.estimate.and_then(|value| serde_json::from_value::<Estimate>(value).ok()),
        }
    }
}

impl FindingIn {
    /// The finding in the core's words. A name that the core never gave is no name; an empty path and a line
    /// of 0 name no place.
    pub(crate) fn found(self) -> Found {
        Found {
            id: self.id.and_then(|id| FindingId::parse(&id).ok()),
            severity: self.severity,
            path: self.path.filter(|path| !path.is_empty()),
            line: self.line.filter(|line| *line > 0),
            text: self.text,
        }
        .bounded()
    }
}

impl From<VerdictIn> for Verdict {
    fn from(word: VerdictIn) -> Verdict {
        match word {
            VerdictIn::Pass => Verdict::Pass,
            VerdictIn::PassWithNotes => Verdict::PassWithNotes,
            VerdictIn::Rework => Verdict::Rework,
            VerdictIn::Replan => Verdict::Replan,
            VerdictIn::Blocked => Verdict::Blocked,
        }
    }
}
