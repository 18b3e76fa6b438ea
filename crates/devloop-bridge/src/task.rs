//! Owns the conversions of a task and its stages. It must not decide.

#[doc(hidden)]
#[macro_export]
macro_rules! task_shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $record!($wit, task::Estimate { lines, files });
        $variant!($wit, task::ResumeTo {
            Ready, Rework { notes }, Committed { head }, AwaitingReview { head }, MergeReady(a),
        });
        $variant!($wit, task::ReviewRun { Dispatch(a), Forge { pr, head, next_poll } as ReviewRunForge });
        $variant!($wit, task::Done { Merged { commit }, Accepted, MergedElsewhere });
        $variant!($wit, task::Stage {
            Ready, Working(a), Committing(a), Committed { head }, Checking(a), AwaitingReview { head },
            InReview(a), Rework { notes }, MergeReady(a), Merging(a, b), Refreshing(a), Verifying(a),
            Reverting(a), Replanning, Held { resume_to, hold } as StageHeld, Done(a),
            Dropped { replaced_by },
        });
        $record!($wit, task::Repeats { op, basis, count });
        $record!($wit, task::Counters {
            attempts, refusals, review_cycles, refreshes, replans, orphans, conflicts, lost_swaps,
            busy_ms, repeats,
        });
        $record!($wit, task::Task {
            id, lineage, title, tier, risk, depends_on, allowed_paths, criteria, estimate, edition,
            stage, counters, implementers, base, tip, checked, findings,
        });
    };
}
