//! A guest that misbehaves, run inside Node for the tests of the limits. It must not be in a published addon:
//! an image is machine code, and this takes one from its caller.

use crate::job::{Job, guarded};
use devloop_host::machine::{Component, GuestLimits, Machine, Program};
use napi::bindgen_prelude::{AsyncTask, Buffer};
use napi_derive::napi;
use std::sync::Arc;
use std::time::Duration;

/// The limits of the guest under test. Only one that spins has a short deadline: on a busy machine the others
/// must end by their own limit too.
fn limits(trouble: &str) -> GuestLimits {
    let deadline = if trouble == "spin" { Duration::from_millis(300) } else { Duration::from_secs(300) };
    GuestLimits { deadline, memory_bytes: 64 << 20, fuel: u64::MAX }
}

/// Lets the guest in `image` commit `trouble`, then asks it to behave. Answers JSON: what stopped it, and
/// whether a fresh instance of the same program worked afterwards.
#[napi(catch_unwind, ts_return_type = "Promise<string>")]
pub fn limit_test(image: Buffer, trouble: String) -> AsyncTask<Job> {
    let image: Vec<u8> = image.into();
    AsyncTask::new(Job::new(move || {
        // SAFETY: the tests hand over the image that `cargo xtask guest` made.
        let program = unsafe { Program::from_image(&image) }.map_err(|error| error.to_string())?;
        let mut machine = Component::new(Arc::new(program), limits(&trouble));
        let stopped =
            guarded(|| machine.open(b"", trouble.as_bytes()).map_err(|error| error.to_string())).err();
        let answer = serde_json::json!({ "stopped": stopped, "again": machine.open(b"", b"").is_ok() });
        Ok(answer.to_string())
    }))
}
