//! A project with a performer over it: what a supervisor would give to effects and take from them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use devloop_core::effect::{Contract, Effect, Job, Start};
use devloop_core::ids::{Branch, DispatchId, Identity, Oid, RouteKey, TaskId};
use devloop_core::policy::Backend;
use devloop_core::report::{Outcome, Report};
use devloop_core::tier::{Risk, Tier};
use devloop_core::units::Map;
use devloop_host::backend::Surroundings;
use devloop_host::effects::{EffectConfig, Performer, Setting};
use devloop_host::error::{ErrorKind, HostError};
use devloop_host::git::{Git, Repo};
use devloop_host::process::Limits;
use devloop_host::store::{Disk, layout};
use devloop_wire::config_doc::{RouteConfig, Sandbox, SandboxMode};
use devloop_wire::config_price::PriceFrom;
use serde_json::{Value, json};

/// How long a test waits for a report that must come.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Ground {
    _dir: tempfile::TempDir,
    pub root: PathBuf,
    pub repo: Repo,
    pub performer: Performer,
    pub setting: Arc<Setting>,
    reports: Receiver<Report>,
    early: Mutex<Vec<Report>>,
    pub owned: Arc<AtomicBool>,
    next: Mutex<u64>,
}

pub fn git_in(dir: &Path, args: &[&str]) -> String {
    let out = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

pub fn write(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub fn oid(text: &str) -> Oid {
    Oid::parse(text).unwrap()
}

pub fn route(backend: Backend, identity: &str) -> RouteConfig {
    let (provider, model) = identity.split_once('/').unwrap();
    RouteConfig {
        tier: Tier::T3,
        backend,
        provider: provider.to_owned(),
        model: Some(model.to_owned()),
        identity: Identity::parse(identity).unwrap(),
        fallback: Vec::new(),
        price: None,
        peak: None,
        price_from: PriceFrom::Nobody,
        reserve: None,
        max_tokens: None,
        max_parallel: None,
    }
}

pub fn key(name: &str) -> RouteKey {
    RouteKey::parse(name).unwrap()
}

pub fn target() -> Branch {
    Branch::parse("work").unwrap()
}

impl Ground {
    pub fn new(rules: &Value) -> Ground {
        Self::with(rules, |_| {})
    }

    pub fn with(rules: &Value, change: impl FnOnce(&mut EffectConfig)) -> Ground {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir(&root).unwrap();
        git_in(&root, &["init", "--quiet", "--initial-branch=work"]);
        write(root.join("src/a.txt"), "one\ntwo\nthree\n");
        write(root.join("tests/a_test.txt"), "must stay\n");
        write(root.join("README.md"), "read me\n");
        git_in(&root, &["add", "."]);
        git_in(&root, &["commit", "--quiet", "-m", "start"]);
        let repo = Repo::open(&Git::discover().unwrap(), &root).unwrap().unwrap();
        let armed = layout::arm(&Disk::default(), &root, "# Goal\nGreet.\n").unwrap();
        write(armed.folder().join("script.json"), &json!({ "version": 1, "rules": rules }).to_string());
        let mut config = EffectConfig {
            acceptance: Vec::new(),
            check_timeout_ms: 20_000,
            protected_tests: Vec::new(),
            protected_paths: Vec::new(),
            mode_changes: Vec::new(),
            binary_max_bytes: 1024 * 1024,
            limits: Limits::default(),
            ignored_writes: Vec::new(),
            sandbox: Sandbox { mode: SandboxMode::Off, read: Vec::new(), write: Vec::new() },
            routes: Map::from([
                (key("worker"), route(Backend::Scripted, "script/worker")),
                (key("reviewer"), route(Backend::Scripted, "script/reviewer")),
                (key("closed"), route(Backend::Noop, "nobody/noop")),
                (key("missing"), route(Backend::Claude, "anthropic/x")),
            ]),
            adapters: Map::new(),
            around: Surroundings::of_process(),
            script: Some(".devloop/script.json".into()),
            agents: None,
        };
        change(&mut config);
        let owned = Arc::new(AtomicBool::new(true));
        let fence = Arc::clone(&owned);
        let setting = Arc::new(Setting {
            repo: repo.clone(),
            armed,
            disk: Disk::default(),
            config,
            fence: Arc::new(move || match fence.load(Ordering::SeqCst) {
                true => Ok(()),
                false => Err(HostError::new(ErrorKind::Busy, "another supervisor owns the project")),
            }),
        });
        Ground { owned, ..Self::over(dir, setting) }
    }

    /// A performer over a project that lies in `dir`.
    pub fn over(dir: tempfile::TempDir, setting: Arc<Setting>) -> Ground {
        let (performer, reports) = performer(&setting);
        Ground {
            _dir: dir,
            root: setting.repo.root().to_path_buf(),
            repo: setting.repo.clone(),
            performer,
            setting,
            reports,
            early: Mutex::default(),
            owned: Arc::new(AtomicBool::new(true)),
            next: Mutex::new(1),
        }
    }

    /// Another owner of the same project, as after a crash.
    pub fn restart(&mut self) {
        (self.performer, self.reports) = performer(&self.setting);
    }

    /// Waits for all housekeeping, as a shutdown does, and goes on with a new owner.
    pub fn settled(mut self) -> Ground {
        let (fresh, reports) = performer(&self.setting);
        std::mem::replace(&mut self.performer, fresh).shutdown(60_000);
        self.reports = reports;
        self
    }

    pub fn next(&self) -> DispatchId {
        let mut next = self.next.lock().unwrap();
        *next += 1;
        DispatchId(*next - 1)
    }

    pub fn git(&self, args: &[&str]) -> String {
        git_in(&self.root, args)
    }

    pub fn head(&self) -> Oid {
        oid(&self.git(&["rev-parse", "work"]))
    }

    pub fn tip(&self, name: &str) -> Option<Oid> {
        self.repo.resolve(name).unwrap()
    }

    /// A commit of a person on the branch that is checked out.
    pub fn person(&self, name: &str, text: &str) -> Oid {
        write(self.root.join(name), text);
        self.git(&["add", "--", name]);
        self.git(&["commit", "--quiet", "-m", name]);
        self.head()
    }

    pub fn show(&self, commit: &Oid, path: &str) -> String {
        self.git(&["show", &format!("{commit}:{path}")])
    }

    pub fn contract(&self, task: &str, allowed: &[&str]) -> Contract {
        Contract {
            task: TaskId::parse(task).unwrap(),
            edition: 1,
            title: format!("Do {task}"),
            tier: Tier::T1,
            risk: Risk::Low,
            allowed_paths: allowed.iter().map(|s| (*s).to_owned()).collect(),
            criteria: vec!["it is done".into()],
            estimate: None,
            base: self.head(),
            implementers: Vec::new(),
        }
    }

    pub fn dispatch(&self, route: &str, limit_ms: u64, job: Job) -> DispatchId {
        let dispatch = self.next();
        self.performer.perform(Effect::Dispatch { dispatch, epoch: 1, route: key(route), limit_ms, job });
        dispatch
    }

    pub fn start_work(&self, contract: &Contract, start: Start) -> DispatchId {
        let job = work_job(contract, start);
        self.dispatch(self.worker(), 60_000, job)
    }

    fn worker(&self) -> &'static str {
        if self.setting.config.routes.contains_key(&key("worker")) { "worker" } else { "T1" }
    }

    /// Waits for the report of a dispatch; others that come meanwhile are kept.
    pub fn report(&self, dispatch: DispatchId) -> Report {
        let mut early = self.early.lock().unwrap();
        loop {
            if let Some(at) = early.iter().position(|r| r.dispatch == dispatch) {
                return early.remove(at);
            }
            early.push(self.reports.recv_timeout(PATIENCE).expect("a report"));
        }
    }

    /// Whether no report is waiting.
    pub fn is_quiet(&self) -> bool {
        self.early.lock().unwrap().is_empty() && self.reports.try_recv().is_err()
    }

    pub fn work(&self, contract: &Contract, start: Start) -> (DispatchId, Outcome) {
        let dispatch = self.start_work(contract, start);
        (dispatch, self.report(dispatch).outcome)
    }

    pub fn commit_effect(&self, dispatch: DispatchId, work: DispatchId, contract: &Contract) -> Effect {
        let (contract, route) = (contract.clone(), key(self.worker()));
        Effect::Commit { dispatch, epoch: 1, work, contract, route }
    }

    pub fn commit(&self, work: DispatchId, contract: &Contract) -> Outcome {
        let dispatch = self.next();
        self.performer.perform(self.commit_effect(dispatch, work, contract));
        self.report(dispatch).outcome
    }

    /// Works on a task and commits it; the host's commit.
    pub fn done(&self, contract: &Contract, start: Start) -> Oid {
        let (work, outcome) = self.work(contract, start);
        assert!(matches!(outcome, Outcome::Worked { .. }), "{outcome:?}");
        let outcome = self.commit(work, contract);
        self.performer.perform(Effect::RemoveWorktree { dispatch: work });
        match outcome {
            Outcome::Committed { head } => head,
            other => panic!("{other:?}"),
        }
    }

    pub fn merge_effect(&self, dispatch: DispatchId, contract: &Contract, head: &Oid) -> Effect {
        Effect::Merge {
            dispatch,
            epoch: 1,
            contract: contract.clone(),
            head: head.clone(),
            base: contract.base.clone(),
            target: target(),
            known_red: Vec::new(),
        }
    }

    pub fn merge(&self, contract: &Contract, head: &Oid) -> Outcome {
        let dispatch = self.next();
        self.performer.perform(self.merge_effect(dispatch, contract, head));
        self.report(dispatch).outcome
    }

    pub fn check(&self, commit: &Oid, contract: Option<&Contract>) -> Outcome {
        self.check_with(commit, contract, &[])
    }

    /// Checks a commit while these checks are known to be red.
    pub fn check_with(&self, commit: &Oid, contract: Option<&Contract>, known: &[&str]) -> Outcome {
        let dispatch = self.next();
        let (commit, contract) = (commit.clone(), contract.cloned());
        let known_red = known.iter().map(|line| (*line).to_owned()).collect();
        self.performer.perform(Effect::Check { dispatch, epoch: 1, commit, contract, known_red });
        self.report(dispatch).outcome
    }

    pub fn inbox(&self) -> Vec<String> {
        names(&self.setting.armed.inbox())
    }

    pub fn worktrees(&self) -> Vec<String> {
        names(&self.setting.armed.worktrees()).into_iter().filter(|n| n != ".gitignore").collect()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn performer(setting: &Arc<Setting>) -> (Performer, Receiver<Report>) {
    let (send, reports) = channel();
    let send = Mutex::new(send);
    let tell = move |report| {
        // The receiver is gone once a test ends; a report that comes after that has nobody to tell.
        let _ = send.lock().unwrap().send(report);
    };
    (Performer::new(Arc::clone(setting), Arc::new(tell)), reports)
}

/// The first work on a task, or one more from its last commit.
pub fn work_job(contract: &Contract, start: Start) -> Job {
    Job::Work { contract: contract.clone(), start, notes: String::new(), findings: Vec::new() }
}

/// The first review of a commit, without checks.
pub fn review_job(contract: &Contract, head: &Oid) -> Job {
    Job::Review { contract: contract.clone(), head: head.clone(), earlier: Vec::new(), checks: None }
}

/// A rule of a worker that writes files and says that it is done.
pub fn writes(task: &str, files: &[(&str, &str)]) -> Value {
    let edits: Vec<Value> =
        files.iter().map(|(path, content)| json!({ "path": path, "content": content })).collect();
    json!({ "role": "work", "task": task, "edits": edits, "result": { "work": "completed" } })
}
