//! Facts about a repository: is it fit for the loop, where do its branches stand, what differs between
//! two commits or in a work tree. It changes nothing and decides nothing.

use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use devloop_core::ids::Oid;

use super::direct::{self, Head};
use super::path::{Entry, RepoPath, parse_names, parse_raw};
use super::repo::{Repo, RootProblem};
use super::run::{Git, answer};
use super::status::dirty;
use super::{GitError, ignored};
use crate::files;

/// How many names a problem lists.
const NAMES_SHOWN: usize = 20;

/// Something of a person's that is under way in a checkout and that the loop never touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A merge with its message not written yet.
    Merge,
    /// A rebase, or patches being applied.
    Rebase,
    /// A cherry-pick.
    CherryPick,
    /// A revert.
    Revert,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Merge => "merge",
            Operation::Rebase => "rebase",
            Operation::CherryPick => "cherry-pick",
            Operation::Revert => "revert",
        })
    }
}

/// Why a folder is not fit for the loop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArmProblem {
    /// The folder is no project root.
    #[error(transparent)]
    Root(#[from] RootProblem),
    /// A repository without a commit.
    #[error("the repository has no commit yet")]
    NoCommit,
    /// A person is in the middle of something.
    #[error("a {operation} is in progress; finish or abort it")]
    InProgress { operation: Operation },
    /// HEAD names no branch.
    #[error("the checkout is on no branch (detached HEAD); switch to one")]
    Detached,
    /// Tracked files differ from the last commit.
    #[error("{total} tracked files have changes that are not committed")]
    Dirty { paths: Vec<RepoPath>, total: usize },
    /// `.devloop` is a link and could point anywhere.
    #[error(".devloop is a symbolic link; make it a folder")]
    DevloopIsSymlink,
    /// `.devloop` is a file.
    #[error(".devloop is not a folder")]
    DevloopIsNotAFolder,
}

impl ArmProblem {
    /// Stable name, used in JSON.
    pub fn key(&self) -> &'static str {
        match self {
            ArmProblem::Root(RootProblem::NotAFolder { .. }) => "not_a_folder",
            ArmProblem::Root(RootProblem::Symlink { .. }) => "root_is_symlink",
            ArmProblem::Root(RootProblem::NotARepository { .. }) => "not_a_repository",
            ArmProblem::Root(RootProblem::ForeignOwner { .. }) => "foreign_owner",
            ArmProblem::Root(RootProblem::NotTopLevel { .. }) => "not_top_level",
            ArmProblem::Root(RootProblem::Bare { .. }) => "bare_repository",
            ArmProblem::NoCommit => "no_commit",
            ArmProblem::InProgress { operation: Operation::Merge } => "mid_merge",
            ArmProblem::InProgress { operation: Operation::Rebase } => "mid_rebase",
            ArmProblem::InProgress { operation: Operation::CherryPick } => "mid_cherry_pick",
            ArmProblem::InProgress { operation: Operation::Revert } => "mid_revert",
            ArmProblem::Detached => "detached_head",
            ArmProblem::Dirty { .. } => "dirty_checkout",
            ArmProblem::DevloopIsSymlink => "devloop_is_symlink",
            ArmProblem::DevloopIsNotAFolder => "devloop_is_not_a_folder",
        }
    }
}

/// What is known about a folder before the loop is armed in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preflight {
    /// The repository, when there is one.
    pub repo: Option<Repo>,
    /// The commit the checkout is on.
    pub head: Option<Oid>,
    /// The full ref of the branch the checkout is on.
    pub branch: Option<String>,
    /// Everything that is in the way; empty means fit.
    pub problems: Vec<ArmProblem>,
}

/// Looks at a folder and names all that is in the way of the loop there, not only the first thing.
pub fn preflight(git: &Git, root: &Path) -> Result<Preflight, GitError> {
    let repo = match Repo::open(git, root)? {
        Ok(repo) => repo,
        Err(problem) => {
            return Ok(Preflight { repo: None, head: None, branch: None, problems: vec![problem.into()] });
        }
    };
    let mut problems = Vec::new();
    match files::stamp(&repo.root().join(".devloop")) {
        Some(stamp) if stamp.symlink => problems.push(ArmProblem::DevloopIsSymlink),
        Some(stamp) if !stamp.folder => problems.push(ArmProblem::DevloopIsNotAFolder),
        _ => {}
    }
    let (head, branch) = (repo.resolve("HEAD")?, current_branch(&repo)?);
    if head.is_none() {
        problems.push(ArmProblem::NoCommit);
    }
    if let Some(operation) = operation(&repo) {
        problems.push(ArmProblem::InProgress { operation });
    }
    if branch.is_none() {
        problems.push(ArmProblem::Detached);
    }
    let (paths, total) = dirty(&repo, NAMES_SHOWN)?;
    if total > 0 {
        problems.push(ArmProblem::Dirty { paths, total });
    }
    Ok(Preflight { repo: Some(repo), head, branch, problems })
}

/// What a person has under way in this checkout.
pub fn operation(repo: &Repo) -> Option<Operation> {
    let marks = [
        ("rebase-merge", Operation::Rebase),
        ("rebase-apply", Operation::Rebase),
        ("MERGE_HEAD", Operation::Merge),
        ("CHERRY_PICK_HEAD", Operation::CherryPick),
        ("REVERT_HEAD", Operation::Revert),
    ];
    marks.into_iter().find(|(name, _)| files::stamp(&repo.git_dir().join(name)).is_some()).map(|(_, op)| op)
}

/// The branch that a rebase in this checkout will rewrite when it ends.
pub(super) fn branch_being_rebased(repo: &Repo) -> Option<String> {
    ["rebase-merge/head-name", "rebase-apply/head-name"].iter().find_map(|name| {
        let bytes = files::read_bytes(&repo.git_dir().join(name), 4096).ok()?;
        Some(String::from_utf8(bytes).ok()?.trim().to_owned())
    })
}

/// Full ref of the branch that HEAD names; `None` when it is detached.
pub fn current_branch(repo: &Repo) -> Result<Option<String>, GitError> {
    match direct::head(repo.git_dir()) {
        Some(Head::Branch(name)) => Ok(Some(name)),
        Some(Head::Detached(_)) => Ok(None),
        None => repo.call(["symbolic-ref", "--quiet", "HEAD"]).maybe_line(),
    }
}

/// The commit a branch stands on, by its full ref.
pub fn tip(repo: &Repo, full_ref: &str) -> Result<Option<Oid>, GitError> {
    repo.resolve(full_ref)
}

/// The branch that HEAD of the remote `origin` names, by its full ref below `refs/remotes/`.
pub fn origin_head(repo: &Repo) -> Result<Option<String>, GitError> {
    const HEAD: &str = "refs/remotes/origin/HEAD";
    match direct::symbolic(repo.common_dir(), HEAD) {
        Some(found) => Ok(found),
        None => repo.call(["symbolic-ref", "--quiet", HEAD]).maybe_line(),
    }
}

/// Full refs of the trunks: `main`, `master`, the default branch of every remote, and `configured` names.
pub fn trunks(repo: &Repo, configured: &[String]) -> Result<Vec<String>, GitError> {
    let format = "--format=%(refname)%00%(symref)";
    let bytes = repo.call(["for-each-ref", format, "refs/remotes/**/HEAD", "refs/remotes/*/HEAD"]).ok()?;
    let mut names: Vec<String> = vec!["main".into(), "master".into()];
    for line in String::from_utf8_lossy(&bytes).lines() {
        // The full symbolic ref: a branch of the remote that is itself called HEAD does not mislead.
        let Some((head, target)) = line.split_once('\0') else { continue };
        let Some(remote) = head.strip_suffix("HEAD") else { continue };
        names.extend(target.strip_prefix(remote).map(str::to_owned));
    }
    names.extend(configured.iter().map(|name| name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()));
    let mut refs: Vec<String> = names.into_iter().map(|name| format!("refs/heads/{name}")).collect();
    refs.sort();
    refs.dedup();
    Ok(refs)
}

/// Is this full ref one of the trunks? Compared without case: some file systems keep one file for both.
pub fn is_trunk(full_ref: &str, trunks: &[String]) -> bool {
    let folded = full_ref.to_lowercase();
    trunks.iter().any(|trunk| trunk.to_lowercase() == folded)
}

/// Every entry that differs between two commits or trees; a rename appears as its two names.
pub fn changed_between(repo: &Repo, old: &Oid, new: &Oid) -> Result<Vec<Entry>, GitError> {
    let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--full-index"];
    let bytes = repo.call(args.into_iter().chain([old.as_str(), new.as_str()])).ok()?;
    parse_raw(&bytes).ok_or_else(|| answer("diff-tree", "an unknown line"))
}

/// What a work tree holds beyond a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeChanges {
    /// Tracked entries that differ from the base, committed since or not.
    pub tracked: Vec<Entry>,
    /// Files that are neither tracked nor ignored.
    pub untracked: Vec<RepoPath>,
    /// Ignored files; a wholly ignored folder is one name ending in `/`. They are never committed.
    pub ignored: Vec<RepoPath>,
}

/// Compares a work tree with a base commit.
pub fn worktree_changes(repo: &Repo, base: &Oid) -> Result<WorktreeChanges, GitError> {
    let (tracked, untracked) = committable(repo, base)?;
    Ok(WorktreeChanges { tracked, untracked, ignored: ignored::ignored(repo)? })
}

/// The part of it that a commit would take up: tracked entries that differ, and new files.
pub fn committable(repo: &Repo, base: &Oid) -> Result<(Vec<Entry>, Vec<RepoPath>), GitError> {
    let diff = [
        "diff",
        "--raw",
        "-z",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=dirty",
    ];
    let raw = repo.call(diff.into_iter().chain([base.as_str()])).ok()?;
    let others = ["ls-files", "-z", "--others", "--exclude-standard"];
    let tracked = parse_raw(&raw).ok_or_else(|| answer("diff", "an unknown line"))?;
    Ok((tracked, parse_names(&repo.call(others).ok()?)))
}

/// Lines added and deleted in one file; `None` for a file that is not text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSize {
    /// The file.
    pub path: RepoPath,
    /// Added and deleted lines.
    pub lines: Option<(u64, u64)>,
}

/// Sizes of what `head` adds to `base` since they parted.
pub fn numstat(repo: &Repo, base: &Oid, head: &Oid) -> Result<Vec<FileSize>, GitError> {
    let range = format!("{base}...{head}");
    let args = ["diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", &range];
    let bytes = repo.call(args).ok()?;
    let line = |record: &[u8]| {
        let mut parts = record.splitn(3, |b| *b == b'\t');
        let number = |b: Option<&[u8]>| std::str::from_utf8(b?).ok()?.parse().ok();
        let (added, deleted) = (number(parts.next()), number(parts.next()));
        Some(FileSize { path: RepoPath::new(parts.next()?), lines: added.zip(deleted) })
    };
    let records = bytes.split(|b| *b == 0).filter(|r| !r.is_empty());
    records.map(line).collect::<Option<_>>().ok_or_else(|| answer("diff", "a line that is no numstat"))
}

/// The text of a change, whole files only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffText {
    /// The patch of the files that fit, in git's order.
    pub patch: Vec<u8>,
    /// Files left out because the limit was reached. Not empty means: this is not the whole change.
    pub omitted: Vec<RepoPath>,
}

/// The three-dot diff (what `head` adds since it left `base`) of at most `max_bytes`. When not all fits,
/// the largest files are left out first, so that one generated file does not hide the written ones.
pub fn diff_text(repo: &Repo, base: &Oid, head: &Oid, max_bytes: usize) -> Result<DiffText, GitError> {
    let range = format!("{base}...{head}");
    let common = ["--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", &range];
    let names = parse_names(&repo.call(["diff", "--name-only", "-z"].into_iter().chain(common)).ok()?);
    let patch = repo.call(["diff", "--full-index", "--submodule=short"].into_iter().chain(common)).ok()?;
    let pieces = split_patch(&patch);
    if pieces.len() != names.len() {
        return Err(answer("diff", "names and patches do not match"));
    }
    let mut by_size: Vec<usize> = (0..pieces.len()).collect();
    by_size.sort_by_key(|i| pieces[*i].len());
    let mut room = max_bytes;
    let mut fits = vec![false; pieces.len()];
    for i in by_size {
        fits[i] = pieces[i].len() <= room;
        room -= if fits[i] { pieces[i].len() } else { room };
    }
    let mut text = DiffText { patch: Vec::new(), omitted: Vec::new() };
    for ((piece, name), fits) in pieces.into_iter().zip(names).zip(fits) {
        if fits { text.patch.extend_from_slice(piece) } else { text.omitted.push(name) }
    }
    Ok(text)
}

/// Content lines start with a space, a sign or a backslash, so this start of a line is only ever a header.
fn split_patch(patch: &[u8]) -> Vec<&[u8]> {
    const HEADER: &[u8] = b"diff --git ";
    let starts: Vec<usize> = (0..patch.len())
        .filter(|i| (*i == 0 || patch[i - 1] == b'\n') && patch[*i..].starts_with(HEADER))
        .collect();
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    starts.iter().zip(ends).map(|(from, to)| &patch[*from..to]).collect()
}

/// One work tree that git has registered, with the folder that git keeps for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Where it is said to stand.
    pub path: PathBuf,
    /// git's folder for it; `None` when it could not be found.
    pub admin: Option<PathBuf>,
    /// The full ref that it has checked out; `None` when detached.
    pub branch: Option<String>,
    /// The commit that it is on.
    pub head: Option<Oid>,
    /// It was locked by somebody, with the reason given.
    pub locked: Option<String>,
}

/// Every registered work tree, the main one first.
pub fn worktrees(repo: &Repo) -> Result<Vec<Registered>, GitError> {
    if let Some(found) = direct::worktrees(repo) {
        return Ok(found);
    }
    let bytes = repo.call(["worktree", "list", "--porcelain", "-z"]).ok()?;
    let admins = admin_folders(repo)?;
    let mut found: Vec<Registered> = Vec::new();
    for line in bytes.split(|b| *b == 0) {
        let (word, rest) = match line.iter().position(|b| *b == b' ') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        let text = || String::from_utf8_lossy(rest).into_owned();
        match (word, found.last_mut()) {
            (b"worktree", _) => {
                let path = PathBuf::from(std::ffi::OsString::from_vec(rest.to_vec()));
                let is_main = found.is_empty();
                // git guesses the main tree from its folder's name; the host knows where it opened it.
                let known = is_main && repo.git_dir() == repo.common_dir();
                let path = if known { repo.root().to_path_buf() } else { path };
                let main = is_main.then(|| repo.common_dir().to_path_buf());
                let admin =
                    main.or_else(|| admins.iter().find(|(_, p)| *p == path).map(|(admin, _)| admin.clone()));
                found.push(Registered { path, admin, branch: None, head: None, locked: None });
            }
            (b"HEAD", Some(last)) => last.head = Oid::parse(&text()).ok(),
            (b"branch", Some(last)) => last.branch = Some(text()),
            (b"locked", Some(last)) => last.locked = Some(text()),
            _ => {}
        }
    }
    Ok(found)
}

/// git's folders of linked work trees, each with the work tree that it belongs to.
pub(super) fn admin_folders(repo: &Repo) -> Result<Vec<(PathBuf, PathBuf)>, GitError> {
    let dir = repo.common_dir().join("worktrees");
    let names =
        files::list_names(&dir).map_err(|source| GitError::Io { what: "list", path: dir.clone(), source })?;
    let mut found = Vec::new();
    for admin in names.into_iter().map(|name| dir.join(name)) {
        let Ok(bytes) = files::read_bytes(&admin.join("gitdir"), 8192) else { continue };
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        // One that another git is making in this moment.
        if line.is_empty() {
            continue;
        }
        let link = admin.join(std::ffi::OsStr::from_bytes(line));
        if let Some(path) = link.parent() {
            // Relative links are stored by newer git when asked to; make them comparable.
            let path = files::canonical(path).unwrap_or_else(|_| path.to_path_buf());
            found.push((admin, path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_split_at_headers_only() {
        let patch = b"diff --git a/x b/x\n@@ -0,0 +1 @@\n+diff --git a/fake b/fake\ndiff --git a/y b/y\n";
        let pieces = split_patch(patch);
        assert_eq!(pieces.len(), 2);
        assert!(pieces[0].ends_with(b"b/fake\n"));
        assert!(split_patch(b"").is_empty());
    }

    #[test]
    fn trunks_are_compared_without_case() {
        let trunks = ["refs/heads/main".to_owned()];
        assert!(is_trunk("refs/heads/Main", &trunks) && !is_trunk("refs/heads/maintenance", &trunks));
    }
}
