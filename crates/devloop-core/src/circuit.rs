//! The budget: one table of circuits with what they measure, their limit, scope and what clears them.

use crate::hold::HoldKind;
use crate::ids::TaskId;
use crate::ledger::Spend;
use crate::policy::{Limits, Policy};
use crate::state::{GrantScope, LoopState};
use crate::task::Task;
use crate::units::UsdMicros;

data! {
    /// A budget rule. The keys outside are the plugin's where it had one.
    #[derive(Copy, PartialOrd, Ord)]
    pub enum Circuit {
        /// Work dispatches of a task.
        MaxTaskAttempts,
        /// Reviews of a task.
        MaxReviewCycles,
        /// Refusals of a task.
        DispatchRefused,
        /// Lifetime of a task: how long it is worked on, checked, reviewed and merged, waits not counted.
        TaskTimeout,
        /// Length of one dispatch.
        DispatchDeadline,
        /// The same operation with the same basis.
        DuplicateAction,
        /// Nothing moves.
        NoProgress,
        /// Tokens of a lineage.
        MaxTokensPerTask,
        /// Money of a lineage.
        TaskCostCap,
        /// Money since this process started.
        SessionCostCap,
        /// Money of a goal.
        GoalCostCap,
        /// Money of a day.
        DailyCostCap,
        /// Money of a day over all projects.
        AllProjectsDailyCap,
        /// Workers of the process.
        MaxParallelWorkers,
        /// Workers of the project.
        MaxParallelPerProject,
        /// Refreshes of a task.
        Refreshes,
        /// Replans of a lineage.
        Replans,
        /// Orphans of a task.
        Orphans,
        /// Plans without success.
        PlanAttempts,
        /// Plans that no provider saw.
        PlanRefusals,
        /// Free disk.
        DiskLow,
    }

    /// What a circuit is measured on.
    #[derive(Copy)]
    pub enum Scope {
        /// One dispatch.
        Dispatch,
        /// One task.
        Task,
        /// A task with its replacements.
        Lineage,
        /// Planning.
        Planning,
        /// The goal.
        Goal,
        /// The project.
        Project,
        /// The process.
        Process,
        /// All projects of the user.
        User,
    }

    /// What clears a tripped circuit.
    #[derive(Copy)]
    pub enum ResetPolicy {
        /// An answer or a resume that names the task.
        OnNamedTask,
        /// `resume --reset-cost` or the answer `allow`.
        OnFlag,
        /// The next UTC day, or as `on_flag`.
        AtUtcMidnight,
        /// Anything that moves.
        OnProgress,
        /// The answer `allow`.
        ByGrant,
        /// Nothing: it is measured anew at every decision.
        Never,
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Which.
    pub circuit: Circuit,
    /// The stable key.
    pub key: &'static str,
    /// What it is measured on.
    pub scope: Scope,
    /// What clears it.
    pub reset: ResetPolicy,
    /// The hold it opens; none where it only makes work wait.
    pub hold: Option<HoldKind>,
}

macro_rules! rows {
    ($($circuit:ident, $key:literal, $scope:ident, $reset:ident, $hold:expr;)*) => {
        /// Every circuit.
        pub const TABLE: &[Row] = &[$(Row {
            circuit: Circuit::$circuit,
            key: $key,
            scope: Scope::$scope,
            reset: ResetPolicy::$reset,
            hold: $hold,
        }),*];
    };
}

rows! {
    MaxTaskAttempts, "max_task_attempts", Task, OnNamedTask, Some(HoldKind::MaxTaskAttempts);
    MaxReviewCycles, "max_review_cycles", Task, OnNamedTask, Some(HoldKind::MaxReviewCycles);
    DispatchRefused, "dispatch_refused", Task, OnNamedTask, Some(HoldKind::DispatchRefused);
    TaskTimeout, "task_timeout", Task, OnNamedTask, Some(HoldKind::TaskTimeout);
    DispatchDeadline, "dispatch_deadline", Dispatch, Never, None;
    DuplicateAction, "duplicate_action", Task, OnNamedTask, Some(HoldKind::DuplicateAction);
    NoProgress, "no_progress", Project, OnProgress, Some(HoldKind::NoProgress);
    MaxTokensPerTask, "max_tokens_per_task", Lineage, ByGrant, Some(HoldKind::MaxTokensPerTask);
    TaskCostCap, "task_cost_cap", Lineage, ByGrant, Some(HoldKind::TaskCostCap);
    SessionCostCap, "session_cost_cap", Process, ByGrant, Some(HoldKind::SessionCostCap);
    GoalCostCap, "goal_cost_cap", Goal, ByGrant, Some(HoldKind::GoalCostCap);
    DailyCostCap, "daily_cost_cap", Project, AtUtcMidnight, Some(HoldKind::DailyCostCap);
    AllProjectsDailyCap, "all_projects_daily_cap", User, AtUtcMidnight, Some(HoldKind::AllProjectsDailyCap);
    MaxParallelWorkers, "max_parallel_workers", Process, Never, None;
    MaxParallelPerProject, "max_parallel_per_project", Project, Never, None;
    Refreshes, "refreshes", Task, OnNamedTask, Some(HoldKind::Refreshes);
    Replans, "replans", Lineage, ByGrant, Some(HoldKind::Replans);
    Orphans, "orphans", Task, OnNamedTask, Some(HoldKind::Orphans);
    PlanAttempts, "plan_attempts", Planning, OnNamedTask, Some(HoldKind::PlanAttempts);
    PlanRefusals, "plan_refusals", Planning, OnNamedTask, Some(HoldKind::PlanRefusals);
    DiskLow, "disk_low", Project, Never, None;
}

/// A cap on money as it stands: the limit with its grants, and what has been committed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// Which.
    pub circuit: Circuit,
    /// The limit times one plus the grants.
    pub limit: UsdMicros,
    /// Spent and set aside.
    pub spend: Spend,
}

impl Cap {
    /// Whether one more reservation fits beside what is spent alone: running dispatches may still settle
    /// lower.
    #[must_use]
    pub fn fits_when_settled(&self, reserve: UsdMicros) -> bool {
        let sum = self.spend.spent().plus(reserve.0);
        !sum.is_saturated() && sum <= self.limit
    }
    /// Whether one more reservation fits now.
    #[must_use]
    pub fn fits_now(&self, reserve: UsdMicros) -> bool {
        let sum = self.spend.committed().plus(reserve.0);
        !sum.is_saturated() && sum <= self.limit
    }
    /// What is left now.
    #[must_use]
    pub fn left(&self) -> UsdMicros {
        UsdMicros(self.limit.0.saturating_sub(self.spend.committed().0))
    }
}

/// The caps on money that hold for everything: session, goal, day. `instance` is the supervisor's.
#[must_use]
pub fn loop_caps(state: &LoopState, limits: &Limits, instance: u64) -> alloc::vec::Vec<Cap> {
    let widened =
        |kind, limit: UsdMicros| UsdMicros(limit.0.saturating_mul(1 + grants(state, kind, instance)));
    let mut caps = alloc::vec![
        Cap {
            circuit: Circuit::DailyCostCap,
            limit: widened(HoldKind::DailyCostCap, limits.cost_day),
            spend: state.ledger.day(state.clock.day),
        },
        Cap {
            circuit: Circuit::SessionCostCap,
            limit: widened(HoldKind::SessionCostCap, limits.cost_session),
            spend: state.ledger.session(instance),
        },
    ];
    caps.extend(limits.cost_goal.map(|limit| Cap {
        circuit: Circuit::GoalCostCap,
        limit: widened(HoldKind::GoalCostCap, limit),
        spend: state.ledger.goal(state.goal.number),
    }));
    caps
}

/// The cap on a lineage's money, when there is one.
#[must_use]
pub fn task_cap(state: &LoopState, limits: &Limits, task: &Task) -> Option<Cap> {
    lineage_cap(state, limits, task, || state.ledger.lineage(&task.lineage))
}

/// As [`task_cap`] for a caller that knows what the lineage spent; it is asked only when there is a cap.
pub(crate) fn lineage_cap(
    state: &LoopState,
    limits: &Limits,
    task: &Task,
    spend: impl FnOnce() -> Spend,
) -> Option<Cap> {
    limits.cost_task.map(|limit| Cap {
        circuit: Circuit::TaskCostCap,
        limit: UsdMicros(
            limit.0.saturating_mul(1 + lineage_grants(state, HoldKind::TaskCostCap, &task.lineage)),
        ),
        spend: spend(),
    })
}

/// How many more limits' worth a lineage was granted.
#[must_use]
pub fn lineage_grants(state: &LoopState, kind: HoldKind, lineage: &TaskId) -> u64 {
    let of_lineage = |id: &TaskId| state.tasks.get(id).is_some_and(|t| t.lineage == *lineage);
    let found = state
        .grants
        .iter()
        .filter(|g| g.kind == kind && matches!(&g.subject, crate::hold::Subject::Task(id) if of_lineage(id)));
    found.count() as u64
}

/// How many more limits' worth were granted for a loop-wide cap and are still in force.
#[must_use]
pub fn grants(state: &LoopState, kind: HoldKind, instance: u64) -> u64 {
    let in_force = |scope: &GrantScope| match scope {
        GrantScope::Day(day) => *day == state.clock.day,
        GrantScope::Goal(goal) => *goal == state.goal.number,
        GrantScope::Session(session) => *session == instance,
        GrantScope::Head { .. } => false,
    };
    state.grants.iter().filter(|g| g.kind == kind && in_force(&g.scope)).count() as u64
}

/// The circuit of a task that is tripped before more work or review, if any. `review` tells what is about to
/// start, `tokens` what its lineage used.
#[must_use]
pub fn task_trip(
    state: &LoopState,
    policy: &Policy,
    task: &Task,
    review: bool,
    tokens: u64,
) -> Option<Circuit> {
    let (limits, counters) = (&policy.limits, &task.counters);
    let expired = counters.busy_ms >= limits.lifetime_ms();
    let token_limit = limits
        .tokens_per_task
        .saturating_mul(1 + lineage_grants(state, HoldKind::MaxTokensPerTask, &task.lineage));
    let rows = [
        (counters.refusals >= limits.refusals, Circuit::DispatchRefused),
        (counters.orphans >= limits.orphans, Circuit::Orphans),
        (!review && counters.attempts >= limits.task_attempts, Circuit::MaxTaskAttempts),
        (review && counters.review_cycles >= limits.review_cycles, Circuit::MaxReviewCycles),
        (expired, Circuit::TaskTimeout),
        (tokens >= token_limit, Circuit::MaxTokensPerTask),
    ];
    rows.into_iter().find_map(|(tripped, circuit)| tripped.then_some(circuit))
}

impl Circuit {
    /// Its row of the table.
    #[must_use]
    pub fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.circuit == self).unwrap_or(&TABLE[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_circuit_has_one_row() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.circuit.row().key, row.key);
            assert!(TABLE[i + 1..].iter().all(|r| r.circuit != row.circuit && r.key != row.key));
        }
        assert_eq!(TABLE.len(), 21);
    }

    #[test]
    fn a_cap_counts_what_is_set_aside_and_a_saturated_sum_fits_nothing() {
        let spend = Spend { measured: UsdMicros(40), reserved: UsdMicros(50), ..Spend::default() };
        let cap = Cap { circuit: Circuit::DailyCostCap, limit: UsdMicros(100), spend };
        assert!(cap.fits_now(UsdMicros(10)) && !cap.fits_now(UsdMicros(11)));
        assert!(cap.fits_when_settled(UsdMicros(60)) && !cap.fits_when_settled(UsdMicros(61)));
        let top = Cap { limit: UsdMicros(u64::MAX), ..cap };
        assert!(!top.fits_now(UsdMicros(crate::units::MAX_NUMBER)));
    }
}
