//! Configuration keys laid over a policy that was recorded: what an operator writes to ask what another
//! budget, route or price would have led to. The keys, their rules and their refusals are the
//! configuration's own. It must not know how the answer is found.

use devloop_core::ids::RouteKey;
use devloop_core::policy::{Backend, HighRisk, Independence, Policy, PostMerge, Route};
use devloop_core::tier::Tier;
use devloop_core::units::{Price, UsdMicros};

use crate::budget_doc::written;
use crate::config_doc::{ConfigFault, Weight};
use crate::config_price::hours_text;
use crate::config_read;
use crate::config_routes::word_of;
use crate::money::usd_text;
use crate::tree::Node;

/// The name in refusals.
pub const DOCUMENT: &str = "policy.json";

/// Keys of a configuration that decide nothing: a whole configuration may be laid over, so they are no fault.
const WITHOUT_EFFECT: [&str; 18] = [
    "root",
    "enabled",
    "tickIntervalMs",
    "usdPerCny",
    "protectedTests",
    "protectedPaths",
    "modeChanges",
    "maxBinaryBytes",
    "ignoredWrites",
    "sandbox",
    "sandboxRead",
    "sandboxWrite",
    "processLimits",
    "command",
    "acp",
    "forge",
    "prePrProfile",
    "prePrTimeoutMinutes",
];

/// The policy under the keys of the overlay, with remarks. Its digest stays the recorded one, so that it
/// stands in for it. An object is laid over an object key by key, a price as a whole; `null` takes a value
/// away.
///
/// # Errors
/// Every fault that the overlay brought in.
pub fn apply(recorded: &Policy, overlay: &[u8]) -> Result<(Policy, Vec<ConfigFault>), Vec<ConfigFault>> {
    let whole = |what: String| vec![ConfigFault { path: String::new(), what, weight: Weight::Closing }];
    let over = Node::parse(overlay).map_err(whole)?;
    let Node::Map(keys) = &over else {
        return Err(whole(format!("must be an object with keys of a configuration, not {}", over.kind())));
    };
    let base = write(recorded, &over);
    let before = config_read::read(&base);
    let (config, faults) = config_read::read(&lay(base, &over));
    let mut brought: Vec<ConfigFault> =
        faults.into_iter().filter(|fault| !before.1.contains(fault)).collect();
    if brought.iter().any(|fault| fault.weight > Weight::Warning) {
        return Err(brought);
    }
    for (key, _) in keys.iter().filter(|(key, _)| WITHOUT_EFFECT.contains(&key.as_str())) {
        let what = "has no effect on a decision that was recorded".to_owned();
        brought.push(ConfigFault { path: key.clone(), what, weight: Weight::Warning });
    }
    let mut policy = config.policy();
    policy.digest = recorded.digest.clone();
    if !keys.iter().any(|(key, _)| key == "acceptance" || key == "acceptanceTimeoutMinutes") {
        // The commands behind the recorded digest are the host's; here they only have to stay the same.
        policy.acceptance = recorded.acceptance.clone();
    }
    Ok((policy, brought))
}

/// Lays `over` over `base`.
fn lay(base: Node, over: &Node) -> Node {
    match (base, over) {
        (Node::Map(mut pairs), Node::Map(over)) => {
            for (key, node) in over {
                match pairs.iter_mut().find(|(known, _)| known == key) {
                    // Prices of two units do not mix.
                    Some((_, there)) if key == "price" => there.clone_from(node),
                    Some((_, there)) => {
                        let before = std::mem::replace(there, Node::Null);
                        *there = lay(before, node);
                    }
                    None => pairs.push((key.clone(), node.clone())),
                }
            }
            Node::Map(pairs)
        }
        (_, over) => over.clone(),
    }
}

fn text(word: impl Into<String>) -> Node {
    Node::Text(word.into())
}

fn number(n: impl ToString) -> Node {
    Node::Number(n.to_string())
}

fn map(pairs: impl IntoIterator<Item = (&'static str, Option<Node>)>) -> Node {
    Node::Map(pairs.into_iter().filter_map(|(key, node)| Some((key.to_owned(), node?))).collect())
}

fn key_of<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    match node {
        Node::Map(pairs) => pairs.iter().find(|(known, _)| known == key).map(|(_, node)| node),
        _ => None,
    }
}

/// The configuration that this policy would be read from. What the overlay sets by a key that stands for
/// several routes is left out of them, so that it takes effect.
fn write(policy: &Policy, over: &Node) -> Node {
    let review_model = key_of(over, "reviewModel").is_some();
    let scripted = key_of(over, "scripted").and_then(|node| key_of(node, "reserveUsd")).is_some();
    let one = |key: &RouteKey| {
        let route = &policy.routes[key];
        let model = !(review_model && *key == policy.reviewer);
        write_route(route, model, !(scripted && route.backend == Backend::Scripted))
    };
    let slot = |name: &str, key: Option<&RouteKey>| {
        let key = key?;
        Some(if key.as_str() == name { one(key) } else { text(key.as_str()) })
    };
    let tiers = [("T0", Tier::T0), ("T1", Tier::T1), ("T2", Tier::T2), ("T3", Tier::T3)];
    let places = ["planner", "reviewer", "T0", "T1", "T2", "T3"];
    let named = policy.routes.keys().filter(|key| !places.contains(&key.as_str()));
    let used = |backend: Backend| policy.routes.values().any(|route| route.backend == backend);
    let stands_in = |key: &'static str, backend| {
        used(backend).then(|| {
            map([(
                key,
                Some(if key == "argv" { Node::List(vec![text("recorded")]) } else { text("recorded") }),
            )])
        })
    };
    map([
        ("agentBackend", Some(text("routed"))),
        ("plannerRoute", slot("planner", Some(&policy.planner))),
        ("reviewerRoute", slot("reviewer", Some(&policy.reviewer))),
        ("routing", Some(map(tiers.map(|(name, tier)| (name, slot(name, policy.routing.get(&tier))))))),
        ("routes", Some(Node::Map(named.map(|key| (key.to_string(), one(key))).collect()))),
        ("budget", Some(map(written(&policy.limits).map(|(key, number)| (key, number.map(Node::Number)))))),
        (
            "maxCostUsdPerDayAllProjects",
            (policy.limits.cost_day_all_projects != policy.limits.cost_day)
                .then(|| usd(policy.limits.cost_day_all_projects)),
        ),
        (
            "highRisk",
            Some(text(match policy.high_risk {
                HighRisk::HoldBeforeMerge => "hold_before_merge",
                HighRisk::HoldBeforeWork => "hold_before_work",
            })),
        ),
        (
            "postMerge",
            Some(text(match policy.post_merge {
                PostMerge::Never => "never",
                PostMerge::Always => "always",
            })),
        ),
        ("trunks", Some(Node::List(policy.trunks.iter().map(|trunk| text(trunk.as_str())).collect()))),
        (
            "independence",
            Some(text(match policy.review.independence {
                Independence::Model => "model",
                Independence::Vendor => "vendor",
            })),
        ),
        ("reviewerTier", Some(text(if policy.review.not_lower { "not_lower" } else { "any" }))),
        ("scripted", stands_in("script", Backend::Scripted)),
        ("command", stands_in("argv", Backend::Command)),
        ("acp", stands_in("argv", Backend::Acp)),
    ])
}

fn usd(amount: UsdMicros) -> Node {
    number(usd_text(amount))
}

fn write_route(route: &Route, model: bool, reserve: bool) -> Node {
    let (provider, name) = route.identity.as_str().split_once('/').unwrap_or((route.identity.as_str(), ""));
    let amounts = |price: &Price| {
        [
            ("input", Some(number(price.input_uncached))),
            ("cacheRead", Some(number(price.cache_read))),
            ("cacheWrite", Some(number(price.cache_write))),
            ("output", Some(number(price.output))),
        ]
    };
    let peak = route.peak.as_ref().map(|peak| {
        let hours = Node::List(peak.hours.iter().map(|hours| text(hours_text(hours))).collect());
        map(amounts(&peak.price).into_iter().chain([("hours", Some(hours))]))
    });
    // Without a word the list of known prices would speak, which the recording did not.
    let price = route.price.as_ref().map_or(Node::Null, |price| {
        map(amounts(price).into_iter().chain([("unit", Some(text("usd_micros"))), ("peak", peak)]))
    });
    let fallback = route.fallback.iter().map(|key| text(key.as_str())).collect();
    map([
        ("tier", Some(text(format!("{:?}", route.tier)))),
        ("backend", Some(text(word_of(route.backend)))),
        ("provider", Some(text(provider))),
        ("model", model.then(|| text(name))),
        ("fallback", Some(Node::List(fallback))),
        ("price", Some(price)),
        ("reserveUsd", route.reserve.filter(|_| reserve).map(usd)),
        ("maxTokens", route.max_tokens.map(number)),
        ("maxParallel", route.max_parallel.map(number)),
    ])
}
