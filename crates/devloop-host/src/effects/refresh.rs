//! Bringing the target into a task's branch as a commit of the host, probed by its trailer first. The
//! operator's checkout and the target are not touched.

use devloop_core::effect::Contract;
use devloop_core::ids::{Branch, DispatchId, Oid};
use devloop_core::report::{MergeFault, Outcome};

use super::chores::{free_branch, full_ref};
use super::merge::{fault, in_the_way, shown, trailers};
use super::{Shared, locked};
use crate::error::HostError;
use crate::git::Identity;
use crate::git::commit::{probe, task_ref};
use crate::git::merge::{Refreshed, refresh};
use crate::git::publish::Published;

/// Refreshes the branch that stands at `head`.
pub(super) fn perform(
    shared: &Shared,
    dispatch: DispatchId,
    contract: &Contract,
    head: &Oid,
    target: &Branch,
) -> Outcome {
    attempt(shared, dispatch, contract, head, target)
        .unwrap_or_else(|error| fault(MergeFault::Git, error, Vec::new()))
}

fn attempt(
    shared: &Shared,
    dispatch: DispatchId,
    contract: &Contract,
    head: &Oid,
    target: &Branch,
) -> Result<Outcome, HostError> {
    let (repo, branch) = (shared.repo(), task_ref(&contract.task));
    if let Some(made) = probe(repo, &branch, head, dispatch)?
        && let Some(base) = repo.resolve(&format!("{made}^2"))?
    {
        return Ok(Outcome::Refreshed { head: made, base });
    }
    if repo.resolve(head.as_str())?.is_none() {
        let detail = format!("commit {head} is not in the repository");
        return Ok(fault(MergeFault::UnknownCommit, detail, Vec::new()));
    }
    let Some(tip) = repo.resolve(&full_ref(target))? else {
        let detail = format!("the branch {target} does not exist");
        return Ok(fault(MergeFault::UnknownCommit, detail, Vec::new()));
    };
    shared.fence()?;
    {
        let _pool = locked(&shared.pool);
        free_branch(shared, &shared.worktrees(), &branch)?;
    }
    if repo.resolve(&branch)?.is_none() {
        // Somebody deleted the branch; its commit is known, so nothing is lost.
        repo.swap_ref(&branch, head, None, "devloop: restore")?;
    }
    let made = refresh(repo, head, &tip, &trailers(contract, dispatch), &Identity::devloop())?;
    Ok(match made {
        Refreshed::Done { head } | Refreshed::UpToDate { head } => Outcome::Refreshed { head, base: tip },
        Refreshed::Conflict { paths } => {
            let detail = "the target and the task changed the same lines";
            fault(MergeFault::Conflict, detail, shown(&paths))
        }
        Refreshed::NotDone(Published::NotReady(not_ready)) => in_the_way(&not_ready),
        Refreshed::NotDone(_) => {
            let detail = format!("{branch} is not at {head} any more");
            fault(MergeFault::LostSwap, detail, Vec::new())
        }
    })
}
