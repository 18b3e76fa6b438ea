//! A bench: a temporary home, repositories in it, and the program with nothing else in its environment.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_devloop");

pub struct Bench {
    folder: tempfile::TempDir,
}

/// What a run of the program left.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Bench {
    pub fn new() -> Bench {
        let folder = tempfile::Builder::new().prefix("devloop-cli-").tempdir().unwrap();
        for name in ["home", "dsh", "tmp"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Bench { folder }
    }

    /// The real path of a name in the bench.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// A command with nothing of ours in its environment.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.path("home")).env("DSH_HOME", self.path("dsh"));
        command.env("TMPDIR", self.path("tmp"));
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "Ada").env(format!("GIT_{role}_EMAIL"), "ada@localhost");
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    pub fn devloop(&self, args: &[&str]) -> Ran {
        ran(self.command(PROGRAM).args(args).output().unwrap())
    }

    /// A verb on a project.
    pub fn verb(&self, verb: &str, root: &Path) -> Ran {
        self.devloop(&[verb, root.to_str().unwrap()])
    }

    /// A line as a person pastes it.
    pub fn sh(&self, line: &str) -> Ran {
        ran(self.command("sh").args(["-c", line]).output().unwrap())
    }

    pub fn git(&self, root: &Path, args: &[&str]) {
        let done = ran(self.command("git").arg("-C").arg(root).args(args).output().unwrap());
        assert_eq!(done.code, 0, "git {args:?}: {}{}", done.out, done.err);
    }

    /// A repository on the branch `work` with one commit.
    pub fn repo(&self, name: &str) -> PathBuf {
        let root = self.path(name);
        fs::create_dir(&root).unwrap();
        self.git(&root, &["init", "--quiet", "--initial-branch", "work"]);
        fs::write(root.join("README.md"), "one\n").unwrap();
        self.git(&root, &["add", "."]);
        self.git(&root, &["commit", "--quiet", "-m", "one"]);
        root
    }

    /// A repository that is armed, with the backend `noop`.
    pub fn armed(&self, name: &str) -> PathBuf {
        let root = self.repo(name);
        let done = self.devloop(&["init", root.to_str().unwrap(), "--goal", "Say hello."]);
        assert_eq!(done.code, 0, "{done:?}");
        root
    }

    /// An armed repository with a journal.
    pub fn recorded(&self, name: &str) -> PathBuf {
        let root = self.armed(name);
        let done = self.verb("tick", &root);
        assert_eq!(done.code, 0, "{done:?}");
        root
    }

    /// The sample repository with workers that take `delay_ms` for everything.
    pub fn sample(&self, name: &str, delay_ms: u32) -> PathBuf {
        let root = devloop_host::backend::demo::sample_repo(&self.path(name)).unwrap();
        let script = root.join(".devloop/demo.json");
        let mut value: serde_json::Value = serde_json::from_slice(&fs::read(&script).unwrap()).unwrap();
        for rule in value["rules"].as_array_mut().unwrap() {
            rule["delayMs"] = delay_ms.into();
        }
        fs::write(&script, serde_json::to_vec(&value).unwrap()).unwrap();
        root
    }

    /// The view as `status --json` prints it, with the exit code.
    pub fn status(&self, root: &Path) -> (i32, serde_json::Value) {
        let ran = self.devloop(&["status", root.to_str().unwrap(), "--json"]);
        (ran.code, serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}")))
    }
}

pub fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Everything below a folder: names with what is in them.
pub fn everything(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let what = if meta.is_symlink() {
            format!("-> {}", fs::read_link(&path).unwrap().display())
        } else if meta.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            "folder".to_owned()
        } else if meta.len() > 1 << 20 {
            format!("{} bytes", meta.len())
        } else {
            format!("{:?}", fs::read(&path).unwrap())
        };
        found.insert(path, what);
    }
    found
}

/// Replaces a folder by a copy of another one.
pub fn copy_over(bench: &Bench, from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let done = ran(bench.command("cp").arg("-a").arg(from).arg(to).output().unwrap());
    assert_eq!(done.code, 0, "{done:?}");
    // Copied files have other numbers in git's index; the operator's own git looks once.
    bench.git(to, &["status", "--short"]);
}
