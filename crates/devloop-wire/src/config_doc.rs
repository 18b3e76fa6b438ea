//! The configuration: `.devloop/config.json` and the plugin's `config` block, which share one shape. Read
//! here, judged here, turned into the core's policy here. It must not look at the world: whether a script
//! exists is the host's.

use std::fmt;

use devloop_core::ids::{Branch, Digest, Identity, RouteKey};
use devloop_core::policy::{Acceptance, Backend, HighRisk, Limits, Policy, PostMerge, ReviewPolicy, Route};
use devloop_core::price::Peak;
use devloop_core::tier::Tier;
use devloop_core::units::{Map, Price, UsdMicros};

use crate::config_price::PriceFrom;
use crate::config_read;
use crate::json;
use crate::policy_doc;
use crate::tree::Node;

/// The name in refusals.
pub const DOCUMENT: &str = "config.json";

/// Every key at the top level.
pub const KEYS: &[&str] = &[
    "root",
    "enabled",
    "tickIntervalMs",
    "agentBackend",
    "plannerRoute",
    "reviewerRoute",
    "reviewModel",
    "routing",
    "routes",
    "budget",
    "usdPerCny",
    "maxCostUsdPerDayAllProjects",
    "acceptance",
    "acceptanceTimeoutMinutes",
    "protectedTests",
    "protectedPaths",
    "modeChanges",
    "maxBinaryBytes",
    "ignoredWrites",
    "sandbox",
    "sandboxRead",
    "sandboxWrite",
    "processLimits",
    "highRisk",
    "postMerge",
    "trunks",
    "independence",
    "reviewerTier",
    "scripted",
    "command",
    "claude",
    "codex",
    "dsh",
    "acp",
    "forge",
    "prePrCheck",
    "prePrProfile",
    "prePrTimeoutMinutes",
];

/// Something wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// The field, for example `budget.maxTaskAttempts`; empty when it is about the whole document.
    pub path: String,
    /// The rule, and what was done about it when the value was repaired.
    pub what: String,
    /// How bad.
    pub weight: Weight,
}

/// How bad a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It works, but hardly as intended.
    Warning,
    /// Refused; a repair replaces the value and goes on.
    Error,
    /// Refused; a repair closes every route, because going on could spend or merge what nobody allowed.
    Closing,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.what) } else { write!(f, "{}: {}", self.path, self.what) }
    }
}

/// Which adapter runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentBackend {
    /// None: what would be dispatched is shown. The default.
    Noop,
    /// Every route has its own.
    Routed,
    /// This one everywhere.
    One(Backend),
}

/// One place where work may go, with what its adapter needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// The tier it is trusted with.
    pub tier: Tier,
    /// Its adapter; `noop` where the whole configuration is.
    pub backend: Backend,
    /// Its provider as it was written; the adapter's name when nothing else was said.
    pub provider: String,
    /// The model to ask for; none lets the adapter choose.
    pub model: Option<String>,
    /// The vendor behind the provider, and the model, in lower case: one for a model whatever leads to it.
    pub identity: Identity,
    /// Routes that take over while it is closed.
    pub fallback: Vec<RouteKey>,
    /// Its price, when known.
    pub price: Option<Price>,
    /// The hours in which it costs something else.
    pub peak: Option<Peak>,
    /// Who says what it costs.
    pub price_from: PriceFrom,
    /// What a dispatch reserves, when the operator says so.
    pub reserve: Option<UsdMicros>,
    /// The output ceiling of one dispatch, in tokens.
    pub max_tokens: Option<u64>,
    /// How many dispatches at a time.
    pub max_parallel: Option<u32>,
}

/// What an adapter that starts a program is given besides its route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdapterConfig {
    /// The program, with words that always stand first; empty for the adapter's own name.
    pub argv: Vec<String>,
    /// Words for the program's end of options, for settings that the adapter does not know.
    pub args: Vec<String>,
    /// Names of variables of the loop's own environment that the program needs besides its login.
    pub env: Vec<String>,
}

/// Whether the operating system confines what a run may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxMode {
    /// It may touch what the user may.
    Off,
    /// Confined where the machine can, not where it cannot.
    Auto,
    /// Confined by Landlock; where that is missing, nothing runs.
    Landlock,
}

/// The confinement of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether.
    pub mode: SandboxMode,
    /// Absolute paths, or such that begin with `~/`, that a run may read and start programs of.
    pub read: Vec<String>,
    /// The same that it may also write.
    pub write: Vec<String>,
}

/// What each process of a run or a check may use; none: what the user may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Seconds of processor time.
    pub cpu_seconds: Option<u64>,
    /// The largest file that it may write, in bytes.
    pub file_bytes: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Memory of its own that it may write to, in bytes.
    pub memory_bytes: Option<u64>,
}

/// A configuration that was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The project's folder, as it was written; none for the folder the process was started in.
    pub root: Option<String>,
    /// False: nothing ticks.
    pub enabled: bool,
    /// Milliseconds between two beats, at least 500.
    pub tick_interval_ms: u32,
    /// Which adapter runs.
    pub agent_backend: AgentBackend,
    /// Every route: `planner`, `reviewer`, `T0` to `T3` unless they name another, and those of the key
    /// `routes`.
    pub routes: Map<RouteKey, RouteConfig>,
    /// The route that plans.
    pub planner: RouteKey,
    /// The route that reviews.
    pub reviewer: RouteKey,
    /// The route of each tier's work.
    pub routing: Map<Tier, RouteKey>,
    /// The numbers of the circuits.
    pub limits: Limits,
    /// The operator's checks, each a command with its arguments.
    pub acceptance: Vec<Vec<String>>,
    /// Minutes that each check may take.
    pub acceptance_timeout_minutes: u32,
    /// Globs of test files that are restored before the checks unless the task may change them.
    pub protected_tests: Vec<String>,
    /// Globs that no task may change.
    pub protected_paths: Vec<String>,
    /// Globs of files whose executable bit a task may change; a new file may have any.
    pub mode_changes: Vec<String>,
    /// The largest file that is no text and that a task may add or change, in bytes.
    pub binary_max_bytes: u64,
    /// Globs of single files that a worker may leave although git ignores them, besides the usual ones.
    pub ignored_writes: Vec<String>,
    /// Whether runs are confined, and what they may touch besides their own folders.
    pub sandbox: Sandbox,
    /// What each process of a run or a check may use.
    pub process_limits: ProcessLimits,
    /// When a person approves high risk.
    pub high_risk: HighRisk,
    /// Whether a merge is verified after it too.
    pub post_merge: PostMerge,
    /// More trunks.
    pub trunks: Vec<Branch>,
    /// Who may review whom.
    pub review: ReviewPolicy,
    /// The script of the backend `scripted`.
    pub script: Option<String>,
    /// What each adapter that starts a program is given besides its route.
    pub adapters: Map<Backend, AdapterConfig>,
    /// What works but hardly as intended.
    pub warnings: Vec<ConfigFault>,
}

/// Reads a configuration strictly: nothing is repaired, and warnings end up in the result.
///
/// # Errors
/// Every fault, in the order of the document's meaning; at least one is more than a warning.
pub fn parse(bytes: &[u8]) -> Result<Config, Vec<ConfigFault>> {
    let node = Node::parse(bytes)
        .map_err(|what| vec![ConfigFault { path: String::new(), what, weight: Weight::Closing }])?;
    let (mut config, faults) = config_read::read(&node);
    if faults.iter().any(|fault| fault.weight > Weight::Warning) {
        return Err(faults);
    }
    config.warnings = faults;
    Ok(config)
}

/// Reads a configuration that must not fail: wrong numbers become their default, wrong amounts of money
/// become zero, unknown keys are left out, and any other fault closes every route. All of it is reported.
#[must_use]
pub fn repair(value: &serde_json::Value) -> (Config, Vec<ConfigFault>) {
    repair_node(&Node::of(value))
}

/// The same from text, in which amounts of money keep all their digits.
#[must_use]
pub fn repair_text(bytes: &[u8]) -> (Config, Vec<ConfigFault>) {
    match Node::parse(bytes) {
        Ok(node) => repair_node(&node),
        Err(what) => {
            let what = format!("{what}; every route is closed until it is mended");
            let fault = ConfigFault { path: String::new(), what, weight: Weight::Closing };
            (Config { warnings: vec![fault.clone()], ..Config::default() }, vec![fault])
        }
    }
}

fn repair_node(node: &Node) -> (Config, Vec<ConfigFault>) {
    let (mut config, mut faults) = config_read::read(node);
    for fault in faults.iter_mut().filter(|fault| fault.weight == Weight::Closing) {
        fault.what.push_str("; every route is closed until it is mended");
        config.close();
    }
    config.warnings.clone_from(&faults);
    (config, faults)
}

impl Default for Config {
    /// What an empty document means.
    fn default() -> Self {
        config_read::read(&Node::Map(Vec::new())).0
    }
}

impl RouteConfig {
    /// The route as the core sees it.
    #[must_use]
    pub fn policy(&self) -> Route {
        Route {
            tier: self.tier,
            backend: self.backend,
            identity: self.identity.clone(),
            fallback: self.fallback.clone(),
            price: self.price,
            peak: self.peak.clone(),
            reserve: self.reserve,
            max_tokens: self.max_tokens,
            max_parallel: self.max_parallel,
        }
    }
}

impl Config {
    /// What the adapter is given; nothing when it is not configured.
    #[must_use]
    pub fn adapter(&self, backend: Backend) -> AdapterConfig {
        self.adapters.get(&backend).cloned().unwrap_or_default()
    }

    /// Closes every route: nothing is dispatched.
    pub fn close(&mut self) {
        self.agent_backend = AgentBackend::Noop;
        for route in self.routes.values_mut() {
            route.backend = Backend::Noop;
        }
    }

    /// The checks as the core sees them.
    #[must_use]
    pub fn acceptance_digest(&self) -> Acceptance {
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Checks<'a> {
            acceptance: &'a [Vec<String>],
            acceptance_timeout_minutes: u32,
        }
        if self.acceptance.is_empty() {
            return Acceptance::Absent;
        }
        let (acceptance, acceptance_timeout_minutes) = (&self.acceptance, self.acceptance_timeout_minutes);
        let bytes = json::canonical(&Checks { acceptance, acceptance_timeout_minutes });
        Acceptance::Digest(json::digest_bytes(&bytes))
    }

    /// The policy, with its digest.
    #[must_use]
    pub fn policy(&self) -> Policy {
        policy_doc::seal(Policy {
            digest: no_digest(),
            limits: self.limits.clone(),
            routes: self.routes.iter().map(|(key, r)| (key.clone(), r.policy())).collect(),
            planner: self.planner.clone(),
            reviewer: self.reviewer.clone(),
            routing: self.routing.clone(),
            acceptance: self.acceptance_digest(),
            review: self.review,
            high_risk: self.high_risk,
            post_merge: self.post_merge,
            trunks: self.trunks.clone(),
        })
    }
}

fn no_digest() -> Digest {
    // Replaced by `seal`.
    json::digest_bytes(b"")
}
