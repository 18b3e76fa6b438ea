//! Proofs: a pass that names exactly one head, and the only thing a merge accepts.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::finding::{Found, Severity};
use crate::ids::{Identity, Oid};
use crate::policy::Independence;

data! {
    /// A reviewer's word.
    #[derive(Copy)]
    pub enum Verdict {
        /// Merge it.
        Pass,
        /// Merge it; notes for later.
        PassWithNotes,
        /// Mend it.
        Rework,
        /// The task itself is wrong.
        Replan,
        /// Cannot be judged.
        Blocked,
    }

    /// What a reviewer returned.
    pub struct Review {
        /// The verdict.
        pub verdict: Verdict,
        /// The commit the reviewer says it looked at.
        pub head: Oid,
        /// Notes, at most 8,192 characters.
        pub notes: String,
        /// What it found, at most [`crate::finding::MAX_FINDINGS`].
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
        pub findings: Vec<Found>,
    }
}

/// A verdict and findings that contradict each other: such a review is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// It asks for rework and names nothing that keeps the change from being merged.
    NothingToMend,
    /// It passes a change and names what keeps it from being merged.
    PassWithBlocking,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Contradiction::NothingToMend => "a REWORK must name at least one blocking finding",
            Contradiction::PassWithBlocking => "a PASS must name no blocking finding",
        })
    }
}

impl Verdict {
    /// Merge it, with or without notes.
    #[must_use]
    pub fn is_pass(self) -> bool {
        match self {
            Verdict::Pass | Verdict::PassWithNotes => true,
            Verdict::Rework | Verdict::Replan | Verdict::Blocked => false,
        }
    }
}

impl Review {
    /// A verdict on a commit, without notes and findings.
    #[must_use]
    pub fn bare(verdict: Verdict, head: Oid) -> Review {
        Review { verdict, head, notes: String::new(), findings: Vec::new() }
    }

    /// What keeps it from being a result; none for a review that agrees with itself.
    #[must_use]
    pub fn contradiction(&self) -> Option<Contradiction> {
        let blocking = self.findings.iter().any(|one| one.severity == Severity::Blocking);
        match self.verdict {
            Verdict::Rework if !blocking => Some(Contradiction::NothingToMend),
            Verdict::Pass | Verdict::PassWithNotes if blocking => Some(Contradiction::PassWithBlocking),
            Verdict::Pass | Verdict::PassWithNotes | Verdict::Rework | Verdict::Replan | Verdict::Blocked => {
                None
            }
        }
    }
}

/// Proof that a passing verdict names exactly this head and base, by somebody who did not write it.
/// Built only by [`ReviewedHead::prove`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReviewedHead {
    head: Oid,
    base: Oid,
    reviewer: Identity,
}

data! {
    /// Why a review proves nothing.
    #[derive(Copy)]
    pub enum ReviewFault {
        /// The verdict is no pass.
        NotAPass,
        /// It names another commit.
        WrongHead,
        /// The reviewer wrote part of the change.
        SameIdentity,
    }
}

impl ReviewedHead {
    /// Judges a review of `head` (measured from `base`) by `reviewer`.
    ///
    /// # Errors
    /// The first [`ReviewFault`].
    pub fn prove(
        review: &Review,
        head: &Oid,
        base: &Oid,
        reviewer: &Identity,
        implementers: &BTreeSet<Identity>,
        rule: Independence,
    ) -> Result<ReviewedHead, ReviewFault> {
        if review.head != *head {
            return Err(ReviewFault::WrongHead);
        }
        if !is_independent(reviewer, implementers, rule) {
            return Err(ReviewFault::SameIdentity);
        }
        match review.verdict {
            Verdict::Pass | Verdict::PassWithNotes => {
                Ok(ReviewedHead { head: head.clone(), base: base.clone(), reviewer: reviewer.clone() })
            }
            Verdict::Rework | Verdict::Replan | Verdict::Blocked => Err(ReviewFault::NotAPass),
        }
    }

    /// The commit that passed.
    #[must_use]
    pub fn head(&self) -> &Oid {
        &self.head
    }
    /// The commit it was measured from.
    #[must_use]
    pub fn base(&self) -> &Oid {
        &self.base
    }
    /// Who passed it.
    #[must_use]
    pub fn reviewer(&self) -> &Identity {
        &self.reviewer
    }
}

/// Whether `reviewer` may judge work of `implementers` under the rule.
#[must_use]
pub fn is_independent(reviewer: &Identity, implementers: &BTreeSet<Identity>, rule: Independence) -> bool {
    implementers.iter().all(|who| differs(reviewer, who, rule))
}

/// Whether the rule takes the two for different people.
pub(crate) fn differs(reviewer: &Identity, who: &Identity, rule: Independence) -> bool {
    match rule {
        Independence::Model => reviewer != who,
        Independence::Vendor => reviewer.vendor() != who.vendor(),
    }
}

/// The checks behind a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateChecks {
    /// The target has not moved since the reviewed base, or there are no checks: the task's own green checks
    /// stand.
    Standing,
    /// The target moved and the checks ran green on the candidate commit.
    Green,
}

/// The only thing that publishes a merge: what was reviewed, onto which target commit, as which tree, with
/// which checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeProof {
    /// Head and base that passed.
    pub reviewed_head: Oid,
    /// The target commit the swap expects.
    pub target: Oid,
    /// The tree of the candidate commit.
    pub tree: Oid,
    /// Why that tree may be published.
    pub checks: CandidateChecks,
}
