//! The addon: one supervisor per project for Node. Strings of JSON cross the boundary, nothing else. It
//! decides nothing, and neither a panic nor an error of the engine may end the process that loaded it.

#![allow(missing_debug_implementations, reason = "what Node holds is printed by nobody")]

mod job;
#[cfg(feature = "limits")]
mod limits;
mod replay;

use devloop_host::backend::AgentPort;
use devloop_host::distrust;
use devloop_host::error::HostError;
use devloop_host::store::{StoreError, layout};
use devloop_host::supervisor::{Options, Supervisor as Engine};
use devloop_host::view;
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
    agents: Arc<AgentPort>,
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
    /// `$DSH_HOME`.
    dsh_home: PathBuf,
    config_json: String,
}

impl Settings {
    /// Reads `{root, dshHome, config}`; `config` is a text of JSON.
    fn parse(text: &str) -> Outcome<Self> {
        let document: serde_json::Value =
            serde_json::from_str(text).map_err(|error| format!("options: {error}"))?;
        let text = |key: &str| match document[key].as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(format!("options.{key}: must be a text")),
        };
        let (root, dsh_home) = (PathBuf::from(text("root")?), PathBuf::from(text("dshHome")?));
        Ok(Settings { root, dsh_home, config_json: text("config")? })
    }
}

/// A poisoned lock means that a call panicked; the engine it left behind is closed, not used.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The engine, opened when it is not; none while the folder is not armed.
    fn open<'a>(&self, slot: &'a mut Slot) -> Outcome<Option<&'a mut Engine>> {
        if matches!(slot, Slot::Idle) {
            if let Err(StoreError::NotArmed { why, .. }) = layout::require_armed(&self.settings.root) {
                *locked(&self.view) = serde_json::json!({ "phase": "unarmed", "sentence": why }).to_string();
                return Ok(None);
            }
            let notify = Arc::clone(&self.notify);
            let wake = move || {
                // A queue that is closing has nobody left to wake.
                let _ = notify.call(r#"{"kind":"wake"}"#.to_owned(), ThreadsafeFunctionCallMode::NonBlocking);
            };
            let opened = Engine::open(Options {
                root: self.settings.root.clone(),
                devloop_home: self.settings.dsh_home.clone(),
                config_json: self.settings.config_json.clone(),
                wake: Arc::new(wake),
                agents: Some(Arc::clone(&self.agents)),
            });
            *slot = Slot::Open(Box::new(opened.map_err(|error| self.refused(&error))?));
        }
        match slot {
            Slot::Open(engine) => Ok(Some(engine)),
            Slot::Idle | Slot::Closed => Err("the project is closed".to_owned()),
        }
    }

    /// One call on the engine, then the view is renewed; none while the folder is not armed. After a panic
    /// the engine is dropped and the next call opens the project anew: nothing may run on a half-done call.
    fn call<T: serde::Serialize>(
        &self,
        call: impl FnOnce(&mut Engine) -> std::result::Result<T, HostError>,
    ) -> Outcome<Option<String>> {
        let mut slot = locked(&self.slot);
        let finished = guarded(|| {
            Ok(self.open(&mut slot).and_then(|engine| match engine {
                None => Ok(None),
                Some(engine) => {
                    let answer = call(engine);
                    locked(&self.view).clone_from(&as_json(&engine.view())?);
                    as_json(&answer.map_err(|error| self.refused(&error))?).map(Some)
                }
            }))
        });
        finished.unwrap_or_else(|panic| {
            *slot = Slot::Idle;
            Err(panic)
        })
    }

    /// What is told of an error. A state that is not believed is shown as that, and not as it was before.
    fn refused(&self, error: &HostError) -> String {
        let distrust = distrust::of(error).and_then(|told| as_json(&told).ok());
        if let Some(distrust) = distrust {
            *locked(&self.view) = distrust;
        }
        told(error)
    }

    fn close(&self) -> Outcome<String> {
        match std::mem::replace(&mut *locked(&self.slot), Slot::Closed) {
            Slot::Open(engine) => engine.close().map_err(|error| told(&error)).and_then(|()| as_json(&())),
            Slot::Idle | Slot::Closed => as_json(&()),
        }
    }
}

/// An error as one text: the sentence, then the commands that help.
fn told(error: &HostError) -> String {
    let hints = error.hints().iter().map(|argv| view::quote(argv));
    std::iter::once(error.to_string()).chain(hints).collect::<Vec<_>>().join("\n")
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
    /// `optionsJson` is `{root, dshHome, config}`; `notify` gets messages as JSON. Nothing is touched
    /// before the first call.
    #[napi(constructor, catch_unwind)]
    pub fn new(options_json: String, notify: Function<'_, String, ()>) -> Result<Self> {
        let settings = Settings::parse(&options_json).map_err(napi::Error::from_reason)?;
        let notify = notify.build_threadsafe_function::<String>().weak::<true>().build()?;
        let notify = Arc::new(notify);
        let hand = Arc::clone(&notify);
        let agents = AgentPort::new(Box::new(move |message| {
            hand.call(message, ThreadsafeFunctionCallMode::NonBlocking) == Status::Ok
        }));
        let (slot, view) = (Mutex::new(Slot::Idle), Mutex::new("null".to_owned()));
        let shared = Shared { slot, view, settings, notify, agents: Arc::new(agents) };
        Ok(Supervisor { shared: Arc::new(shared) })
    }

    /// One tick; dispatches go on after it. The first takes the project, or refuses with one sentence.
    #[napi(catch_unwind, ts_return_type = "Promise<string>")]
    pub fn tick(&self) -> AsyncTask<Job> {
        self.job(|shared| Ok(shared.call(Engine::tick)?.unwrap_or_else(|| "null".to_owned())))
    }

    /// The view after the last call, without waiting for a running one.
    #[napi(catch_unwind)]
    pub fn view(&self) -> String {
        locked(&self.shared.view).clone()
    }

    /// An operator's command as JSON.
    #[napi(catch_unwind, ts_return_type = "Promise<string>")]
    pub fn command(&self, command_json: String) -> AsyncTask<Job> {
        self.job(move |shared| {
            let answer = shared.call(|engine| engine.command(&command_json))?;
            answer.ok_or_else(|| "the project is not armed: it has no .devloop/GOAL.md".to_owned())
        })
    }

    /// An answer of an agent as JSON, `{dispatch, usage?, cut?, end?}`; never waits for a running tick.
    #[napi(catch_unwind)]
    pub fn agent(&self, answer_json: String) -> Result<()> {
        self.shared.agents.tell(&answer_json).map_err(napi::Error::from_reason)
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

/// Judges the plugin's configuration: answers `{root, enabled, tickIntervalMs, reports}`, with wrong values
/// repaired and one sentence for each. The loop's own keys are judged too, and again when a project opens.
#[napi(catch_unwind)]
pub fn read_config(config_json: String) -> String {
    let (config, faults) = devloop_wire::config_doc::repair_text(config_json.as_bytes());
    let reports: Vec<String> = faults.iter().map(|fault| format!("config: {fault}")).collect();
    let answer = serde_json::json!({
        "root": config.root,
        "enabled": config.enabled,
        "tickIntervalMs": config.tick_interval_ms,
        "reports": reports,
    });
    answer.to_string()
}
