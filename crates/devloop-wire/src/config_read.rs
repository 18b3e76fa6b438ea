//! What each key of a configuration means and which values it takes. It must not stop at the first fault.

use devloop_core::ids::Branch;
use devloop_core::paths::pattern_fault;
use devloop_core::policy::{HighRisk, Independence, Limits, PostMerge, ReviewPolicy};
use devloop_core::units::{MAX_NUMBER, UsdMicros};

use crate::config_adapters;
use crate::config_doc::{Config, ConfigFault, KEYS, ProcessLimits, Sandbox, SandboxMode, Weight};
use crate::config_fields::{Faults, Fields};
use crate::config_judge;
use crate::config_routes;
use crate::tree::Node;

/// The keys of `budget`.
pub(crate) const BUDGET_KEYS: &[&str] = &[
    "maxTaskAttempts",
    "maxRefusedDispatches",
    "maxReviewCycles",
    "taskTimeoutMinutes",
    "taskLifetimeMinutes",
    "noProgressMinutes",
    "maxTokensPerTask",
    "maxCostUsdPerSession",
    "maxCostUsdPerDay",
    "maxCostUsdPerGoal",
    "maxCostUsdPerTask",
    "maxSameAction",
    "maxParallelWorkers",
    "maxParallelPerProject",
    "maxRefreshes",
    "maxReplans",
    "maxOrphans",
    "maxPlanAttempts",
    "maxPlanRefusals",
    "diskLowBytes",
];

/// The most of anything that is counted.
const MAX_COUNT: u32 = 1_000_000;
/// The most minutes: a year.
const MAX_MINUTES: u32 = 525_600;
/// The longest list of checks, and of arguments of one.
const MAX_ARGV: usize = 256;

/// Reads a whole configuration. The result is usable in any case; the faults say what is not as it was
/// written.
pub(crate) fn read(node: &Node) -> (Config, Vec<ConfigFault>) {
    let mut faults = Faults::default();
    let empty = Node::Map(Vec::new());
    let node = if *node == Node::Null { &empty } else { node };
    let top = faults.fields_beside(node, "", KEYS, ("under budget", BUDGET_KEYS));
    let routes = config_routes::read(&mut faults, &top);
    let budget = top.get("budget").unwrap_or(&empty);
    let budget = faults.fields_beside(budget, "budget", BUDGET_KEYS, ("at the top", KEYS));
    let all_projects = faults.money(&top, "maxCostUsdPerDayAllProjects");
    let limits = limits(&mut faults, &budget, all_projects);
    let config = Config {
        root: faults.text(&top, "root"),
        enabled: faults.flag(&top, "enabled", true),
        tick_interval_ms: faults.count(&top, "tickIntervalMs", (500, i32::MAX as u32), 2_000),
        agent_backend: routes.agent_backend,
        planner: routes.planner,
        reviewer: routes.reviewer,
        routing: routes.routing,
        routes: routes.routes,
        limits,
        acceptance: acceptance(&mut faults, &top),
        acceptance_timeout_minutes: faults.count(&top, "acceptanceTimeoutMinutes", (1, 600), 15),
        protected_tests: globs(&mut faults, &top, "protectedTests"),
        protected_paths: globs(&mut faults, &top, "protectedPaths"),
        mode_changes: globs(&mut faults, &top, "modeChanges"),
        binary_max_bytes: faults.number(&top, "maxBinaryBytes", (0, MAX_NUMBER), 1024 * 1024),
        ignored_writes: globs(&mut faults, &top, "ignoredWrites"),
        sandbox: Sandbox {
            mode: faults.word(&top, "sandbox", SANDBOX).unwrap_or(SandboxMode::Off),
            read: places(&mut faults, &top, "sandboxRead"),
            write: places(&mut faults, &top, "sandboxWrite"),
        },
        process_limits: process_limits(&mut faults, &top),
        high_risk: faults.word(&top, "highRisk", HIGH_RISK).unwrap_or(HighRisk::HoldBeforeMerge),
        post_merge: faults.word(&top, "postMerge", POST_MERGE).unwrap_or(PostMerge::Never),
        trunks: trunks(&mut faults, &top),
        review: review_policy(&mut faults, &top),
        script: routes.script,
        adapters: config_adapters::read(&mut faults, &top),
        warnings: Vec::new(),
    };
    not_built(&mut faults, &top);
    config_judge::judge(&mut faults, &config);
    (config, faults.0)
}

const HIGH_RISK: &[(&str, HighRisk)] =
    &[("hold_before_merge", HighRisk::HoldBeforeMerge), ("hold_before_work", HighRisk::HoldBeforeWork)];
const SANDBOX: &[(&str, SandboxMode)] =
    &[("off", SandboxMode::Off), ("auto", SandboxMode::Auto), ("landlock", SandboxMode::Landlock)];
const POST_MERGE: &[(&str, PostMerge)] = &[("never", PostMerge::Never), ("always", PostMerge::Always)];
const INDEPENDENCE: &[(&str, Independence)] =
    &[("model", Independence::Model), ("vendor", Independence::Vendor)];
const REVIEWER_TIER: &[(&str, bool)] = &[("any", false), ("not_lower", true)];

fn review_policy(faults: &mut Faults, top: &Fields<'_>) -> ReviewPolicy {
    ReviewPolicy {
        independence: faults.word(top, "independence", INDEPENDENCE).unwrap_or(Independence::Model),
        not_lower: faults.word(top, "reviewerTier", REVIEWER_TIER).unwrap_or(false),
    }
}

/// The block `budget`; `all_projects` is the cap of all projects, where zero means one project's daily cap.
pub(crate) fn limits(faults: &mut Faults, budget: &Fields<'_>, all_projects: Option<UsdMicros>) -> Limits {
    let old = Limits::default();
    let counts = (1, MAX_COUNT);
    let minutes = (1, MAX_MINUTES);
    let f = faults;
    let b = budget;
    let cost_day = f.money(b, "maxCostUsdPerDay").unwrap_or(old.cost_day);
    Limits {
        task_attempts: f.count(b, "maxTaskAttempts", counts, old.task_attempts),
        refusals: f.count(b, "maxRefusedDispatches", counts, old.refusals),
        review_cycles: f.count(b, "maxReviewCycles", counts, old.review_cycles),
        dispatch_minutes: f.count(b, "taskTimeoutMinutes", minutes, old.dispatch_minutes),
        lifetime_minutes: f.count(b, "taskLifetimeMinutes", minutes, old.lifetime_minutes),
        no_progress_minutes: f.count(b, "noProgressMinutes", minutes, old.no_progress_minutes),
        tokens_per_task: f.number(b, "maxTokensPerTask", (1, MAX_NUMBER), old.tokens_per_task),
        cost_session: f.money(b, "maxCostUsdPerSession").unwrap_or(old.cost_session),
        cost_day,
        cost_day_all_projects: all_projects.filter(|cap| cap.0 > 0).unwrap_or(cost_day),
        cost_goal: f.money(b, "maxCostUsdPerGoal"),
        cost_task: f.money(b, "maxCostUsdPerTask"),
        same_action: f.count(b, "maxSameAction", (1, 20), old.same_action),
        parallel_process: f.count(b, "maxParallelWorkers", counts, old.parallel_process),
        parallel_project: f.count(b, "maxParallelPerProject", counts, old.parallel_project),
        refreshes: f.count(b, "maxRefreshes", counts, old.refreshes),
        replans: f.count(b, "maxReplans", counts, old.replans),
        orphans: f.count(b, "maxOrphans", counts, old.orphans),
        plan_attempts: f.count(b, "maxPlanAttempts", counts, old.plan_attempts),
        plan_refusals: f.count(b, "maxPlanRefusals", counts, old.plan_refusals),
        disk_low_bytes: f.number(b, "diskLowBytes", (1, MAX_NUMBER), old.disk_low_bytes),
    }
}

fn acceptance(faults: &mut Faults, top: &Fields<'_>) -> Vec<Vec<String>> {
    let Some(node) = top.get("acceptance") else { return Vec::new() };
    let Node::List(commands) = node else {
        let what = "must be a list of commands, each a list of texts, for example [[\"npm\", \"test\"]]";
        faults.add(Weight::Closing, "acceptance", what);
        return Vec::new();
    };
    if commands.len() > MAX_ARGV {
        faults.add(Weight::Closing, "acceptance", format!("must be at most {MAX_ARGV} commands"));
        return Vec::new();
    }
    let read = |(i, node): (usize, &Node)| argv(faults, node, &format!("acceptance[{i}]"));
    commands.iter().enumerate().map(read).filter(|argv| !argv.is_empty()).collect()
}

/// One command with its arguments; empty when it is refused.
pub(crate) fn argv(faults: &mut Faults, node: &Node, path: &str) -> Vec<String> {
    let before = faults.0.len();
    let argv = faults.list(node, path, |text| {
        (text.is_empty() || text.contains('\0'))
            .then(|| "must be a text that is not empty and has no NUL".to_owned())
    });
    if faults.0.len() > before {
        return Vec::new();
    }
    if argv.is_empty() || argv.len() > MAX_ARGV {
        faults.add(
            Weight::Closing,
            path,
            format!("must be a command with its arguments, 1 to {MAX_ARGV} texts"),
        );
        return Vec::new();
    }
    if argv[0].starts_with('-') {
        faults.add(Weight::Closing, format!("{path}[0]"), "must be a command, not an option");
        return Vec::new();
    }
    argv
}

fn globs(faults: &mut Faults, top: &Fields<'_>, key: &str) -> Vec<String> {
    faults.texts(top, key, |glob| pattern_fault(glob).map(|rule| format!("must be {rule}")))
}

/// Places outside the project: absolute, or below the user's home.
fn places(faults: &mut Faults, top: &Fields<'_>, key: &str) -> Vec<String> {
    faults.texts(top, key, |path| {
        let is_place = path.starts_with('/') || path.starts_with("~/");
        let fits = is_place && !path.contains('\0') && !path.split('/').any(|part| part == "..");
        (!fits).then(|| "must be an absolute path, or one that begins with ~/, without ..".to_owned())
    })
}

/// Bounds keep out what would end every program at once, and numbers of another unit.
fn process_limits(faults: &mut Faults, top: &Fields<'_>) -> ProcessLimits {
    const MIB: u64 = 1024 * 1024;
    const KEY: &str = "processLimits";
    let Some(node) = top.get(KEY) else { return ProcessLimits::default() };
    let fields = faults.fields(node, KEY, &["cpuSeconds", "fileBytes", "openFiles", "memoryBytes"]);
    ProcessLimits {
        cpu_seconds: faults.limit(&fields, "cpuSeconds", (10, 7 * 86_400)),
        file_bytes: faults.limit(&fields, "fileBytes", (MIB, 16 * MIB * MIB)),
        open_files: faults.limit(&fields, "openFiles", (64, MIB)),
        memory_bytes: faults.limit(&fields, "memoryBytes", (64 * MIB, 16 * MIB * MIB)),
    }
}

fn trunks(faults: &mut Faults, top: &Fields<'_>) -> Vec<Branch> {
    let names = faults
        .texts(top, "trunks", |name| Branch::parse(name).err().map(|bad| format!("must be {}", bad.rule)));
    names.iter().filter_map(|name| Branch::parse(name).ok()).collect()
}

/// Keys of the earlier plugin for rooms that are not built yet: never silently without effect.
fn not_built(faults: &mut Faults, top: &Fields<'_>) {
    let empty = [Node::List(Vec::new()), Node::Map(Vec::new()), Node::Text(String::new())];
    let set = |key: &str| top.get(key).is_some_and(|node| !empty.contains(node));
    if set("prePrCheck") {
        let what =
            "the pre-PR checker is known and not built yet; name it as a command under acceptance instead";
        faults.add(Weight::Closing, "prePrCheck", what);
    }
    for key in ["forge", "prePrProfile", "prePrTimeoutMinutes"] {
        if set(key) {
            faults.add(Weight::Warning, key, "known and not built yet; it has no effect");
        }
    }
}
