//! Shared by the store tests: an armed project, a small line and state format, a medium with faults.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use devloop_host::store::*;
use sha2::{Digest, Sha256};

/// Lines `{"v":2,"revision":N,"body":"...","chain":"<hex>"}`: the chain hashes the one before and the rest.
#[derive(Debug)]
pub struct TestLines;

const CHAIN_KEY: &str = ",\"chain\":\"";

impl LineFormat for TestLines {
    fn read(&self, bytes: &[u8], first: bool) -> Result<LineHead, LineFault> {
        let defect = |why: &str| LineFault::Defect(why.to_owned());
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| defect("it is not JSON"))?;
        match value["v"].as_u64().or(value["version"].as_u64()) {
            Some(2) => {}
            Some(1) => return Err(LineFault::Legacy),
            Some(version) => return Err(LineFault::Newer { version }),
            None => return Err(defect("it has no version")),
        }
        if value["snapshot"].is_string() != first {
            return Err(defect("a snapshot stands only at the start of a segment"));
        }
        let revision = value["revision"].as_u64().ok_or_else(|| defect("it has no revision"))?;
        let chain = value["chain"].as_str().ok_or_else(|| defect("it has no chain"))?;
        Ok(LineHead { revision, chain: chain.to_owned() })
    }

    fn chain(&self, previous: &str, bytes: &[u8]) -> Result<String, LineFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| LineFault::Defect("it is not UTF-8".into()))?;
        let at = text.rfind(CHAIN_KEY).ok_or_else(|| LineFault::Defect("it has no chain".into()))?;
        Ok(hash(&[previous.as_bytes(), &bytes[..at]]))
    }
}

fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

fn seal(previous: &str, revision: u64, body: String) -> Line {
    let chain = hash(&[previous.as_bytes(), body.as_bytes()]);
    let bytes = format!("{body}{CHAIN_KEY}{chain}\"}}").into_bytes();
    Line { revision, chain, bytes }
}

/// The line behind `tip`.
pub fn step(tip: &Tip, text: &str) -> Line {
    let revision = tip.revision + 1;
    seal(&tip.chain, revision, format!("{{\"v\":2,\"revision\":{revision},\"body\":\"{text}\""))
}

/// `n` lines behind `tip`.
pub fn group(tip: &Tip, n: usize, text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for _ in 0..n {
        let before = lines.last().map_or(tip.clone(), Line::tip);
        lines.push(step(&before, text));
    }
    lines
}

/// A snapshot line at `tip`.
pub fn snapshot(tip: &Tip, text: &str) -> Line {
    let revision = tip.revision;
    seal(&tip.chain, revision, format!("{{\"v\":2,\"revision\":{revision},\"snapshot\":\"{text}\""))
}

/// Where a journal without lines stands.
pub fn start() -> Tip {
    Tip { revision: 0, chain: String::new() }
}

/// States `{"version":2,"revision":N,"chain":"<hex>","digest":"<hex of the state>","state":"..."}`.
#[derive(Debug)]
pub struct TestStates;

impl StateFormat for TestStates {
    fn read(&self, bytes: &[u8]) -> Result<StateHead, StateFault> {
        let torn = |why: &str| StateFault::Torn(why.to_owned());
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| torn("it is not JSON"))?;
        match value["version"].as_u64() {
            Some(2) => {}
            Some(1) => return Err(StateFault::Legacy),
            Some(version) => return Err(StateFault::Newer { version }),
            None => return Err(torn("it has no version")),
        }
        let text = value["state"].as_str().unwrap_or_default();
        if value["digest"] != hash(&[text.as_bytes()]) {
            return Err(StateFault::Edited("its digest does not match".into()));
        }
        let revision = value["revision"].as_u64().unwrap_or_default();
        Ok(StateHead { revision, chain: value["chain"].as_str().unwrap_or_default().to_owned() })
    }
}

/// A state document at `tip`.
pub fn state(tip: &Tip, text: &str) -> Vec<u8> {
    let digest = hash(&[text.as_bytes()]);
    format!(
        "{{\"version\":2,\"revision\":{},\"chain\":\"{}\",\"digest\":\"{digest}\",\"state\":\"{text}\"}}\n",
        tip.revision, tip.chain
    )
    .into_bytes()
}

/// An armed project and a user's folder in one temporary folder.
#[derive(Debug)]
pub struct Project {
    pub temp: tempfile::TempDir,
    pub armed: Armed,
    pub user: UserFolder,
}

impl Project {
    pub fn new() -> Project {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("project");
        std::fs::create_dir(&root).unwrap();
        let armed = layout::arm(&Disk::default(), &root, "# Goal\n").unwrap();
        let user = UserFolder::at(temp.path().join("user"));
        Project { temp, armed, user }
    }

    pub fn locks(&self) -> Locks {
        self.locks_on(&Disk::default())
    }

    pub fn locks_on(&self, disk: &Disk) -> Locks {
        Locks::new(self.armed.clone(), self.user.clone(), disk.clone(), Identity::new_instance())
    }

    pub fn journal(&self, disk: &Disk) -> Journal {
        Journal::new(self.armed.clone(), disk.clone(), Arc::new(TestLines))
    }

    pub fn state_file(&self, disk: &Disk) -> StateFile {
        StateFile::new(self.armed.clone(), disk.clone(), Arc::new(TestStates))
    }

    /// A loaded journal that has its first segment.
    pub fn started(&self, disk: &Disk) -> Journal {
        let locks = self.locks();
        let mut journal = self.journal(disk);
        journal.start_segment(&locks.lock(Wait::ONCE).unwrap(), &snapshot(&start(), "new")).unwrap();
        journal
    }

    /// What a fresh reader believes.
    pub fn load(&self) -> StoreResult<Loaded> {
        let disk = Disk::default();
        recover::load(&mut self.journal(&disk), &self.state_file(&disk))
    }

    pub fn ready(&self) -> Recovered {
        match self.load().unwrap() {
            Loaded::Ready(recovered) => recovered,
            other => panic!("not ready: {other:?}"),
        }
    }

    pub fn event_bytes(&self) -> Vec<u8> {
        std::fs::read(self.armed.events()).unwrap()
    }
}

/// The tip of a loaded journal.
pub fn tip(journal: &Journal) -> Tip {
    journal.tip().cloned().unwrap()
}

/// A medium that fails as told.
#[derive(Debug, Default)]
pub struct Faults {
    plan: Mutex<Vec<(Point, Verdict)>>,
}

impl Faults {
    pub fn disk() -> (Arc<Faults>, Disk) {
        let faults = Arc::new(Faults::default());
        (faults.clone(), Disk::new(faults))
    }

    /// The next time `point` is reached, `verdict` happens.
    pub fn next(&self, point: Point, verdict: Verdict) {
        self.plan.lock().unwrap().push((point, verdict));
    }
}

impl Medium for Faults {
    fn at(&self, point: Point) -> Verdict {
        let mut plan = self.plan.lock().unwrap();
        match plan.iter().position(|(p, _)| *p == point) {
            Some(index) => plan.remove(index).1,
            None => Verdict::Go,
        }
    }
}

pub const ENOSPC: i32 = 28;
pub const EIO: i32 = 5;
pub const ENOLCK: i32 = 37;

/// Every file below a folder with its bytes, for "nothing changed".
pub fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                found.push((path.clone(), Vec::new()));
                open.push(path);
            } else {
                found.push((path.clone(), std::fs::read(&path).unwrap_or_default()));
            }
        }
    }
    found.sort();
    found
}
