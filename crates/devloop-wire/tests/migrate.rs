//! Version 1 states become version 2 states, or are refused with the field at fault.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use devloop_core::hold::{HoldKind, Subject};
use devloop_core::ids::{Branch, DispatchId};
use devloop_core::invariant;
use devloop_core::ledger::Certainty;
use devloop_core::state::{LoopState, Phase, Planning};
use devloop_core::task::{Done, ResumeTo, Stage, Task};
use devloop_core::units::{UsdMicros, WallMs};
use devloop_wire::fault::{DocError, Fault};
use devloop_wire::migrate::{self, OldFiles, Present};
use devloop_wire::state_doc;
use serde_json::{Value, json};
use support::{digest, oid, task_id};

const OLD: &str = include_str!("../../../tests/documents/v1/0.3-first-task/STATE.json");
const NEW: &str = include_str!("../../../tests/documents/v1/0.6-every-status/STATE.json");
const UPDATED: WallMs = WallMs(1_785_000_000_000);

fn migrate(state: Option<&[u8]>, events: Option<&[u8]>) -> Result<LoopState, DocError> {
    migrate::migrate(&OldFiles { state, events, ..OldFiles::default() }, &Present::default())
}

fn migrate_with(text: &str, present: &Present) -> LoopState {
    migrate::migrate(&OldFiles { state: Some(text.as_bytes()), ..OldFiles::default() }, present).unwrap()
}

fn taken(text: &str) -> LoopState {
    let state = migrate(Some(text.as_bytes()), None).unwrap();
    invariant::check(&state).unwrap();
    // What was carried over is a document of its own: it is written and read like any other.
    assert_eq!(state_doc::parse(&state_doc::write(&state)).unwrap(), state);
    state
}

/// The fixture with a change.
fn changed(text: &str, change: impl Fn(&mut Value)) -> String {
    let mut value: Value = serde_json::from_str(text).unwrap();
    change(&mut value);
    value.to_string()
}

fn task<'a>(state: &'a LoopState, id: &str) -> &'a Task {
    state.tasks.get(&task_id(id)).unwrap()
}

#[test]
fn a_state_of_release_0_3_goes_on_where_it_was() {
    let state = taken(OLD);
    assert_eq!((state.revision, state.goal.number, &state.phase), (4, 1, &Phase::Active));
    assert_eq!(state.planning, Planning::Idle);
    assert_eq!(state.target.branch, None);
    let first = task(&state, "TASK-001");
    assert_eq!((&first.stage, first.counters.attempts, first.counters.busy_ms), (&Stage::Ready, 1, 0));
    assert!(first.base.is_none() && first.depends_on.is_empty());
    // The plugin worked in order, one at a time.
    let second = task(&state, "__proto__");
    assert_eq!(
        (second.depends_on.as_slice(), second.counters.attempts),
        ([task_id("TASK-001")].as_slice(), 0)
    );
}

#[test]
fn every_status_has_its_stage() {
    let state = taken(NEW);
    let stage = |id: &str| task(&state, id).stage.clone();
    assert_eq!(stage("g2-merged"), Stage::Done(Done::MergedElsewhere));
    assert_eq!(stage("g2-accepted"), Stage::Done(Done::Accepted));
    assert_eq!(stage("g2-unproven"), Stage::AwaitingReview { head: oid('6') });
    assert_eq!(stage("g2-review"), Stage::AwaitingReview { head: oid('8') });
    assert_eq!(stage("g2-rework"), Stage::Rework { notes: "mend the loop".into() });
    assert_eq!(stage("g2-running"), Stage::Ready);
    assert_eq!(stage("g2-ready"), Stage::Ready);
    for (id, kind, detail) in [
        ("g2-lost", HoldKind::MissingReviewWorktree, ""),
        ("g2-blocked", HoldKind::BlockedTask, "no network"),
        ("g2-replan", HoldKind::ReviewRequestedReplan, ""),
        ("g2-failed", HoldKind::RepeatedTestFailure, ""),
    ] {
        let Stage::Held { resume_to, hold } = stage(id) else { panic!("{id} is not held") };
        assert_eq!((resume_to, hold.kind, hold.detail.as_str()), (ResumeTo::Ready, kind, detail), "{id}");
        assert_eq!((hold.revision, hold.opened_at), (57, UPDATED), "{id}");
    }
    let without_hold = taken(&changed(NEW, |v| v["supervisor"] = Value::Null));
    let Stage::MergeReady(reviewed) = &task(&without_hold, "g2-merge").stage else { panic!("not proven") };
    assert_eq!(
        (reviewed.head(), reviewed.base(), reviewed.reviewer().as_str()),
        (&oid('4'), &oid('3'), "claude/opus")
    );
}

#[test]
fn a_pass_is_carried_over_only_when_it_is_proven() {
    let merge = |change: fn(&mut Value)| {
        let text = changed(NEW, |v| {
            v["supervisor"] = Value::Null;
            change(&mut v["tasks"][2]);
        });
        task(&taken(&text), "g2-merge").stage.clone()
    };
    assert!(matches!(merge(|_| ()), Stage::MergeReady(_)));
    let again = Stage::AwaitingReview { head: oid('4') };
    assert_eq!(merge(|t| t["reviewer"] = json!("dsh/deepseek-flash")), again);
    assert_eq!(merge(|t| t["reviewer"] = Value::Null), again);
    assert_eq!(merge(|t| t["implementer"] = Value::Null), again);
    assert_eq!(merge(|t| t["lastReviewVerdict"] = json!("REWORK")), again);
    assert_eq!(merge(|t| t["status"] = json!("review_pending")), again);
    let Stage::Held { hold, .. } = merge(|t| t["baseSha"] = Value::Null) else { panic!("not held") };
    assert_eq!(hold.kind, HoldKind::UnknownBase);
}

#[test]
fn usage_goal_branch_and_holds_are_kept() {
    let state = taken(NEW);
    let counters = &task(&state, "g2-merge").counters;
    assert_eq!((counters.attempts, counters.review_cycles, counters.refusals), (2, 2, 0));
    assert_eq!(task(&state, "g2-ready").counters.refusals, 1);
    assert_eq!(task(&state, "g2-ready").estimate.map(|e| (e.lines, e.files)), Some((120, 3)));
    assert_eq!(task(&state, "g2-failed").estimate, None);
    // Money of the day counts for the day, rounded up; tokens for their task; those of nobody are gone.
    let day = UPDATED.day();
    assert_eq!((state.clock.day, state.ledger.day(day).spent()), (day, UsdMicros(1_234_568)));
    assert_eq!(state.ledger.lineage_tokens(&task_id("g2-merge")), 1_235);
    assert_eq!((state.ledger.entries.len(), state.next_dispatch), (1, 2));
    assert_eq!(state.ledger.entries[&DispatchId(1)].certainty, Certainty::Measured);
    assert_eq!((state.goal.number, state.goal.started_at), (2, WallMs(1_784_998_800_000)));
    assert_eq!(state.target.branch, Some(Branch::parse("feature/night").unwrap()));
    // The hold lies on its task, keeps where it was, and was acknowledged.
    let Stage::Held { resume_to, hold } = &task(&state, "g2-merge").stage else { panic!("not held") };
    assert!(matches!(resume_to, ResumeTo::MergeReady(_)));
    assert_eq!(
        (hold.kind, hold.detail.as_str()),
        (HoldKind::TaskBranchTaken, "task_branch_taken:devloop/g2-merge")
    );
    assert_eq!(hold.acknowledged.as_ref().map(|a| a.at), Some(WallMs(1_785_000_060_000)));
    assert!(state.holds.is_empty() && state.phase == Phase::Active);
}

#[test]
fn what_the_host_sees_completes_what_the_files_lack() {
    let present = Present { goal: Some(digest('d')), branch: Some(Branch::parse("work").unwrap()) };
    let state = migrate_with(OLD, &present);
    assert_eq!((state.goal.digest, state.target.branch), (present.goal.clone(), present.branch.clone()));
    let state = migrate_with(NEW, &present);
    assert_eq!(state.target.branch.unwrap().as_str(), "feature/night");
    // Without a plan the goal starts anew, under its old number.
    let empty = changed(OLD, |v| v["tasks"] = json!([]));
    let state = migrate_with(&empty, &present);
    assert_eq!((state.goal.number, state.goal.digest, state.revision), (0, None, 4));
}

#[test]
fn stops_stay_stops_and_ends_stay_ends() {
    let phase = |change: fn(&mut Value)| taken(&changed(OLD, change)).phase;
    let by = |phase: Phase| match phase {
        Phase::Paused { by, .. } => by,
        other => panic!("{other:?}"),
    };
    let paused = phase(|v| {
        v["killSwitch"] = json!(true);
        v["paused"] = json!({"at": "2026-07-25T17:20:01.000Z", "via": "dashboard"});
    });
    assert_eq!(paused, Phase::Paused { by: "dashboard".into(), at: WallMs(1_785_000_001_000) });
    // A malformed pause was dropped by the plugin, and the kill switch kept the halt.
    assert_eq!(
        by(phase(|v| {
            v["killSwitch"] = json!(true);
            v["paused"] = json!("yes");
        })),
        "version 1"
    );
    assert_eq!(
        by(phase(|v| v["supervisor"] = json!({"taskId": null, "reason": "backend_failed"}))),
        "version 1: backend_failed"
    );
    // Caps, trunks and stand-stills are judged anew; only an acknowledged one stays a stop.
    let cap = json!({"taskId": null, "reason": "daily_cost_cap"});
    let mut stopped = serde_json::from_str::<Value>(OLD).unwrap();
    stopped["killSwitch"] = json!(true);
    stopped["supervisor"] = cap.clone();
    assert_eq!(taken(&stopped.to_string()).phase, Phase::Active);
    stopped["acknowledged"] = json!({"at": "x", "reason": "daily_cost_cap", "taskId": null});
    assert_eq!(by(taken(&stopped.to_string()).phase), "version 1: daily_cost_cap");
    let complete = changed(NEW, |v| {
        v["goalCompleted"] = json!(true);
        v["supervisor"] = Value::Null;
        for task in v["tasks"].as_array_mut().unwrap() {
            task["status"] = json!("done");
        }
    });
    assert_eq!(taken(&complete).phase, Phase::Complete { at: UPDATED });
    let odd = changed(OLD, |v| v["goalCompleted"] = json!(true));
    assert_eq!(taken(&odd).phase, Phase::Active);
}

#[test]
fn every_old_reason_becomes_a_question_on_its_task() {
    for (reason, kind) in [
        ("task_over_budget:300 lines", HoldKind::TaskOverBudget),
        ("prepr_blocked:SZ-4", HoldKind::PreprBlocked),
        ("prepr_unavailable:timeout", HoldKind::PreprUnavailable),
        ("forge_merge_refused", HoldKind::ForgeMergeRefused),
        ("acceptance_failed:npm test", HoldKind::AcceptanceFailed),
        ("max_task_attempts:TASK-001", HoldKind::MaxTaskAttempts),
        ("of a release to come", HoldKind::ResultTransitionFailed),
    ] {
        let text = changed(OLD, |v| v["supervisor"] = json!({"taskId": "TASK-001", "reason": reason}));
        let state = taken(&text);
        let holds = state.open_holds();
        assert_eq!(holds.len(), 1, "{reason}");
        assert_eq!((&holds[0].0, holds[0].1.kind), (&Subject::Task(task_id("TASK-001")), kind), "{reason}");
        assert_eq!(holds[0].1.detail, reason);
    }
}

/// What a row is about, the change that makes the state malformed, and what is said about it.
type Malformed = (&'static str, fn(&mut Value), &'static str);

const MALFORMED: &[Malformed] = &[
    ("no version", |v| drop(v.as_object_mut().unwrap().remove("version")), "missing field `version`"),
    ("another version", |v| v["version"] = json!(2), "version: must be 1"),
    (
        "no supervisor",
        |v| drop(v.as_object_mut().unwrap().remove("supervisor")),
        "missing field `supervisor`",
    ),
    ("supervisor text", |v| v["supervisor"] = json!("x"), "supervisor: invalid type"),
    ("empty reason", |v| v["supervisor"]["reason"] = json!(""), "supervisor.reason: must not be empty"),
    (
        "unknown task held",
        |v| v["supervisor"]["taskId"] = json!("zz"),
        "supervisor.taskId: there is no task \"zz\"",
    ),
    ("status", |v| v["tasks"][1]["status"] = json!("paused"), "tasks[1].status: unknown variant `paused`"),
    ("tier", |v| v["tasks"][0]["tier"] = json!("T4"), "tasks[0].tier: unknown variant `T4`"),
    ("risk", |v| v["tasks"][0]["risk"] = json!(1), "tasks[0].risk: "),
    ("attempts", |v| v["tasks"][0]["attempts"] = json!(-1), "tasks[0].attempts: invalid value"),
    ("id", |v| v["tasks"][0]["id"] = json!("a/b"), "tasks[0].id: must be 1 to 64 characters"),
    (
        "id twice",
        |v| v["tasks"][1]["id"] = v["tasks"][0]["id"].clone(),
        "tasks[1].id: task id g2-merged is used twice",
    ),
    ("sha", |v| v["tasks"][0]["baseSha"] = json!("12"), "tasks[0].baseSha: must be 40 or 64"),
    ("sha", |v| v["tasks"][0]["implementationSha"] = json!(5), "tasks[0].implementationSha: invalid type"),
    (
        "implementer",
        |v| v["tasks"][0]["implementer"] = json!("a b"),
        "tasks[0].implementer: must be 1 to 200",
    ),
    (
        "verdict",
        |v| v["tasks"][0]["lastReviewVerdict"] = json!("OK"),
        "tasks[0].lastReviewVerdict: unknown variant",
    ),
    ("paths", |v| v["tasks"][0]["allowedPaths"] = json!("a"), "tasks[0].allowedPaths: invalid type"),
    ("usage", |v| v["usage"]["taskAttempts"] = json!([]), "usage.taskAttempts: invalid type"),
    ("usage", |v| v["usage"]["taskAttempts"]["x"] = json!(0.5), "usage.taskAttempts.x: invalid type"),
    (
        "running",
        |v| v["usage"]["taskStartedAt"] = json!({}),
        "tasks[7].status: task g2-running is running but",
    ),
    ("cost", |v| v["usage"]["costUsdDay"] = json!(-1), "usage.costUsdDay: must be an amount"),
    ("cost", |v| v["usage"]["costUsdSession"] = json!("1"), "usage.costUsdSession: invalid type"),
    ("tokens", |v| v["usage"]["tokens"]["g2-merge"] = json!(-1), "usage.tokens.g2-merge: must be a number"),
    (
        "time",
        |v| v["usage"]["lastProgressAt"] = json!(9_007_199_254_740_992_u64),
        "usage.lastProgressAt: the number",
    ),
    ("branch", |v| v["workBranch"] = json!("-x"), "workBranch: must be a branch name"),
    ("goal", |v| v["goal"]["number"] = json!(1), "goal.number: must be at least 2"),
    ("goal", |v| v["goal"] = json!(2), "goal: invalid type"),
    ("tasks", |v| v["tasks"] = json!({}), "tasks: invalid type"),
];

#[test]
fn malformed_states_are_refused_with_their_field() {
    for (name, change, expect) in MALFORMED {
        let text = changed(NEW, change);
        let said = migrate(Some(text.as_bytes()), None).unwrap_err().to_string();
        assert!(said.starts_with("STATE.json (version 1): ") && said.contains(expect), "{name}: {said}");
    }
}

/// A journal line of the plugin around a state with this revision.
fn line(text: &str, revision: u64) -> String {
    let state: Value = serde_json::from_str(&changed(text, |v| v["revision"] = json!(revision))).unwrap();
    let at = "2026-07-25T17:20:00.000Z";
    json!({"version": 1, "revision": revision, "at": at, "action": "tick:plan", "state": state}).to_string()
}

#[test]
fn a_lost_or_torn_state_is_read_from_the_journal() {
    let journal = format!("{}\n{}\n", line(OLD, 3), line(OLD, 4));
    let expect = taken(OLD);
    for state in [None, Some(b"".as_slice()), Some(&OLD.as_bytes()[..100])] {
        assert_eq!(migrate(state, Some(journal.as_bytes())).unwrap(), expect);
    }
    // A torn last line is dropped; the state wins over a journal.
    let torn = format!("{journal}{}", &line(OLD, 5)[..50]);
    assert_eq!(migrate(None, Some(torn.as_bytes())).unwrap(), expect);
    assert_eq!(migrate(Some(NEW.as_bytes()), Some(journal.as_bytes())).unwrap(), taken(NEW));
    let said = |events: String| migrate(None, Some(events.as_bytes())).unwrap_err().to_string();
    assert!(
        said(format!("{}\n{}\n", line(OLD, 3), line(OLD, 5))).contains("line 2: version 1 and revision 5")
    );
    assert!(said(format!("{}\nx\n{}\n", line(OLD, 3), line(OLD, 4))).contains("line 2: "));
    let other = line(OLD, 4).replacen(r#""revision":4"#, r#""revision":9"#, 1);
    assert!(said(format!("{other}\n")).contains("state.revision: is "), "{other}");
    let broken = line(&changed(OLD, |v| v["tasks"][0]["risk"] = json!("x")), 4);
    assert!(said(format!("{broken}\n")).contains("state.tasks[0].risk: unknown variant `x`"));
    assert!(said("{".to_owned()).contains("it has no whole line"));
    // A state that is whole but wrong is never replaced by an older one.
    let wrong = changed(OLD, |v| v["killSwitch"] = json!(1));
    assert!(migrate(Some(wrong.as_bytes()), Some(journal.as_bytes())).is_err());
}

#[test]
fn nothing_at_all_is_a_state_before_the_first_goal() {
    assert_eq!(migrate(None, None).unwrap(), LoopState::default());
    assert_eq!(migrate(Some(b"{"), None).unwrap_err().fault, Fault::Torn);
}
