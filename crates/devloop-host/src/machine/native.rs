//! Owns the core linked into this program: for tests, for tools and as the measure that the component is
//! compared with.

use devloop_bridge::{Replayed, Session, Step, replay};
use devloop_core::decide::{Decision, Input};
use devloop_core::event::Event;
use devloop_core::question::Question;

use super::{Machine, MachineError};

/// A machine without a sandbox. It has no limits: use it where the core is trusted.
#[derive(Debug, Default)]
pub struct Native {
    session: Option<Session>,
}

impl Native {
    /// A machine with no loop open.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The open loop, for tools that look at the state itself.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    fn live(&mut self) -> Result<&mut Session, MachineError> {
        self.session.as_mut().ok_or(MachineError::Closed)
    }
}

impl Machine for Native {
    fn open(&mut self, state: &[u8], policy: &[u8]) -> Result<(), MachineError> {
        self.session = None;
        self.session = Some(Session::open(state, policy)?);
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.session.is_some()
    }

    fn close(&mut self) {
        self.session = None;
    }

    fn decide(&mut self, input: &Input) -> Result<Decision, MachineError> {
        Ok(self.live()?.decide(input)?)
    }

    fn commit(&mut self) -> Result<(), MachineError> {
        self.live()?.commit();
        Ok(())
    }

    fn discard(&mut self) -> Result<(), MachineError> {
        self.live()?.discard();
        Ok(())
    }

    fn fold(&mut self, line: &[Event]) -> Result<(), MachineError> {
        Ok(self.live()?.fold(line)?)
    }

    fn set_policy(&mut self, policy: &[u8]) -> Result<(), MachineError> {
        Ok(self.live()?.set_policy(policy)?)
    }

    fn save(&mut self) -> Result<Vec<u8>, MachineError> {
        Ok(self.live()?.save())
    }

    fn digest(&mut self) -> Result<String, MachineError> {
        Ok(self.live()?.digest())
    }

    fn revision(&mut self) -> Result<u64, MachineError> {
        Ok(self.live()?.state().revision)
    }

    fn questions(&mut self, instance: u64) -> Result<Vec<Question>, MachineError> {
        Ok(self.live()?.questions(instance))
    }

    fn view(&mut self, instance: u64) -> Result<String, MachineError> {
        Ok(self.live()?.view(instance))
    }

    fn replay(
        &mut self,
        state: &[u8],
        policy: &[u8],
        steps: &[Step],
        digest_every: u32,
    ) -> Result<Vec<Replayed>, MachineError> {
        Ok(replay(state, policy, steps.iter().cloned(), digest_every)?)
    }

    fn fuel_used(&self) -> Option<u64> {
        None
    }
}
