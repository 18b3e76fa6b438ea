//! Effects without a lease and housekeeping after one: each can be done again without harm, and none reports.
//! What cannot be done now stays where it is and is named by `doctor`.

use std::sync::Arc;
use std::thread;

use devloop_core::ids::{Branch, DispatchId, TaskId};

use super::run_record::{self, Role};
use super::{Shared, locked};
use crate::error::HostError;
use crate::git::commit::task_ref;
use crate::process::tree::{TreeRecord, kill_tree};
use crate::scratch;
use crate::store::points::{self, Point};
use crate::store::small;
use crate::worktree::{Removal, WorktreeError, Worktrees};

/// How long the processes of a dead owner's run may take to vanish, in awake milliseconds.
const KILL_LIMIT_MS: u64 = 5_000;

/// Full ref of a branch.
pub(super) fn full_ref(branch: &Branch) -> String {
    format!("refs/heads/{branch}")
}

/// Does a chore on a thread of its own; here when there is no thread to be had.
pub(super) fn start(
    shared: &Arc<Shared>,
    chore: impl Fn(&Shared) -> Result<(), HostError> + Send + Sync + 'static,
) {
    let chore = Arc::new(chore);
    shared.flights.enter_chore();
    let (own, work) = (Arc::clone(shared), Arc::clone(&chore));
    let done = move || {
        let _counted = Counted(&own);
        attempt(&own, &*work);
    };
    if thread::Builder::new().name("devloop-chore".into()).spawn(done).is_err() {
        let _counted = Counted(shared);
        attempt(shared, &*chore);
    }
}

struct Counted<'a>(&'a Shared);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.flights.leave_chore();
    }
}

/// A chore that fails leaves the world as it was; whoever looks next finds it so.
fn attempt(shared: &Shared, chore: &dyn Fn(&Shared) -> Result<(), HostError>) {
    if shared.fence().is_ok() {
        drop(chore(shared));
    }
}

/// Removes a dispatch's worktree and its run record. Work that nobody has seen is saved under a ref first;
/// what a planner, a reviewer or a check wrote is meant to go.
pub(super) fn remove_worktree(shared: &Shared, dispatch: DispatchId) -> Result<(), HostError> {
    let (disk, armed) = (&shared.setting.disk, &shared.setting.armed);
    // A damaged record says nothing about its role: then everything is saved.
    let record = run_record::read(disk, armed, dispatch).ok().flatten();
    let how = match record.map(|r| r.role) {
        Some(Role::Plan | Role::Review) => Removal::Throwaway,
        Some(Role::Work) | None => Removal::SaveOrphan,
    };
    let _pool = locked(&shared.pool);
    if shared.flights.contains(dispatch) {
        return Ok(());
    }
    let pool = shared.worktrees();
    match pool.remove(dispatch, how) {
        // A folder that git does not know may hold unseen work.
        Err(WorktreeError::NotRegistered { .. }) => drop(pool.set_aside(dispatch)?),
        removed => drop(removed?),
    }
    scratch::remove(armed, dispatch);
    points::reach(Point::RunRemove, dispatch);
    Ok(small::remove_run(armed, &dispatch.to_string())?)
}

/// Worktrees of dispatches that are over, then branches of merged tasks, which those worktrees may have
/// checked out. A branch goes only when git itself says that the target contains it. What cannot be removed
/// now is there at the next start.
pub(super) fn clear(shared: &Shared, over: &[DispatchId], merged: &[TaskId], target: Option<&Branch>) {
    for dispatch in over {
        drop(remove_worktree(shared, *dispatch));
    }
    let Some(target) = target else { return };
    let _pool = locked(&shared.pool);
    let pool = shared.worktrees();
    for task in merged {
        let branch = task_ref(task);
        if let Ok(Some(_)) = shared.repo().resolve(&branch) {
            drop(free_branch(shared, &pool, &branch));
            drop(pool.delete_branch_if_contained(task, &full_ref(target)));
        }
    }
}

/// Ends what still runs of a dispatch that is not in flight here: its owner died. Without a readable record
/// its processes are found by their marker alone.
pub(super) fn end_processes(shared: &Shared, dispatch: DispatchId) -> Result<(), HostError> {
    if shared.flights.contains(dispatch) {
        return Ok(());
    }
    let (disk, armed) = (&shared.setting.disk, &shared.setting.armed);
    match run_record::read(disk, armed, dispatch) {
        Ok(Some(record)) => drop(kill_tree(&record.tree(), KILL_LIMIT_MS)),
        Ok(None) | Err(_) => end_marked(&run_record::marker(armed, dispatch)),
    }
    Ok(())
}

/// Ends every process that carries the marker.
pub(super) fn end_marked(marker: &str) {
    kill_tree(&TreeRecord { boot: None, leader: None, marker: marker.to_owned() }, KILL_LIMIT_MS);
}

/// Makes the target branch where the checkout stands; one that exists stays as it is.
pub(super) fn create_target(shared: &Shared, branch: &Branch) -> Result<(), HostError> {
    let (repo, name) = (shared.repo(), full_ref(branch));
    if repo.resolve(&name)?.is_none()
        && let Some(head) = repo.resolve("HEAD")?
    {
        repo.swap_ref(&name, &head, None, "devloop: target")?;
    }
    Ok(())
}

/// Takes away the worktree of an earlier dispatch that still has the branch, once that dispatch is over. The
/// pool is held by the caller.
pub(super) fn free_branch(shared: &Shared, pool: &Worktrees, branch: &str) -> Result<(), HostError> {
    for listed in pool.list()? {
        let on_it = listed.registered.as_ref().is_some_and(|r| r.branch.as_deref() == Some(branch));
        match listed.owner {
            Some(owner) if on_it && !shared.flights.contains(owner) => {
                pool.remove(owner, Removal::SaveOrphan)?;
            }
            _ => {}
        }
    }
    Ok(())
}
