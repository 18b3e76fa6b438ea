//! Owns the conversions of observations and the reports in them. It must not decide.

#[doc(hidden)]
#[macro_export]
macro_rules! observation_shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $record!($wit, observation::Stamp { wall, awake, owner });
        $variant!($wit, observation::GoalSeen { Absent, Present(a), Unusable(a) });
        $variant!($wit, observation::Checkout { Free, Dirty { paths }, Busy { what } });
        $record!($wit, observation::RepoSeen {
            branch, tip, remote_default, checkout, contains_last_merge,
        });
        $record!($wit, observation::Others { committed_today, slots });
        $variant!($wit, report::UsageSource { Result, SessionRecords, AgentPort, Unknown });
        $variant!($wit, report::UsageBasis { PerDispatch, Partial, Cumulative, Unknown });
        $record!($wit, report::Usage { tokens, cost, source, basis });
        $record!($wit, plan::PlannedTask {
            id, title, tier, risk, depends_on, allowed_paths, criteria, estimate,
        });
        $variant!($wit, report::CommitFault {
            Scope, ScopeUnknown, Secret, Escaped, Late, BranchTaken, TooLarge, Git,
        });
        $variant!($wit, report::CheckOutcome {
            Green, Red { commands, output } as CheckOutcomeRed, Unavailable { detail },
        });
        $variant!($wit, report::MergeFault {
            Conflict, Overlap, LostSwap, CandidateRed, ChecksUnavailable, Checkout, Rewound,
            BuriedMerge, UnknownCommit, Git,
        });
        $variant!($wit, report::FailureClass {
            Task, Deadline, Cancelled, OutOfCredit, RateLimited { until }, LoginExpired, Overloaded,
            NetworkDown, ContextTooLong, OutputLimit, ContentRefusal, Machine,
        });
        $variant!($wit, report::Outcome {
            Planned { tasks }, Worked { summary }, WorkBlocked { summary }, WorkFailed { summary },
            Committed { head }, CommitEmpty,
            CommitRefused { why, detail, paths } as OutcomeCommitRefused, Checked(a), Reviewed(a),
            Merged { commit }, AlreadyMerged { tip },
            NotMerged { why, detail, paths } as OutcomeNotMerged,
            Refreshed { head, base } as OutcomeRefreshed,
            Reverted { commit, reapplied } as OutcomeReverted, NoResult { detail },
            InvalidResult { detail }, Failed { class, detail } as OutcomeFailed, Refused { detail },
        });
        $record!($wit, report::Report { dispatch, epoch, usage, outcome });
        $variant!($wit, observation::ProcessTree { Dead, Alive });
        $record!($wit, observation::OrphanSeen { dispatch, tree, run_record, saved });
        $record!($wit, observation::Observation {
            stamp, goal, repo, free_disk_bytes, others, reports, orphans,
        });
    };
}
