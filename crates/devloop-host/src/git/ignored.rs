//! What a work tree holds beside the files that git sees: everything that its rules ignore. It only reads;
//! the commit decides what that means.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use devloop_core::ids::Oid;

use super::GitError;
use super::commit::TREE_LIMIT_MS;
use super::path::{Change, Entry, RepoPath, parse_names};
use super::repo::Repo;
use super::scope::{Offence, Scope, Violation};

/// Every ignored name as git lists it: a folder in which all is ignored is one name ending in `/`. Where no
/// rule names that folder itself, what stands in it is listed too.
fn listed(worktree: &Repo) -> Result<Vec<RepoPath>, GitError> {
    let list = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
    let is_own = |path: &RepoPath| path.as_bytes().starts_with(b".devloop/");
    let names = parse_names(&worktree.call(list).limit_ms(TREE_LIMIT_MS).ok()?);
    Ok(names.into_iter().filter(|path| !is_own(path)).collect())
}

/// The same with each wholly ignored folder as one name and nothing below it.
fn folded(names: &[RepoPath]) -> Vec<&RepoPath> {
    let mut kept: Vec<&RepoPath> = Vec::new();
    for name in names {
        let folder = kept.last().filter(|last| is_folder(last));
        if folder.is_none_or(|folder| !name.as_bytes().starts_with(folder.as_bytes())) {
            kept.push(name);
        }
    }
    kept
}

fn is_folder(path: &RepoPath) -> bool {
    path.as_bytes().ends_with(b"/")
}

/// What git ignores in a work tree; a wholly ignored folder is one name ending in `/`. The loop's own folder
/// is left out.
pub(super) fn ignored(worktree: &Repo) -> Result<Vec<RepoPath>, GitError> {
    let names = listed(worktree)?;
    Ok(folded(&names).into_iter().cloned().collect())
}

/// Ignored files of a task's work tree, which is made new for every run: all of them were written by it.
pub(super) struct Ignored {
    /// All of them, wholly ignored folders as one name.
    pub names: Vec<RepoPath>,
    /// Those that the contract does not cover and that are no build output.
    pub violations: Vec<Violation>,
}

/// Judges what git ignores after a run. A folder of its own in which everything is ignored is build output; a
/// single file beside others is not, unless its name is a usual one.
pub(super) fn judge(
    worktree: &Repo,
    base: &Oid,
    entries: &[Entry],
    scope: &Scope,
) -> Result<Ignored, GitError> {
    let all = listed(worktree)?;
    let outside: Vec<&RepoPath> = all.iter().filter(|path| !covers(scope, path)).collect();
    let hidden = hidden(worktree, base, entries, &outside)?;
    let names = folded(&all);
    let is_single = |path: &&RepoPath| !is_folder(path) && !covers(scope, path);
    let single = names.iter().copied().filter(is_single).filter(|path| !hidden.contains(path));
    let single: Vec<RepoPath> = single.filter(|path| !scope.lets_ignored(path)).cloned().collect();
    let names = names.into_iter().cloned().collect();
    let named = |offence: Offence| move |path: RepoPath| Violation { path, offence };
    let violations = hidden.into_iter().map(named(Offence::Hidden));
    Ok(Ignored {
        names,
        violations: violations.chain(single.into_iter().map(named(Offence::Ignored))).collect(),
    })
}

/// Those that git ignores only by a line that is not in the base's ignore files: without it they would have
/// been judged.
fn hidden(
    worktree: &Repo,
    base: &Oid,
    entries: &[Entry],
    outside: &[&RepoPath],
) -> Result<Vec<RepoPath>, GitError> {
    let is_rule = |path: &RepoPath| path.as_path().file_name().is_some_and(|name| name == ".gitignore");
    let written = |e: &&Entry| e.change != Change::Deleted && is_rule(&e.path);
    let rules: Vec<&RepoPath> = entries.iter().filter(written).map(|entry| &entry.path).collect();
    if rules.is_empty() || outside.is_empty() {
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
