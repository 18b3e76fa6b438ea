//! HEAD, branches and registered work trees read straight from git's own files, where their form is the known
//! one: a beat asks for them many times, and a process for each answer is most of its cost. It writes
//! nothing, and what it does not recognise it leaves to git.

use std::path::Path;

use devloop_core::ids::Oid;

use super::inspect::{Registered, admin_folders};
use super::repo::Repo;
use crate::files::{self, FileProblem};

/// Bytes of a file that holds one ref.
const REF_BYTES: u64 = 4096;
/// Bytes of the file that holds the refs that git packed.
const PACKED_BYTES: u64 = 64 * 1024 * 1024;

/// What HEAD says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Head {
    /// A branch, by its full ref; it may have no commit yet.
    Branch(String),
    /// A commit.
    Detached(Oid),
}

/// HEAD of one work tree; `None`: ask git.
pub(super) fn head(git_dir: &Path) -> Option<Head> {
    let text = one_line(&git_dir.join("HEAD"))?;
    match text.strip_prefix("ref: ") {
        Some(name) if is_plain(name) && name.starts_with("refs/heads/") => {
            // Where refs are not files, HEAD is a file all the same, with a name that no branch can have.
            (name != "refs/heads/.invalid").then(|| Head::Branch(name.to_owned()))
        }
        Some(_) => None,
        None => Oid::parse(&text).ok().map(Head::Detached),
    }
}

/// The commit of a branch or of a ref of the host's own; the inner `None`: there is no such ref; the outer
/// one: ask git. git lets only commits stand in branches, so the object is not looked at.
pub(super) fn tip(common_dir: &Path, full_ref: &str) -> Option<Option<Oid>> {
    let known = full_ref.starts_with("refs/heads/") || full_ref.starts_with("refs/devloop/");
    if !known || !is_plain(full_ref) || !refs_are_files(common_dir) {
        return None;
    }
    match files::read_bytes(&common_dir.join(full_ref), REF_BYTES) {
        // A ref that names another one is git's to follow.
        Ok(bytes) => Some(Some(Oid::parse(line_of(&bytes)?).ok()?)),
        // Packing writes the packed file before it takes the loose one away, so this order misses nothing.
        Err(FileProblem::Missing { .. }) => packed(common_dir, full_ref),
        Err(_) => None,
    }
}

fn packed(common_dir: &Path, full_ref: &str) -> Option<Option<Oid>> {
    let bytes = match files::read_bytes(&common_dir.join("packed-refs"), PACKED_BYTES) {
        Ok(bytes) => bytes,
        Err(FileProblem::Missing { .. }) => return Some(None),
        Err(_) => return None,
    };
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b' ') else { continue };
        if &line[at + 1..] == full_ref.as_bytes() {
            return Some(Some(Oid::parse(std::str::from_utf8(&line[..at]).ok()?).ok()?));
        }
    }
    Some(None)
}

/// What a symbolic ref of a remote names; the inner `None`: there is none; the outer one: ask git.
pub(super) fn symbolic(common_dir: &Path, full_ref: &str) -> Option<Option<String>> {
    if !refs_are_files(common_dir) {
        return None;
    }
    match files::read_bytes(&common_dir.join(full_ref), REF_BYTES) {
        Ok(bytes) => Some(Some(line_of(&bytes)?.strip_prefix("ref: ")?.to_owned())),
        Err(FileProblem::Missing { .. }) => Some(None),
        Err(_) => None,
    }
}

/// Every registered work tree, the main one first; `None`: ask git. Only from the main one, because what
/// another one says about it is not believed.
pub(super) fn worktrees(repo: &Repo) -> Option<Vec<Registered>> {
    let common = repo.common_dir();
    if repo.git_dir() != common || !refs_are_files(common) {
        return None;
    }
    let mut found = vec![registered(repo, repo.root(), common)?];
    let mut admins = admin_folders(repo).ok()?;
    admins.sort();
    for (admin, path) in admins {
        let mut linked = registered(repo, &path, &admin)?;
        linked.locked = match files::read_bytes(&admin.join("locked"), REF_BYTES) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).trim().to_owned()),
            Err(FileProblem::Missing { .. }) => None,
            Err(_) => return None,
        };
        found.push(linked);
    }
    Some(found)
}

fn registered(repo: &Repo, path: &Path, admin: &Path) -> Option<Registered> {
    let (branch, head) = match head(admin) {
        Some(Head::Branch(name)) => {
            let commit = tip(repo.common_dir(), &name)?;
            (Some(name), commit)
        }
        Some(Head::Detached(commit)) => (None, Some(commit)),
        // Another git is making it in this moment; git itself fails over such a neighbour.
        None if is_half_made(admin) => (None, None),
        None => return None,
    };
    Some(Registered {
        path: path.to_path_buf(),
        admin: Some(admin.to_path_buf()),
        branch,
        head,
        locked: None,
    })
}

/// HEAD is not there yet, or not written yet.
fn is_half_made(admin: &Path) -> bool {
    match files::read_bytes(&admin.join("HEAD"), REF_BYTES) {
        Ok(bytes) => bytes.is_empty(),
        Err(problem) => matches!(problem, FileProblem::Missing { .. }),
    }
}

fn refs_are_files(common_dir: &Path) -> bool {
    files::stamp(&common_dir.join("reftable")).is_none()
        && files::stamp(&common_dir.join("refs")).is_some_and(|stamp| stamp.folder && !stamp.symlink)
}

/// A name that is a ref and a path at once, without anything that git reads as more than a name.
fn is_plain(name: &str) -> bool {
    let odd = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    !name.contains(odd) && !name.contains("..") && !name.contains("@{") && !name.split('/').any(part)
}

fn one_line(path: &Path) -> Option<String> {
    let bytes = files::read_bytes(path, REF_BYTES).ok()?;
    line_of(&bytes).map(str::to_owned)
}

fn line_of(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end();
    (!text.is_empty() && !text.contains('\n')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_read_as_paths() {
        for name in ["refs/heads/work", "refs/heads/devloop/a-b", "refs/heads/x@y"] {
            assert!(is_plain(name), "{name}");
        }
        for name in [
            "refs/heads/../x",
            "refs/heads/a^1",
            "refs/heads/a b",
            "refs/heads//a",
            "a/.b",
            "a/b.lock",
            "a@{1}",
        ] {
            assert!(!is_plain(name), "{name}");
        }
    }

    #[test]
    fn loose_goes_before_packed_and_a_missing_ref_is_no_ref() {
        let dir = tempfile::tempdir().unwrap();
        let common = dir.path();
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        assert_eq!(tip(common, "refs/heads/a"), None, "no folder of refs: not a form that is known");
        std::fs::create_dir_all(common.join("refs/heads")).unwrap();
        assert_eq!(tip(common, "refs/heads/a"), Some(None));
        let text = format!("# pack-refs with: peeled\n{one} refs/heads/a\n{one} refs/heads/ab\n^{two}\n");
        std::fs::write(common.join("packed-refs"), text).unwrap();
        assert_eq!(tip(common, "refs/heads/a"), Some(Some(Oid::parse(&one).unwrap())));
        std::fs::write(common.join("refs/heads/a"), format!("{two}\n")).unwrap();
        assert_eq!(tip(common, "refs/heads/a"), Some(Some(Oid::parse(&two).unwrap())));
        std::fs::write(common.join("refs/heads/a"), "ref: refs/heads/ab\n").unwrap();
        assert_eq!(tip(common, "refs/heads/a"), None, "git follows it");
        assert_eq!(tip(common, "refs/tags/a"), None, "a tag may be no commit");
        std::fs::create_dir(common.join("reftable")).unwrap();
        assert_eq!(tip(common, "refs/heads/ab"), None, "another form of refs");
    }

    #[test]
    fn packed_refs_are_read_up_to_their_limit_and_left_to_git_above_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("refs/heads")).unwrap();
        let (path, one) = (dir.path().join("packed-refs"), "1".repeat(40));
        std::fs::write(&path, format!("{one} refs/heads/a\n")).unwrap();
        for (length, expect) in [(PACKED_BYTES, Some(Oid::parse(&one).ok())), (PACKED_BYTES + 1, None)] {
            // Zeros behind the line, which no disk holds.
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
            assert_eq!(tip(dir.path(), "refs/heads/a"), expect, "{length}");
        }
    }

    #[test]
    fn head_is_a_branch_a_commit_or_left_to_git() {
        let dir = tempfile::tempdir().unwrap();
        let says = |text: &str| {
            std::fs::write(dir.path().join("HEAD"), text).unwrap();
            head(dir.path())
        };
        assert_eq!(says("ref: refs/heads/work\n"), Some(Head::Branch("refs/heads/work".into())));
        let commit = "a".repeat(40);
        assert_eq!(says(&format!("{commit}\n")), Some(Head::Detached(Oid::parse(&commit).unwrap())));
        for odd in
            ["ref: refs/heads/.invalid\n", "ref: refs/remotes/x\n", "ref: refs/heads/a\nb\n", "", "xyz\n"]
        {
            assert_eq!(says(odd), None, "{odd}");
        }
    }
}
