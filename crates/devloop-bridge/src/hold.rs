//! Owns the conversions of holds and the answers they take. It must not decide.

#[doc(hidden)]
#[macro_export]
macro_rules! hold_shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $variant!($wit, answer::Answer {
            Retry, RetryFresh, Review, Accept, Approve, Drop, Stop, Allow, GoOn, Continue, Replan,
            Branch, Open,
        });
        $variant!($wit, hold::Subject { Planning, Route(a), Goal, Target, Loop, Task(a) });
        $variant!($wit, hold::HoldKind {
            EmptyTask, ScopeViolation, ScopeCheckFailed, NoReviewPass, StaleReviewSha, UnknownReviewSha,
            ReviewerIdentityConflict, SecurityHighRisk, MaxTaskAttempts, RepeatedTestFailure,
            MaxReviewCycles, NoConvergence, DailyCostCap, SessionCostCap, GoalCostCap, TaskCostCap,
            AllProjectsDailyCap, ReserveExceedsCap, MaxTokensPerTask, BlockedTask, MergeWedged,
            UnknownBase, MergeOntoTrunk, MergeDetachedHead, DispatchRefused, ReviewRequestedReplan,
            Replans, AcceptanceFailed, CheckUnavailable, TaskOverBudget, PreprBlocked,
            PreprUnavailable, ForgeMergeRefused, InvalidAgentResult, ResultTransitionFailed,
            BackendFailed, ParentCommitFailed, MissingReviewWorktree, MissingAgentResult, TaskTimeout,
            NoProgress, DuplicateAction, TaskBranchTaken, Orphans, Refreshes, MergeConflict, BaseMoved,
            PostMergeRed, DependencyDropped, NoIndependentReviewer, LateCommit, SecretInDiff,
            EscapedWrite, PlanAttempts, PlanRefusals, EmptyPlan, GoalChanged, GoalUnusable,
            ChecksRedAtBase, TargetRewound, RouteClosed, QuotaWaitTooLong,
        });
        $record!($wit, hold::HoldKey { subject, kind });
        $record!($wit, hold::Acknowledged { by, at });
        $record!($wit, hold::Hold { kind, revision, opened_at, detail, items, acknowledged });
    };
}
