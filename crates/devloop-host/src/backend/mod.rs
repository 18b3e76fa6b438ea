//! Backends: what runs a model for one dispatch and brings back its parsed end. A backend holds no lease,
//! commits nothing and decides nothing.

pub mod demo;
mod noop;
pub mod script;
mod scripted;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use devloop_core::effect::{Contract, Job};
use devloop_core::ids::{DispatchId, Identity, Oid, RouteKey};
use devloop_core::policy::Backend as Kind;
use devloop_core::report::{FailureClass, Outcome, Usage};
use devloop_core::task::clip;

use crate::effects::run_record::Role;
use crate::git::Repo;
use crate::process::tree::TreeRecord;
use crate::process::{CancelToken, Deadline, Exit, Folders};
use crate::store::{Armed, Disk};

pub use noop::Noop;
pub use scripted::Scripted;

/// One dispatch as a backend sees it.
pub struct Run<'a> {
    /// The dispatch.
    pub dispatch: DispatchId,
    /// What it is for.
    pub job: &'a Job,
    /// The whole prompt.
    pub prompt: &'a str,
    /// The checkout to work in; the working folder of every process of the run.
    pub worktree: &'a Repo,
    /// The operator's checkout, which no run may write to.
    pub primary: &'a Path,
    /// The commit the change is measured from.
    pub base: &'a Oid,
    /// Private folders of the dispatch.
    pub folders: &'a Folders,
    /// Value of the marker variable: every process of the run carries it.
    pub marker: &'a str,
    /// When it must have ended, in awake time, and the same in milliseconds from its start.
    pub deadline: Deadline,
    /// Awake milliseconds that the run may take.
    pub limit_ms: u64,
    /// Cancelled when the run should end.
    pub cancel: &'a CancelToken,
    /// The route and who stands behind it.
    pub route: &'a RouteKey,
    /// `provider/model` of the route.
    pub identity: &'a Identity,
    /// Told of the first process as soon as it runs, before it is waited for.
    pub started: &'a dyn Fn(&TreeRecord),
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("dispatch", &self.dispatch)
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}

impl Run<'_> {
    /// What the run is for.
    pub fn role(&self) -> Role {
        role_of(self.job)
    }

    /// The contract; for a plan that of the task to be replaced, if there is one.
    pub fn contract(&self) -> Option<&Contract> {
        match self.job {
            Job::Plan { replaces, .. } => replaces.as_ref(),
            Job::Work { contract, .. } | Job::Review { contract, .. } => Some(contract),
        }
    }

    /// The commit under review.
    pub fn head(&self) -> Option<&Oid> {
        crate::effects::prompt::reviewed_head(self.job)
    }

    /// How the run must end now, if it must: cancelled before out of time.
    pub fn ended(&self) -> Option<BackendResult> {
        let class = match (self.cancel.is_cancelled(), self.deadline.passed()) {
            (true, _) => FailureClass::Cancelled,
            (false, true) => FailureClass::Deadline,
            (false, false) => return None,
        };
        Some(BackendResult { outcome: stopped(class), usage: None })
    }
}

/// The role of a job.
pub fn role_of(job: &Job) -> Role {
    match job {
        Job::Plan { .. } => Role::Plan,
        Job::Work { .. } => Role::Work,
        Job::Review { .. } => Role::Review,
    }
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendResult {
    /// How it ended.
    pub outcome: Outcome,
    /// What it used, when it says so.
    pub usage: Option<Usage>,
}

impl BackendResult {
    /// No provider was reached.
    pub fn refused(detail: impl fmt::Display) -> BackendResult {
        BackendResult { outcome: Outcome::Refused { detail: clip(&detail.to_string()) }, usage: None }
    }
}

/// The outcome of a run that was stopped.
pub fn stopped(class: FailureClass) -> Outcome {
    let detail = match class {
        FailureClass::Cancelled => "the run was ended on request",
        FailureClass::Deadline => "the run did not end in its time and was stopped",
        _ => "the run was stopped",
    };
    Outcome::Failed { class, detail: detail.into() }
}

/// Why a child ended that was not left to end by itself; `None` when it exited.
pub fn stop_of(exit: &Exit) -> Option<Outcome> {
    if exit.cancelled {
        return Some(stopped(FailureClass::Cancelled));
    }
    if exit.timed_out {
        return Some(stopped(FailureClass::Deadline));
    }
    let detail = |signal| format!("the worker's process was ended by signal {signal}");
    let killed = |signal| Outcome::Failed { class: FailureClass::Machine, detail: detail(signal) };
    exit.signal.map(killed)
}

/// Runs models.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Runs one dispatch to its end; nothing of it lives when this returns.
    fn run(&self, run: &Run<'_>) -> BackendResult;
}

/// What backends of this process need besides the run.
#[derive(Debug, Clone)]
pub struct Ground {
    /// The armed project.
    pub armed: Armed,
    /// How small files reach the disk.
    pub disk: Disk,
    /// The script of the embedded workers, as configured.
    pub script: Option<std::path::PathBuf>,
}

/// The backend behind a route; `None` when this program has no adapter of that kind.
pub fn of_kind(kind: Kind, ground: Ground) -> Option<Arc<dyn Backend>> {
    match kind {
        Kind::Noop => Some(Arc::new(Noop)),
        Kind::Scripted => Some(Arc::new(Scripted::new(ground))),
        Kind::Command
        | Kind::Claude
        | Kind::Codex
        | Kind::Dsh
        | Kind::Subagent
        | Kind::DshAgent
        | Kind::Acp => None,
    }
}
