//! What differs from the last commit in a checkout, and a snapshot that shows whether anything in it was
//! written to meanwhile. It reads; it never repairs.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

use super::GitError;
use super::inspect::current_branch;
use super::path::RepoPath;
use super::repo::Repo;
use super::run::answer;
use crate::files::{self, Stamp};

/// Kind of one line of the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusKind {
    /// Tracked, and different in the index or in the work tree.
    Changed,
    /// Tracked, with a conflict that nobody resolved.
    Unmerged,
    /// Not tracked and not ignored.
    Untracked,
    /// Ignored.
    Ignored,
}

/// One line of the status; a rename appears as its two names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusEntry {
    /// Which kind.
    pub kind: StatusKind,
    /// The name; a folder that holds only untracked files ends in `/`.
    pub path: RepoPath,
}

/// How much the status looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Tracked files only.
    Tracked,
    /// Untracked files too, each by its own name.
    Untracked,
    /// Ignored files too; a wholly ignored folder is one line.
    Ignored,
}

/// The status of a work tree. Work inside submodules is theirs and does not count; another commit of a
/// submodule does.
pub fn status(repo: &Repo, look: Look) -> Result<Vec<StatusEntry>, GitError> {
    let untracked = if look == Look::Tracked { "no" } else { "all" };
    let ignored = if look == Look::Ignored { "matching" } else { "no" };
    let bytes = repo
        .call(
            ["status", "--porcelain=v2", "-z", "--no-renames", "--ignore-submodules=dirty"]
                .map(String::from)
                .into_iter()
                .chain([format!("--untracked-files={untracked}"), format!("--ignored={ignored}")]),
        )
        .ok()?;
    parse(&bytes).ok_or_else(|| answer("status", "a line that is not porcelain version 2"))
}

fn parse(bytes: &[u8]) -> Option<Vec<StatusEntry>> {
    let mut records = bytes.split(|b| *b == 0);
    let mut entries = Vec::new();
    while let Some(record) = records.next().filter(|r| !r.is_empty()) {
        let after = |fields: usize| record.splitn(fields + 1, |b| *b == b' ').nth(fields);
        let (kind, path) = match record[0] {
            b'1' => (StatusKind::Changed, after(8)?),
            b'2' => (StatusKind::Changed, after(9)?),
            b'u' => (StatusKind::Unmerged, after(10)?),
            b'?' => (StatusKind::Untracked, after(1)?),
            b'!' => (StatusKind::Ignored, after(1)?),
            _ => return None,
        };
        entries.push(StatusEntry { kind, path: RepoPath::new(path) });
        if record[0] == b'2' {
            entries.push(StatusEntry { kind, path: RepoPath::new(records.next()?) });
        }
    }
    Some(entries)
}

/// Names with tracked changes, at most `limit` of them, and how many there are.
pub fn dirty(repo: &Repo, limit: usize) -> Result<(Vec<RepoPath>, usize), GitError> {
    let entries = status(repo, Look::Tracked)?;
    let total = entries.len();
    Ok((entries.into_iter().take(limit).map(|e| e.path).collect(), total))
}

/// A checkout at one moment: its commit, and every name that differs with a fingerprint of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    head: String,
    entries: BTreeMap<RepoPath, (bool, Option<Stamp>)>,
    /// What the operator's next git command would obey: the configuration and the hooks.
    obeyed: BTreeMap<RepoPath, Vec<u8>>,
}

/// Largest configuration that is compared, in bytes.
const CONFIG_BYTES: u64 = 1024 * 1024;

/// The repository's configuration without its `[branch]` sections, which everyday commands write, its hooks,
/// and its own rules of what to ignore and how to treat it.
fn obeyed(repo: &Repo) -> BTreeMap<RepoPath, Vec<u8>> {
    let config = files::read_bytes(&repo.common_dir().join("config"), CONFIG_BYTES).unwrap_or_default();
    let mut kept = Vec::new();
    let mut inside_branch = false;
    for line in config.split_inclusive(|b| *b == b'\n') {
        let start = line.trim_ascii_start();
        if start.starts_with(b"[") {
            inside_branch = start.to_ascii_lowercase().starts_with(b"[branch ");
        }
        if !inside_branch {
            kept.extend_from_slice(line);
        }
    }
    let mut found = BTreeMap::from([(RepoPath::new(".git/config"), kept)]);
    for name in ["info/exclude", "info/attributes"] {
        let content = files::read_bytes(&repo.common_dir().join(name), CONFIG_BYTES).unwrap_or_default();
        found.insert(RepoPath::new(format!(".git/{name}")), content);
    }
    let hooks = repo.common_dir().join("hooks");
    for name in files::list_names(&hooks).unwrap_or_default() {
        let stamp = format!("{:?}", files::stamp(&hooks.join(&name)));
        let path = format!(".git/hooks/{}", name.to_string_lossy());
        found.insert(RepoPath::new(path), stamp.into_bytes());
    }
    found
}

/// Takes a snapshot of the operator's checkout before a run, to be compared after it.
pub fn snapshot(repo: &Repo) -> Result<Snapshot, GitError> {
    let head = repo.resolve("HEAD")?.map(|commit| commit.to_string()).unwrap_or_default();
    let branch = current_branch(repo)?.unwrap_or_default();
    let stamped = status(repo, Look::Untracked)?.into_iter().map(|entry| {
        let stamp = files::stamp(&entry.path.below(repo.root()));
        (entry.path, (entry.kind == StatusKind::Untracked, stamp))
    });
    Ok(Snapshot { head: format!("{branch} {head}"), entries: stamped.collect(), obeyed: obeyed(repo) })
}

impl Snapshot {
    /// Names written to between the two snapshots, in either direction.
    pub fn changed_since(&self, before: &Snapshot) -> Vec<RepoPath> {
        let names: std::collections::BTreeSet<_> = self.entries.keys().chain(before.entries.keys()).collect();
        let written = names.into_iter().filter(|n| self.entries.get(n) != before.entries.get(n));
        let rules = self.obeyed.keys().chain(before.obeyed.keys()).collect::<std::collections::BTreeSet<_>>();
        let bent = rules.into_iter().filter(|n| self.obeyed.get(n) != before.obeyed.get(n));
        written.chain(bent).cloned().collect()
    }

    /// Did HEAD move to another branch or commit between the two snapshots?
    pub fn head_moved_since(&self, before: &Snapshot) -> bool {
        self.head != before.head
    }
}

/// Repositories inside a work tree whose work no commit of this one can hold: changed submodules, and
/// untracked folders with a `.git` of their own.
pub fn inner_repositories(repo: &Repo) -> Result<Vec<RepoPath>, GitError> {
    let args = ["status", "--porcelain=v2", "-z", "--no-renames", "--ignore-submodules=none"];
    let bytes = repo.call(args.into_iter().chain(["--untracked-files=normal"])).ok()?;
    let mut found = Vec::new();
    for record in bytes.split(|b| *b == 0).filter(|r| !r.is_empty()) {
        let fields: Vec<&[u8]> = record.splitn(9, |b| *b == b' ').collect();
        match (fields[0], fields.get(2), fields.last()) {
            (b"1", Some(sub), Some(path)) if sub.starts_with(b"S") => found.push(RepoPath::new(*path)),
            (b"?", ..) if record.ends_with(b"/") => {
                let folder = RepoPath::new(&record[2..record.len() - 1]);
                find_repositories(repo, folder, &mut found);
            }
            _ => {}
        }
    }
    Ok(found)
}

fn find_repositories(repo: &Repo, folder: RepoPath, found: &mut Vec<RepoPath>) {
    let names = files::list_names(&folder.below(repo.root())).unwrap_or_default();
    if names.iter().any(|name| name == ".git") {
        return found.push(folder);
    }
    for name in names {
        let path = RepoPath::new([folder.as_bytes(), b"/", name.as_bytes()].concat());
        if files::stamp(&path.below(repo.root())).is_some_and(|s| s.folder && !s.symlink) {
            find_repositories(repo, path, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_kind_is_read_with_its_spaces() {
        let a = "a".repeat(40);
        let text = format!(
            "1 .M N... 100644 100644 100644 {a} {a} a b\0\
             2 R. N... 100644 100644 100644 {a} {a} R100 new name\0old name\0\
             u UU N... 1 1 1 1 {a} {a} {a} c d\0? e f\0! g/\0"
        );
        let got: Vec<_> = parse(text.as_bytes()).unwrap().iter().map(|e| e.path.to_string()).collect();
        assert_eq!(got, ["a b", "new name", "old name", "c d", "e f", "g/"]);
        assert!(parse(b"9 what\0").is_none());
        assert_eq!(parse(b""), Some(vec![]));
    }
}
