//! Embedded workers that follow a script file: for the demo and for tests of everything around a worker. They
//! do what the script says, lies and crashes included, and judge nothing.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use devloop_core::report::{FailureClass, Outcome};
use devloop_core::units::{Map, WallMs};
use devloop_wire::envelope;
use serde_json::{Value, json};

use super::script::{self, Edit, EndWord, Ending, ReviewEnding, Rule, Script};
use super::{Backend, BackendResult, Ground, Run, expected, stop_of, stopped};
use crate::clock::system_wall_ms;
use crate::files::{self, FileProblem};
use crate::process::{self, ChildEnv, Deadline, Held, Sink, Spec, StopPlan};
use crate::store::disk::{Keep, Point, Replace};

const LOOK_EVERY: Duration = Duration::from_millis(10);
const OUTPUT_BYTES: usize = 64 * 1024;
const EDITED_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Counting an attempt reads, adds one and writes; runs of one process take turns.
static COUNTING: Mutex<()> = Mutex::new(());

/// The scripted backend of one project.
#[derive(Debug)]
pub struct Scripted {
    ground: Ground,
}

impl Scripted {
    /// Reads nothing yet: the script is read anew for every run.
    pub fn new(ground: Ground) -> Scripted {
        Scripted { ground }
    }

    fn script(&self) -> Result<Script, String> {
        let Some(path) = &self.ground.script else {
            return Err("no script is configured for the scripted backend".into());
        };
        let path = self.ground.armed.root().join(path);
        let bytes = files::read_bytes(&path, script::LIMIT_BYTES).map_err(|e| e.to_string())?;
        script::parse(&bytes).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// The how-manieth run of this role and task it is. Kept on disk, so that another process counts on.
    fn count(&self, run: &Run<'_>) -> Result<u64, String> {
        let _turn = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.ground.armed.folder().join("scripted.json");
        let read = self.ground.disk.read(&path, script::LIMIT_BYTES).map_err(|e| e.to_string())?;
        // A damaged count starts again: it only selects rules of a demonstration.
        let mut counts: Map<String, u64> =
            read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let count = counts.entry(format!("{}/{}", run.role().word(), task_of(run))).or_default();
        *count += 1;
        let attempt = *count;
        let how = Replace { write: Point::SmallWrite, rename: Point::SmallWrite, keep: Keep::Renamed };
        let bytes = devloop_wire::canonical(&counts);
        self.ground.disk.replace(&path, &bytes, how).map_err(|e| e.to_string())?;
        Ok(attempt)
    }
}

fn task_of<'a>(run: &'a Run<'_>) -> &'a str {
    run.contract().map_or("", |contract| contract.task.as_str())
}

impl Backend for Scripted {
    fn run(&self, run: &Run<'_>) -> BackendResult {
        let found = self.script().and_then(|script| Ok((self.count(run)?, script)));
        let (attempt, script) = match found {
            Ok(found) => found,
            Err(why) => return BackendResult::refused(why),
        };
        let task = run.contract().map(|contract| contract.task.as_str());
        let Some(rule) = script.rule(run.role(), task, attempt) else {
            let (role, task) = (run.role().word(), task.unwrap_or("the goal"));
            return BackendResult::refused(format_args!("the script has no rule for {role} of {task}"));
        };
        let usage = rule.usage.as_ref().map(script::Used::usage);
        if matches!(&rule.result, Ending::End(other) if other.end == EndWord::Refuse) {
            return BackendResult::refused("the script refuses this run");
        }
        let done = if rule.process { in_process(run, rule) } else { in_thread(run, rule) };
        match done {
            Ok(None) => BackendResult { outcome: ending(run, &rule.result), usage },
            Ok(Some(outcome)) => BackendResult { outcome, usage },
            Err(why) => BackendResult { outcome: machine(why), usage },
        }
    }
}

fn machine(detail: String) -> Outcome {
    Outcome::Failed { class: FailureClass::Machine, detail }
}

/// Follows a rule in this thread; `Some` when the run ended before its result.
fn in_thread(run: &Run<'_>, rule: &Rule) -> Result<Option<Outcome>, String> {
    if let Some(outcome) = idle(run, Deadline::after(Some(rule.delay_ms))) {
        return Ok(Some(outcome));
    }
    apply_all(run.worktree.root(), &rule.edits)?;
    apply_all(run.primary, &rule.escape)?;
    if rule.commit {
        commit_by_itself(run)?;
    }
    match &rule.result {
        Ending::End(other) if other.end == EndWord::Hang => Ok(idle(run, Deadline::after(None))),
        // Unwinds without the noise of a panic: what a fault of a backend does to its thread.
        Ending::End(other) if other.end == EndWord::Crash => {
            std::panic::resume_unwind(Box::new("the script says crash"))
        }
        _ => Ok(None),
    }
}

/// Waits until the moment, or until the run must end.
fn idle(run: &Run<'_>, until: Deadline) -> Option<Outcome> {
    while !until.passed() {
        if let Some(result) = run.ended() {
            return Some(result.outcome);
        }
        thread::sleep(until.wait_at_most(LOOK_EVERY));
    }
    run.ended().map(|result| result.outcome)
}

fn apply_all(root: &Path, edits: &[Edit]) -> Result<(), String> {
    edits.iter().try_for_each(|edit| apply(root, edit))
}

fn apply(root: &Path, edit: &Edit) -> Result<(), String> {
    let io = |path: &Path, error: std::io::Error| format!("cannot edit {}: {error}", path.display());
    match edit {
        Edit::Write(e) => write_file(&root.join(&e.path), e.content.as_bytes()),
        Edit::Append(e) => {
            let path = root.join(&e.path);
            let mut bytes = match files::read_bytes(&path, EDITED_FILE_BYTES) {
                Ok(bytes) => bytes,
                Err(FileProblem::Missing { .. }) => Vec::new(),
                Err(problem) => return Err(problem.to_string()),
            };
            bytes.extend_from_slice(e.append.as_bytes());
            write_file(&path, &bytes)
        }
        Edit::Delete(e) => {
            let path = root.join(&e.path);
            files::remove_file(&path).map_err(|error| io(&path, error))
        }
        Edit::Rename(e) => {
            let (from, to) = (root.join(&e.path), root.join(&e.rename_to));
            make_parent(&to)?;
            files::rename(&from, &to).map_err(|error| io(&from, error))
        }
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), String> {
    make_parent(path)?;
    let write = || files::create_private(path)?.write_all(bytes);
    write().map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn make_parent(path: &Path) -> Result<(), String> {
    match path.parent() {
        Some(parent) if files::stamp(parent).is_none() => files::ensure_private_dir(parent)
            .map_err(|error| format!("cannot make {}: {error}", parent.display())),
        _ => Ok(()),
    }
}

/// What a worker does that was told not to: stages everything and commits on whatever is checked out.
fn commit_by_itself(run: &Run<'_>) -> Result<(), String> {
    let call = |args: &[&str]| run.worktree.call(args).ok().map(drop).map_err(|e| e.to_string());
    call(&["add", "--all", "."])?;
    let who = ["-c", "user.name=Worker", "-c", "user.email=worker@localhost"];
    let args: Vec<&str> =
        who.into_iter().chain(["commit", "--quiet", "--message", "my own commit"]).collect();
    call(&args)
}

/// Follows a rule in a child process; `Some` when it did not exit by itself.
fn in_process(run: &Run<'_>, rule: &Rule) -> Result<Option<Outcome>, String> {
    let mut env = ChildEnv::worker(&[]);
    env.use_folders(run.folders, true);
    let sink = || Sink::Memory { head_bytes: OUTPUT_BYTES / 2, tail_bytes: OUTPUT_BYTES / 2 };
    let spec = Spec {
        argv: vec!["/bin/sh".into(), "-c".into(), shell_of(run, rule)?.into()],
        cwd: PathBuf::from(run.worktree.root()),
        env,
        stdin: Some(run.prompt.as_bytes().to_vec()),
        stdout: sink(),
        stderr: sink(),
        deadline_ms: Some(run.limit_ms),
        stop: StopPlan { interrupt_ms: 0, terminate_ms: 200 },
        confine: run.confine.cloned(),
        held: Some(Held { marker: run.marker.to_owned(), limits: run.limits }),
    };
    let running = match process::spawn(&spec) {
        Ok(running) => running,
        Err(error) => return Ok(Some(Outcome::Refused { detail: error.to_string() })),
    };
    (run.started)(running.record());
    let exit = running.wait(run.cancel);
    if let Some(outcome) = stop_of(&exit) {
        return Ok(Some(outcome));
    }
    match exit.code {
        Some(0) => Ok(None),
        code => Err(format!("the worker's process ended with {code:?}: {}", exit.stderr.text())),
    }
}

/// The rule as a shell script: the one thing that every system with git can run.
fn shell_of(run: &Run<'_>, rule: &Rule) -> Result<String, String> {
    let quote = |text: &str| {
        shlex::try_quote(text).map(|q| q.into_owned()).map_err(|_| format!("{text:?} cannot be quoted"))
    };
    let mut lines = vec!["set -e".to_owned()];
    if rule.delay_ms > 0 {
        lines.push(format!("sleep {}.{:03}", rule.delay_ms / 1000, rule.delay_ms % 1000));
    }
    let primary = run.primary.to_string_lossy();
    for (prefix, edits) in [("", &rule.edits), (&*primary, &rule.escape)] {
        let name = |path: &str| {
            quote(&if prefix.is_empty() { format!("./{path}") } else { format!("{prefix}/{path}") })
        };
        for edit in edits {
            lines.push(match edit {
                Edit::Write(e) => {
                    let (to, text) = (name(&e.path)?, quote(&e.content)?);
                    format!("mkdir -p \"$(dirname {to})\"; printf %s {text} > {to}")
                }
                Edit::Append(e) => format!("printf %s {} >> {}", quote(&e.append)?, name(&e.path)?),
                Edit::Delete(e) => format!("rm -f {}", name(&e.path)?),
                Edit::Rename(e) => format!("mv {} {}", name(&e.path)?, name(&e.rename_to)?),
            });
        }
    }
    if rule.commit {
        let who = "-c user.name=Worker -c user.email=worker@localhost";
        lines.push(format!("git add --all . && git {who} commit -q -m 'my own commit'"));
    }
    match &rule.result {
        Ending::End(other) if other.end == EndWord::Hang => lines.push("while :; do sleep 1; done".into()),
        Ending::End(other) if other.end == EndWord::Crash => lines.push("kill -KILL $$".into()),
        _ => {}
    }
    Ok(lines.join("\n"))
}

/// The end that the script names; results take the way of a model's output.
fn ending(run: &Run<'_>, ending: &Ending) -> Outcome {
    match ending {
        Ending::Plan(plan) => answer(run, json!({ "version": 1, "kind": "plan", "tasks": plan.plan })),
        Ending::Work(work) => {
            let word = format!("{:?}", work.work).to_lowercase();
            let summary = if work.summary.is_empty() { "done as the script says" } else { &work.summary };
            let task = task_of(run);
            answer(
                run,
                json!({ "version": 1, "kind": "implementation", "taskId": task, "outcome": word,
                        "summary": summary }),
            )
        }
        Ending::Review(review) => answer(run, review_json(run, review)),
        Ending::Text(text) => envelope::outcome(&text.text, expected(run)),
        Ending::RateLimited(limit) => {
            let until = limit.rate_limited.reset_in_ms.map(|ms| WallMs(system_wall_ms()).plus(ms));
            failed(FailureClass::RateLimited { until }, "the provider's limit is reached")
        }
        Ending::End(other) => match other.end {
            EndWord::None => envelope::outcome("I did something.", expected(run)),
            EndWord::Invalid => answer(run, json!({ "version": 1, "kind": "nonsense" })),
            EndWord::Refuse => Outcome::Refused { detail: "the script refuses this run".into() },
            EndWord::OutOfCredit => failed(FailureClass::OutOfCredit, "the account has no credit"),
            EndWord::LoginExpired => failed(FailureClass::LoginExpired, "the login is no longer valid"),
            EndWord::Overloaded => failed(FailureClass::Overloaded, "the provider is overloaded"),
            EndWord::NetworkDown => failed(FailureClass::NetworkDown, "the network is down"),
            EndWord::ContextTooLong => failed(FailureClass::ContextTooLong, "the prompt is too long"),
            EndWord::OutputLimit => failed(FailureClass::OutputLimit, "the answer is cut off"),
            EndWord::ContentRefusal => failed(FailureClass::ContentRefusal, "the content is refused"),
            EndWord::Hang | EndWord::Crash => stopped(FailureClass::Machine),
        },
    }
}

fn failed(class: FailureClass, detail: &str) -> Outcome {
    Outcome::Failed { class, detail: detail.into() }
}

fn review_json(run: &Run<'_>, review: &ReviewEnding) -> Value {
    let honest = run.head().map_or("", |head| head.as_str());
    let head = match review.head.as_deref() {
        Some("base") => run.base.as_str(),
        Some(other) => other,
        None => honest,
    };
    let verdict = match review.review {
        script::ReviewWord::Pass => "PASS",
        script::ReviewWord::PassWithNotes => "PASS_WITH_NOTES",
        script::ReviewWord::Rework => "REWORK",
        script::ReviewWord::Replan => "REPLAN",
        script::ReviewWord::Blocked => "BLOCKED",
    };
    let mut json = json!({ "version": 1, "kind": "review", "taskId": task_of(run), "reviewedSha": head,
                           "verdict": verdict });
    if !review.notes.is_empty() {
        json["notes"] = Value::from(review.notes.as_str());
    }
    let sends_back = review.review == script::ReviewWord::Rework && !review.notes.is_empty();
    let notes = || sends_back.then(|| vec![json!({ "severity": "blocking", "text": review.notes })]);
    if let Some(findings) = review.findings.clone().or_else(notes) {
        json["findings"] = Value::from(findings);
    }
    json
}

fn answer(run: &Run<'_>, json: Value) -> Outcome {
    envelope::outcome(&format!("Done.\n\n<devloop_result>{json}</devloop_result>\n"), expected(run))
}
