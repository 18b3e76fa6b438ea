//! Owns running the core behind one trait: natively, or sealed in the component. It must not decide, and it
//! must not read or write a file: an instance is a cache of (snapshot, events), and the caller keeps both.

mod bindings;
mod component;
mod native;
mod program;
mod settings;
mod watchdog;

use devloop_bridge::{CoreError, Replayed, Step};
use devloop_core::decide::{Decision, Input};
use devloop_core::event::Event;
use devloop_core::question::Question;

use crate::error::{ErrorKind, HostError};

pub use component::Component;
pub use native::Native;
pub use program::{GuestLimits, Program};
pub use settings::Metering;

/// The core, however it is run. All machines given the same documents and inputs give the same bytes.
///
/// It holds the state twice: the adopted copy, and a pending copy that decisions change. Any error but
/// [`MachineError::Core`] leaves the machine closed; the caller opens it again from its snapshot and the
/// events since.
pub trait Machine: Send {
    /// Opens a loop from a state document and a policy document, both UTF-8 JSON. What was open before is
    /// forgotten.
    ///
    /// # Errors
    /// [`CoreError::State`] or [`CoreError::Policy`] when a document is refused; the machine is then closed.
    fn open(&mut self, state: &[u8], policy: &[u8]) -> Result<(), MachineError>;

    /// Whether a loop is open.
    fn is_open(&self) -> bool;

    /// Forgets the loop; does nothing when none is open.
    fn close(&mut self);

    /// Decides on the pending copy, which takes up the events at once. Call it again until the reason is
    /// final.
    ///
    /// # Errors
    /// [`CoreError::Story`] when the core contradicts itself; the pending copy is then forgotten.
    fn decide(&mut self, input: &Input) -> Result<Decision, MachineError>;

    /// Adopts the pending copy. Call it once the events are durable.
    ///
    /// # Errors
    /// See [`MachineError`].
    fn commit(&mut self) -> Result<(), MachineError>;

    /// Forgets the pending copy.
    ///
    /// # Errors
    /// See [`MachineError`].
    fn discard(&mut self) -> Result<(), MachineError>;

    /// Folds one journal line that another process recorded into the adopted copy, and forgets the pending
    /// one.
    ///
    /// # Errors
    /// [`CoreError::Story`] when an event does not fit; the adopted copy is as before.
    fn fold(&mut self, line: &[Event]) -> Result<(), MachineError>;

    /// Decides under another policy document from here on.
    ///
    /// # Errors
    /// [`CoreError::Policy`] when it is refused; the old one stays.
    fn set_policy(&mut self, policy: &[u8]) -> Result<(), MachineError>;

    /// The adopted state as a document.
    ///
    /// # Errors
    /// See [`MachineError`].
    fn save(&mut self) -> Result<Vec<u8>, MachineError>;

    /// SHA-256 of the saved document in lower-case hex.
    ///
    /// # Errors
    /// See [`MachineError`].
    fn digest(&mut self) -> Result<String, MachineError>;

    /// Revision of the adopted state.
    ///
    /// # Errors
    /// See [`MachineError`].
    fn revision(&mut self) -> Result<u64, MachineError>;

    /// Every open question of the adopted state, the most urgent first, with the answers that would be
    /// accepted from the supervisor `instance`.
    ///
    /// # Errors
    /// See [`MachineError`].
    fn questions(&mut self, instance: u64) -> Result<Vec<Question>, MachineError>;

    /// Where everything stands, for people: the text of PROGRESS.md. `instance` is the supervisor's.
    ///
    /// # Errors
    /// See [`MachineError`].
    fn view(&mut self, instance: u64) -> Result<String, MachineError>;

    /// Walks through a recorded run, adopting every decision, on a loop of its own: what is open stays as it
    /// is. The digest is computed after each `digest_every`-th step and after the last one.
    ///
    /// # Errors
    /// The first error of a step.
    fn replay(
        &mut self,
        state: &[u8],
        policy: &[u8],
        steps: &[Step],
        digest_every: u32,
    ) -> Result<Vec<Replayed>, MachineError>;

    /// Fuel that the last call used, the same number on every machine; none unless fuel is metered.
    fn fuel_used(&self) -> Option<u64>;
}

/// Why a machine gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// No loop is open: never opened, closed, or dropped after an earlier error.
    #[error("no loop is open in this machine")]
    Closed,
    /// The core refused the request and goes on.
    #[error("{0}")]
    Core(#[from] CoreError),
    /// The guest was stopped and its instance dropped.
    #[error("the core was stopped: {0}")]
    Stopped(Stop),
    /// The guest answered with a value that is none of the domain; its instance was dropped.
    #[error("the core gave an answer that cannot be read ({0})")]
    Unreadable(devloop_bridge::Refused),
    /// The guest cannot be loaded.
    #[error("the core does not load: {0}")]
    Image(String),
}

/// What stopped a guest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// It ran longer than its deadline.
    #[error("it ran longer than it may")]
    Deadline,
    /// It used more fuel than it had.
    #[error("it used more fuel than it had")]
    Fuel,
    /// It wanted more memory than it may have.
    #[error("it wanted more memory than it may have")]
    Memory,
    /// Its calls went too deep.
    #[error("its calls went too deep")]
    Stack,
    /// Anything else: a panic, an access outside its memory.
    #[error("it failed: {0}")]
    Trap(String),
}

impl From<MachineError> for HostError {
    fn from(error: MachineError) -> Self {
        let (kind, field) = match &error {
            MachineError::Core(CoreError::State(fault) | CoreError::Value(fault)) => {
                (ErrorKind::Integrity, Some(fault.field.clone()))
            }
            MachineError::Core(CoreError::Policy(fault)) => (ErrorKind::Config, Some(fault.field.clone())),
            MachineError::Core(CoreError::Story(_)) => (ErrorKind::Integrity, None),
            MachineError::Closed
            | MachineError::Stopped(_)
            | MachineError::Unreadable(_)
            | MachineError::Image(_) => (ErrorKind::Internal, None),
        };
        let host = HostError::new(kind, error.to_string());
        match field.filter(|field| !field.is_empty()) {
            Some(field) => host.in_field(&field),
            None => host,
        }
    }
}
