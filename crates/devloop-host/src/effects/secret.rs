//! A look at a worker's change for what must never enter a commit: private keys, access tokens, files of
//! secrets. Few patterns, each certain enough to stop for; it is no scanner and proves nothing clean.

use crate::files;
use crate::git::inspect::committable;
use crate::git::path::{Change, RepoPath};
use crate::git::{GitError, Oid, Repo};

/// Larger files are not looked into.
const FILE_BYTES: u64 = 1024 * 1024;

/// Prefix of a token and how many characters must follow it.
const TOKENS: [(&str, usize, &str); 8] = [
    ("AKIA", 16, "an access key of a cloud provider"),
    ("ghp_", 36, "an access token of a forge"),
    ("gho_", 36, "an access token of a forge"),
    ("ghs_", 36, "an access token of a forge"),
    ("github_pat_", 40, "an access token of a forge"),
    ("glpat-", 20, "an access token of a forge"),
    ("sk-ant-", 24, "an access key of a model provider"),
    ("xoxb-", 24, "an access token of a chat service"),
];

/// Names of files that hold secrets and nothing else.
const FILES: [&str; 5] = [".env", "id_rsa", "id_ed25519", "id_ecdsa", ".netrc"];

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

fn judge(
    worktree: &Repo,
    before: &Oid,
    path: &RepoPath,
    change: Change,
) -> Result<Option<&'static str>, GitError> {
    let name = path.as_bytes().rsplit(|b| *b == b'/').next().unwrap_or_default();
    if change == Change::Added && FILES.iter().any(|file| name == file.as_bytes()) {
        return Ok(Some("what its name stands for: secrets"));
    }
    let Ok(bytes) = files::read_bytes(&path.below(worktree.root()), FILE_BYTES) else { return Ok(None) };
    let Some((what, secret)) = first_in(&bytes) else { return Ok(None) };
    if change == Change::Added {
        return Ok(Some(what));
    }
    // One that is in the repository already is no news; the loop did not bring it.
    let spec = [before.as_str().as_bytes(), b":", path.as_bytes()].concat();
    let spec = String::from_utf8_lossy(&spec).into_owned();
    let old = worktree.call(["cat-file", "blob", &spec]).run()?.stdout.bytes;
    let known = old.windows(secret.len()).any(|window| window == secret);
    Ok((!known).then_some(what))
}

/// The first match in a text, with the bytes that matched.
fn first_in(bytes: &[u8]) -> Option<(&'static str, &[u8])> {
    let key = find_from(bytes, b"-----BEGIN ", 0).into_iter().find_map(|at| {
        let line = bytes[at..].split(|b| *b == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // The next line makes it a key and not the mention of one.
        let body =
            bytes[at + line.len()..].iter().skip(2).take(40).filter(|b| b.is_ascii_alphanumeric()).count();
        (line.ends_with(b"PRIVATE KEY-----") && body >= 30).then_some(("a private key", line))
    });
    key.or_else(|| {
        TOKENS.iter().find_map(|(prefix, more, what)| {
            find_from(bytes, prefix.as_bytes(), 0).into_iter().find_map(|at| {
                let inside = at > 0 && bytes[at - 1].is_ascii_alphanumeric();
                let end = at + prefix.len();
                let is_word = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
                let long = bytes[end..].iter().take_while(is_word).count();
                (!inside && long >= *more).then(|| (*what, &bytes[at..end + long]))
            })
        })
    })
}

fn find_from(bytes: &[u8], needle: &[u8], from: usize) -> Vec<usize> {
    let windows = bytes[from..].windows(needle.len()).enumerate();
    windows.filter(|(_, window)| *window == needle).map(|(at, _)| from + at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(first_in(text.as_bytes()).map(|(what, _)| what), expect, "{text}");
    }

    #[test]
    fn keys_and_tokens_are_found_and_mentions_are_not() {
        let key = format!("-----BEGIN {} KEY-----\n{}\n", "RSA PRIVATE", "Ab9x".repeat(16));
        check(&key, Some("a private key"));
        check("look for -----BEGIN RSA PRIVATE KEY----- in the file", None);
        check(&format!("token = \"ghp_{}\"", "a1B2".repeat(9)), Some("an access token of a forge"));
        check("ghp_short", None);
        check(&format!("xghp_{}", "a1B2".repeat(9)), None);
        check("", None);
    }
}
