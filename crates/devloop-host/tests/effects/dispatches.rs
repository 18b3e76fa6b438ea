//! Model dispatches: what the worker finds, what comes back, and how a run is ended.

use std::fs;

use devloop_core::effect::{Effect, Job, Start};
use devloop_core::ids::Branch;
use devloop_core::report::{FailureClass, Outcome};
use devloop_core::review::Verdict;
use devloop_core::units::UsdMicros;
use devloop_host::effects::run_record;
use serde_json::json;

use crate::ground::{Ground, review_job, work_job, writes};

#[test]
fn a_task_is_planned_worked_committed_reviewed_and_merged() {
    let ground = Ground::new(&json!([
        { "role": "plan", "edits": [{ "path": "stray.txt", "content": "never read" }],
          "result": { "plan": [{ "id": "greet", "title": "Greet", "tier": "T1", "risk": "low",
                                 "allowedPaths": ["src/**"], "acceptance": ["it greets"] }] },
          "usage": { "tokens": { "input": 1000, "output": 20 }, "costUsd": 0.0125 } },
        writes("greet", &[("src/new/greet.txt", "hello\n"), ("src/a.txt", "one\n2\nthree\n")]),
        { "role": "review", "task": "greet", "result": { "review": "pass", "notes": "fine" } }
    ]));
    let base = ground.head();
    let plan = Job::Plan { base: base.clone(), replaces: None, notes: String::new() };
    let planned = ground.report(ground.dispatch("worker", 60_000, plan));
    match &planned.outcome {
        Outcome::Planned { tasks } => assert_eq!(tasks[0].allowed_paths, ["src/**"]),
        other => panic!("{other:?}"),
    }
    assert_eq!(planned.usage.unwrap().cost, Some(UsdMicros(12_500)));
    assert_eq!(ground.worktrees(), [] as [&str; 0], "a plan's tree does not stay");

    let contract = ground.contract("greet", &["src/**"]);
    let head = ground.done(&contract, Start::Fresh);
    assert_eq!(ground.show(&head, "src/new/greet.txt"), "hello");
    let message = ground.git(&["log", "-1", "--format=%B", head.as_str()]);
    assert!(
        message.starts_with("greet: Do greet\n") && message.contains("Devloop-Route: worker"),
        "{message}"
    );

    let review = ground.report(ground.dispatch("reviewer", 60_000, review_job(&contract, &head)));
    match review.outcome {
        Outcome::Reviewed(review) => assert_eq!((review.verdict, review.head), (Verdict::Pass, head.clone())),
        other => panic!("{other:?}"),
    }
    match ground.merge(&contract, &head) {
        Outcome::Merged { commit } => assert_eq!(ground.head(), commit),
        other => panic!("{other:?}"),
    }
    // The checkout follows, and the stray file of the planner is nowhere.
    assert_eq!(fs::read_to_string(ground.root.join("src/new/greet.txt")).unwrap(), "hello\n");
    assert_eq!(ground.git(&["status", "--porcelain"]), "");
    assert_eq!(ground.inbox().len(), 5, "every report lies in the inbox until it is settled");
    let (root, repo) = (ground.root.clone(), ground.repo.clone());
    let branch = || repo.resolve("refs/heads/devloop/greet").unwrap();
    assert_eq!(branch(), Some(head), "it stays until the end of its task is recorded");
    let target = Branch::parse("work").unwrap();
    ground.performer.clear_leftovers(Vec::new(), vec![contract.task.clone()], Some(target));
    ground.performer.shutdown(60_000);
    assert_eq!(branch(), None, "then a merged branch goes, and the worktree that had it");
    assert!(!root.join("stray.txt").exists());
}

#[test]
fn a_worker_finds_its_contract_and_two_work_at_once() {
    let slow = |task: &str, path: &str| {
        json!({ "role": "work", "task": task, "delayMs": 300,
                "edits": [{ "path": path, "content": "x\n" }], "result": { "work": "completed" } })
    };
    let ground = Ground::new(&json!([slow("left", "left/x"), slow("right", "right/x")]));
    let (left, right) = (ground.contract("left", &["left"]), ground.contract("right", &["right"]));
    let (a, b) = (ground.start_work(&left, Start::Fresh), ground.start_work(&right, Start::Fresh));
    assert_eq!(ground.performer.in_flight(), [a, b]);
    // The same effect again is the same dispatch: it runs once.
    let job = work_job(&left, Start::Fresh);
    let again = Effect::Dispatch {
        dispatch: a,
        epoch: 1,
        route: crate::ground::key("worker"),
        limit_ms: 60_000,
        job,
    };
    ground.performer.perform(again);
    assert!(matches!(ground.report(a).outcome, Outcome::Worked { .. }));
    assert!(matches!(ground.report(b).outcome, Outcome::Worked { .. }));
    let text = ground.root.join(format!(".devloop/worktrees/{a}/.devloop/CONTRACT.json"));
    let contract: serde_json::Value = serde_json::from_str(&fs::read_to_string(text).unwrap()).unwrap();
    assert_eq!(contract["allowedPaths"], json!(["left"]));
    for (work, contract, path) in [(a, &left, "left/x"), (b, &right, "right/x")] {
        match ground.commit(work, contract) {
            Outcome::Committed { head } => assert_eq!(ground.show(&head, path), "x"),
            other => panic!("{other:?}"),
        }
    }
    assert!(ground.performer.in_flight().is_empty() && ground.is_quiet());
}

#[test]
fn a_dispatch_that_was_started_once_is_not_started_again() {
    let mut ground = Ground::new(&json!([writes("t", &[("src/b", "x")])]));
    let contract = ground.contract("t", &["src"]);
    let (work, _) = ground.work(&contract, Start::Fresh);
    ground.restart();
    let job = work_job(&contract, Start::Fresh);
    let route = crate::ground::key("worker");
    ground.performer.perform(Effect::Dispatch { dispatch: work, epoch: 1, route, limit_ms: 60_000, job });
    match ground.report(work).outcome {
        Outcome::Failed { class: FailureClass::Machine, detail } => {
            assert!(detail.contains("started before"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nobody_is_reached_by_a_refused_dispatch() {
    let ground = Ground::new(&json!([{ "role": "work", "task": "t", "result": { "end": "refuse" } }]));
    let contract = ground.contract("t", &["src"]);
    let check = |route: &str, words: &str| {
        let job = work_job(&contract, Start::Fresh);
        let report = ground.report(ground.dispatch(route, 60_000, job));
        match report.outcome {
            Outcome::Refused { detail } => assert!(detail.contains(words), "{detail}"),
            other => panic!("{other:?}"),
        }
        assert!(report.usage.is_none());
    };
    check("closed", "noop");
    check("missing", "claude");
    check("unknown", "not configured");
    check("worker", "refuses");
    let other = ground.contract("other", &["src"]);
    assert!(matches!(ground.work(&other, Start::Fresh).1, Outcome::Refused { .. }), "no rule");
}

#[test]
fn results_that_are_none_and_provider_faults_are_named() {
    let end =
        |task: &str, result: serde_json::Value| json!({ "role": "work", "task": task, "result": result });
    let ground = Ground::new(&json!([
        end("none", json!({ "end": "none" })),
        end("invalid", json!({ "end": "invalid" })),
        end("blocked", json!({ "work": "blocked", "summary": "which port?" })),
        end("credit", json!({ "end": "out_of_credit" })),
        end("limit", json!({ "rateLimited": { "resetInMs": 5000 } })),
        end("crash", json!({ "end": "crash" })),
        { "role": "work", "task": "killed", "process": true, "result": { "end": "crash" } },
    ]));
    let outcome = |task: &str| ground.work(&ground.contract(task, &["src"]), Start::Fresh).1;
    let class = |task: &str| match outcome(task) {
        Outcome::Failed { class, .. } => class,
        other => panic!("{task}: {other:?}"),
    };
    assert!(matches!(outcome("none"), Outcome::NoResult { .. }));
    assert!(matches!(outcome("invalid"), Outcome::InvalidResult { .. }));
    assert!(matches!(outcome("blocked"), Outcome::WorkBlocked { summary } if summary == "which port?"));
    assert_eq!(class("credit"), FailureClass::OutOfCredit);
    assert!(matches!(class("limit"), FailureClass::RateLimited { until: Some(_) }));
    // A thread that ends early and a process that is killed end in a report as any other.
    assert_eq!(class("crash"), FailureClass::Machine);
    assert_eq!(class("killed"), FailureClass::Machine);
}

#[test]
fn a_run_ends_at_its_deadline_and_on_request_in_a_thread_and_as_a_process() {
    let hang = |task: &str, process: bool| {
        json!({ "role": "work", "task": task, "process": process, "result": { "end": "hang" },
                "usage": { "tokens": { "input": 7 } } })
    };
    let ground = Ground::new(&json!([hang("thread", false), hang("process", true)]));
    for task in ["thread", "process"] {
        let contract = ground.contract(task, &["src"]);
        let job = work_job(&contract, Start::Fresh);
        let report = ground.report(ground.dispatch("worker", 400, job));
        assert!(
            matches!(report.outcome, Outcome::Failed { class: FailureClass::Deadline, .. }),
            "{task}: {:?}",
            report.outcome
        );
        assert_eq!(report.usage.unwrap().tokens.input_uncached, 7, "its money counts all the same");
        ground.performer.perform(Effect::RemoveWorktree { dispatch: report.dispatch });

        let work = ground.start_work(&contract, Start::Fresh);
        ground.performer.perform(Effect::Cancel { dispatch: work });
        let report = ground.report(work);
        let Outcome::Failed { class, .. } = report.outcome else { panic!("{:?}", report.outcome) };
        assert_eq!(class, FailureClass::Cancelled, "{task}");
        let record = run_record::read(&ground.setting.disk, &ground.setting.armed, work).unwrap().unwrap();
        assert_eq!(devloop_host::process::tree::alive(&record.tree()), []);
        assert_eq!(record.leader.is_some(), task == "process");
        // Again, and for one that nobody knows: the same world.
        ground.performer.perform(Effect::Cancel { dispatch: work });
        ground.performer.perform(Effect::Cancel { dispatch: ground.next() });
    }
}

#[test]
fn a_reviewer_that_lies_names_the_commit_it_lies_about() {
    let ground = Ground::new(&json!([
        writes("t", &[("src/b", "x")]),
        { "role": "review", "attempt": 1, "result": { "review": "pass", "head": "base" } },
        { "role": "review", "attempt": 2, "edits": [{ "path": "src/b", "content": "mine" }],
          "result": { "text": "<devloop_result>{\"version\":1,\"kind\":\"review\"" } },
    ]));
    let contract = ground.contract("t", &["src"]);
    let head = ground.done(&contract, Start::Fresh);
    let review = || {
        let job = review_job(&contract, &head);
        ground.report(ground.dispatch("reviewer", 60_000, job)).outcome
    };
    match review() {
        Outcome::Reviewed(review) => assert_eq!(review.head, contract.base),
        other => panic!("{other:?}"),
    }
    assert!(matches!(review(), Outcome::InvalidResult { .. }));
    assert_eq!(ground.show(&head, "src/b"), "x");
}

#[test]
fn an_owner_that_was_replaced_performs_nothing_and_parks_nothing() {
    let ground = Ground::new(&json!([writes("t", &[("src/b", "x")])]));
    let contract = ground.contract("t", &["src"]);
    ground.owned.store(false, std::sync::atomic::Ordering::SeqCst);
    let (work, outcome) = ground.work(&contract, Start::Fresh);
    assert!(matches!(outcome, Outcome::Refused { .. }), "{outcome:?}");
    assert_eq!((ground.inbox(), ground.worktrees()), (vec![], vec![]));
    assert!(run_record::read(&ground.setting.disk, &ground.setting.armed, work).unwrap().is_none());
}

#[test]
fn shutting_down_cancels_models_and_every_report_is_kept() {
    let ground = Ground::new(&json!([{ "role": "work", "result": { "end": "hang" } }]));
    let work = ground.start_work(&ground.contract("t", &["src"]), Start::Fresh);
    let inbox = ground.setting.armed.inbox().join(format!("{work}.json"));
    ground.performer.shutdown(60_000);
    let report: devloop_core::report::Report = serde_json::from_slice(&fs::read(inbox).unwrap()).unwrap();
    assert!(matches!(report.outcome, Outcome::Failed { class: FailureClass::Cancelled, .. }));
    assert_eq!((report.dispatch, report.epoch), (work, 1));
}

/// A worker that runs into a limit failed by itself, and the outcome says at which.
#[test]
fn a_worker_above_a_limit_is_an_outcome_with_a_sentence() {
    for (length, is_over) in [(4096, false), (4097, true)] {
        let mut rule = writes("t", &[("src/b", &*"x".repeat(length))]);
        rule["process"] = true.into();
        let ground = Ground::with(&json!([rule]), |config| config.limits.file_bytes = Some(4096));
        let contract = ground.contract("t", &["src"]);
        match ground.work(&contract, Start::Fresh).1 {
            Outcome::Worked { .. } => assert!(!is_over, "{length}"),
            Outcome::Failed { class: FailureClass::Task, detail } => {
                assert!(is_over, "{length}: {detail}");
                let expect = "the worker's process was ended: it wrote a file above processLimits.fileBytes, \
                              4096 bytes";
                assert_eq!(detail, expect);
            }
            other => panic!("{other:?}"),
        }
    }
}
