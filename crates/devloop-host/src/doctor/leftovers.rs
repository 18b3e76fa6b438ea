//! What dispatches leave behind: worktrees, branches, parked reports, run records, processes, locks of git
//! and temporary folders. Each has an owner in the state or is named. It removes nothing.

use devloop_core::ids::{DispatchId, TaskId};
use devloop_core::report::Report;
use devloop_core::state::LoopState;

use super::{Finding, Weight};
use crate::effects::run_record;
use crate::error::HostError;
use crate::files;
use crate::git::{Repo, inspect};
use crate::process::tree;
use crate::scratch;
use crate::store::{Armed, Disk, small};
use crate::worktree::{Listed, Worktrees};

/// The largest parked report or run record that is read, in bytes.
const SMALL_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Adds what was found; without a state nothing can be said about owners.
pub(super) fn look(repo: &Repo, armed: &Armed, state: Option<&LoopState>, found: &mut Vec<Finding>) {
    let Some(state) = state else { return };
    let looks: [(&'static str, Result<Vec<Finding>, HostError>); 7] = [
        ("worktree", worktrees(repo, state)),
        ("branch", branches(repo, state)),
        ("inbox", inbox(armed, state)),
        ("run", runs(armed, state)),
        ("process", Ok(processes(armed, state))),
        ("temporary", Ok(temporary(armed, state))),
        ("lock", locks(repo)),
    ];
    for (about, looked) in looks {
        match looked {
            Ok(findings) => found.extend(findings),
            Err(error) => found.push(Finding::from_error(about, &error)),
        }
    }
}

fn worktrees(repo: &Repo, state: &LoopState) -> Result<Vec<Finding>, HostError> {
    let listed = Worktrees::new(repo).list().map_err(|error| {
        HostError::new(crate::error::ErrorKind::External, "the worktrees cannot be listed").because(error)
    })?;
    Ok(listed.iter().map(|tree| worktree(tree, state)).collect())
}

fn worktree(tree: &Listed, state: &LoopState) -> Finding {
    let lease = tree.owner.and_then(|dispatch| state.leases.get(&dispatch).map(|lease| (dispatch, lease)));
    let text = match (&lease, tree.owner) {
        (Some((dispatch, lease)), _) => format!("{dispatch}: {} of {}", lease.op.key(), lease.subject),
        (None, Some(dispatch)) => {
            format!("{dispatch} is over; its worktree is removed by the loop when it is safe")
        }
        (None, None) => format!("{} belongs to nobody of the loop", tree.name),
    };
    let weight = match (&lease, tree.owner) {
        (Some(_), _) => Weight::Well,
        (None, Some(_)) => Weight::Note,
        (None, None) => Weight::Problem,
    };
    Finding::new(weight, "worktree", text).at(&tree.path)
}

fn branches(repo: &Repo, state: &LoopState) -> Result<Vec<Finding>, HostError> {
    let bytes =
        repo.call(["for-each-ref", "--format=%(refname)", "refs/heads/devloop", "refs/devloop"]).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let target = state.target.branch.as_ref().map(ToString::to_string);
    let mut found = Vec::new();
    for name in text.lines() {
        if let Some(task) = name.strip_prefix("refs/heads/devloop/") {
            let is_target = target.as_deref() == name.strip_prefix("refs/heads/");
            let known = TaskId::parse(task).ok().and_then(|id| state.tasks.get(&id));
            found.push(match known {
                Some(task) => Finding::well("branch", format!("devloop/{} is of task {}", task.id, task.id)),
                None if is_target => Finding::well("branch", format!("devloop/{task} is the target")),
                None => Finding::note("branch", format!("devloop/{task} is of no task of this goal")),
            });
        } else {
            found.push(Finding::note("ref", format!("{name} keeps work that was set aside")));
        }
    }
    Ok(found)
}

fn inbox(armed: &Armed, state: &LoopState) -> Result<Vec<Finding>, HostError> {
    let mut found = Vec::new();
    let parked = small::parked_reports(&Disk::default(), armed)?;
    for name in files::list_names(&armed.inbox()).unwrap_or_default() {
        let read = parked.iter().any(|(known, _)| name.to_str() == Some(&format!("{known}.json")));
        if name.to_string_lossy().ends_with(".json") && !read {
            let text = "a parked report cannot be read: it is no plain file, or larger than 4 MiB";
            found.push(Finding::problem("inbox", text).at(armed.inbox().join(name)));
        }
    }
    for (name, bytes) in parked {
        let path = armed.inbox().join(format!("{name}.json"));
        found.push(match serde_json::from_slice::<Report>(&bytes) {
            Err(error) => {
                Finding::problem("inbox", format!("a parked report cannot be read: {error}")).at(path)
            }
            Ok(report) if state.leases.contains_key(&report.dispatch) => {
                Finding::note("inbox", format!("the report of {} waits for the next beat", report.dispatch))
                    .at(path)
            }
            Ok(report) => {
                Finding::note("inbox", format!("the report of {} is settled", report.dispatch)).at(path)
            }
        });
    }
    Ok(found)
}

fn runs(armed: &Armed, state: &LoopState) -> Result<Vec<Finding>, HostError> {
    let mut found = Vec::new();
    for (name, bytes) in small::read_runs(&Disk::default(), armed, SMALL_FILE_BYTES)? {
        let path = armed.runs().join(format!("{name}.json"));
        let Ok(record) = run_record::parse(&bytes) else {
            found.push(Finding::problem("run", format!("the run record {name} cannot be read")).at(path));
            continue;
        };
        let alive = tree::alive(&record.tree()).len();
        let leased = DispatchId::parse(&name).is_ok_and(|dispatch| state.leases.contains_key(&dispatch));
        found.push(match (leased, alive) {
            (true, n) => Finding::well("run", format!("{name} runs with {n} processes of its own")).at(path),
            (false, 0) => {
                Finding::note("run", format!("{name} is over; its record is removed by the loop")).at(path)
            }
            (false, n) => {
                Finding::problem("run", format!("{name} is over, but {n} of its processes still run"))
                    .at(path)
            }
        });
    }
    Ok(found)
}

/// Is the dispatch over, and does no operation of the host still need what it left?
fn is_over(state: &LoopState, dispatch: DispatchId) -> bool {
    let leases = &state.leases;
    !leases.contains_key(&dispatch) && !leases.values().any(|lease| lease.worktree == Some(dispatch))
}

fn repair(armed: &Armed) -> [String; 4] {
    ["devloop".into(), "doctor".into(), armed.root().to_string_lossy().into_owned(), "--repair".into()]
}

/// Processes that carry this project's marker, whether or not a record leads to them.
fn processes(armed: &Armed, state: &LoopState) -> Vec<Finding> {
    let project = run_record::marker_of_project(armed);
    let finding = |marker: String| {
        let count = tree::find_by_marker(&marker).len();
        let dispatch = DispatchId::parse(marker.strip_prefix(&project)?).ok()?;
        Some(if is_over(state, dispatch) {
            let text = format!("{count} processes carry the mark of {dispatch}, which is over");
            Finding::problem("process", text).try_next(repair(armed))
        } else {
            Finding::well("process", format!("{count} processes are of {dispatch}"))
        })
    };
    tree::markers_with(&project).into_iter().filter_map(finding).collect()
}

fn temporary(armed: &Armed, state: &LoopState) -> Vec<Finding> {
    let over = scratch::left(armed).into_iter().filter(|dispatch| is_over(state, *dispatch));
    let text = |dispatch| format!("a temporary folder of {dispatch}, which is over, is still there");
    over.map(|dispatch| Finding::note("temporary", text(dispatch)).try_next(repair(armed))).collect()
}

/// Locks of git in the work trees that are registered: whoever holds one is no part of the loop.
fn locks(repo: &Repo) -> Result<Vec<Finding>, HostError> {
    let folders = inspect::worktrees(repo)?.into_iter().filter_map(|registered| registered.admin);
    let locks = folders.map(|folder| folder.join("index.lock")).filter(|lock| files::stamp(lock).is_some());
    let text = "another git works there, or one died and left its lock; merges into that checkout wait";
    Ok(locks.map(|lock| Finding::note("lock", text).at(lock)).collect())
}
