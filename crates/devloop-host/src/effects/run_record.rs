//! The run record of a dispatch, `.devloop/runs/<dispatch>.json`: written before anything of it runs, so that
//! a later owner can prove its processes dead. It proves nothing itself; `process::tree` does.

use std::path::Path;

use devloop_core::ids::{DispatchId, Oid, TaskId};
use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, HostError};
use crate::process::tree::{ProcessId, TreeRecord, boot_id};
use crate::store::{Armed, Disk, small};

const VERSION: u32 = 2;
const LIMIT_BYTES: u64 = 256 * 1024;
/// How many escaped paths are kept.
const PATHS_KEPT: usize = 50;

/// What a dispatch was started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Plans; nothing it writes is read.
    Plan,
    /// Works on a task.
    Work,
    /// Reviews; nothing it writes is read.
    Review,
}

impl Role {
    /// The word in scripts and records.
    pub fn word(self) -> &'static str {
        match self {
            Role::Plan => "plan",
            Role::Work => "work",
            Role::Review => "review",
        }
    }
}

/// The first child of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leader {
    /// Process id, which is also the id of its group.
    pub pgid: i32,
    /// When it started, in clock ticks since boot.
    pub child_started: u64,
}

/// What is known of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// Version of this document.
    pub version: u32,
    /// The dispatch.
    pub dispatch: DispatchId,
    /// The epoch of its lease.
    pub epoch: u32,
    /// What it does.
    pub role: Role,
    /// The task; none for a plan.
    pub task: Option<TaskId>,
    /// Boot id when it started.
    pub boot: Option<String>,
    /// Value of the marker variable of every descendant.
    pub marker: String,
    /// The first child; none before it runs, and for a worker inside this process.
    pub leader: Option<Leader>,
    /// Whether the run is over.
    pub ended: bool,
    /// The commit it started from.
    pub before: Oid,
    /// Where the task's branch stood when the run had ended; none before.
    pub after: Option<Oid>,
    /// Paths of the operator's checkout that changed during the run, at most 50.
    pub escaped: Vec<String>,
}

impl RunRecord {
    /// A record of a run that is about to start.
    pub fn new(dispatch: DispatchId, epoch: u32, role: Role, marker: String, before: Oid) -> RunRecord {
        RunRecord {
            version: VERSION,
            dispatch,
            epoch,
            role,
            task: None,
            boot: boot_id(),
            marker,
            leader: None,
            ended: false,
            before,
            after: None,
            escaped: Vec::new(),
        }
    }

    /// How its processes are found again.
    pub fn tree(&self) -> TreeRecord {
        let leader = self.leader.map(|l| ProcessId { pid: l.pgid, started_ticks: l.child_started });
        TreeRecord { boot: self.boot.clone(), leader, marker: self.marker.clone() }
    }

    /// A worker inside the process that started it, not known to be over: it has no process of its own.
    pub fn is_embedded_and_open(&self) -> bool {
        self.leader.is_none() && !self.ended
    }

    /// Notes the first child.
    pub fn set_leader(&mut self, tree: &TreeRecord) {
        self.leader = tree.leader.map(|l| Leader { pgid: l.pid, child_started: l.started_ticks });
    }

    /// Notes what changed in the operator's checkout.
    pub fn set_escaped(&mut self, paths: Vec<String>) {
        self.escaped = paths;
        self.escaped.truncate(PATHS_KEPT);
    }

    /// Writes it durably.
    ///
    /// # Errors
    /// The disk refused.
    pub fn write(&self, disk: &Disk, armed: &Armed) -> Result<(), HostError> {
        let json = devloop_wire::canonical(self);
        Ok(small::write_run(disk, armed, &self.dispatch.to_string(), &json)?)
    }
}

/// The run record of a dispatch; `None` when none was written: then nothing of it was ever started.
///
/// # Errors
/// The disk refused, or the record is damaged.
pub fn read(disk: &Disk, armed: &Armed, dispatch: DispatchId) -> Result<Option<RunRecord>, HostError> {
    let Some(bytes) = small::read_run(disk, armed, &dispatch.to_string(), LIMIT_BYTES)? else {
        return Ok(None);
    };
    let path = armed.runs().join(format!("{dispatch}.json"));
    parse(&bytes).map(Some).map_err(|error| error.at(path))
}

/// Reads the document.
///
/// # Errors
/// Integrity, when it is damaged or of another version.
pub fn parse(bytes: &[u8]) -> Result<RunRecord, HostError> {
    let damaged =
        |why: String| HostError::new(ErrorKind::Integrity, format!("the run record cannot be read: {why}"));
    let record: RunRecord = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    if record.version == VERSION {
        Ok(record)
    } else {
        Err(damaged(format!("it has version {}", record.version)))
    }
}

/// The value of the marker variable of every process of a dispatch. It follows from project and dispatch, so
/// that they are found even when their record is lost; a dispatch id is never used again.
pub fn marker(armed: &Armed, dispatch: DispatchId) -> String {
    marker_at(armed.root(), dispatch)
}

/// The same for the project with this canonical root, whoever's loop runs it.
pub fn marker_at(root: &Path, dispatch: DispatchId) -> String {
    format!("{}{dispatch}", marker_start(root))
}

/// What the markers of all dispatches of a project start with.
pub fn marker_of_project(armed: &Armed) -> String {
    marker_start(armed.root())
}

fn marker_start(root: &Path) -> String {
    let root = devloop_wire::digest_bytes(root.to_string_lossy().as_bytes());
    format!("{}-", &root.as_str()[..16])
}
