//! Notices that another process committed or the goal was edited, and wakes the loop. It reads file stamps,
//! nothing else.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::files::{Stamp, stamp};
use crate::store::Armed;

/// How often the stamps are looked at. Notification services run out of instances at night; two stats do not.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A running watch; ends when dropped.
#[derive(Debug)]
pub struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts to watch the project's journal and goal.
    #[must_use]
    pub fn start(armed: &Armed, wake: Arc<dyn Fn() + Send + Sync>) -> Watch {
        let (stop, stopped) = channel();
        let paths = [armed.events(), armed.goal()];
        let thread = std::thread::Builder::new().name("devloop-watch".into());
        let thread = thread.spawn(move || look(&paths, &stopped, &*wake)).ok();
        Watch { stop: Some(stop), thread }
    }
}

fn look(paths: &[PathBuf], stopped: &Receiver<()>, wake: &(dyn Fn() + Send + Sync)) {
    let read = || paths.iter().map(|path| stamp(path)).collect::<Vec<Option<Stamp>>>();
    let mut before = read();
    while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        let now = read();
        if now != before {
            before = now;
            wake();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A watch that panicked has nothing left to say.
            let _ = thread.join();
        }
    }
}
