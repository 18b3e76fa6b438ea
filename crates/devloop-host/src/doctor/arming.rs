//! The checks before arming and before a loop starts, and arming itself: `GOAL.md` and `config.json`,
//! nothing else.

use std::path::Path;

use crate::error::{ErrorKind, HostError};
use crate::files;
use crate::git::inspect::{self, ArmProblem, Preflight};
use crate::git::{Git, RootProblem};
use crate::store::disk::{Keep, Point, Replace};
use crate::store::{Armed, Arming, Disk, layout};

/// The command that helps with a problem of the repository.
#[must_use]
pub fn remedy(problem: &ArmProblem, root: &Path) -> Vec<String> {
    let root = root.to_string_lossy().into_owned();
    let git = |args: &[&str]| {
        let mut argv = vec!["git".to_owned(), "-C".to_owned(), root.clone()];
        argv.extend(args.iter().map(|arg| (*arg).to_owned()));
        argv
    };
    let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    match problem {
        ArmProblem::Root(RootProblem::NotARepository { .. }) => list(&["git", "init", &root]),
        ArmProblem::Root(RootProblem::NotTopLevel { top, .. }) => {
            list(&["devloop", "init", &top.to_string_lossy()])
        }
        ArmProblem::Root(RootProblem::Bare { .. }) => list(&["git", "clone", &root, &format!("{root}-work")]),
        ArmProblem::Root(RootProblem::ForeignOwner { .. }) => {
            list(&["git", "config", "--global", "--add", "safe.directory", &root])
        }
        ArmProblem::Root(_) | ArmProblem::DevloopIsSymlink | ArmProblem::DevloopIsNotAFolder => {
            list(&["ls", "-ld", &root, &format!("{root}/.devloop")])
        }
        ArmProblem::NoCommit => git(&["commit", "--allow-empty", "-m", "First commit"]),
        ArmProblem::Detached => git(&["switch", "-c", "work"]),
        _ => git(&["status"]),
    }
}

pub(super) fn problem_error(problem: &ArmProblem, root: &Path) -> HostError {
    HostError::new(ErrorKind::Config, problem.to_string()).at(root).hint(remedy(problem, root))
}

/// The form of GOAL.md that `devloop init` writes for a person to fill in.
pub const GOAL_FORM: &str = include_str!("../../../../templates/GOAL.md");

/// Whether the goal of an armed folder can be read: a regular file of at most 64 KiB of UTF-8 that says
/// something.
///
/// # Errors
/// Config with what is wrong; a folder that is not armed says so.
pub fn check_goal(root: &Path) -> Result<Armed, HostError> {
    let armed = layout::require_armed(root)?;
    let goal = armed.goal();
    let edit = |what: String| HostError::new(ErrorKind::Config, what).at(&goal).hint(edit_command(&goal));
    let bytes =
        armed.read_goal(&Disk::default()).map_err(|error| edit(error.to_string()))?.unwrap_or_default();
    match std::str::from_utf8(&bytes) {
        Err(bad) => {
            Err(edit(format!("GOAL.md is not valid UTF-8 (first bad byte at offset {})", bad.valid_up_to())))
        }
        Ok(text) if text.trim().is_empty() => Err(edit("GOAL.md is empty".into())),
        // A model would be paid to guess.
        Ok(text) if text == GOAL_FORM => {
            Err(edit("GOAL.md is still the empty form: say what should be done".into()))
        }
        Ok(_) => Ok(armed),
    }
}

/// The project as commands and views need it: once a loop has begun, whatever became of the goal, which is
/// then a question of the loop; before that, with a goal that can be read.
///
/// # Errors
/// As [`check_goal`].
pub fn check_project(root: &Path) -> Result<Armed, HostError> {
    match layout::begun(root)? {
        Some(armed) => Ok(armed),
        None => check_goal(root),
    }
}

pub(crate) fn edit_command(path: &Path) -> [String; 2] {
    let editor = std::env::var("EDITOR").ok().filter(|editor| !editor.trim().is_empty());
    [editor.unwrap_or_else(|| "vi".into()), path.to_string_lossy().into_owned()]
}

/// What stands between a folder and the loop, the worst first.
///
/// # Errors
/// Config with the first problem; `anyway` lets those pass that only keep merges waiting.
pub fn check_folder(root: &Path, anyway: bool) -> Result<(), HostError> {
    if let Arming::Escaped { path, why } = layout::inspect(root)? {
        let list = ["ls".to_owned(), "-ld".to_owned(), path.to_string_lossy().into_owned()];
        let what = format!("{} {why}; nothing was read or written through it", path.display());
        return Err(HostError::new(ErrorKind::Config, what).at(path).hint(list));
    }
    let found = preflight(root)?;
    let passes = |problem: &&ArmProblem| anyway && only_keeps_waiting(problem);
    match found.problems.iter().find(|problem| !passes(problem)) {
        Some(problem) => Err(problem_error(problem, root)),
        None => Ok(()),
    }
}

fn only_keeps_waiting(problem: &ArmProblem) -> bool {
    matches!(problem, ArmProblem::InProgress { .. } | ArmProblem::Detached | ArmProblem::Dirty { .. })
}

/// The preflight of a folder that may be reached through a link: the loop works in the folder itself.
pub(super) fn preflight(root: &Path) -> Result<Preflight, HostError> {
    let real = files::canonical(root).unwrap_or_else(|_| root.to_path_buf());
    Ok(inspect::preflight(&Git::discover()?, &real)?)
}

/// Arms a folder that passed [`check_folder`]: `.devloop/GOAL.md`, and `config.json` unless there is one.
///
/// # Errors
/// When GOAL.md exists already, or cannot be written.
pub fn arm(root: &Path, goal: &str, config: &str) -> Result<Armed, HostError> {
    let disk = Disk::default();
    if let Arming::Armed(armed) = layout::inspect(root)? {
        let root = armed.root().to_string_lossy().into_owned();
        return Err(HostError::new(ErrorKind::Config, "this project is armed already")
            .at(armed.goal())
            .hint(["devloop".to_owned(), "status".to_owned(), root]));
    }
    let armed = layout::arm(&disk, root, goal)?;
    if files::stamp(&armed.config()).is_none() {
        let how = Replace { write: Point::SmallWrite, rename: Point::SmallWrite, keep: Keep::Renamed };
        disk.replace(&armed.config(), config.as_bytes(), how)?;
    }
    Ok(armed)
}
