//! The fixtures of version 1 become the version 2 documents that lie beside them, value by value; each of
//! their fields, bent in every way, is refused by its path or changes nothing that counts.
//! `DEVLOOP_BLESS=1 cargo test -p devloop-wire --test version1` writes the documents anew; they are read in
//! review.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use devloop_core::hold::{HoldKind, Subject};
use devloop_core::ids::{Branch, TaskId};
use devloop_core::invariant;
use devloop_core::question::open_questions;
use devloop_core::state::{LoopState, Phase};
use devloop_core::task::{ResumeTo, Stage};
use devloop_core::units::UsdMicros;
use devloop_wire::config_doc::Config;
use devloop_wire::fault::DocError;
use devloop_wire::migrate::{self, OldFiles, Present};
use devloop_wire::{budget_doc, digest_bytes, state_doc};
use serde_json::{Value, json};

#[path = "version1/bend.rs"]
mod bend;

/// One fixture: the files of one project.
struct Case {
    name: String,
    folder: PathBuf,
    state: Option<Vec<u8>>,
    events: Option<Vec<u8>>,
    commit_hold: Option<Vec<u8>>,
    pending_hold: Option<Vec<u8>>,
}

impl Case {
    fn files(&self) -> OldFiles<'_> {
        OldFiles {
            state: self.state.as_deref(),
            events: self.events.as_deref(),
            commit_hold: self.commit_hold.as_deref(),
            pending_hold: self.pending_hold.as_deref(),
        }
    }

    /// The state that the files describe, as the earlier plugin wrote it.
    fn old(&self) -> Value {
        let last = || {
            let text = String::from_utf8(self.events.clone().unwrap()).unwrap();
            let whole = text.rsplit_once('\n').unwrap().0.lines().last().unwrap().to_owned();
            serde_json::from_str::<Value>(&whole).unwrap()["state"].clone()
        };
        let state = self.state.as_deref().and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        match (state, &self.events) {
            (Some(state), None) => state,
            (None, _) => last(),
            (Some(state), Some(_)) => {
                let last = last();
                if last["revision"].as_u64() > state["revision"].as_u64() { last } else { state }
            }
        }
    }
}

fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/documents/v1");
    let mut folders: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    assert!(folders.len() >= 15, "{folders:?}");
    let read = |folder: &Path, name: &str| fs::read(folder.join(name)).ok();
    let case = |folder: PathBuf| Case {
        name: folder.file_name().unwrap().to_string_lossy().into_owned(),
        state: read(&folder, "STATE.json"),
        events: read(&folder, "EVENTS.jsonl"),
        commit_hold: read(&folder, "COMMIT_HOLD"),
        pending_hold: read(&folder, "PENDING_HOLD"),
        folder,
    };
    folders.into_iter().map(case).collect()
}

fn present() -> Present {
    Present { goal: Some(digest_bytes(b"the goal")), branch: Branch::parse("work").ok() }
}

fn migrated(files: &OldFiles<'_>) -> Result<LoopState, DocError> {
    migrate::migrate(files, &present())
}

#[test]
fn every_fixture_becomes_the_document_that_was_reviewed() {
    for case in cases() {
        let state = migrated(&case.files()).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(invariant::check(&state), Ok(()), "{}", case.name);
        assert_eq!(state_doc::parse(&state_doc::write(&state)).unwrap(), state, "{}", case.name);
        let path = case.folder.join("MIGRATED.json");
        let text = serde_json::to_string_pretty(&state).unwrap() + "\n";
        if std::env::var_os("DEVLOOP_BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, kept, "{}: read the difference, then bless it", case.name);
    }
}

/// Micro-dollars of a number that the plugin wrote, rounded up.
fn micros(number: &Value) -> UsdMicros {
    devloop_wire::money::parse_usd(&number.to_string()).unwrap()
}

#[test]
fn tasks_money_tokens_and_counters_are_kept() {
    for case in cases() {
        let (old, state) = (case.old(), migrated(&case.files()).unwrap());
        let name = &case.name;
        assert_eq!(state.revision, old["revision"].as_u64().unwrap(), "{name}");
        let ids: Vec<&str> = state.tasks.iter().map(|task| task.id.as_str()).collect();
        let tasks = old["tasks"].as_array().unwrap();
        assert_eq!(ids, tasks.iter().map(|task| task["id"].as_str().unwrap()).collect::<Vec<_>>(), "{name}");
        let usage = &old["usage"];
        assert_eq!(state.ledger.day(state.clock.day).spent(), micros(&usage["costUsdDay"]), "{name}");
        for (task, was) in state.tasks.iter().zip(tasks) {
            let count = |map: &str| usage[map].get(task.id.as_str()).and_then(Value::as_u64).unwrap_or(0);
            let counters = &task.counters;
            assert_eq!(
                u64::from(counters.attempts),
                count("taskAttempts").max(was["attempts"].as_u64().unwrap()),
                "{name}"
            );
            assert_eq!(u64::from(counters.refusals), count("refusedDispatches"), "{name}");
            assert_eq!(
                u64::from(counters.review_cycles),
                count("reviewCycles").max(was["reviewCycles"].as_u64().unwrap()),
                "{name}"
            );
            let tokens = usage["tokens"].get(task.id.as_str()).and_then(Value::as_f64).unwrap_or(0.0);
            assert_eq!(state.ledger.lineage_tokens(&task.id), tokens.ceil() as u64, "{name}");
        }
        let goal = old["goal"]["number"].as_u64().unwrap_or(1);
        assert_eq!(u64::from(state.goal.number), goal, "{name}");
        let branch = old["workBranch"].as_str().unwrap_or("work");
        assert_eq!(state.target.branch.as_ref().map(Branch::as_str), Some(branch), "{name}");
    }
}

#[test]
fn a_stopped_loop_asks_and_nothing_unproven_is_merged() {
    let policy = Config::default().policy();
    for case in cases() {
        let (old, state) = (case.old(), migrated(&case.files()).unwrap());
        let name = &case.name;
        let marked = case.commit_hold.is_some() || case.pending_hold.is_some();
        let stopped = old["killSwitch"] == true || !old["supervisor"].is_null() || marked;
        let asks = open_questions(&state, &policy, 1);
        if stopped && old["goalCompleted"] != true {
            let paused = matches!(state.phase, Phase::Paused { .. });
            assert!(paused || !asks.is_empty(), "{name} was stopped and goes on");
        }
        for (subject, hold) in state.open_holds() {
            let asked = asks.iter().find(|ask| ask.key.subject == subject && ask.key.kind == hold.kind);
            assert!(
                asked.is_some_and(|ask| !ask.answers.is_empty()),
                "{name}: {subject} is held without a question"
            );
        }
        for (task, was) in state.tasks.iter().zip(old["tasks"].as_array().unwrap()) {
            let reviewed = match &task.stage {
                Stage::MergeReady(reviewed) => reviewed,
                Stage::Held { resume_to: ResumeTo::MergeReady(reviewed), .. } => reviewed,
                _ => continue,
            };
            assert_eq!(Some(reviewed.head().as_str()), was["implementationSha"].as_str(), "{name}");
            assert_eq!(Some(reviewed.base().as_str()), was["baseSha"].as_str(), "{name}");
            assert_eq!(Some(reviewed.reviewer().as_str()), was["reviewer"].as_str(), "{name}");
            let implementer = was["implementer"].as_str().unwrap();
            assert_ne!(reviewed.reviewer().as_str(), implementer, "{name}");
        }
    }
}

fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).unwrap()
}

/// The one hold of a task.
fn hold_of(state: &LoopState, id: &str) -> (HoldKind, String) {
    let subject = Subject::Task(TaskId::parse(id).unwrap());
    let (_, hold) = state.open_holds().into_iter().find(|(of, _)| *of == subject).unwrap();
    (hold.kind, hold.detail.clone())
}

#[test]
fn a_hold_that_could_not_be_stored_is_opened_with_the_reason_that_is_known() {
    let state = migrated(&case("0.6.0-commit-hold").files()).unwrap();
    assert_eq!(hold_of(&state, "TASK-001"), (HoldKind::ParentCommitFailed, "parent_commit_failed".into()));
    let both = case("0.6.0-both-holds");
    let state = migrated(&both.files()).unwrap();
    let detail = "acceptance_failed:npm test -- --grep header";
    assert_eq!(hold_of(&state, "TASK-001"), (HoldKind::AcceptanceFailed, detail.into()));
    // A loop that already stands is not stopped twice.
    let mut stopped = both.old();
    stopped["killSwitch"] = json!(true);
    let text = stopped.to_string();
    let state = migrated(&OldFiles { state: Some(text.as_bytes()), ..both.files() }).unwrap();
    assert!(state.open_holds().is_empty() && matches!(state.phase, Phase::Paused { .. }));
}

#[test]
fn a_malformed_marker_is_refused_by_its_name() {
    let both = case("0.6.0-both-holds");
    let said = |files: OldFiles<'_>| migrated(&files).unwrap_err().to_string();
    let pending: &[(&[u8], &str)] = &[
        (b"", "PENDING_HOLD (version 1): EOF"),
        (b"[]", "PENDING_HOLD (version 1): "),
        (br#"{"reason":"x"}"#, "PENDING_HOLD (version 1): missing field `taskId`"),
        (br#"{"taskId":"TASK-001"}"#, "PENDING_HOLD (version 1): missing field `reason`"),
        (br#"{"taskId":1,"reason":"x"}"#, "PENDING_HOLD (version 1): taskId: "),
        (br#"{"taskId":null,"reason":""}"#, "PENDING_HOLD (version 1): reason: must be a word"),
        (br#"{"taskId":null,"reason":"Bad"}"#, "PENDING_HOLD (version 1): reason: must be a word"),
        (br#"{"taskId":null,"reason":"x:a\nb"}"#, "PENDING_HOLD (version 1): reason: must be a word"),
        (br#"{"taskId":"nobody","reason":"x"}"#, "there is no task \"nobody\""),
    ];
    for (bytes, expect) in pending {
        let said = said(OldFiles { pending_hold: Some(bytes), ..both.files() });
        assert!(said.contains(expect), "{said}");
    }
    for bytes in [&b""[..], b"a/b\n", b"TASK-001 x\n", b"\xff"] {
        let said = said(OldFiles { pending_hold: None, commit_hold: Some(bytes), ..both.files() });
        assert!(said.starts_with("COMMIT_HOLD (version 1): line 1: must be the id of the task"), "{said}");
    }
}

#[test]
fn a_journal_ahead_of_its_state_wins_and_a_damaged_one_does_not() {
    let ahead = case("journal-ahead");
    assert_eq!(migrated(&ahead.files()).unwrap().revision, 6);
    assert_eq!(migrated(&case("journal-without-state").files()), migrated(&ahead.files()));
    assert_eq!(migrated(&case("journal-torn").files()).unwrap().revision, 5);
    let lines = String::from_utf8(ahead.events.clone().unwrap()).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    // A crash between the two writes, and one more save: the same revision stands twice.
    let twice = format!("{}\n{}\n{}\n", lines[0], lines[1], lines[1]);
    let files = OldFiles { events: Some(twice.as_bytes()), ..ahead.files() };
    assert_eq!(migrated(&files).unwrap().revision, 5);
    let said = migrated(&OldFiles { state: None, ..files }).unwrap_err().to_string();
    assert!(said.starts_with("EVENTS.jsonl (version 1): line 3: "), "{said}");
}

#[test]
fn the_limits_of_the_earlier_plugin_are_read() {
    let bytes = fs::read(case("0.6.6-second-goal").folder.join("BUDGET.json")).unwrap();
    let limits = budget_doc::parse(&bytes).unwrap();
    assert_eq!((limits.task_attempts, limits.review_cycles, limits.dispatch_minutes), (4, 2, 30));
    assert_eq!(limits.cost_day, UsdMicros(12_500_000));
}
