//! Two real loops of one user at the same moment, one of them killed in the middle: together they never have
//! more workers than there are slots, and never spend and set aside more than the cap of all projects.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use devloop_core::ids::DispatchId;
use devloop_host::effects::run_record::marker_at;
use devloop_host::process::tree::markers_with;
use serde_json::{Value, json};

use crate::support::{Bench, PROGRAM};

const SLOTS: usize = 2;
const TASKS: usize = 4;
const RESERVE: u64 = 50_000;
const COST: u64 = 40_000;
/// The longest wait for anything; it only keeps a lost event from hanging the test.
const PATIENCE: Duration = Duration::from_secs(60);

/// A project whose workers are processes of their own, as those of people are, and take so long.
fn project(bench: &Bench, name: &str, cap: f64, delay_ms: u32) -> PathBuf {
    let root = devloop_host::backend::demo::sample_repo(&bench.path(name)).unwrap();
    let rule = |role: &str, more: Value| {
        let mut rule = json!({ "role": role, "process": true, "delayMs": 100,
                               "usage": { "costUsd": COST as f64 / 1e6 } });
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rule
    };
    let names: Vec<String> = (0..TASKS).map(|at| format!("t{at}")).collect();
    let planned = |task: &String| {
        json!({ "id": task, "title": task, "tier": "T1", "risk": "low", "dependsOn": [],
                "allowedPaths": [format!("{task}/**")], "acceptance": ["it is there"] })
    };
    let plan: Vec<Value> = names.iter().map(planned).collect();
    let mut rules = vec![rule("plan", json!({ "result": { "plan": plan } }))];
    rules.extend(names.iter().map(|task| {
        let edits = json!([{ "path": format!("{task}/text"), "content": "one\n" }]);
        let more = json!({ "task": task, "edits": edits, "delayMs": delay_ms,
                           "result": { "work": "completed" } });
        rule("work", more)
    }));
    rules.push(rule("review", json!({ "result": { "review": "pass" } })));
    let config = json!({
        "agentBackend": "scripted", "tickIntervalMs": 500,
        "scripted": { "script": ".devloop/demo.json", "reserveUsd": RESERVE as f64 / 1e6 },
        "budget": { "maxParallelWorkers": SLOTS, "maxParallelPerProject": SLOTS },
        "maxCostUsdPerDayAllProjects": cap,
    });
    fs::write(root.join(".devloop/config.json"), config.to_string()).unwrap();
    fs::write(root.join(".devloop/demo.json"), json!({ "version": 1, "rules": rules }).to_string()).unwrap();
    root
}

/// Looks at the process table all the time.
struct Lookout {
    stop: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Lookout {
    fn start(roots: &[&Path]) -> Lookout {
        let dispatch = DispatchId(1);
        let start = |root: &&Path| marker_at(root, dispatch).strip_suffix("d1").unwrap().to_owned();
        let starts: Vec<String> = roots.iter().map(start).collect();
        let (stop, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (ends, seen) = (Arc::clone(&stop), Arc::clone(&most));
        let thread = std::thread::spawn(move || {
            let mut before = BTreeSet::new();
            while !ends.load(Ordering::Relaxed) {
                let now: BTreeSet<String> = starts.iter().flat_map(|start| markers_with(start)).collect();
                // A look takes its time. Who is in two that follow each other was there between them, all of
                // them in the same moment; no dispatch has the id of another one.
                seen.fetch_max(now.intersection(&before).count(), Ordering::Relaxed);
                before = now;
            }
        });
        Lookout { stop, most, thread }
    }

    /// The most workers that were alive in one moment.
    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.most.load(Ordering::Relaxed)
    }
}

fn start(bench: &Bench, root: &Path) -> Child {
    let mut command = bench.command(PROGRAM);
    command.args(["run", root.to_str().unwrap(), "--until-idle"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The ledger's whole lines.
fn lines(bench: &Bench) -> Vec<Value> {
    let text = fs::read_to_string(bench.path("dsh/devloop/ledger.jsonl")).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !seen() {
        assert!(Instant::now() < end, "not seen: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The most money of all moments of the ledger, which is appended to and synced under one lock before any
/// worker starts.
fn most_money(lines: &[Value]) -> u64 {
    let mut entries: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut most = 0;
    for line in lines {
        let void = line["certainty"] == "void";
        let key = ["project", "dispatch"].map(|name| line[name].as_str().unwrap().to_owned());
        let money = if void { 0 } else { line["usd_micros"].as_u64().unwrap() };
        entries.insert(key.into(), money);
        most = most.max(entries.values().sum());
    }
    most
}

/// Both at once; the first is killed while it has a worker and started again while the other one works.
/// Answers the most workers and the most money there ever were.
fn night(bench: &Bench, one: &Path, other: &Path) -> (usize, u64) {
    let lookout = Lookout::start(&[one, other]);
    let (mut first, mut second) = (start(bench, one), start(bench, other));
    let started = |root: &Path, op: &str| -> BTreeSet<String> {
        let (root, all) = (root.to_str().unwrap(), lines(bench));
        let starts = |line: &&Value| {
            line["project"] == root && line["slot"] == true && (op.is_empty() || line["op"] == op)
        };
        let names = all.iter().filter(starts);
        names.map(|line| line["dispatch"].as_str().unwrap().to_owned()).collect()
    };
    until("the first loop has a worker", || {
        let marker = |d: &String| marker_at(one, DispatchId::parse(d).unwrap());
        let running = markers_with("");
        started(one, "work").iter().any(|dispatch| running.contains(&marker(dispatch)))
            || first.try_wait().unwrap().is_some()
    });
    first.kill().unwrap();
    first.wait().unwrap();
    // Its worker dies with it; the second loop may take the slot as soon as that is seen, and not before.
    let before = started(other, "").len();
    until("the second loop goes on", || {
        started(other, "").len() >= before + 2 || second.try_wait().unwrap().is_some()
    });
    first = start(bench, one);
    for child in [&mut first, &mut second] {
        assert!(child.wait().unwrap().code().is_some(), "it ends by itself");
    }
    (lookout.end(), most_money(&lines(bench)))
}

#[test]
fn two_loops_share_slots_and_both_reach_their_goals() {
    let bench = Bench::new();
    let (one, other) = (project(&bench, "one", 20.0, 1_500), project(&bench, "other", 20.0, 400));
    let (most, _) = night(&bench, &one, &other);
    for root in [&one, &other] {
        let (_, view) = bench.status(root);
        assert_eq!(view["phase"], "complete", "{view:#}");
    }
    assert_eq!(most, SLOTS, "every slot was used, and none twice");
    let left: Vec<Value> = lines(&bench).into_iter().filter(|line| line["slot"] == true).collect();
    let last = |of: &Value| {
        let same = |line: &&Value| line["project"] == of["project"] && line["dispatch"] == of["dispatch"];
        lines(&bench).iter().rfind(same).unwrap()["slot"].clone()
    };
    assert!(left.iter().all(|line| last(line) == false), "every slot was given back");
}

#[test]
fn two_loops_never_spend_more_than_the_cap_of_all_projects() {
    let bench = Bench::new();
    // Both goals would take 18 runs of 0.04 USD.
    let cap = 500_000;
    let (one, other) = (project(&bench, "one", 0.5, 1_500), project(&bench, "other", 0.5, 400));
    let (most, money) = night(&bench, &one, &other);
    assert!(most <= SLOTS, "{most} workers at once");
    assert!(money <= cap, "{money} of {cap} were spent or set aside");
    assert!(money > cap - RESERVE - COST, "{money} only: the cap was never reached");
    let views = [&one, &other].map(|root| bench.status(root).1);
    assert!(views.iter().any(|view| view["phase"] != "complete"), "{views:#?}");
}
