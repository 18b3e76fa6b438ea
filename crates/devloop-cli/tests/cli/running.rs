//! Beside a running loop: another one is refused, commands work and wake it, signals end it in order.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use crate::support::{Bench, PROGRAM};

struct Loop {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Loop {
    fn start(bench: &Bench, root: &Path) -> Loop {
        let mut command = bench.command(PROGRAM);
        command.arg("run").arg(root).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Loop { child, lines }
    }

    /// Reads what it prints up to a line that holds the text.
    fn until(&mut self, text: &str) {
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

    fn signal(&self, bench: &Bench, name: &str) {
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

/// What a person breaks beside a running loop neither ends it nor keeps anybody from stopping it.
#[test]
fn a_broken_goal_or_configuration_beside_a_running_loop() {
    let bench = Bench::new();
    let root = bench.sample("sample", 600_000);
    let mut running = Loop::start(&bench, &root);
    running.until("plan      the goal");
    let goal = root.join(".devloop/GOAL.md");
    let text = fs::read(&goal).unwrap();
    let breakings: [(&str, fn(&Path)); 3] = [
        ("is a folder, not a file", |goal| fs::create_dir(goal).unwrap()),
        ("is a symlink", |goal| symlink("/etc/hostname", goal).unwrap()),
        ("is larger than", |goal| fs::write(goal, vec![b'x'; 64 * 1024 + 1]).unwrap()),
    ];
    for (says, breaks) in breakings {
        fs::remove_file(&goal).unwrap();
        breaks(&goal);
        running.until(says);
        let _ = fs::remove_dir(&goal);
        fs::write(&goal, &text).unwrap();
    }
    fs::write(root.join(".devloop/config.json"), "{ \"agentBackend\": ").unwrap();
    let status = bench.verb("status", &root);
    assert_eq!(status.code, 0, "{status:?}");
    assert!(status.out.contains("configuration: "), "{}", status.out);
    let paused = bench.devloop(&["pause", root.to_str().unwrap(), "--now"]);
    assert_eq!(paused.code, 0, "{paused:?}");
    running.until("The loop is paused.");
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
