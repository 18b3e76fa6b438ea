//! The shape of a configuration as types, for its JSON Schema only: reading and judging it is
//! `config_read`'s work. A test compares the keys of the two.
#![allow(dead_code, reason = "described, never made")]

use std::collections::BTreeMap;

use devloop_core::policy::{HighRisk, Independence, PostMerge};
use schemars::JsonSchema;

use crate::contract::TierWord;

/// An amount of US dollars, zero or more: a decimal number, or the same as text.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Usd {
    Number(f64),
    Text(String),
}

/// An adapter; `subagent:<provider>` is a subagent with its provider.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum BackendWord {
    Noop,
    Scripted,
    Command,
    Claude,
    Codex,
    Dsh,
    Subagent,
    DshAgent,
    Acp,
    #[schemars(untagged)]
    SubagentOf(#[schemars(regex(pattern = "^subagent:.+$"))] String),
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum AgentBackendWord {
    Routed(Routed),
    Backend(BackendWord),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum Routed {
    Routed,
}

/// A route, or the name of another one.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum RouteOrName {
    Name(String),
    Route(Box<RouteShape>),
}

/// Where work may go.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct RouteShape {
    /// The tier it is trusted with; the tier of its place when nothing is said.
    tier: Option<TierWord>,
    /// Its adapter.
    backend: Option<BackendWord>,
    /// Its vendor; the adapter's name when nothing is said.
    provider: Option<String>,
    /// The model to ask for.
    model: Option<String>,
    /// Names of routes that take over while this one is closed, in order.
    fallback: Option<Vec<String>>,
    /// Its price; the list of known prices speaks where nothing is said, and `null` says that there is none.
    price: Option<PriceShape>,
    /// What a dispatch sets aside before it starts.
    reserve_usd: Option<Usd>,
    /// The output ceiling of one dispatch, in tokens.
    max_tokens: Option<u64>,
    /// How many dispatches at a time.
    max_parallel: Option<u32>,
}

/// US dollars per million tokens; with unit `usd_micros` millionths of a dollar per million tokens.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct PriceShape {
    /// `usd` when nothing is said.
    unit: Option<PriceUnit>,
    /// Input that no cache served.
    input: Usd,
    /// Input read from a cache; as `input` when nothing is said.
    cache_read: Option<Usd>,
    /// Input written to a cache; as `input` when nothing is said.
    cache_write: Option<Usd>,
    /// Output.
    output: Usd,
    /// The hours in which it differs.
    peak: Option<PeakShape>,
}

/// A price at certain hours, in the unit of the price around it.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct PeakShape {
    /// Input that no cache served.
    input: Usd,
    /// Input read from a cache; as `input` when nothing is said.
    cache_read: Option<Usd>,
    /// Input written to a cache; as `input` when nothing is said.
    cache_write: Option<Usd>,
    /// Output.
    output: Usd,
    /// Days and hours in UTC, for example `mon-fri 01:00-04:00`.
    hours: Vec<String>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum PriceUnit {
    Usd,
    UsdMicros,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RoutingShape {
    #[schemars(rename = "T0")]
    t0: Option<RouteOrName>,
    #[schemars(rename = "T1")]
    t1: Option<RouteOrName>,
    #[schemars(rename = "T2")]
    t2: Option<RouteOrName>,
    #[schemars(rename = "T3")]
    t3: Option<RouteOrName>,
}

/// The numbers of the circuits. Counts are at least 1; zero money means zero.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BudgetShape {
    /// Work dispatches per task; 3.
    max_task_attempts: Option<u32>,
    /// Refusals per task; 2.
    max_refused_dispatches: Option<u32>,
    /// Reviews per task; 2.
    max_review_cycles: Option<u32>,
    /// One dispatch, in minutes awake; 45.
    task_timeout_minutes: Option<u32>,
    /// A task's whole life, in minutes awake; 135, and never below timeout times attempts.
    task_lifetime_minutes: Option<u32>,
    /// How long nothing may move, in minutes awake; 15.
    no_progress_minutes: Option<u32>,
    /// Tokens per task with its replacements; 500000.
    max_tokens_per_task: Option<u64>,
    /// Since the process started; 2.
    max_cost_usd_per_session: Option<Usd>,
    /// Per UTC day; 20.
    max_cost_usd_per_day: Option<Usd>,
    /// Per goal; off.
    max_cost_usd_per_goal: Option<Usd>,
    /// Per task with its replacements; off.
    max_cost_usd_per_task: Option<Usd>,
    /// The same operation on the same ground in a row; 3.
    #[schemars(range(min = 1, max = 20))]
    max_same_action: Option<u32>,
    /// Workers of the process; 5.
    max_parallel_workers: Option<u32>,
    /// Workers of this project; 3.
    max_parallel_per_project: Option<u32>,
    /// Refreshes per task; 3.
    max_refreshes: Option<u32>,
    /// Replans per task with its replacements; 2.
    max_replans: Option<u32>,
    /// Dead dispatches per task; 3.
    max_orphans: Option<u32>,
    /// Plans that were not accepted; 3.
    max_plan_attempts: Option<u32>,
    /// Plan dispatches that no provider saw; 2.
    max_plan_refusals: Option<u32>,
    /// Free bytes below which nothing new starts; 1 GiB.
    disk_low_bytes: Option<u64>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct ScriptedShape {
    /// The script file.
    script: Option<String>,
    /// What every scripted dispatch sets aside.
    reserve_usd: Option<Usd>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct OwnProgramShape {
    /// The command with its arguments.
    argv: Option<Vec<String>>,
    /// Variables of the loop's environment that it may see.
    env: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ProgramShape {
    /// The program, with words that always stand first; the adapter's own name when nothing is said.
    argv: Option<Vec<String>>,
    /// More words for it.
    args: Option<Vec<String>>,
    /// Variables of the loop's environment that it may see besides its login.
    env: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum ReviewerTier {
    Any,
    NotLower,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum SandboxWord {
    Off,
    Auto,
    Landlock,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct ProcessLimitsShape {
    /// Seconds of processor time.
    #[schemars(range(min = 10, max = 604_800))]
    cpu_seconds: Option<u64>,
    /// The largest file that it may write, in bytes.
    #[schemars(range(min = 1_048_576, max = 17_592_186_044_416_u64))]
    file_bytes: Option<u64>,
    /// Open files.
    #[schemars(range(min = 64, max = 1_048_576))]
    open_files: Option<u64>,
    /// Memory of its own that it may write to, in bytes.
    #[schemars(range(min = 67_108_864, max = 17_592_186_044_416_u64))]
    memory_bytes: Option<u64>,
}

/// What the loop may do and spend. Every key may be left out.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ConfigShape {
    /// The project's folder.
    root: Option<String>,
    /// False: nothing ticks.
    enabled: Option<bool>,
    /// Milliseconds between two beats; 2000.
    #[schemars(range(min = 500))]
    tick_interval_ms: Option<u32>,
    /// `noop` shows what would be done, `routed` follows the routes, any other is used everywhere; noop.
    agent_backend: Option<AgentBackendWord>,
    /// Who plans.
    planner_route: Option<RouteOrName>,
    /// Who reviews.
    reviewer_route: Option<RouteOrName>,
    /// The reviewer's model where its route names none.
    review_model: Option<String>,
    /// Who works, by tier.
    routing: Option<RoutingShape>,
    /// More routes, for fallbacks and names.
    routes: Option<BTreeMap<String, RouteShape>>,
    /// The numbers of the circuits.
    budget: Option<BudgetShape>,
    /// What one Chinese yuan is worth, for list prices that are in yuan.
    usd_per_cny: Option<Usd>,
    /// Per UTC day over all projects; 0 means one project's daily cap.
    max_cost_usd_per_day_all_projects: Option<Usd>,
    /// The operator's checks, each a command with its arguments.
    acceptance: Option<Vec<Vec<String>>>,
    /// Minutes that each check may take; 15.
    #[schemars(range(min = 1, max = 600))]
    acceptance_timeout_minutes: Option<u32>,
    /// Globs of test files that are restored before the checks unless the task may change them.
    protected_tests: Option<Vec<String>>,
    /// Globs that no task may change.
    protected_paths: Option<Vec<String>>,
    /// Globs of files whose executable bit a task may change; a new file may have any.
    mode_changes: Option<Vec<String>>,
    /// The largest file that is no text and that a task may add or change, in bytes; 1048576.
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    max_binary_bytes: Option<u64>,
    /// Globs of single files that a worker may leave although git ignores them and its contract does not
    /// name them; build output, logs and caches always may.
    ignored_writes: Option<Vec<String>>,
    /// Whether the operating system confines what a run may touch; `off`.
    sandbox: Option<SandboxWord>,
    /// What a confined run may read besides its own folders and the system's: absolute paths, or `~/…`.
    sandbox_read: Option<Vec<String>>,
    /// What it may also write.
    sandbox_write: Option<Vec<String>>,
    /// What each process of a run or a check may use; nothing limits it when nothing is said.
    process_limits: Option<ProcessLimitsShape>,
    /// When a person approves high risk; `hold_before_merge`.
    high_risk: Option<HighRisk>,
    /// Whether a merge is verified after it too; `never`.
    post_merge: Option<PostMerge>,
    /// Branches that count as trunks besides main, master and the remote's default.
    trunks: Option<Vec<String>>,
    /// How different a reviewer must be from every implementer; `model`.
    independence: Option<Independence>,
    /// Whether the reviewer's tier may be below the task's; `any`.
    reviewer_tier: Option<ReviewerTier>,
    /// The adapter `scripted`.
    scripted: Option<ScriptedShape>,
    /// The adapter `command`.
    command: Option<OwnProgramShape>,
    /// The adapter `claude`.
    claude: Option<ProgramShape>,
    /// The adapter `codex`.
    codex: Option<ProgramShape>,
    /// The adapter `dsh`.
    dsh: Option<ProgramShape>,
    /// The adapter `acp`.
    acp: Option<OwnProgramShape>,
    /// Known, not built yet.
    forge: Option<BTreeMap<String, serde_json::Value>>,
    /// Known, not built yet; must be empty.
    pre_pr_check: Option<Vec<String>>,
    /// Known, not built yet.
    pre_pr_profile: Option<String>,
    /// Known, not built yet.
    pre_pr_timeout_minutes: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_doc::KEYS;
    use crate::config_read::BUDGET_KEYS;

    fn keys<T: JsonSchema>() -> Vec<String> {
        let schema = schemars::schema_for!(T).to_value();
        let mut keys: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    }

    fn sorted(keys: &[&str]) -> Vec<String> {
        let mut keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        keys.sort();
        keys
    }

    #[test]
    fn the_shape_has_the_keys_that_are_read() {
        assert_eq!(keys::<ConfigShape>(), sorted(KEYS));
        assert_eq!(keys::<BudgetShape>(), sorted(BUDGET_KEYS));
        assert_eq!(keys::<RouteShape>(), sorted(crate::config_routes::ROUTE_KEYS));
    }
}
