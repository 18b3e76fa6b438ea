//! Owns the thread that advances an engine's epoch while guests run, which is what a deadline counts. It must
//! not know what a guest does.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::Engine;

/// One step of the epoch, milliseconds: the grain of a deadline.
pub const TICK_MS: u64 = 10;

/// Steps without a running guest after which the thread sleeps until it is needed: a loop at rest wakes
/// nobody.
const LINGER_TICKS: u32 = 20;

#[derive(Debug, Default)]
struct Shared {
    running: AtomicUsize,
    parked: AtomicBool,
    stop: Mutex<bool>,
    wake: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, bool> {
        // The flag is valid whatever a panicking holder did.
        self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A guest is running as long as this lives.
#[derive(Debug)]
pub struct Running<'a>(&'a Shared);

impl Watchdog {
    /// Starts the thread for `engine`.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (engine, seen) = (engine.clone(), Arc::clone(&shared));
        let name = "devloop-epoch".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || beat(&engine, &seen))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Makes the epoch advance until the answer is dropped.
    pub fn watch(&self) -> Running<'_> {
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        // The thread says that it parks before it looks at `running` a last time, so one of the two is always
        // seen.
        if self.shared.parked.load(Ordering::SeqCst) {
            let _held = self.shared.lock();
            self.shared.wake.notify_all();
        }
        Running(&self.shared)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.shared.lock() = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic; were it to, there is nothing left to tell it.
            let _ended = thread.join();
        }
    }
}

fn beat(engine: &Engine, shared: &Shared) {
    let mut stop = shared.lock();
    let mut idle = 0;
    while !*stop {
        if idle < LINGER_TICKS {
            let step = Duration::from_millis(TICK_MS);
            stop = shared.wake.wait_timeout(stop, step).unwrap_or_else(PoisonError::into_inner).0;
            engine.increment_epoch();
            idle = if shared.running.load(Ordering::SeqCst) == 0 { idle + 1 } else { 0 };
        } else {
            shared.parked.store(true, Ordering::SeqCst);
            let at_rest = |stop: &mut bool| !*stop && shared.running.load(Ordering::SeqCst) == 0;
            stop = shared.wake.wait_while(stop, at_rest).unwrap_or_else(PoisonError::into_inner);
            shared.parked.store(false, Ordering::SeqCst);
            idle = 0;
        }
    }
}
