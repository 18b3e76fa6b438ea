//! What stands in changed entries: large binary files, and names that collide. It only reads; the commit
//! decides what that means.

use std::collections::{BTreeMap, BTreeSet};

use devloop_core::ids::Oid;

use super::GitError;
use super::commit::TREE_LIMIT_MS;
use super::path::{Change, Entry, RepoPath};
use super::repo::Repo;
use super::run::{answer, failed};

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
