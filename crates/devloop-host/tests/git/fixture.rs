//! A real repository in a folder of its own, and what a person or a run would do with it.

use devloop_core::ids::{DispatchId, Oid, TaskId};
use devloop_host::git::commit::{CommitOutcome, CommitRequest, Trailers, commit};
use devloop_host::git::merge::{self, Trial, trial};
use devloop_host::git::scope::Offence;
use devloop_host::git::{Git, GitError, Identity, Repo, Scope};
use devloop_host::worktree::{Start, Worktree, Worktrees};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const MAIN: &str = "refs/heads/main";

/// A repository with one commit, in a folder of its own.
pub struct Fixture {
    _dir: tempfile::TempDir,
    pub root: PathBuf,
    pub repo: Repo,
}

/// git as a person would run it, without the tester's own settings.
pub fn git_in(dir: &Path, args: &[&str]) -> String {
    let out = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always"])
        .args(args)
        .current_dir(dir)
        .env_remove("GIT_DIR")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

pub fn write(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

pub fn oid(text: &str) -> Oid {
    Oid::parse(text).unwrap()
}

pub fn task(name: &str) -> TaskId {
    TaskId::parse(name).unwrap()
}

pub const D1: DispatchId = DispatchId(1);
pub const D2: DispatchId = DispatchId(2);

impl Fixture {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("pro ject ü");
        fs::create_dir(&root).unwrap();
        git_in(&root, &["init", "--quiet", "--initial-branch=main"]);
        write(root.join("src/a.txt"), "one\n");
        write(root.join("README.md"), "read me\n");
        write(root.join(".gitignore"), "*.log\nbuild/\n");
        git_in(&root, &["add", "."]);
        git_in(&root, &["commit", "--quiet", "-m", "start"]);
        let repo = Repo::open(&Git::discover().unwrap(), &root).unwrap().unwrap();
        let fixture = Fixture { _dir: dir, root, repo };
        fixture.pool().exclude_devloop().unwrap();
        fixture
    }

    pub fn git(&self, args: &[&str]) -> String {
        git_in(&self.root, args)
    }

    pub fn pool(&self) -> Worktrees {
        Worktrees::new(&self.repo)
    }

    pub fn head(&self) -> Oid {
        oid(&self.git(&["rev-parse", "HEAD"]))
    }

    /// A commit on the branch that is checked out.
    pub fn commit_file(&self, name: &str, text: &str) -> Oid {
        write(self.root.join(name), text);
        self.git(&["add", "--", name]);
        self.git(&["commit", "--quiet", "-m", name]);
        self.head()
    }

    /// A task's worktree at the current commit.
    pub fn work(&self, dispatch: DispatchId, name: &str) -> (Worktree, Oid) {
        let base = self.head();
        (self.pool().add_for_task(dispatch, &task(name), Start::New { base: &base }).unwrap(), base)
    }

    /// A task with one host commit that wrote `files`.
    pub fn done(&self, dispatch: DispatchId, name: &str, files: &[(&str, &str)]) -> (Oid, Oid) {
        let (worktree, base) = self.work(dispatch, name);
        for (path, text) in files {
            write(worktree.tree.root().join(path), text);
        }
        match commit_work(&worktree, name, dispatch, &base, &["**"]) {
            CommitOutcome::Committed { head, .. } => (base, head),
            other => panic!("{other:?}"),
        }
    }

    pub fn merged(&self, target: &Oid, head: &Oid, dispatch: DispatchId, name: &str) -> Oid {
        let tree = match trial(&self.repo, target, head).unwrap() {
            Trial::Clean { tree } => tree,
            other => panic!("{other:?}"),
        };
        let task = task(name);
        let trailers = Trailers { task: &task, dispatch, route: None, contract: None };
        merge::candidate(&self.repo, target, head, &tree, &trailers, &Identity::devloop()).unwrap()
    }
}

pub fn commit_work(
    wt: &Worktree,
    name: &str,
    dispatch: DispatchId,
    base: &Oid,
    allowed: &[&str],
) -> CommitOutcome {
    try_commit(wt, name, dispatch, base, allowed).unwrap()
}

pub fn try_commit(
    wt: &Worktree,
    name: &str,
    dispatch: DispatchId,
    base: &Oid,
    allowed: &[&str],
) -> Result<CommitOutcome, GitError> {
    let task = task(name);
    let request = CommitRequest {
        title: "Write the file",
        base,
        before: base,
        trailers: Trailers { task: &task, dispatch, route: Some("claude"), contract: Some("abc") },
        scope: &Scope::new(allowed, &[] as &[&str]).unwrap(),
        binary_max_bytes: 1024,
        identity: &Identity::devloop(),
    };
    commit(&wt.tree, &request)
}

pub fn offences(outcome: CommitOutcome) -> Vec<(String, Offence)> {
    match outcome {
        CommitOutcome::ScopeViolation { violations } => {
            violations.into_iter().map(|v| (v.path.to_string(), v.offence)).collect()
        }
        other => panic!("{other:?}"),
    }
}
