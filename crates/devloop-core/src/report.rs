//! What a finished dispatch returned, as facts. Judging it is `settle`'s work.

use alloc::string::String;
use alloc::vec::Vec;

use crate::ids::{DispatchId, Oid};
use crate::plan::PlannedTask;
use crate::review::Review;
use crate::units::{MAX_NUMBER, Tokens, UsdMicros, WallMs};

data! {
    /// The end of one operation. May arrive late, twice or for a lease that is gone.
    pub struct Report {
        /// The operation.
        pub dispatch: DispatchId,
        /// The epoch of the lease it ran under.
        pub epoch: u32,
        /// What it used, when the backend says so.
        pub usage: Option<Usage>,
        /// How it ended.
        pub outcome: Outcome,
    }

    /// What a dispatch used.
    #[derive(Copy)]
    pub struct Usage {
        /// Tokens; all zero when only money was reported.
        pub tokens: Tokens,
        /// Money, when the backend reports money.
        pub cost: Option<UsdMicros>,
        /// Who says so.
        #[cfg_attr(feature = "serde", serde(default))]
        pub source: UsageSource,
        /// What the numbers cover: priced are those of the whole dispatch and nothing else.
        #[cfg_attr(feature = "serde", serde(default))]
        pub basis: UsageBasis,
    }

    /// Who says what was used.
    #[derive(Copy, Default)]
    pub enum UsageSource {
        /// The result of the run.
        Result,
        /// The program's own session records, which survive its death.
        SessionRecords,
        /// Whoever hosts an agent in the plugin's process.
        AgentPort,
        /// Not told: recordings from before it was.
        #[default]
        Unknown,
    }

    /// What the numbers of a usage cover.
    #[derive(Copy, Default)]
    pub enum UsageBasis {
        /// This dispatch and nothing else; also what recordings from before it was told mean.
        #[default]
        PerDispatch,
        /// A part of this dispatch: it used at least this much.
        Partial,
        /// A session that may be older than the dispatch: what was booked before would count again.
        Cumulative,
        /// Nobody knows.
        Unknown,
    }

    /// How an operation ended.
    pub enum Outcome {
        /// A plan.
        Planned {
            /// Its tasks.
            tasks: Vec<PlannedTask>,
        },
        /// A worker says that it is done.
        Worked {
            /// Its own words, bounded.
            summary: String,
        },
        /// A worker says that it cannot go on.
        WorkBlocked {
            /// Its own words, bounded.
            summary: String,
        },
        /// A worker says that it failed.
        WorkFailed {
            /// Its own words, bounded.
            summary: String,
        },
        /// The host committed the work.
        Committed {
            /// The commit.
            head: Oid,
        },
        /// The worker left nothing to commit.
        CommitEmpty,
        /// The host would not commit, or would not take a plan or a review over.
        CommitRefused {
            /// Why.
            why: CommitFault,
            /// What was found, bounded.
            detail: String,
            /// The paths it is about.
            paths: Vec<String>,
        },
        /// The checks ran or could not run.
        Checked(CheckOutcome),
        /// A reviewer's word.
        Reviewed(Review),
        /// The target now contains the head.
        Merged {
            /// The merge commit, which is the target's tip.
            commit: Oid,
        },
        /// The target contained the head already.
        AlreadyMerged {
            /// The target's tip.
            tip: Oid,
        },
        /// The merge was not published; for a check or a review: its commit is not in the repository.
        NotMerged {
            /// Why.
            why: MergeFault,
            /// What was found, bounded.
            detail: String,
            /// The paths it is about.
            paths: Vec<String>,
        },
        /// The target was merged into the branch.
        Refreshed {
            /// The branch's new head.
            head: Oid,
            /// The target commit it now starts from.
            base: Oid,
        },
        /// A merge was taken back.
        Reverted {
            /// The revert commit, which is the target's tip.
            commit: Oid,
            /// The task's change again on top of it: the branch's new head, from which a rework continues.
            reapplied: Oid,
        },
        /// Nothing usable came back.
        NoResult {
            /// What is known of it, bounded.
            detail: String,
        },
        /// Something came back that is not a result of this dispatch.
        InvalidResult {
            /// What is wrong with it, bounded.
            detail: String,
        },
        /// The operation failed.
        Failed {
            /// Whose fault.
            class: FailureClass,
            /// What is known of it, bounded.
            detail: String,
        },
        /// No provider was reached; nothing was spent.
        Refused {
            /// Why, bounded.
            detail: String,
        },
    }

    /// The checks of a commit.
    pub enum CheckOutcome {
        /// All passed.
        Green,
        /// Some failed.
        Red {
            /// The failing commands as one line each, at most 50.
            commands: Vec<String>,
            /// The end of their output, bounded.
            output: String,
        },
        /// A check could not start or timed out: never the task's fault.
        Unavailable {
            /// Why, bounded.
            detail: String,
        },
    }

    /// Why the host would not commit, or not take a result over.
    #[derive(Copy)]
    pub enum CommitFault {
        /// Paths outside the contract.
        Scope,
        /// The changed paths could not be told.
        ScopeUnknown,
        /// Something that looks like a secret.
        Secret,
        /// The primary checkout changed during the run.
        Escaped,
        /// The worker's branch moved after it was ended.
        Late,
        /// The branch name is taken by other work.
        BranchTaken,
        /// More than one review can judge.
        TooLarge,
        /// git would not.
        Git,
    }

    /// Why a merge, refresh or revert was not published.
    #[derive(Copy)]
    pub enum MergeFault {
        /// Both sides changed the same lines.
        Conflict,
        /// The target moved and its change overlaps the task's paths.
        Overlap,
        /// The target moved during the merge.
        LostSwap,
        /// The candidate is red though the head was green.
        CandidateRed,
        /// The candidate could not be checked.
        ChecksUnavailable,
        /// The user's checkout is in the way: dirty, or a merge of a person in progress.
        Checkout,
        /// The target no longer contains what this relies on: the task's base, or the merge to take back.
        Rewound,
        /// Somebody committed on top of the merge that should be taken back.
        BuriedMerge,
        /// The head or base is not in the repository.
        UnknownCommit,
        /// git would not.
        Git,
    }

    /// Whose fault a failure is.
    pub enum FailureClass {
        /// The task's: the model worked and failed.
        Task,
        /// It ran into its deadline.
        Deadline,
        /// It was ended on request.
        Cancelled,
        /// The provider's account has no credit.
        OutOfCredit,
        /// The provider's limit is reached.
        RateLimited {
            /// When it resets, if known.
            until: Option<WallMs>,
        },
        /// The login is no longer valid.
        LoginExpired,
        /// The provider is overloaded.
        Overloaded,
        /// The network is down.
        NetworkDown,
        /// What was asked does not fit into the model's context window: it is too large for this model.
        ContextTooLong,
        /// The model ran into the limit of its output.
        OutputLimit,
        /// The provider will not have the content.
        ContentRefusal,
        /// The machine: disk, descriptors, permissions.
        Machine,
    }
}

impl Usage {
    /// What one dispatch used, and nothing else.
    #[must_use]
    pub fn per_dispatch(source: UsageSource, tokens: Tokens, cost: Option<UsdMicros>) -> Usage {
        Usage { tokens, cost, source, basis: UsageBasis::PerDispatch }
    }

    /// Whether it says for certain that nothing was used.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.basis == UsageBasis::PerDispatch
            && self.tokens.total() == 0
            && self.cost.is_none_or(|cost| cost.0 == 0)
    }

    /// The same with every number at most [`MAX_NUMBER`]: what the ledger and a document can hold.
    #[must_use]
    pub fn bounded(self) -> Usage {
        let tokens = Tokens {
            input_uncached: self.tokens.input_uncached.min(MAX_NUMBER),
            cache_read: self.tokens.cache_read.min(MAX_NUMBER),
            cache_write: self.tokens.cache_write.min(MAX_NUMBER),
            output: self.tokens.output.min(MAX_NUMBER),
            reasoning: self.tokens.reasoning.min(MAX_NUMBER),
        };
        Usage { tokens, cost: self.cost.map(|cost| UsdMicros(cost.0.min(MAX_NUMBER))), ..self }
    }
}

impl FailureClass {
    /// Whether the route is at fault, not the task.
    #[must_use]
    pub fn is_route(&self) -> bool {
        match self {
            FailureClass::OutOfCredit
            | FailureClass::RateLimited { .. }
            | FailureClass::LoginExpired
            | FailureClass::Overloaded
            | FailureClass::NetworkDown => true,
            FailureClass::Task
            | FailureClass::Deadline
            | FailureClass::Cancelled
            | FailureClass::ContextTooLong
            | FailureClass::OutputLimit
            | FailureClass::ContentRefusal
            | FailureClass::Machine => false,
        }
    }

    /// Whether the provider said no to what was asked of it. It costs an attempt where a model worked before,
    /// and asking the same again without any work would go on for ever.
    #[must_use]
    pub fn is_about_content(&self) -> bool {
        matches!(
            self,
            FailureClass::ContextTooLong | FailureClass::OutputLimit | FailureClass::ContentRefusal
        )
    }
}

impl Report {
    /// Whether no model worked although the provider was asked: it said no to the content, and billed
    /// nothing.
    #[must_use]
    pub fn is_unworked(&self) -> bool {
        let about = matches!(&self.outcome, Outcome::Failed { class, .. } if class.is_about_content());
        about && self.usage.is_some_and(|usage| usage.is_nothing())
    }
}
