//! One model is one reviewer, whichever backend and whichever name of its provider lead to it.
#![allow(clippy::unwrap_used, reason = "tests")]

use devloop_wire::config_doc::{self, Config};
use devloop_wire::config_price::PriceFrom;

fn config(routes: &str) -> Result<Config, Vec<config_doc::ConfigFault>> {
    let text =
        format!(r#"{{"agentBackend":"routed","command":{{"argv":["x"]}},"acp":{{"argv":["x"]}},{routes}}}"#);
    config_doc::parse(text.as_bytes())
}

/// The identity of a route.
fn identity(route: &str) -> String {
    // Fallbacks are judged too; the planner is nobody's reviewer.
    let config = config(&format!(r#""plannerRoute":{route}"#)).unwrap_or_else(|faults| panic!("{faults:?}"));
    config.routes[&config.planner].identity.to_string()
}

/// Every way to the same model, by vendor: backend, provider.
const WAYS: &[(&str, &[(&str, &str)])] = &[
    (
        "dsh",
        &[
            ("dsh", ""),
            ("dsh", "dsh"),
            ("dsh", "deepseek"),
            ("dsh", "DeepSeek"),
            ("dsh", "deepseek-official"),
            ("dsh-agent", ""),
            ("dsh_agent", ""),
            ("dsh-agent", "dsh"),
            ("dsh-agent", "deepseek"),
            ("dsh-agent", "deepseek-official"),
            ("subagent:spawn", ""),
            ("subagent:fork", ""),
            ("subagent:deepseek", ""),
            ("subagent:a-kind-of-your-own", ""),
            ("subagent", "spawn"),
            ("acp", "deepseek"),
            ("command", "deepseek"),
            ("codex", "deepseek"),
            ("claude", "deepseek"),
        ],
    ),
    (
        "claude",
        &[
            ("claude", ""),
            ("claude", "anthropic"),
            ("claude", "Claude"),
            ("dsh", "anthropic"),
            ("dsh-agent", "anthropic"),
            ("acp", "anthropic"),
            ("command", "claude"),
            ("subagent:claude", ""),
        ],
    ),
    (
        "codex",
        &[
            ("codex", ""),
            ("codex", "openai"),
            ("dsh", "openai"),
            ("dsh-agent", "openai"),
            ("acp", "openai"),
            ("command", "codex"),
        ],
    ),
    ("gateway", &[("dsh", "gateway"), ("dsh-agent", "gateway"), ("claude", "gateway"), ("acp", "Gateway")]),
    ("acp", &[("acp", "")]),
    ("command", &[("command", "")]),
];

fn route((backend, provider): (&str, &str), model: &str) -> String {
    let provider = if provider.is_empty() { String::new() } else { format!(r#","provider":"{provider}""#) };
    format!(r#"{{"backend":"{backend}"{provider},"model":"{model}"}}"#)
}

#[test]
fn every_way_to_a_model_has_its_one_identity() {
    for (vendor, ways) in WAYS {
        for way in *ways {
            assert_eq!(identity(&route(*way, "Some-Model")), format!("{vendor}/some-model"), "{way:?}");
        }
    }
}

/// For each pair of ways: refused when they lead to one model, taken when to two.
#[test]
fn no_pair_of_ways_lets_a_model_review_its_own_work() {
    let all: Vec<(&str, (&str, &str))> =
        WAYS.iter().flat_map(|(vendor, ways)| ways.iter().map(|way| (*vendor, *way))).collect();
    for (one, worker) in &all {
        for (other, reviewer) in &all {
            let work = route(*worker, "m");
            let pair = |model: &str| {
                let review = route(*reviewer, model);
                let tiers = ["T0", "T1", "T2", "T3"].map(|tier| format!(r#""{tier}":{work}"#)).join(",");
                config(&format!(r#""reviewerRoute":{review},"routing":{{{tiers}}}"#))
            };
            let said = format!("{worker:?} {reviewer:?}");
            match pair("m") {
                Err(faults) => {
                    assert_eq!(one, other, "{said} {faults:?}");
                    let why = format!("reviewerRoute: is {one}/m, and routing.T0 works as {one}/m");
                    assert!(faults[0].to_string().starts_with(&why), "{faults:?}");
                }
                Ok(config) => {
                    assert_ne!(one, other, "{said} is taken for two people");
                    // The same name at another provider: maybe the same model behind a gateway.
                    let warned = config.warnings.iter().any(|w| w.what.contains("one and the same model"));
                    assert!(warned, "{said} {:?}", config.warnings);
                }
            }
            assert!(pair("n").is_ok_and(|config| config.warnings.is_empty()), "{said}");
        }
    }
}

#[test]
fn a_model_that_its_adapter_chooses_may_be_the_one_that_is_named() {
    let with = |reviewer: &str| {
        config(&format!(
            r#""reviewerRoute":{{"backend":"dsh","model":{reviewer}}},
            "routing":{{"T0":"T1","T1":{{"backend":"dsh-agent"}},"T2":"T1","T3":"T1"}}"#
        ))
    };
    let warned = with(r#""pro""#).unwrap().warnings;
    let said: Vec<String> = warned.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("reviewerRoute: is dsh/pro, and routing.T1 works as dsh/default"),
        "{said:?}"
    );
    assert!(with("null").is_err(), "both are what DSH chooses");
}

#[test]
fn a_known_price_is_found_whichever_way_leads_to_the_model() {
    for backend in ["dsh", "dsh-agent", "subagent:spawn"] {
        let route =
            format!(r#""usdPerCny":0.14,"plannerRoute":{{"backend":"{backend}","model":"deepseek-flash"}}"#);
        let config = config(&route).unwrap();
        let planner = &config.routes[&config.planner];
        assert!(matches!(planner.price_from, PriceFrom::Listed(_)), "{backend} {:?}", planner.price_from);
        assert_eq!(planner.price.map(|price| price.output), Some(560_000), "{backend}");
    }
}
