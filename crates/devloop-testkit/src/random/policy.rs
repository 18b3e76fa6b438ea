//! Owns the policies of random runs: small limits, so that every circuit trips within a few hundred inputs.

use devloop_core::ids::{Branch, Digest, Identity, RouteKey};
use devloop_core::policy::{
    Acceptance, Backend, HighRisk, Independence, Limits, Policy, PostMerge, ReviewPolicy, Route,
};
use devloop_core::price::{Peak, PeakHours};
use devloop_core::tier::Tier;
use devloop_core::units::{Map, Price, UsdMicros};

use super::Random;

/// A policy drawn from `random`: three working routes with fallbacks, a planner and two reviewers.
///
/// # Panics
/// Never: its names are valid.
pub fn policy(random: &mut Random) -> Policy {
    let key = |name: &str| RouteKey::parse(name).expect("a route name");
    let mut routes = Map::new();
    routes.insert(key("planner"), route(random, Tier::T3, "north/lead", &[]));
    routes.insert(key("worker"), route(random, Tier::T1, "north/small", &["spare"]));
    routes.insert(key("spare"), route(random, Tier::T2, "south/mid", &[]));
    routes.insert(key("reviewer"), route(random, Tier::T3, "north/lead", &["second"]));
    routes.insert(key("second"), route(random, Tier::T3, "west/lead", &[]));
    let routing = [Tier::T0, Tier::T1, Tier::T2, Tier::T3].map(|tier| {
        let name = if tier <= Tier::T1 { "worker" } else { "spare" };
        (tier, key(name))
    });
    let checks = Digest::parse(&"c".repeat(64)).expect("64 hex digits");
    let policy = Policy {
        digest: checks.clone(),
        limits: limits(random),
        routes,
        planner: key("planner"),
        reviewer: key("reviewer"),
        routing: routing.into_iter().collect(),
        acceptance: if random.chance(70) { Acceptance::Digest(checks) } else { Acceptance::Absent },
        review: ReviewPolicy {
            independence: random.pick(&[Independence::Model, Independence::Vendor]),
            not_lower: random.chance(50),
        },
        high_risk: random.pick(&[HighRisk::HoldBeforeMerge, HighRisk::HoldBeforeWork]),
        post_merge: random.pick(&[PostMerge::Never, PostMerge::Always]),
        trunks: vec![Branch::parse("trunk").expect("a branch name")],
    };
    devloop_wire::policy_doc::seal(policy)
}

/// Dearer on the mornings of working days.
fn peak() -> Peak {
    let hours = PeakHours { first_day: 0, last_day: 4, from_minute: 60, to_minute: 600 };
    let price =
        Price { input_uncached: 6_000_000, cache_read: 600_000, cache_write: 7_500_000, output: 30_000_000 };
    Peak { price, hours: vec![hours] }
}

fn route(random: &mut Random, tier: Tier, identity: &str, fallback: &[&str]) -> Route {
    let price =
        Price { input_uncached: 3_000_000, cache_read: 300_000, cache_write: 3_750_000, output: 15_000_000 };
    let priced = random.chance(60);
    Route {
        tier,
        backend: if random.chance(3) { Backend::Noop } else { Backend::Command },
        identity: Identity::parse(identity).expect("an identity"),
        fallback: fallback.iter().map(|name| RouteKey::parse(name).expect("a route name")).collect(),
        price: priced.then_some(price),
        peak: (priced && random.chance(20)).then(peak),
        reserve: random.chance(40).then(|| UsdMicros(random.below(800_000))),
        max_tokens: random.chance(50).then_some(40_000),
        max_parallel: random.chance(30).then_some(1),
    }
}

fn limits(random: &mut Random) -> Limits {
    let dollars = |random: &mut Random, most: u64| UsdMicros((1 + random.below(most)) * 1_000_000);
    Limits {
        tokens_per_task: if random.chance(30) { 60_000 } else { 5_000_000 },
        cost_session: dollars(random, 60),
        cost_day: dollars(random, 60),
        cost_goal: random.chance(30).then(|| dollars(random, 30)),
        cost_task: random.chance(30).then(|| dollars(random, 5)),
        ..Limits::default()
    }
}
