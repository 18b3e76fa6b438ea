//! The host's commit of what a worker left: probed by its trailer first, refused with a named fault. It
//! judges nothing that `git::commit` does not; it never touches the operator's checkout.

use devloop_core::effect::Contract;
use devloop_core::ids::{DispatchId, RouteKey};
use devloop_core::report::{CommitFault, Outcome};
use devloop_core::task::clip;

use super::run_record;
use super::{Shared, secret};
use crate::error::HostError;
use crate::git::commit::{CommitOutcome, CommitRequest, Trailers, commit, probe, task_ref};
use crate::git::{GitError, Identity, Scope};

/// How many paths a report names.
const PATHS_SHOWN: usize = 50;

/// Commits what the worktree of `work` holds.
pub(super) fn perform(
    shared: &Shared,
    dispatch: DispatchId,
    work: DispatchId,
    contract: &Contract,
    route: &RouteKey,
) -> Outcome {
    match attempt(shared, dispatch, work, contract, route) {
        Ok(outcome) => outcome,
        Err(error) => refused(CommitFault::Git, &error, Vec::new()),
    }
}

pub(super) fn refused(why: CommitFault, detail: impl std::fmt::Display, mut paths: Vec<String>) -> Outcome {
    paths.truncate(PATHS_SHOWN);
    Outcome::CommitRefused { why, detail: clip(&detail.to_string()), paths }
}

fn attempt(
    shared: &Shared,
    dispatch: DispatchId,
    work: DispatchId,
    contract: &Contract,
    route: &RouteKey,
) -> Result<Outcome, HostError> {
    let repo = shared.repo();
    let branch = task_ref(&contract.task);
    if let Some(head) = probe(repo, &branch, &contract.base, dispatch)? {
        return Ok(Outcome::Committed { head });
    }
    let record = run_record::read(&shared.setting.disk, &shared.setting.armed, work)?;
    if let Some(record) = &record {
        if !record.escaped.is_empty() {
            let detail = "files of the operator's checkout changed while the worker ran";
            return Ok(refused(CommitFault::Escaped, detail, record.escaped.clone()));
        }
        let tip = repo.resolve(&branch)?;
        if record.after.is_some() && record.after != tip {
            let found = tip.map_or_else(|| "gone".to_owned(), |tip| format!("at {tip}"));
            let detail = format!("{branch} is {found}; it moved after the worker had ended");
            return Ok(refused(CommitFault::Late, detail, Vec::new()));
        }
    }
    let Some(worktree) = shared.worktrees().open(work)? else {
        return Ok(refused(CommitFault::Git, format!("the worktree of {work} is gone"), Vec::new()));
    };
    let config = shared.config();
    let scope = Scope::new(&contract.allowed_paths, &config.protected_paths);
    let scope = scope.and_then(|scope| scope.with_modes(&config.mode_changes));
    let scope = match scope.and_then(|scope| scope.with_ignored(&config.ignored_writes)) {
        Ok(scope) => scope,
        Err(error) => return Ok(refused(CommitFault::ScopeUnknown, error, Vec::new())),
    };
    let before = record.map_or_else(|| contract.base.clone(), |record| record.before);
    let digest = devloop_wire::contract::digest(contract);
    let trailers = Trailers {
        task: &contract.task,
        dispatch,
        route: Some(route.as_str()),
        contract: Some(digest.as_str()),
    };
    let request = CommitRequest {
        title: &contract.title,
        base: &contract.base,
        before: &before,
        trailers,
        scope: &scope,
        binary_max_bytes: config.binary_max_bytes,
        identity: &Identity::devloop(),
    };
    shared.fence()?;
    if let Some(found) = secret::find(&worktree.tree, &before)? {
        return Ok(refused(CommitFault::Secret, found.what, vec![found.path]));
    }
    let made = commit(&worktree.tree, &request);
    if let Ok(made) = &made {
        shared.left.add(&contract.task, made.ignored());
    }
    Ok(settle(made))
}

fn settle(made: Result<CommitOutcome, GitError>) -> Outcome {
    match made {
        Ok(CommitOutcome::Committed { head, .. } | CommitOutcome::AlreadyThere { head, .. }) => {
            Outcome::Committed { head }
        }
        Ok(CommitOutcome::Empty { .. } | CommitOutcome::Unchanged { .. }) => Outcome::CommitEmpty,
        Ok(CommitOutcome::ScopeViolation { violations }) => {
            let lines: Vec<String> =
                violations.iter().take(PATHS_SHOWN).map(|v| format!("{} {}", v.path, v.offence)).collect();
            let paths = violations.iter().map(|v| v.path.to_string()).collect();
            refused(CommitFault::Scope, lines.join("; "), paths)
        }
        Err(error @ GitError::BaseLost { .. }) => refused(CommitFault::ScopeUnknown, error, Vec::new()),
        Err(error) => refused(CommitFault::Git, error, Vec::new()),
    }
}
