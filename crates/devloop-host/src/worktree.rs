//! The work trees of dispatches: made below `.devloop/worktrees`, one folder per dispatch, never handed on.
//! Work that nobody has seen is moved aside or saved under a ref, never deleted; no other tree is ever used.

mod types;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use devloop_core::ids::{DispatchId, Oid, TaskId};

use crate::files;
use crate::git::commit::{TREE_LIMIT_MS, scratch_index, stage, task_ref};
use crate::git::inspect::{current_branch, worktrees};
use crate::git::repo::NewCommit;
use crate::git::status::inner_repositories;
use crate::git::{GitError, Identity, Repo, RepoPath};
use crate::store::points::{self, Point};

pub use types::{BranchEnd, Listed, Outcome, Removal, Removed, Start, Worktree, WorktreeError};

/// How many names an error lists.
const NAMES_SHOWN: usize = 20;
/// How often git is asked to make a work tree while others are being made.
const ADD_TRIES: usize = 5;

/// The pool of work trees of one project.
#[derive(Debug, Clone)]
pub struct Worktrees {
    repo: Repo,
    devloop: PathBuf,
    pool: PathBuf,
}

/// Where the unfinished work of a dispatch is saved.
#[must_use]
pub fn orphan_ref(dispatch: DispatchId) -> String {
    format!("refs/devloop/orphan/{dispatch}")
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorktreeError + use<> {
    let path = path.to_path_buf();
    move |source| WorktreeError::Io { what, path, source }
}

impl Worktrees {
    /// The pool of the project that `repo` is the checkout of; touches nothing.
    pub fn new(repo: &Repo) -> Self {
        let devloop = repo.root().join(".devloop");
        Worktrees { repo: repo.clone(), pool: devloop.join("worktrees"), devloop }
    }

    /// Where the work tree of a dispatch stands or would stand.
    pub fn path_of(&self, dispatch: DispatchId) -> PathBuf {
        self.pool.join(dispatch.to_string())
    }

    /// Makes the work tree of a dispatch on the branch `devloop/<task>`. Doing it again finds it made.
    ///
    /// # Errors
    /// Every way in which the branch or the folder is not free has its own name; nothing else is used.
    pub fn add_for_task(&self, dispatch: DispatchId, task: &TaskId, start: Start<'_>) -> Outcome<Worktree> {
        let branch = task_ref(task);
        let moved_aside = match self.make_room(dispatch)? {
            Room::Taken(open) if open.branch.as_deref() == Some(&branch) => {
                self.require_start(&branch, start)?;
                return Ok(*open);
            }
            Room::Taken(open) => {
                return Err(added_failed(open.tree.root(), "another dispatch's tree is there"));
            }
            Room::Free { moved_aside } => moved_aside,
        };
        if let Some(holder) = self.holder_of(&branch)? {
            return Err(WorktreeError::BranchHeld { branch, by: holder });
        }
        self.require_start(&branch, start)?;
        let short = branch.trim_start_matches("refs/heads/").to_owned();
        self.add(dispatch, &[&short], moved_aside)
    }

    /// Makes a detached work tree at a commit: for planning, checks and reviews.
    pub fn add_detached(&self, dispatch: DispatchId, at: &Oid) -> Outcome<Worktree> {
        match self.make_room(dispatch)? {
            Room::Taken(open) if open.branch.is_none() && open.head == *at => Ok(*open),
            Room::Taken(open) => Err(added_failed(open.tree.root(), "another dispatch's tree is there")),
            Room::Free { moved_aside } => self.add(dispatch, &["--detach", at.as_str()], moved_aside),
        }
    }

    fn add(&self, dispatch: DispatchId, what: &[&str], moved_aside: Option<PathBuf>) -> Outcome<Worktree> {
        points::reach(Point::WorktreeAdd, dispatch);
        let path = self.path_of(dispatch);
        let (flags, commit) = what.split_at(what.len() - 1);
        let words = ["worktree", "add", "--quiet"].iter().chain(flags).chain(&["--"]).map(OsStr::new);
        let args = words.chain([path.as_os_str(), OsStr::new(commit[0])]);
        let call = self.repo.call(args).limit_ms(TREE_LIMIT_MS);
        let mut exit = call.run()?;
        for _ in 1..ADD_TRIES {
            // git gives up over a neighbour that another git is making in that moment.
            if exit.code == Some(0) || !exit.stderr.text().contains("commondir") {
                break;
            }
            exit = call.run()?;
        }
        if exit.code != Some(0) {
            // What git left half made is taken back; it was empty before, so nothing unseen is in it.
            self.unregister(&path)?;
            return Err(added_failed(&path, exit.stderr.text().trim()));
        }
        points::reach(Point::WorktreeAdded, dispatch);
        let made = self.open(dispatch)?.ok_or_else(|| WorktreeError::NotRegistered { path: path.clone() })?;
        write_owned(&made, ".gitignore", b"*\n")?;
        Ok(Worktree { moved_aside, ..made })
    }

    /// Opens the work tree of a dispatch; `None` when git has none registered there with its folder.
    pub fn open(&self, dispatch: DispatchId) -> Outcome<Option<Worktree>> {
        let path = self.path_of(dispatch);
        if !real_folder(&path)? {
            return Ok(None);
        }
        let found = worktrees(&self.repo)?.into_iter().find(|r| r.path == path);
        let Some(admin) = found.and_then(|r| r.admin) else { return Ok(None) };
        let tree = self.repo.pinned(path, admin);
        let branch = current_branch(&tree)?;
        let Some(head) = tree.resolve("HEAD")? else { return Ok(None) };
        Ok(Some(Worktree { name: dispatch.to_string(), tree, branch, head, moved_aside: None }))
    }

    /// Makes the pool and frees the folder of a dispatch.
    fn make_room(&self, dispatch: DispatchId) -> Outcome<Room> {
        ensure_folder(&self.devloop)?;
        ensure_folder(&self.pool)?;
        let ignore = self.pool.join(".gitignore");
        if files::stamp(&ignore).is_none() {
            fs::write(&ignore, "*\n").map_err(io_error("write", &ignore))?;
        }
        self.drop_stale_registrations()?;
        let path = self.path_of(dispatch);
        let half_made = self.is_half_made(&path)?;
        if !half_made && let Some(open) = self.open(dispatch)? {
            write_owned(&open, ".gitignore", b"*\n")?;
            return Ok(Room::Taken(Box::new(open)));
        }
        let moved_aside = if files::stamp(&path).is_some() { Some(self.move_aside(&path)?) } else { None };
        if half_made {
            self.unregister(&path)?;
        }
        Ok(Room::Free { moved_aside })
    }

    /// git locks a work tree while it makes it; the lock of one that died in between stays for ever.
    fn is_half_made(&self, path: &Path) -> Outcome<bool> {
        let found = worktrees(&self.repo)?.into_iter().find(|r| r.path == path);
        Ok(found.and_then(|r| r.locked).is_some_and(|reason| reason == "initializing"))
    }

    /// Only registrations of this pool whose folder is gone; the operator's own trees are left alone, one
    /// may be on a disk that is not plugged in.
    fn drop_stale_registrations(&self) -> Outcome<()> {
        for registered in worktrees(&self.repo)? {
            let ours = registered.path.parent() == Some(self.pool.as_path());
            if ours && registered.locked.is_none() && files::stamp(&registered.path).is_none() {
                self.unregister(&registered.path)?;
            }
        }
        Ok(())
    }

    /// Moves a stray folder of a dispatch to `.devloop/aside` and tells where it is now; `None`: there is
    /// none, or git knows it and it is no stray.
    pub fn set_aside(&self, dispatch: DispatchId) -> Outcome<Option<PathBuf>> {
        let path = self.path_of(dispatch);
        if files::stamp(&path).is_none() || self.open(dispatch)?.is_some() {
            return Ok(None);
        }
        self.move_aside(&path).map(Some)
    }

    fn move_aside(&self, path: &Path) -> Outcome<PathBuf> {
        let aside = self.devloop.join("aside");
        ensure_folder(&aside)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let names = std::iter::once(name.clone()).chain((2..).map(|n| format!("{name}-{n}")));
        let free = names.map(|n| aside.join(n)).find(|p| files::stamp(p).is_none());
        let free = free.unwrap_or_else(|| aside.join(&name));
        fs::rename(path, &free).map_err(io_error("move aside", path))?;
        Ok(free)
    }

    fn holder_of(&self, branch: &str) -> Outcome<Option<PathBuf>> {
        let holder = worktrees(&self.repo)?.into_iter().find(|r| r.branch.as_deref() == Some(branch));
        Ok(holder.map(|r| r.path))
    }

    /// Puts the branch where the dispatch starts, or says why it is not there.
    fn require_start(&self, branch: &str, start: Start<'_>) -> Outcome<()> {
        let tip = self.repo.resolve(branch)?;
        let base = match start {
            Start::At { head } if tip.as_ref() == Some(head) => return Ok(()),
            Start::At { head } => {
                return Err(WorktreeError::BranchMoved {
                    branch: branch.to_owned(),
                    expected: head.clone(),
                    found: tip,
                });
            }
            Start::New { base } => base,
        };
        match &tip {
            Some(tip) if tip == base => return Ok(()),
            Some(tip) if !self.repo.contains(base, tip)? => {
                return Err(WorktreeError::BranchTaken { branch: branch.to_owned(), tip: tip.clone() });
            }
            _ => {}
        }
        let blocked = |said: String| WorktreeError::BranchNameBlocked { branch: branch.to_owned(), said };
        match self.repo.swap_ref(branch, base, tip.as_ref(), "devloop: start") {
            Ok(true) => Ok(()),
            Ok(false) => Err(blocked("it was made by somebody else in that moment".into())),
            Err(GitError::Locked { stderr, .. } | GitError::Failed { stderr, .. }) => Err(blocked(stderr)),
            Err(other) => Err(other.into()),
        }
    }

    /// Removes the work tree of a dispatch; its branch stays.
    ///
    /// # Errors
    /// Work that would be lost, a lock, or the file system; then the tree stands as it was.
    pub fn remove(&self, dispatch: DispatchId, how: Removal) -> Outcome<Removed> {
        let path = self.path_of(dispatch);
        let Some(open) = self.open(dispatch)? else {
            if files::stamp(&path).is_some() {
                return Err(WorktreeError::NotRegistered { path });
            }
            self.drop_stale_registrations()?;
            return Ok(Removed { existed: false, saved: None });
        };
        let registered = worktrees(&self.repo)?.into_iter().find(|r| r.path == path);
        if let Some(reason) = registered.and_then(|r| r.locked) {
            return Err(WorktreeError::Locked { path, reason });
        }
        let saved = match how {
            Removal::Throwaway => None,
            Removal::Clean => self.require_clean(&open).map(|()| None)?,
            Removal::SaveOrphan => self.save_orphan(dispatch)?,
        };
        points::reach(Point::TreeRemove, dispatch);
        files::remove_tree(&path).map_err(io_error("remove", &path))?;
        points::reach(Point::TreeRemoved, dispatch);
        self.unregister(&path)?;
        Ok(Removed { existed: true, saved })
    }

    /// Takes git's registration of a folder that is gone or empty.
    fn unregister(&self, path: &Path) -> Outcome<()> {
        if !worktrees(&self.repo)?.iter().any(|r| r.path == path) {
            return Ok(());
        }
        // Twice: once for what it holds, once for the lock of an `add` that died; both were looked at.
        let words = ["worktree", "remove", "--force", "--force", "--"].map(OsStr::new);
        let exit =
            self.repo.call(words.into_iter().chain([path.as_os_str()])).limit_ms(TREE_LIMIT_MS).run()?;
        if exit.code != Some(0) && worktrees(&self.repo)?.iter().any(|r| r.path == path) {
            let said = exit.stderr.text().trim().to_owned();
            return Err(WorktreeError::RemoveFailed { path: path.to_path_buf(), said });
        }
        Ok(())
    }

    fn require_clean(&self, open: &Worktree) -> Outcome<()> {
        // Inside submodules too: their work is in no commit of this repository.
        let args = [
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            "--ignore-submodules=none",
        ];
        let bytes = open.tree.call(args).ok()?;
        let lines: Vec<&[u8]> = bytes.split(|b| *b == 0).filter(|l| l.len() > 3).collect();
        if lines.is_empty() {
            if open.branch.is_some() || self.repo.is_reachable(&open.head)? {
                return Ok(());
            }
            let path = open.tree.root().to_path_buf();
            return Err(WorktreeError::Unreachable { path, head: open.head.clone() });
        }
        let paths = lines.iter().take(NAMES_SHOWN).map(|l| RepoPath::new(&l[3..])).collect();
        let path = open.tree.root().to_path_buf();
        Err(WorktreeError::Unclean { path, paths, total: lines.len() })
    }

    /// Saves everything in a work tree that is not committed as `refs/devloop/orphan/<dispatch>`, ignored
    /// files excepted. The branch and the tree stay as they are. `None`: there is nothing to save.
    pub fn save_orphan(&self, dispatch: DispatchId) -> Outcome<Option<Oid>> {
        let Some(open) = self.open(dispatch)? else { return Ok(None) };
        let inner = inner_repositories(&open.tree)?;
        if !inner.is_empty() {
            let path = open.tree.root().to_path_buf();
            return Err(WorktreeError::InnerRepositories { path, paths: inner });
        }
        let scratch = scratch_index(&open.tree)?;
        let tree = stage(&open.tree, scratch.path())?;
        let kept = open.branch.is_some() || self.repo.is_reachable(&open.head)?;
        if kept && tree == open.tree.tree_of(&open.head)? {
            return Ok(None);
        }
        let name = orphan_ref(dispatch);
        let earlier = self.repo.resolve(&name)?;
        if let Some(earlier) = &earlier
            && self.repo.tree_of(earlier)? == tree
        {
            return Ok(Some(earlier.clone()));
        }
        let parents: Vec<&Oid> = std::iter::once(&open.head).chain(&earlier).collect();
        let message = format!("devloop: unfinished work of {dispatch}\n\nDevloop-Orphan: {dispatch}\n");
        let identity = Identity::devloop();
        let new = NewCommit { tree: &tree, parents: &parents, message: &message, identity: &identity };
        let saved = self.repo.write_commit(&new)?;
        if self.repo.swap_ref(&name, &saved, earlier.as_ref(), "devloop: orphan")? {
            return Ok(Some(saved));
        }
        Err(WorktreeError::BranchMoved {
            branch: name.clone(),
            expected: saved,
            found: self.repo.resolve(&name)?,
        })
    }

    /// Takes a task's branch out of the way, keeping its commits as `refs/devloop/retired/<name>`; a name
    /// in use gets a number. `None`: there is no such branch.
    pub fn retire_branch(&self, task: &TaskId) -> Outcome<Option<(String, Oid)>> {
        let branch = task_ref(task);
        let Some(tip) = self.repo.resolve(&branch)? else { return Ok(None) };
        self.require_not_held(&branch)?;
        for n in 1..=1_000 {
            let name = match n {
                1 => format!("refs/devloop/retired/{task}"),
                n => format!("refs/devloop/retired/{task}-{n}"),
            };
            let there = self.repo.resolve(&name)?;
            let free = there.is_none() && self.repo.swap_ref(&name, &tip, None, "devloop: retire")?;
            if free || there.as_ref() == Some(&tip) {
                self.delete_ref(&branch, &tip)?;
                return Ok(Some((name, tip)));
            }
        }
        let said = "a thousand retired branches have its name".to_owned();
        Err(WorktreeError::BranchNameBlocked { branch, said })
    }

    /// Deletes a task's branch when the target contains it, compared at that moment.
    pub fn delete_branch_if_contained(&self, task: &TaskId, target_ref: &str) -> Outcome<BranchEnd> {
        let branch = task_ref(task);
        let Some(tip) = self.repo.resolve(&branch)? else { return Ok(BranchEnd::Absent) };
        let Some(target) = self.repo.resolve(target_ref)? else { return Ok(BranchEnd::NotContained { tip }) };
        if !self.repo.contains(&target, &tip)? {
            return Ok(BranchEnd::NotContained { tip });
        }
        self.require_not_held(&branch)?;
        points::reach(Point::BranchDelete, task);
        self.delete_ref(&branch, &tip)?;
        Ok(BranchEnd::Deleted { tip })
    }

    fn require_not_held(&self, branch: &str) -> Outcome<()> {
        self.drop_stale_registrations()?;
        match self.holder_of(branch)? {
            Some(by) => Err(WorktreeError::BranchHeld { branch: branch.to_owned(), by }),
            None => Ok(()),
        }
    }

    fn delete_ref(&self, name: &str, tip: &Oid) -> Outcome<()> {
        self.repo.call(["update-ref", "-d", name, tip.as_str()]).ok()?;
        Ok(())
    }

    /// Everything in the pool: registrations and folders, with the dispatch that owns each.
    pub fn list(&self) -> Outcome<Vec<Listed>> {
        let mut listed: Vec<Listed> = Vec::new();
        for registered in worktrees(&self.repo)? {
            if registered.path.parent() != Some(self.pool.as_path()) {
                continue;
            }
            let name = name_of(&registered.path);
            let (owner, path) = (DispatchId::parse(&name).ok(), registered.path.clone());
            let present = files::stamp(&path).is_some();
            listed.push(Listed { name, owner, path, registered: Some(registered), present });
        }
        for name in files::list_names(&self.pool).map_err(io_error("list", &self.pool))? {
            let path = self.pool.join(name);
            let name = name_of(&path);
            if name != ".gitignore" && !listed.iter().any(|l| l.path == path) {
                let owner = DispatchId::parse(&name).ok();
                listed.push(Listed { name, owner, path, registered: None, present: true });
            }
        }
        listed.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listed)
    }

    /// Adds the line `.devloop/` to the repository's own `info/exclude`; true when it was not there yet.
    pub fn exclude_devloop(&self) -> Outcome<bool> {
        let dir = self.repo.common_dir().join("info");
        ensure_folder(&dir)?;
        let path = dir.join("exclude");
        let before = match files::read_bytes(&path, 1024 * 1024) {
            Ok(bytes) => bytes,
            Err(files::FileProblem::Missing { .. }) => Vec::new(),
            Err(files::FileProblem::Symlink { path }) => return Err(WorktreeError::Symlink { path }),
            Err(other) => return Err(io_error("read", &path)(io::Error::other(other))),
        };
        let is_ours = |line: &[u8]| matches!(line.trim_ascii(), b".devloop/" | b"/.devloop/" | b".devloop");
        if before.split(|b| *b == b'\n').any(is_ours) {
            return Ok(false);
        }
        let end = if before.is_empty() || before.ends_with(b"\n") { "" } else { "\n" };
        let mut file =
            fs::OpenOptions::new().create(true).append(true).open(&path).map_err(io_error("open", &path))?;
        file.write_all(format!("{end}.devloop/\n").as_bytes()).map_err(io_error("write", &path))?;
        Ok(true)
    }
}

enum Room {
    Taken(Box<Worktree>),
    Free { moved_aside: Option<PathBuf> },
}

/// Writes the frozen contract where the worker finds it; it is kept out of every commit.
pub fn write_contract(worktree: &Worktree, json: &[u8]) -> Outcome<PathBuf> {
    write_owned(worktree, "CONTRACT.json", json)
}

/// Writes a file into the `.devloop` folder of a work tree, in place of whatever has its name there: a
/// link that a run planted, symbolic or hard, is unlinked and not written through.
pub fn write_owned(worktree: &Worktree, name: &str, bytes: &[u8]) -> Outcome<PathBuf> {
    let dir = worktree.tree.root().join(".devloop");
    ensure_folder(&dir)?;
    let path = dir.join(name);
    if files::stamp(&path).is_some() {
        files::remove_file(&path).map_err(io_error("unlink", &path))?;
    }
    let mut file = files::create_private(&path).map_err(io_error("make", &path))?;
    file.write_all(bytes).and_then(|()| file.flush()).map_err(io_error("write", &path))?;
    Ok(path)
}

fn added_failed(path: &Path, said: &str) -> WorktreeError {
    WorktreeError::AddFailed { path: path.to_path_buf(), said: said.to_owned() }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Makes a folder unless it is there; two dispatches may do it at once.
fn ensure_folder(dir: &Path) -> Outcome<()> {
    if !real_folder(dir)? {
        match fs::create_dir(dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(io_error("make", dir)(e)),
            _ => {}
        }
    }
    Ok(())
}

/// True for a real folder, false for nothing.
fn real_folder(path: &Path) -> Outcome<bool> {
    match files::stamp(path) {
        None => Ok(false),
        Some(stamp) if stamp.symlink => Err(WorktreeError::Symlink { path: path.to_path_buf() }),
        Some(stamp) if stamp.folder => Ok(true),
        Some(_) => Err(WorktreeError::NotAFolder { path: path.to_path_buf() }),
    }
}
