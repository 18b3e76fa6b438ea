//! Owns the conversions of events. It must not decide.

#[doc(hidden)]
#[macro_export]
macro_rules! event_shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $variant!($wit, event::Counter { Conflict, LostSwap, Orphan, Refusal });
        $variant!($wit, event::Event {
            ClockAnchored { wall, awake, active } as EventClockAnchored,
            ClockStepped { wall, awake, active } as EventClockStepped, DayRolled { day },
            PolicyChanged { digest }, GoalStarted { number, digest, at, branch } as EventGoalStarted,
            GoalEditSeen { digest, at } as EventGoalEditSeen, GoalTextReturned,
            GoalContinued { digest }, GoalReplanned { digest }, GoalCompleted { at }, GoalArchived,
            TargetVerified { commit, known_red } as EventTargetVerified, TargetUnverified,
            TargetChosen { branch }, LastMergeForgotten,
            LeaseTaken { dispatch, lease } as EventLeaseTaken,
            LeaseEnding { dispatch, why } as EventLeaseEnding,
            LeaseAdopted { dispatch, owner, deadline } as EventLeaseAdopted,
            LeaseEnded { dispatch, at } as EventLeaseEnded, DispatchRefused { dispatch },
            AttemptReturned { dispatch }, DispatchOrphaned { dispatch },
            UsageSettled { dispatch, amount, certainty, tokens } as EventUsageSettled,
            UsageUnattributed { dispatch, day, amount } as EventUsageUnattributed,
            PlanWanted { replaces }, PlanAccepted { tasks, replaces } as EventPlanAccepted,
            PlanRefused { detail }, PlanCountersReset,
            WorkCommitted { task, head, implementer } as EventWorkCommitted,
            Refreshed { task, head, base } as EventRefreshed,
            Checked { task, outcome } as EventChecked,
            FindingsNamed { task, findings } as EventFindingsNamed,
            ReviewPassed { task, head, base, reviewer } as EventReviewPassed,
            Merged { task, commit } as EventMerged,
            MergedElsewhere { task, tip } as EventMergedElsewhere,
            MergeReverted { task, commit, reapplied } as EventMergeReverted,
            TaskMoved { task, to } as EventTaskMoved, Counted { task, counter } as EventCounted,
            CountersReset { task }, StartedAfresh { task }, ReplanRequested { task },
            TaskAccepted { task }, TaskDropped { task },
            DependencyRemoved { task, dependency } as EventDependencyRemoved,
            TaskEdited { task, edit } as EventTaskEdited,
            HoldOpened { subject, hold, resume_to } as EventHoldOpened,
            HoldLifted { key, at } as EventHoldLifted,
            HoldAcknowledged { key, by, at } as EventHoldAcknowledged, AnswerGiven { record },
            GrantGiven { grant }, GrantConsumed { kind, subject } as EventGrantConsumed,
            RouteGated { route, gate } as EventRouteGated,
            RouteRefused { route, subject } as EventRouteRefused, Paused { by, at } as EventPaused,
            Resumed { by, at } as EventResumed,
        });
    };
}
