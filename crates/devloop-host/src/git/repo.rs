//! One work tree of a repository with its folders pinned: opening it, what its names mean, writing a
//! commit and swapping a ref. How git is called is `run.rs`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use devloop_core::ids::Oid;

use super::run::{Call, Git, answer, failed, oid, said};
use super::{GitError, direct, filters};
use crate::files;

/// Who a commit is by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name as in `user.name`.
    pub name: String,
    /// Address as in `user.email`.
    pub email: String,
}

impl Identity {
    /// Used when the operator has told git no name.
    pub fn devloop() -> Self {
        Identity { name: "DevLoop".into(), email: "devloop@localhost".into() }
    }

    fn env(&self) -> [(&'static str, &str); 4] {
        [
            ("GIT_AUTHOR_NAME", &self.name),
            ("GIT_AUTHOR_EMAIL", &self.email),
            ("GIT_COMMITTER_NAME", &self.name),
            ("GIT_COMMITTER_EMAIL", &self.email),
        ]
    }
}

/// Why a folder cannot be the root of a project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RootProblem {
    /// Not a folder, or nothing.
    #[error("{} is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    /// The folder is reached through a link.
    #[error("{} is a symbolic link; use the folder itself", path.display())]
    Symlink { path: PathBuf },
    /// No repository at all; `said` is git's own reason, for example dubious ownership.
    #[error("{} is not a git repository: {said}", path.display())]
    NotARepository { path: PathBuf, said: String },
    /// git does not trust a repository that another user owns.
    #[error(
        "{} belongs to another user; trust it with: git config --global --add safe.directory {}",
        path.display(),
        path.display()
    )]
    ForeignOwner { path: PathBuf },
    /// A folder inside a repository.
    #[error("{} is inside the repository {}; use that folder", path.display(), top.display())]
    NotTopLevel { path: PathBuf, top: PathBuf },
    /// A repository without files.
    #[error("{} is a bare repository", path.display())]
    Bare { path: PathBuf },
}

/// One work tree of a repository with its folders pinned: neither the `.git` file of a worktree nor its
/// `commondir` file is believed, because a run can write them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    git: Git,
    root: PathBuf,
    git_dir: PathBuf,
    common_dir: PathBuf,
}

impl Repo {
    /// Opens a project root: a real folder that is its own top level and not bare.
    ///
    /// # Errors
    /// The outer error is git not answering; the inner one says what is wrong with the folder.
    pub fn open(git: &Git, root: &Path) -> Result<Result<Repo, RootProblem>, GitError> {
        let path = || root.to_path_buf();
        match files::stamp(root) {
            Some(stamp) if stamp.symlink => return Ok(Err(RootProblem::Symlink { path: path() })),
            Some(stamp) if stamp.folder => {}
            _ => return Ok(Err(RootProblem::NotAFolder { path: path() })),
        }
        let real = files::canonical(root).map_err(|source| GitError::Io {
            what: "resolve",
            path: path(),
            source,
        })?;
        let ask = ["rev-parse", "--is-bare-repository", "--absolute-git-dir"];
        let exit = git.bare_call(&real, ask).run()?;
        if exit.code != Some(0) {
            let said = said(&exit);
            let foreign = said.contains("dubious ownership");
            return Ok(Err(match foreign {
                true => RootProblem::ForeignOwner { path: real },
                false => RootProblem::NotARepository { path: path(), said },
            }));
        }
        let (bare, git_dir) = match exit.stdout.text().split_once('\n') {
            Some((bare, rest)) => (bare == "true", PathBuf::from(rest.trim_end_matches('\n'))),
            None => return Err(answer("rev-parse", "no folder")),
        };
        if bare {
            return Ok(Err(RootProblem::Bare { path: path() }));
        }
        let top = git.bare_call(&real, ["rev-parse", "--show-toplevel"]).run()?;
        if top.code != Some(0) {
            return Ok(Err(RootProblem::NotARepository { path: path(), said: said(&top) }));
        }
        let top = path_of(top.stdout.bytes);
        if top != real {
            return Ok(Err(RootProblem::NotTopLevel { path: path(), top }));
        }
        let common =
            git.bare_call(&real, ["rev-parse", "--path-format=absolute", "--git-common-dir"]).ok()?;
        Ok(Ok(Repo { git: git.clone(), root: real, git_dir, common_dir: path_of(common) }))
    }

    /// Another work tree of the same repository, named by the host's own knowledge.
    pub fn pinned(&self, root: PathBuf, git_dir: PathBuf) -> Repo {
        Repo { git: self.git.clone(), root, git_dir, common_dir: self.common_dir.clone() }
    }

    /// The work tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder with this work tree's HEAD and index.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The folder with the objects and refs that all work trees share.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// Prepares a call in this work tree.
    pub fn call<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Call<'_> {
        self.git
            .bare_call(&self.root, args)
            .env("GIT_DIR", &self.git_dir)
            .env("GIT_WORK_TREE", &self.root)
            .env("GIT_COMMON_DIR", &self.common_dir)
            .guarded(&self.common_dir, &self.git_dir)
    }

    /// Content filters that this repository configures and that are not run, because nobody allowed them.
    pub fn refused_filters(&self) -> Result<Vec<OsString>, GitError> {
        filters::refused(&self.git, &self.common_dir, &self.git_dir)
    }

    /// The operator's identity as git knows it for this repository, or DevLoop's own.
    pub fn identity(&self) -> Result<Identity, GitError> {
        let name = self.call(["config", "--get", "user.name"]).maybe_line()?;
        let email = self.call(["config", "--get", "user.email"]).maybe_line()?;
        Ok(match (name, email) {
            (Some(name), Some(email)) if !name.trim().is_empty() => Identity { name, email },
            _ => Identity::devloop(),
        })
    }

    /// The commit that a name means, or `None` when there is no such commit.
    pub fn resolve(&self, name: &str) -> Result<Option<Oid>, GitError> {
        if let Some(tip) = self.resolve_directly(name) {
            return Ok(tip);
        }
        let asked = format!("{name}^{{commit}}");
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", &asked];
        self.call(args).maybe_line()?.map(|line| oid(&line)).transpose()
    }

    /// HEAD and full refs without a process; the outer `None`: ask git.
    fn resolve_directly(&self, name: &str) -> Option<Option<Oid>> {
        if name != "HEAD" {
            return direct::tip(&self.common_dir, name);
        }
        match direct::head(&self.git_dir)? {
            direct::Head::Branch(branch) => direct::tip(&self.common_dir, &branch),
            direct::Head::Detached(_) => None,
        }
    }

    /// The tree of a commit.
    pub fn tree_of(&self, commit: &Oid) -> Result<Oid, GitError> {
        oid(&self.call(["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).line()?)
    }

    /// The tree and the parents of a commit, as git reads them from its object.
    pub fn content_of(&self, commit: &Oid) -> Result<CommitContent, GitError> {
        let line = self.call(["log", "-1", "--no-walk", "--format=%T %P", commit.as_str()]).line()?;
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let tree = oid(words.next().unwrap_or_default())?;
        Ok(CommitContent { tree, parents: words.map(oid).collect::<Result<_, _>>()? })
    }

    /// Is `old` an ancestor of `new`, or the same?
    pub fn contains(&self, new: &Oid, old: &Oid) -> Result<bool, GitError> {
        if new == old {
            return Ok(true);
        }
        let exit = self.call(["merge-base", "--is-ancestor", old.as_str(), new.as_str()]).run()?;
        match exit.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(failed("merge-base", &exit)),
        }
    }

    /// Does any ref lead to this commit, so that it stays when a detached work tree goes?
    pub fn is_reachable(&self, commit: &Oid) -> Result<bool, GitError> {
        let args = ["for-each-ref", "--count=1", "--format=%(refname)", "--contains", commit.as_str()];
        Ok(!self.call(args).ok()?.is_empty())
    }

    /// Writes a commit object; no ref moves.
    pub fn write_commit(&self, new: &NewCommit<'_>) -> Result<Oid, GitError> {
        let mut args = vec!["commit-tree".to_owned(), "--no-gpg-sign".into(), new.tree.to_string()];
        for parent in new.parents {
            args.extend(["-p".to_owned(), parent.to_string()]);
        }
        let mut call = self.call(args).stdin(new.message.as_bytes().to_vec());
        for (key, value) in new.identity.env() {
            call = call.env(key, value);
        }
        oid(&call.line()?)
    }

    /// Moves a ref from exactly `old` (`None`: it must not exist) to `new`. False: somebody was faster.
    pub fn swap_ref(&self, name: &str, new: &Oid, old: Option<&Oid>, why: &str) -> Result<bool, GitError> {
        let zero = "0".repeat(new.as_str().len());
        let old_text = old.map_or(zero.as_str(), Oid::as_str);
        let exit = self.call(["update-ref", "-m", why, name, new.as_str(), old_text]).run()?;
        if exit.code == Some(0) {
            return Ok(true);
        }
        // git's words for a lost swap and for a lock are not told apart by its exit code: look again.
        let now = self.resolve(name)?;
        if now.as_ref() == old { Err(failed("update-ref", &exit)) } else { Ok(false) }
    }
}

/// A commit to be written.
#[derive(Debug, Clone)]
pub struct NewCommit<'a> {
    /// Its content.
    pub tree: &'a Oid,
    /// What it continues from, in order.
    pub parents: &'a [&'a Oid],
    /// Whole message with trailers.
    pub message: &'a str,
    /// Author and committer.
    pub identity: &'a Identity,
}

/// What a commit holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitContent {
    /// Its content.
    pub tree: Oid,
    /// What it continues from, in order.
    pub parents: Vec<Oid>,
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let line = bytes.strip_suffix(b"\n").map(<[u8]>::to_vec).unwrap_or(bytes);
    PathBuf::from(OsString::from_vec(line))
}
