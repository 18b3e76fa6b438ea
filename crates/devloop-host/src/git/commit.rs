//! The host's commit of a task's work: exactly one tree is judged against the contract and committed.
//! Neither the index nor the hooks nor the commits of a run are trusted; nothing is merged here.

use std::path::Path;

use devloop_core::ids::{DispatchId, Oid, TaskId};

use super::inspect::{changed_between, current_branch};
use super::path::{Entry, RepoPath};
use super::repo::{Identity, NewCommit, Repo};
use super::run::{answer, oid};
use super::scope::{Offence, Scope, Violation};
use super::status::inner_repositories;
use super::{GitError, content, filters, ignored};
use crate::files;
use crate::store::points::{self, Point};

/// Longest first line of a commit message, in characters.
pub const TITLE_MAX_CHARS: usize = 72;
/// Awake milliseconds for calls that read or write a whole work tree.
pub(crate) const TREE_LIMIT_MS: u64 = 10 * 60 * 1000;

/// The lines at the end of a message by which the host finds its commits again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trailers<'a> {
    /// `Devloop-Task`.
    pub task: &'a TaskId,
    /// `Devloop-Dispatch`.
    pub dispatch: DispatchId,
    /// `Devloop-Route`, when a route did the work.
    pub route: Option<&'a str>,
    /// `Devloop-Contract`: digest of the contract.
    pub contract: Option<&'a str>,
}

impl Trailers<'_> {
    /// A whole message: one line, a blank one, the trailers.
    pub fn message(&self, first_line: &str) -> String {
        let mut text =
            format!("{first_line}\n\nDevloop-Task: {}\nDevloop-Dispatch: {}\n", self.task, self.dispatch);
        for (key, value) in [("Devloop-Route", self.route), ("Devloop-Contract", self.contract)] {
            if let Some(value) = value {
                text.push_str(&format!("{key}: {}\n", one_line(value)));
            }
        }
        text
    }
}

/// `<id>: <title>` as one line of at most 72 characters; an empty title becomes a neutral one.
pub fn title_line(task: &TaskId, title: &str) -> String {
    let title = one_line(title);
    let line = format!("{task}: {}", if title.is_empty() { "work on the task" } else { &title });
    if line.chars().count() <= TITLE_MAX_CHARS {
        return line;
    }
    let cut: String = line.chars().take(TITLE_MAX_CHARS - 1).collect();
    format!("{}…", cut.trim_end())
}

fn one_line(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is to be committed.
#[derive(Debug, Clone)]
pub struct CommitRequest<'a> {
    /// The task's title.
    pub title: &'a str,
    /// The commit that the contract starts from; the scope is judged from here.
    pub base: &'a Oid,
    /// Where the branch stood when this dispatch started; the base for a first attempt.
    pub before: &'a Oid,
    /// Task, dispatch, route and contract.
    pub trailers: Trailers<'a>,
    /// The paths of the contract.
    pub scope: &'a Scope,
    /// The largest binary file that may be added or changed, in bytes.
    pub binary_max_bytes: u64,
    /// Author and committer.
    pub identity: &'a Identity,
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// A commit was made; `entries` is all that differs from the base, `ignored` what the run left that git
    /// ignores: wholly ignored folders as one name ending in `/`. Nothing of it is in any commit.
    Committed { head: Oid, entries: Vec<Entry>, ignored: Vec<RepoPath> },
    /// This dispatch's commit was already there, with exactly this content.
    AlreadyThere { head: Oid, entries: Vec<Entry> },
    /// The content is that of the base: nothing was done.
    Empty { head: Oid, ignored: Vec<RepoPath> },
    /// Something differs from the base, but nothing since this dispatch started.
    Unchanged { head: Oid, ignored: Vec<RepoPath> },
    /// Paths outside the contract; nothing was committed and the work stands where it was.
    ScopeViolation { violations: Vec<Violation> },
}

impl CommitOutcome {
    /// What the run left that git ignores, where it was not refused.
    #[must_use]
    pub fn ignored(&self) -> &[RepoPath] {
        match self {
            CommitOutcome::Committed { ignored, .. }
            | CommitOutcome::Empty { ignored, .. }
            | CommitOutcome::Unchanged { ignored, .. } => ignored,
            CommitOutcome::AlreadyThere { .. } | CommitOutcome::ScopeViolation { .. } => &[],
        }
    }
}

/// Commits what stands in the worktree of a task.
///
/// The content is staged into an index of the host's own, turned into a tree, and that very tree is
/// judged and committed: what a late process writes meanwhile is in neither.
///
/// # Errors
/// HEAD is not the task's branch, the base is no ancestor of it, the branch moved meanwhile, or git failed.
pub fn commit(worktree: &Repo, request: &CommitRequest<'_>) -> Result<CommitOutcome, GitError> {
    let branch = task_ref(request.trailers.task);
    let found = current_branch(worktree)?.unwrap_or_else(|| "detached".into());
    if found != branch {
        return Err(GitError::WrongHead { expected: branch, found });
    }
    let head = worktree.resolve(&branch)?.ok_or_else(|| answer("rev-parse", "the branch has no commit"))?;
    if !worktree.contains(&head, request.base)? {
        return Err(GitError::BaseLost { base: request.base.clone(), head });
    }
    points::reach(Point::CommitStage, request.trailers.dispatch);
    let scratch = scratch_index(worktree)?;
    let tree = match stage(worktree, scratch.path()) {
        Ok(tree) => tree,
        Err(error) => return refuse_inner_repositories(worktree, error),
    };
    let base_tree = worktree.tree_of(request.base)?;
    let entries = changed_between(worktree, &base_tree, &tree)?;
    let mut violations = request.scope.violations(&entries);
    let unfiltered = filters::unfiltered(worktree, &entries)?;
    violations.extend(unfiltered.into_iter().map(|path| Violation { path, offence: Offence::Filtered }));
    let collide = content::collisions(worktree, &tree, &entries)?;
    violations.extend(collide.into_iter().map(|path| Violation { path, offence: Offence::Collides }));
    let large = content::large_binaries(worktree, &entries, request.binary_max_bytes)?;
    violations.extend(large.into_iter().map(|path| Violation { path, offence: Offence::Binary }));
    let ignored = ignored::judge(worktree, request.base, &entries, request.scope)?;
    violations.extend(ignored.violations);
    if !violations.is_empty() {
        return Ok(CommitOutcome::ScopeViolation { violations });
    }
    let head_tree = if head == *request.base { base_tree.clone() } else { worktree.tree_of(&head)? };
    if tree == head_tree && carries(worktree, &head, request.trailers.dispatch)? {
        return Ok(CommitOutcome::AlreadyThere { head, entries });
    }
    if tree == base_tree {
        return Ok(CommitOutcome::Empty { head, ignored: ignored.names });
    }
    if tree == head_tree && head == *request.before {
        return Ok(CommitOutcome::Unchanged { head, ignored: ignored.names });
    }
    // A run that committed by itself still gets a commit of the host on top, so that it can be found.
    let message = request.trailers.message(&title_line(request.trailers.task, request.title));
    let parents = [&head];
    let new = NewCommit { tree: &tree, parents: &parents, message: &message, identity: request.identity };
    let made = worktree.write_commit(&new)?;
    points::reach(Point::CommitWritten, request.trailers.dispatch);
    if !worktree.swap_ref(&branch, &made, Some(&head), "devloop: commit")? {
        return Err(GitError::WrongHead { expected: head.to_string(), found: format!("{branch} moved") });
    }
    points::reach(Point::CommitSwapped, request.trailers.dispatch);
    // The worktree's own index follows, so that it looks clean; a stale lock of a dead run stays unread.
    let index = worktree.git_dir().join("index");
    files::rename(scratch.path(), &index).map_err(|source| GitError::Io {
        what: "replace",
        path: index,
        source,
    })?;
    Ok(CommitOutcome::Committed { head: made, entries, ignored: ignored.names })
}

/// git cannot stage a folder that is a repository without a commit: that is the run's doing, not a fault.
fn refuse_inner_repositories(worktree: &Repo, error: GitError) -> Result<CommitOutcome, GitError> {
    let paths = inner_repositories(worktree)?;
    if paths.is_empty() {
        return Err(error);
    }
    let violations = paths.into_iter().map(|path| Violation { path, offence: Offence::Submodule }).collect();
    Ok(CommitOutcome::ScopeViolation { violations })
}

/// Full ref of a task's branch.
pub fn task_ref(task: &TaskId) -> String {
    format!("refs/heads/devloop/{task}")
}

/// An index beside the real one, filled with a copy of it when there is one.
pub(crate) fn scratch_index(worktree: &Repo) -> Result<tempfile::NamedTempFile, GitError> {
    let dir = worktree.git_dir();
    let io = |what, source| GitError::Io { what, path: dir.to_path_buf(), source };
    let file =
        tempfile::Builder::new().prefix("devloop-index-").tempfile_in(dir).map_err(|e| io("write in", e))?;
    let copied =
        files::copy_index(&dir.join("index"), file.path()).map_err(|e| io("copy the index in", e))?;
    if !copied {
        // git takes a missing index for an empty one, but not an empty file.
        files::remove_file(file.path()).map_err(|e| io("write in", e))?;
        with_index(worktree, file.path(), &["read-tree", "HEAD"])?;
    }
    Ok(file)
}

/// Stages everything of the work tree into `index` and writes its tree.
pub(crate) fn stage(worktree: &Repo, index: &Path) -> Result<Oid, GitError> {
    with_index(worktree, index, &["add", "--all", "."])?;
    let tree = with_index(worktree, index, &["write-tree"])?;
    oid(&String::from_utf8_lossy(&tree))
}

fn with_index(worktree: &Repo, index: &Path, args: &[&str]) -> Result<Vec<u8>, GitError> {
    worktree.call(args).env("GIT_INDEX_FILE", index).limit_ms(TREE_LIMIT_MS).ok()
}

/// Does this one commit carry the trailer of the dispatch?
fn carries(repo: &Repo, commit: &Oid, dispatch: DispatchId) -> Result<bool, GitError> {
    let values = repo.call(["log", "-1", "--no-walk", TRAILER_FORMAT, commit.as_str()]).ok()?;
    Ok(String::from_utf8_lossy(&values).lines().any(|line| line.trim() == dispatch.to_string()))
}

const TRAILER_FORMAT: &str = "--format=%(trailers:key=Devloop-Dispatch,valueonly)";

/// Looks for a commit of a dispatch among those after `base` on a branch, newest first.
pub fn probe(repo: &Repo, full_ref: &str, base: &Oid, dispatch: DispatchId) -> Result<Option<Oid>, GitError> {
    let Some(tip) = repo.resolve(full_ref)?.filter(|tip| tip != base) else { return Ok(None) };
    let range = format!("{base}..{tip}");
    let format = "--format=%H%x00%(trailers:key=Devloop-Dispatch,valueonly,separator=%x00)%x00";
    let listed = repo.call(["log", "--first-parent", format, &range]).ok()?;
    let wanted = dispatch.to_string();
    for line in String::from_utf8_lossy(&listed).lines().filter(|line| !line.is_empty()) {
        let mut fields = line.split('\0');
        let commit = fields.next().unwrap_or_default();
        if fields.any(|value| value.trim() == wanted) {
            return oid(commit).map(Some);
        }
    }
    Ok(None)
}

/// Who made one commit of a task, as its trailers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The commit.
    pub commit: Oid,
    /// `Devloop-Route`; `None` for a commit that is not the host's, whose author is unknown to the loop.
    pub route: Option<String>,
}

/// Every commit between base and head that is not in the base, newest first; merged-in target commits
/// are the target's and are left out.
pub fn made_between(repo: &Repo, base: &Oid, head: &Oid) -> Result<Vec<Made>, GitError> {
    let format = "--format=%H%x00%(trailers:key=Devloop-Route,valueonly,separator=%x00)";
    let listed = repo.call(["log", "--first-parent", format, &format!("{base}..{head}")]).ok()?;
    let line = |line: &str| {
        let (commit, routes) = line.split_once('\0').unwrap_or((line, ""));
        let route = routes.split('\0').map(str::trim).find(|r| !r.is_empty()).map(str::to_owned);
        Ok(Made { commit: oid(commit)?, route })
    };
    String::from_utf8_lossy(&listed).lines().filter(|l| !l.is_empty()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_line_of_at_most_72_characters() {
        let task = TaskId::parse("t1").unwrap();
        assert_eq!(title_line(&task, "Fix\nthe  parser\t"), "t1: Fix the parser");
        assert_eq!(title_line(&task, " \n"), "t1: work on the task");
        let exact = "é".repeat(72 - 4);
        assert_eq!(title_line(&task, &exact), format!("t1: {exact}"));
        let cut = title_line(&task, &"é".repeat(73 - 4));
        assert_eq!((cut.chars().count(), cut.ends_with('…')), (72, true));
    }

    #[test]
    fn a_value_cannot_add_a_trailer() {
        let task = TaskId::parse("t1").unwrap();
        let route = Some("r\nDevloop-Dispatch: d9");
        let trailers = Trailers { task: &task, dispatch: DispatchId(4), route, contract: None };
        let message = trailers.message("t1: x");
        assert_eq!(message.lines().filter(|l| l.starts_with("Devloop-Dispatch:")).count(), 1);
    }
}
