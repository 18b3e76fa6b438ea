//! Starting, watching and ending child processes: the only place of the host that may.
//! It knows nothing of tasks, routes or git; it never uses a shell.

pub mod birth;
pub mod capture;
pub mod confine;
pub mod deadline;
pub mod env;
pub mod spawn;
pub mod tree;

pub use birth::Limits;
pub use capture::{Captured, Sink};
pub use confine::Confinement;
pub use deadline::{CancelToken, Deadline};
pub use env::{ChildEnv, Folders, MARKER_VAR};
pub use spawn::{Exit, Heard, Held, Running, SpawnError, Spec, StopPlan, Talk, spawn, spawn_talking};

/// Runs a short program to its end with its output in memory, for probes such as `--version`; not for
/// anything that a model or an operator's check starts.
///
/// # Errors
/// It could not be started; a deadline that passed is in the [`Exit`].
pub fn run_short(
    argv: &[&str],
    cwd: &std::path::Path,
    env: ChildEnv,
    limit_ms: u64,
) -> Result<Exit, SpawnError> {
    const MAX_BYTES: usize = 1024 * 1024;
    let spec = Spec {
        argv: argv.iter().map(Into::into).collect(),
        cwd: cwd.to_path_buf(),
        env,
        stdin: None,
        stdout: Sink::Memory { head_bytes: MAX_BYTES, tail_bytes: 0 },
        stderr: Sink::Memory { head_bytes: 0, tail_bytes: MAX_BYTES },
        deadline_ms: Some(limit_ms),
        stop: StopPlan { interrupt_ms: 0, terminate_ms: 500 },
        confine: None,
        held: None,
    };
    Ok(spawn(&spec)?.wait(&CancelToken::new()))
}
