//! The rules among the routes of a configuration, and between routes and limits. It must not change anything.

use std::collections::BTreeSet;

use devloop_core::ids::RouteKey;
use devloop_core::policy::{Backend, DEFAULT_RESERVE};
use devloop_core::review::is_independent;

use crate::config_doc::{AgentBackend, Config, RouteConfig, Weight};
use crate::config_fields::Faults;
use crate::config_identity::may_be_one;
use crate::config_routes::{path_of, word_of};
use crate::money::usd_text;

/// The rules among routes, and between routes and the rest.
pub(crate) fn judge(faults: &mut Faults, config: &Config) {
    let used = |backend: Backend| config.routes.iter().find(|(_, route)| route.backend == backend);
    let needs = [
        (Backend::Scripted, "scripted.script", config.script.is_none()),
        (Backend::Command, "command.argv", config.adapter(Backend::Command).argv.is_empty()),
        (Backend::Acp, "acp.argv", config.adapter(Backend::Acp).argv.is_empty()),
    ];
    for (backend, path, missing) in needs {
        if let (Some((key, _)), true) = (used(backend), missing) {
            let what = format!("is missing; {} has the backend {}", path_of(key), word_of(backend));
            faults.add(Weight::Closing, path, what);
        }
    }
    judge_reviewer(faults, config);
    config.routes.iter().for_each(|(key, route)| judge_reserve(faults, config, key, route));
}

/// A reviewer must be somebody else than everybody who may work.
fn judge_reviewer(faults: &mut Faults, config: &Config) {
    let with_fallbacks = |key: &RouteKey| -> Vec<RouteKey> {
        let more = config.routes.get(key).map(|route| route.fallback.clone()).unwrap_or_default();
        std::iter::once(key.clone()).chain(more).collect()
    };
    let workers: BTreeSet<RouteKey> = config.routing.values().flat_map(with_fallbacks).collect();
    for (i, reviewer) in with_fallbacks(&config.reviewer).iter().enumerate() {
        let Some(judge) = config.routes.get(reviewer) else { continue };
        let rule = config.review.independence;
        let route_of = |key: &RouteKey| config.routes.get(key);
        let worker = |key: &RouteKey| route_of(key).map(|route| BTreeSet::from([route.identity.clone()]));
        let is_same =
            |key: &&RouteKey| worker(key).is_some_and(|who| !is_independent(&judge.identity, &who, rule));
        let Some(same) = workers.iter().find(is_same) else {
            let doubtful = |key: &&RouteKey| {
                route_of(key).is_some_and(|route| may_be_one(&judge.identity, &route.identity))
            };
            if let Some(other) = workers.iter().find(doubtful) {
                doubt(faults, config, reviewer, other);
            }
            continue;
        };
        let (own, other) = (path_of(reviewer), path_of(same));
        let mend = match config.agent_backend {
            AgentBackend::One(_) => "set reviewModel, or every task would be held before its review",
            AgentBackend::Noop | AgentBackend::Routed => "name another provider or model",
        };
        let what = format!(
            "is {}, and {other} works as {}: nobody reviews their own work; {mend}",
            judge.identity, config.routes[same].identity
        );
        // Among several reviewers one that differs is found at each dispatch.
        let weight = if i == 0 { Weight::Closing } else { Weight::Warning };
        faults.add(weight, own, what);
    }
}

/// Two names that may stand for one model: nobody here can know, so the operator is told.
fn doubt(faults: &mut Faults, config: &Config, reviewer: &RouteKey, worker: &RouteKey) {
    let (judge, who) = (&config.routes[reviewer].identity, &config.routes[worker].identity);
    let what = format!(
        "is {judge}, and {} works as {who}: that may be one and the same model, which would review its own \
         work; name a model for each, and a different one",
        path_of(worker)
    );
    faults.add(Weight::Warning, path_of(reviewer), what);
}

/// A reservation above a whole cap can never be admitted.
fn judge_reserve(faults: &mut Faults, config: &Config, key: &RouteKey, route: &RouteConfig) {
    if route.backend == Backend::Noop {
        return;
    }
    let priced =
        route.policy().dearest_price().zip(route.max_tokens).map(|(price, tokens)| price.ceiling(tokens));
    let reserve = route.reserve.or(priced).unwrap_or(DEFAULT_RESERVE);
    let limits = &config.limits;
    let caps = [
        ("budget.maxCostUsdPerSession", Some(limits.cost_session)),
        ("budget.maxCostUsdPerDay", Some(limits.cost_day)),
        ("maxCostUsdPerDayAllProjects", Some(limits.cost_day_all_projects)),
        ("budget.maxCostUsdPerGoal", limits.cost_goal),
        ("budget.maxCostUsdPerTask", limits.cost_task),
    ];
    let tight = caps.iter().find_map(|(name, cap)| cap.filter(|cap| reserve > *cap).map(|cap| (*name, cap)));
    if let Some((name, cap)) = tight {
        let (reserve, cap) = (usd_text(reserve), usd_text(cap));
        let what = format!(
            "a dispatch reserves {reserve} USD, more than all of {name} ({cap} USD): it would never start"
        );
        faults.add(Weight::Warning, path_of(key), what);
    }
}
