//! Throw-away projects for the measurements, on the file system of the build folder. It measures nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use devloop_host::backend::demo;
use devloop_host::supervisor::{Options, Supervisor, TickReport};
use serde_json::{Value, json};

use crate::Outcome;

/// The longest wait for a wake; it only keeps a lost one from hanging the run.
const PATIENCE: Duration = Duration::from_secs(10);
/// Beats after which a goal counts as stuck.
const MAX_BEATS: u32 = 2_000;

/// A folder that goes away with it, on the disk that is measured.
pub fn folder() -> Outcome<tempfile::TempDir> {
    Ok(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)
}

/// A small repository, armed.
pub struct Project {
    home: tempfile::TempDir,
    _folder: tempfile::TempDir,
    /// Its top folder.
    pub root: PathBuf,
    wake: Arc<dyn Fn() + Send + Sync>,
    woken: Receiver<()>,
}

impl Project {
    /// With this configuration and script of workers.
    pub fn new(config: &Value, script: &Value) -> Outcome<Project> {
        let (home, folder) = (folder()?, folder()?);
        let root = demo::sample_repo(&folder.path().join("project"))?;
        std::fs::write(root.join(".devloop/config.json"), config.to_string())?;
        std::fs::write(root.join(".devloop/demo.json"), script.to_string())?;
        let (send, woken) = channel();
        let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            // Nobody listens once the project is gone.
            let _ = send.send(());
        });
        Ok(Project { home, _folder: folder, root, wake, woken })
    }

    /// The user's folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Its loop.
    pub fn open(&self) -> Outcome<Supervisor> {
        Ok(Supervisor::open(Options {
            root: self.root.clone(),
            devloop_home: self.home.path().to_path_buf(),
            config_json: String::new(),
            wake: Arc::clone(&self.wake),
            agents: None,
        })?)
    }

    /// Beats at every wake until the goal is reached; how many beats that took.
    pub fn finish(&self, supervisor: &mut Supervisor) -> Outcome<u32> {
        self.watch(supervisor, |_| ())
    }

    /// The same, and looks at the loop after every beat.
    pub fn watch(&self, supervisor: &mut Supervisor, mut look: impl FnMut(&Supervisor)) -> Outcome<u32> {
        for beat in 1..=MAX_BEATS {
            while self.woken.try_recv().is_ok() {}
            let report: TickReport = supervisor.tick()?;
            look(supervisor);
            match report.reason {
                "still_complete" => return Ok(beat),
                "wait_lease" => drop(self.woken.recv_timeout(PATIENCE)),
                reason if reason.starts_with("wait") || reason == "halted" => {
                    return Err(format!("the goal is stuck: {report:?}").into());
                }
                _ => {}
            }
        }
        Err("the goal does not end".into())
    }
}

/// Makes a quiet armed project, for a measurement outside of this process.
pub fn sample(folder: &Path) -> Outcome<()> {
    let root = demo::sample_repo(folder)?;
    let config = json!({ "agentBackend": "noop", "tickIntervalMs": 500 });
    Ok(std::fs::write(root.join(".devloop/config.json"), config.to_string())?)
}

/// The configuration of embedded workers without checks.
pub fn scripted() -> Value {
    json!({
        "agentBackend": "scripted",
        "scripted": { "script": ".devloop/demo.json" },
        "tickIntervalMs": 500,
    })
}

/// Workers that answer at once: a plan of these tasks, a file for each, and a pass.
pub fn instant(tasks: &[&str]) -> Value {
    let planned = |task: &&str| {
        json!({
            "id": task, "title": format!("Write {task}"), "tier": "T1", "risk": "low", "dependsOn": [],
            "allowedPaths": [format!("{task}/**")], "acceptance": ["it is there"],
        })
    };
    let work = |task: &&str| {
        json!({
            "role": "work", "task": task,
            "edits": [{ "path": format!("{task}/text.txt"), "content": "one\ntwo\nthree\n" }],
            "result": { "work": "completed", "summary": "written" }, "usage": { "costUsd": 0.01 },
        })
    };
    let mut rules = vec![json!({
        "role": "plan", "result": { "plan": tasks.iter().map(planned).collect::<Vec<_>>() },
        "usage": { "costUsd": 0.01 },
    })];
    rules.extend(tasks.iter().map(work));
    rules.push(json!({
        "role": "review", "result": { "review": "pass", "notes": "fine" }, "usage": { "costUsd": 0.01 },
    }));
    json!({ "version": 1, "rules": rules })
}
