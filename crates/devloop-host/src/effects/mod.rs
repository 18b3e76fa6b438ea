//! Performing what a decision asks of the world: one thread per leased effect, exactly one report for each,
//! durable before it is told. It decides nothing: what a report leads to is the core's matter.

mod check;
mod chores;
mod commit;
mod dispatch;
mod flight;
mod merge;
pub mod prompt;
mod refresh;
mod revert;
pub mod run_record;
mod sandbox;
mod secret;
mod secret_rules;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use devloop_core::effect::Effect;
use devloop_core::ids::{Branch, DispatchId, RouteKey, TaskId};
use devloop_core::policy::Backend;
use devloop_core::report::Report;
use devloop_core::units::Map;
use devloop_wire::config_doc::{AdapterConfig, Config, ProcessLimits, RouteConfig, Sandbox};

use crate::backend::{AgentPort, Surroundings};
use crate::error::HostError;
use crate::git::Repo;
use crate::left::Left;
use crate::process::Limits;
use crate::store::{Armed, Disk};
use crate::worktree::{Worktrees, orphan_ref};

use flight::{Done, Flights};

/// Asked before each side effect: an owner that was replaced performs nothing more.
pub type Fence = Arc<dyn Fn() -> Result<(), HostError> + Send + Sync>;
/// Told every report, after it lies in the inbox.
pub type OnReport = Arc<dyn Fn(Report) + Send + Sync>;

/// What the operator's configuration gives to effects.
#[derive(Debug, Clone)]
pub struct EffectConfig {
    /// The checks, each an argv list; none: nothing is checked.
    pub acceptance: Vec<Vec<String>>,
    /// Awake milliseconds of each check.
    pub check_timeout_ms: u64,
    /// Globs of test files that a task may change only when its contract allows them.
    pub protected_tests: Vec<String>,
    /// Globs of paths that no task may change.
    pub protected_paths: Vec<String>,
    /// Globs of files whose executable bit a task may change.
    pub mode_changes: Vec<String>,
    /// The largest binary file that a task may add or change, in bytes.
    pub binary_max_bytes: u64,
    /// Globs of single files that a worker may leave although git ignores them, besides the usual ones.
    pub ignored_writes: Vec<String>,
    /// Whether runs are confined, and what they may touch besides their own folders.
    pub sandbox: Sandbox,
    /// What each process of a run or a check may use.
    pub limits: Limits,
    /// Where work may go.
    pub routes: Map<RouteKey, RouteConfig>,
    /// What the adapters are given.
    pub adapters: Map<Backend, AdapterConfig>,
    /// The user's own session: programs, logins.
    pub around: Surroundings,
    /// The script of the embedded workers; relative to the project's root.
    pub script: Option<PathBuf>,
    /// Agents of the process that embeds the loop, where it has some.
    pub agents: Option<Arc<AgentPort>>,
}

impl From<&Config> for EffectConfig {
    fn from(config: &Config) -> EffectConfig {
        EffectConfig {
            acceptance: config.acceptance.clone(),
            check_timeout_ms: u64::from(config.acceptance_timeout_minutes) * 60_000,
            protected_tests: config.protected_tests.clone(),
            protected_paths: config.protected_paths.clone(),
            mode_changes: config.mode_changes.clone(),
            binary_max_bytes: config.binary_max_bytes,
            ignored_writes: config.ignored_writes.clone(),
            sandbox: config.sandbox.clone(),
            limits: limits_of(&config.process_limits),
            routes: config.routes.clone(),
            adapters: config.adapters.clone(),
            around: Surroundings::of_process(),
            script: config.script.as_ref().map(PathBuf::from),
            agents: None,
        }
    }
}

fn limits_of(config: &ProcessLimits) -> Limits {
    Limits {
        cpu_seconds: config.cpu_seconds,
        file_bytes: config.file_bytes,
        open_files: config.open_files,
        memory_bytes: config.memory_bytes,
    }
}

/// Where effects work.
pub struct Setting {
    /// The operator's checkout.
    pub repo: Repo,
    /// The armed project.
    pub armed: Armed,
    /// How small files reach the disk.
    pub disk: Disk,
    /// What the operator configured; the first one, see [`Performer::reconfigure`].
    pub config: EffectConfig,
    /// Checked before each side effect.
    pub fence: Fence,
}

impl Setting {
    /// Puts it together.
    pub fn new(repo: Repo, armed: Armed, disk: Disk, config: EffectConfig, fence: Fence) -> Setting {
        Setting { repo, armed, disk, config, fence }
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setting").field("armed", &self.armed).field("config", &self.config).finish()
    }
}

/// What the threads of one performer share.
struct Shared {
    setting: Arc<Setting>,
    config: RwLock<Arc<EffectConfig>>,
    /// Held while the pool of worktrees changes: registrations are looked at and pruned as a whole.
    pool: Mutex<()>,
    /// Held while the operator's checkout follows a merge, and while a snapshot of it is taken, so that the
    /// host's own change is never taken for a worker's.
    checkout: RwLock<()>,
    flights: Flights,
    left: Left,
    on_report: OnReport,
}

fn locked(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    // The mutex guards no data of its own, so a panic of a holder leaves nothing half-changed in it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn config(&self) -> Arc<EffectConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn repo(&self) -> &Repo {
        &self.setting.repo
    }

    fn worktrees(&self) -> Worktrees {
        Worktrees::new(&self.setting.repo)
    }

    fn fence(&self) -> Result<(), HostError> {
        (self.setting.fence)()
    }
}

/// Performs effects.
pub struct Performer {
    shared: Arc<Shared>,
}

impl fmt::Debug for Performer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Performer").field("in_flight", &self.in_flight()).finish()
    }
}

impl Performer {
    /// A performer of one project; starts nothing.
    pub fn new(setting: Arc<Setting>, on_report: OnReport) -> Performer {
        let config = RwLock::new(Arc::new(setting.config.clone()));
        Performer {
            shared: Arc::new(Shared {
                setting,
                config,
                pool: Mutex::new(()),
                checkout: RwLock::new(()),
                flights: Flights::default(),
                left: Left::default(),
                on_report,
            }),
        }
    }

    /// Performs one effect and returns at once. A leased effect ends in exactly one report, whatever happens;
    /// one whose dispatch is in flight already is the same effect again and is left to run.
    pub fn perform(&self, effect: Effect) {
        match effect {
            Effect::Cancel { dispatch } => {
                self.shared.flights.cancel(dispatch);
                chores::start(&self.shared, move |shared| chores::end_processes(shared, dispatch));
            }
            Effect::RemoveWorktree { dispatch } => {
                chores::start(&self.shared, move |shared| chores::remove_worktree(shared, dispatch));
            }
            Effect::CreateTarget { branch } => {
                chores::start(&self.shared, move |shared| chores::create_target(shared, &branch));
            }
            // A beat and a notice are the supervisor's.
            Effect::Wake | Effect::Notify { .. } => {}
            leased => flight::start(&self.shared, leased),
        }
    }

    /// Saves what the worker of a dead loop left uncommitted, and returns the name of the ref; none when
    /// there is nothing, or when it cannot be saved now: then its worktree stays until it is.
    pub fn save_orphan(&self, dispatch: DispatchId) -> Option<String> {
        if self.shared.flights.contains(dispatch) || self.shared.fence().is_err() {
            return None;
        }
        let _pool = locked(&self.shared.pool);
        let saved = self.shared.worktrees().save_orphan(dispatch).ok().flatten();
        saved.map(|_| orphan_ref(dispatch))
    }

    /// Removes in the background worktrees of dispatches that are over, unseen work in them saved, and
    /// branches of merged tasks that the target contains.
    pub fn clear_leftovers(&self, over: Vec<DispatchId>, merged: Vec<TaskId>, target: Option<Branch>) {
        chores::start(&self.shared, move |shared| {
            chores::clear(shared, &over, &merged, target.as_ref());
            Ok(())
        });
    }

    /// What the workers left that git ignores.
    pub fn left(&self) -> &Left {
        &self.shared.left
    }

    /// The dispatches whose report has not been told yet, in order.
    pub fn in_flight(&self) -> Vec<DispatchId> {
        self.shared.flights.dispatches()
    }

    /// Takes another configuration for effects that start from now on.
    pub fn reconfigure(&self, config: EffectConfig) {
        *self.shared.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// Cancels every model and check that runs, then waits for all threads, at most `grace_ms` milliseconds.
    /// What is left after that is found as an orphan by the next owner. An operation of the host whose checks
    /// are interrupted is not reported: the next owner performs it again.
    pub fn shutdown(self, grace_ms: u64) {
        self.shared.flights.close();
        self.shared.flights.wait_for_all(grace_ms);
    }
}

/// Performs a leased effect to its end; `flight` reports it.
fn carry_out(shared: &Arc<Shared>, effect: &Effect, cancel: &crate::process::CancelToken) -> Done {
    match effect {
        Effect::Dispatch { dispatch, epoch, route, limit_ms, job } => {
            let order =
                dispatch::Order { dispatch: *dispatch, epoch: *epoch, route, limit_ms: *limit_ms, job };
            dispatch::perform(shared, &order, cancel)
        }
        Effect::Commit { dispatch, work, contract, route, .. } => {
            commit::perform(shared, *dispatch, *work, contract, route).into()
        }
        Effect::Check { dispatch, commit, contract, known_red, .. } => {
            let known = contract.as_ref().map(|_| known_red.as_slice());
            check::perform(shared, *dispatch, commit, contract.as_ref(), known, cancel).into()
        }
        Effect::Verify { dispatch, commit, known_red, .. } => {
            check::perform(shared, *dispatch, commit, None, Some(known_red), cancel).into()
        }
        Effect::Merge { dispatch, contract, head, base, target, known_red, .. } => {
            let wish = merge::Wish { dispatch: *dispatch, contract, head, base, target, known_red };
            merge::perform(shared, &wish, cancel).into()
        }
        Effect::Refresh { dispatch, contract, head, target, .. } => {
            refresh::perform(shared, *dispatch, contract, head, target).into()
        }
        Effect::Revert { dispatch, contract, commit, target, .. } => {
            revert::perform(shared, *dispatch, contract, commit, target).into()
        }
        Effect::RemoveWorktree { .. }
        | Effect::Cancel { .. }
        | Effect::CreateTarget { .. }
        | Effect::Wake
        | Effect::Notify { .. } => flight::machine_failure("the effect has no lease").into(),
    }
}
