//! The digests that a result relies on, and the one function that compares them.

use crate::ids::{Digest, Oid};
use crate::policy::{Acceptance, Policy, ReviewPolicy};
use crate::state::LoopState;
use crate::task::Task;

data! {
    /// What was true when a dispatch started. A result counts only while all of it still is.
    pub struct Basis {
        /// The goal's edition.
        pub goal_epoch: u32,
        /// The task's edition of title, paths and criteria; zero for planning and for the target.
        pub contract: u32,
        /// The operator's checks.
        pub acceptance: Acceptance,
        /// The rule reviewers are chosen by.
        pub review_policy: ReviewPolicy,
        /// The commit the change is measured from.
        pub base: Option<Oid>,
        /// The commit under consideration.
        pub head: Option<Oid>,
    }

    /// The first part of a basis that differs.
    #[derive(Copy)]
    pub enum BasisField {
        /// The goal was edited and replanned.
        GoalEpoch,
        /// The task was edited.
        Contract,
        /// The operator's checks changed.
        Acceptance,
        /// The review rule changed.
        ReviewPolicy,
        /// The base moved.
        Base,
        /// The head moved.
        Head,
    }
}

impl Basis {
    /// The basis of `task` as it stands now.
    #[must_use]
    pub fn of_task(state: &LoopState, policy: &Policy, task: &Task) -> Basis {
        Basis {
            goal_epoch: state.goal.epoch,
            contract: task.edition,
            acceptance: policy.acceptance.clone(),
            review_policy: policy.review,
            base: task.base.clone(),
            head: task.tip.clone(),
        }
    }

    /// The basis of planning or of a check of the target.
    #[must_use]
    pub fn of_loop(state: &LoopState, policy: &Policy, head: Option<Oid>) -> Basis {
        Basis {
            goal_epoch: state.goal.epoch,
            contract: 0,
            acceptance: policy.acceptance.clone(),
            review_policy: policy.review,
            base: None,
            head,
        }
    }

    /// The first field in which the two differ, or none when a result still counts.
    #[must_use]
    pub fn difference(&self, now: &Basis) -> Option<BasisField> {
        let fields = [
            (self.goal_epoch != now.goal_epoch, BasisField::GoalEpoch),
            (self.contract != now.contract, BasisField::Contract),
            (self.acceptance != now.acceptance, BasisField::Acceptance),
            (self.review_policy != now.review_policy, BasisField::ReviewPolicy),
            (self.base != now.base, BasisField::Base),
            (self.head != now.head, BasisField::Head),
        ];
        fields.into_iter().find_map(|(differs, field)| differs.then_some(field))
    }
}

impl Acceptance {
    /// The digest, when there are checks.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        match self {
            Acceptance::Absent => None,
            Acceptance::Digest(digest) => Some(digest),
        }
    }
}
