//! The one way to call git: hardened environment and settings, and a limit on time and bytes. It knows
//! no repository; `repo.rs` does.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempPath;

use devloop_core::ids::Oid;

use super::{GitError, filters};
use crate::files;
use crate::process::{self, CancelToken, ChildEnv, Exit, Sink, Spec, StopPlan};
use crate::scratch;

/// Oldest git that has what is used here (`merge-tree --write-tree`).
pub const MINIMUM_GIT: (u32, u32) = (2, 38);
/// Awake milliseconds that a git call may take.
pub const LIMIT_MS: u64 = 30_000;
/// Bytes of standard output that are read before an answer counts as too much.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;
const STDERR_BYTES: usize = 8 * 1024;

/// Settings forced on every call, each against something that a repository's own settings could start
/// or that would make an answer depend on the operator's taste.
const FORCED: [(&str, &str); 19] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.quotePath", "false"),
    ("core.safecrlf", "false"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("credential.helper", ""),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("diff.ignoreSubmodules", "none"),
    ("submodule.recurse", "false"),
    ("rerere.enabled", "false"),
    ("protocol.ext.allow", "never"),
    ("log.showSignature", "false"),
    ("i18n.commitEncoding", "UTF-8"),
    ("i18n.logOutputEncoding", "UTF-8"),
];

/// Settings of the operator's own git that a call needs to see the files as the operator does; all else
/// of the global and system settings is left out.
const FORWARDED: &str = "^(user\\.(name|email)|core\\.(excludesfile|autocrlf|eol)|safe\\.directory\
                         |filter\\.lfs\\.(clean|smudge|process|required)|devloop\\.filter)$";

/// The git program, checked once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Git {
    program: OsString,
    version: String,
    operator: Arc<Operator>,
}

/// The forwarded settings in a file of their own, given to git in place of the operator's global one, so
/// that a repository's own settings still go before them.
#[derive(Debug, Default)]
struct Operator {
    settings: Vec<(String, String)>,
    file: Option<TempPath>,
}

impl PartialEq for Operator {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

impl Eq for Operator {}

impl Operator {
    fn new(settings: Vec<(String, String)>) -> Result<Self, GitError> {
        if settings.is_empty() {
            return Ok(Operator::default());
        }
        let path = std::env::temp_dir();
        let write = || {
            let mut file = scratch::settings_file()?;
            file.write_all(config_text(&settings).as_bytes())?;
            Ok(file.into_temp_path())
        };
        let file = write().map_err(|source| GitError::Io { what: "write in", path, source })?;
        Ok(Operator { settings, file: Some(file) })
    }
}

/// The settings in the form of git's own files; values are quoted so that none can add a line.
fn config_text(settings: &[(String, String)]) -> String {
    let mut text = String::new();
    for (key, value) in settings {
        let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
        let header = match section.split_once('.') {
            Some((section, sub)) => format!("[{section} \"{sub}\"]"),
            None => format!("[{section}]"),
        };
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        text.push_str(&format!("{header}\n\t{name} = \"{value}\"\n"));
    }
    text
}

impl Git {
    /// Finds git on the search path and checks its version.
    ///
    /// # Errors
    /// [`GitError::Start`] when there is none, [`GitError::TooOld`].
    pub fn discover() -> Result<Self, GitError> {
        Self::with_program(on_search_path("git").unwrap_or_else(|| "git".into()))
    }

    /// As [`Git::discover`] with a program of the caller's choice.
    pub fn with_program(program: impl Into<OsString>) -> Result<Self, GitError> {
        let mut git = Git { program: program.into(), version: String::new(), operator: Arc::default() };
        let said = git.bare_call(Path::new("/"), ["version"]).line()?;
        let found = said.trim_start_matches("git version ").to_owned();
        if parse_version(&found).is_none_or(|version| version < MINIMUM_GIT) {
            let minimum = format!("{}.{}", MINIMUM_GIT.0, MINIMUM_GIT.1);
            return Err(GitError::TooOld { found, minimum });
        }
        git.version = found;
        git.operator = Arc::new(Operator::new(git.read_operator_settings()?)?);
        Ok(git)
    }

    /// What `git version` says, without the words before the number.
    pub fn version(&self) -> &str {
        &self.version
    }

    fn read_operator_settings(&self) -> Result<Vec<(String, String)>, GitError> {
        let mut call =
            self.bare_call(Path::new("/"), ["config", "-z", "--includes", "--get-regexp", FORWARDED]);
        // The only call that sees the operator's own settings; it runs nothing and looks at no repository.
        call.env.remove("GIT_CONFIG_GLOBAL").remove("GIT_CONFIG_NOSYSTEM").set("GIT_DIR", "/dev/null");
        call.forced = false;
        let exit = call.run()?;
        if exit.code != Some(0) {
            return Ok(Vec::new());
        }
        let entries = exit.stdout.bytes.split(|b| *b == 0).filter_map(|e| std::str::from_utf8(e).ok());
        let pairs = entries.filter(|e| !e.is_empty()).map(|e| e.split_once('\n').unwrap_or((e, "true")));
        Ok(pairs.filter(|(key, value)| forward(key, value)).map(|(k, v)| (k.into(), v.into())).collect())
    }

    pub(super) fn bare_call<S: AsRef<OsStr>>(
        &self,
        cwd: &Path,
        args: impl IntoIterator<Item = S>,
    ) -> Call<'_> {
        Call {
            git: self,
            args: args.into_iter().map(|a| a.as_ref().to_owned()).collect(),
            cwd: cwd.to_path_buf(),
            env: ChildEnv::git(),
            settings: Vec::new(),
            stdin: None,
            max_bytes: MAX_BYTES,
            limit_ms: LIMIT_MS,
            forced: true,
            guarded: None,
        }
    }

    /// Did the operator's own settings name this content filter?
    pub(super) fn allows_filter(&self, name: &[u8]) -> bool {
        let named = |(key, value): &(String, String)| key == "devloop.filter" && value.as_bytes() == name;
        self.operator.settings.iter().any(named)
    }
}

/// The program's own path. Looked up once: a child that is started by its path needs no copy of this process,
/// and no search, each time.
fn on_search_path(name: &str) -> Option<OsString> {
    let path = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.find(|path| path.is_absolute() && files::is_program(path)).map(PathBuf::into_os_string)
}

/// Large-file filters are forwarded only in the form that their own installer writes.
fn forward(key: &str, value: &str) -> bool {
    let variable = key.strip_prefix("filter.lfs.");
    variable.is_none_or(|variable| filters::is_installed_lfs(variable.as_bytes(), value.as_bytes()))
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(['.', ' ', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// One prepared call.
#[derive(Debug)]
pub struct Call<'a> {
    git: &'a Git,
    args: Vec<OsString>,
    cwd: PathBuf,
    env: ChildEnv,
    settings: Vec<(OsString, String)>,
    stdin: Option<Vec<u8>>,
    max_bytes: usize,
    limit_ms: u64,
    forced: bool,
    /// Folders of the repository whose filters must not run; none for a call that looks at no content.
    guarded: Option<(PathBuf, PathBuf)>,
}

impl Call<'_> {
    /// Gives it bytes to read.
    #[must_use]
    pub fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = Some(bytes);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.set(name, value);
        self
    }

    /// Forces one more setting; the key may hold any characters.
    #[must_use]
    pub fn setting(mut self, key: impl Into<OsString>, value: &str) -> Self {
        self.settings.push((key.into(), value.to_owned()));
        self
    }

    /// Keeps the filters of this repository from running.
    pub(super) fn guarded(mut self, common_dir: &Path, git_dir: &Path) -> Self {
        self.guarded = Some((common_dir.to_path_buf(), git_dir.to_path_buf()));
        self
    }

    /// Allows more time than [`LIMIT_MS`], for calls that write a whole work tree.
    #[must_use]
    pub fn limit_ms(mut self, limit_ms: u64) -> Self {
        self.limit_ms = limit_ms;
        self
    }

    /// Reads at most this many bytes of the answer.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Runs it; any exit code is an answer.
    ///
    /// # Errors
    /// It could not be started, or did not end in time.
    pub fn run(&self) -> Result<Exit, GitError> {
        let mut env = self.env.clone();
        if let Some(file) = self.git.operator.file.as_ref().filter(|_| self.forced) {
            env.set("GIT_CONFIG_GLOBAL", file.as_os_str());
        }
        let refused = match &self.guarded {
            Some((common_dir, git_dir)) => filters::refused(self.git, common_dir, git_dir)?,
            None => Vec::new(),
        };
        let off = filters::overrides(&refused);
        let off = off.iter().map(|(k, v)| (k.as_os_str(), *v));
        let forced = FORCED.iter().filter(|_| self.forced).map(|(k, v)| (OsStr::new(k), *v)).chain(off);
        let own = self.settings.iter().map(|(k, v)| (k.as_os_str(), v.as_str()));
        let mut count = 0;
        for (key, value) in forced.chain(own) {
            env.set(format!("GIT_CONFIG_KEY_{count}"), key).set(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        env.set("GIT_CONFIG_COUNT", count.to_string());
        let mut argv = vec![self.git.program.clone(), "--no-pager".into()];
        argv.extend(self.args.iter().cloned());
        let spec = Spec {
            argv,
            cwd: self.cwd.clone(),
            env,
            stdin: self.stdin.clone(),
            stdout: Sink::Memory { head_bytes: self.max_bytes, tail_bytes: 0 },
            stderr: Sink::Memory { head_bytes: 0, tail_bytes: STDERR_BYTES },
            deadline_ms: Some(self.limit_ms),
            stop: StopPlan { interrupt_ms: 0, terminate_ms: 1_000 },
            confine: None,
            held: None,
        };
        let exit = process::spawn(&spec)?.wait(&CancelToken::new());
        if exit.timed_out {
            return Err(GitError::TimedOut { command: self.name(), limit_ms: self.limit_ms });
        }
        Ok(exit)
    }

    fn name(&self) -> String {
        self.args.first().map(|a| a.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Runs it and wants exit code 0 and a whole answer.
    pub fn ok(&self) -> Result<Vec<u8>, GitError> {
        let exit = self.run()?;
        if exit.code != Some(0) {
            return Err(failed(&self.name(), &exit));
        }
        self.whole(exit)
    }

    /// As [`Call::ok`], for an answer of one line of text.
    pub fn line(&self) -> Result<String, GitError> {
        self.text(self.ok()?)
    }

    /// As [`Call::line`], where exit code 1 means that there is no answer.
    pub fn maybe_line(&self) -> Result<Option<String>, GitError> {
        let exit = self.run()?;
        match exit.code {
            Some(0) => Ok(Some(self.text(self.whole(exit)?)?)),
            Some(1) => Ok(None),
            _ => Err(failed(&self.name(), &exit)),
        }
    }

    fn whole(&self, exit: Exit) -> Result<Vec<u8>, GitError> {
        if exit.stdout.omitted_bytes > 0 {
            return Err(GitError::TooMuch { command: self.name(), max_bytes: self.max_bytes });
        }
        Ok(exit.stdout.bytes)
    }

    fn text(&self, bytes: Vec<u8>) -> Result<String, GitError> {
        let text = String::from_utf8(bytes).map_err(|_| answer(&self.name(), "not UTF-8"))?;
        Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
    }
}

pub(super) fn failed(command: &str, exit: &Exit) -> GitError {
    let (command, stderr) = (command.to_owned(), said(exit));
    if stderr.contains(".lock'") || stderr.contains("cannot lock ref") {
        return GitError::Locked { command, stderr };
    }
    GitError::Failed { command, code: exit.code, stderr }
}

pub(super) fn said(exit: &Exit) -> String {
    exit.stderr.text().trim().to_owned()
}

pub(super) fn answer(command: &str, what: &str) -> GitError {
    GitError::Answer { command: command.to_owned(), what: what.to_owned() }
}

pub(super) fn oid(text: &str) -> Result<Oid, GitError> {
    Oid::parse(text.trim()).map_err(|e| answer("rev-parse", &e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        assert_eq!(parse_version("2.47.3"), Some((2, 47)));
        assert_eq!(parse_version("2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(parse_version("2.38.0.windows.1"), Some((2, 38)));
        assert_eq!(parse_version("two"), None);
        assert!((2, 37) < MINIMUM_GIT && (2, 38) >= MINIMUM_GIT && (3, 0) >= MINIMUM_GIT);
    }

    #[test]
    fn a_forwarded_value_stays_one_value() {
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        let text =
            config_text(&[pair("user.name", "A \"B\" \\ C\n[core]"), pair("filter.lfs.clean", "x %f")]);
        let want = "[user]\n\tname = \"A \\\"B\\\" \\\\ C\\n[core]\"\n[filter \"lfs\"]\n\tclean = \"x %f\"\n";
        assert_eq!(text, want);
    }

    #[test]
    fn a_filter_that_is_not_the_installed_one_is_not_forwarded() {
        assert!(forward("filter.lfs.clean", "git-lfs clean -- %f") && forward("user.name", "x"));
        assert!(!forward("filter.lfs.clean", "sh -c evil") && !forward("filter.lfs.process", "evil"));
    }
}
