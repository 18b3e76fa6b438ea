//! One child process from start to proven end: own group, bounded output, awake deadline, staged stop,
//! and a sweep of what it left behind. It does not interpret output or exit codes.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::birth::{self, Limits};
use super::capture::{Captured, Collector, Sink};
use super::confine::{self, Confinement};
use super::deadline::{CancelToken, Deadline};
use super::env::ChildEnv;
use super::tree::{self, ProcessId, TreeRecord};
use crate::error::{ErrorKind, HostError};
use crate::files;

/// How often a waiting host looks at its cancel token.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// How long output is awaited after the tree is gone; only an escaped process can still hold the pipe.
const DRAIN: Duration = Duration::from_millis(1_000);
/// How long a killed tree may take to vanish.
const KILL_LIMIT_MS: u64 = 5_000;

/// How a child is asked to stop before it is killed; milliseconds of awake time. Zero skips the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopPlan {
    /// After SIGINT; an agent uses it to report what it spent.
    pub interrupt_ms: u64,
    /// After SIGTERM.
    pub terminate_ms: u64,
}

impl Default for StopPlan {
    fn default() -> Self {
        StopPlan { interrupt_ms: 2_000, terminate_ms: 2_000 }
    }
}

/// What to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Program and arguments; never a shell line.
    pub argv: Vec<OsString>,
    /// Working folder: absolute, real, no link at its end.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: ChildEnv,
    /// Bytes for standard input; `None` is the null device.
    pub stdin: Option<Vec<u8>>,
    /// Where standard output goes.
    pub stdout: Sink,
    /// Where standard error goes.
    pub stderr: Sink,
    /// Awake milliseconds until it is stopped; `None` for no limit.
    pub deadline_ms: Option<u64>,
    /// How it is stopped.
    pub stop: StopPlan,
    /// What it may touch, held by the kernel; `None`: whatever this user may.
    pub confine: Option<Confinement>,
    /// How it is held; `None`: a short helper such as git, which ends by itself.
    pub held: Option<Held>,
}

/// How a child is held that works for itself: it dies with the loop, and nothing of it is lost from sight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Marks descendants so that the sweep finds those that left the group.
    pub marker: String,
    /// What each process may use.
    pub limits: Limits,
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// An empty argv.
    #[error("no program was named")]
    NoProgram,
    /// The program is not on the search path.
    #[error("program {program} was not found")]
    NotFound { program: String },
    /// The working folder is missing, a link or not a folder; nothing runs elsewhere instead.
    #[error("working folder {} is not a real folder", path.display())]
    WorkingFolder { path: PathBuf },
    /// The kernel would not confine it; nothing runs unconfined instead.
    #[error(
        "cannot confine {program}: {source}; set sandbox to off, or name what it needs under sandboxRead"
    )]
    Confine { program: String, source: io::Error },
    /// An output file could not be made.
    #[error("cannot write the output of {program}: {source}")]
    Output { program: String, source: io::Error },
    /// Anything else.
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: io::Error },
}

impl From<SpawnError> for HostError {
    fn from(error: SpawnError) -> Self {
        let kind = match &error {
            SpawnError::NoProgram | SpawnError::NotFound { .. } => ErrorKind::Config,
            _ => ErrorKind::External,
        };
        HostError::new(kind, error.to_string()).because(error)
    }
}

/// How it ended.
#[derive(Debug)]
pub struct Exit {
    /// Exit code, when it exited by itself.
    pub code: Option<i32>,
    /// Signal number, when a signal ended it.
    pub signal: Option<i32>,
    /// The deadline passed and it was stopped.
    pub timed_out: bool,
    /// The token was cancelled and it was stopped.
    pub cancelled: bool,
    /// The limit that it ran into, as a sentence.
    pub over: Option<String>,
    /// Awake milliseconds from start to end.
    pub duration_awake_ms: u64,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// The first failure to write an output file; the run itself went on.
    pub output_error: Option<io::Error>,
    /// How many processes outlived the child and were killed.
    pub leftovers_killed: usize,
    /// Processes that could not be killed; empty means that the tree is proven dead.
    pub survivors: Vec<ProcessId>,
}

impl Exit {
    /// It exited by itself with code zero.
    pub fn success(&self) -> bool {
        self.code == Some(0) && !self.timed_out && !self.cancelled
    }
}

/// Both ends of a child that is talked to. Dropping it closes the child's standard input.
pub struct Talk {
    input: Option<ChildStdin>,
    output: Receiver<Vec<u8>>,
}

impl std::fmt::Debug for Talk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Talk")
    }
}

/// What was heard of a child.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// The next bytes that it printed.
    Bytes(Vec<u8>),
    /// Nothing in the time that was waited.
    Silence,
    /// It prints nothing more.
    End,
}

impl Talk {
    /// Writes to the child.
    ///
    /// # Errors
    /// It reads nothing more.
    pub fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.input {
            Some(pipe) => pipe.write_all(bytes).and_then(|()| pipe.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Waits for what it prints next.
    pub fn hear(&self, patience: Duration) -> Heard {
        match self.output.recv_timeout(patience) {
            Ok(bytes) => Heard::Bytes(bytes),
            Err(RecvTimeoutError::Timeout) => Heard::Silence,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }
}

/// A child that was started. Dropping it without `wait` leaves it running as long as this process.
#[derive(Debug)]
pub struct Running {
    child: Child,
    record: TreeRecord,
    started: Instant,
    deadline: Deadline,
    stop: StopPlan,
    limits: Limits,
    sweep: bool,
    exited: Receiver<()>,
    stdout: Reader,
    stderr: Reader,
}

struct Reader {
    shared: Arc<Mutex<Shared>>,
    ended: Receiver<()>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

struct Shared {
    collector: Collector,
    closed: bool,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child in its own process group. One that is held dies with this process, whatever becomes of
/// that; what it started itself is found by its marker.
///
/// # Errors
/// A named [`SpawnError`]; in every one of them nothing is running.
pub fn spawn(spec: &Spec) -> Result<Running, SpawnError> {
    let mut running = start(spec, spec.stdin.is_some(), None)?;
    if let (Some(mut pipe), Some(bytes)) = (running.child.stdin.take(), spec.stdin.clone()) {
        // A child that does not read its input closes the pipe; that is its choice, not a failure.
        thread::spawn(move || drop(pipe.write_all(&bytes)));
    }
    Ok(running)
}

/// Starts a child to be talked to; the input of the spec is not used. What it prints is heard as it comes,
/// and kept as the spec says too.
///
/// # Errors
/// As [`spawn`].
pub fn spawn_talking(spec: &Spec) -> Result<(Running, Talk), SpawnError> {
    let (send, output) = mpsc::channel();
    let mut running = start(spec, true, Some(send))?;
    let input = running.child.stdin.take();
    Ok((running, Talk { input, output }))
}

fn start(spec: &Spec, input: bool, tee: Option<Sender<Vec<u8>>>) -> Result<Running, SpawnError> {
    let program = spec.argv.first().ok_or(SpawnError::NoProgram)?;
    let name = || program.to_string_lossy().into_owned();
    if !files::stamp(&spec.cwd).is_some_and(|s| s.folder && !s.symlink) || !spec.cwd.is_absolute() {
        return Err(SpawnError::WorkingFolder { path: spec.cwd.clone() });
    }
    let open = |sink| Collector::open(sink).map_err(|source| SpawnError::Output { program: name(), source });
    let (out, err) = (open(&spec.stdout)?, open(&spec.stderr)?);
    let mut env = spec.env.clone();
    if let Some(held) = &spec.held {
        env.mark(&held.marker);
    }
    let mut command = Command::new(program);
    command.args(&spec.argv[1..]).current_dir(&spec.cwd).env_clear().envs(env.iter());
    command.stdin(if input { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => SpawnError::NotFound { program: name() },
        _ => SpawnError::Start { program: name(), source },
    };
    match &spec.held {
        Some(held) => birth::prepare(&mut command, held.limits),
        None => _ = command.process_group(0),
    }
    let (mut child, exited) = match born(command, spec.confine.clone()) {
        Ok((born, exited)) => (born.map_err(failed)?, exited),
        Err(Unborn::Confine(source)) => return Err(SpawnError::Confine { program: name(), source }),
        Err(Unborn::Thread(source)) => return Err(SpawnError::Start { program: name(), source }),
    };
    let pid = child.id() as i32;
    if spec.held.is_none() {
        birth::no_core(pid);
    }
    let marker = spec.held.as_ref().map(|held| held.marker.clone());
    Ok(Running {
        stdout: read_stream(child.stdout.take(), out, tee),
        stderr: read_stream(child.stderr.take(), err, None),
        exited,
        record: TreeRecord {
            boot: tree::boot_id(),
            leader: tree::identify(pid),
            marker: marker.unwrap_or_else(|| format!("unmarked-{pid}")),
        },
        started,
        deadline: Deadline::after(spec.deadline_ms),
        stop: spec.stop,
        limits: spec.held.as_ref().map(|held| held.limits).unwrap_or_default(),
        sweep: spec.held.is_some(),
        child,
    })
}

/// Why the thread of a child did not come to start it.
enum Unborn {
    Thread(io::Error),
    Confine(io::Error),
}

/// Starts it from a thread of its own, which lives until it has ended: the kernel kills a child that is held
/// when that thread dies, which is when this process does. Where it is to be confined, that thread is, and
/// with it all that it starts; this one stays as it is.
///
/// The thread tells the end by dropping its channel, without reaping the child: so its id, and with it the id
/// of its group, cannot be another's while signals are still being sent.
fn born(
    mut command: Command,
    confinement: Option<Confinement>,
) -> Result<(io::Result<Child>, Receiver<()>), Unborn> {
    let (told, tell) = mpsc::channel();
    let (end, exited) = mpsc::channel::<()>();
    let live = move || {
        if let Err(error) = confinement.as_ref().map_or(Ok(()), confine::enter) {
            // Nobody hears it only when this process is ending.
            return drop(told.send(Err(Unborn::Confine(error))));
        }
        let child = command.spawn();
        let pid = child.as_ref().ok().and_then(|child| Pid::from_raw(child.id() as i32));
        drop(command);
        drop(told.send(Ok(child)));
        drop(told);
        let Some(pid) = pid else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), options) {}
        drop(end);
    };
    thread::Builder::new().name("devloop-child".into()).spawn(live).map_err(Unborn::Thread)?;
    let died = || Unborn::Thread(io::Error::other("the thread that starts it panicked"));
    Ok((tell.recv().map_err(|_| died())??, exited))
}

fn read_stream(
    pipe: Option<impl Read + Send + 'static>,
    collector: Collector,
    tee: Option<Sender<Vec<u8>>>,
) -> Reader {
    let shared = Arc::new(Mutex::new(Shared { collector, closed: false }));
    let (send, ended) = mpsc::channel::<()>();
    let writer = Arc::clone(&shared);
    thread::spawn(move || {
        let _ended = send;
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => return,
                Ok(n) => {
                    let mut shared = lock(&writer);
                    if shared.closed {
                        return;
                    }
                    shared.collector.push(&buffer[..n]);
                    // Nobody may be listening any more; what is kept is kept all the same.
                    drop(tee.as_ref().map(|tee| tee.send(buffer[..n].to_vec())));
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    Reader { shared, ended }
}

impl Reader {
    /// Takes what was read; an escaped process that still holds the pipe is not waited for.
    fn finish(self, patience: Duration) -> (Captured, Option<io::Error>) {
        let _ = self.ended.recv_timeout(patience);
        let mut shared = lock(&self.shared);
        shared.closed = true;
        shared.collector.finish()
    }
}

impl Running {
    /// How this run is found again if the host dies: write it down before waiting.
    pub fn record(&self) -> &TreeRecord {
        &self.record
    }

    /// Process id of the child, which is also the id of its group.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits until the child exits, its deadline passes or the token is cancelled; then stops what is
    /// left of its tree. Returns when the child is gone, not when its pipes are closed.
    pub fn wait(mut self, cancel: &CancelToken) -> Exit {
        let (mut timed_out, mut cancelled) = (false, false);
        while !self.exits_within(self.deadline.wait_at_most(LOOK_EVERY)) {
            cancelled = cancel.is_cancelled();
            timed_out = self.deadline.passed();
            if cancelled || timed_out {
                self.stop_stages();
                break;
            }
        }
        let stopped = timed_out || cancelled;
        let (leftovers_killed, survivors) =
            if stopped || self.sweep { self.kill_rest() } else { (0, Vec::new()) };
        let status = self.reap();
        let duration_awake_ms = self.started.elapsed().as_millis() as u64;
        let (stdout, out_error) = self.stdout.finish(DRAIN);
        let (stderr, err_error) = self.stderr.finish(DRAIN);
        let (code, signal) = (status.and_then(|s| s.code()), status.and_then(|s| s.signal()));
        Exit {
            over: if stopped { None } else { self.limits.hit(code, signal) },
            code,
            signal,
            timed_out,
            cancelled,
            duration_awake_ms,
            stdout,
            stderr,
            output_error: out_error.or(err_error),
            leftovers_killed,
            survivors,
        }
    }

    /// The watcher drops its end of the channel when the child has ended.
    fn exits_within(&self, patience: Duration) -> bool {
        matches!(self.exited.recv_timeout(patience), Err(RecvTimeoutError::Disconnected))
    }

    fn stop_stages(&self) {
        let stages = [(Signal::INT, self.stop.interrupt_ms), (Signal::TERM, self.stop.terminate_ms)];
        for (signal, patience_ms) in stages {
            if patience_ms > 0 {
                let escaped = tree::alive_outside_group(&self.record);
                self.signal_group(signal);
                tree::signal_each(&escaped, signal);
                if self.exits_within(Duration::from_millis(patience_ms)) {
                    return;
                }
            }
        }
    }

    /// The child is not reaped yet, so the group cannot be another's; an empty group is no failure.
    fn signal_group(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.pid()) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Kills the group and every marked process, the child itself included if it still runs. Without a
    /// process table the signal to the group is all that can be done.
    fn kill_rest(&self) -> (usize, Vec<ProcessId>) {
        let mut killed = std::collections::BTreeSet::from_iter(tree::alive(&self.record));
        self.signal_group(Signal::KILL);
        let (more, survivors) = tree::kill_tree(&self.record, KILL_LIMIT_MS);
        killed.extend(more);
        (killed.iter().filter(|id| Some(**id) != self.record.leader).count(), survivors)
    }

    /// Collects the exit status; a child that cannot be killed is left to the watcher.
    fn reap(&mut self) -> Option<std::process::ExitStatus> {
        if self.exits_within(Duration::from_millis(KILL_LIMIT_MS)) { self.child.wait().ok() } else { None }
    }
}
