//! The merge of a reviewed head: probed, tried, checked as the very commit that is then published by
//! compare-and-swap. Nothing is published without a `MergeProof`, and nothing of a person's is touched.

use std::sync::PoisonError;

use devloop_core::effect::Contract;
use devloop_core::ids::{Branch, DispatchId, Oid};
use devloop_core::report::{CheckOutcome, FailureClass, MergeFault, Outcome};
use devloop_core::review::{CandidateChecks, MergeProof};
use devloop_core::task::clip;

use super::Shared;
use super::check::{Subject, run_checks};
use super::chores::full_ref;
use crate::backend::stopped;
use crate::error::HostError;
use crate::git::commit::Trailers;
use crate::git::merge::{Trial, candidate, overlap, probe_published, trial};
use crate::git::publish::{NotReady, Published, publish, ready};
use crate::git::{GitError, Identity, RepoPath};
use crate::process::CancelToken;

/// How often a merge starts again when the target moved in between, before the core is told.
const TRIES: u32 = 2;
/// How many paths a report names.
const PATHS_SHOWN: usize = 50;

/// The merge that is asked for.
pub(super) struct Wish<'a> {
    pub dispatch: DispatchId,
    pub contract: &'a Contract,
    pub head: &'a Oid,
    pub base: &'a Oid,
    pub target: &'a Branch,
    pub known_red: &'a [String],
}

/// What is in the way of one try, or that the target moved under it.
enum Ended {
    Report(Outcome),
    Lost,
}

/// Merges.
pub(super) fn perform(shared: &Shared, wish: &Wish<'_>, cancel: &CancelToken) -> Outcome {
    for _ in 0..TRIES {
        match attempt(shared, wish, cancel) {
            Ok(Ended::Report(outcome)) => return outcome,
            Ok(Ended::Lost) => {}
            Err(error) => return fault(MergeFault::Git, error, Vec::new()),
        }
    }
    fault(MergeFault::LostSwap, format_args!("{} moved during the merge", wish.target), Vec::new())
}

/// A merge, refresh or revert that was not published.
pub(super) fn fault(why: MergeFault, detail: impl std::fmt::Display, mut paths: Vec<String>) -> Outcome {
    paths.truncate(PATHS_SHOWN);
    Outcome::NotMerged { why, detail: clip(&detail.to_string()), paths }
}

/// Names as a report shows them.
pub(super) fn shown(paths: &[RepoPath]) -> Vec<String> {
    paths.iter().take(PATHS_SHOWN).map(ToString::to_string).collect()
}

/// Why a checkout is in the way, in words and paths.
pub(super) fn in_the_way(not_ready: &NotReady) -> Outcome {
    let (detail, paths) = match not_ready {
        NotReady::Dirty { checkout, paths, total } => {
            (format!("{} has {total} changed files that are not committed", checkout.display()), shown(paths))
        }
        NotReady::InProgress { checkout, operation } => {
            (format!("a {operation} is in progress in {}", checkout.display()), Vec::new())
        }
        NotReady::InTheWay { checkout, paths } => {
            (format!("files in {} stand where the merge has files", checkout.display()), shown(paths))
        }
        NotReady::Locked { checkout } => (format!("another git works in {}", checkout.display()), Vec::new()),
        NotReady::Unusable { checkout } => (format!("{} cannot be used", checkout.display()), Vec::new()),
        NotReady::Refused { checkout, said } => {
            (format!("git will not update {}: {said}", checkout.display()), Vec::new())
        }
    };
    fault(MergeFault::Checkout, detail, paths)
}

fn attempt(shared: &Shared, wish: &Wish<'_>, cancel: &CancelToken) -> Result<Ended, HostError> {
    let (repo, name) = (shared.repo(), full_ref(wish.target));
    let report = |outcome| Ok(Ended::Report(outcome));
    let at = repo.resolve(&name)?;
    // The commit that the branch stands on is there.
    for commit in [wish.head, wish.base].into_iter().filter(|commit| at.as_ref() != Some(*commit)) {
        if repo.resolve(commit.as_str())?.is_none() {
            let detail = format!("commit {commit} is not in the repository");
            return report(fault(MergeFault::UnknownCommit, detail, Vec::new()));
        }
    }
    let Some(tip) = at else {
        let detail = format!("the branch {} does not exist", wish.target);
        return report(fault(MergeFault::UnknownCommit, detail, Vec::new()));
    };
    if let Some(commit) = probe_published(repo, &name, wish.base, wish.dispatch, wish.head)? {
        shared.fence()?;
        take_checkout_along(shared, &name, &commit)?;
        return report(Outcome::Merged { commit });
    }
    if repo.contains(&tip, wish.head)? {
        return report(Outcome::AlreadyMerged { tip });
    }
    if !repo.contains(&tip, wish.base)? {
        let detail = format!("{} no longer contains {}, from which the task started", wish.target, wish.base);
        return report(fault(MergeFault::Rewound, detail, Vec::new()));
    }
    let tree = match trial(repo, &tip, wish.head)? {
        Trial::Clean { tree } => tree,
        Trial::Conflict { paths } => {
            let detail = "the target and the task changed the same lines";
            return report(fault(MergeFault::Conflict, detail, shown(&paths)));
        }
    };
    let paths = if tip == *wish.base { Vec::new() } else { overlap(repo, wish.base, &tip, wish.head)? };
    if !paths.is_empty() {
        let detail = "the target moved and changed paths that the task changed too";
        return report(fault(MergeFault::Overlap, detail, shown(&paths)));
    }
    let trailers = trailers(wish.contract, wish.dispatch);
    let commit = candidate(repo, &tip, wish.head, &tree, &trailers, &Identity::devloop())?;
    // Publishing looks again; looking before it saves checks whose answer could not be used.
    if needs_checks(shared, wish, &tip)
        && let Some(not_ready) = ready(repo, &name, &commit, &tip)?
    {
        return report(in_the_way(&not_ready));
    }
    let checks = match check_candidate(shared, wish, &tip, &commit, cancel)? {
        Ok(checks) => checks,
        Err(outcome) => return report(outcome),
    };
    let proof = MergeProof { reviewed_head: wish.head.clone(), target: tip, tree, checks };
    publish_proven(shared, &name, &proof, &commit)
}

/// Trailers of a commit of the host on a task.
pub(super) fn trailers(contract: &Contract, dispatch: DispatchId) -> Trailers<'_> {
    Trailers { task: &contract.task, dispatch, route: None, contract: None }
}

/// Did the target move since the reviewed base, and is there anything to check?
fn needs_checks(shared: &Shared, wish: &Wish<'_>, tip: &Oid) -> bool {
    tip != wish.base && !shared.config().acceptance.is_empty()
}

/// Runs the checks on the candidate when the target moved since the reviewed base; else the head's own stand.
fn check_candidate(
    shared: &Shared,
    wish: &Wish<'_>,
    tip: &Oid,
    commit: &Oid,
    cancel: &CancelToken,
) -> Result<Result<CandidateChecks, Outcome>, HostError> {
    if !needs_checks(shared, wish, tip) {
        return Ok(Ok(CandidateChecks::Standing));
    }
    // Measured from the target's tip, the candidate's change is the task's own.
    let change = Some((tip, wish.contract.allowed_paths.as_slice()));
    let subject = Subject { commit, change, known_red: Some(wish.known_red) };
    Ok(match run_checks(shared, wish.dispatch, &subject, cancel)? {
        Some(CheckOutcome::Green) => Ok(CandidateChecks::Green),
        Some(CheckOutcome::Red { commands, .. }) if commands.iter().all(|c| wish.known_red.contains(c)) => {
            Ok(CandidateChecks::Green)
        }
        Some(CheckOutcome::Red { commands, output }) => {
            Err(fault(MergeFault::CandidateRed, output, commands))
        }
        Some(CheckOutcome::Unavailable { detail }) => {
            Err(fault(MergeFault::ChecksUnavailable, detail, Vec::new()))
        }
        None => Err(stopped(FailureClass::Cancelled)),
    })
}

/// The one place that publishes a merge. The commit must be exactly what the proof is about.
fn publish_proven(shared: &Shared, name: &str, proof: &MergeProof, commit: &Oid) -> Result<Ended, HostError> {
    let repo = shared.repo();
    let content = repo.content_of(commit)?;
    let parents = [&proof.target, &proof.reviewed_head];
    if content.tree != proof.tree || !content.parents.iter().eq(parents) {
        let detail = format!("commit {commit} is not the merge that was checked");
        return Ok(Ended::Report(fault(MergeFault::Git, detail, Vec::new())));
    }
    shared.fence()?;
    let _checkout = shared.checkout.write().unwrap_or_else(PoisonError::into_inner);
    Ok(match publish(repo, name, commit, &proof.target, "devloop: merge")? {
        // A checkout that stays behind is taken along by whoever publishes next; the merge itself is done.
        Published::Done | Published::CheckoutBehind { .. } => {
            Ended::Report(Outcome::Merged { commit: commit.clone() })
        }
        Published::Lost { .. } => Ended::Lost,
        Published::NotReady(not_ready) => Ended::Report(in_the_way(&not_ready)),
    })
}

/// A merge that was published before a crash: the checkout may not have followed yet.
pub(super) fn take_checkout_along(shared: &Shared, name: &str, commit: &Oid) -> Result<(), GitError> {
    let repo = shared.repo();
    if repo.resolve(name)?.as_ref() == Some(commit)
        && let Some(before) = repo.resolve(&format!("{commit}^1"))?
    {
        let _checkout = shared.checkout.write().unwrap_or_else(PoisonError::into_inner);
        publish(repo, name, commit, &before, "devloop: follow")?;
    }
    Ok(())
}
