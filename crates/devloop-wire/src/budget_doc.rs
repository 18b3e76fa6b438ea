//! BUDGET.json: the limits in force, under the names of the configuration, so that the command line judges
//! with the numbers of the profile. It must not decide which limits those are.

use devloop_core::policy::Limits;

use crate::config_doc::{ConfigFault, Weight};
use crate::config_fields::Faults;
use crate::config_read::{BUDGET_KEYS, limits};
use crate::money::usd_text;
use crate::tree::Node;

/// The name in refusals.
pub const DOCUMENT: &str = "BUDGET.json";

const ALL_PROJECTS: &str = "maxCostUsdPerDayAllProjects";

/// The limits of one project as the configuration writes them, in its order: each key with its number; none
/// for a cap that is off.
pub(crate) fn written(l: &Limits) -> [(&'static str, Option<String>); 20] {
    let count = |n: u32| Some(n.to_string());
    [
        ("maxTaskAttempts", count(l.task_attempts)),
        ("maxRefusedDispatches", count(l.refusals)),
        ("maxReviewCycles", count(l.review_cycles)),
        ("taskTimeoutMinutes", count(l.dispatch_minutes)),
        ("taskLifetimeMinutes", count(l.lifetime_minutes)),
        ("noProgressMinutes", count(l.no_progress_minutes)),
        ("maxTokensPerTask", Some(l.tokens_per_task.to_string())),
        ("maxCostUsdPerSession", Some(usd_text(l.cost_session))),
        ("maxCostUsdPerDay", Some(usd_text(l.cost_day))),
        ("maxCostUsdPerGoal", l.cost_goal.map(usd_text)),
        ("maxCostUsdPerTask", l.cost_task.map(usd_text)),
        ("maxSameAction", count(l.same_action)),
        ("maxParallelWorkers", count(l.parallel_process)),
        ("maxParallelPerProject", count(l.parallel_project)),
        ("maxRefreshes", count(l.refreshes)),
        ("maxReplans", count(l.replans)),
        ("maxOrphans", count(l.orphans)),
        ("maxPlanAttempts", count(l.plan_attempts)),
        ("maxPlanRefusals", count(l.plan_refusals)),
        ("diskLowBytes", Some(l.disk_low_bytes.to_string())),
    ]
}

/// The document, with a newline at its end. Caps that are off are left out.
#[must_use]
pub fn write(limits: &Limits) -> Vec<u8> {
    let all_projects = (ALL_PROJECTS, Some(usd_text(limits.cost_day_all_projects)));
    let fields = written(limits).into_iter().chain([all_projects]);
    let line = |(key, number): (&str, Option<String>)| Some(format!("  \"{key}\": {}", number?));
    let lines: Vec<String> = fields.filter_map(line).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n")).into_bytes()
}

/// Reads the document; a missing key takes its default.
///
/// # Errors
/// Every fault.
pub fn parse(bytes: &[u8]) -> Result<Limits, Vec<ConfigFault>> {
    let node = Node::parse(bytes)
        .map_err(|what| vec![ConfigFault { path: String::new(), what, weight: Weight::Closing }])?;
    let mut faults = Faults::default();
    let known: Vec<&str> = BUDGET_KEYS.iter().copied().chain([ALL_PROJECTS]).collect();
    let fields = faults.fields(&node, "", &known);
    let all_projects = faults.money(&fields, ALL_PROJECTS);
    let limits = limits(&mut faults, &fields, all_projects);
    if faults.0.is_empty() { Ok(limits) } else { Err(faults.0) }
}
