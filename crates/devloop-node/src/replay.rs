//! A recorded run decided again by the sealed component, on a loop of its own. It must not record or perform
//! anything.

use crate::job::Job;
use devloop_core::decide::Input;
use devloop_host::machine::{Component, Machine};
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

/// What comes of one input: the decision as text or why it is no input, and the state's digest afterwards.
#[derive(serde::Serialize)]
struct Answer {
    decision: Option<String>,
    refused: Option<String>,
    digest: String,
}

/// Opens a state document under a policy document and decides on every text of the list `inputs_json`, taking
/// up what is decided. Answers a list of `{decision, refused, digest}`.
#[napi(catch_unwind, ts_return_type = "Promise<string>")]
pub fn replay(state: String, policy: String, inputs_json: String) -> AsyncTask<Job> {
    AsyncTask::new(Job::new(move || {
        let inputs: Vec<String> =
            serde_json::from_str(&inputs_json).map_err(|error| format!("inputs: {error}"))?;
        let mut machine = Component::embedded().map_err(said)?;
        machine.open(state.as_bytes(), policy.as_bytes()).map_err(said)?;
        let answers = inputs.iter().map(|text| answer(&mut machine, text));
        serde_json::to_string(&answers.collect::<Result<Vec<_>, _>>()?).map_err(said)
    }))
}

fn answer(machine: &mut Component, text: &str) -> Result<Answer, String> {
    let (decision, refused) = match serde_json::from_str::<Input>(text) {
        Err(error) => (None, Some(format!("input: {error}"))),
        Ok(input) => {
            let decision = machine.decide(&input).map_err(said)?;
            machine.commit().map_err(said)?;
            (Some(serde_json::to_string(&decision).map_err(said)?), None)
        }
    };
    Ok(Answer { decision, refused, digest: machine.digest().map_err(said)? })
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}
