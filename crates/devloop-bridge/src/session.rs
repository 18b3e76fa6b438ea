//! Owns one loop with its adopted and its pending state: what the component exports and the native machine
//! calls. It must not know how it is reached.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use devloop_core::apply::apply_line;
use devloop_core::decide::{Decision, Input, decide};
use devloop_core::event::Event;
use devloop_core::invariant;
use devloop_core::policy::Policy;
use devloop_core::question::{Question, open_questions};
use devloop_core::render;
use devloop_core::state::LoopState;
use devloop_wire::{DocError, fault, policy_doc, state_doc};

use crate::{IntoDomain, IntoWit, Refused};

/// What is wrong with a document or a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What sort of fault.
    pub kind: FaultKind,
    /// Path of the field, for example `state.tasks[2].id`; empty for the whole.
    pub field: String,
    /// What is wrong, one sentence without a full stop.
    pub rule: String,
}

/// What sort of fault a document has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Written by the earlier plugin: to be migrated.
    Legacy,
    /// Written by a newer DevLoop.
    Newer,
    /// Not a whole document.
    Torn,
    /// A whole document, or a value, with something wrong in it.
    Defect,
}

impl From<DocError> for Fault {
    fn from(error: DocError) -> Self {
        let kind = match error.fault {
            fault::Fault::Legacy => FaultKind::Legacy,
            fault::Fault::Newer { .. } => FaultKind::Newer,
            fault::Fault::Torn => FaultKind::Torn,
            fault::Fault::Defect => FaultKind::Defect,
        };
        Self { kind, field: error.path, rule: error.what }
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Self {
        Self { kind: FaultKind::Defect, field: refused.field, rule: refused.rule }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.rule)
        } else {
            write!(f, "{}: {}", self.field, self.rule)
        }
    }
}

/// Why a session did not do what it was asked. A wish that is not accepted is no error but a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoreError {
    /// The state document cannot be trusted.
    State(Fault),
    /// The policy document cannot be used.
    Policy(Fault),
    /// A value that crossed the boundary is none of the domain.
    Value(Fault),
    /// An event does not follow from the state: journal and state are of different stories.
    Story(String),
}

impl fmt::Display for CoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(fault) => write!(f, "the state cannot be trusted: {fault}"),
            Self::Policy(fault) => write!(f, "the policy cannot be used: {fault}"),
            Self::Value(fault) => write!(f, "a value is none of the domain: {fault}"),
            Self::Story(what) => f.write_str(what),
        }
    }
}

impl core::error::Error for CoreError {}

/// One step of a recorded run.
#[allow(clippy::large_enum_variant, reason = "nearly every step is a decision: a box only adds work")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A decision to be made.
    Decide(Input),
    /// Another decision on the input of the last decision: a tick decides on one input until it is done.
    Again,
    /// A journal line to be folded as it stands.
    Line(Vec<Event>),
    /// Another policy document from here on.
    Policy(Vec<u8>),
}

/// What a step led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The decision; none for a step that decides nothing.
    pub decision: Option<Decision>,
    /// Revision of the state after it.
    pub revision: u64,
    /// SHA-256 of the saved state after it in lower-case hex, where one was asked for.
    pub digest: Option<String>,
}

/// One open loop.
///
/// The pending copy is kept beside the adopted one and follows it: both fold the same lines, so a tick costs
/// what it changes and not what it knows.
#[derive(Clone, Debug)]
pub struct Session {
    policy: Policy,
    adopted: LoopState,
    /// Equal to `adopted` with `lines` folded in; none until the first line is decided.
    pending: Option<LoopState>,
    lines: Vec<Vec<Event>>,
}

impl Session {
    /// Opens a loop from a state document and a policy document.
    ///
    /// # Errors
    /// [`CoreError::State`] or [`CoreError::Policy`] with the field that is refused.
    pub fn open(state: &[u8], policy: &[u8]) -> Result<Self, CoreError> {
        let adopted = state_doc::parse(state).map_err(|e| CoreError::State(e.into()))?;
        Ok(Self { policy: read_policy(policy)?, adopted, pending: None, lines: Vec::new() })
    }

    /// Decides on the pending copy, which takes up the events at once.
    ///
    /// # Errors
    /// [`CoreError::Story`] when the core's own events do not fit its state; the pending copy is then
    /// forgotten.
    pub fn decide(&mut self, input: &Input) -> Result<Decision, CoreError> {
        let decision = decide(self.latest(), &self.policy, input);
        if !decision.events.is_empty() {
            let pending = self.pending.get_or_insert_with(|| self.adopted.clone());
            if let Err(misfit) = apply_line(pending, &decision.events) {
                self.forget();
                return Err(CoreError::Story(misfit.to_string()));
            }
            self.lines.push(decision.events.clone());
        }
        Ok(decision)
    }

    /// Adopts the pending copy; without a decision since the last commit nothing changes.
    pub fn commit(&mut self) {
        let lines = core::mem::take(&mut self.lines);
        let folded = lines.iter().try_for_each(|line| apply_line(&mut self.adopted, line));
        if folded.is_err() {
            // The same lines fitted an equal state before, so this does not happen; were it to, the pending
            // copy is what was decided on and recorded.
            self.adopted = self.pending.take().unwrap_or_default();
        }
    }

    /// Forgets the pending copy.
    pub fn discard(&mut self) {
        if !self.lines.is_empty() {
            self.forget();
        }
    }

    /// Folds one recorded journal line into the adopted copy and forgets the pending one.
    ///
    /// # Errors
    /// [`CoreError::Value`] with the field that is too large, [`CoreError::Story`] when an event does not
    /// fit; the adopted copy is as before.
    pub fn fold(&mut self, line: &[Event]) -> Result<(), CoreError> {
        judge(line)?;
        self.discard();
        // Tried on the copy first: a line that does not fit leaves a state half-written.
        let pending = self.pending.get_or_insert_with(|| self.adopted.clone());
        if let Err(misfit) = apply_line(pending, line) {
            self.forget();
            return Err(CoreError::Story(misfit.to_string()));
        }
        self.lines.push(line.to_vec());
        self.commit();
        Ok(())
    }

    fn forget(&mut self) {
        self.lines.clear();
        self.pending = None;
    }

    /// Decides under another policy document from here on.
    ///
    /// # Errors
    /// [`CoreError::Policy`] with the field that is refused; the old policy stays.
    pub fn set_policy(&mut self, policy: &[u8]) -> Result<(), CoreError> {
        self.policy = read_policy(policy)?;
        Ok(())
    }

    /// The adopted state as a document.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        state_doc::write(&self.adopted)
    }

    /// SHA-256 of the saved document in lower-case hex.
    #[must_use]
    pub fn digest(&self) -> String {
        state_doc::digest(&self.adopted).into()
    }

    /// Every open question of the adopted state, the most urgent first. `instance` is the supervisor's.
    #[must_use]
    pub fn questions(&self, instance: u64) -> Vec<Question> {
        open_questions(&self.adopted, &self.policy, instance)
    }

    /// Where everything stands, for people. `instance` is the supervisor's.
    #[must_use]
    pub fn view(&self, instance: u64) -> String {
        render::progress(&self.adopted, &self.policy, instance)
    }

    /// The adopted state.
    #[must_use]
    pub fn state(&self) -> &LoopState {
        &self.adopted
    }

    /// The state that the next decision is made on.
    #[must_use]
    pub fn latest(&self) -> &LoopState {
        self.pending.as_ref().unwrap_or(&self.adopted)
    }

    /// One step of a recorded run, adopted at once. There is nothing to go back to: after an error the run is
    /// over, so no second copy is kept.
    fn step(&mut self, step: Step, last: &mut Option<Input>) -> Result<Option<Decision>, CoreError> {
        match step {
            Step::Decide(input) => *last = Some(input),
            Step::Again => {}
            Step::Line(events) => return judge(&events).and_then(|()| self.adopt(&events)).map(|()| None),
            Step::Policy(policy) => return self.set_policy(&policy).map(|()| None),
        }
        let input = last.as_ref().ok_or_else(|| {
            CoreError::Value(Refused::new("there is no input to decide on again").within("steps").into())
        })?;
        let decision = decide(&self.adopted, &self.policy, input);
        if !decision.events.is_empty() {
            self.adopt(&decision.events)?;
        }
        Ok(Some(decision))
    }

    fn adopt(&mut self, line: &[Event]) -> Result<(), CoreError> {
        apply_line(&mut self.adopted, line).map_err(|misfit| CoreError::Story(misfit.to_string()))
    }
}

/// Walks through a recorded run, adopting every decision. The digest is computed after each `digest_every`-th
/// step and after the last one; zero stands for the last one only.
///
/// Steps come and answers go in the caller's own form, each converted when its turn has come: a long run then
/// lies in memory once, and what a step needed is reused by the next.
///
/// # Errors
/// The first error of a step, or [`CoreError::Value`] for one that is none.
pub fn replay<W: IntoDomain<Step>, R>(
    state: &[u8],
    policy: &[u8],
    steps: impl ExactSizeIterator<Item = W>,
    digest_every: u32,
) -> Result<Vec<R>, CoreError>
where
    Replayed: IntoWit<R>,
{
    let mut session = Session::open(state, policy)?;
    let every = usize::try_from(digest_every).unwrap_or(usize::MAX);
    let last = steps.len();
    let mut replayed = Vec::with_capacity(last);
    let mut input = None;
    for (done, step) in (1..).zip(steps) {
        let step =
            step.into_domain().map_err(|e| CoreError::Value(e.within(&format!("[{}]", done - 1)).into()))?;
        let decision = session.step(step, &mut input)?;
        let wanted = done == last || (every > 0 && done % every == 0);
        let digest = wanted.then(|| session.digest());
        replayed.push(Replayed { decision, revision: session.adopted.revision, digest }.into_wit());
    }
    Ok(replayed)
}

/// Whether what a recorded line carries fits into a state. What the core decided itself always does.
fn judge(line: &[Event]) -> Result<(), CoreError> {
    line.iter().enumerate().try_for_each(|(at, event)| {
        invariant::sizes_of(event).map_err(|violation| {
            let (field, rule) = violation.size().unwrap_or_default();
            CoreError::Value(Refused::new(rule).within(field).within(&format!("line[{at}]")).into())
        })
    })
}

fn read_policy(policy: &[u8]) -> Result<Policy, CoreError> {
    policy_doc::parse_policy(policy).map_err(|e| CoreError::Policy(e.into()))
}
