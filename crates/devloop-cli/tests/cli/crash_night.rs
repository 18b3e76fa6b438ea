//! One small night for the crash matrix: a plan of one task, worked on, checked, reviewed and merged by the
//! real program, and the model that its end is compared with. It kills nothing by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use devloop_core::command::{Command, Wish};
use devloop_host::command::Desk;
use devloop_host::store::UserFolder;
use serde_json::{Value, json};

use crate::support::{Bench, PROGRAM, ran};

/// What every dispatch sets aside, and keeps when it ends without a report.
const RESERVE: u64 = 50_000;
/// What a dispatch costs that reports, by role.
const COSTS: [(&str, u64); 3] = [("plan", 10_000), ("work", 20_000), ("review", 30_000)];
/// Lines of the journal before the night: its segment ends in the middle of it.
const LINES_BEFORE: u64 = 248;
/// No life of a loop without a person takes so long, however busy the machine is.
const HANGS: Duration = Duration::from_secs(180);
/// Lives that a night may take after the one that was disturbed.
const LIVES: usize = 8;

const CONFIG: &str = r#"{"agentBackend": "scripted", "tickIntervalMs": 500, "acceptance": [["true"]],
  "scripted": {"script": ".devloop/script.json", "reserveUsd": 0.05}}"#;

fn script() -> Value {
    let rule = |role: &str, more: Value| {
        let cost = COSTS.iter().find(|(name, _)| *name == role).unwrap().1;
        let mut rule = json!({ "role": role, "process": true,
            "usage": { "tokens": { "input": 100, "output": 10 }, "costUsd": cost as f64 / 1e6 } });
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rule
    };
    let task = json!({ "id": "one", "title": "Write a", "tier": "T1", "risk": "low", "dependsOn": [],
        "allowedPaths": ["a.txt"], "acceptance": ["a"], "estimate": { "lines": 1, "files": 1 } });
    json!({ "version": 1, "rules": [
        rule("plan", json!({ "result": { "plan": [task] } })),
        rule("work", json!({ "edits": [{ "path": "a.txt", "content": "a\n" }],
                             "result": { "work": "completed" } })),
        rule("review", json!({ "result": { "review": "pass" } })),
    ] })
}

/// A project from which every night starts, in a bench of its own.
pub struct Template {
    bench: Bench,
    root: PathBuf,
}

impl Template {
    pub fn new() -> Template {
        let bench = Bench::new();
        let root = bench.recorded("project");
        let user = UserFolder::at(bench.path("dsh").join("devloop"));
        let mut desk = Desk::open(&root, user).unwrap();
        let mut pause = true;
        loop {
            let wish = if pause {
                Wish::Pause { now: false }
            } else {
                Wish::Resume { task: None, reset_cost: false }
            };
            let report = desk.wish(Command { by: "test".into(), wish }).unwrap();
            pause = !pause;
            if report.revision >= LINES_BEFORE && pause {
                break;
            }
        }
        fs::remove_file(root.join(".devloop/reserve")).unwrap();
        fs::write(root.join(".devloop/config.json"), CONFIG).unwrap();
        fs::write(root.join(".devloop/script.json"), script().to_string()).unwrap();
        Template { bench, root }
    }

    pub fn night(&self) -> Night {
        let bench = Bench::new();
        let root = bench.path("project");
        let copied = ran(self.bench.command("cp").arg("-a").arg(&self.root).arg(&root).output().unwrap());
        assert_eq!(copied.code, 0, "{copied:?}");
        bench.git(&root, &["status", "--short"]);
        Night { bench, root, started: BTreeMap::new(), reported: BTreeSet::new(), asked: BTreeSet::new() }
    }
}

/// A night under way, and what is known of it from outside.
pub struct Night {
    pub bench: Bench,
    pub root: PathBuf,
    /// Dispatches that were started, or may have been, with their role.
    started: BTreeMap<String, String>,
    /// Dispatches whose report was durable.
    reported: BTreeSet<String>,
    /// Keys of the questions that were answered.
    pub asked: BTreeSet<String>,
}

/// How one life of the program ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Life {
    Killed,
    Ended(i32),
}

impl Night {
    fn record(&self) -> PathBuf {
        self.bench.path("points")
    }

    /// One life of the loop, disturbed as the plan says.
    pub fn live(&mut self, plan: &str) -> Life {
        let mut command = self.bench.command(PROGRAM);
        command.args(["run", self.root.to_str().unwrap(), "--until-idle"]);
        command.env("DEVLOOP_TEST_POINT", plan).env("DEVLOOP_TEST_POINTS", self.record());
        let said = self.bench.path("said");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap());
        let mut child = command.spawn().unwrap();
        let until = Instant::now() + HANGS;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > until {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("the loop hangs: {}", self.bench.verb("status", &self.root).out);
            }
            std::thread::sleep(Duration::from_millis(3));
        };
        let said = fs::read_to_string(said).unwrap();
        assert!(!said.contains("panicked"), "{plan}: {said}");
        let life = status.code().map_or(Life::Killed, Life::Ended);
        self.look(life == Life::Killed);
        life
    }

    /// What lies on the disk between two lives. Of a dispatch with a run record nobody can tell afterwards
    /// that the dead process did not start it.
    fn look(&mut self, killed: bool) {
        for (name, bytes) in self.files("runs").into_iter().filter(|_| killed) {
            let record: Value = serde_json::from_slice(&bytes).unwrap();
            self.started.insert(name, record["role"].as_str().unwrap().to_owned());
        }
        self.reported.extend(self.files("inbox").into_iter().map(|(name, _)| name));
        for (point, about) in self.passes() {
            match (point.as_str(), about.split_once(' ')) {
                ("Spawn", Some((dispatch, role))) => {
                    self.started.insert(dispatch.to_owned(), role.to_owned());
                }
                ("ReportWritten", _) => drop(self.reported.insert(about)),
                _ => {}
            }
        }
    }

    fn files(&self, folder: &str) -> Vec<(String, Vec<u8>)> {
        let Ok(entries) = fs::read_dir(self.root.join(".devloop").join(folder)) else { return Vec::new() };
        let read = entries.map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            Some((name.strip_suffix(".json")?.to_owned(), fs::read(&path).unwrap()))
        });
        read.flatten().collect()
    }

    /// Every pass so far: point and what it was about.
    pub fn passes(&self) -> Vec<(String, String)> {
        let text = fs::read_to_string(self.record()).unwrap_or_default();
        let pair = |line: &str| line.split_once(' ').map(|(point, about)| (point.into(), about.into()));
        text.lines().filter_map(pair).collect()
    }

    /// Lives on undisturbed until the goal is reached, answering what is asked with the first choice.
    pub fn finish(&mut self) {
        for _ in 0..LIVES {
            assert!(matches!(self.live(""), Life::Ended(_)));
            let (_, view) = self.bench.status(&self.root);
            if view["phase"] == "complete" {
                return self.verify(&view);
            }
            for question in view["questions"].as_array().unwrap() {
                self.asked.insert(question["key"].as_str().unwrap().to_owned());
                let answers = question["answers"].as_array().unwrap();
                let first = answers.iter().find(|answer| answer["recommended"] == true).unwrap();
                self.bench.sh(first["command"].as_str().unwrap());
            }
        }
        panic!("the night does not end; asked {:?}", self.asked);
    }

    fn git(&self, args: &[&str]) -> String {
        ran(self.bench.command("git").arg("-C").arg(&self.root).args(args).output().unwrap()).out
    }

    /// The model: nothing lost, nothing done twice, no charge lost or doubled, nothing left behind.
    fn verify(&self, view: &Value) {
        assert_eq!(self.git(&["show", "work:a.txt"]), "a\n", "the work is in the target");
        assert_eq!(fs::read_to_string(self.root.join("a.txt")).unwrap(), "a\n", "the checkout followed");
        assert_eq!(self.git(&["status", "--porcelain"]), "", "the checkout is clean");
        let commits = |kind: &str| self.git(&["log", kind, "--format=%(trailers:key=Devloop-Task)", "work"]);
        for kind in ["--merges", "--no-merges"] {
            assert_eq!(commits(kind).matches("Devloop-Task: one").count(), 1, "{kind} once");
        }
        let passes = self.passes();
        let mut spawned = BTreeSet::new();
        for (_, dispatch) in passes.iter().filter(|(point, _)| point == "Spawn") {
            assert!(spawned.insert(dispatch), "{dispatch} was started twice");
        }
        self.verify_money(view);
        assert_eq!(self.bench.verb("replay", &self.root).code, 0, "the journal proves itself");
        self.verify_nothing_left();
    }

    fn verify_money(&self, view: &Value) {
        let cost = |role: &str| COSTS.iter().find(|(name, _)| *name == role).unwrap().1;
        let of = |dispatch: &str, role: &str| match self.reported.contains(dispatch) {
            true => ("measured", cost(role)),
            false => ("assumed", RESERVE),
        };
        let want: BTreeMap<&str, (&str, u64)> =
            self.started.iter().map(|(dispatch, role)| (dispatch.as_str(), of(dispatch, role))).collect();
        let sum = |kind| want.values().filter(|(is, _)| *is == kind).map(|(_, usd)| usd).sum::<u64>();
        let goal = &view["money"]["goal"];
        let got = [&goal["measured"], &goal["assumed"], &goal["reserved"]].map(|sum| sum.as_u64().unwrap());
        assert_eq!(got, [sum("measured"), sum("assumed"), 0], "{want:?}");
        let text = fs::read_to_string(self.bench.path("dsh/devloop/ledger.jsonl")).unwrap();
        let mut newest = BTreeMap::new();
        for line in text.lines() {
            let entry: Value = serde_json::from_str(line).unwrap();
            newest.insert(entry["dispatch"].as_str().unwrap().to_owned(), entry);
        }
        for (dispatch, entry) in &newest {
            let (kind, usd) = want.get(dispatch.as_str()).copied().unwrap_or(("void", 0));
            assert_eq!(
                (&entry["certainty"], &entry["usd_micros"]),
                (&json!(kind), &json!(usd)),
                "{dispatch}"
            );
            assert_eq!(entry["slot"], false, "{dispatch}");
        }
        assert!(want.keys().all(|dispatch| newest.contains_key(*dispatch)), "{want:?} {newest:?}");
    }

    fn verify_nothing_left(&self) {
        assert_eq!(self.git(&["worktree", "list"]).lines().count(), 1, "no worktree is left");
        assert_eq!(self.git(&["branch", "--list", "devloop/*"]), "", "no branch is left");
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).map(|all| all.flatten().collect()).unwrap_or_else(|_| vec![]);
            entries.iter().map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        for folder in ["runs", "inbox", "aside"] {
            assert_eq!(names(&self.root.join(".devloop").join(folder)), [""; 0], "{folder}");
        }
        assert_eq!(names(&self.bench.path("tmp")), [""; 0], "temporary files are left");
        let ours = |name: &String| name.contains("devloop-");
        for folder in [self.root.join(".git"), self.root.join(".devloop")] {
            assert_eq!(names(&folder).into_iter().filter(ours).collect::<Vec<_>>(), [""; 0], "{folder:?}");
        }
        let doctor = self.bench.verb("doctor", &self.root);
        assert_eq!(doctor.code, 0, "{}", doctor.out);
    }
}
