//! Owns the conversions of reasons with their obstacles. It must not decide.

#[doc(hidden)]
#[macro_export]
macro_rules! reason_shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $variant!($wit, reason::Refusal {
            NoQuestion, NoSuchHold { key }, Stale { key, answer, by, at } as RefusalStale,
            Reopened { key, revision } as RefusalReopened, Ambiguous { keys },
            NotOffered { key, offered } as RefusalNotOffered, UnknownTask { task },
            TaskBusy { task, op } as RefusalTaskBusy, TaskOver { task },
            BadEdit { field, rule } as RefusalBadEdit, EmptyEdit, AlreadyPaused, GoalComplete,
            GoalNotComplete, NotStarted,
        });
        $variant!($wit, reason::WaitWhy {
            Lease, Time, Shared, NoopBackend { op, subject, route } as WaitWhyNoopBackend,
        });
        $variant!($wit, reason::Reason {
            Settled { op, subject } as ReasonSettled, UsageSettledLate, OrphanSettled { subject },
            OrphanAlive { subject }, LeaseAdopted { op }, DeadlinePassed { subject }, ClockMoved,
            PolicyChanged, GoalStarted, GoalEditSeen, GoalTextReturned, Held { key },
            HoldWithdrawn { key }, Started { op, subject } as ReasonStarted, NoChecks { task },
            PlanWanted, GoalReached, Answered { key, answer } as ReasonAnswered, Paused, Resumed,
            TaskEdited { task }, GoalArchived, Refused(a), StillPaused, StillComplete, Unarmed,
            Wait { why, until } as ReasonWait, Halted,
        });
    };
}
