//! Calls off the JavaScript thread. It owns the rule that a panic becomes a rejected promise, never an abort.

use napi::{Env, Error, Result, Task};
use std::panic::{AssertUnwindSafe, catch_unwind};

type Call = Box<dyn FnOnce() -> std::result::Result<String, String> + Send>;

/// One call on a thread of Node's pool, no longer than a tick.
pub struct Job(Option<Call>);

impl Job {
    /// Wraps `call`; its error becomes the message of the rejection.
    pub fn new(call: impl FnOnce() -> std::result::Result<String, String> + Send + 'static) -> Self {
        Job(Some(Box::new(call)))
    }
}

impl Task for Job {
    type Output = String;
    type JsValue = String;

    fn compute(&mut self) -> Result<String> {
        let call = self.0.take().ok_or_else(|| Error::from_reason("a call runs once"))?;
        guarded(call).map_err(Error::from_reason)
    }

    fn resolve(&mut self, _env: Env, output: String) -> Result<String> {
        Ok(output)
    }
}

/// Runs `call`; a panic is an error like any other.
pub fn guarded<T>(call: impl FnOnce() -> std::result::Result<T, String>) -> std::result::Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let said = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(format!("the engine failed inside: {said}"))
    })
}
