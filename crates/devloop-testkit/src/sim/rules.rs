//! Owns the policies of a night: small limits, so that every circuit trips within an hour of it, and what an
//! operator makes of them later. Every policy is sealed, so that another one has another digest.

use devloop_core::ids::{Branch, Digest, Identity, RouteKey};
use devloop_core::policy::{
    Acceptance, Backend, HighRisk, Independence, Limits, Policy, PostMerge, ReviewPolicy, Route,
};
use devloop_core::tier::Tier;
use devloop_core::units::{Map, Price, UsdMicros};
use devloop_wire::policy_doc;

use super::draw::Draw;

/// A cent.
const CENT: u64 = 10_000;

/// A policy drawn from the script; the dullest has wide limits, no checks and three plain routes.
///
/// # Panics
/// Never: its names are valid.
pub fn policy(draw: &mut Draw) -> Policy {
    let key = |name: &str| RouteKey::parse(name).expect("a route name");
    let mut routes = Map::new();
    for (name, tier, who, fallback) in [
        ("planner", Tier::T3, "north/lead", None),
        ("worker", Tier::T1, "north/small", Some("spare")),
        ("spare", Tier::T2, "south/mid", None),
        ("reviewer", Tier::T3, "north/lead", Some("second")),
        ("second", Tier::T3, "west/lead", None),
    ] {
        let fallback = fallback.filter(|_| !draw.odd(300)).map(key);
        routes.insert(key(name), route(draw, tier, who, fallback));
    }
    let worker = if draw.odd(60) { "reviewer" } else { "worker" };
    let routing = [(Tier::T0, worker), (Tier::T1, worker), (Tier::T2, "spare"), (Tier::T3, "spare")];
    policy_doc::seal(Policy {
        digest: digest(1),
        limits: limits(draw),
        routes,
        planner: key("planner"),
        reviewer: key("reviewer"),
        routing: routing.into_iter().map(|(tier, name)| (tier, key(name))).collect(),
        acceptance: acceptance(draw),
        review: ReviewPolicy {
            independence: draw.pick(&[Independence::Model, Independence::Vendor]),
            not_lower: draw.odd(300),
        },
        high_risk: draw.pick(&[HighRisk::HoldBeforeMerge, HighRisk::HoldBeforeWork]),
        post_merge: draw.pick(&[PostMerge::Never, PostMerge::Always]),
        trunks: vec![Branch::parse("trunk").expect("a branch name")],
    })
}

fn digest(n: u64) -> Digest {
    Digest::parse(&format!("{n:064x}")).expect("64 hex digits")
}

fn acceptance(draw: &mut Draw) -> Acceptance {
    match draw.below(3) {
        0 => Acceptance::Absent,
        n => Acceptance::Digest(digest(n)),
    }
}

fn route(draw: &mut Draw, tier: Tier, identity: &str, fallback: Option<RouteKey>) -> Route {
    let price =
        Price { input_uncached: 3_000_000, cache_read: 300_000, cache_write: 3_750_000, output: 15_000_000 };
    Route {
        tier,
        backend: if draw.odd(15) { Backend::Noop } else { Backend::Command },
        identity: Identity::parse(identity).expect("an identity"),
        fallback: fallback.into_iter().collect(),
        price: draw.odd(300).then_some(price),
        peak: None,
        reserve: mostly(draw, &[Some(10), None, Some(0), Some(60)]).map(|cents| UsdMicros(cents * CENT)),
        max_tokens: draw.odd(300).then_some(40_000),
        max_parallel: draw.odd(200).then_some(1),
    }
}

/// The first of the choices, and now and then another.
fn mostly<T: Clone>(draw: &mut Draw, choices: &[T]) -> T {
    if draw.odd(200) { draw.pick(choices) } else { choices[0].clone() }
}

fn limits(draw: &mut Draw) -> Limits {
    let mut money = |choices: &[Option<u64>]| mostly(draw, choices).map(|cents| UsdMicros(cents * CENT));
    let cost_session = money(&[Some(100_000), Some(300), Some(60)]);
    let cost_day = money(&[Some(100_000), Some(300), Some(60), Some(0)]);
    let cost_goal = money(&[None, Some(200), Some(30)]);
    let cost_task = money(&[None, Some(100), Some(15)]);
    let cost_all = money(&[Some(100_000), Some(300), Some(60)]);
    Limits {
        task_attempts: mostly(draw, &[3, 1, 2]),
        refusals: draw.pick(&[2, 1]),
        review_cycles: draw.pick(&[2, 1, 3]),
        dispatch_minutes: draw.pick(&[45, 5]),
        lifetime_minutes: mostly(draw, &[1_000, 60]),
        tokens_per_task: mostly(draw, &[5_000_000, 60_000]),
        cost_session: cost_session.unwrap_or_default(),
        cost_day: cost_day.unwrap_or_default(),
        cost_day_all_projects: cost_all.unwrap_or_default(),
        cost_goal,
        cost_task,
        same_action: mostly(draw, &[3, 1, 5]),
        parallel_project: draw.pick(&[3, 1, 2]),
        refreshes: draw.pick(&[3, 1]),
        replans: draw.pick(&[2, 1]),
        orphans: mostly(draw, &[3, 1]),
        plan_attempts: mostly(draw, &[3, 1]),
        ..Limits::default()
    }
}

/// What an operator changes in a policy.
pub fn changed(draw: &mut Draw, policy: &Policy) -> Policy {
    let mut next = policy.clone();
    match draw.below(9) {
        0 => next.limits.cost_day = UsdMicros(draw.pick(&[100_000, 200, 50]) * CENT),
        1 => next.acceptance = acceptance(draw),
        2 => next.review.independence = draw.pick(&[Independence::Model, Independence::Vendor]),
        3 => next.limits.parallel_project = draw.pick(&[3, 1]),
        4 => next.limits.cost_task = draw.pick(&[None, Some(UsdMicros(20 * CENT))]),
        5 => another_model(draw, &mut next),
        6 => without_worker(&mut next),
        7 => {
            let fewer: Vec<RouteKey> =
                next.routes.keys().filter(|key| key.as_str() == "spare").cloned().collect();
            let used = next.routing.values().any(|key| fewer.contains(key));
            if !used {
                next.routes.retain(|key, _| !fewer.contains(key));
            }
        }
        _ => next.limits.task_attempts = draw.pick(&[3, 1]),
    }
    policy_doc::seal(next)
}

/// Another model behind a route, sometimes the one that is behind another route already.
fn another_model(draw: &mut Draw, policy: &mut Policy) {
    let names: Vec<RouteKey> = policy.routes.keys().cloned().collect();
    let who = draw.pick(&["north/new", "north/small", "north/lead", "south/mid"]);
    if let Some(route) = policy.routes.get_mut(&draw.pick(&names)) {
        route.identity = Identity::parse(who).expect("an identity");
    }
}

/// The worker's route goes, whatever runs on it; its tasks go to the spare one.
fn without_worker(policy: &mut Policy) {
    let spare = RouteKey::parse("spare").expect("a route name");
    if policy.routes.contains_key(&spare) {
        policy.routing.values_mut().for_each(|route| *route = spare.clone());
        policy.routes.retain(|key, _| key.as_str() != "worker");
    }
}

/// The policy of an operator who wants the goal done: no noop route, a reviewer whom nobody else is, and
/// limits that nothing reaches.
#[must_use]
pub fn generous(policy: &Policy) -> Policy {
    let mut next = policy.clone();
    for route in next.routes.values_mut() {
        route.backend = Backend::Command;
    }
    let stranger = RouteKey::parse("stranger").expect("a route name");
    let plain = |identity: &str| Route {
        tier: Tier::T3,
        backend: Backend::Command,
        identity: Identity::parse(identity).expect("an identity"),
        fallback: Vec::new(),
        price: None,
        peak: None,
        reserve: Some(UsdMicros(CENT)),
        max_tokens: None,
        max_parallel: None,
    };
    next.routes.entry(stranger.clone()).or_insert_with(|| plain("far/away"));
    if let Some(reviewer) = next.routes.get_mut(&next.reviewer)
        && !reviewer.fallback.contains(&stranger)
    {
        reviewer.fallback.push(stranger);
    }
    let wide = UsdMicros(1_000_000 * CENT);
    next.limits = Limits {
        cost_session: wide,
        cost_day: wide,
        cost_day_all_projects: wide,
        cost_goal: None,
        cost_task: None,
        tokens_per_task: 1 << 40,
        ..next.limits
    };
    policy_doc::seal(next)
}
