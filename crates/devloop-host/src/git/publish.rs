//! Moving a branch to a commit that was checked before, by compare-and-swap, and taking along the
//! checkouts that have it checked out and are clean. Nothing of a person's is overwritten or aborted.

use std::path::PathBuf;

use devloop_core::ids::Oid;

use super::GitError;
use super::commit::TREE_LIMIT_MS;
use super::inspect::{Operation, branch_being_rebased, changed_between, operation, worktrees};
use super::path::{Change, Entry, RepoPath};
use super::repo::Repo;
use super::run::answer;
use super::status::dirty;
use crate::files;
use crate::store::points::{self, Point};

const NAMES_SHOWN: usize = 20;

/// Why a checkout of the branch cannot follow; nothing was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotReady {
    /// Tracked files have changes.
    Dirty { checkout: PathBuf, paths: Vec<RepoPath>, total: usize },
    /// A person's merge, rebase, cherry-pick or revert is under way.
    InProgress { checkout: PathBuf, operation: Operation },
    /// Files that are not tracked, ignored ones included, stand where the new commit has files.
    InTheWay { checkout: PathBuf, paths: Vec<RepoPath> },
    /// Another git works in it, or one died and left its lock.
    Locked { checkout: PathBuf },
    /// It is registered but its folder cannot be used.
    Unusable { checkout: PathBuf },
    /// git itself said no.
    Refused { checkout: PathBuf, said: String },
}

/// How publishing went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// The branch is at the commit and every checkout of it follows.
    Done,
    /// The branch was elsewhere (`None`: it is gone); nothing was moved.
    Lost { now: Option<Oid> },
    /// Nothing was moved.
    NotReady(NotReady),
    /// The branch is at the commit, but this checkout was written to in that moment and stays behind.
    /// Publishing the same again takes it along once it is clean.
    CheckoutBehind { checkout: PathBuf, said: String },
}

/// Moves `full_ref` from exactly `old` to `new`. Doing it again after a crash ends in the same world.
pub fn publish(repo: &Repo, full_ref: &str, new: &Oid, old: &Oid, why: &str) -> Result<Published, GitError> {
    let now = repo.resolve(full_ref)?;
    let checkouts = match checkouts_of(repo, full_ref)? {
        Ok(checkouts) => checkouts,
        Err(not_ready) => return Ok(Published::NotReady(not_ready)),
    };
    let moves = now.as_ref() != Some(new);
    if moves {
        if now.as_ref() != Some(old) {
            return Ok(Published::Lost { now });
        }
        let entries = changed_between(repo, old, new)?;
        for checkout in &checkouts {
            if let Some(not_ready) = obstacle(checkout, &entries, old, new)? {
                return Ok(Published::NotReady(not_ready));
            }
        }
        points::reach(Point::MergeSwap, why);
        if !repo.swap_ref(full_ref, new, Some(old), why)? {
            return Ok(Published::Lost { now: repo.resolve(full_ref)? });
        }
        points::reach(Point::MergeSwapped, why);
    }
    for checkout in &checkouts {
        // One that was looked at a moment ago stands at the old commit; after a crash it may have followed.
        if !moves && has_followed(checkout, new)? {
            continue;
        }
        if let Some(said) = follow(checkout, old, new)? {
            return Ok(Published::CheckoutBehind { checkout: checkout.root().to_path_buf(), said });
        }
    }
    points::reach(Point::MergeFollowed, why);
    match repo.resolve(full_ref)? {
        Some(tip) if repo.contains(&tip, new)? => Ok(Published::Done),
        now => Ok(Published::Lost { now }),
    }
}

/// Can the branch move from `old` to `new` now? `None` means yes.
pub fn ready(repo: &Repo, full_ref: &str, new: &Oid, old: &Oid) -> Result<Option<NotReady>, GitError> {
    let checkouts = match checkouts_of(repo, full_ref)? {
        Ok(checkouts) => checkouts,
        Err(not_ready) => return Ok(Some(not_ready)),
    };
    let entries = changed_between(repo, old, new)?;
    for checkout in &checkouts {
        if let Some(not_ready) = obstacle(checkout, &entries, old, new)? {
            return Ok(Some(not_ready));
        }
    }
    Ok(None)
}

/// Every work tree that has the branch checked out, or is rebasing it.
fn checkouts_of(repo: &Repo, full_ref: &str) -> Result<Result<Vec<Repo>, NotReady>, GitError> {
    let mut found = Vec::new();
    for registered in worktrees(repo)? {
        let path = registered.path;
        let on_it = registered.branch.as_deref() == Some(full_ref);
        let gone = !files::stamp(&path).is_some_and(|s| s.folder && !s.symlink);
        let Some(admin) = registered.admin.filter(|_| !gone) else {
            // A registration whose folder is gone holds nothing that could be lost.
            if on_it && !gone {
                return Ok(Err(NotReady::Unusable { checkout: path }));
            }
            continue;
        };
        let checkout = repo.pinned(path.clone(), admin);
        if branch_being_rebased(&checkout).as_deref() == Some(full_ref) {
            return Ok(Err(NotReady::InProgress { checkout: path, operation: Operation::Rebase }));
        }
        if on_it {
            found.push(checkout);
        }
    }
    Ok(Ok(found))
}

fn obstacle(checkout: &Repo, entries: &[Entry], old: &Oid, new: &Oid) -> Result<Option<NotReady>, GitError> {
    let path = || checkout.root().to_path_buf();
    if files::stamp(&checkout.git_dir().join("index.lock")).is_some() {
        return Ok(Some(NotReady::Locked { checkout: path() }));
    }
    if let Some(operation) = operation(checkout) {
        return Ok(Some(NotReady::InProgress { checkout: path(), operation }));
    }
    let (paths, total) = dirty(checkout, NAMES_SHOWN)?;
    if total > 0 {
        return Ok(Some(NotReady::Dirty { checkout: path(), paths, total }));
    }
    let paths = in_the_way(checkout, entries);
    if !paths.is_empty() {
        return Ok(Some(NotReady::InTheWay { checkout: path(), paths }));
    }
    let rehearse = || checkout.call(["read-tree", "--dry-run", "-m", "-u", old.as_str(), new.as_str()]).run();
    let mut dry = rehearse()?;
    if dry.code != Some(0) {
        // Files that were copied or touched look changed until the index is refreshed.
        refresh(checkout)?;
        dry = rehearse()?;
    }
    Ok((dry.code != Some(0))
        .then(|| NotReady::Refused { checkout: path(), said: dry.stderr.text().trim().to_owned() }))
}

/// New files where something untracked stands. git itself would write over a file that is ignored.
fn in_the_way(checkout: &Repo, entries: &[Entry]) -> Vec<RepoPath> {
    let deleted: Vec<&RepoPath> =
        entries.iter().filter(|e| e.change == Change::Deleted).map(|e| &e.path).collect();
    let was_tracked = |path: &RepoPath| deleted.iter().any(|d| d.covers(path) || path.covers(d));
    let mut found = Vec::new();
    for entry in entries.iter().filter(|e| e.change == Change::Added) {
        let bytes = entry.path.as_bytes();
        let ends = (0..bytes.len()).filter(|i| bytes[*i] == b'/').chain([bytes.len()]);
        for name in ends.map(|end| RepoPath::new(&bytes[..end])) {
            let Some(stamp) = files::stamp(&name.below(checkout.root())) else { break };
            let is_file_itself = name == entry.path;
            if (is_file_itself || !stamp.folder) && !was_tracked(&name) {
                found.push(name);
                break;
            }
        }
    }
    found.dedup();
    found.truncate(NAMES_SHOWN);
    found
}

/// Does the checkout stand at `new` already?
fn has_followed(checkout: &Repo, new: &Oid) -> Result<bool, GitError> {
    let staged = checkout.call(["write-tree"]).run()?;
    Ok(staged.code == Some(0) && staged.stdout.text().trim() == checkout.tree_of(new)?.as_str())
}

/// Takes a checkout from `old` to `new`; answers what git said when it could not.
fn follow(checkout: &Repo, old: &Oid, new: &Oid) -> Result<Option<String>, GitError> {
    let args = ["read-tree", "-m", "-u", old.as_str(), new.as_str()];
    let exit = checkout.call(args).limit_ms(TREE_LIMIT_MS).run()?;
    if exit.code != Some(0) {
        return Ok(Some(exit.stderr.text().trim().to_owned()));
    }
    // `read-tree` leaves the entries unverified for a moment; a status of the operator's must be clean.
    refresh(checkout)?;
    Ok(None)
}

/// Compares the files with what the index remembers of them; content that differs stays reported as
/// different.
fn refresh(checkout: &Repo) -> Result<(), GitError> {
    let refreshed = checkout.call(["update-index", "-q", "--refresh"]).run()?;
    match refreshed.code {
        Some(0 | 1) => Ok(()),
        _ => Err(answer("update-index", refreshed.stderr.text().trim())),
    }
}
