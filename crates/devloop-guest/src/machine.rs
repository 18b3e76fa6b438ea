//! Owns the exported interface: each call is one call of a session. It must not hold state beside it.

use std::cell::RefCell;

use devloop_bridge::{CoreError, Fault, IntoDomain, IntoWit, Refused, Session, replay};
use devloop_core::decide::Input;
use devloop_core::event::Event;

use crate::devloop::core::types as wit;
use crate::exports::devloop::core::machine::{self, Guest, GuestSession};

struct Core;

crate::export!(Core with_types_in crate);

/// One open loop behind the resource. The host calls one function at a time, so no borrow outlives its call.
struct Loop(RefCell<Session>);

/// A value that crossed the boundary, or the error that says what is wrong with it.
fn read<T, W: IntoDomain<T>>(value: W) -> Result<T, CoreError> {
    value.into_domain().map_err(|refused: Refused| CoreError::Value(Fault::from(refused)))
}

/// An answer for the host.
fn tell<T: IntoWit<W>, W>(answer: Result<T, CoreError>) -> Result<W, wit::CoreError> {
    answer.map(IntoWit::into_wit).map_err(IntoWit::into_wit)
}

impl Guest for Core {
    type Session = Loop;

    fn replay(
        state: Vec<u8>,
        policy: Vec<u8>,
        steps: Vec<wit::Step>,
        digest_every: u32,
    ) -> Result<Vec<wit::Replayed>, wit::CoreError> {
        replay(&state, &policy, steps.into_iter(), digest_every).map_err(IntoWit::into_wit)
    }
}

impl GuestSession for Loop {
    fn open(state: Vec<u8>, policy: Vec<u8>) -> Result<machine::Session, wit::CoreError> {
        let session = Session::open(&state, &policy).map_err(IntoWit::into_wit)?;
        Ok(machine::Session::new(Self(RefCell::new(session))))
    }

    fn decide(&self, input: wit::Input) -> Result<wit::Decision, wit::CoreError> {
        tell(read::<Input, _>(input).and_then(|input| self.0.borrow_mut().decide(&input)))
    }

    fn commit(&self) {
        self.0.borrow_mut().commit();
    }

    fn discard(&self) {
        self.0.borrow_mut().discard();
    }

    fn fold(&self, line: Vec<wit::Event>) -> Result<(), wit::CoreError> {
        let folded = read::<Vec<Event>, _>(line).and_then(|line| self.0.borrow_mut().fold(&line));
        folded.map_err(IntoWit::into_wit)
    }

    fn set_policy(&self, policy: Vec<u8>) -> Result<(), wit::CoreError> {
        self.0.borrow_mut().set_policy(&policy).map_err(IntoWit::into_wit)
    }

    fn save(&self) -> Vec<u8> {
        self.0.borrow().save()
    }

    fn digest(&self) -> String {
        self.0.borrow().digest()
    }

    fn revision(&self) -> u64 {
        self.0.borrow().state().revision
    }

    fn questions(&self, instance: u64) -> Vec<wit::Question> {
        self.0.borrow().questions(instance).into_wit()
    }

    fn view(&self, instance: u64) -> String {
        self.0.borrow().view(instance)
    }
}
