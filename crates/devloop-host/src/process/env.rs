//! Which environment variables a child sees: the one list for workers, checks and git. Variables that
//! redirect git, or that carry the operator's forge and ssh credentials, never reach any child.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::files;

/// The variable by which every descendant of a dispatch is found again.
pub const MARKER_VAR: &str = "DEVLOOP_DISPATCH";

/// Prefixes that no child inherits, whatever a list allows.
const DENIED_PREFIXES: [&str; 6] = ["GIT_", "GH_", "GITHUB_", "SSH_", "DEVLOOP_", "GCM_"];

/// Endings of names that carry a key. A check runs code that a model wrote a moment ago, which is given none.
const KEY_SUFFIXES: [&str; 3] = ["_API_KEY", "_TOKEN", "_ACCESS_KEY"];

/// What a worker may inherit by default; a name that ends in `*` stands for every name with that prefix.
const WORKER_ALLOWED: [&str; 25] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TERM",
    "COLORTERM",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "CARGO_HOME",
];

/// The environment of one child, complete: nothing else is inherited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChildEnv(BTreeMap<OsString, OsString>);

impl ChildEnv {
    /// For a model: the default allow-list plus `extra` (names, or prefixes that end in `*`, such as the
    /// variables a backend needs), taken from this process, with git hardened.
    pub fn worker(extra: &[&str]) -> Self {
        Self::worker_from(std::env::vars_os(), extra)
    }

    /// For an operator's own check: all of this process but the denied prefixes and keys, git hardened.
    pub fn check() -> Self {
        Self::check_from(std::env::vars_os())
    }

    /// As [`ChildEnv::check`] with the variables given, for tests.
    pub fn check_from(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut env = ChildEnv(vars.into_iter().filter(|(name, _)| !denied(name) && !is_key(name)).collect());
        env.harden_git();
        env
    }

    /// As [`ChildEnv::worker`] with the variables given, for tests.
    pub fn worker_from(vars: impl IntoIterator<Item = (OsString, OsString)>, extra: &[&str]) -> Self {
        let allowed = |name: &OsStr| {
            WORKER_ALLOWED.iter().chain(extra).any(|pattern| matches_name(pattern, name)) && !denied(name)
        };
        let mut env = ChildEnv(vars.into_iter().filter(|(name, _)| allowed(name)).collect());
        env.harden_git();
        env
    }

    /// For the host's own git: search path, home and locale only.
    pub fn git() -> Self {
        let keep = ["PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR"];
        let mut env = ChildEnv::default();
        for name in keep {
            if let Some(value) = std::env::var_os(name) {
                env.set(name, value);
            }
        }
        env.harden_git();
        env.set("LC_ALL", "C");
        env.set("GIT_OPTIONAL_LOCKS", "0");
        env.set("GIT_PAGER", "cat");
        env.set("GIT_EDITOR", "false");
        env.set("GIT_SEQUENCE_EDITOR", "false");
        env.set("GIT_ASKPASS", "false");
        env.set("GIT_ADVICE", "0");
        env.set("GIT_LITERAL_PATHSPECS", "1");
        // Nothing is fetched behind anybody's back: a transport is a program that the repository chooses.
        env.set("GIT_NO_LAZY_FETCH", "1");
        env.set("GIT_ALLOW_PROTOCOL", "none");
        env
    }

    fn harden_git(&mut self) {
        self.set("GIT_CONFIG_NOSYSTEM", "1");
        self.set("GIT_CONFIG_GLOBAL", "/dev/null");
        self.set("GIT_TERMINAL_PROMPT", "0");
        self.set("GCM_INTERACTIVE", "never");
    }

    /// Sets one variable.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Removes one variable.
    pub fn remove(&mut self, name: &str) -> &mut Self {
        self.0.remove(OsStr::new(name));
        self
    }

    /// Reads one variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Marks every descendant as belonging to this run.
    pub fn mark(&mut self, marker: &str) -> &mut Self {
        self.set(MARKER_VAR, marker)
    }

    /// Points temporary files and the forge's login at folders of the dispatch. `private_home` also moves
    /// HOME; a backend that finds its login in HOME needs the operator's.
    pub fn use_folders(&mut self, folders: &Folders, private_home: bool) -> &mut Self {
        self.set("TMPDIR", &folders.tmp).set("GH_CONFIG_DIR", &folders.gh);
        if private_home {
            // Logins lie below all of them: they follow the home.
            self.0.retain(|name, _| !name.as_bytes().starts_with(b"XDG_"));
            self.set("HOME", &folders.home);
        }
        self
    }

    /// Every variable, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(k, v)| (k.as_os_str(), v.as_os_str()))
    }
}

fn denied(name: &OsStr) -> bool {
    DENIED_PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
}

fn is_key(name: &OsStr) -> bool {
    KEY_SUFFIXES.iter().any(|suffix| name.as_bytes().ends_with(suffix.as_bytes()))
}

fn matches_name(pattern: &str, name: &OsStr) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.as_bytes().starts_with(prefix.as_bytes()),
        None => name == OsStr::new(pattern),
    }
}

/// The folders of one dispatch, readable by this user only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    /// An empty home.
    pub home: PathBuf,
    /// For temporary files.
    pub tmp: PathBuf,
    /// An empty forge configuration, so that no login is found.
    pub gh: PathBuf,
}

impl Folders {
    /// Makes the three folders below `dir`; folders that exist are kept.
    pub fn create(dir: &Path) -> io::Result<Self> {
        let folders = Folders { home: dir.join("home"), tmp: dir.join("tmp"), gh: dir.join("gh") };
        for path in [&folders.home, &folders.tmp, &folders.gh] {
            files::ensure_private_dir(path)?;
        }
        Ok(folders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(names: &[&str]) -> Vec<(OsString, OsString)> {
        names.iter().map(|n| (OsString::from(n), OsString::from("x"))).collect()
    }

    /// Hazard 15 and rules 141, 142: nothing that redirects git or carries a login is inherited.
    #[test]
    fn a_worker_inherits_only_the_list_and_never_a_denied_prefix() {
        let inherited = vars(&[
            "PATH",
            "LC_TIME",
            "ANTHROPIC_API_KEY",
            "GIT_DIR",
            "GIT_CONFIG_KEY_3",
            "GH_TOKEN",
            "GITHUB_TOKEN",
            "SSH_AUTH_SOCK",
            "AWS_SECRET_ACCESS_KEY",
            "DEVLOOP_DISPATCH",
        ]);
        let env = ChildEnv::worker_from(inherited, &["ANTHROPIC_*", "GIT_DIR", "GH_*"]);
        let own = ["GCM_INTERACTIVE", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_TERMINAL_PROMPT"];
        let names: Vec<_> =
            env.iter().map(|(n, _)| n.to_str().unwrap()).filter(|n| !own.contains(n)).collect();
        assert_eq!(names, ["ANTHROPIC_API_KEY", "LC_TIME", "PATH"]);
    }

    /// What a check runs was written by a model: it gets the operator's settings and none of their keys.
    #[test]
    fn a_check_inherits_settings_and_no_key() {
        let kept = ["CARGO_TARGET_DIR", "DATABASE_URL", "HOME", "PATH", "XDG_CACHE_HOME"];
        let keys = [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "DEEPSEEK_API_KEY",
            "GH_TOKEN",
            "NPM_TOKEN",
            "OPENAI_API_KEY",
        ];
        let env = ChildEnv::check_from(vars(&[&kept[..], &keys[..]].concat()));
        let own = ["GCM_INTERACTIVE", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_TERMINAL_PROMPT"];
        let names: Vec<_> =
            env.iter().map(|(n, _)| n.to_str().unwrap()).filter(|n| !own.contains(n)).collect();
        assert_eq!(names, kept);
    }

    #[test]
    fn folders_move_home_only_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders::create(dir.path()).unwrap();
        let theirs = ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"];
        let mut env = ChildEnv::worker_from(vars(&theirs), &[]);
        env.use_folders(&folders, false);
        assert!(theirs.iter().all(|name| env.get(name) == Some(OsStr::new("x"))));
        env.use_folders(&folders, true);
        assert!(theirs[1..].iter().all(|name| env.get(name).is_none()), "they are of the other home");
        assert_eq!(env.get("HOME"), Some(folders.home.as_os_str()));
        assert_eq!(env.get("TMPDIR"), Some(folders.tmp.as_os_str()));
    }
}
