//! The demonstration: a sample repository whose embedded workers run through everything the loop does in half
//! a minute. It is data and a way to lay it out; nothing of the loop knows it.
//!
//! Four tasks: `words` is sent back by its reviewer once, `usage` and `farewell` go through at the same time,
//! one of them without saying what it cost, and `language` fails its checks three times and asks. A cap on
//! the goal's money trips once on the way.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{ErrorKind, HostError};
use crate::files;
use crate::git::{Git, Identity, NewCommit, Oid, Repo};
use crate::process::{self, CancelToken, ChildEnv, Sink, Spec, StopPlan};
use crate::store::disk::{Keep, Point, Replace};
use crate::store::{Disk, layout};
use crate::worktree::Worktrees;

/// The script of the embedded workers.
pub const SCRIPT: &str = include_str!("demo.json");
/// The branch of the sample repository; no trunk, so that merges need no leave.
pub const BRANCH: &str = "work";
/// What is wanted.
pub const GOAL: &str = "\
# Greetings for everybody

The scripts in `bin/` greet one person in English. Make them greet in German and French too, let the caller
choose the language, add a goodbye, and write down how the scripts are called.

Done when `sh tests/run.sh` passes and `docs/usage.md` shows every script.
";
/// The configuration: embedded workers, one check, and a cap on the goal's money that the demonstration
/// reaches once.
pub const CONFIG: &str = r#"{
  "agentBackend": "scripted",
  "scripted": { "script": ".devloop/demo.json", "reserveUsd": 0.05 },
  "tickIntervalMs": 500,
  "budget": { "maxTaskAttempts": 3, "maxCostUsdPerGoal": 0.3 },
  "acceptance": [["sh", "tests/run.sh"]],
  "acceptanceTimeoutMinutes": 1
}
"#;

/// The first commit of the sample repository.
const FILES: [(&str, &str); 5] = [
    (
        "README.md",
        "# Greetings\n\n`sh bin/greet.sh Ada` greets Ada. `sh tests/run.sh` runs every case in `tests/`.\n",
    ),
    ("bin/greet.sh", "#!/bin/sh\n# Greets.\necho \"Hello, ${1:-world}!\"\n"),
    ("lib/words.txt", "en Hello\n"),
    ("tests/greet.txt", "sh bin/greet.sh Ada|Hello, Ada!\nsh bin/greet.sh|Hello, world!\n"),
    ("tests/run.sh", RUN),
];

const RUN: &str = r#"#!/bin/sh
# Runs every case in tests/*.txt: a command and what it must print, with a bar between them.
cd "$(dirname "$0")/.." || exit 1
failed=0
for cases in tests/*.txt; do
  while IFS='|' read -r command want; do
    got=$(sh -c "$command" </dev/null 2>&1)
    if [ "$got" != "$want" ]; then
      echo "FAILED $command: wanted '$want', got '$got'"
      failed=1
    fi
  done <"$cases"
done
exit $failed
"#;

const VOLATILE: Replace =
    Replace { write: Point::SmallWrite, rename: Point::SmallWrite, keep: Keep::Renamed };
const INIT_LIMIT_MS: u64 = 30_000;

/// Makes the sample repository in `dir`, which must be missing or empty, and arms it. Returns its real path.
///
/// # Errors
/// User when the folder holds something; otherwise what git or the disk said.
pub fn sample_repo(dir: &Path) -> Result<PathBuf, HostError> {
    let names = files::list_names(dir).map_err(|e| HostError::io(dir, "look into the folder", e))?;
    if !names.is_empty() {
        let text = "the folder for the sample repository is not empty";
        return Err(HostError::new(ErrorKind::User, text).at(dir));
    }
    files::ensure_private_dir(dir).map_err(|e| HostError::io(dir, "make the folder", e))?;
    let root = files::canonical(dir).map_err(|e| HostError::io(dir, "find the folder", e))?;
    init(&root)?;
    let repo = Repo::open(&Git::discover()?, &root)?
        .map_err(|problem| HostError::new(ErrorKind::External, problem.to_string()))?;
    for (name, text) in FILES {
        write(&root.join(name), text)?;
    }
    commit_all(&repo)?;
    let disk = Disk::default();
    let armed = layout::arm(&disk, &root, GOAL)?;
    disk.replace(&armed.folder().join("demo.json"), SCRIPT.as_bytes(), VOLATILE)?;
    disk.replace(&armed.config(), CONFIG.as_bytes(), VOLATILE)?;
    Worktrees::new(&repo).exclude_devloop()?;
    Ok(root)
}

fn init(root: &Path) -> Result<(), HostError> {
    let sink = || Sink::Memory { head_bytes: 4096, tail_bytes: 4096 };
    let spec = Spec {
        argv: ["git", "init", "--quiet", "--template=", "--initial-branch", BRANCH].map(Into::into).to_vec(),
        cwd: root.to_path_buf(),
        env: ChildEnv::git(),
        stdin: None,
        stdout: sink(),
        stderr: sink(),
        deadline_ms: Some(INIT_LIMIT_MS),
        stop: StopPlan::default(),
        confine: None,
        held: None,
    };
    let exit = process::spawn(&spec)?.wait(&CancelToken::new());
    if exit.success() {
        return Ok(());
    }
    let text = format!("git init failed: {}", exit.stderr.text().trim());
    Err(HostError::new(ErrorKind::External, text).at(root))
}

fn write(path: &Path, text: &str) -> Result<(), HostError> {
    let write = || {
        if let Some(parent) = path.parent() {
            files::ensure_private_dir(parent)?;
        }
        files::create_private(path)?.write_all(text.as_bytes())
    };
    write().map_err(|e| HostError::io(path, "write a file of the sample repository", e))
}

fn commit_all(repo: &Repo) -> Result<(), HostError> {
    repo.call(["add", "--all", "."]).ok()?;
    let line = repo.call(["write-tree"]).line()?;
    let tree = Oid::parse(&line)
        .map_err(|bad| HostError::new(ErrorKind::External, format!("git write-tree: {bad}")))?;
    let identity = Identity::devloop();
    let new =
        NewCommit { tree: &tree, parents: &[], message: "A greeting in English\n", identity: &identity };
    let first = repo.write_commit(&new)?;
    repo.swap_ref(&format!("refs/heads/{BRANCH}"), &first, None, "start")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::script;
    use devloop_core::units::UsdMicros;

    #[test]
    fn script_and_configuration_are_read_without_a_warning() {
        let script = script::parse(SCRIPT.as_bytes()).unwrap();
        assert!(script.rules.iter().all(|rule| rule.delay_ms <= 1500));
        let config = devloop_wire::config_doc::parse(CONFIG.as_bytes()).unwrap();
        assert_eq!(config.warnings, []);
        assert_eq!(config.limits.cost_goal, Some(UsdMicros(300_000)));
    }

    #[test]
    fn a_folder_that_holds_something_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mine"), "x").unwrap();
        assert_eq!(sample_repo(dir.path()).unwrap_err().kind(), ErrorKind::User);
        assert_eq!(files::list_names(dir.path()).unwrap(), ["mine"]);
    }
}
