//! Owns one sandboxed instance of the guest. It must not keep one that failed: after any trap the instance is
//! dropped.

use std::sync::Arc;

use devloop_bridge::{CoreError, IntoDomain, IntoWit, Replayed, Step};
use devloop_core::decide::{Decision, Input};
use devloop_core::event::Event;
use devloop_core::question::Question;
use wasmtime::component::ResourceAny;
use wasmtime::{Result as Called, Store};

use super::bindings::Core;
use super::bindings::devloop::core::types as wit;
use super::bindings::exports::devloop::core::machine::{Guest, GuestSession};
use super::program::{Cap, stop};
use super::{GuestLimits, Machine, MachineError, Program};

/// A machine whose core runs in a sandbox under limits.
pub struct Component {
    program: Arc<Program>,
    limits: GuestLimits,
    live: Option<Live>,
    fuel_used: Option<u64>,
}

/// One instance with its one open loop.
struct Live {
    store: Store<Cap>,
    core: Core,
    session: ResourceAny,
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Component");
        shown
            .field("program", &self.program)
            .field("limits", &self.limits)
            .field("open", &self.live.is_some());
        shown.finish_non_exhaustive()
    }
}

impl Component {
    /// A machine with no loop open. Every `open` starts a fresh instance of `program`.
    #[must_use]
    pub fn new(program: Arc<Program>, limits: GuestLimits) -> Self {
        Self { program, limits, live: None, fuel_used: None }
    }

    /// A machine of the embedded core under the limits of production.
    ///
    /// # Errors
    /// [`MachineError::Image`] when the embedded image does not load.
    pub fn embedded() -> Result<Self, MachineError> {
        Ok(Self::new(Program::embedded()?, GuestLimits::default()))
    }

    /// Calls the open loop with its full allowance. Whatever does not return drops the instance.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut Store<Cap>, GuestSession<'_>, ResourceAny) -> Called<T>,
    ) -> Result<T, MachineError> {
        let mut live = self.live.take().ok_or(MachineError::Closed)?;
        let answer = self.guarded(&mut live.store, |store| {
            call(store, live.core.devloop_core_machine().session(), live.session)
        })?;
        self.live = Some(live);
        Ok(answer)
    }

    fn guarded<T>(
        &mut self,
        store: &mut Store<Cap>,
        call: impl FnOnce(&mut Store<Cap>) -> Called<T>,
    ) -> Result<T, MachineError> {
        let running = self.program.arm(store, &self.limits)?;
        let answer = call(store);
        drop(running);
        self.fuel_used = self.program.fuel_used(store, &self.limits);
        answer.map_err(|error| MachineError::Stopped(stop(&error)))
    }

    /// Starts an instance and calls its interface as a whole.
    fn fresh<T>(
        &mut self,
        call: impl FnOnce(&mut Store<Cap>, &Guest) -> Called<T>,
    ) -> Result<(Store<Cap>, Core, T), MachineError> {
        let (mut store, core) = self.program.instantiate(&self.limits)?;
        let answer = self.guarded(&mut store, |store| call(store, core.devloop_core_machine()))?;
        Ok((store, core, answer))
    }

    /// Reads an answer. One that cannot be read comes from a guest that is not ours: it is dropped.
    fn read<T, W: IntoDomain<T>>(&mut self, answer: W) -> Result<T, MachineError> {
        answer.into_domain().map_err(|refused| {
            self.live = None;
            MachineError::Unreadable(refused)
        })
    }

    fn refusal(&mut self, error: wit::CoreError) -> MachineError {
        match self.read::<CoreError, _>(error) {
            Ok(error) => MachineError::Core(error),
            Err(error) => error,
        }
    }
}

impl Machine for Component {
    fn open(&mut self, state: &[u8], policy: &[u8]) -> Result<(), MachineError> {
        self.live = None;
        let opened = self.fresh(|store, guest| guest.session().call_open(store, state, policy))?;
        let (store, core, session) = opened;
        let session = session.map_err(|error| self.refusal(error))?;
        self.live = Some(Live { store, core, session });
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.live.is_some()
    }

    fn close(&mut self) {
        self.live = None;
    }

    fn decide(&mut self, input: &Input) -> Result<Decision, MachineError> {
        let input: wit::Input = input.clone().into_wit();
        let answer = self.call(|store, session, this| session.call_decide(store, this, &input))?;
        match answer {
            Ok(decision) => self.read(decision),
            Err(error) => Err(self.refusal(error)),
        }
    }

    fn commit(&mut self) -> Result<(), MachineError> {
        self.call(|store, session, this| session.call_commit(store, this))
    }

    fn discard(&mut self) -> Result<(), MachineError> {
        self.call(|store, session, this| session.call_discard(store, this))
    }

    fn fold(&mut self, line: &[Event]) -> Result<(), MachineError> {
        let line: Vec<wit::Event> = line.iter().map(|event| event.clone().into_wit()).collect();
        let answer = self.call(|store, session, this| session.call_fold(store, this, &line))?;
        answer.map_err(|error| self.refusal(error))
    }

    fn set_policy(&mut self, policy: &[u8]) -> Result<(), MachineError> {
        let answer = self.call(|store, session, this| session.call_set_policy(store, this, policy))?;
        answer.map_err(|error| self.refusal(error))
    }

    fn save(&mut self) -> Result<Vec<u8>, MachineError> {
        self.call(|store, session, this| session.call_save(store, this))
    }

    fn digest(&mut self) -> Result<String, MachineError> {
        self.call(|store, session, this| session.call_digest(store, this))
    }

    fn revision(&mut self) -> Result<u64, MachineError> {
        self.call(|store, session, this| session.call_revision(store, this))
    }

    fn questions(&mut self, instance: u64) -> Result<Vec<Question>, MachineError> {
        let answer = self.call(|store, session, this| session.call_questions(store, this, instance))?;
        self.read(answer)
    }

    fn view(&mut self, instance: u64) -> Result<String, MachineError> {
        self.call(|store, session, this| session.call_view(store, this, instance))
    }

    fn replay(
        &mut self,
        state: &[u8],
        policy: &[u8],
        steps: &[Step],
        digest_every: u32,
    ) -> Result<Vec<Replayed>, MachineError> {
        let steps: Vec<wit::Step> = steps.iter().map(|step| step.clone().into_wit()).collect();
        let replayed =
            self.fresh(|store, guest| guest.call_replay(store, state, policy, &steps, digest_every))?;
        match replayed.2 {
            Ok(replayed) => replayed.into_domain().map_err(MachineError::Unreadable),
            Err(error) => Err(error.into_domain().map_or_else(MachineError::Unreadable, MachineError::Core)),
        }
    }

    fn fuel_used(&self) -> Option<u64> {
        self.fuel_used
    }
}
