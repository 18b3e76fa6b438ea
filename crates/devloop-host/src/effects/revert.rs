//! Taking a published merge back, from exactly that merge, and laying the task's change ready again on top of
//! the revert. Probed by trailers, so that a crash between the two is finished by the next owner.

use std::sync::PoisonError;

use devloop_core::effect::Contract;
use devloop_core::ids::{Branch, DispatchId, Oid};
use devloop_core::report::{MergeFault, Outcome};

use super::chores::{free_branch, full_ref};
use super::merge::{fault, in_the_way, shown, take_checkout_along, trailers};
use super::{Shared, locked};
use crate::error::HostError;
use crate::git::Identity;
use crate::git::commit::{probe, task_ref};
use crate::git::merge::{Reapplied, reapply, revert};
use crate::git::publish::{Published, publish};

/// Reverts the merge `commit` of the target.
pub(super) fn perform(
    shared: &Shared,
    dispatch: DispatchId,
    contract: &Contract,
    commit: &Oid,
    target: &Branch,
) -> Outcome {
    attempt(shared, dispatch, contract, commit, target)
        .unwrap_or_else(|error| fault(MergeFault::Git, error, Vec::new()))
}

fn attempt(
    shared: &Shared,
    dispatch: DispatchId,
    contract: &Contract,
    commit: &Oid,
    target: &Branch,
) -> Result<Outcome, HostError> {
    let (repo, name) = (shared.repo(), full_ref(target));
    if repo.resolve(commit.as_str())?.is_none() {
        let detail = format!("commit {commit} is not in the repository");
        return Ok(fault(MergeFault::UnknownCommit, detail, Vec::new()));
    }
    let reverted = match probe(repo, &name, commit, dispatch)? {
        Some(reverted) => {
            shared.fence()?;
            take_checkout_along(shared, &name, &reverted)?;
            reverted
        }
        None => match take_back(shared, dispatch, contract, commit, &name)? {
            Ok(reverted) => reverted,
            Err(outcome) => return Ok(outcome),
        },
    };
    lay_ready(shared, dispatch, contract, commit, reverted)
}

/// Publishes the revert commit; the inner error is the report of why not.
fn take_back(
    shared: &Shared,
    dispatch: DispatchId,
    contract: &Contract,
    commit: &Oid,
    name: &str,
) -> Result<Result<Oid, Outcome>, HostError> {
    let repo = shared.repo();
    let tip = repo.resolve(name)?;
    match &tip {
        Some(tip) if tip == commit => {}
        Some(tip) if repo.contains(tip, commit)? => {
            let detail = format!("{tip} was committed on top of the merge {commit}");
            return Ok(Err(fault(MergeFault::BuriedMerge, detail, Vec::new())));
        }
        _ => {
            let detail = format!("{name} does not contain the merge {commit}");
            return Ok(Err(fault(MergeFault::Rewound, detail, Vec::new())));
        }
    }
    let made = revert(repo, commit, &trailers(contract, dispatch), &Identity::devloop())?;
    shared.fence()?;
    let _checkout = shared.checkout.write().unwrap_or_else(PoisonError::into_inner);
    Ok(match publish(repo, name, &made, commit, "devloop: revert")? {
        Published::Done | Published::CheckoutBehind { .. } => Ok(made),
        Published::Lost { .. } => {
            Err(fault(MergeFault::LostSwap, format_args!("{name} moved during the revert"), Vec::new()))
        }
        Published::NotReady(not_ready) => Err(in_the_way(&not_ready)),
    })
}

/// Retires the old branch and puts the task's branch on the change re-applied.
fn lay_ready(
    shared: &Shared,
    dispatch: DispatchId,
    contract: &Contract,
    merge: &Oid,
    reverted: Oid,
) -> Result<Outcome, HostError> {
    let (repo, branch) = (shared.repo(), task_ref(&contract.task));
    if let Some(reapplied) = probe(repo, &branch, &reverted, dispatch)? {
        return Ok(Outcome::Reverted { commit: reverted, reapplied });
    }
    let made = reapply(repo, &reverted, merge, &trailers(contract, dispatch), &Identity::devloop())?;
    let reapplied = match made {
        Reapplied::Done { head } => head,
        Reapplied::Conflict { paths } => {
            let detail = "the change does not apply again on top of its revert";
            return Ok(fault(MergeFault::Conflict, detail, shown(&paths)));
        }
    };
    let _pool = locked(&shared.pool);
    shared.fence()?;
    let pool = shared.worktrees();
    free_branch(shared, &pool, &branch)?;
    pool.retire_branch(&contract.task)?;
    if !repo.swap_ref(&branch, &reapplied, None, "devloop: apply again")? {
        let detail = format!("{branch} was made by somebody else in that moment");
        return Ok(fault(MergeFault::Git, detail, Vec::new()));
    }
    Ok(Outcome::Reverted { commit: reverted, reapplied })
}
