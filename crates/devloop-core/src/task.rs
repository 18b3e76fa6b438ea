//! One task and its stages. A stage owns exactly the data that is valid in it.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::finding::Findings;
use crate::hold::Hold;
use crate::ids::{DispatchId, Identity, Oid, TaskId};
use crate::report::CheckOutcome;
use crate::review::ReviewedHead;
use crate::tier::{Risk, Tier};
use crate::units::WallMs;

/// The longest free text the core keeps, in characters.
pub const MAX_TEXT: usize = 8192;

data! {
    /// A unit of work with frozen text and paths.
    pub struct Task {
        /// Its name.
        pub id: TaskId,
        /// The first task of a chain of replacements; cost, tokens and replans count per lineage.
        pub lineage: TaskId,
        /// One line for people.
        pub title: String,
        /// Which routes may work on it.
        pub tier: Tier,
        /// Whether a person approves the merge.
        pub risk: Risk,
        /// Tasks that must be done first.
        pub depends_on: Vec<TaskId>,
        /// Globs of paths the worker may change.
        pub allowed_paths: Vec<String>,
        /// What the planner promises; read by reviewers, never executed.
        pub criteria: Vec<String>,
        /// The planner's guess of the size.
        pub estimate: Option<Estimate>,
        /// Grows with every edit of title, paths, criteria, tier or risk: results for another edition do not
        /// count.
        pub edition: u32,
        /// Where it is in its life.
        pub stage: Stage,
        /// What the circuits measure.
        pub counters: Counters,
        /// Every identity with a commit between `base` and `tip`.
        pub implementers: BTreeSet<Identity>,
        /// The commit the work started from; none before the first work.
        pub base: Option<Oid>,
        /// The last host commit on the task's branch; none when the work starts afresh.
        pub tip: Option<Oid>,
        /// What the checks said of `tip`; none before they ran on it, and when there are none.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        pub checked: Option<CheckOutcome>,
        /// What the last review found.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Findings::is_empty"))]
        pub findings: Findings,
    }

    /// A size guess.
    #[derive(Copy)]
    pub struct Estimate {
        /// Changed lines.
        pub lines: u32,
        /// Changed files.
        pub files: u32,
    }

    /// Lifecycle of a task.
    pub enum Stage {
        /// Not started.
        Ready,
        /// A worker runs.
        Working(DispatchId),
        /// The host commits what the worker left.
        Committing(DispatchId),
        /// A host commit waits for its checks.
        Committed {
            /// The host commit.
            head: Oid,
        },
        /// The operator's checks run on the commit.
        Checking(DispatchId),
        /// Checked; waits for a reviewer.
        AwaitingReview {
            /// The checked commit.
            head: Oid,
        },
        /// A reviewer looks at it.
        InReview(ReviewRun),
        /// To be worked on again with notes.
        Rework {
            /// What the worker must mend, at most [`MAX_TEXT`] characters.
            notes: String,
        },
        /// Passed; waits for its merge.
        MergeReady(ReviewedHead),
        /// Being merged.
        Merging(DispatchId, ReviewedHead),
        /// The target is being merged into the branch.
        Refreshing(DispatchId),
        /// Merged; the checks run on the merge commit.
        Verifying(DispatchId),
        /// Merged, red, being taken back.
        Reverting(DispatchId),
        /// A planner is to replace it.
        Replanning,
        /// Needs a person; everything else goes on.
        Held {
            /// Where an answer lets it continue.
            resume_to: ResumeTo,
            /// Why.
            hold: Hold,
        },
        /// Finished.
        Done(Done),
        /// Given up or replaced; its branch is kept.
        Dropped {
            /// The tasks that took its place.
            replaced_by: Vec<TaskId>,
        },
    }

    /// Who reviews.
    pub enum ReviewRun {
        /// A dispatch of a reviewer route.
        Dispatch(DispatchId),
        /// A pull request whose verdict is polled.
        Forge {
            /// The pull request's number.
            pr: u64,
            /// The commit it shows.
            head: Oid,
            /// When to look again.
            next_poll: WallMs,
        },
    }

    /// Where a held task continues.
    pub enum ResumeTo {
        /// From the start.
        Ready,
        /// Work again with notes.
        Rework {
            /// What to mend.
            notes: String,
        },
        /// Check this commit.
        Committed {
            /// The commit.
            head: Oid,
        },
        /// Review this commit.
        AwaitingReview {
            /// The commit.
            head: Oid,
        },
        /// Merge this head.
        MergeReady(ReviewedHead),
    }

    /// How a task ended well.
    pub enum Done {
        /// By a merge of a reviewed head.
        Merged {
            /// The merge commit.
            commit: Oid,
        },
        /// An operator agreed that nothing more is needed.
        Accepted,
        /// Somebody else brought the change into the target.
        MergedElsewhere,
    }

    /// What the circuits measure on one task.
    #[derive(Default)]
    pub struct Counters {
        /// Work dispatches that reached a model.
        pub attempts: u32,
        /// Dispatches that no provider saw, and reviews that ended without a verdict.
        pub refusals: u32,
        /// Reviews started.
        pub review_cycles: u32,
        /// Refreshes started.
        pub refreshes: u32,
        /// Replans of the lineage.
        pub replans: u32,
        /// Dispatches whose owner died before a run record existed.
        pub orphans: u32,
        /// Merge conflicts answered by an automatic rework.
        pub conflicts: u32,
        /// Merges that lost the swap of the target.
        pub lost_swaps: u32,
        /// How long it was under leases, in awake milliseconds. What it waits for, a person included, does
        /// not count.
        pub busy_ms: u64,
        /// How often the same operation started with the same basis.
        pub repeats: Option<Repeats>,
    }

    /// The memory of the `duplicate_action` circuit.
    pub struct Repeats {
        /// The operation.
        pub op: crate::state::Op,
        /// What it relied on.
        pub basis: crate::basis::Basis,
        /// How often in a row.
        pub count: u32,
    }
}

impl Task {
    /// Not dropped.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !matches!(self.stage, Stage::Dropped { .. })
    }

    /// Done in any way.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(_))
    }

    /// Neither done nor dropped.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_live() && !self.is_done()
    }

    /// The dispatch that has this task's lease, if its stage names one.
    #[must_use]
    pub fn dispatch(&self) -> Option<DispatchId> {
        match &self.stage {
            Stage::Working(d)
            | Stage::Committing(d)
            | Stage::Checking(d)
            | Stage::InReview(ReviewRun::Dispatch(d))
            | Stage::Merging(d, _)
            | Stage::Refreshing(d)
            | Stage::Verifying(d)
            | Stage::Reverting(d) => Some(*d),
            Stage::Ready
            | Stage::Committed { .. }
            | Stage::AwaitingReview { .. }
            | Stage::InReview(ReviewRun::Forge { .. })
            | Stage::Rework { .. }
            | Stage::MergeReady(_)
            | Stage::Replanning
            | Stage::Held { .. }
            | Stage::Done(_)
            | Stage::Dropped { .. } => None,
        }
    }

    /// Its hold, if it has one.
    #[must_use]
    pub fn hold(&self) -> Option<&Hold> {
        match &self.stage {
            Stage::Held { hold, .. } => Some(hold),
            _ => None,
        }
    }

    /// Whether its allowed paths are taken: from the first work until it is done, dropped or held.
    #[must_use]
    pub fn occupies_paths(&self) -> bool {
        !matches!(
            self.stage,
            Stage::Ready | Stage::Replanning | Stage::Held { .. } | Stage::Done(_) | Stage::Dropped { .. }
        ) && (self.base.is_some() || self.dispatch().is_some())
    }

    /// Where a hold opened now would continue.
    #[must_use]
    pub fn resume_point(&self) -> ResumeTo {
        match &self.stage {
            Stage::Committed { head } => ResumeTo::Committed { head: head.clone() },
            Stage::AwaitingReview { head } | Stage::InReview(ReviewRun::Forge { head, .. }) => {
                ResumeTo::AwaitingReview { head: head.clone() }
            }
            Stage::MergeReady(reviewed) | Stage::Merging(_, reviewed) => {
                ResumeTo::MergeReady(reviewed.clone())
            }
            Stage::Rework { notes } => ResumeTo::Rework { notes: notes.clone() },
            Stage::Held { resume_to, .. } => resume_to.clone(),
            Stage::Ready
            | Stage::Working(_)
            | Stage::Committing(_)
            | Stage::Checking(_)
            | Stage::InReview(ReviewRun::Dispatch(_))
            | Stage::Refreshing(_)
            | Stage::Verifying(_)
            | Stage::Reverting(_)
            | Stage::Replanning
            | Stage::Done(_)
            | Stage::Dropped { .. } => self.restart_point(),
        }
    }

    /// Where work on it would continue without regard to its stage: from the last host commit, else from the
    /// start.
    #[must_use]
    pub fn restart_point(&self) -> ResumeTo {
        if self.tip.is_some() { ResumeTo::Rework { notes: String::new() } } else { ResumeTo::Ready }
    }
}

impl From<ResumeTo> for Stage {
    fn from(to: ResumeTo) -> Stage {
        match to {
            ResumeTo::Ready => Stage::Ready,
            ResumeTo::Rework { notes } => Stage::Rework { notes },
            ResumeTo::Committed { head } => Stage::Committed { head },
            ResumeTo::AwaitingReview { head } => Stage::AwaitingReview { head },
            ResumeTo::MergeReady(reviewed) => Stage::MergeReady(reviewed),
        }
    }
}

/// Cuts a text to [`MAX_TEXT`] characters and says so at its end.
#[must_use]
pub fn clip(text: &str) -> String {
    clip_to(text, MAX_TEXT)
}

/// Cuts a text to `max` characters and says so at its end.
pub(crate) fn clip_to(text: &str, max: usize) -> String {
    const MARK: &str = " [cut]";
    if text.chars().count() <= max {
        return text.into();
    }
    let keep = max.saturating_sub(MARK.len());
    let mut out: String = text.chars().take(keep).collect();
    out.push_str(MARK);
    out
}
