//! The configuration: every key, every refusal, and the repair that never goes further than what was written.
#![allow(clippy::unwrap_used, reason = "tests")]

use devloop_core::policy::{Acceptance, Backend, HighRisk, Independence, Limits, PostMerge};
use devloop_core::tier::Tier;
use devloop_core::units::{Price, UsdMicros};
use devloop_wire::config_doc::{self, AgentBackend, Config, Sandbox, SandboxMode, Weight};
use devloop_wire::config_price::PriceFrom;
use devloop_wire::{budget_doc, policy_doc};

fn parse(text: &str) -> Config {
    config_doc::parse(text.as_bytes()).unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
}

/// The refusals of a text, one line each.
fn refused(text: &str) -> String {
    match config_doc::parse(text.as_bytes()) {
        Ok(config) => panic!("accepted: {text} with {:?}", config.warnings),
        Err(faults) => faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

fn identities(config: &Config) -> String {
    let of = |key| config.routes[key].identity.as_str();
    let work: Vec<&str> = config.routing.values().map(of).collect();
    format!("{} | {} | {}", of(&config.planner), of(&config.reviewer), work.join(" "))
}

#[test]
fn an_empty_configuration_does_nothing_and_shows_what_it_would_do() {
    let config = parse("{}");
    assert_eq!(config, Config::default());
    assert_eq!(config.agent_backend, AgentBackend::Noop);
    assert!(config.routes.values().all(|route| route.backend == Backend::Noop));
    assert_eq!(config.limits, Limits::default());
    let dsh = "dsh/deepseek-flash";
    assert_eq!(identities(&config), format!("codex/gpt-5.4 | claude/opus | {dsh} {dsh} {dsh} codex/gpt-5.4"));
    assert!(config.warnings.is_empty());
    assert_eq!(config.policy().acceptance, Acceptance::Absent);
}

#[test]
fn the_keys_of_the_earlier_plugin_stay_valid() {
    let config = parse(
        r#"{"root":"/p","enabled":true,"tickIntervalMs":500,"agentBackend":"routed",
        "plannerRoute":{"tier":"T3","backend":"codex","model":"gpt-5.4"},
        "reviewerRoute":{"tier":"T3","backend":"claude","model":"opus"},
        "routing":{"T0":{"tier":"T0","backend":"dsh","model":"deepseek-v4-flash"},
                   "T1":{"tier":"T1","backend":"subagent:deepseek","model":null}},
        "budget":{"maxTaskAttempts":4,"maxRefusedDispatches":3,"maxReviewCycles":5,"taskTimeoutMinutes":10,
                  "taskLifetimeMinutes":100,"noProgressMinutes":20,"maxTokensPerTask":9,
                  "maxCostUsdPerSession":1.5,
                  "maxCostUsdPerDay":"30","maxSameAction":20,"maxParallelWorkers":2},
        "maxCostUsdPerDayAllProjects":0,"acceptance":[["npm","test"]],"acceptanceTimeoutMinutes":600,
        "prePrCheck":[],"prePrProfile":"","forge":{}}"#,
    );
    assert_eq!((config.root.as_deref(), config.tick_interval_ms), (Some("/p"), 500));
    let limits = &config.limits;
    assert_eq!((limits.task_attempts, limits.refusals, limits.review_cycles), (4, 3, 5));
    assert_eq!((limits.dispatch_minutes, limits.lifetime_minutes, limits.no_progress_minutes), (10, 100, 20));
    assert_eq!((limits.tokens_per_task, limits.same_action, limits.parallel_process), (9, 20, 2));
    assert_eq!((limits.cost_session, limits.cost_day), (UsdMicros(1_500_000), UsdMicros(30_000_000)));
    assert_eq!(limits.cost_day_all_projects, limits.cost_day);
    assert_eq!(config.acceptance, [["npm", "test"]]);
    let t1 = &config.routes[&config.routing[&Tier::T1]];
    assert_eq!(
        (t1.backend, t1.provider.as_str(), t1.model.as_deref()),
        (Backend::Subagent, "deepseek", None)
    );
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn the_new_keys_are_read() {
    let config = parse(
        r#"{"agentBackend":"routed","plannerRoute":"T3","reviewModel":"sonnet",
        "routing":{"T0":"cheap","T3":{"backend":"codex","model":"gpt-5.4","fallback":["cheap","own"]}},
        "routes":{"cheap":{"backend":"dsh","provider":"deepseek","model":"v4/flash","tier":"T0",
                  "reserveUsd":"0.05",
                  "maxTokens":8000,"maxParallel":2,
                  "price":{"input":0.14,"cacheRead":"0.0028","output":1.5e0}},
                  "own":{"backend":"command",
                  "price":{"unit":"usd_micros","input":7,"cacheWrite":8,"output":9}}},
        "command":{"argv":["agent","--go"]},"highRisk":"hold_before_work",
        "postMerge":"always","trunks":["stable"],
        "independence":"vendor","reviewerTier":"not_lower","protectedTests":["tests/**"],
        "protectedPaths":["ci/**"],"modeChanges":["bin/*"],"maxBinaryBytes":7,
        "ignoredWrites":["local/*"],
        "sandbox":"landlock","sandboxRead":["/opt/tools"],"sandboxWrite":["~/.cache"],
        "processLimits":{"cpuSeconds":10,"fileBytes":17592186044416,"openFiles":64},
        "budget":{"maxCostUsdPerGoal":5,"maxCostUsdPerTask":1,"maxParallelPerProject":1,"maxRefreshes":4,
                  "maxReplans":5,"maxOrphans":6,"maxPlanAttempts":7,"maxPlanRefusals":8,"diskLowBytes":9},
        "maxCostUsdPerDayAllProjects":50}"#,
    );
    assert_eq!(config.planner.as_str(), "T3");
    assert_eq!(config.routes[&config.reviewer].identity.as_str(), "claude/sonnet");
    assert_eq!(config.routing[&Tier::T0].as_str(), "cheap");
    let cheap = &config.routes[&config.routing[&Tier::T0]];
    assert_eq!((cheap.identity.as_str(), cheap.tier), ("dsh/v4/flash", Tier::T0));
    assert_eq!(
        (cheap.reserve, cheap.max_tokens, cheap.max_parallel),
        (Some(UsdMicros(50_000)), Some(8_000), Some(2))
    );
    let price = Price { input_uncached: 140_000, cache_read: 2_800, cache_write: 140_000, output: 1_500_000 };
    assert_eq!(cheap.price, Some(price));
    let own = config.routes.values().find(|route| route.backend == Backend::Command).unwrap();
    assert_eq!(own.price, Some(Price { input_uncached: 7, cache_read: 7, cache_write: 8, output: 9 }));
    let t3: Vec<&str> = config.routes[&config.planner].fallback.iter().map(|key| key.as_str()).collect();
    assert_eq!(t3, ["cheap", "own"]);
    assert_eq!((config.high_risk, config.post_merge), (HighRisk::HoldBeforeWork, PostMerge::Always));
    assert_eq!((config.review.independence, config.review.not_lower), (Independence::Vendor, true));
    assert_eq!(config.limits.cost_goal, Some(UsdMicros(5_000_000)));
    assert_eq!(config.limits.cost_day_all_projects, UsdMicros(50_000_000));
    assert_eq!((config.limits.plan_refusals, config.limits.disk_low_bytes), (8, 9));
    let sandbox = Sandbox {
        mode: SandboxMode::Landlock,
        read: vec!["/opt/tools".into()],
        write: vec!["~/.cache".into()],
    };
    assert_eq!(config.sandbox, sandbox);
    let used = config.process_limits;
    assert_eq!((used.cpu_seconds, used.file_bytes), (Some(10), Some(17_592_186_044_416)));
    assert_eq!((used.open_files, used.memory_bytes), (Some(64), None));
    assert_eq!((config.mode_changes.clone(), config.binary_max_bytes), (vec!["bin/*".to_owned()], 7));
    assert_eq!(config.ignored_writes, ["local/*"]);
    assert_eq!(config.adapter(Backend::Command).argv, ["agent", "--go"]);
}

#[test]
fn a_scripted_night_needs_nothing_but_its_script() {
    let config = parse(r#"{"agentBackend":"scripted","scripted":{"script":"night.json"}}"#);
    assert!(
        config.routes.values().all(|route| route.backend == Backend::Scripted && route.reserve.is_none())
    );
    let worker = "scripted/worker";
    assert_eq!(
        identities(&config),
        format!("scripted/planner | scripted/reviewer | {worker} {worker} {worker} {worker}")
    );
    assert_eq!(config.script.as_deref(), Some("night.json"));
    let text = r#"{"agentBackend":"scripted","scripted":{"script":"s","reserveUsd":0.25},
        "routing":{"T1":{"reserveUsd":0.1,"backend":"scripted"}}}"#;
    let config = parse(text);
    let reserve = |key| config.routes[key].reserve;
    assert_eq!(reserve(&config.planner), Some(UsdMicros(250_000)));
    assert_eq!(reserve(&config.routing[&Tier::T1]), Some(UsdMicros(100_000)));
    assert_eq!(refused(r#"{"agentBackend":"scripted"}"#).lines().count(), 1);
}

#[test]
fn one_backend_everywhere_needs_another_model_for_reviews() {
    let said = refused(r#"{"agentBackend":"claude"}"#);
    assert!(
        said.starts_with("reviewerRoute: is claude/default, and routing.T0 works as claude/default"),
        "{said}"
    );
    let config =
        parse(r#"{"agentBackend":"claude","reviewModel":"opus","routing":{"T2":{"model":"sonnet"}}}"#);
    assert_eq!(
        identities(&config),
        "claude/default | claude/opus | claude/default claude/default claude/sonnet claude/default"
    );
    assert_eq!(config.routes[&config.planner].model, None);
}

#[test]
fn known_prices_are_taken_from_the_dated_list_unless_the_configuration_says_otherwise() {
    let of = |text: &str| {
        let config = parse(&format!(r#"{{"agentBackend":"routed","command":{{"argv":["x"]}},{text}}}"#));
        config.routes[&config.planner].clone()
    };
    let listed = of(r#""plannerRoute":{"backend":"claude","model":"claude-opus-5-5"}"#);
    let price =
        Price { input_uncached: 4_000_000, cache_read: 200_000, cache_write: 5_000_000, output: 20_000_000 };
    assert_eq!(listed.price, Some(price));
    assert!(matches!(listed.price_from, PriceFrom::Listed(row) if row.as_of == "2026-11-30"), "{listed:?}");
    // Nobody guesses at a model that is not listed, or at another vendor's of the same name.
    for unknown in [
        r#""plannerRoute":{"backend":"claude","model":"claude-opus-9"}"#,
        r#""plannerRoute":{"backend":"claude","provider":"gateway","model":"claude-opus-5-5"}"#,
        r#""plannerRoute":{"backend":"claude","model":"claude-opus-5-5","price":null}"#,
    ] {
        let route = of(unknown);
        assert_eq!((route.price, route.peak, route.price_from), (None, None, PriceFrom::Nobody), "{unknown}");
    }
    let own =
        of(r#""plannerRoute":{"backend":"claude","model":"claude-opus-5-5","price":{"input":1,"output":2,
        "peak":{"input":3,"output":4,"hours":["sat-sun 00:00-24:00"]}}}"#);
    assert_eq!((own.price.map(|price| price.output), own.price_from), (Some(2_000_000), PriceFrom::Own));
    assert_eq!(own.peak.map(|peak| (peak.price.input_uncached, peak.hours.len())), Some((3_000_000, 1)));

    let yuan = of(r#""plannerRoute":{"backend":"dsh","model":"deepseek-flash"}"#);
    assert_eq!(yuan.price, None);
    assert!(matches!(yuan.price_from, PriceFrom::NoRate(_)), "{yuan:?}");
    let dollars = of(r#""usdPerCny":0.14,"plannerRoute":{"backend":"dsh","model":"deepseek-flash"}"#);
    let price = Price { input_uncached: 140_000, cache_read: 2_800, cache_write: 140_000, output: 560_000 };
    assert_eq!(dollars.price, Some(price));
    assert_eq!(dollars.peak.map(|peak| peak.price.output), Some(1_120_000));
}

/// A configuration and a part of what is said about it; `: ` at the start stands for the whole document.
const REFUSALS: &[(&str, &str)] = &[
    ("[]", ": must be an object, not a list"),
    (r#"{"agentBacknd":"noop"}"#, "agentBacknd: unknown key; did you mean agentBackend?"),
    (
        r#"{"budget":{"maxTaskAttemps":1}}"#,
        "budget.maxTaskAttemps: unknown key; did you mean maxTaskAttempts?",
    ),
    (r#"{"zzzzzzzzzz":1}"#, "zzzzzzzzzz: unknown key"),
    (r#"{"usdPerCny":0}"#, "usdPerCny: must be the US dollars that one yuan is worth, above zero"),
    (
        r#"{"plannerRoute":{"price":{"input":1,"output":2,"peak":{"input":1,"output":2}}}}"#,
        "plannerRoute.price.peak.hours: must be named",
    ),
    (
        r#"{"plannerRoute":{"price":{"input":1,"output":2,
            "peak":{"input":1,"output":2,"hours":["mon 23:00-01:00"]}}}}"#,
        "plannerRoute.price.peak.hours[0]: must be days and hours in UTC",
    ),
    (r#"{"agentBackend":"cluade"}"#, "agentBackend: must be one of noop, scripted, command, claude, codex"),
    (r#"{"agentBackend":"cluade"}"#, "did you mean claude?"),
    (r#"{"agentBackend":["noop"]}"#, "agentBackend: must be one of"),
    (r#"{"agentBackend":"forge"}"#, "agentBackend: forge is known and not built yet"),
    (r#"{"reviewerRoute":{"backend":"forge"}}"#, "reviewerRoute.backend: forge is known and not built yet"),
    (
        r#"{"agentBackend":"routed","routing":{"T0":{"backend":"local"}}}"#,
        "routing.T0.backend: local is the earlier name of command",
    ),
    (
        r#"{"agentBackend":"routed","routing":{"T0":{"backend":"local"}}}"#,
        "command.argv: is missing; routing.T0",
    ),
    (r#"{"claude":{"argss":["x"]}}"#, "claude.argss: unknown key; did you mean args?"),
    (r#"{"codex":{"args":[1]}}"#, "codex.args[0]: must be a text, not a number"),
    (r#"{"codex":{"env":["A-B"]}}"#, "codex.env[0]: must be the name of a variable"),
    (r#"{"dsh":{"env":["GH_TOKEN"]}}"#, "dsh.env[0]: is never given to a worker: every GH_* is withheld"),
    (r#"{"command":{"argv":["a"],"args":["b"]}}"#, "command.args: belongs to the argv here"),
    (
        r#"{"agentBackend":"claude"}"#,
        "reviewerRoute: is claude/default, and routing.T0 works as claude/default",
    ),
    (r#"{"agentBackend":"claude"}"#, "set reviewModel"),
    (r#"{"routing":{"T4":{}}}"#, "routing.T4: unknown key"),
    (r#"{"routing":{"T0":{"modle":"x"}}}"#, "routing.T0.modle: unknown key; did you mean model?"),
    (r#"{"routing":{"T0":{"model":"a b"}}}"#, "routing.T0.model: must not contain white space"),
    (r#"{"routing":{"T0":{"provider":"a/b"}}}"#, "routing.T0.provider: must not contain white space or '/'"),
    (r#"{"routing":{"T0":{"tier":"T9"}}}"#, "routing.T0.tier: must be one of T0, T1, T2, T3"),
    (
        r#"{"routing":{"T0":{"fallback":["T7"]}}}"#,
        "routing.T0.fallback[0]: there is no route \"T7\"; did you mean T",
    ),
    (
        r#"{"routing":{"T0":{"fallback":["T0"]}}}"#,
        "routing.T0.fallback[0]: a route cannot take over from itself",
    ),
    (r#"{"plannerRoute":"leader"}"#, "plannerRoute: there is no route \"leader\""),
    (r#"{"plannerRoute":"T0","routing":{"T0":"planner"}}"#, "plannerRoute: there is no route"),
    (r#"{"routes":{"T1":{"backend":"dsh"}}}"#, "routes.T1: the name T1 is taken"),
    (r#"{"routes":{"a b":{"backend":"dsh"}}}"#, "routes.a b: the name must be 1 to 200 characters"),
    (r#"{"routes":{"x":{}}}"#, "routes.x.backend: a named route needs its backend"),
    (r#"{"routing":{"T0":{"backend":"subagent"}}}"#, "routing.T0.provider: a subagent needs its provider"),
    (
        r#"{"agentBackend":"dsh","reviewModel":"x","routing":{"T0":{"backend":"codex"}}}"#,
        "routing.T0.backend: is codex",
    ),
    (
        r#"{"agentBackend":"command","reviewModel":"x"}"#,
        "command.argv: is missing; routing.T0 has the backend",
    ),
    (
        r#"{"routing":{"T0":{"price":{"input":1}}}}"#,
        "routing.T0.price.output: a price needs input and output",
    ),
    (r#"{"routing":{"T0":{"price":{"input":-1,"output":1}}}}"#, "routing.T0.price.input: must be an amount"),
    (r#"{"routing":{"T0":{"maxParallel":0}}}"#, "routing.T0.maxParallel: must be a whole number from 1"),
    (
        r#"{"budget":{"maxTaskAttempts":0}}"#,
        "budget.maxTaskAttempts: must be a whole number from 1 to 1000000",
    ),
    (r#"{"budget":{"maxTaskAttempts":1.5}}"#, "budget.maxTaskAttempts: must be a whole number"),
    (r#"{"budget":{"maxTaskAttempts":"3"}}"#, "budget.maxTaskAttempts: must be a whole number"),
    (r#"{"budget":{"maxSameAction":21}}"#, "budget.maxSameAction: must be a whole number from 1 to 20"),
    (r#"{"budget":{"maxCostUsdPerDay":-1}}"#, "budget.maxCostUsdPerDay: must be an amount of US dollars"),
    (r#"{"budget":{"maxCostUsdPerDay":1e99}}"#, "budget.maxCostUsdPerDay: must be at most"),
    (r#"{"budget":{"maxCostUsdPerDay":"NaN"}}"#, "budget.maxCostUsdPerDay: must be an amount of US dollars"),
    (r#"{"budget":[]}"#, "budget: must be an object, not a list"),
    (r#"{"tickIntervalMs":499}"#, "tickIntervalMs: must be a whole number from 500"),
    (r#"{"acceptanceTimeoutMinutes":601}"#, "acceptanceTimeoutMinutes: must be a whole number from 1 to 600"),
    (r#"{"acceptance":"npm test"}"#, "acceptance: must be a list of commands"),
    (r#"{"acceptance":["npm test"]}"#, "acceptance[0]: must be a list of texts, not a text"),
    (r#"{"acceptance":[[]]}"#, "acceptance[0]: must be a command with its arguments"),
    (r#"{"acceptance":[["ok"],["--x"]]}"#, "acceptance[1][0]: must be a command, not an option"),
    (r#"{"acceptance":[["ok",""]]}"#, "acceptance[0][1]: must be a text that is not empty"),
    (r#"{"acceptance":[["ok",1]]}"#, "acceptance[0][1]: must be a text, not a number"),
    (r#"{"protectedPaths":["../x"]}"#, "protectedPaths[0]: must be a relative glob"),
    (r#"{"modeChanges":["/x"]}"#, "modeChanges[0]: must be a relative glob"),
    (r#"{"ignoredWrites":["../x"]}"#, "ignoredWrites[0]: must be a relative glob"),
    (
        r#"{"processLimits":{"cpuSeconds":9}}"#,
        "processLimits.cpuSeconds: must be a whole number from 10 to 604800; without it there is no limit",
    ),
    (r#"{"processLimits":{"cpuSeconds":604801}}"#, "processLimits.cpuSeconds: must be"),
    (r#"{"processLimits":{"fileBytes":1048575}}"#, "processLimits.fileBytes: must be"),
    (r#"{"processLimits":{"fileBytes":17592186044417}}"#, "processLimits.fileBytes: must be"),
    (r#"{"processLimits":{"openFiles":"many"}}"#, "processLimits.openFiles: must be"),
    (r#"{"processLimits":{"openFiles":1048577}}"#, "processLimits.openFiles: must be"),
    (r#"{"processLimits":{"memoryBytes":67108863}}"#, "processLimits.memoryBytes: must be"),
    (
        r#"{"processLimits":{"memoryByte":1}}"#,
        "processLimits.memoryByte: unknown key; did you mean memoryBytes?",
    ),
    (r#"{"processLimits":7}"#, "processLimits: must be an object"),
    (r#"{"sandbox":"on"}"#, "sandbox: must be"),
    (r#"{"sandboxRead":["tools"]}"#, "sandboxRead[0]: must be an absolute path"),
    (r#"{"sandboxWrite":["~/../x"]}"#, "sandboxWrite[0]: must be an absolute path"),
    (r#"{"maxBinaryBytes":-1}"#, "maxBinaryBytes: must be"),
    (r#"{"trunks":["a..b"]}"#, "trunks[0]: must be a branch name"),
    (r#"{"highRisk":"never"}"#, "highRisk: must be one of hold_before_merge, hold_before_work"),
    (r#"{"postMerge":true}"#, "postMerge: must be one of never, always"),
    (r#"{"independence":"provider"}"#, "independence: must be one of model, vendor"),
    (
        r#"{"reviewerTier":"not_lover"}"#,
        "reviewerTier: must be one of any, not_lower; did you mean not_lower?",
    ),
    (r#"{"enabled":"yes"}"#, "enabled: must be true or false"),
    (r#"{"root":""}"#, "root: must be a text that is not empty"),
    (r#"{"prePrCheck":["x"]}"#, "prePrCheck: the pre-PR checker is known and not built yet"),
    (r#"{"budget":{"maxReplans":1,"maxReplans":2}}"#, "the key \"maxReplans\" stands twice"),
    ("{\"budget\":{},\n}", "at line 2 column 1"),
];

#[test]
fn every_refusal_names_field_and_rule() {
    for (text, expect) in REFUSALS {
        let said = refused(text);
        assert!(
            said.contains(expect) || expect.strip_prefix(": ").is_some_and(|e| said.starts_with(e)),
            "{text}\n{said}"
        );
    }
}

#[test]
fn nobody_reviews_their_own_work() {
    let own = r#"{"reviewerRoute":{"backend":"dsh","model":"deepseek-flash"}}"#;
    let said = refused(own);
    assert!(
        said.contains("reviewerRoute: is dsh/deepseek-flash, and routing.T0 works as dsh/deepseek-flash"),
        "{said}"
    );
    let behind =
        r#"{"routing":{"T1":{"fallback":["spare"]}},"routes":{"spare":{"backend":"claude","model":"opus"}}}"#;
    let said = refused(behind);
    assert!(said.contains("reviewerRoute: is claude/opus, and routes.spare works as claude/opus"), "{said}");
    let vendor = r#"{"independence":"vendor","reviewerRoute":{"backend":"dsh","model":"deepseek-pro"}}"#;
    assert!(refused(vendor).contains("reviewerRoute: is dsh/deepseek-pro"));
    parse(&vendor.replace("vendor", "model"));
    // Among several reviewers the core finds one that differs; that only deserves a warning.
    let second = r#"{"reviewerRoute":{"fallback":["T1"]}}"#;
    let config = parse(second);
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    assert_eq!(
        (config.warnings[0].path.as_str(), config.warnings[0].weight),
        ("routing.T1", Weight::Warning)
    );
}

/// A slip of the pen in a model's name is said while someone is there to mend it; a newer model is not one.
#[test]
fn a_model_that_looks_like_a_slip_of_the_pen_is_said_with_the_one_that_was_meant() {
    let said = |backend: &str, model: &str| {
        let route = format!(r#"{{"backend":"{backend}","model":"{model}"}}"#);
        let config = parse(&format!(r#"{{"agentBackend":"routed","routing":{{"T1":{route}}}}}"#));
        config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let cases = [
        ("claude", "sonet", "sonnet"),
        ("claude", "hiaku", "haiku"),
        ("claude", "claude-sonet-5-5", "claude-sonnet-5-5"),
        ("codex", "gtp-5.5", "gpt-5.5"),
        ("dsh", "deepseek-falsh", "deepseek-flash"),
    ];
    for (backend, model, meant) in cases {
        let expected =
            format!("routing.T1.model: {model} is no model that is known here; did you mean {meant}?");
        assert_eq!(said(backend, model), expected);
    }
    let newer = [("claude", "claude-sonnet-6-1"), ("codex", "gpt-6"), ("dsh", "deepseek-v5-flash")];
    let others = [("claude", "claude-mythos-1"), ("codex", "o9-mini"), ("dsh", "sonet")];
    for (backend, model) in newer.into_iter().chain(others) {
        assert_eq!(said(backend, model), "", "{backend} {model}");
    }
    let chosen = parse(r#"{"agentBackend":"routed","reviewModel":"opsu"}"#);
    let expected = "reviewerRoute: opsu is no model that is known here; did you mean opus?";
    assert_eq!(chosen.warnings[0].to_string(), expected);
}

/// A key in the wrong object is told its place, not a neighbour that looks like it.
#[test]
fn a_key_in_the_wrong_object_is_told_where_it_belongs() {
    let limit = refused(r#"{"maxParallelWorkers":4}"#);
    assert_eq!(limit, "maxParallelWorkers: unknown key; it belongs under budget");
    let cap = refused(r#"{"budget":{"maxCostUsdPerDayAllProjects":4}}"#);
    assert_eq!(cap, "budget.maxCostUsdPerDayAllProjects: unknown key; it belongs at the top");
    assert_eq!(refused(r#"{"model":"sonnet"}"#), "model: unknown key");
    assert_eq!(refused(r#"{"acceptanec":[]}"#), "acceptanec: unknown key; did you mean acceptance?");
}

#[test]
fn zero_is_a_limit_for_money_only_and_a_reserve_above_a_cap_is_said() {
    let base = r#""agentBackend":"scripted","scripted":{"script":"s"}"#;
    let config = parse(&format!(r#"{{{base},"budget":{{"maxCostUsdPerDay":0}}}}"#));
    assert_eq!(config.limits.cost_day, UsdMicros(0));
    assert_eq!(config.warnings.len(), 6, "{:?}", config.warnings);
    let said = config.warnings[0].to_string();
    assert!(
        said.contains("a dispatch reserves 0.5 USD, more than all of budget.maxCostUsdPerDay (0 USD)"),
        "{said}"
    );
    let at =
        |cap: &str| parse(&format!(r#"{{{base},"budget":{{"maxCostUsdPerTask":{cap}}}}}"#)).warnings.len();
    assert_eq!((at("0.5"), at("0.499999")), (0, 6));
    // A known price with a ceiling says more than the default reserve.
    let priced = r#""routing":{"T0":{"maxTokens":1000000,"price":{"input":1,"output":3}}}"#;
    let config = parse(&format!(r#"{{{base},{priced}}}"#));
    assert!(config.warnings[0].to_string().starts_with("routing.T0: a dispatch reserves 3 USD"));
}

#[test]
fn money_is_read_by_its_digits() {
    let day = |text: &str| parse(&format!(r#"{{"budget":{{"maxCostUsdPerDay":{text}}}}}"#)).limits.cost_day.0;
    assert_eq!(day("0.10000000000000000001"), 100_001);
    assert_eq!(day("8.7"), 8_700_000);
    assert_eq!(day("\"12.345678\""), 12_345_678);
    let (config, faults) = config_doc::repair(&serde_json::json!({"budget": {"maxCostUsdPerDay": 8.7}}));
    assert_eq!((config.limits.cost_day.0, faults.len()), (8_700_000, 0));
}

#[test]
fn a_repair_never_goes_further_than_what_was_written() {
    let scripted = serde_json::json!({"agentBackend": "scripted", "scripted": {"script": "s"}});
    let with = |key: &str, value: serde_json::Value| {
        let mut all = scripted.clone();
        all[key] = value;
        config_doc::repair(&all)
    };
    let open = |config: &Config| config.routes.values().all(|route| route.backend == Backend::Scripted);
    let (config, faults) = config_doc::repair(&scripted);
    assert!(open(&config) && faults.is_empty());
    // Numbers fall back to their default, unknown keys are left out.
    for (key, value) in [
        ("tickIntervalMs", serde_json::json!("often")),
        ("nonsense", serde_json::json!(1)),
        ("budget", serde_json::json!({"maxTaskAttempts": -1, "nonsense": 2})),
    ] {
        let (config, faults) = with(key, value);
        assert!(
            open(&config) && !faults.is_empty() && config.limits == Limits::default(),
            "{key} {faults:?}"
        );
        assert_eq!(config.warnings, faults);
    }
    // Money that cannot be read is no money.
    let (config, faults) = with("budget", serde_json::json!({"maxCostUsdPerDay": "2,50"}));
    assert_eq!(config.limits.cost_day, UsdMicros(0));
    assert!(faults[0].to_string().ends_with("it counts as 0"), "{faults:?}");
    // Anything that guards work or names who works closes every route.
    for (key, value) in [
        ("acceptance", serde_json::json!("npm test")),
        ("agentBackend", serde_json::json!(["scripted"])),
        ("highRisk", serde_json::json!("off")),
        ("protectedPaths", serde_json::json!(["/etc"])),
        ("modeChanges", serde_json::json!(["/etc"])),
        ("reviewerRoute", serde_json::json!({"model": "worker"})),
        ("routing", serde_json::json!({"T1": "nowhere"})),
        ("budget", serde_json::json!("lots")),
    ] {
        let (config, faults) = with(key, value);
        assert_eq!(config.agent_backend, AgentBackend::Noop, "{key}");
        assert!(config.routes.values().all(|route| route.backend == Backend::Noop), "{key}");
        assert!(
            faults.iter().any(|f| f.what.ends_with("every route is closed until it is mended")),
            "{key} {faults:?}"
        );
    }
    for value in [serde_json::json!(null), serde_json::json!({})] {
        assert_eq!(config_doc::repair(&value), (Config::default(), Vec::new()));
    }
    assert_eq!(config_doc::repair(&serde_json::json!([1])).1.len(), 1);
    assert_eq!(config_doc::repair_text(b"{").1.len(), 1);
}

#[test]
fn the_policy_is_complete_named_by_its_content_and_reads_back() {
    let text = r#"{"agentBackend":"routed","acceptance":[["make","test"]],"trunks":["stable"]}"#;
    let policy = parse(text).policy();
    assert_eq!(policy_doc::parse_policy(&policy_doc::policy_bytes(&policy)).unwrap(), policy);
    assert_eq!(policy_doc::seal(policy.clone()), policy);
    assert_eq!(parse(text).policy().digest, policy.digest);
    for key in [&policy.planner, &policy.reviewer].into_iter().chain(policy.routing.values()) {
        assert!(policy.routes.contains_key(key));
    }
    // Each of these is another policy; two of them have other checks too.
    let checks = |text: &str| parse(text).policy().acceptance;
    let slower = text.replace("}", r#","acceptanceTimeoutMinutes":16}"#);
    let other = text.replace("make", "gmake");
    for changed in [&slower, &other] {
        assert_ne!(checks(changed), checks(text));
        assert_ne!(parse(changed).policy().digest, policy.digest);
    }
    let cap = text.replace("}", r#","budget":{"maxCostUsdPerDay":19.999999}}"#);
    assert_eq!(checks(&cap), checks(text));
    assert_ne!(parse(&cap).policy().digest, policy.digest);
}

#[test]
fn policy_documents_are_refused_with_their_field() {
    let text = String::from_utf8(policy_doc::policy_bytes(&parse("{}").policy())).unwrap();
    let table = [
        (
            r#""planner":"planner""#,
            r#""planner":"nobody""#,
            "policy.json: policy.planner: there is no route nobody",
        ),
        (r#""version":2"#, r#""version":3"#, "policy.json: it has version 3"),
        (
            r#""task_attempts":3"#,
            r#""task_attempts":-3"#,
            "policy.json: policy.limits.task_attempts: invalid value",
        ),
        (r#""t0":"T0""#, r#""t0":"T9""#, "policy.json: policy.routing.t0: there is no route T9"),
        (r#""limits":{"#, r#""limits":{"x":1,"#, "policy.json: policy.limits.x: unknown field"),
    ];
    for (from, to, expect) in table {
        assert!(text.contains(from), "{from} is not in {text}");
        let said = policy_doc::parse_policy(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
        assert!(said.starts_with(expect), "{said}");
    }
}

#[test]
fn budgets_are_written_under_the_old_names_and_read_back() {
    let text =
        r#"{"budget":{"maxCostUsdPerTask":0.000001,"maxSameAction":7},"maxCostUsdPerDayAllProjects":3.25}"#;
    for limits in [Limits::default(), parse(text).limits] {
        assert_eq!(budget_doc::parse(&budget_doc::write(&limits)).unwrap(), limits);
    }
    let text = String::from_utf8(budget_doc::write(&Limits::default())).unwrap();
    assert!(text.contains("\"maxCostUsdPerSession\": 2,\n") && !text.contains("maxCostUsdPerGoal"), "{text}");
    assert_eq!(budget_doc::parse(b"{}").unwrap(), Limits::default());
    let faults = budget_doc::parse(br#"{"maxTaskAttemps":1,"maxReplans":0}"#).unwrap_err();
    let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(said[0], "maxTaskAttemps: unknown key; did you mean maxTaskAttempts?");
    assert!(said[1].starts_with("maxReplans: must be a whole number from 1"), "{said:?}");
}
