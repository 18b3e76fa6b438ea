//! Holds: the closed list of things that need a person, each with the subject it keeps and the answers that
//! move it.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::answer::Answer;
use crate::ids::{BadId, RouteKey, TaskId};
use crate::units::WallMs;

/// What a hold is about. A task's hold lies in its stage, all others in the state's `holds`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub enum Subject {
    /// Planning and replanning.
    Planning,
    /// A route.
    Route(RouteKey),
    /// The goal's text.
    Goal,
    /// The target branch.
    Target,
    /// Everything that costs money.
    Loop,
    /// One task.
    Task(TaskId),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Planning => f.write_str("planning"),
            Subject::Route(key) => write!(f, "route/{key}"),
            Subject::Goal => f.write_str("goal"),
            Subject::Target => f.write_str("target"),
            Subject::Loop => f.write_str("loop"),
            Subject::Task(id) => write!(f, "task/{id}"),
        }
    }
}

impl Subject {
    /// Reads the written form.
    ///
    /// # Errors
    /// [`BadId`] for an unknown subject or a bad name in it.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        match text {
            "planning" => Ok(Subject::Planning),
            "goal" => Ok(Subject::Goal),
            "target" => Ok(Subject::Target),
            "loop" => Ok(Subject::Loop),
            _ => match text.split_once('/') {
                Some(("route", key)) => RouteKey::parse(key).map(Subject::Route),
                Some(("task", id)) => TaskId::parse(id).map(Subject::Task),
                _ => Err(BadId {
                    what: "a subject",
                    rule: "planning, goal, target, loop, route/<name> or task/<id>",
                }),
            },
        }
    }
}

impl TryFrom<String> for Subject {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        Self::parse(&text)
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> String {
        alloc::format!("{subject}")
    }
}

data! {
    /// Something that needs a person.
    pub struct Hold {
        /// Why.
        pub kind: HoldKind,
        /// The revision at which it opened; an answer may name it.
        pub revision: u64,
        /// When it opened.
        pub opened_at: WallMs,
        /// What was seen, one bounded text; empty when the state says it all.
        pub detail: String,
        /// The paths or commands it is about, at most 50.
        pub items: Vec<String>,
        /// Set by the answer `stop`: listed last and not notified again.
        pub acknowledged: Option<Acknowledged>,
    }

    /// Who said that a hold may stay.
    pub struct Acknowledged {
        /// Who.
        pub by: String,
        /// When.
        pub at: WallMs,
    }
}

/// At most this many paths or commands are kept with a hold.
pub const MAX_ITEMS: usize = 50;

macro_rules! hold_kinds {
    ($($(#[$doc:meta])* $variant:ident = $key:literal : [$($answer:ident),*];)*) => {
        data! {
            /// Why a person is needed. The written keys are the plugin's names where it had one.
            #[derive(Copy, PartialOrd, Ord)]
            pub enum HoldKind { $($(#[$doc])* $variant,)* }
        }
        impl HoldKind {
            /// Every kind, in the order of the list.
            pub const ALL: &'static [HoldKind] = &[$(HoldKind::$variant),*];
            /// The stable key in journals and commands.
            #[must_use]
            pub const fn key(self) -> &'static str {
                match self { $(HoldKind::$variant => $key),* }
            }
            /// The answers this kind can take; which of them are offered depends on the state.
            #[must_use]
            pub const fn answers(self) -> &'static [Answer] {
                match self { $(HoldKind::$variant => &[$(Answer::$answer),*]),* }
            }
        }
    };
}

hold_kinds! {
    /// The worker's commit changes nothing.
    EmptyTask = "empty_task": [Review, Retry, RetryFresh, Accept, Drop, Stop];
    /// Paths outside the contract were changed.
    ScopeViolation = "scope_violation": [Retry, RetryFresh, Drop, Stop];
    /// The changed paths could not be told.
    ScopeCheckFailed = "scope_check_failed": [Retry, RetryFresh, Drop, Stop];
    /// A merge without a pass.
    NoReviewPass = "no_review_pass": [Review, Retry, Drop, Stop];
    /// The verdict names another commit that the loop knows.
    StaleReviewSha = "stale_review_sha": [Review, Retry, Drop, Stop];
    /// The verdict names a commit that the loop does not know.
    UnknownReviewSha = "unknown_review_sha": [Review, Retry, Drop, Stop];
    /// The reviewer wrote part of the change.
    ReviewerIdentityConflict = "reviewer_identity_conflict": [Review, Drop, Stop];
    /// High risk waits for a person.
    SecurityHighRisk = "security_high_risk": [Approve, Retry, Accept, Drop, Stop];
    /// Attempts are used up.
    MaxTaskAttempts = "max_task_attempts": [Retry, RetryFresh, Drop, Stop];
    /// The worker reported failure.
    RepeatedTestFailure = "repeated_test_failure": [Retry, RetryFresh, Replan, Drop, Stop];
    /// Reviews are used up.
    MaxReviewCycles = "max_review_cycles": [Retry, RetryFresh, Drop, Stop];
    /// A review found the same again, or not less than the review before.
    NoConvergence = "no_convergence": [Retry, RetryFresh, Review, Replan, Accept, Drop, Stop];
    /// The day's money is spent.
    DailyCostCap = "daily_cost_cap": [Allow, Stop];
    /// The money since start is spent.
    SessionCostCap = "session_cost_cap": [Allow, Stop];
    /// The goal's money is spent.
    GoalCostCap = "goal_cost_cap": [Allow, Stop];
    /// The lineage's money is spent.
    TaskCostCap = "task_cost_cap": [Allow, Drop, Stop];
    /// The day's money of all projects is spent.
    AllProjectsDailyCap = "all_projects_daily_cap": [Allow, Stop];
    /// One reservation alone is above a cap.
    ReserveExceedsCap = "reserve_exceeds_cap": [Allow, Stop];
    /// The lineage's tokens are used up.
    MaxTokensPerTask = "max_tokens_per_task": [Allow, Drop, Stop];
    /// The worker reported that it cannot go on.
    BlockedTask = "blocked_task": [Retry, RetryFresh, Replan, Drop, Stop];
    /// A merge could not be finished or undone safely.
    MergeWedged = "merge_wedged": [Retry, Drop, Stop];
    /// The base of the task is not in the repository.
    UnknownBase = "unknown_base": [RetryFresh, Drop, Stop];
    /// The target is a trunk.
    MergeOntoTrunk = "merge_onto_trunk": [Branch, Allow, Stop];
    /// The checkout has no branch.
    MergeDetachedHead = "merge_detached_head": [Branch, Stop];
    /// No provider would start this task's dispatch.
    DispatchRefused = "dispatch_refused": [Retry, Drop, Stop];
    /// The reviewer rejected the task itself.
    ReviewRequestedReplan = "review_requested_replan": [Replan, Retry, Drop, Stop];
    /// The lineage was replanned too often.
    Replans = "replans": [Replan, Retry, Drop, Stop];
    /// A required check keeps failing.
    AcceptanceFailed = "acceptance_failed": [Retry, RetryFresh, Drop, Stop];
    /// A check could not start or timed out.
    CheckUnavailable = "check_unavailable": [Review, Retry, Drop, Stop];
    /// The change is too large to be reviewed, and was planned anew too often.
    TaskOverBudget = "task_over_budget": [Replan, Retry, RetryFresh, Drop, Stop];
    /// A rule of the project refused the commit before its review.
    PreprBlocked = "prepr_blocked": [Retry, RetryFresh, Drop, Stop];
    /// A rule of the project gave no word on the commit.
    PreprUnavailable = "prepr_unavailable": [Review, Retry, Drop, Stop];
    /// The forge refused the merge.
    ForgeMergeRefused = "forge_merge_refused": [Retry, Drop, Stop];
    /// The result was for something else.
    InvalidAgentResult = "invalid_agent_result": [Retry, Drop, Stop];
    /// The result could not be applied.
    ResultTransitionFailed = "result_transition_failed": [Retry, Drop, Stop];
    /// The backend failed after a model was reached.
    BackendFailed = "backend_failed": [Retry, Drop, Stop];
    /// The host could not commit.
    ParentCommitFailed = "parent_commit_failed": [Retry, RetryFresh, Drop, Stop];
    /// The commit to review is gone.
    MissingReviewWorktree = "missing_review_worktree": [RetryFresh, Drop, Stop];
    /// The agent returned nothing.
    MissingAgentResult = "missing_agent_result": [Retry, Drop, Stop];
    /// The task's whole lifetime is used.
    TaskTimeout = "task_timeout": [Retry, RetryFresh, Drop, Stop];
    /// Nothing has moved for too long.
    NoProgress = "no_progress": [GoOn, Stop];
    /// The same operation with the same basis again and again.
    DuplicateAction = "duplicate_action": [Retry, RetryFresh, Drop, Stop];
    /// The task's branch name is taken by other work.
    TaskBranchTaken = "task_branch_taken": [Retry, Drop, Stop];
    /// Dispatches of this task keep dying before they start.
    Orphans = "orphans": [Retry, Drop, Stop];
    /// The branch was refreshed too often.
    Refreshes = "refreshes": [Retry, RetryFresh, Drop, Stop];
    /// Both sides changed the same lines.
    MergeConflict = "merge_conflict": [Retry, RetryFresh, Drop, Stop];
    /// The target moved at every try.
    BaseMoved = "base_moved": [Retry, Drop, Stop];
    /// A merge was red and somebody committed on top.
    PostMergeRed = "post_merge_red": [Retry, RetryFresh, Accept, Drop, Stop];
    /// A dependency was dropped.
    DependencyDropped = "dependency_dropped": [GoOn, Drop, Stop];
    /// No reviewer differs from the worker.
    NoIndependentReviewer = "no_independent_reviewer": [Retry, Drop, Stop];
    /// The worker committed after it was ended.
    LateCommit = "late_commit": [Retry, RetryFresh, Drop, Stop];
    /// The change seems to contain a secret.
    SecretInDiff = "secret_in_diff": [RetryFresh, Drop, Stop];
    /// The primary checkout changed during a run.
    EscapedWrite = "escaped_write": [Retry, RetryFresh, Drop, Stop];
    /// Planning failed too often.
    PlanAttempts = "plan_attempts": [Retry, Stop];
    /// No provider would start planning.
    PlanRefusals = "plan_refusals": [Retry, Stop];
    /// The plan has no task.
    EmptyPlan = "empty_plan": [Retry, Stop];
    /// The goal's text changed.
    GoalChanged = "goal_changed": [Continue, Replan, Stop];
    /// Something has the name of the goal's text that cannot be read as one.
    GoalUnusable = "goal_unusable": [Retry, Stop];
    /// The checks are red before any work.
    ChecksRedAtBase = "checks_red_at_base": [GoOn, Retry, Stop];
    /// The target lost the last merge.
    TargetRewound = "target_rewound": [GoOn, Stop];
    /// A route is closed until a person opens it.
    RouteClosed = "route_closed": [Open, Stop];
    /// A quota resets so far away that a person may want another way.
    QuotaWaitTooLong = "quota_wait_too_long": [Open, Stop];
}

impl HoldKind {
    /// Whether it opened because of a cap on money, so that settled money may lift it.
    #[must_use]
    pub fn is_about_money(self) -> bool {
        matches!(
            self,
            HoldKind::DailyCostCap
                | HoldKind::SessionCostCap
                | HoldKind::GoalCostCap
                | HoldKind::TaskCostCap
                | HoldKind::AllProjectsDailyCap
                | HoldKind::ReserveExceedsCap
        )
    }

    /// Whether no decision opens it: only a state that was carried over from version 1 has it. The earlier
    /// plugin asked about these; here they cannot come about, or go on by themselves:
    ///
    /// * a merge takes a `ReviewedHead`, so none is tried without a pass;
    /// * a reviewer is chosen among those who did not work on the task, and a review counts only while the
    /// rule
    ///   of that choice stands and for whom it was dispatched to;
    /// * a verdict `REPLAN` is planned anew at once, and asked about as `replans`;
    /// * rules before a pull request and merges by a forge are no part of the loop;
    /// * a report is applied, or its own fault is named.
    #[must_use]
    pub fn is_carried_over(self) -> bool {
        matches!(
            self,
            HoldKind::NoReviewPass
                | HoldKind::ReviewerIdentityConflict
                | HoldKind::ReviewRequestedReplan
                | HoldKind::PreprBlocked
                | HoldKind::PreprUnavailable
                | HoldKind::ForgeMergeRefused
                | HoldKind::ResultTransitionFailed
        )
    }

    /// What a hold of this kind is usually about; a cap on a task's money may hold that task alone.
    #[must_use]
    pub fn usual_subject(self, task: &TaskId, route: &RouteKey) -> Subject {
        match self {
            HoldKind::DailyCostCap
            | HoldKind::SessionCostCap
            | HoldKind::GoalCostCap
            | HoldKind::AllProjectsDailyCap
            | HoldKind::ReserveExceedsCap => Subject::Loop,
            HoldKind::MergeOntoTrunk
            | HoldKind::MergeDetachedHead
            | HoldKind::NoProgress
            | HoldKind::ChecksRedAtBase
            | HoldKind::TargetRewound => Subject::Target,
            HoldKind::PlanAttempts | HoldKind::PlanRefusals | HoldKind::EmptyPlan => Subject::Planning,
            HoldKind::GoalChanged | HoldKind::GoalUnusable => Subject::Goal,
            HoldKind::RouteClosed | HoldKind::QuotaWaitTooLong => Subject::Route(route.clone()),
            _ => Subject::Task(task.clone()),
        }
    }

    /// Whether `retry` means working again although the task could continue elsewhere.
    #[must_use]
    pub fn retry_redoes_work(self) -> bool {
        matches!(
            self,
            HoldKind::NoReviewPass
                | HoldKind::StaleReviewSha
                | HoldKind::UnknownReviewSha
                | HoldKind::SecurityHighRisk
                | HoldKind::ReviewRequestedReplan
                | HoldKind::LateCommit
                | HoldKind::PostMergeRed
                | HoldKind::Refreshes
                | HoldKind::TaskOverBudget
                | HoldKind::PreprBlocked
        )
    }
}

impl fmt::Display for HoldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// The stable name of a hold in answers: `<subject>:<kind>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct HoldKey {
    /// What it is about.
    pub subject: Subject,
    /// Why.
    pub kind: HoldKind,
}

impl fmt::Display for HoldKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.subject, self.kind)
    }
}

impl HoldKey {
    /// Reads the written form.
    ///
    /// # Errors
    /// [`BadId`] when the subject or the kind is unknown.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        let bad = BadId { what: "a hold", rule: "<subject>:<reason> as `devloop status` prints it" };
        let (subject, kind) = text.rsplit_once(':').ok_or(bad)?;
        let kind = HoldKind::ALL.iter().copied().find(|k| k.key() == kind).ok_or(bad)?;
        Ok(HoldKey { subject: Subject::parse(subject)?, kind })
    }
}

impl TryFrom<String> for HoldKey {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        Self::parse(&text)
    }
}

impl From<HoldKey> for String {
    fn from(key: HoldKey) -> String {
        alloc::format!("{key}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_key_and_can_be_left_or_answered() {
        for (i, kind) in HoldKind::ALL.iter().enumerate() {
            assert!(kind.answers().contains(&Answer::Stop), "{kind}");
            assert!(kind.answers().len() >= 2, "{kind} offers nothing but stop");
            assert!(HoldKind::ALL[i + 1..].iter().all(|other| other.key() != kind.key()), "{kind}");
        }
    }

    #[test]
    fn hold_keys_read_back_what_they_print() {
        for text in ["task/a:max_task_attempts", "route/x:y/z:route_closed", "loop:daily_cost_cap"] {
            let key = HoldKey::parse(text).expect(text);
            assert_eq!(alloc::format!("{key}"), text);
        }
        assert!(HoldKey::parse("task/a:nonsense").is_err());
    }
}
