//! A recorded night, read out of a trace: the state it started from and every input with what was decided.
//! It judges nothing that a line says.

use alloc::string::ToString;
use alloc::vec::Vec;

use devloop_core::apply::apply_line;
use devloop_core::decide::{Decision, Input};
use devloop_core::event::Event;
use devloop_core::ids::Digest;
use devloop_core::observation::{Observation, Stamp};
use devloop_core::policy::Policy;
use devloop_core::state::LoopState;
use devloop_core::units::Map;
use devloop_wire::trace_line::{self, TraceHead, TraceLine, TraceRecord};

use crate::Refused;
use crate::moment::Moment;

/// One recorded input.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// When.
    pub at: Moment,
    /// What was decided on.
    pub input: Input,
    /// What was decided.
    pub decisions: Vec<Decision>,
    /// The policy it was decided under.
    pub policy: Digest,
}

/// A recorded night.
#[derive(Debug)]
pub(crate) struct Recording {
    /// The state before the first input.
    pub start: LoopState,
    /// Every policy that was in use.
    pub policies: Map<Digest, Policy>,
    /// The inputs in the order of their commits.
    pub inputs: Vec<Recorded>,
    /// Whether it begins where the goal was started.
    pub from_the_start: bool,
}

impl Recorded {
    /// The look, when it is one.
    pub(crate) fn look(&self) -> Option<&Observation> {
        match &self.input {
            Input::Observation(seen) => Some(seen),
            Input::Command { .. } => None,
        }
    }

    /// Who decided and when.
    pub(crate) fn stamp(&self) -> &Stamp {
        match &self.input {
            Input::Observation(seen) => &seen.stamp,
            Input::Command { stamp, .. } => stamp,
        }
    }

    /// The decisions that were recorded as lines.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &Decision> {
        self.decisions.iter().filter(|decision| !decision.events.is_empty())
    }
}

impl Recording {
    /// The state behind the last input.
    pub(crate) fn end(&self) -> Result<LoopState, Refused> {
        let mut state = self.start.clone();
        for decision in self.inputs.iter().flat_map(Recorded::lines) {
            apply_line(&mut state, &decision.events).map_err(|misfit| Refused::new(misfit.to_string()))?;
        }
        Ok(state)
    }
}

/// Reads the last goal that the lines hold without a gap.
///
/// # Errors
/// When a line cannot be read, does not fit the one before, or nothing is left.
pub(crate) fn read<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Result<Recording, Refused> {
    let mut reader = Reader::default();
    for (i, bytes) in lines.enumerate() {
        let about =
            |what: alloc::string::String| Refused::new(alloc::format!("line {} of the trace: {what}", i + 1));
        match trace_line::parse(bytes).map_err(|error| about(error.to_string()))? {
            TraceRecord::Head(head) => reader.head(*head),
            TraceRecord::Line(line) => reader.line(*line).map_err(about)?,
        }
    }
    let Reader { start, policies, mut inputs, from_the_start, .. } = reader;
    let (Some(start), false) = (start, inputs.is_empty()) else {
        return Err(Refused::new("the trace holds nothing that could be decided again"));
    };
    crate::moment::tell_time(&mut inputs);
    Ok(Recording { start, policies, inputs, from_the_start })
}

#[derive(Default)]
struct Reader {
    start: Option<LoopState>,
    /// The state behind the last line; none behind a gap.
    state: Option<LoopState>,
    policies: Map<Digest, Policy>,
    of_head: Option<Digest>,
    inputs: Vec<Recorded>,
    from_the_start: bool,
    /// The goal was put away: what follows belongs to no night before the next goal starts.
    over: bool,
}

impl Reader {
    fn head(&mut self, head: TraceHead) {
        self.of_head = Some(head.policy.digest.clone());
        self.policies.insert(head.policy.digest.clone(), head.policy);
        if self.state.as_ref() != Some(&head.state) {
            (self.start, self.state) = (Some(head.state.clone()), Some(head.state));
            self.inputs.clear();
            self.from_the_start = false;
        }
    }

    fn line(&mut self, line: TraceLine) -> Result<(), alloc::string::String> {
        let Some(state) = &mut self.state else { return Ok(()) };
        let lines = line.decisions.iter().filter(|decision| !decision.events.is_empty());
        if state.revision + lines.clone().count() as u64 != line.revision {
            // What lies between was recorded by a process whose trace is gone.
            (self.state, self.of_head) = (None, None);
            return Ok(());
        }
        let has = |what: fn(&Event) -> bool| lines.clone().flat_map(|d| &d.events).any(what);
        if has(|event| matches!(event, Event::GoalStarted { .. })) {
            self.start = Some(state.clone());
            self.inputs.clear();
            (self.from_the_start, self.over) = (true, false);
        }
        self.over |= has(|event| matches!(event, Event::GoalArchived));
        for decision in lines {
            apply_line(state, &decision.events).map_err(|misfit| misfit.to_string())?;
        }
        // A look is decided under the policy in force; a command of another process under that process' own,
        // whose head stands right before it.
        let in_force = state.policy.clone().filter(|digest| self.policies.contains_key(digest));
        let policy = match &line.input {
            Input::Observation(_) => {
                let own = self.of_head.take();
                in_force.or(own)
            }
            Input::Command { .. } => self.of_head.clone().or(in_force),
        };
        let policy = policy.or_else(|| self.policies.keys().next().cloned());
        let policy = policy.ok_or("no policy stands before it")?;
        let (input, decisions) = (line.input, line.decisions);
        if self.over {
            return Ok(());
        }
        self.inputs.push(Recorded { at: Moment::START, input, decisions, policy });
        Ok(())
    }
}
