//! A policy file over a recorded policy: the configuration's own keys, rules and refusals.

use devloop_core::policy::{Acceptance, Policy};
use devloop_core::units::{Price, UsdMicros};
use devloop_testkit::random::Inputs;
use devloop_wire::config_doc::{self, Weight};
use devloop_wire::config_overlay::apply;
use devloop_wire::digest_bytes;

fn demo() -> Policy {
    let config = r#"{"agentBackend":"routed","routing":{"T1":{"backend":"claude","model":"small",
        "price":{"input":1,"output":5}},"T2":"T1","T3":"lead"},
        "routes":{"lead":{"backend":"codex","model":"big","reserveUsd":0.2}},
        "budget":{"maxCostUsdPerGoal":3,"maxTaskAttempts":2},"acceptance":[["true"]]}"#;
    config_doc::parse(config.as_bytes()).expect("a configuration").policy()
}

fn laid(policy: &Policy, overlay: &str) -> Policy {
    apply(policy, overlay.as_bytes()).unwrap_or_else(|faults| panic!("{overlay}: {faults:?}")).0
}

fn faults(overlay: &str) -> Vec<String> {
    let faults = apply(&demo(), overlay.as_bytes()).expect_err(overlay);
    faults.iter().filter(|fault| fault.weight > Weight::Warning).map(ToString::to_string).collect()
}

#[test]
fn nothing_laid_over_changes_nothing() {
    assert_eq!(laid(&demo(), "{}"), demo());
    for seed in 0..200 {
        let policy = Inputs::new(seed).policy();
        assert_eq!(laid(&policy, "{}"), policy, "seed {seed}");
    }
    let defaults = config_doc::Config::default().policy();
    assert_eq!(laid(&defaults, "{}"), defaults);
}

#[test]
fn single_keys_are_laid_over_and_the_digest_stays() {
    let (before, after) = (demo(), laid(&demo(), r#"{"budget":{"maxCostUsdPerGoal":0.75}}"#));
    assert_eq!(after.limits.cost_goal, Some(UsdMicros(750_000)));
    assert_eq!(after.limits.task_attempts, 2, "what is not named stays");
    assert_eq!((&after.digest, &after.routes), (&before.digest, &before.routes));
    assert_eq!(laid(&demo(), r#"{"budget":{"maxCostUsdPerGoal":null}}"#).limits.cost_goal, None);

    let dearer = laid(&demo(), r#"{"routing":{"T1":{"price":{"input":2,"output":10}}}}"#);
    let route = dearer.routes.iter().find(|(key, _)| key.as_str() == "T1").expect("T1").1;
    let price = Price {
        input_uncached: 2_000_000,
        cache_read: 2_000_000,
        cache_write: 2_000_000,
        output: 10_000_000,
    };
    assert_eq!((route.price, route.identity.as_str()), (Some(price), "claude/small"));

    let moved = laid(&demo(), r#"{"routing":{"T1":"lead"}}"#);
    assert_eq!(moved.routing[&devloop_core::tier::Tier::T1].as_str(), "lead");
}

#[test]
fn a_daily_cap_takes_the_cap_of_all_projects_with_it_where_that_followed_it() {
    let lower = laid(&demo(), r#"{"budget":{"maxCostUsdPerDay":4}}"#);
    assert_eq!(
        (lower.limits.cost_day, lower.limits.cost_day_all_projects),
        (UsdMicros(4_000_000), UsdMicros(4_000_000))
    );
}

#[test]
fn recorded_checks_stay_unless_other_ones_are_named() {
    assert_eq!(laid(&demo(), r#"{"highRisk":"hold_before_work"}"#).acceptance, demo().acceptance);
    assert_ne!(laid(&demo(), r#"{"acceptance":[["false"]]}"#).acceptance, demo().acceptance);
    let odd = Policy { acceptance: Acceptance::Digest(digest_bytes(b"lost")), ..demo() };
    assert_eq!(laid(&odd, "{}").acceptance, odd.acceptance);
}

#[test]
fn faults_have_a_path_and_the_nearest_key() {
    assert_eq!(faults(r#"{"budgt":{}}"#), ["budgt: unknown key; did you mean budget?"]);
    let said = faults(r#"{"budget":{"maxCostUsdPerGoals":1}}"#);
    assert_eq!(said, ["budget.maxCostUsdPerGoals: unknown key; did you mean maxCostUsdPerGoal?"]);
    assert!(
        faults(r#"{"budget":{"maxParallelPerProject":0}}"#)[0]
            .starts_with("budget.maxParallelPerProject: must be")
    );
    assert!(faults(r#"{"routing":{"T1":"leed"}}"#)[0].contains("did you mean lead?"));
    assert!(faults("[]")[0].contains("must be an object with keys of a configuration"));
    assert!(faults("{").len() == 1);
    assert_eq!(faults(r#"{"budget":{},"budget":{}}"#).len(), 1);
}

#[test]
fn a_whole_configuration_may_be_laid_over_and_what_decides_nothing_is_named() {
    let (_, said) = apply(&demo(), br#"{"tickIntervalMs":500,"root":"/x"}"#).expect("no fault");
    let said: Vec<&str> = said.iter().map(|remark| remark.path.as_str()).collect();
    assert_eq!(said, ["tickIntervalMs", "root"]);
    let scripted =
        config_doc::parse(br#"{"agentBackend":"scripted","scripted":{"script":"x","reserveUsd":0.05}}"#);
    let policy = scripted.expect("a configuration").policy();
    let own = br#"{"agentBackend":"scripted","scripted":{"script":"x","reserveUsd":0.1}}"#;
    let (after, _) = apply(&policy, own).expect("its own configuration");
    assert!(after.routes.values().all(|route| route.reserve == Some(UsdMicros(100_000))));
}
