//! Beside a running loop: another one is refused, commands work and wake it, signals end it in order.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use crate::support::{Bench, PROGRAM};

/// A loop that runs, and what it prints.
pub struct Loop {
    pub child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Loop {
    pub fn start(bench: &Bench, root: &Path) -> Loop {
        Loop::start_with(bench, root, PROGRAM, &[])
    }

    /// Started by another program, whose words these are.
    pub fn start_with(bench: &Bench, root: &Path, program: &str, words: &[&str]) -> Loop {
        let mut command = bench.command(program);
        command.args(words).arg("run").arg(root).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Loop { child, lines }
    }

    /// Reads what it prints up to a line that holds the text.
    pub fn until(&mut self, text: &str) {
        let mut seen = Vec::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if line.contains(text) {
                return;
            }
            seen.push(line);
        }
        panic!("no line with {text:?} in {seen:#?}");
    }

    pub fn signal(&self, bench: &Bench, name: &str) {
        assert_eq!(bench.sh(&format!("kill -{name} {}", self.child.id())).code, 0);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_running_loop_with_commands_beside_it() {
    let bench = Bench::new();
    // A worker that would take ten minutes: it only ends by being told to.
    let root = bench.sample("sample", 600_000);
    let mut running = Loop::start(&bench, &root);
    running.until("plan      the goal");
    let pid = running.child.id().to_string();

    let (code, view) = bench.status(&root);
    assert_eq!((code, view["running"][0]["op"].as_str()), (0, Some("plan")), "{view:#}");
    symlink(&root, bench.path("link")).unwrap();
    for path in [&root, &bench.path("link")] {
        for verb in ["run", "tick"] {
            let second = bench.verb(verb, path);
            assert_eq!(second.code, 1, "{verb} {}: {second:?}", path.display());
            assert!(second.err.contains("another supervisor runs this project"), "{}", second.err);
            assert!(second.err.contains(&format!("process {pid}")), "{}", second.err);
            assert!(second.err.contains(&format!("try: {PROGRAM} status")), "{}", second.err);
        }
    }
    let found = bench.verb("doctor", &root);
    assert!(found.out.contains(&format!("process {pid} runs the loop")), "{}", found.out);

    let paused = bench.devloop(&["pause", root.to_str().unwrap(), "--now"]);
    assert_eq!(paused.code, 0, "{paused:?}");
    assert!(paused.out.contains("being ended") || paused.out.contains("nothing"), "{}", paused.out);
    running.until("The loop is paused.");
    let resumed = bench.verb("resume", &root);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert!(resumed.out.contains(&format!("(process {pid}) picks it up")), "{}", resumed.out);
    running.until("plan      the goal");

    running.signal(&bench, "INT");
    running.until(&format!("{PROGRAM} status"));
    assert_eq!(running.child.wait().unwrap().code(), Some(0), "the first signal ends it in order");
    let found = bench.verb("doctor", &root);
    assert_eq!(found.code, 0, "{}", found.out);
    assert!(!found.out.contains("runs the loop"), "{}", found.out);
    assert_eq!(bench.verb("replay", &root).code, 0);
}

/// What stands in the place of the goal, with the words that say so.
const BROKEN_GOALS: [(&str, fn(&Path)); 5] = [
    ("is a folder, not a file", |goal| fs::create_dir(goal).unwrap()),
    ("is a symlink", |goal| symlink("/etc/hostname", goal).unwrap()),
    ("is larger than", |goal| fs::write(goal, vec![b'x'; 64 * 1024 + 1]).unwrap()),
    ("is not valid UTF-8 (first bad byte at offset 3)", |goal| fs::write(goal, b"abc\xff").unwrap()),
    ("is not a regular file", |goal| {
        let made = std::process::Command::new("mkfifo").arg(goal).status().unwrap();
        assert!(made.success());
    }),
];

/// Asks for the status until the running loop has recorded what is waited for.
fn status_with(
    bench: &Bench,
    root: &Path,
    wanted: impl Fn(&[serde_json::Value]) -> bool,
) -> serde_json::Value {
    loop {
        let (_, view) = bench.status(root);
        if wanted(view["questions"].as_array().unwrap()) {
            return view;
        }
    }
}

/// A goal that is broken beside a running loop is a question, and keeps nobody from looking or stopping.
#[test]
fn a_goal_broken_beside_a_running_loop_is_asked_about() {
    let bench = Bench::new();
    let root = bench.sample("sample", 600_000);
    let mut running = Loop::start(&bench, &root);
    running.until("plan      the goal");
    // The planner has its prompt once its run is recorded; a goal that breaks before refuses the dispatch.
    while !root.join(".devloop/runs/d1.json").exists() {
        std::thread::yield_now();
    }
    let goal = root.join(".devloop/GOAL.md");
    let text = fs::read(&goal).unwrap();
    for (says, breaks) in BROKEN_GOALS {
        fs::remove_file(&goal).unwrap();
        breaks(&goal);
        let view = status_with(&bench, &root, |questions| !questions.is_empty());
        let question = &view["questions"][0];
        assert_eq!(question["key"], "goal:goal_unusable", "{view:#}");
        let seen = question["evidence"][0].as_str().unwrap();
        assert!(seen.contains(says) && seen.contains("GOAL.md"), "{says}: {seen}");
        let answered = bench.sh(question["answers"][0]["command"].as_str().unwrap());
        assert!(answered.out.contains("was answered with retry"), "{answered:?}");
        for verb in ["status", "cost", "pause"] {
            let ran = bench.verb(verb, &root);
            assert_eq!(ran.code, 0, "{says}: {verb} works beside it: {ran:?}");
        }
        // It is accepted, and says that it does not help yet.
        let resumed = bench.verb("resume", &root);
        assert!(resumed.out.contains("still blocked by: goal:goal_unusable"), "{resumed:?}");
        let _ = fs::remove_dir(&goal);
        let _ = fs::remove_file(&goal);
        fs::write(&goal, &text).unwrap();
        status_with(&bench, &root, |questions| questions.is_empty());
    }
}

/// After the loop has ended, too; only starting one needs a goal that can be read.
#[test]
fn a_broken_goal_of_a_loop_that_has_begun_can_be_looked_at_and_paused() {
    let bench = Bench::new();
    for (index, (says, breaks)) in BROKEN_GOALS.into_iter().enumerate() {
        let root = bench.recorded(&format!("r{index}"));
        let goal = root.join(".devloop/GOAL.md");
        fs::remove_file(&goal).unwrap();
        breaks(&goal);
        let status = bench.verb("status", &root);
        assert!(status.out.contains(says) && status.out.contains("GOAL.md"), "{says}: {status:?}");
        assert_eq!(bench.verb("pause", &root).code, 0, "{says}");
        let resumed = bench.verb("resume", &root);
        assert!(resumed.code == 1 && resumed.out.contains("Revision"), "{says}: {resumed:?}");
        let found = bench.verb("doctor", &root);
        assert!(found.code == 1 && found.out.contains(says), "{says}: {found:?}");
        for verb in ["run", "tick"] {
            let refused = bench.verb(verb, &root);
            assert!(refused.code == 1 && refused.err.contains(says), "{says}: {verb}: {refused:?}");
        }
    }
}

/// What a person breaks beside a running loop neither ends it nor keeps anybody from stopping it.
#[test]
fn a_broken_configuration_beside_a_running_loop() {
    let bench = Bench::new();
    let root = bench.sample("sample", 600_000);
    let mut running = Loop::start(&bench, &root);
    running.until("plan      the goal");
    let config = root.join(".devloop/config.json");
    let breakings: [(&str, fn(&Path)); 3] = [
        ("configuration: ", |config| fs::write(config, "{ \"agentBackend\": ").unwrap()),
        ("is a folder, not a file", |config| fs::create_dir(config).unwrap()),
        ("is a symlink", |config| symlink("/etc/hostname", config).unwrap()),
    ];
    for (says, breaks) in breakings {
        fs::remove_file(&config).unwrap();
        breaks(&config);
        let status = bench.verb("status", &root);
        assert_eq!(status.code, 0, "{status:?}");
        assert!(status.out.contains(says), "{says}: {}", status.out);
        let paused = bench.devloop(&["pause", root.to_str().unwrap(), "--now"]);
        assert_eq!(paused.code, 0, "{says}: {paused:?}");
        running.until("The loop is paused.");
        assert_eq!(bench.verb("resume", &root).code, 0, "{says}");
        running.until("plan      the goal");
        let _ = fs::remove_dir(&config);
        fs::write(&config, "").unwrap();
    }
}

#[test]
fn status_names_what_a_merge_waits_for() {
    let bench = Bench::new();
    let root = bench.sample("sample", 0);
    fs::write(root.join("README.md"), "mine\n").unwrap();
    bench.devloop(&["run", root.to_str().unwrap(), "--until-idle"]);
    let status = bench.verb("status", &root);
    assert!(status.out.contains("changed there: README.md"), "{}", status.out);
}

#[test]
fn what_a_killed_loop_left_is_settled_by_the_next() {
    let bench = Bench::new();
    let root = bench.sample("sample", 600_000);
    let mut running = Loop::start(&bench, &root);
    running.until("plan      the goal");
    running.signal(&bench, "KILL");
    running.child.wait().unwrap();
    let found = bench.verb("doctor", &root);
    assert!(found.out.contains("died; the next one settles its work"), "{}", found.out);
    let status = bench.verb("status", &root);
    let died = format!("No loop runs: the last one (process {}) died", running.child.id());
    assert!(status.out.contains(&died), "{}", status.out);
    let mut next = Loop::start(&bench, &root);
    next.until("plan      the goal");
    let (code, view) = bench.status(&root);
    assert_eq!(code, 0, "{view:#}");
    assert_eq!(view["running"].as_array().unwrap().len(), 1, "{view:#}");
}
