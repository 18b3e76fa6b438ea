//! Agents of the embedding process as workers: what they are told, and what becomes of every way in which one
//! can end. The process is the test.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use devloop_core::effect::{Contract, Effect, Start};
use devloop_core::ids::DispatchId;
use devloop_core::policy::Backend;
use devloop_core::report::{FailureClass, Outcome, Report, Usage, UsageSource};
use devloop_core::units::Tokens;
use devloop_host::backend::AgentPort;
use serde_json::{Value, json};

use crate::ground::{Ground, key, review_job, route, work_job};

const LIMIT_MS: u64 = 60_000;

/// What the embedding process was asked, in order.
type Asked = Arc<Mutex<Vec<Value>>>;

/// A project whose route `own` is an agent that answers each message as `answer` says, on another thread.
fn ground(answer: impl Fn(&Value) -> Vec<Value> + Send + Sync + 'static) -> (Ground, Asked) {
    let (port, asked) = (Arc::new(OnceLock::<Arc<AgentPort>>::new()), Asked::default());
    let (own, noted, answer) = (Arc::clone(&port), Arc::clone(&asked), Arc::new(answer));
    let hand = move |text: String| {
        let (own, noted, answer) = (Arc::clone(&own), Arc::clone(&noted), Arc::clone(&answer));
        thread::spawn(move || {
            let message: Value = serde_json::from_str(&text).unwrap();
            noted.lock().unwrap().push(message.clone());
            for mut told in answer(&message) {
                told["dispatch"] = message["dispatch"].clone();
                own.get().unwrap().tell(&told.to_string()).unwrap();
            }
        });
        true
    };
    let made = port.get_or_init(|| Arc::new(AgentPort::new(Box::new(hand))));
    let ground = Ground::with(&json!([]), |config| {
        config.routes.insert(key("own"), route(Backend::Subagent, "spawn/model-1"));
        config.routes.insert(key("agent"), route(Backend::DshAgent, "own-llm/model-2"));
        config.agents = Some(Arc::clone(made));
    });
    (ground, asked)
}

fn start(ground: &Ground, route: &str, contract: &Contract, limit_ms: u64) -> DispatchId {
    let job = work_job(contract, Start::Fresh);
    ground.dispatch(route, limit_ms, job)
}

fn work(ground: &Ground, limit_ms: u64) -> Report {
    let contract = ground.contract("t", &["src/**"]);
    ground.report(start(ground, "own", &contract, limit_ms))
}

fn call(input: u64, output: u64) -> Value {
    json!({ "usage": { "inputTokens": input, "outputTokens": output } })
}

fn used(input: u64, output: u64) -> Option<Usage> {
    let tokens = Tokens { input_uncached: input, output, ..Tokens::default() };
    Some(Usage::per_dispatch(UsageSource::AgentPort, tokens, None))
}

fn done(summary: &str) -> Value {
    let envelope = json!({ "version": 1, "kind": "implementation", "taskId": "t", "outcome": "completed",
                           "summary": summary });
    json!({ "end": { "kind": "completed", "structured": envelope, "text": "" } })
}

#[test]
fn an_agent_gets_its_own_folder_and_model_and_every_call_counts_once() {
    let (ground, asked) = ground(|message| {
        fs::write(Path::new(message["cwd"].as_str().unwrap()).join("src/made.txt"), "made").unwrap();
        vec![call(1000, 40), call(7, 2), done("ok"), done("a second end is nobody's")]
    });
    let report = work(&ground, LIMIT_MS);
    assert_eq!(report.outcome, Outcome::Worked { summary: "ok".into() });
    assert_eq!(report.usage, used(1007, 42));
    let message = asked.lock().unwrap()[0].clone();
    assert_eq!(message["provider"], "spawn");
    assert_eq!((&message["llm"], &message["model"]), (&Value::Null, &json!("model-1")));
    assert_eq!((&message["reads"], &message["label"]), (&json!(false), &json!("DevLoop: work t")));
    assert_eq!(message["schema"]["properties"]["kind"]["enum"], json!(["implementation"]));
    let cwd = Path::new(message["cwd"].as_str().unwrap());
    assert!(cwd.starts_with(ground.root.join(".devloop/worktrees")), "{cwd:?}");
    assert!(cwd.join("src/made.txt").exists() && !ground.root.join("src/made.txt").exists());
}

#[test]
fn a_reviewer_may_only_read_and_the_agent_of_dsh_has_the_provider_of_its_route() {
    let (ground, asked) = ground(|message| {
        let text = message["prompt"].as_str().unwrap();
        assert!(text.contains("review"), "{text}");
        vec![json!({ "end": { "kind": "completed", "text": "no verdict" } })]
    });
    let contract = ground.contract("t", &["src/**"]);
    let job = review_job(&contract, &ground.head());
    let report = ground.report(ground.dispatch("agent", LIMIT_MS, job));
    assert!(matches!(report.outcome, Outcome::NoResult { .. }), "{:?}", report.outcome);
    let message = asked.lock().unwrap()[0].clone();
    assert_eq!((&message["reads"], &message["provider"]), (&json!(true), &json!("spawn")));
    assert_eq!((&message["llm"], &message["model"]), (&json!("own-llm"), &json!("model-2")));
}

#[test]
fn a_result_that_misses_the_form_is_asked_for_once_more_by_one_that_only_reads() {
    let (ground, asked) = ground(|message| {
        let first = message["reads"] == false;
        let broken = json!({ "end": { "kind": "completed", "text": "<devloop_result>{\"version\":" } });
        if first { vec![call(10, 1), broken] } else { vec![call(5, 2), done("mended")] }
    });
    let report = work(&ground, LIMIT_MS);
    assert_eq!(report.outcome, Outcome::Worked { summary: "mended".into() });
    assert_eq!(report.usage, used(15, 3));
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[test]
fn a_cancel_and_a_deadline_end_the_agent_and_keep_what_it_used() {
    let stops = |message: &Value| match message["kind"].as_str() {
        Some("stop") => vec![call(1, 1), json!({ "end": { "kind": "aborted" } })],
        _ => vec![call(20, 3)],
    };
    let (cancelled, asked) = ground(stops);
    let contract = cancelled.contract("t", &["src/**"]);
    let dispatch = start(&cancelled, "own", &contract, LIMIT_MS);
    while asked.lock().unwrap().is_empty() {
        thread::yield_now();
    }
    cancelled.performer.perform(Effect::Cancel { dispatch });
    let report = cancelled.report(dispatch);
    assert_eq!(class_of(&report), Some(FailureClass::Cancelled));
    assert_eq!(report.usage.map(|used| used.tokens.output >= 1), Some(true));

    let (late, asked) = ground(stops);
    let report = work(&late, 300);
    assert_eq!(class_of(&report), Some(FailureClass::Deadline));
    assert_eq!(report.usage, used(21, 4));
    assert_eq!(asked.lock().unwrap().last().unwrap()["kind"], "stop");
}

fn class_of(report: &Report) -> Option<FailureClass> {
    match &report.outcome {
        Outcome::Failed { class, .. } => Some(class.clone()),
        _ => None,
    }
}

#[test]
fn a_port_that_nobody_hears_is_a_refusal() {
    let port = Arc::new(AgentPort::new(Box::new(|_| false)));
    let ground = Ground::with(&json!([]), |config| {
        config.routes.insert(key("own"), route(Backend::Subagent, "spawn/model-1"));
        config.agents = Some(port);
    });
    let report = work(&ground, LIMIT_MS);
    assert!(matches!(report.outcome, Outcome::Refused { .. }), "{:?}", report.outcome);
    assert_eq!(report.usage, None);
}
