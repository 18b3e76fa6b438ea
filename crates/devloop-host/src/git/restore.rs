//! Putting protected test files of a throwaway checkout back as the base has them, before checks run.
//! It writes only to the checkout that it is given; which files are protected is the operator's word.

use devloop_core::ids::Oid;

use super::GitError;
use super::commit::TREE_LIMIT_MS;
use super::inspect::changed_between;
use super::path::{Change, RepoPath};
use super::repo::Repo;
use super::scope::Scope;
use crate::files;

/// What became of the changed files that match the protected patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Outside the contract: the checkout has them as the base has them.
    pub restored: Vec<RepoPath>,
    /// Inside the contract: left as the task wrote them, to be named to the reviewer.
    pub changed: Vec<RepoPath>,
}

/// Restores protected files in `checkout`, which stands on `head`. Doing it again changes nothing.
pub fn restore_protected(
    checkout: &Repo,
    base: &Oid,
    head: &Oid,
    protected: &Scope,
    contract: &Scope,
) -> Result<Restored, GitError> {
    let mut outcome = Restored { restored: Vec::new(), changed: Vec::new() };
    let (mut added, mut changed) = (Vec::new(), Vec::new());
    for entry in changed_between(checkout, base, head)?.into_iter().filter(|e| protected.covers(&e.path)) {
        if contract.covers(&entry.path) {
            outcome.changed.push(entry.path);
            continue;
        }
        let names = if entry.change == Change::Added { &mut added } else { &mut changed };
        names.extend_from_slice(entry.path.as_bytes());
        names.push(0);
        if entry.change == Change::Added {
            let path = entry.path.below(checkout.root());
            files::remove_file(&path).map_err(|source| GitError::Io { what: "remove", path, source })?;
        }
        outcome.restored.push(entry.path);
    }
    if !added.is_empty() {
        checkout.call(["update-index", "--force-remove", "-z", "--stdin"]).stdin(added).ok()?;
    }
    if !changed.is_empty() {
        let source = format!("--source={base}");
        let args =
            ["restore", &source, "--staged", "--worktree", "--pathspec-from-file=-", "--pathspec-file-nul"];
        checkout.call(args).stdin(changed).limit_ms(TREE_LIMIT_MS).ok()?;
    }
    Ok(outcome)
}
