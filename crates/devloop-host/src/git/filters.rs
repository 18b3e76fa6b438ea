//! Which content filters host git may run: large-file filters as their installer writes them, and those that
//! the operator's own settings name under `devloop.filter`. A repository cannot allow itself anything.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::GitError;
use super::path::{Entry, RepoPath, parse_names};
use super::repo::Repo;
use super::run::{Git, answer};
use crate::files::{self, FileProblem};

/// Settings that start a filter, or that make the large-file filter start something else.
const ASKED: &str = "^(filter\\..*\\.(clean|smudge|process|required)\
                     |lfs\\.(customtransfer|extension)\\..*|lfs\\.standalonetransferagent)$";
/// Largest configuration that is looked through before git is asked, in bytes.
const CONFIG_BYTES: u64 = 1024 * 1024;
/// More filters than this are no repository that anybody works with; each costs room in the environment.
const FILTERS: usize = 200;

/// Large-file filters only in the form that their own installer writes.
pub(super) fn is_installed_lfs(variable: &[u8], value: &[u8]) -> bool {
    match variable {
        b"clean" => value == b"git-lfs clean -- %f",
        b"smudge" => matches!(value, b"git-lfs smudge -- %f" | b"git-lfs smudge --skip -- %f"),
        b"process" => matches!(value, b"git-lfs filter-process" | b"git-lfs filter-process --skip"),
        _ => true,
    }
}

/// The names of the filters that the repository configures and that are not allowed. Most repositories have
/// none, and that is seen without starting a process.
pub(super) fn refused(git: &Git, common_dir: &Path, git_dir: &Path) -> Result<Vec<OsString>, GitError> {
    let own =
        [common_dir.join("config"), common_dir.join("config.worktree"), git_dir.join("config.worktree")];
    if !own.iter().any(|path| may_have_filters(path)) {
        return Ok(Vec::new());
    }
    let mut call = git.bare_call(git_dir, ["config", "-z", "--includes", "--get-regexp", ASKED]);
    call = call.env("GIT_DIR", git_dir).env("GIT_COMMON_DIR", common_dir);
    let exit = call.run()?;
    if !matches!(exit.code, Some(0 | 1)) {
        return Err(super::run::failed("config", &exit));
    }
    let settings = read(&exit.stdout.bytes);
    let names: BTreeSet<&[u8]> = settings.keys().filter_map(|key| Some(filter_of(key)?.0)).collect();
    if names.len() > FILTERS {
        return Err(answer("config", "more content filters than a repository can have"));
    }
    let is_refused = |name: &&[u8]| !git.allows_filter(name) && !(*name == b"lfs" && is_plain_lfs(&settings));
    Ok(names.into_iter().filter(is_refused).map(|name| OsString::from_vec(name.to_vec())).collect())
}

/// Could this file define a filter, itself or by what it includes? One that cannot be read could.
fn may_have_filters(path: &Path) -> bool {
    match files::read_bytes(path, CONFIG_BYTES) {
        Ok(bytes) => {
            let text = bytes.to_ascii_lowercase();
            let holds = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
            holds(b"filter") || holds(b"include")
        }
        Err(FileProblem::Missing { .. }) => false,
        Err(_) => true,
    }
}

/// The last value of every setting counts.
fn read(bytes: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let records = bytes.split(|b| *b == 0).filter(|record| !record.is_empty());
    let pair = |record: &[u8]| match record.iter().position(|b| *b == b'\n') {
        Some(at) => (record[..at].to_vec(), record[at + 1..].to_vec()),
        None => (record.to_vec(), b"true".to_vec()),
    };
    records.map(pair).collect()
}

/// Name and variable of `filter.<name>.<variable>`; a name may hold dots.
fn filter_of(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = key.strip_prefix(b"filter.")?;
    let dot = rest.iter().rposition(|b| *b == b'.')?;
    Some((&rest[..dot], &rest[dot + 1..]))
}

fn is_plain_lfs(settings: &BTreeMap<Vec<u8>, Vec<u8>>) -> bool {
    settings.iter().all(|(key, value)| match filter_of(key) {
        Some((b"lfs", variable)) => is_installed_lfs(variable, value),
        Some(_) => true,
        // Settings by which the large-file program starts a program of the repository's choice.
        None => false,
    })
}

/// The settings that keep the filters of these names from running.
pub(super) fn overrides(names: &[OsString]) -> Vec<(OsString, &'static str)> {
    let off = |name: &OsString| {
        [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")].map(|(variable, value)| {
            let mut key = OsString::from("filter.");
            key.push(name);
            key.push(format!(".{variable}"));
            (key, value)
        })
    };
    names.iter().flat_map(off).collect()
}

/// Which of the entries go through a filter that the repository configures and that is not run: committed as
/// they stand they would be something else than the repository means.
pub(super) fn unfiltered(repo: &Repo, entries: &[Entry]) -> Result<Vec<RepoPath>, GitError> {
    let refused = repo.refused_filters()?;
    if refused.is_empty() || entries.is_empty() {
        return Ok(Vec::new());
    }
    let asked: Vec<u8> = entries.iter().flat_map(|e| [e.path.as_bytes(), b"\0"].concat()).collect();
    let said = repo.call(["check-attr", "-z", "--stdin", "filter"]).stdin(asked).ok()?;
    // Records of three: path, attribute, value.
    let fields: Vec<&[u8]> = said.split(|b| *b == 0).collect();
    let is_refused = |value: &[u8]| refused.iter().any(|name| name.as_os_str() == OsStr::from_bytes(value));
    let hit = fields.chunks_exact(3).filter(|record| is_refused(record[2]));
    Ok(parse_names(&hit.flat_map(|record| [record[0], b"\0"].concat()).collect::<Vec<u8>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_installed_form_of_large_files_is_plain() {
        let lfs = |more: &[(&str, &str)]| {
            let base = [("filter.lfs.clean", "git-lfs clean -- %f"), ("filter.lfs.required", "true")];
            let all = base.iter().chain(more).map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()));
            is_plain_lfs(&all.collect())
        };
        assert!(lfs(&[("filter.lfs.process", "git-lfs filter-process"), ("filter.x.clean", "evil")]));
        assert!(!lfs(&[("filter.lfs.process", "evil")]));
        assert!(!lfs(&[("filter.lfs.smudge", "git-lfs smudge -- %f; evil")]));
        assert!(!lfs(&[("lfs.customtransfer.x.path", "evil")]));
        assert!(!lfs(&[("lfs.standalonetransferagent", "x")]));
    }

    #[test]
    fn a_name_may_hold_dots_and_the_last_value_counts() {
        assert_eq!(filter_of(b"filter.a.b.clean"), Some((&b"a.b"[..], &b"clean"[..])));
        assert_eq!(filter_of(b"filter.clean"), None);
        let read = read(b"filter.x.clean\none\0filter.x.clean\ntwo\0filter.x.required\0");
        assert_eq!(read[&b"filter.x.clean"[..]], b"two");
        assert_eq!(read[&b"filter.x.required"[..]], b"true");
    }
}
