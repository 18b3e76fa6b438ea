//! Removes what a loop left behind and what is proven to be ours and merged; everything else is kept and
//! named with the reason. It needs OWNER, so it never works beside a living loop.

use std::path::Path;

use devloop_core::ids::{DispatchId, Oid, TaskId};
use devloop_core::report::Report;
use devloop_core::state::LoopState;

use super::{Finding, Weight};
use crate::effects::run_record;
use crate::error::HostError;
use crate::files;
use crate::git::{Git, Repo};
use crate::observe::{full_ref, open_repo};
use crate::process::tree::{self, TreeRecord};
use crate::scratch;
use crate::session::Session;
use crate::settings;
use crate::store::{Armed, Disk, Identity, Locks, UserFolder, Wait, layout, small};
use crate::worktree::{BranchEnd, Listed, Removal, Worktrees};

/// How long the processes of a dead run may take to vanish, in awake milliseconds.
const KILL_LIMIT_MS: u64 = 5_000;

/// What a repair works with.
struct Repair<'a> {
    repo: &'a Repo,
    armed: &'a Armed,
    state: &'a LoopState,
    /// Where the target stands; nothing is merged without one.
    target: Option<(String, Oid)>,
}

/// Clears away what is provably left over. Each thing that was looked at is a finding: removed, or kept and
/// why.
///
/// # Errors
/// Busy while a loop runs; Integrity when the state cannot be believed: then nobody owns anything for
/// certain.
pub fn repair(root: &Path, user: UserFolder) -> Result<Vec<Finding>, HostError> {
    let armed = layout::require_armed(root)?;
    let repo = open_repo(&Git::discover()?, &armed)?;
    let disk = Disk::default();
    let config = settings::for_command(&disk, &armed).map(|(config, _)| config).unwrap_or_default();
    let owner = Locks::new(armed.clone(), user, disk.clone(), Identity::new_instance()).own(Wait::ONCE)?;
    let mut session = Session::new(armed.clone(), disk, config.policy())?;
    {
        let lock = owner.lock(Wait::up_to_ms(2_000))?;
        owner.sweep(&lock)?;
    }
    session.look()?;
    let state = session.state();
    let target = match &state.target.branch {
        Some(branch) => repo.resolve(&full_ref(branch))?.map(|tip| (full_ref(branch), tip)),
        None => None,
    };
    let repair = Repair { repo: &repo, armed: &armed, state: &state, target };
    let mut found = repair.processes();
    found.extend(repair.worktrees()?);
    found.extend(repair.branches()?);
    found.extend(repair.records()?);
    found.extend(repair.temporary());
    if found.is_empty() {
        found.push(Finding::well("repair", "nothing is left over"));
    }
    Ok(found)
}

fn removed(about: &'static str, text: String) -> Finding {
    Finding::new(Weight::Well, about, format!("removed: {text}"))
}

fn kept(about: &'static str, text: String) -> Finding {
    Finding::new(Weight::Note, about, format!("kept: {text}"))
}

impl Repair<'_> {
    /// Does a lease need it? Also the worktree of an earlier dispatch may be needed by a commit.
    fn is_needed(&self, dispatch: DispatchId) -> bool {
        let leases = &self.state.leases;
        leases.contains_key(&dispatch) || leases.values().any(|lease| lease.worktree == Some(dispatch))
    }

    fn is_merged(&self, commit: &Oid) -> Result<bool, HostError> {
        match &self.target {
            Some((_, tip)) => Ok(self.repo.contains(tip, commit)?),
            None => Ok(false),
        }
    }

    /// Processes that carry the marker of this project and of a dispatch that is over.
    fn processes(&self) -> Vec<Finding> {
        let project = run_record::marker_of_project(self.armed);
        let mut found = Vec::new();
        for marker in tree::markers_with(&project) {
            let Some(dispatch) = marker.strip_prefix(&project).and_then(|id| DispatchId::parse(id).ok())
            else {
                continue;
            };
            if self.is_needed(dispatch) {
                let text = format!("processes of {dispatch}, which the next loop settles");
                found.push(kept("process", text));
                continue;
            }
            let record = TreeRecord { boot: None, leader: None, marker };
            let (killed, left) = tree::kill_tree(&record, KILL_LIMIT_MS);
            found.push(match left.len() {
                0 => removed("process", format!("{} processes of {dispatch}, which is over", killed.len())),
                n => kept("process", format!("{n} processes of {dispatch} cannot be ended")),
            });
        }
        found
    }

    fn worktrees(&self) -> Result<Vec<Finding>, HostError> {
        let pool = Worktrees::new(self.repo);
        let listed = pool.list()?;
        listed.iter().map(|tree| Ok(self.worktree(&pool, tree)?.at(&tree.path))).collect()
    }

    fn worktree(&self, pool: &Worktrees, tree: &Listed) -> Result<Finding, HostError> {
        let name = &tree.name;
        let Some(dispatch) = tree.owner else {
            return Ok(kept("worktree", format!("{name} has no name of a dispatch")));
        };
        if self.is_needed(dispatch) {
            return Ok(kept("worktree", format!("{name} is in use")));
        }
        let Some(head) = tree.registered.as_ref().and_then(|registered| registered.head.clone()) else {
            return Ok(kept("worktree", format!("{name} is not known to git; it may hold unseen work")));
        };
        if tree.present && !self.is_merged(&head)? {
            return Ok(kept("worktree", format!("{name} is on {head}, which the target does not contain")));
        }
        Ok(match pool.remove(dispatch, Removal::Clean) {
            Ok(_) => removed("worktree", format!("{name} is over, clean and merged")),
            Err(error) => kept("worktree", error.to_string()),
        })
    }

    /// Branches `devloop/*` of tasks that are done or unknown, when the target contains them.
    fn branches(&self) -> Result<Vec<Finding>, HostError> {
        let Some((target, _)) = &self.target else { return Ok(Vec::new()) };
        let bytes = self.repo.call(["for-each-ref", "--format=%(refname)", "refs/heads/devloop"]).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let pool = Worktrees::new(self.repo);
        let mut found = Vec::new();
        for name in text.lines().filter(|name| name != target) {
            let short = name.trim_start_matches("refs/heads/");
            let Ok(task) = TaskId::parse(name.trim_start_matches("refs/heads/devloop/")) else {
                found.push(kept("branch", format!("{short} has no name of a task")));
                continue;
            };
            if self.state.tasks.get(&task).is_some_and(|task| !task.is_done()) {
                continue;
            }
            found.push(match pool.delete_branch_if_contained(&task, target) {
                Ok(BranchEnd::Deleted { tip }) => removed("branch", format!("{short} at {tip}, merged")),
                Ok(BranchEnd::NotContained { tip }) => {
                    kept("branch", format!("{short} at {tip}, which the target does not contain"))
                }
                Ok(BranchEnd::Absent) => continue,
                Err(error) => kept("branch", error.to_string()),
            });
        }
        Ok(found)
    }

    /// Run records and parked reports of dispatches that are over.
    fn records(&self) -> Result<Vec<Finding>, HostError> {
        let mut found = Vec::new();
        for name in files::list_names(&self.armed.runs()).unwrap_or_default() {
            let dispatch = name.to_str().and_then(|name| DispatchId::parse(name.strip_suffix(".json")?).ok());
            let Some(dispatch) = dispatch.filter(|dispatch| !self.is_needed(*dispatch)) else { continue };
            // The process that a record leads to may have shed its marker.
            let record = run_record::read(&Disk::default(), self.armed, dispatch).ok().flatten();
            if record.is_some_and(|record| !tree::alive(&record.tree()).is_empty()) {
                found.push(kept("run", format!("{dispatch} is over, but a process of it still runs")));
                continue;
            }
            small::remove_run(self.armed, &dispatch.to_string())?;
            found.push(removed("run", format!("the record of {dispatch}, which is over")));
        }
        for (name, bytes) in small::parked_reports(&Disk::default(), self.armed)? {
            let report: Option<Report> = serde_json::from_slice(&bytes).ok();
            found.push(match report {
                Some(report) if self.state.leases.contains_key(&report.dispatch) => continue,
                Some(report) => {
                    small::unpark_report(self.armed, &name)?;
                    removed("inbox", format!("the report of {}, which is settled", report.dispatch))
                }
                None => kept("inbox", format!("{name}.json cannot be read")),
            });
        }
        Ok(found)
    }

    fn temporary(&self) -> Vec<Finding> {
        scratch::sweep_settings();
        let over = scratch::left(self.armed).into_iter().filter(|dispatch| !self.is_needed(*dispatch));
        let clear = |dispatch| {
            scratch::remove(self.armed, dispatch);
            removed("temporary", format!("the folders of {dispatch}"))
        };
        over.map(clear).collect()
    }
}
