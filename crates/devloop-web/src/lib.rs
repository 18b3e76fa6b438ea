//! The core for a page: a recorded run is folded and decided on in the browser, by the same code. Nothing is
//! performed. Documents and the alphabet cross as JSON text, since a page has them as text anyway.

use devloop_core::apply::apply_line;
use devloop_core::decide::{Input, decide};
use devloop_core::event::Event;
use devloop_core::policy::Policy;
use devloop_core::state::LoopState;
use devloop_wire::{policy_doc, state_doc};
use wasm_bindgen::prelude::wasm_bindgen;

/// What a recorded night would have been: the lines of a trace, and keys of a configuration laid over the
/// recorded policy, both text. Returns JSON text: the answer that `devloop replay --with` prints, the
/// recorded limits, and each line of both nights.
///
/// # Errors
/// One sentence: every fault of the policy, or why the trace cannot be decided again.
#[wasm_bindgen]
pub fn nights(trace: &str, policy: &str) -> Result<String, String> {
    let lines = devloop_whatif::lines_of(trace.as_bytes());
    let found = devloop_whatif::nights(lines, policy.as_bytes()).map_err(|refused| refused.to_string())?;
    serde_json::to_string(&found).map_err(|error| error.to_string())
}

/// A loop in a page.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Replay {
    state: LoopState,
    policy: Policy,
}

#[wasm_bindgen]
impl Replay {
    /// Opens a state document under a policy document, both JSON text.
    ///
    /// # Errors
    /// One sentence with the document and the field that is refused.
    #[wasm_bindgen(constructor)]
    pub fn new(state: &str, policy: &str) -> Result<Replay, String> {
        let state = state_doc::parse(state.as_bytes()).map_err(|error| error.to_string())?;
        let policy = policy_doc::parse_policy(policy.as_bytes()).map_err(|error| error.to_string())?;
        Ok(Replay { state, policy })
    }

    /// Decides on an input and takes up what was decided. Returns the decision as JSON text.
    ///
    /// # Errors
    /// When the text is no input, or the events do not fit the state; the state is then as before.
    pub fn decide(&mut self, input: &str) -> Result<String, String> {
        let input: Input = serde_json::from_str(input).map_err(|error| format!("input: {error}"))?;
        let decision = decide(&self.state, &self.policy, &input);
        self.take_up(&decision.events)?;
        serde_json::to_string(&decision).map_err(|error| error.to_string())
    }

    /// Folds the events of one journal line.
    ///
    /// # Errors
    /// When the text is no list of events, or they do not fit the state; the state is then as before.
    pub fn fold(&mut self, events: &str) -> Result<(), String> {
        let events: Vec<Event> = serde_json::from_str(events).map_err(|error| format!("events: {error}"))?;
        self.take_up(&events)
    }

    /// The state as a document.
    #[must_use]
    pub fn save(&self) -> String {
        String::from_utf8_lossy(&state_doc::write(&self.state)).into_owned()
    }

    /// SHA-256 of the saved document.
    #[must_use]
    pub fn digest(&self) -> String {
        state_doc::digest(&self.state).to_string()
    }

    fn take_up(&mut self, events: &[Event]) -> Result<(), String> {
        if events.is_empty() {
            return Ok(());
        }
        let mut next = self.state.clone();
        apply_line(&mut next, events).map_err(|error| error.to_string())?;
        self.state = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use devloop_core::policy::Backend;
    use devloop_core::render::usd;
    use devloop_core::units::UsdMicros;
    use devloop_testkit::world::{World, policy, two};

    #[test]
    fn a_page_asks_what_another_budget_would_have_led_to() {
        let mut night = devloop_testkit::night::Night::new(World::new(two(), policy(Backend::Scripted)));
        night.run();
        let trace = String::from_utf8(night.trace()).expect("JSON is UTF-8");
        let found = nights(&trace, r#"{"budget":{"maxCostUsdPerGoal":0.15}}"#).expect("an answer");
        let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
        let (answer, last) =
            (&found["answer"], |night: &str| found[night].as_array().unwrap().last().cloned());
        assert_eq!(answer["recorded"]["merged"], 2);
        assert_eq!(answer["what_if"]["open"], serde_json::json!(["loop:goal_cost_cap"]));
        // The last line of each night says what the comparison says.
        for night in ["recorded", "what_if"] {
            let last = last(night).expect("lines");
            assert_eq!(last["stages"], answer[night]["stages"]);
            assert_eq!(last["open"], answer[night]["open"]);
            let parts =
                ["measured", "priced", "assumed"].map(|sort| &answer[night][format!("{sort}_usd_micros")]);
            let sum: u64 = parts.iter().map(|part| part.as_u64().expect("micros")).sum();
            assert_eq!(last["spent"], usd(UsdMicros(sum)));
            assert_eq!(
                found[night].as_array().map(Vec::len),
                answer[night]["lines"].as_u64().map(|n| n as usize)
            );
        }
        let budget: serde_json::Value =
            serde_json::from_str(found["budget"].as_str().unwrap()).expect("JSON");
        assert_eq!(budget["maxTaskAttempts"], 3);
        assert!(nights(&trace, "{").is_err() && nights("", "{}").is_err());
    }

    #[test]
    fn a_page_walks_through_a_night_as_the_core_does() {
        let mut world = World::new(two(), policy(Backend::Scripted));
        let document = |bytes: Vec<u8>| String::from_utf8(bytes).expect("JSON is UTF-8");
        let state = document(state_doc::write(&world.state));
        let rules = document(policy_doc::policy_bytes(&world.policy));
        let mut page = Replay::new(&state, &rules).expect("open");
        for _ in 0..12 {
            world.wall += 2_000;
            let input = serde_json::to_string(&Input::Observation(world.observe())).expect("input");
            world.wall -= 2_000;
            // The page decides as often as the world's tick does on one look.
            world.tick();
            while page.state.revision < world.state.revision {
                page.decide(&input).expect("decide");
            }
            assert_eq!(page.digest(), state_doc::digest(&world.state).to_string());
        }
        assert!(page.decide("{}").is_err() && page.fold("[{}]").is_err());
        assert_eq!(page.save(), document(state_doc::write(&world.state)));
    }
}
