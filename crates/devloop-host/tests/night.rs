//! A whole night through the supervisor: real git, the embedded scripted workers, the sealed core, the real
//! store. It must leave nothing behind but the goal's commits and `.devloop/`.

use std::path::Path;
use std::process::Command as Process;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use devloop_core::answer::Answer;
use devloop_core::command::{Command, Wish};
use devloop_core::reason::Refusal;
use devloop_host::backend::demo;
use devloop_host::command::Desk;
use devloop_host::error::ErrorKind;
use devloop_host::store::UserFolder;
use devloop_host::supervisor::{Options, Supervisor, TickReport};

struct Night {
    root: tempfile::TempDir,
    home: tempfile::TempDir,
    woken: Receiver<()>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Night {
    fn new() -> Night {
        let (root, home) = (tempfile::tempdir().expect("root"), tempfile::tempdir().expect("home"));
        demo::sample_repo(root.path()).expect("sample");
        let (send, woken) = channel();
        let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            let _ = send.send(());
        });
        Night { root, home, woken, wake }
    }

    fn open(&self) -> Supervisor {
        Supervisor::open(self.options(self.root.path())).expect("open")
    }

    fn options(&self, root: &Path) -> Options {
        Options {
            root: root.to_path_buf(),
            devloop_home: self.home.path().to_path_buf(),
            config_json: String::new(),
            wake: Arc::clone(&self.wake),
            agents: None,
        }
    }

    /// Beats until the loop waits for nothing that runs.
    fn settle(&self, supervisor: &mut Supervisor) -> TickReport {
        for _ in 0..600 {
            let report = supervisor.tick().expect("tick");
            if !report.reason.starts_with("wait") || report.reason == "wait_shared" {
                return report;
            }
            // Woken by a finished dispatch; the timeout only keeps a broken wake from hanging the test.
            let _ = self.woken.recv_timeout(Duration::from_secs(5));
        }
        panic!("the night does not end: {:?}", supervisor.view());
    }

    fn desk(&self) -> Desk {
        let user = UserFolder::at(self.home.path().join("devloop"));
        Desk::open(self.root.path(), user).expect("desk")
    }

    fn git(&self, args: &[&str]) -> String {
        let out = Process::new("git").args(args).current_dir(self.root.path()).output().expect("git");
        String::from_utf8_lossy(&out.stdout).trim().to_string()
    }
}

fn say(wish: Wish) -> Command {
    Command { by: "test".into(), wish }
}

#[test]
fn a_night_ends_with_merged_commits_and_nothing_left_behind() {
    let night = Night::new();
    let mut supervisor = night.open();
    let mut asked = Vec::new();
    loop {
        let report = night.settle(&mut supervisor);
        let view = supervisor.view();
        if report.reason == "still_complete" {
            break;
        }
        assert_eq!(report.reason, "halted", "{report:?}");
        let question = view.questions.first().expect("a halt asks").clone();
        assert!(!question.answers.is_empty());
        asked.push(question.key.clone());
        assert!(asked.len() < 10, "{asked:?}");
        let key = devloop_core::hold::HoldKey::parse(&question.key).expect("key");
        let word = question.answers.iter().find(|a| a.recommended).expect("a first choice").answer;
        let answer = Answer::ALL.into_iter().find(|a| a.word() == word).expect("a word");
        // From another process's desk, while the loop holds the project.
        let wish = Wish::Answer { answer, hold: Some(key.clone()), revision: Some(question.revision) };
        let done = night.desk().wish(say(wish.clone())).expect("wish");
        assert!(done.accepted && done.helps, "{done:?}");
        let again = night.desk().wish(say(wish)).expect("wish");
        assert!(matches!(again.refused, Some(Refusal::Stale { .. })), "{again:?}");
    }
    let view = supervisor.view();
    assert!(asked.contains(&"task/language:acceptance_failed".to_string()), "attempts ran out: {asked:?}");
    assert!(asked.contains(&"loop:goal_cost_cap".to_string()), "a budget stopped it: {asked:?}");
    assert!(view.tasks.iter().all(|task| task.stage == "done" || task.stage == "merged"), "{:?}", view.tasks);
    assert!(view.running.is_empty());
    assert_eq!(night.git(&["status", "--porcelain"]), "", "the checkout is clean and on the target");
    let merges = night.git(&["log", "--merges", "--format=%s"]);
    assert_eq!(merges.lines().count(), view.tasks.len(), "{merges}");
    supervisor.close().expect("close");
    assert_eq!(night.git(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
}

#[test]
fn a_second_loop_is_refused_and_the_first_goes_on() {
    let night = Night::new();
    let mut first = night.open();
    first.tick().expect("tick");
    let refused = Supervisor::open(night.options(night.root.path())).expect_err("a second loop");
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert!(refused.to_string().contains(&std::process::id().to_string()), "{refused}");
    let link = night.home.path().join("link");
    std::os::unix::fs::symlink(night.root.path(), &link).expect("link");
    assert_eq!(Supervisor::open(night.options(&link)).expect_err("by a link").kind(), ErrorKind::Busy);
    first.close().expect("close");
}

#[test]
fn a_loop_that_is_closed_in_the_middle_is_taken_over_by_the_next() {
    let night = Night::new();
    let mut merged = 0;
    for _ in 0..40 {
        let mut supervisor = night.open();
        // Long enough for the planner, who takes two beats; three closings over him would be a question.
        for _ in 0..6 {
            let report = supervisor.tick().expect("tick");
            if report.reason.starts_with("wait") {
                let _ = night.woken.recv_timeout(Duration::from_millis(700));
            }
        }
        merged = supervisor.view().tasks.iter().filter(|t| t.stage.starts_with("merged")).count();
        if supervisor.view().phase == "halted" || supervisor.view().phase == "complete" {
            supervisor.close().expect("close");
            break;
        }
        supervisor.close().expect("close");
    }
    let mut supervisor = night.open();
    night.settle(&mut supervisor);
    let view = supervisor.view();
    assert!(!view.tasks.is_empty(), "a plan survived the closings");
    let commits = night.git(&["log", "--merges", "--format=%(trailers:key=Devloop-Dispatch,valueonly)"]);
    let mut ids: Vec<&str> = commits.lines().filter(|l| !l.is_empty()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "no merge was done twice; {merged} were seen before");
    supervisor.close().expect("close");
}

/// Hazard 24: what a dispatch reports reaches the state although the inbox takes no file.
#[test]
fn a_report_that_cannot_be_parked_is_settled_all_the_same() {
    let night = Night::new();
    let elsewhere = tempfile::tempdir().expect("elsewhere");
    // Nothing is written through a link, so that parking fails as it does on a full disk.
    std::os::unix::fs::symlink(elsewhere.path(), night.root.path().join(".devloop/inbox")).expect("link");
    let mut supervisor = night.open();
    for _ in 0..10 {
        supervisor.tick().expect("tick");
        if !supervisor.view().tasks.is_empty() {
            break;
        }
        let _ = night.woken.recv_timeout(Duration::from_secs(5));
    }
    assert!(!supervisor.view().tasks.is_empty(), "the plan was lost");
    assert!(supervisor.view().money.goal.measured > 0, "and so was what it cost");
    supervisor.close().expect("close");
    assert_eq!(std::fs::read_dir(elsewhere.path()).expect("read").count(), 0);
}

/// A project that decides for the first time does not know its day yet; what others spent today still counts.
#[test]
fn the_first_beat_of_a_new_project_keeps_the_cap_of_all_projects() {
    let night = Night::new();
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("time");
    let day = wall.as_secs() / 86_400;
    let spent = |dispatch: &str, day: u64| {
        let entry = serde_json::json!({
            "project": "/another", "dispatch": dispatch, "certainty": "measured", "usd_micros": 1_000_000_000,
            "day": day, "slot": false, "owner": null,
        });
        format!("{entry}\n")
    };
    let folder = night.home.path().join("devloop");
    std::fs::create_dir(&folder).expect("folder");
    // Tomorrow's too, should midnight pass meanwhile.
    std::fs::write(folder.join("ledger.jsonl"), spent("d1", day) + &spent("d2", day + 1)).expect("ledger");
    let mut supervisor = night.open();
    let report = supervisor.tick().expect("tick");
    assert_eq!(report.reason, "wait_shared", "{report:?}");
    assert!(supervisor.view().running.is_empty(), "nothing was started above the cap");
    supervisor.close().expect("close");
}

/// What a loop that died between a merge's record and its tidying left is taken away by the next one.
#[test]
fn leftovers_of_a_loop_that_died_after_a_merge_go_at_the_next_start() {
    let night = Night::new();
    let mut supervisor = night.open();
    while supervisor.view().tasks.iter().all(|task| task.stage != "merged") {
        let _ = night.settle(&mut supervisor);
    }
    let merged = supervisor.view().tasks.into_iter().find(|task| task.stage == "merged").expect("one").id;
    supervisor.close().expect("close");
    let branch = format!("devloop/{merged}");
    night.git(&["branch", &branch, "work"]);
    night.git(&["branch", "devloop/mine", "work"]);
    let record = night.root.path().join(".devloop/runs/d1.json");
    std::fs::write(&record, "half").expect("record");
    night.open().close().expect("close");
    assert_eq!(night.git(&["branch", "--list", &branch]), "");
    assert_ne!(night.git(&["branch", "--list", "devloop/mine"]), "", "no task's");
    assert!(!record.exists());
}

/// A checkout that is dirty when the review ends keeps the merge waiting; it is no merge that failed.
#[test]
fn a_dirty_checkout_waits_and_asks_nothing() {
    let night = Night::new();
    std::fs::write(night.root.path().join("README.md"), "mine\n").expect("edit");
    let mut supervisor = night.open();
    let report = night.settle(&mut supervisor);
    let view = supervisor.view();
    let asked: Vec<&str> = view.questions.iter().map(|question| question.key.as_str()).collect();
    let failed = |key: &&str| key.ends_with(":merge_wedged") || key.ends_with(":base_moved");
    assert!(!asked.iter().any(failed), "{asked:?}");
    assert!(view.tasks.iter().any(|task| task.stage == "merge ready"), "{report:?} {:?}", view.tasks);
    let text = std::fs::read_to_string(night.root.path().join("README.md")).expect("read");
    assert_eq!(text, "mine\n");
    supervisor.close().expect("close");
}

#[test]
fn a_view_beside_a_living_loop_does_not_take_its_dispatches_for_orphans() {
    let night = Night::new();
    // One reservation is the whole cap: a plan taken for dead would keep it, and the next one would be asked
    // about.
    let config = demo::CONFIG.replace("\"maxCostUsdPerGoal\": 0.3", "\"maxCostUsdPerGoal\": 0.05");
    assert_ne!(config, demo::CONFIG);
    std::fs::write(night.root.path().join(".devloop/config.json"), config).expect("config");
    let mut supervisor = night.open();
    supervisor.tick().expect("tick");
    assert_eq!(supervisor.view().running.len(), 1, "the planner runs");
    let outlook = night.desk().outlook(None).expect("outlook");
    assert_eq!((outlook.reason.key(), outlook.open.len()), ("wait_lease", 0), "{outlook:?}");
    supervisor.close().expect("close");
}

#[test]
fn noop_leaves_the_users_folder_alone() {
    let night = Night::new();
    let config = night.root.path().join(".devloop/config.json");
    std::fs::write(config, r#"{"agentBackend":"noop"}"#).expect("config");
    let mut supervisor = night.open();
    assert_eq!(supervisor.tick().expect("tick").reason, "noop_backend");
    supervisor.close().expect("close");
    assert_eq!(std::fs::read_dir(night.home.path()).expect("home").count(), 0);
}

#[test]
fn the_empty_form_of_a_goal_starts_nothing() {
    let night = Night::new();
    let goal = night.root.path().join(".devloop/GOAL.md");
    std::fs::write(goal, devloop_host::doctor::GOAL_FORM).expect("goal");
    let refused = Supervisor::open(night.options(night.root.path())).expect_err("a form");
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(!night.root.path().join(".devloop/EVENTS.jsonl").exists());
}
