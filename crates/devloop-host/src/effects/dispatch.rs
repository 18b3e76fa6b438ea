//! One model dispatch: its worktree, its run record, its prompt, its backend, and what it left behind.
//! Performed at most once; it commits nothing and reads nothing that a planner or reviewer wrote.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};

use devloop_core::effect::{Contract, Job, Start as WorkStart};
use devloop_core::ids::{DispatchId, Oid, RouteKey, TaskId};
use devloop_core::report::{CommitFault, Outcome};
use devloop_core::task::clip;
use devloop_wire::config_doc::RouteConfig;

use super::check::{line_of, protected_scope};
use super::commit::refused;
use super::flight::{Done, machine_failure};
use super::prompt::{self, Material};
use super::run_record::{self, Role, RunRecord};
use super::{EffectConfig, Shared, chores, locked, sandbox};
use crate::backend::{self, BackendResult, Ground, Run, role_of};
use crate::error::{ErrorKind, HostError};
use crate::git::commit::task_ref;
use crate::git::inspect::{changed_between, diff_text};
use crate::git::status::{Snapshot, snapshot};
use crate::process::{CancelToken, Confinement, Deadline, Folders, Limits};
use crate::scratch;
use crate::store::points::{self, Point};
use crate::worktree::{Removal, Start, Worktree, Worktrees, write_contract};

/// Bytes of a patch that a reviewer is given.
const DIFF_BYTES: usize = 200 * 1024;
/// First lines of commits that a prompt names.
const HISTORY_LINES: usize = 20;

/// A dispatch as the effect asks for it.
pub(super) struct Order<'a> {
    pub dispatch: DispatchId,
    pub epoch: u32,
    pub route: &'a RouteKey,
    pub limit_ms: u64,
    pub job: &'a Job,
}

/// Performs it to its end. Before the backend is asked, every failure is a refusal: nobody was reached.
pub(super) fn perform(shared: &Arc<Shared>, order: &Order<'_>, cancel: &CancelToken) -> Done {
    let deadline = Deadline::after(Some(order.limit_ms));
    match run_record::read(&shared.setting.disk, &shared.setting.armed, order.dispatch) {
        Ok(None) => {}
        // Something of it may have been started once: its money is not given back.
        Ok(Some(_)) => {
            return machine_failure("this dispatch was started before; it is not run twice").into();
        }
        Err(error) => return machine_failure(error).into(),
    }
    let config = shared.config();
    let begun = prepare(shared, order, &config).and_then(|prepared| {
        let noted = note(shared, order, &prepared)?;
        Ok((prepared, noted))
    });
    let (prepared, noted) = match begun {
        Ok(begun) => begun,
        Err(error) => return Outcome::Refused { detail: clip(&error.to_string()) }.into(),
    };
    let result = run(shared, order, &prepared, noted, cancel, deadline);
    if role_of(order.job) == Role::Plan {
        let _pool = locked(&shared.pool);
        // What cannot be removed now is removed by its own effect, or named by `doctor`.
        drop(shared.worktrees().remove(order.dispatch, Removal::Throwaway));
    }
    Done { outcome: whole(result.outcome, prepared.omitted), usage: result.usage }
}

/// A pass of a change that was not shown whole is none: the change is too large for one review.
fn whole(outcome: Outcome, omitted: Vec<String>) -> Outcome {
    match outcome {
        Outcome::Reviewed(review) if review.verdict.is_pass() && !omitted.is_empty() => {
            let detail = format!(
                "the patch is above the {DIFF_BYTES} bytes that a reviewer is shown, so the pass of it does \
                 not count; left out: {}",
                omitted.join(", ")
            );
            refused(CommitFault::TooLarge, detail, omitted)
        }
        other => other,
    }
}

/// Everything a run needs that can fail before anybody is reached.
struct Prepared {
    route: RouteConfig,
    backend: Arc<dyn backend::Backend>,
    worktree: Worktree,
    folders: Folders,
    _temporary: tempfile::TempDir,
    confine: Option<Confinement>,
    limits: Limits,
    prompt: String,
    base: Oid,
    /// What the patch of a review leaves out.
    omitted: Vec<String>,
}

fn prepare(shared: &Shared, order: &Order<'_>, config: &EffectConfig) -> Result<Prepared, HostError> {
    shared.fence()?;
    let no_route = || HostError::new(ErrorKind::Config, format!("route {} is not configured", order.route));
    let route = config.routes.get(order.route).ok_or_else(no_route)?.clone();
    let ground = Ground {
        armed: shared.setting.armed.clone(),
        disk: shared.setting.disk.clone(),
        script: config.script.clone(),
        adapter: config.adapters.get(&route.backend).cloned().unwrap_or_default(),
        route: route.clone(),
        around: config.around.clone(),
        agents: config.agents.clone(),
    };
    let backend = backend::of_kind(route.backend, ground).ok_or_else(|| {
        let text = format!(
            "route {} needs the backend {:?}, which this DevLoop has not",
            order.route, route.backend
        );
        HostError::new(ErrorKind::Config, text)
    })?;
    let goal = goal(shared)?;
    let worktree = make_worktree(shared, order)?;
    if let Some(contract) = contract_of(order.job) {
        write_contract(&worktree, &devloop_wire::contract::write(contract))?;
    }
    let material = material(shared, order.job, goal, config)?;
    let temporary = scratch::folder(&shared.setting.armed, order.dispatch);
    let temporary =
        temporary.map_err(|e| HostError::io(std::env::temp_dir(), "make the folders of a run", e))?;
    let folders = Folders::create(temporary.path())
        .map_err(|e| HostError::io(temporary.path(), "make the folders of a run", e))?;
    let base = match order.job {
        Job::Plan { base, .. } => base.clone(),
        Job::Work { contract, .. } | Job::Review { contract, .. } => contract.base.clone(),
    };
    let prompt = prompt::of(order.job, &material);
    let confine = sandbox::of_run(shared, config, route.backend, &worktree.tree, temporary.path())?;
    let omitted = material.omitted;
    Ok(Prepared {
        route,
        backend,
        worktree,
        folders,
        _temporary: temporary,
        confine,
        limits: config.limits,
        prompt,
        base,
        omitted,
    })
}

fn goal(shared: &Shared) -> Result<String, HostError> {
    let armed = &shared.setting.armed;
    let bytes = armed.read_goal(&shared.setting.disk)?;
    let bytes =
        bytes.ok_or_else(|| HostError::new(ErrorKind::Config, "there is no goal").at(armed.goal()))?;
    String::from_utf8(bytes)
        .map_err(|_| HostError::new(ErrorKind::Config, "the goal is not valid UTF-8").at(armed.goal()))
}

fn contract_of(job: &Job) -> Option<&Contract> {
    match job {
        Job::Plan { replaces, .. } => replaces.as_ref(),
        Job::Work { contract, .. } | Job::Review { contract, .. } => Some(contract),
    }
}

fn make_worktree(shared: &Shared, order: &Order<'_>) -> Result<Worktree, HostError> {
    let _pool = locked(&shared.pool);
    let pool = shared.worktrees();
    pool.exclude_devloop()?;
    let dispatch = order.dispatch;
    Ok(match order.job {
        Job::Plan { base, .. } => pool.add_detached(dispatch, base)?,
        Job::Review { head, .. } => pool.add_detached(dispatch, head)?,
        Job::Work { contract, start, .. } => {
            let branch = task_ref(&contract.task);
            chores::free_branch(shared, &pool, &branch)?;
            match start {
                WorkStart::Fresh => {
                    let base = &contract.base;
                    let tip = shared.repo().resolve(&branch)?;
                    if let Some(tip) = tip
                        && !shared.repo().contains(base, &tip)?
                    {
                        pool.retire_branch(&contract.task)?;
                    }
                    pool.add_for_task(dispatch, &contract.task, Start::New { base })?
                }
                WorkStart::Continue { tip } => {
                    continue_at(shared, &pool, &contract.task, tip)?;
                    pool.add_for_task(dispatch, &contract.task, Start::At { head: tip })?
                }
            }
        }
    })
}

/// Puts the branch back on the last host commit. What stands there instead was committed by somebody else, a
/// worker perhaps, and was never judged: it is kept as a retired branch.
fn continue_at(shared: &Shared, pool: &Worktrees, task: &TaskId, tip: &Oid) -> Result<(), HostError> {
    let (repo, branch) = (shared.repo(), task_ref(task));
    if repo.resolve(&branch)?.as_ref() != Some(tip) {
        pool.retire_branch(task)?;
        repo.swap_ref(&branch, tip, None, "devloop: continue")?;
    }
    Ok(())
}

fn material(shared: &Shared, job: &Job, goal: String, config: &EffectConfig) -> Result<Material, HostError> {
    let mut material = Material { goal, ..Material::default() };
    let repo = shared.repo();
    let range = match job {
        Job::Plan { .. } | Job::Work { start: WorkStart::Fresh, .. } => return Ok(material),
        Job::Work { contract, start: WorkStart::Continue { tip }, .. } => (&contract.base, tip),
        Job::Review { contract, head, .. } => (&contract.base, head),
    };
    let (base, head) = range;
    let count = format!("--max-count={HISTORY_LINES}");
    let args = ["log", "--reverse", "--first-parent", "--format=%h %s", &count];
    let listed = repo.call(args.into_iter().chain([format!("{base}..{head}").as_str()])).ok()?;
    material.history = String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect();
    if matches!(job, Job::Review { .. }) {
        material.checks = config.acceptance.iter().map(|argv| line_of(argv)).collect();
        let text = diff_text(repo, base, head, DIFF_BYTES)?;
        material.diff = String::from_utf8_lossy(&text.patch).into_owned();
        material.omitted = text.omitted.iter().map(ToString::to_string).collect();
        if let Some(protected) = protected_scope(config)? {
            let touched =
                changed_between(repo, base, head)?.into_iter().filter(|e| protected.covers(&e.path));
            material.protected = touched.map(|e| e.path.to_string()).collect();
        }
    }
    Ok(material)
}

/// What is noted before anybody is reached: the checkout as it stood, and the run record, durably.
fn note(shared: &Shared, order: &Order<'_>, prepared: &Prepared) -> Result<(Snapshot, RunRecord), HostError> {
    let role = role_of(order.job);
    let before_run = look(shared)?;
    let marker = run_record::marker(&shared.setting.armed, order.dispatch);
    let head = prepared.worktree.head.clone();
    let mut record = RunRecord::new(order.dispatch, order.epoch, role, marker, head);
    record.task = contract_of(order.job).map(|contract| contract.task.clone());
    shared.fence()?;
    record.write(&shared.setting.disk, &shared.setting.armed)?;
    points::reach(Point::RunWritten, order.dispatch);
    Ok((before_run, record))
}

/// Lets the backend run, and looks at what it left.
fn run(
    shared: &Shared,
    order: &Order<'_>,
    prepared: &Prepared,
    (before_run, record): (Snapshot, RunRecord),
    cancel: &CancelToken,
    deadline: Deadline,
) -> BackendResult {
    let (disk, armed) = (&shared.setting.disk, &shared.setting.armed);
    let marker = record.marker.clone();
    let record = RefCell::new(record);
    let started = |tree: &crate::process::tree::TreeRecord| {
        let mut record = record.borrow_mut();
        points::reach(Point::Spawned, order.dispatch);
        record.set_leader(tree);
        // Without the leader the marker still finds every process of the run.
        drop(record.write(disk, armed));
        points::reach(Point::ProviderReached, order.dispatch);
    };
    let run = Run {
        dispatch: order.dispatch,
        job: order.job,
        prompt: &prepared.prompt,
        worktree: &prepared.worktree.tree,
        primary: shared.repo().root(),
        base: &prepared.base,
        folders: &prepared.folders,
        confine: prepared.confine.as_ref(),
        limits: prepared.limits,
        marker: &marker,
        deadline,
        limit_ms: order.limit_ms,
        cancel,
        route: order.route,
        identity: &prepared.route.identity,
        started: &started,
    };
    points::reach(Point::Spawn, format_args!("{} {}", order.dispatch, role_of(order.job).word()));
    let result = catch_unwind(AssertUnwindSafe(|| prepared.backend.run(&run)));
    points::reach(Point::RunEnded, order.dispatch);
    let mut record = record.borrow().clone();
    let noted = note_traces(shared, &mut record, &before_run);
    // A thread that ends early has ended all the same, and its record says so.
    let result = result.unwrap_or_else(|panic| resume_unwind(panic));
    match noted {
        // A worker's change is judged when it is committed; of the others nothing is taken over.
        Ok(()) if record.role != Role::Work && !record.escaped.is_empty() => {
            let detail = "files of the operator's checkout changed while it was planned or reviewed";
            let outcome = refused(CommitFault::Escaped, detail, record.escaped.clone());
            BackendResult { outcome, usage: result.usage }
        }
        Ok(()) => result,
        // The outcome cannot be trusted without them; what it used still counts.
        Err(error) => BackendResult { outcome: machine_failure(error), usage: result.usage },
    }
}

fn look(shared: &Shared) -> Result<Snapshot, HostError> {
    // Looks change nothing, so they do not wait for each other.
    let _checkout = shared.checkout.read().unwrap_or_else(PoisonError::into_inner);
    Ok(snapshot(shared.repo())?)
}

/// Notes where the branch stands now and what was written to in the operator's checkout. A run that wrote
/// through a folder of its own there cannot hide it behind a later look.
fn note_traces(shared: &Shared, record: &mut RunRecord, before: &Snapshot) -> Result<(), HostError> {
    record.ended = true;
    let changed = look(shared)?.changed_since(before);
    let own = |path: &String| path != ".devloop" && !path.starts_with(".devloop/");
    record.set_escaped(changed.iter().map(ToString::to_string).filter(own).collect());
    if let (Role::Work, Some(task)) = (record.role, &record.task) {
        record.after = shared.repo().resolve(&task_ref(task))?;
    }
    record.write(&shared.setting.disk, &shared.setting.armed)
}
