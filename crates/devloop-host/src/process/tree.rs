//! Who is alive: processes named by id and start time, trees found by group, parent and marker.
//! It signals what its caller names and nothing else; a reused process id is never taken for the old one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::deadline::Deadline;
use super::env::MARKER_VAR;
use crate::files;

const STAT_MAX_BYTES: u64 = 4096;
const ENVIRON_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// One process: an id alone is reused by the kernel, the pair with the start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    /// The process id.
    pub pid: i32,
    /// When it started, in clock ticks since the machine booted.
    pub started_ticks: u64,
}

/// One line of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    id: ProcessId,
    parent: i32,
    group: i32,
    zombie: bool,
}

/// How a tree of a run is found again after the host that started it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeRecord {
    /// Boot id when it was started; another boot means that nothing of it can be alive.
    pub boot: Option<String>,
    /// The first child, which leads the process group; `None` when the host died before it was noted.
    pub leader: Option<ProcessId>,
    /// Value of the marker variable.
    pub marker: String,
}

/// The id of this boot of the machine, when the kernel tells it.
pub fn boot_id() -> Option<String> {
    let bytes = files::read_kernel(&PathBuf::from("/proc/sys/kernel/random/boot_id"), 64).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// The process with this id now, or `None` when there is none.
pub fn identify(pid: i32) -> Option<ProcessId> {
    read_stat(pid).map(|stat| stat.id)
}

/// This process.
pub fn identify_self() -> Option<ProcessId> {
    identify(rustix::process::getpid().as_raw_nonzero().get())
}

/// Is exactly this process still running? A zombie is not, and neither is another process with its id.
pub fn is_alive(id: ProcessId) -> bool {
    read_stat(id.pid).is_some_and(|stat| stat.id == id && !stat.zombie)
}

/// The marker of every process but this one, as far as its environment may be read.
fn markers() -> impl Iterator<Item = (i32, Vec<u8>)> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let marker = |pid: i32| {
        let path = PathBuf::from(format!("/proc/{pid}/environ"));
        let bytes = files::read_kernel(&path, ENVIRON_MAX_BYTES).ok()?;
        let start = format!("{MARKER_VAR}=");
        // DSH hands its agents' shells only variables of its own name.
        let plain = |var: &'_ [u8]| var.strip_prefix(b"DSH_").map_or(var.to_vec(), <[u8]>::to_vec);
        let mut vars = bytes.split(|b| *b == 0).map(plain);
        let found = vars.find_map(|var| Some(var.strip_prefix(start.as_bytes())?.to_vec()))?;
        Some((pid, found))
    };
    files::list_pids().into_iter().filter(move |pid| *pid != own).filter_map(marker)
}

/// The markers that start like this and that some process carries, each once.
pub fn markers_with(start: &str) -> BTreeSet<String> {
    let texts = markers().filter_map(|(_, marker)| String::from_utf8(marker).ok());
    texts.filter(|marker| marker.starts_with(start)).collect()
}

/// Every live process whose environment carries the marker, this process excepted.
pub fn find_by_marker(marker: &str) -> Vec<ProcessId> {
    markers()
        .filter(|(_, found)| found == marker.as_bytes())
        .map(|(pid, _)| pid)
        .filter_map(read_stat)
        .filter(|stat| !stat.zombie)
        .map(|stat| stat.id)
        .collect()
}

/// Every live process of the tree: group and descendants of the leader while it is itself, and all that
/// carry the marker. An empty answer proves the tree dead.
pub fn alive(record: &TreeRecord) -> Vec<ProcessId> {
    if record.boot.is_some() && boot_id() != record.boot {
        return Vec::new();
    }
    let mut found: BTreeSet<ProcessId> = find_by_marker(&record.marker).into_iter().collect();
    if let Some(leader) = record.leader {
        found.extend(descendants_of(leader));
    }
    found.into_iter().collect()
}

/// Those of the tree that are not in the group of the leader and that a signal to the group misses.
pub fn alive_outside_group(record: &TreeRecord) -> Vec<ProcessId> {
    let group = record.leader.map(|leader| leader.pid);
    let outside = |id: &ProcessId| read_stat(id.pid).is_some_and(|stat| Some(stat.group) != group);
    alive(record).into_iter().filter(outside).collect()
}

/// Live members of the leader's group and live descendants of it; nothing when the id is another's now.
fn descendants_of(leader: ProcessId) -> Vec<ProcessId> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let table: Vec<Stat> = files::list_pids().into_iter().filter_map(read_stat).collect();
    if !table.iter().any(|stat| stat.id == leader) {
        return Vec::new();
    }
    let mut family = BTreeSet::from([leader.pid]);
    loop {
        let before = family.len();
        for stat in &table {
            if family.contains(&stat.parent) || stat.group == leader.pid {
                family.insert(stat.id.pid);
            }
        }
        if family.len() == before {
            break;
        }
    }
    let live = |stat: &&Stat| family.contains(&stat.id.pid) && !stat.zombie && stat.id.pid != own;
    table.iter().filter(live).map(|stat| stat.id).collect()
}

/// Sends a signal to each process that is still itself.
pub fn signal_each(ids: &[ProcessId], signal: Signal) {
    for id in ids.iter().filter(|id| is_alive(**id)) {
        if let Some(pid) = Pid::from_raw(id.pid) {
            // It may end between the look and the signal; that is what was wanted.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// Kills everything of the tree until nothing is left or `limit_ms` awake milliseconds passed.
/// Returns which processes were killed and which are left.
pub fn kill_tree(record: &TreeRecord, limit_ms: u64) -> (BTreeSet<ProcessId>, Vec<ProcessId>) {
    let deadline = Deadline::after(Some(limit_ms));
    let mut killed = BTreeSet::new();
    loop {
        let left = alive(record);
        if left.is_empty() || deadline.passed() {
            return (killed, left);
        }
        signal_each(&left, Signal::KILL);
        killed.extend(left);
        thread::sleep(Duration::from_millis(2));
    }
}

fn read_stat(pid: i32) -> Option<Stat> {
    let bytes = files::read_kernel(&PathBuf::from(format!("/proc/{pid}/stat")), STAT_MAX_BYTES).ok()?;
    parse_stat(pid, &bytes)
}

/// The second field is the program's name in brackets and may itself hold spaces and brackets.
fn parse_stat(pid: i32, bytes: &[u8]) -> Option<Stat> {
    let after_name = bytes.iter().rposition(|b| *b == b')')? + 1;
    let fields: Vec<&str> =
        std::str::from_utf8(&bytes[after_name..]).ok()?.split_ascii_whitespace().collect();
    Some(Stat {
        id: ProcessId { pid, started_ticks: fields.get(19)?.parse().ok()? },
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let line = b"7 (a) b (c)) S 3 5 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3";
        let stat = parse_stat(7, line).unwrap();
        assert_eq!(stat.id, ProcessId { pid: 7, started_ticks: 98765 });
        assert_eq!((stat.parent, stat.group, stat.zombie), (3, 5, false));
        assert!(parse_stat(7, b"7 (x) Z 3 5").is_none());
    }

    #[test]
    fn this_process_is_alive_and_one_with_its_id_but_another_start_is_not() {
        let me = identify_self().unwrap();
        assert!(is_alive(me));
        assert!(!is_alive(ProcessId { started_ticks: me.started_ticks + 1, ..me }));
    }

    #[test]
    fn nothing_of_another_boot_is_alive() {
        let leader = identify_self();
        let record = TreeRecord { boot: Some("another".into()), leader, marker: "none".into() };
        assert_eq!(alive(&record), []);
    }
}
