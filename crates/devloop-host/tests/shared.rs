//! Projects of one user: together they never use more slots than there are, none keeps another from working,
//! and those that want more have even shares.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use devloop_host::backend::demo;
use devloop_host::supervisor::{Options, Supervisor};
use serde_json::{Value, json};

/// The longest wait for a wake; it only keeps a lost one from hanging the test.
const PATIENCE: Duration = Duration::from_secs(5);
const SLOTS: usize = 2;

/// A project with so many tasks of their own folders, whose workers take a moment.
fn project(tasks: usize) -> tempfile::TempDir {
    project_on(tasks, SLOTS)
}

fn project_on(tasks: usize, slots: usize) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("root");
    demo::sample_repo(root.path()).expect("sample");
    let names: Vec<String> = (0..tasks).map(|at| format!("t{at}")).collect();
    let planned = |task: &String| {
        json!({ "id": task, "title": task, "tier": "T1", "risk": "low", "dependsOn": [],
                "allowedPaths": [format!("{task}/**")], "acceptance": ["it is there"] })
    };
    let work = |task: &String| {
        json!({ "role": "work", "task": task, "delayMs": 150,
                "edits": [{ "path": format!("{task}/text"), "content": "one\n" }],
                "result": { "work": "completed", "summary": "written" }, "usage": { "costUsd": 0.01 } })
    };
    let plan: Vec<Value> = names.iter().map(planned).collect();
    let mut rules = vec![json!({ "role": "plan", "result": { "plan": plan }, "usage": { "costUsd": 0.01 } })];
    rules.extend(names.iter().map(work));
    rules.push(json!({ "role": "review", "result": { "review": "pass" }, "usage": { "costUsd": 0.01 } }));
    let config = json!({
        "agentBackend": "scripted", "scripted": { "script": ".devloop/demo.json", "reserveUsd": 0.02 },
        "budget": { "maxParallelWorkers": slots, "maxParallelPerProject": slots },
    });
    let write = |name: &str, value: &Value| {
        std::fs::write(root.path().join(".devloop").join(name), value.to_string()).expect(name);
    };
    write("config.json", &config);
    write("demo.json", &json!({ "version": 1, "rules": rules }));
    root
}

struct User {
    home: tempfile::TempDir,
    woken: Receiver<()>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl User {
    fn new() -> User {
        let (send, woken) = channel();
        let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            let _ = send.send(());
        });
        User { home: tempfile::tempdir().expect("home"), woken, wake }
    }

    fn open(&self, root: &Path) -> Supervisor {
        let options = Options {
            root: root.to_path_buf(),
            devloop_home: self.home.path().to_path_buf(),
            config_json: String::new(),
            wake: Arc::clone(&self.wake),
            agents: None,
        };
        Supervisor::open(options).expect("open")
    }

    /// Waits until something ended, of whichever project.
    fn rest(&self) {
        let _ = self.woken.recv_timeout(PATIENCE);
        while self.woken.try_recv().is_ok() {}
    }
}

/// Planners, workers and reviewers that run.
fn models(supervisor: &Supervisor) -> usize {
    let view = supervisor.view();
    view.running.iter().filter(|run| ["plan", "work", "review"].contains(&run.op)).count()
}

#[test]
fn a_project_leaves_the_next_slot_to_one_that_has_none() {
    let (large, small, user) = (project(8), project(2), User::new());
    let mut first = user.open(large.path());
    // Until it holds every slot.
    for _ in 0..50 {
        first.tick().expect("tick");
        if models(&first) == SLOTS {
            break;
        }
        user.rest();
    }
    assert_eq!(models(&first), SLOTS, "{:?}", first.view());
    let mut second = user.open(small.path());
    let (mut worked, mut waited) = (false, false);
    for _ in 0..400 {
        // The large one always looks first: whatever is free it could take.
        let one = first.tick().expect("tick");
        let two = second.tick().expect("tick");
        assert!(models(&first) + models(&second) <= SLOTS, "{one:?} {two:?}");
        waited |= two.reason == "wait_shared";
        if models(&second) > 0 && !worked {
            worked = true;
            let left = first.view().tasks.iter().filter(|task| task.stage == "ready").count();
            assert!(left > 0, "the small project had to wait for the end of the large one");
        }
        if one.reason == "still_complete" && two.reason == "still_complete" {
            assert!(worked && waited, "{:?}", second.view());
            first.close().expect("close");
            return second.close().expect("close");
        }
        user.rest();
    }
    panic!("the goals are not reached: {:?} {:?}", first.view(), second.view());
}

#[test]
fn three_projects_that_want_more_have_even_shares() {
    const ALL: usize = 3;
    let user = User::new();
    let roots: Vec<_> = (0..ALL).map(|_| project_on(6, ALL)).collect();
    let mut loops: Vec<Supervisor> = roots.iter().map(|root| user.open(root.path())).collect();
    let running = |supervisor: &Supervisor| -> Vec<String> {
        supervisor.view().running.iter().map(|run| run.dispatch.clone()).collect()
    };
    // What ran when the last of them began to want more: nothing is taken from anybody.
    let mut old: Option<Vec<Vec<String>>> = None;
    let mut even = 0;
    for _ in 0..2_000 {
        let reports: Vec<_> = loops.iter_mut().map(|one| one.tick().expect("tick")).collect();
        let held: Vec<usize> = loops.iter().map(models).collect();
        assert!(held.iter().sum::<usize>() <= ALL, "{held:?}");
        if reports.iter().all(|report| report.reason == "still_complete") {
            assert!(even >= 5, "even shares were seen {even} times only");
            return loops.into_iter().for_each(|one| one.close().expect("close"));
        }
        let ready = |one: &Supervisor| one.view().tasks.iter().filter(|task| task.stage == "ready").count();
        if loops.iter().all(|one| ready(one) > 0) {
            let now: Vec<Vec<String>> = loops.iter().map(running).collect();
            let then = old.get_or_insert_with(|| now.clone());
            let over = then.iter().zip(&now).all(|(then, now)| then.iter().all(|run| !now.contains(run)));
            if over {
                let (most, least) = (held.iter().max().expect("three"), held.iter().min().expect("three"));
                assert!(most - least <= 1, "{held:?}");
                even += 1;
            }
        }
        user.rest();
    }
    panic!("the goals are not reached");
}
