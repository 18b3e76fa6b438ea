//! Work asked of the host, complete in itself: performing one needs no look into the state.

use alloc::string::String;
use alloc::vec::Vec;

use crate::finding::Finding;
use crate::hold::HoldKey;
use crate::ids::{Branch, DispatchId, Identity, Oid, RouteKey, TaskId};
use crate::report::CheckOutcome;
use crate::task::Estimate;
use crate::tier::{Risk, Tier};

data! {
    /// What the host is asked to do.
    pub enum Effect {
        /// Run a model, at most once.
        Dispatch {
            /// The lease's id.
            dispatch: DispatchId,
            /// The lease's epoch, to be reported back.
            epoch: u32,
            /// The route.
            route: RouteKey,
            /// How long it may run, in milliseconds awake.
            limit_ms: u64,
            /// What it is to do.
            job: Job,
        },
        /// Commit what a worker left, probed by dispatch id first.
        Commit {
            /// The lease's id.
            dispatch: DispatchId,
            /// The lease's epoch.
            epoch: u32,
            /// The dispatch whose worktree holds the change.
            work: DispatchId,
            /// The contract the change must keep to.
            contract: Contract,
            /// The route that worked.
            route: RouteKey,
        },
        /// Run the operator's checks on a commit. Repeatable.
        Check {
            /// The lease's id.
            dispatch: DispatchId,
            /// The lease's epoch.
            epoch: u32,
            /// The commit.
            commit: Oid,
            /// The task's contract; none for a check of the target itself.
            contract: Option<Contract>,
            /// Red checks that a person accepted: they end no run of checks early.
            #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
            known_red: Vec<String>,
        },
        /// Merge a reviewed head, probed first, published by compare-and-swap.
        Merge {
            /// The lease's id.
            dispatch: DispatchId,
            /// The lease's epoch.
            epoch: u32,
            /// The contract.
            contract: Contract,
            /// The head that passed.
            head: Oid,
            /// The base it was measured from.
            base: Oid,
            /// The branch to merge into.
            target: Branch,
            /// Red checks that a person accepted.
            known_red: Vec<String>,
        },
        /// Merge the target into the task's branch, probed first.
        Refresh {
            /// The lease's id.
            dispatch: DispatchId,
            /// The lease's epoch.
            epoch: u32,
            /// The contract.
            contract: Contract,
            /// The branch's head.
            head: Oid,
            /// The branch whose tip is merged in.
            target: Branch,
        },
        /// Run the checks on a published merge. Repeatable.
        Verify {
            /// The lease's id.
            dispatch: DispatchId,
            /// The lease's epoch.
            epoch: u32,
            /// The merge commit.
            commit: Oid,
            /// Red checks that a person accepted.
            known_red: Vec<String>,
        },
        /// Take a merge back, probed first, published by compare-and-swap from exactly that merge.
        Revert {
            /// The lease's id.
            dispatch: DispatchId,
            /// The lease's epoch.
            epoch: u32,
            /// The contract.
            contract: Contract,
            /// The merge commit.
            commit: Oid,
            /// The target branch.
            target: Branch,
        },
        /// Remove a finished dispatch's worktree. Idempotent.
        RemoveWorktree {
            /// The dispatch.
            dispatch: DispatchId,
        },
        /// End a running dispatch and all its processes. Idempotent.
        Cancel {
            /// The dispatch.
            dispatch: DispatchId,
        },
        /// Make the target branch at the checkout's commit. Idempotent.
        CreateTarget {
            /// The branch.
            branch: Branch,
        },
        /// Beat at once. Idempotent.
        Wake,
        /// Tell the operator, at least once.
        Notify {
            /// The hold it is about.
            key: HoldKey,
            /// One sentence.
            text: String,
        },
    }

    /// What a model is to do.
    pub enum Job {
        /// Make a plan.
        Plan {
            /// The commit to look at.
            base: Oid,
            /// The task to be replaced, with why it does not work out.
            replaces: Option<Contract>,
            /// What was wrong with the last plan; empty at first.
            notes: String,
        },
        /// Work on a task.
        Work {
            /// The contract.
            contract: Contract,
            /// Where to start.
            start: Start,
            /// What to mend; empty at first.
            notes: String,
            /// What the last review found.
            #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
            findings: Vec<Finding>,
        },
        /// Review a commit.
        Review {
            /// The contract.
            contract: Contract,
            /// The commit.
            head: Oid,
            /// What the review before found, by name.
            #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
            earlier: Vec<Finding>,
            /// What the checks said of the commit; none when there are none.
            #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
            checks: Option<CheckOutcome>,
        },
    }

    /// Where a worker starts.
    pub enum Start {
        /// On a new branch at the base; an older branch of that name is retired.
        Fresh,
        /// On the task's branch at this commit.
        Continue {
            /// The last host commit.
            tip: Oid,
        },
    }

    /// A task's frozen terms.
    pub struct Contract {
        /// The task.
        pub task: TaskId,
        /// Its edition.
        pub edition: u32,
        /// Its title.
        pub title: String,
        /// Its tier.
        pub tier: Tier,
        /// Its risk.
        pub risk: Risk,
        /// What may be changed.
        pub allowed_paths: Vec<String>,
        /// What is promised.
        pub criteria: Vec<String>,
        /// Size guess.
        pub estimate: Option<Estimate>,
        /// The commit it starts from.
        pub base: Oid,
        /// Who worked on it so far.
        pub implementers: Vec<Identity>,
    }
}

impl Effect {
    /// The lease the effect belongs to, if it ends in a report.
    #[must_use]
    pub fn lease(&self) -> Option<(DispatchId, u32)> {
        match self {
            Effect::Dispatch { dispatch, epoch, .. }
            | Effect::Commit { dispatch, epoch, .. }
            | Effect::Check { dispatch, epoch, .. }
            | Effect::Merge { dispatch, epoch, .. }
            | Effect::Refresh { dispatch, epoch, .. }
            | Effect::Verify { dispatch, epoch, .. }
            | Effect::Revert { dispatch, epoch, .. } => Some((*dispatch, *epoch)),
            Effect::RemoveWorktree { .. }
            | Effect::Cancel { .. }
            | Effect::CreateTarget { .. }
            | Effect::Wake
            | Effect::Notify { .. } => None,
        }
    }
}
