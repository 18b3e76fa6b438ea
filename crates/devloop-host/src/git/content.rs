//! What stands in changed entries: large binary files, and files that a changed ignore file hides. It only
//! reads; the commit decides what that means.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use devloop_core::ids::Oid;

use super::GitError;
use super::commit::TREE_LIMIT_MS;
use super::path::{Change, Entry, RepoPath, parse_names};
use super::repo::Repo;
use super::run::{answer, failed};
use super::scope::Scope;

/// Added or changed files above `max_bytes` that are no text: they hold a NUL, or are longer than anything
/// that is read. What `.gitattributes` say about them is a worker's word and does not count.
pub(super) fn large_binaries(
    repo: &Repo,
    entries: &[Entry],
    max_bytes: u64,
) -> Result<Vec<RepoPath>, GitError> {
    let stored = |entry: &'_ Entry| Some((entry.path.clone(), entry.blob.clone()?));
    let files: Vec<(RepoPath, Oid)> = entries.iter().filter(|e| e.is_file()).filter_map(stored).collect();
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let asked: String = files.iter().map(|(_, blob)| format!("{blob}\n")).collect();
    let said = repo.call(["cat-file", "--batch-check=%(objectsize)"]).stdin(asked.into_bytes()).ok()?;
    let said = String::from_utf8_lossy(&said);
    let sizes: Vec<u64> = said.lines().map_while(|line| line.trim().parse().ok()).collect();
    if sizes.len() != files.len() {
        return Err(answer("cat-file", "no size for a file of the change"));
    }
    let mut found = Vec::new();
    for ((path, blob), _) in files.into_iter().zip(sizes).filter(|(_, bytes)| *bytes > max_bytes) {
        if is_binary(repo, &blob)? {
            found.push(path);
        }
    }
    Ok(found)
}

fn is_binary(repo: &Repo, blob: &Oid) -> Result<bool, GitError> {
    let exit = repo.call(["cat-file", "blob", blob.as_str()]).limit_ms(TREE_LIMIT_MS).run()?;
    if exit.code != Some(0) {
        return Err(failed("cat-file", &exit));
    }
    Ok(exit.stdout.omitted_bytes > 0 || exit.stdout.bytes.contains(&0))
}

/// New names that a system without upper and lower case cannot tell from another name of the tree, in the
/// file's own name or in one of its folders.
pub(super) fn collisions(repo: &Repo, tree: &Oid, entries: &[Entry]) -> Result<Vec<RepoPath>, GitError> {
    let added = |e: &&Entry| e.change == Change::Added;
    let added: Vec<&RepoPath> = entries.iter().filter(added).map(|entry| &entry.path).collect();
    if added.is_empty() {
        return Ok(Vec::new());
    }
    let listed = repo.call(["ls-tree", "-r", "-z", "--name-only", "--full-tree", tree.as_str()]).ok()?;
    let mut spelled: BTreeMap<String, Vec<&[u8]>> = BTreeMap::new();
    let wanted: BTreeSet<String> = added.iter().flat_map(|p| prefixes(p.as_bytes())).map(fold).collect();
    for part in listed.split(|b| *b == 0).flat_map(prefixes) {
        let folded = fold(part);
        if wanted.contains(&folded) {
            let known = spelled.entry(folded).or_default();
            if !known.contains(&part) {
                known.push(part);
            }
        }
    }
    let collides = |path: &RepoPath| {
        prefixes(path.as_bytes()).any(|part| spelled.get(&fold(part)).is_some_and(|all| all.len() > 1))
    };
    Ok(added.into_iter().filter(|path| collides(path)).cloned().collect())
}

fn fold(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_lowercase()
}

/// A path and the folders that it stands in.
fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    ends.chain([path.len()]).filter(|end| *end > 0).map(|end| &path[..end])
}

/// Files outside the scope that git ignores only by a line that is not in the base's ignore files: without it
/// they would have been judged. A wholly ignored folder is one name ending in `/`.
pub(super) fn hidden(
    worktree: &Repo,
    base: &Oid,
    entries: &[Entry],
    scope: &Scope,
) -> Result<Vec<RepoPath>, GitError> {
    let is_rule = |path: &RepoPath| path.as_path().file_name().is_some_and(|name| name == ".gitignore");
    let written = |e: &&Entry| e.change != Change::Deleted && is_rule(&e.path);
    let rules: Vec<&RepoPath> = entries.iter().filter(written).map(|entry| &entry.path).collect();
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let list = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
    let ignored = parse_names(&worktree.call(list).limit_ms(TREE_LIMIT_MS).ok()?);
    let outside: Vec<RepoPath> = ignored.into_iter().filter(|path| !covers(scope, path)).collect();
    if outside.is_empty() {
        return Ok(Vec::new());
    }
    // This command takes no literal names; what begins with a dot and a slash is none of its own signs.
    let asked: Vec<u8> = outside.iter().flat_map(|path| [b"./", path.as_bytes(), b"\0"].concat()).collect();
    let call = worktree.call(["check-ignore", "-v", "-z", "--stdin"]).env("GIT_LITERAL_PATHSPECS", "0");
    let said = call.stdin(asked).ok()?;
    let fields: Vec<&[u8]> = said.split(|b| *b == 0).collect();
    let mut before: BTreeMap<&[u8], Vec<u8>> = BTreeMap::new();
    let mut found = Vec::new();
    // Records of four: file, line, pattern, path.
    for record in fields.chunks_exact(4) {
        let (source, pattern) = (record[0], record[2]);
        let Some(rule) = rules.iter().find(|rule| rule.as_bytes() == source) else { continue };
        if !before.contains_key(source) {
            before.insert(source, text_at(worktree, base, rule)?);
        }
        let known = before[source].split(|b| *b == b'\n').any(|line| line.trim_ascii() == pattern);
        if !known {
            found.push(RepoPath::new(record[3].strip_prefix(b"./").unwrap_or(record[3])));
        }
    }
    Ok(found)
}

/// Whether the scope covers a name that may be a folder's.
fn covers(scope: &Scope, path: &RepoPath) -> bool {
    match path.as_bytes().strip_suffix(b"/") {
        // Some file in it stands for all: patterns that end below the folder name single files.
        Some(folder) => scope.covers(&RepoPath::new([folder, b"/file"].concat())),
        None => scope.covers(path),
    }
}

/// The content of a file in a commit; empty when there is none.
fn text_at(repo: &Repo, commit: &Oid, path: &RepoPath) -> Result<Vec<u8>, GitError> {
    let words = ["ls-tree", "-z", "--full-tree", commit.as_str(), "--"].map(OsStr::new);
    let listed = repo.call(words.into_iter().chain([path.as_path().as_os_str()])).ok()?;
    // `mode type oid TAB path NUL`
    let Some(blob) = listed.split(|b| *b == b'\t').next().and_then(|head| head.rsplit(|b| *b == b' ').next())
    else {
        return Ok(Vec::new());
    };
    match Oid::parse(&String::from_utf8_lossy(blob)) {
        Ok(blob) => repo.call(["cat-file", "blob", blob.as_str()]).ok(),
        Err(_) => Ok(Vec::new()),
    }
}
