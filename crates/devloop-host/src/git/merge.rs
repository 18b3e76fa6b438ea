//! Merges made of objects only: trial, candidate commit, revert and refresh. No work tree is touched and
//! no ref moves here except a task's own branch in a refresh; publishing is `publish.rs`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use devloop_core::ids::{DispatchId, Oid};

use super::GitError;
use super::commit::{Trailers, task_ref};
use super::inspect::changed_between;
use super::path::{RepoPath, parse_names};
use super::publish::{Published, publish};
use super::repo::{Identity, NewCommit, Repo};
use super::run::{answer, failed, oid};

/// What merging two commits would give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// This tree.
    Clean { tree: Oid },
    /// These paths conflict. A merge driver of the repository is not run: what it would have merged is here.
    Conflict { paths: Vec<RepoPath> },
}

/// Merges in memory and writes only objects.
pub fn trial(repo: &Repo, ours: &Oid, theirs: &Oid) -> Result<Trial, GitError> {
    let args =
        ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours.as_str(), theirs.as_str()];
    let mut call = repo.call(args);
    for key in merge_drivers(repo)? {
        // Hazard 12: a driver is a program of the repository; failing, it leaves an honest conflict.
        call = call.setting(key, "false");
    }
    let exit = call.run()?;
    if !matches!(exit.code, Some(0 | 1)) || exit.stdout.omitted_bytes > 0 {
        return Err(failed("merge-tree", &exit));
    }
    let mut fields = parse_names(&exit.stdout.bytes).into_iter();
    let tree = fields.next().ok_or_else(|| answer("merge-tree", "no tree"))?;
    if exit.code == Some(0) {
        return Ok(Trial::Clean { tree: oid(&tree.to_string())? });
    }
    let paths: BTreeSet<RepoPath> = fields.collect();
    Ok(Trial::Conflict { paths: paths.into_iter().collect() })
}

/// Their names are bytes: one that is no text runs like any other.
fn merge_drivers(repo: &Repo) -> Result<Vec<OsString>, GitError> {
    let exit = repo.call(["config", "-z", "--name-only", "--get-regexp", "^merge\\..*\\.driver$"]).run()?;
    match exit.code {
        Some(0) => Ok(parse_names(&exit.stdout.bytes)
            .into_iter()
            .map(|name| OsString::from_vec(name.as_bytes().to_vec()))
            .collect()),
        Some(1) => Ok(Vec::new()),
        _ => Err(failed("config", &exit)),
    }
}

/// Paths changed on both sides since they parted: what makes a verdict about one side doubtful. A folder
/// on one side and a file in it on the other count, and names that differ only in case do too.
pub fn overlap(repo: &Repo, base: &Oid, target: &Oid, head: &Oid) -> Result<Vec<RepoPath>, GitError> {
    let sort = |side| -> Result<BTreeSet<RepoPath>, GitError> {
        Ok(changed_between(repo, base, side)?.into_iter().map(|e| e.path).collect())
    };
    let (theirs, ours) = (sort(target)?, sort(head)?);
    let fold = |path: &RepoPath| RepoPath::new(String::from_utf8_lossy(path.as_bytes()).to_lowercase());
    let folded: BTreeSet<RepoPath> = theirs.iter().map(fold).collect();
    let meets = |path: &&RepoPath| {
        let path = fold(path);
        let above = parents(&path).any(|parent| folded.contains(&parent));
        let from = folded.range(path.clone()..).take_while(|p| p.as_bytes().starts_with(path.as_bytes()));
        above || from.into_iter().any(|p| path.covers(p))
    };
    Ok(ours.iter().filter(meets).cloned().collect())
}

fn parents(path: &RepoPath) -> impl Iterator<Item = RepoPath> + '_ {
    let bytes = path.as_bytes();
    (0..bytes.len()).filter(|i| bytes[*i] == b'/').map(|i| RepoPath::new(&bytes[..i]))
}

/// The merge commit that would be published: first parent the target, second the reviewed head.
pub fn candidate(
    repo: &Repo,
    target: &Oid,
    head: &Oid,
    tree: &Oid,
    trailers: &Trailers<'_>,
    identity: &Identity,
) -> Result<Oid, GitError> {
    let message = trailers.message(&format!("devloop: merge {}", trailers.task));
    repo.write_commit(&NewCommit { tree, parents: &[target, head], message: &message, identity })
}

/// The commit that takes a merge back: the tree that the target had before it. It is right only on top of
/// exactly that merge, which is how it is published.
pub fn revert(
    repo: &Repo,
    merge: &Oid,
    trailers: &Trailers<'_>,
    identity: &Identity,
) -> Result<Oid, GitError> {
    let before =
        repo.resolve(&format!("{merge}^1"))?.ok_or_else(|| answer("rev-parse", "a merge without parent"))?;
    let tree = repo.tree_of(&before)?;
    let first_line = format!("devloop: revert {}", trailers.task);
    let message = trailers.message(&first_line);
    repo.write_commit(&NewCommit { tree: &tree, parents: &[merge], message: &message, identity })
}

/// How re-applying a change went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reapplied {
    /// A commit on top of `onto` with the change in it; no ref moved.
    Done { head: Oid },
    /// These paths conflict.
    Conflict { paths: Vec<RepoPath> },
}

/// Builds the change that `merge` brought in again on top of `onto`, which holds its revert. To git the
/// change is merged already, so both sides are given the parent that they had before it.
pub fn reapply(
    repo: &Repo,
    onto: &Oid,
    merge: &Oid,
    trailers: &Trailers<'_>,
    identity: &Identity,
) -> Result<Reapplied, GitError> {
    let before =
        repo.resolve(&format!("{merge}^1"))?.ok_or_else(|| answer("rev-parse", "a merge without parent"))?;
    let stand_in = |commit: &Oid| {
        let tree = repo.tree_of(commit)?;
        repo.write_commit(&NewCommit {
            tree: &tree,
            parents: &[&before],
            message: "devloop: stand-in\n",
            identity,
        })
    };
    let tree = match trial(repo, &stand_in(onto)?, &stand_in(merge)?)? {
        Trial::Clean { tree } => tree,
        Trial::Conflict { paths } => return Ok(Reapplied::Conflict { paths }),
    };
    let message = trailers.message(&format!("devloop: apply {} again", trailers.task));
    let head =
        repo.write_commit(&NewCommit { tree: &tree, parents: &[onto], message: &message, identity })?;
    Ok(Reapplied::Done { head })
}

/// Looks for a merge that was already published: among the first parents of the target after `since`, one
/// that carries the dispatch and merges exactly `head`. A trailer alone proves nothing, anyone can write it.
pub fn probe_published(
    repo: &Repo,
    target_ref: &str,
    since: &Oid,
    dispatch: DispatchId,
    head: &Oid,
) -> Result<Option<Oid>, GitError> {
    let Some(tip) = repo.resolve(target_ref)?.filter(|tip| tip != since) else { return Ok(None) };
    let format = "--format=%H%x00%P%x00%(trailers:key=Devloop-Dispatch,valueonly,separator=%x00)%x00";
    let listed = repo.call(["log", "--first-parent", "--merges", format, &format!("{since}..{tip}")]).ok()?;
    let wanted = dispatch.to_string();
    for line in String::from_utf8_lossy(&listed).lines().filter(|line| !line.is_empty()) {
        let mut fields = line.split('\0');
        let (commit, parents) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        if parents.split(' ').nth(1) == Some(head.as_str()) && fields.any(|value| value.trim() == wanted) {
            return oid(commit).map(Some);
        }
    }
    Ok(None)
}

/// How a refresh went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refreshed {
    /// The branch now has the target in it.
    Done { head: Oid },
    /// It already had.
    UpToDate { head: Oid },
    /// These paths conflict; the branch did not move.
    Conflict { paths: Vec<RepoPath> },
    /// The branch moved meanwhile, or a worktree that has it checked out could not follow.
    NotDone(Published),
}

/// Merges the target into a task's branch, which stood at `head`, as a commit of the host. A clean
/// worktree that has the branch checked out follows.
pub fn refresh(
    repo: &Repo,
    head: &Oid,
    target: &Oid,
    trailers: &Trailers<'_>,
    identity: &Identity,
) -> Result<Refreshed, GitError> {
    if repo.contains(head, target)? {
        return Ok(Refreshed::UpToDate { head: head.clone() });
    }
    let tree = match trial(repo, head, target)? {
        Trial::Clean { tree } => tree,
        Trial::Conflict { paths } => return Ok(Refreshed::Conflict { paths }),
    };
    let message = trailers.message(&format!("devloop: refresh {}", trailers.task));
    let parents = [head, target];
    let made =
        repo.write_commit(&NewCommit { tree: &tree, parents: &parents, message: &message, identity })?;
    match publish(repo, &task_ref(trailers.task), &made, head, "devloop: refresh")? {
        Published::Done => Ok(Refreshed::Done { head: made }),
        other => Ok(Refreshed::NotDone(other)),
    }
}
