//! What a recorded night would have been under other limits, routes, prices or slots: decided again by the
//! core, with a world that answers only what was recorded. Pure: it takes text and gives a value, in a
//! program and in a page alike, and it must not do anything to the world.
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;

mod collect;
mod draw;
mod drive;
mod facts;
mod figures;
mod flight;
mod frames;
mod moment;
mod recording;
mod words;
mod world;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use devloop_core::apply::FoldError;
use devloop_core::ids::Digest;
use devloop_core::policy::Policy;
use devloop_core::state::LoopState;
use devloop_core::units::Map;
use devloop_wire::{budget_doc, config_overlay};
use serde::Serialize;

pub use draw::RULE;
pub use figures::{Field, Figures, MAX_FIELDS, Parting};
pub use frames::Frame;

use drive::{Driven, Line, drive};
use recording::Recording;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// One sentence without a full stop.
    pub what: String,
    /// Whether it is about the policy file, not about the recording.
    pub of_the_policy: bool,
}

impl Refused {
    pub(crate) fn new(what: impl Into<String>) -> Refused {
        Refused { what: what.into(), of_the_policy: false }
    }

    pub(crate) fn misfit(error: FoldError) -> Refused {
        Refused::new(error.to_string())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl core::error::Error for Refused {}

/// A recorded night beside the one that would have been.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WhatIf {
    /// How ends were drawn, as sentences.
    pub rule: &'static [&'static str],
    /// The goal.
    pub goal: u32,
    /// Revisions that the recorded night covers.
    pub covers: (u64, u64),
    /// Whether the recording begins where the goal was started.
    pub from_the_start: bool,
    /// Remarks about the policy file.
    pub remarks: Vec<String>,
    /// Where the night parts from the recorded one under the recorded policy. None: it is reproduced exactly.
    pub control: Option<Parting>,
    /// The recorded night.
    pub recorded: Figures,
    /// The other one.
    pub what_if: Figures,
    /// The first line in which they differ; none when nothing does.
    pub parting: Option<Parting>,
    /// Where the ends of operations came from.
    pub drawn: Drawn,
    /// Recorded commands that were refused in the what-if.
    pub unfit: Vec<String>,
    /// It did not come to an end within its bound of steps.
    pub cut: bool,
}

/// Where the ends of operations came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drawn {
    /// Ended as recorded.
    pub own: usize,
    /// Took time, money and a worker's word from the median of their role and tier.
    pub peers: usize,
    /// Ended as unknown, one by one.
    pub unknown: Vec<String>,
}

/// Both nights, whole: what a page walks through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nights {
    /// The comparison.
    pub answer: WhatIf,
    /// Its figures in words; see [`WhatIf::table`].
    pub table: Vec<[String; 3]>,
    /// What is to be known about them; see [`WhatIf::notes`].
    pub notes: Vec<String>,
    /// The limits of the recorded night as BUDGET.json writes them.
    pub budget: String,
    /// The recorded night, line by line.
    pub recorded: Vec<Frame>,
    /// The other one.
    pub what_if: Vec<Frame>,
}

/// Decides the last goal of a trace again under `overlay`, configuration keys laid over the recorded policy.
///
/// # Errors
/// [`Refused`] when the trace cannot be read or holds no decision, or with every fault of the overlay.
pub fn what_if<'a>(trace: impl Iterator<Item = &'a [u8]>, overlay: &[u8]) -> Result<WhatIf, Refused> {
    Again::of(recording::read(trace)?, overlay).map(Again::answer)
}

/// The same with every line of both nights.
///
/// # Errors
/// As [`what_if`].
pub fn nights<'a>(trace: impl Iterator<Item = &'a [u8]>, overlay: &[u8]) -> Result<Nights, Refused> {
    let again = Again::of(recording::read(trace)?, overlay)?;
    let last = again.recording.inputs.last().and_then(|input| again.recording.policies.get(&input.policy));
    let budget = last.map(|policy| budget_doc::write(&policy.limits)).unwrap_or_default();
    let recorded = frames::frames(&again.recording.start, &again.lines)?;
    let other = frames::frames(&again.recording.start, &again.driven.lines)?;
    let answer = again.answer();
    Ok(Nights {
        table: answer.table(),
        notes: answer.notes(),
        answer,
        budget: String::from_utf8_lossy(&budget).into_owned(),
        recorded,
        what_if: other,
    })
}

/// A recording with the night that was made of it.
struct Again {
    recording: Recording,
    /// The recorded lines.
    lines: Vec<Line>,
    /// The state behind them.
    end: LoopState,
    /// Remarks about the overlay.
    remarks: Vec<String>,
    /// The same night under the recorded policy.
    control: Driven,
    driven: Driven,
}

impl Again {
    fn of(recording: Recording, overlay: &[u8]) -> Result<Again, Refused> {
        let facts = collect::collect(&recording)?;
        let (policies, remarks) = lay_over(&recording, overlay)?;
        let (lines, end) = (recorded_lines(&recording), recording.end()?);
        let control = drive(&recording, &facts, &recording.policies)?;
        let driven = drive(&recording, &facts, &policies)?;
        Ok(Again { recording, lines, end, remarks, control, driven })
    }

    fn answer(self) -> WhatIf {
        let Again { recording, lines, end, remarks, control, driven } = self;
        let last = recording.inputs.last().and_then(|input| input.decisions.last()).map(|last| &last.reason);
        let Driven { lines: others, state, last: ended, drawn: (own, peers, unknown), unfit, cut } = driven;
        WhatIf {
            rule: RULE,
            goal: end.goal.number,
            covers: (recording.start.revision, end.revision),
            from_the_start: recording.from_the_start,
            remarks,
            control: figures::parting(&lines, &control.lines),
            recorded: Figures::count(&recording.start, &lines, &end, last),
            what_if: Figures::count(&recording.start, &others, &state, ended.as_ref()),
            parting: figures::parting(&lines, &others),
            drawn: Drawn { own, peers, unknown },
            unfit,
            cut,
        }
    }
}

/// The lines of a trace file. A last line that was not written to its end is left out.
pub fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn lay_over(recording: &Recording, overlay: &[u8]) -> Result<(Map<Digest, Policy>, Vec<String>), Refused> {
    let mut policies = Map::new();
    let mut remarks: Vec<String> = Vec::new();
    let (looks, commands): (Vec<_>, Vec<_>) = recording.inputs.iter().partition(|i| i.look().is_some());
    for input in looks.into_iter().chain(commands) {
        let digest = &input.policy;
        let Some(policy) = recording.policies.get(digest).filter(|_| !policies.contains_key(digest)) else {
            continue;
        };
        let (laid, said) = match config_overlay::apply(policy, overlay) {
            Ok(laid) => laid,
            // A command line without the profile's routes has its own; the overlay is about the loop's.
            Err(_) if input.look().is_none() && !policies.is_empty() => (policy.clone(), Vec::new()),
            Err(faults) => {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                return Err(Refused { what: faults.join("; "), of_the_policy: true });
            }
        };
        policies.insert(digest.clone(), laid);
        for remark in said.iter().map(ToString::to_string) {
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
    }
    Ok((policies, remarks))
}

fn recorded_lines(recording: &Recording) -> Vec<Line> {
    let mut revision = recording.start.revision;
    let mut lines = Vec::new();
    for recorded in &recording.inputs {
        for decision in recorded.lines() {
            revision += 1;
            lines.push(Line { wall: recorded.stamp().wall, revision, decision: decision.clone() });
        }
    }
    lines
}
