//! Owns who this process is, in words that survive a reboot and a reused pid; it must not judge what follows.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// One process of one boot of one machine, and one instance of the loop in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Name of the machine.
    pub host: String,
    /// Id of the boot; empty where the system tells none.
    pub boot: String,
    /// Process id.
    pub pid: u32,
    /// Start of the process in clock ticks after boot; 0 where the system tells none.
    pub started: u64,
    /// 16 hex digits, new for every instance (a plugin reload is a new one).
    pub instance: String,
    /// The namespace that the process id counts in; empty where the system tells none.
    #[serde(default)]
    pub pid_space: String,
}

impl Identity {
    /// This process, as a new instance.
    pub fn new_instance() -> Identity {
        let pid = std::process::id();
        Identity {
            host: host_name(),
            boot: boot_id(),
            pid,
            started: process_started(pid).unwrap_or(0),
            instance: nonce(),
            pid_space: pid_space(),
        }
    }

    /// Whether that process still runs. `None` when it cannot be told from here (another machine, another
    /// container, no records).
    pub fn is_alive(&self) -> Option<bool> {
        if self.host != host_name() || self.boot.is_empty() {
            return None;
        }
        if self.boot != boot_id() {
            return Some(false);
        }
        // Its number is counted elsewhere: here it is nobody's, or somebody else's.
        if !self.pid_space.is_empty() && self.pid_space != pid_space() {
            return None;
        }
        Some(process_started(self.pid).is_some_and(|started| started == self.started))
    }
}

/// Random id of the current boot; empty where there is none.
pub fn boot_id() -> String {
    static BOOT: OnceLock<String> = OnceLock::new();
    let read = || fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
    BOOT.get_or_init(read).clone()
}

/// The namespace of process ids that this process counts in; empty where the system tells none.
fn pid_space() -> String {
    static SPACE: OnceLock<String> = OnceLock::new();
    let read = || fs::read_link("/proc/self/ns/pid").unwrap_or_default().to_string_lossy().into_owned();
    SPACE.get_or_init(read).clone()
}

/// Start of a process in clock ticks after boot. `None` when it does not run or the system does not tell.
pub fn process_started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name may hold spaces and brackets; fields are counted from behind its last bracket.
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    let runs = fields.next().is_some_and(|state| state != "Z" && state != "X");
    let started = fields.nth(18)?.parse().ok()?;
    runs.then_some(started)
}

fn host_name() -> String {
    #[cfg(unix)]
    {
        let uname = rustix::system::uname();
        uname.nodename().to_string_lossy().chars().take(64).collect()
    }
    #[cfg(not(unix))]
    {
        std::env::var("COMPUTERNAME").unwrap_or_default()
    }
}

fn nonce() -> String {
    // The hasher's keys come from the system's random source; the time keeps two instances of a process
    // apart.
    let mut hasher = RandomState::new().build_hasher();
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    hasher.write_u128(since.map(|d| d.as_nanos()).unwrap_or(0));
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_instances_differ() {
        let (one, two) = (Identity::new_instance(), Identity::new_instance());
        assert_ne!(one.instance, two.instance);
        if one.boot.is_empty() {
            return;
        }
        assert_eq!(one.is_alive(), Some(true));
        let older = Identity { started: one.started.wrapping_sub(1), ..one.clone() };
        assert_eq!(older.is_alive(), Some(false), "a reused pid is another process");
        let last_boot = Identity { boot: "another".into(), ..one.clone() };
        assert_eq!(last_boot.is_alive(), Some(false));
        let elsewhere = Identity { host: "elsewhere".into(), ..one.clone() };
        assert_eq!(elsewhere.is_alive(), None);
        let in_a_container = Identity { pid_space: "pid:[1]".into(), ..one.clone() };
        assert_eq!(in_a_container.is_alive(), None, "its process id counts elsewhere");
        let not_told = Identity { pid_space: String::new(), ..one };
        assert_eq!(not_told.is_alive(), Some(true), "an older record");
    }
}
