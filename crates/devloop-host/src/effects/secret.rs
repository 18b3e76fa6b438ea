//! A look at a worker's change for what must never enter a commit: private keys, access tokens, files of
//! secrets. Only formats that are certain enough to stop for; it proves nothing clean.

use super::secret_rules;
use crate::files::{self, FileProblem};
use crate::git::inspect::committable;
use crate::git::path::{Change, RepoPath};
use crate::git::{GitError, Oid, Repo};

/// Larger files are not looked into, and that is a finding: nobody would know what is in them.
const FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Names of files that hold secrets and nothing else.
const FILES: [&str; 5] = [".env", "id_rsa", "id_ed25519", "id_ecdsa", ".netrc"];
/// Ends of such names: stores of certificates with their keys.
const ENDS: [&str; 2] = [".p12", ".pfx"];

/// What was found, without the secret itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub path: String,
    pub what: String,
}

/// The first secret that the work tree has and the commit `before` has not.
pub(super) fn find(worktree: &Repo, before: &Oid) -> Result<Option<Found>, GitError> {
    let (tracked, untracked) = committable(worktree, before)?;
    let tracked = tracked.into_iter().filter(|e| e.change != Change::Deleted).map(|e| (e.path, e.change));
    let untracked = untracked.into_iter().map(|path| (path, Change::Added));
    for (path, change) in tracked.chain(untracked) {
        if let Some(what) = judge(worktree, before, &path, change)? {
            return Ok(Some(Found { path: path.to_string(), what: format!("{path} holds {what}") }));
        }
    }
    Ok(None)
}

fn judge(worktree: &Repo, before: &Oid, path: &RepoPath, change: Change) -> Result<Option<String>, GitError> {
    let name = path.as_bytes().rsplit(|b| *b == b'/').next().unwrap_or_default();
    let is_named = FILES.iter().any(|file| name == file.as_bytes())
        || ENDS.iter().any(|end| name.to_ascii_lowercase().ends_with(end.as_bytes()));
    if change == Change::Added && is_named {
        return Ok(Some("what its name stands for: secrets".into()));
    }
    let bytes = match files::read_bytes(&path.below(worktree.root()), FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(FileProblem::TooLarge { .. }) => {
            return Ok(Some("more than is looked through for secrets".into()));
        }
        // A link, a folder of another repository: the scope has its own word for it.
        Err(_) => return Ok(None),
    };
    let found = all_in(&bytes);
    let Some((first, _)) = found.first() else { return Ok(None) };
    if change == Change::Added {
        return Ok(Some(in_words(first)));
    }
    // One that is in the repository already is no news; the loop did not bring it.
    let spec = [before.as_str().as_bytes(), b":", path.as_bytes()].concat();
    let spec = String::from_utf8_lossy(&spec).into_owned();
    let old = worktree.call(["cat-file", "blob", &spec]).run()?.stdout.bytes;
    let new = found.into_iter().find(|(_, secret)| find_all(&old, secret).is_empty());
    Ok(new.map(|(what, _)| in_words(what)))
}

fn in_words(name: &str) -> String {
    format!("what looks like a secret ({name})")
}

/// Every match in a text, with the bytes that matched.
fn all_in(bytes: &[u8]) -> Vec<(&'static str, &[u8])> {
    let keys = find_all(bytes, b"-----BEGIN ").into_iter().filter_map(|at| {
        let line = bytes[at..].split(|b| *b == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // The next line makes it a key and not the mention of one.
        let body =
            bytes[at + line.len()..].iter().skip(2).take(40).filter(|b| b.is_ascii_alphanumeric()).count();
        // The first line of its body tells one key from another.
        let end = (at + line.len() + 66).min(bytes.len());
        (line.ends_with(b"PRIVATE KEY-----") && body >= 30).then_some(("private-key", &bytes[at..end]))
    });
    let tokens = secret_rules::find(bytes).into_iter().map(|(name, place)| (name, &bytes[place]));
    keys.chain(tokens).collect()
}

fn find_all(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    let Some(first) = needle.first() else { return Vec::new() };
    let starts = bytes.iter().enumerate().filter(|(_, byte)| *byte == first);
    starts.map(|(at, _)| at).filter(|at| bytes[*at..].starts_with(needle)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(all_in(text.as_bytes()).first().map(|(what, _)| *what), expect, "{text}");
    }

    #[test]
    fn keys_and_tokens_are_found_and_mentions_are_not() {
        let key = format!("-----BEGIN {} KEY-----\n{}\n", "RSA PRIVATE", "Ab9x".repeat(16));
        check(&key, Some("private-key"));
        check("look for -----BEGIN RSA PRIVATE KEY----- in the file", None);
        let token = "aB3dE5fG7hJ9kL1mN0pQ2rS4tU6vW8xY0zA1";
        check(&format!("token = \"ghp_{token}\""), Some("github-pat"));
        check("ghp_short", None);
        check("", None);
        let two = format!("ghp_{token} ghp_{}", token.to_uppercase());
        assert_eq!(all_in(two.as_bytes()).len(), 2, "one that is known hides no other");
    }
}
