//! The addon: one supervisor per project for Node. Strings of JSON cross the boundary, nothing else. It
//! decides nothing, and neither a panic nor an error of the engine may end the process that loaded it.

mod job;
#[cfg(feature = "limits")]
mod limits;

use devloop_host::error::HostError;
use devloop_host::supervisor::{Options, Supervisor as Engine};
use job::{Job, guarded};
use napi::bindgen_prelude::{AsyncTask, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Result, Status};
use napi_derive::napi;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The callback into JavaScript: it is not waited for, and it does not keep the process alive.
type Notify = ThreadsafeFunction<String, (), String, Status, false, true>;

/// An answer, or a sentence for the operator.
type Outcome<T> = std::result::Result<T, String>;

/// What the JavaScript object and its running calls share.
struct Shared {
    /// Held for the length of one call.
    slot: Mutex<Slot>,
    /// The last view, so that reading it never waits for a running tick.
    view: Mutex<String>,
    settings: Settings,
    notify: Arc<Notify>,
}

/// Where the engine is.
enum Slot {
    /// Not opened yet, or lost in a panic.
    Idle,
    Open(Box<Engine>),
    /// For good.
    Closed,
}

/// The options that JavaScript gave.
struct Settings {
    root: PathBuf,
    devloop_home: PathBuf,
    config_json: String,
}

impl Settings {
    /// Reads `{root, devloopHome, config}`.
    fn parse(text: &str) -> Outcome<Self> {
        let document: serde_json::Value =
            serde_json::from_str(text).map_err(|error| format!("options: {error}"))?;
        let path = |key: &str| match document[key].as_str() {
            Some(path) => Ok(PathBuf::from(path)),
            None => Err(format!("options.{key}: must be a path")),
        };
        let (root, devloop_home) = (path("root")?, path("devloopHome")?);
        Ok(Settings { root, devloop_home, config_json: document["config"].to_string() })
    }
}

/// A poisoned lock means that a call panicked; the engine it left behind is closed, not used.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Opens the project unless it is open.
    fn open<'a>(&self, slot: &'a mut Slot) -> Outcome<&'a mut Engine> {
        if matches!(slot, Slot::Idle) {
            let notify = Arc::clone(&self.notify);
            let wake = move || {
                // A queue that is closing has nobody left to wake.
                let _ = notify.call(r#"{"kind":"wake"}"#.to_owned(), ThreadsafeFunctionCallMode::NonBlocking);
            };
            let opened = Engine::open(Options {
                root: self.settings.root.clone(),
                devloop_home: self.settings.devloop_home.clone(),
                config_json: self.settings.config_json.clone(),
                wake: Arc::new(wake),
            });
            *slot = Slot::Open(Box::new(opened.map_err(|error| error.to_string())?));
        }
        match slot {
            Slot::Open(engine) => Ok(engine),
            Slot::Idle | Slot::Closed => Err("the project is closed".to_owned()),
        }
    }

    /// One call on the engine, opened when it is not, then the view is renewed. After a panic the engine is
    /// dropped and the next call opens the project anew: nothing may run on a half-done call.
    fn call<T: serde::Serialize>(
        &self,
        call: impl FnOnce(&mut Engine) -> std::result::Result<T, HostError>,
    ) -> Outcome<String> {
        let mut slot = locked(&self.slot);
        let outcome = guarded(|| {
            let engine = self.open(&mut slot)?;
            let answer = call(engine).map_err(|error| error.to_string());
            locked(&self.view).clone_from(&as_json(&engine.view())?);
            Ok(answer)
        });
        match outcome {
            Ok(answer) => as_json(&answer?),
            Err(sentence) => {
                if matches!(*slot, Slot::Open(_)) {
                    *slot = Slot::Idle;
                }
                Err(sentence)
            }
        }
    }

    fn close(&self) -> Outcome<String> {
        match std::mem::replace(&mut *locked(&self.slot), Slot::Closed) {
            Slot::Open(engine) => {
                engine.close().map_err(|error| error.to_string()).and_then(|done| as_json(&done))
            }
            Slot::Idle | Slot::Closed => as_json(&()),
        }
    }
}

fn as_json(value: &impl serde::Serialize) -> Outcome<String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}

/// One loop over one project.
#[napi]
pub struct Supervisor {
    shared: Arc<Shared>,
}

#[napi]
impl Supervisor {
    /// `optionsJson` is `{root, devloopHome, config}`; `notify` gets messages as JSON. Nothing is touched
    /// before the first call.
    #[napi(constructor, catch_unwind)]
    pub fn new(options_json: String, notify: Function<'_, String, ()>) -> Result<Self> {
        let settings = Settings::parse(&options_json).map_err(napi::Error::from_reason)?;
        let notify = notify.build_threadsafe_function::<String>().weak::<true>().build()?;
        let (slot, view) = (Mutex::new(Slot::Idle), Mutex::new("null".to_owned()));
        Ok(Supervisor { shared: Arc::new(Shared { slot, view, settings, notify: Arc::new(notify) }) })
    }

    /// One tick; dispatches go on after it. The first takes the project, or refuses with one sentence.
    #[napi(catch_unwind, ts_return_type = "Promise<string>")]
    pub fn tick(&self) -> AsyncTask<Job> {
        self.job(|shared| shared.call(Engine::tick))
    }

    /// The view after the last call, without waiting for a running one.
    #[napi(catch_unwind)]
    pub fn view(&self) -> String {
        locked(&self.shared.view).clone()
    }

    /// An operator's command as JSON.
    #[napi(catch_unwind, ts_return_type = "Promise<string>")]
    pub fn command(&self, command_json: String) -> AsyncTask<Job> {
        self.job(move |shared| shared.call(|engine| engine.command(&command_json)))
    }

    /// Cancels what is pending and lets go of the project.
    #[napi(catch_unwind, ts_return_type = "Promise<string>")]
    pub fn close(&self) -> AsyncTask<Job> {
        self.job(|shared| shared.close())
    }

    fn job(&self, call: impl FnOnce(&Shared) -> Outcome<String> + Send + 'static) -> AsyncTask<Job> {
        let shared = Arc::clone(&self.shared);
        AsyncTask::new(Job::new(move || call(&shared)))
    }
}

/// The version of this engine.
#[napi(catch_unwind)]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
