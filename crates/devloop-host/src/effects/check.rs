//! The operator's checks on one commit, in a throwaway checkout of it. It says what happened; whose fault it
//! is and whether a red check was known is decided elsewhere.

use std::ffi::OsString;

use devloop_core::effect::Contract;
use devloop_core::ids::DispatchId;
use devloop_core::report::{CheckOutcome, FailureClass, Outcome};
use devloop_core::task::clip;

use super::chores::end_marked;
use super::flight::machine_failure;
use super::run_record;
use super::{EffectConfig, Shared, locked};
use crate::backend::stopped;
use crate::error::{ErrorKind, HostError};
use crate::git::restore::restore_protected;
use crate::git::{Oid, Repo, Scope};
use crate::process::{self, CancelToken, ChildEnv, Exit, Folders, Held, Limits, Sink, Spec, StopPlan};
use crate::scratch;
use crate::store::points::{self, Point};
use crate::worktree::Removal;

/// Characters of output that a report keeps, from the end.
const OUTPUT_CHARS: usize = 8_000;
/// Commands that a report names.
const COMMANDS_SHOWN: usize = 50;

/// What is checked.
pub(super) struct Subject<'a> {
    /// The commit to check out.
    pub commit: &'a Oid,
    /// For a task's change: the commit it is measured from, and the paths it may change. Protected tests
    /// outside them are put back as that commit has them.
    pub change: Option<(&'a Oid, &'a [String])>,
    /// The first failure ends the run, unless it is one of these known ones. None: every check runs, so that
    /// all that is red is known.
    pub known_red: Option<&'a [String]>,
}

/// Checks a commit of a task, or of the target when there is no contract.
pub(super) fn perform(
    shared: &Shared,
    dispatch: DispatchId,
    commit: &Oid,
    contract: Option<&Contract>,
    known_red: Option<&[String]>,
    cancel: &CancelToken,
) -> Outcome {
    let change = contract.map(|c| (&c.base, c.allowed_paths.as_slice()));
    match run_checks(shared, dispatch, &Subject { commit, change, known_red }, cancel) {
        Ok(Some(outcome)) => Outcome::Checked(outcome),
        Ok(None) => stopped(FailureClass::Cancelled),
        Err(error) => machine_failure(error),
    }
}

/// Runs every check, one after the other. `None`: it was cancelled.
///
/// # Errors
/// The fence; everything else that keeps a check from running is an outcome.
pub(super) fn run_checks(
    shared: &Shared,
    dispatch: DispatchId,
    subject: &Subject<'_>,
    cancel: &CancelToken,
) -> Result<Option<CheckOutcome>, HostError> {
    let config = shared.config();
    if config.acceptance.is_empty() {
        return Ok(Some(CheckOutcome::Green));
    }
    shared.fence()?;
    // Checks of an owner that died in the middle of this very operation may still run.
    let marker = run_record::marker(&shared.setting.armed, dispatch);
    end_marked(&marker);
    scratch::remove(&shared.setting.armed, dispatch);
    points::reach(Point::CheckTree, dispatch);
    let ran = checkout(shared, dispatch, subject, &config).and_then(|tree| {
        let temporary = scratch::folder(&shared.setting.armed, dispatch);
        let temporary = temporary.map_err(|e| HostError::io(std::env::temp_dir(), "make a folder", e))?;
        let folders = Folders::create(temporary.path())
            .map_err(|e| HostError::io(temporary.path(), "make a folder", e))?;
        points::reach(Point::CheckRun, dispatch);
        let place = Place { tree: &tree, folders: &folders, marker: &marker, limits: config.limits };
        Ok(run_all(&place, &config, subject.known_red, cancel))
    });
    points::reach(Point::Checked, dispatch);
    {
        let _pool = locked(&shared.pool);
        // A tree that cannot be removed now is the pool's to name; the answer of the checks stands.
        drop(shared.worktrees().remove(dispatch, Removal::Throwaway));
    }
    match ran {
        Ok(outcome) => Ok(outcome),
        Err(error) => {
            let detail = clip(&format!("the commit could not be checked out: {error}"));
            Ok(Some(CheckOutcome::Unavailable { detail }))
        }
    }
}

/// A fresh checkout with protected tests put back.
fn checkout(
    shared: &Shared,
    dispatch: DispatchId,
    subject: &Subject<'_>,
    config: &EffectConfig,
) -> Result<Repo, HostError> {
    let worktree = {
        let _pool = locked(&shared.pool);
        let pool = shared.worktrees();
        pool.exclude_devloop()?;
        // An earlier owner may have died in the middle of this very check: its checkout is not trusted.
        pool.remove(dispatch, Removal::Throwaway)?;
        pool.add_detached(dispatch, subject.commit)?
    };
    if let (Some((base, allowed)), Some(protected)) = (subject.change, protected_scope(config)?) {
        let contract = scope_of(allowed, "allowedPaths")?;
        restore_protected(&worktree.tree, base, subject.commit, &protected, &contract)?;
    }
    Ok(worktree.tree)
}

/// The protected tests; none when no globs are configured.
pub(super) fn protected_scope(config: &EffectConfig) -> Result<Option<Scope>, HostError> {
    let globs = &config.protected_tests;
    (!globs.is_empty()).then(|| scope_of(globs, "protectedTests")).transpose()
}

fn scope_of(globs: &[String], field: &str) -> Result<Scope, HostError> {
    Scope::new(globs, &[] as &[&str])
        .map_err(|error| HostError::new(ErrorKind::Config, error.to_string()).in_field(field))
}

enum Verdict {
    Green,
    Red(String),
    Unavailable(String),
    Cancelled,
}

/// Where checks run.
struct Place<'a> {
    tree: &'a Repo,
    folders: &'a Folders,
    marker: &'a str,
    limits: Limits,
}

fn run_all(
    place: &Place<'_>,
    config: &EffectConfig,
    known_red: Option<&[String]>,
    cancel: &CancelToken,
) -> Option<CheckOutcome> {
    let (mut red, mut output, mut unavailable) = (Vec::new(), String::new(), None);
    for argv in &config.acceptance {
        let line = line_of(argv);
        let ends = match run_one(place, argv, config.check_timeout_ms, cancel) {
            Verdict::Green => false,
            Verdict::Red(said) => {
                let ends = known_red.is_some_and(|known| !known.contains(&line));
                output.push_str(&format!("$ {line}\n{said}\n"));
                red.push(line);
                ends
            }
            Verdict::Unavailable(why) => {
                unavailable.get_or_insert_with(|| format!("{line}: {why}"));
                known_red.is_some()
            }
            Verdict::Cancelled => return None,
        };
        if ends {
            break;
        }
    }
    red.truncate(COMMANDS_SHOWN);
    // What was known to be red does not hide that another check gave no word.
    let known = known_red.is_some_and(|known| red.iter().all(|line| known.contains(line)));
    Some(match (red.is_empty() || (known && unavailable.is_some()), unavailable) {
        (false, _) => CheckOutcome::Red { commands: red, output: end_of(&output, OUTPUT_CHARS) },
        (true, Some(detail)) => CheckOutcome::Unavailable { detail: clip(&detail) },
        (true, None) => CheckOutcome::Green,
    })
}

/// A command as one line, as reports and prompts name it.
pub(super) fn line_of(argv: &[String]) -> String {
    shlex::try_join(argv.iter().map(String::as_str)).unwrap_or_else(|_| argv.join(" "))
}

fn run_one(place: &Place<'_>, argv: &[String], limit_ms: u64, cancel: &CancelToken) -> Verdict {
    let mut env = ChildEnv::check();
    env.use_folders(place.folders, false);
    let sink = || Sink::Memory { head_bytes: 0, tail_bytes: 4 * OUTPUT_CHARS };
    let spec = Spec {
        argv: argv.iter().map(OsString::from).collect(),
        cwd: place.tree.root().to_path_buf(),
        env,
        stdin: None,
        stdout: sink(),
        stderr: sink(),
        deadline_ms: Some(limit_ms),
        stop: StopPlan { interrupt_ms: 0, terminate_ms: 1_000 },
        confine: None,
        held: Some(Held { marker: place.marker.to_owned(), limits: place.limits }),
    };
    let exit = match process::spawn(&spec) {
        Ok(running) => running.wait(cancel),
        Err(error) => return Verdict::Unavailable(error.to_string()),
    };
    if exit.cancelled {
        return Verdict::Cancelled;
    }
    if exit.timed_out {
        return Verdict::Unavailable(format!("it did not end within {limit_ms} ms"));
    }
    if exit.success() { Verdict::Green } else { Verdict::Red(said(&exit)) }
}

fn said(exit: &Exit) -> String {
    let end = match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    };
    let (out, err) = (exit.stdout.text(), exit.stderr.text());
    let parts = [out.trim(), err.trim(), end.as_str(), exit.over.as_deref().unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The last `max` characters.
fn end_of(text: &str, max: usize) -> String {
    let count = text.chars().count();
    text.chars().skip(count.saturating_sub(max)).collect()
}

#[cfg(test)]
mod tests {
    use super::end_of;

    #[test]
    fn the_end_is_kept_at_the_limit_and_one_above_it() {
        assert_eq!(end_of("äbc", 3), "äbc");
        assert_eq!(end_of("äbcd", 3), "bcd");
        assert_eq!(end_of("", 3), "");
    }
}
