//! The loop in the foreground: beats, wakes, signals, and a picture of it for people. It decides nothing,
//! and what it prints it takes from reports and views.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use devloop_host::doctor;
use devloop_host::error::{ErrorKind, HostError};
use devloop_host::supervisor::{Options, Supervisor, TickReport};
use devloop_host::view::View;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{picture, place, say};

/// How often a beat may fail before the loop gives up, when waiting could help.
const MAX_FAILURES: u32 = 30;
/// The exit code of a program that a second signal ended.
const INTERRUPTED: i32 = 130;

/// What ends the wait for the next beat.
enum Wake {
    Beat,
    Stop,
}

/// A loop in the foreground.
pub struct Live {
    supervisor: Supervisor,
    wakes: Receiver<Wake>,
    picture: Option<picture::Picture>,
    failures: u32,
}

/// Why a foreground loop came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A signal.
    Stopped,
    /// Nothing runs, and nothing will by itself.
    Idle,
}

impl Live {
    /// Becomes the project's supervisor.
    ///
    /// # Errors
    /// When another one lives, or the project cannot be worked with.
    pub fn open(root: &Path, devloop_home: PathBuf) -> Result<Live, HostError> {
        Live::with_picture(root, devloop_home, Some(picture::Picture::new()))
    }

    /// The same, without showing anything.
    ///
    /// # Errors
    /// As [`Live::open`].
    pub fn open_quiet(root: &Path, devloop_home: PathBuf) -> Result<Live, HostError> {
        Live::with_picture(root, devloop_home, None)
    }

    fn with_picture(
        root: &Path,
        devloop_home: PathBuf,
        picture: Option<picture::Picture>,
    ) -> Result<Live, HostError> {
        let armed = doctor::check_goal(root).map_err(|error| place::about(error, root))?;
        let (sender, wakes) = channel();
        let supervisor = Supervisor::open(Options {
            root: armed.root().to_path_buf(),
            devloop_home,
            config_json: String::new(),
            wake: waker(sender.clone()),
            agents: None,
        })
        .map_err(|error| place::about(error, armed.root()))?;
        listen(sender)?;
        Ok(Live { supervisor, wakes, picture, failures: 0 })
    }

    /// The project.
    pub fn root(&self) -> &Path {
        self.supervisor.root()
    }

    /// Everything a surface shows.
    pub fn view(&self) -> View {
        self.supervisor.view()
    }

    /// What works but hardly as intended in the configuration.
    pub fn warnings(&self) -> Vec<String> {
        self.supervisor.config().warnings.iter().map(ToString::to_string).collect()
    }

    /// Beats until a signal comes, or until it is idle when that is asked for.
    ///
    /// # Errors
    /// When the state cannot be trusted, or beats keep failing.
    pub fn run(&mut self, until_idle: bool) -> Result<End, HostError> {
        loop {
            if let Some(report) = self.beat()?
                && until_idle
                && is_idle(&report, self.supervisor.is_busy())
            {
                self.clear();
                return Ok(End::Idle);
            }
            if !self.wait() {
                // The terminal has shown the key by now: what is drawn can no longer be taken back line by
                // line.
                return Ok(End::Stopped);
            }
        }
    }

    /// One beat, shown. `None`: it failed in a way that waiting may help.
    ///
    /// # Errors
    /// See [`Live::run`].
    pub fn beat(&mut self) -> Result<Option<TickReport>, HostError> {
        match self.supervisor.tick() {
            Ok(report) => {
                self.failures = 0;
                if let Some(picture) = &mut self.picture {
                    picture.show(&report, &self.supervisor.view());
                }
                Ok(Some(report))
            }
            Err(error) => {
                self.failures += 1;
                let may_pass =
                    matches!(error.kind(), ErrorKind::Busy | ErrorKind::External | ErrorKind::Stale);
                if !may_pass || self.failures >= MAX_FAILURES {
                    self.clear();
                    return Err(place::about(error, self.supervisor.root()));
                }
                if self.failures == 1 {
                    self.clear();
                    say::note(format_args!("devloop: {}; trying again", say::sentence(&error)));
                }
                Ok(None)
            }
        }
    }

    fn clear(&mut self) {
        if let Some(picture) = &mut self.picture {
            picture.clear();
        }
    }

    /// Waits for what was started, without another beat. False: a signal came.
    pub fn wait_for_what_runs(&mut self) -> bool {
        while self.supervisor.is_busy() {
            if !self.wait() {
                return false;
            }
        }
        true
    }

    /// Waits for the next beat. False: a signal came.
    fn wait(&mut self) -> bool {
        let beat = Duration::from_millis(u64::from(self.supervisor.config().tick_interval_ms));
        let first = match self.wakes.recv_timeout(beat) {
            Ok(wake) => wake,
            Err(RecvTimeoutError::Timeout) => return true,
            // The listener for signals is gone: only the beat is left.
            Err(RecvTimeoutError::Disconnected) => return true,
        };
        // Several wakes are one beat.
        let rest = self.wakes.try_iter();
        !std::iter::once(first).chain(rest).any(|wake| matches!(wake, Wake::Stop))
    }

    /// Gives the project back.
    ///
    /// # Errors
    /// When the store cannot let go.
    pub fn close(self) -> Result<(), HostError> {
        self.supervisor.close()
    }
}

fn waker(sender: Sender<Wake>) -> Arc<dyn Fn() + Send + Sync> {
    // A loop that is closing no longer listens.
    Arc::new(move || drop(sender.send(Wake::Beat)))
}

/// The first signal ends the loop in an orderly way, the second one at once.
fn listen(sender: Sender<Wake>) -> Result<(), HostError> {
    let failed = |source: std::io::Error| {
        HostError::new(ErrorKind::External, "signals cannot be listened to").because(source)
    };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let listener = move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 || sender.send(Wake::Stop).is_err() {
                std::process::exit(INTERRUPTED);
            }
            say::note("devloop: ending what runs; once more ends at once");
        }
    };
    std::thread::Builder::new().name("devloop-signals".into()).spawn(listener).map_err(failed)?;
    Ok(())
}

/// Whether nothing will happen without a person, another program or the operator.
fn is_idle(report: &TickReport, busy: bool) -> bool {
    let waits = report.waits_for_slot || matches!(report.reason, "wait_lease" | "wait_time");
    !busy && !report.changed && !waits
}
