//! A night line by line, as a page shows it: when, what was said, where each task was and what it had cost.
//! It must not decide.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use devloop_core::apply::apply_line;
use devloop_core::hold::HoldKey;
use devloop_core::ids::TaskId;
use devloop_core::render::{stage_word, usd};
use devloop_core::state::LoopState;
use devloop_core::units::{Map, WallMs};
use serde::Serialize;

use crate::Refused;
use crate::drive::Line;
use crate::figures::spent_since;

/// The state behind one journal line, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// When the line was decided.
    pub at: WallMs,
    /// The revision that it leads to.
    pub revision: u64,
    /// What the core said.
    pub sentence: String,
    /// Where each task is.
    pub stages: Map<TaskId, String>,
    /// Questions that are open.
    pub open: Vec<String>,
    /// Spent or kept since the night began: reported, priced and assumed, in dollars.
    pub spent: String,
    /// Set aside for what runs, in dollars.
    pub reserved: String,
}

/// A frame for each line of a night that began in `start`.
pub(crate) fn frames(start: &LoopState, lines: &[Line]) -> Result<Vec<Frame>, Refused> {
    let mut state = start.clone();
    let frame = |line: &Line| {
        apply_line(&mut state, &line.decision.events).map_err(Refused::misfit)?;
        let spend = spent_since(start, &state);
        let open = state.open_holds().into_iter();
        Ok(Frame {
            at: line.wall,
            revision: line.revision,
            sentence: line.decision.reason.sentence(),
            stages: state.tasks.iter().map(|t| (t.id.clone(), stage_word(&t.stage).to_string())).collect(),
            open: open.map(|(subject, hold)| HoldKey { subject, kind: hold.kind }.to_string()).collect(),
            spent: usd(spend.spent()),
            reserved: usd(spend.reserved),
        })
    };
    lines.iter().map(frame).collect()
}
