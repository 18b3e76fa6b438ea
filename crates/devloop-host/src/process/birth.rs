//! What a child is given between fork and exec: a session of its own, that it dies with the loop, no core
//! file, and the operator's limits. The one place of the process runner with unsafe code; it starts nothing
//! itself.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, Signal, getpid, getppid, getrlimit, setrlimit, setsid};

/// Seconds of processor time between the signal that says so and the one that nobody survives.
const CPU_GRACE_SECONDS: u64 = 5;
/// What a shell adds to the number of the signal that ended its child.
const SHELL_SIGNAL_BASE: i32 = 128;

/// What one process may use; none: as much as its user may. Every process that it starts has the same for
/// itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Seconds of processor time.
    pub cpu_seconds: Option<u64>,
    /// The largest file that it may write, in bytes.
    pub file_bytes: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Memory of its own that it may write to, in bytes. Address space that is only reserved, as the engines
    /// of JavaScript and WebAssembly do by the gigabyte, is not counted.
    pub memory_bytes: Option<u64>,
}

impl Limits {
    /// Which limit a child ran into, as a sentence: only those that end a process by a signal of their own
    /// can be told. A shell passes the signal of its child on as its exit code.
    #[must_use]
    pub fn hit(&self, code: Option<i32>, signal: Option<i32>) -> Option<String> {
        let ended = signal.or(code.map(|code| code - SHELL_SIGNAL_BASE))?;
        let is = |signal: Signal| ended == signal.as_raw();
        match (self.cpu_seconds, self.file_bytes) {
            (Some(limit), _) if is(Signal::XCPU) => {
                Some(format!("it used more than processLimits.cpuSeconds, {limit} s"))
            }
            (_, Some(limit)) if is(Signal::XFSZ) => {
                Some(format!("it wrote a file above processLimits.fileBytes, {limit} bytes"))
            }
            _ => None,
        }
    }

    /// The limits of the kernel: which, from where on it says so, and where it ends.
    fn rows(self) -> [(Resource, Option<u64>, u64); 5] {
        [
            (Resource::Core, Some(0), 0),
            (Resource::Cpu, self.cpu_seconds, CPU_GRACE_SECONDS),
            (Resource::Fsize, self.file_bytes, 0),
            (Resource::Nofile, self.open_files, 0),
            (Resource::Data, self.memory_bytes, 0),
        ]
    }
}

/// Has the child of this command begin a session, which has no terminal to write to or read from, die with
/// the thread that starts it, write no core file, and keep the limits. That thread must live as long as the
/// child: it is the thread's end that kills.
pub(super) fn prepare(command: &mut Command, limits: Limits) {
    let (parent, rows) = (getpid(), limits.rows());
    let before_exec = move || -> io::Result<()> {
        setsid()?;
        die_with(parent)?;
        for (resource, limit, grace) in rows {
            if let Some(limit) = limit {
                lower(resource, limit, grace)?;
            }
        }
        Ok(())
    };
    // SAFETY: the closure runs in the forked child, where other threads' locks may be held for ever: it makes
    // system calls and nothing else; it takes no lock, allocates nothing, and touches no memory but its own
    // copies of plain numbers. Its errors are numbers of the system, which need no memory either.
    unsafe { command.pre_exec(before_exec) };
}

#[cfg(target_os = "linux")]
fn die_with(parent: rustix::process::Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before that: then nobody will send the signal any more.
    if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from_raw_os_error(NO_PARENT)) }
}

#[cfg(target_os = "linux")]
const NO_PARENT: i32 = rustix::io::Errno::SRCH.raw_os_error();

#[cfg(not(target_os = "linux"))]
fn die_with(_parent: rustix::process::Pid) -> io::Result<()> {
    Ok(())
}

/// No core file for a short helper. It is limited from outside once it runs: for something between fork and
/// exec the system must copy the page tables of the whole loop first, 5 ms for each 60 MB that it uses, and
/// helpers are many.
pub(super) fn no_core(pid: i32) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, prlimit};
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        // A child that has ended already needs none, and one that may not be limited runs all the same.
        let _ = Pid::from_raw(pid).map(|pid| prlimit(Some(pid), Resource::Core, none));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = pid;
}

/// Sets a limit, never above the one that is in force.
fn lower(resource: Resource, limit: u64, grace: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let maximum = limit.saturating_add(grace).min(most);
    let wanted = Rlimit { current: Some(limit.min(maximum)), maximum: Some(maximum) };
    Ok(setrlimit(resource, wanted)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_only_when_it_is_set_and_its_signal_came() {
        let all = Limits { cpu_seconds: Some(7), file_bytes: Some(9), ..Limits::default() };
        let (cpu, file) = (Signal::XCPU.as_raw(), Signal::XFSZ.as_raw());
        let check = |limits: Limits, code, signal, expect: Option<&str>| {
            let said = limits.hit(code, signal);
            assert_eq!(said.as_deref(), expect, "{code:?} {signal:?}");
        };
        check(all, None, Some(cpu), Some("it used more than processLimits.cpuSeconds, 7 s"));
        check(all, Some(128 + cpu), None, Some("it used more than processLimits.cpuSeconds, 7 s"));
        check(all, None, Some(file), Some("it wrote a file above processLimits.fileBytes, 9 bytes"));
        check(all, None, Some(9), None);
        check(all, Some(0), None, None);
        check(all, Some(cpu), None, None);
        check(Limits::default(), None, Some(cpu), None);
    }
}
