//! Backends: what runs a model for one dispatch and brings back its parsed end. A backend holds no lease,
//! commits nothing and decides nothing.

mod acp;
mod adapter;
mod agent_port;
mod claude;
mod codex;
mod command;
pub mod demo;
mod dsh;
mod fault;
pub mod installed;
mod login;
mod noop;
mod redact;
mod reset;
mod runner;
pub mod script;
mod scripted;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use devloop_core::effect::{Contract, Job};
use devloop_core::ids::{DispatchId, Identity, Oid, RouteKey};
use devloop_core::policy::Backend as Kind;
use devloop_core::report::{FailureClass, Outcome, Usage};
use devloop_core::task::clip;
use devloop_wire::config_doc::{AdapterConfig, Config, RouteConfig};
use devloop_wire::envelope::Expected;

use crate::effects::run_record::Role;
use crate::git::Repo;
use crate::process::tree::TreeRecord;
use crate::process::{CancelToken, Confinement, Deadline, Exit, Folders, Limits};
use crate::store::{Armed, Disk};

use adapter::Adapter;
pub use agent_port::AgentPort;
pub use login::Surroundings;
pub use noop::Noop;
use runner::CommandLine;
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
    /// What the run may touch, when it is confined.
    pub confine: Option<&'a Confinement>,
    /// What each of its processes may use.
    pub limits: Limits,
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
    if let Some(over) = &exit.over {
        let detail = format!("the worker's process was ended: {over}");
        return Some(Outcome::Failed { class: FailureClass::Task, detail });
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

/// What a run of this job must return.
fn expected<'a>(run: &'a Run<'_>) -> Expected<'a> {
    match (run.role(), run.contract()) {
        (Role::Work, Some(contract)) => Expected::Implementation(&contract.task),
        (Role::Review, Some(contract)) => Expected::Review(&contract.task),
        _ => Expected::Plan,
    }
}

/// What backends of this process need besides the run.
#[derive(Debug, Clone)]
pub struct Ground {
    /// The armed project.
    pub armed: Armed,
    /// How small files reach the disk.
    pub disk: Disk,
    /// The script of the embedded workers, as configured.
    pub script: Option<PathBuf>,
    /// The route, as configured.
    pub route: RouteConfig,
    /// What its adapter is given.
    pub adapter: AdapterConfig,
    /// The user's own session.
    pub around: Surroundings,
    /// Agents of the process that embeds this loop; none in the command line.
    pub agents: Option<Arc<AgentPort>>,
}

/// The backend behind a route; `None` when this program has no adapter of that kind.
pub fn of_kind(kind: Kind, ground: Ground) -> Option<Arc<dyn Backend>> {
    match kind {
        Kind::Noop => Some(Arc::new(Noop)),
        Kind::Scripted => Some(Arc::new(Scripted::new(ground))),
        Kind::Subagent | Kind::DshAgent => {
            let port = ground.agents.clone()?;
            Some(Arc::new(agent_port::Agents::new(port, ground.route)))
        }
        kind => Some(Arc::new(CommandLine::new(adapter_of(kind)?, ground))),
    }
}

/// The command line behind a kind of backend.
fn adapter_of(kind: Kind) -> Option<&'static Adapter> {
    match kind {
        Kind::Command => Some(&command::ADAPTER),
        Kind::Claude => Some(&claude::ADAPTER),
        Kind::Codex => Some(&codex::ADAPTER),
        Kind::Dsh => Some(&dsh::ADAPTER),
        Kind::Acp => Some(&acp::ADAPTER),
        Kind::Noop | Kind::Scripted | Kind::Subagent | Kind::DshAgent => None,
    }
}

/// What keeps a route from working, found before anything is dispatched: an adapter, a program or a login
/// that is not there. One sentence for each, with the route's name.
pub fn problems(config: &Config, around: &Surroundings) -> Vec<String> {
    let one = |(key, route): (&RouteKey, &RouteConfig)| {
        let problem = problem(route.backend, &config.adapter(route.backend), around)?;
        Some(format!("route {key} {problem}"))
    };
    config.routes.iter().filter_map(one).collect()
}

/// The first route whose agents live in the process that embeds the loop, in a sentence for where there are
/// none.
pub fn agents_missed(config: &Config) -> Option<String> {
    let asks = |route: &RouteConfig| matches!(route.backend, Kind::Subagent | Kind::DshAgent);
    let (key, _) = config.routes.iter().find(|(_, route)| asks(route))?;
    Some(format!(
        "route {key} asks for agents of a running DSH, which only DevLoop's plugin in `dsh web` has; let the \
         plugin run this project, or give the route another backend (dsh starts the same models)"
    ))
}

fn problem(kind: Kind, config: &AdapterConfig, around: &Surroundings) -> Option<String> {
    // The others start nothing of their own; whether there are agents is `agents_missed`'s.
    let adapter = adapter_of(kind)?;
    let name = adapter.name;
    let program = config.argv.first().map_or(name, String::as_str);
    if installed::find(Path::new(program), around).is_none() {
        let mend = format!("install it or name it under {name}.argv");
        return Some(format!("starts `{program}`, which is not on the search path; {mend}"));
    }
    match login::find(&adapter.login, around) {
        Err(why) => Some(format!("has no login for {name}: {why}")),
        Ok(None) if !adapter.login.vars.is_empty() && config.env.is_empty() => {
            Some(format!("has no login for {name}; looked for {}", login::places(&adapter.login)))
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&Adapter; 5] =
        [&command::ADAPTER, &claude::ADAPTER, &codex::ADAPTER, &dsh::ADAPTER, &acp::ADAPTER];

    fn words(adapter: &Adapter) -> Vec<&'static str> {
        adapter.words.iter().flat_map(|words| words.1.iter().copied()).collect()
    }

    /// Rule 119: a prompt that begins with a dash is a prompt.
    #[test]
    fn a_prompt_is_never_read_as_an_option() {
        for adapter in ALL {
            let words = words(adapter);
            match words.iter().position(|word| word.contains("{prompt}")) {
                Some(at) => assert_eq!(words[at - 1], "--", "{}", adapter.name),
                None => assert_ne!(adapter.prompt, adapter::Channel::Word, "{}", adapter.name),
            }
        }
    }

    /// Rule 131: no shell command is let through by a pattern, and no fence of a program is taken down.
    #[test]
    fn no_adapter_takes_down_a_fence_of_its_program() {
        let bad =
            ["dangerous", "bypass", "yolo", "full-access", "allowedtools", "allowed-tools", "(", "trust"];
        for adapter in ALL {
            for word in words(adapter).iter().map(|word| word.to_ascii_lowercase()) {
                assert!(!bad.iter().any(|part| word.contains(part)), "{}: {word}", adapter.name);
            }
        }
    }

    /// Rule 139: what no route starts need not be installed.
    #[test]
    fn a_program_that_no_route_starts_is_not_asked_for() {
        let nowhere = Surroundings::of([("PATH".into(), "/nowhere".into())]);
        assert_eq!(problems(&Config::default(), &nowhere), [""; 0]);
        let one = br#"{"agentBackend":"claude","reviewModel":"opus"}"#;
        let said = problems(&devloop_wire::config_doc::parse(one).unwrap(), &nowhere);
        assert!(said.iter().all(|line| line.contains("`claude`")) && !said.is_empty(), "{said:?}");
    }
}
