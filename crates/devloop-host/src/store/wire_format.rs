//! Owns the translation between the wire crate's documents and the store's two questions; it reads no state.

use std::sync::Arc;

use devloop_wire::event_line::{self, Written};
use devloop_wire::fault::{DocError, Fault};
use devloop_wire::state_doc;

use super::line::{Line, LineFault, LineFormat, LineHead};
use super::state_file::{StateFault, StateFormat, StateHead};

/// Lines of EVENTS.jsonl, version 2.
#[derive(Debug, Clone, Copy, Default)]
pub struct WireLines;

/// Documents of STATE.json, version 2.
#[derive(Debug, Clone, Copy, Default)]
pub struct WireStates;

/// The formats of production, as `Store::new` takes them.
pub fn formats() -> (Arc<dyn LineFormat>, Arc<dyn StateFormat>) {
    (Arc::new(WireLines), Arc::new(WireStates))
}

impl LineFormat for WireLines {
    fn read(&self, bytes: &[u8], first: bool) -> Result<LineHead, LineFault> {
        let head = event_line::read_head(bytes).map_err(line_fault)?;
        if head.is_head != first {
            let why = if first {
                "a segment must start with a snapshot"
            } else {
                "a snapshot stands only at the start of a segment"
            };
            return Err(LineFault::Defect(why.into()));
        }
        Ok(LineHead { revision: head.revision, chain: head.chain.as_str().to_owned() })
    }

    fn chain(&self, previous: &str, bytes: &[u8]) -> Result<String, LineFault> {
        event_line::chain_of(previous, bytes).map(|chain| chain.as_str().to_owned()).map_err(line_fault)
    }
}

impl StateFormat for WireStates {
    fn read(&self, bytes: &[u8]) -> Result<StateHead, StateFault> {
        let head = state_doc::read_head(bytes).map_err(state_fault)?;
        // The file's form always has a chain: the first line of a journal comes before the first state.
        match head.chain {
            Some(chain) => Ok(StateHead { revision: head.revision, chain: chain.as_str().to_owned() }),
            None => Err(StateFault::Edited("it has no chain".into())),
        }
    }
}

impl Line {
    /// A line that the wire crate wrote for this revision.
    pub fn written(revision: u64, written: Written) -> Line {
        Line { revision, chain: written.chain.as_str().to_owned(), bytes: written.bytes }
    }
}

fn line_fault(error: DocError) -> LineFault {
    match error.fault {
        Fault::Legacy => LineFault::Legacy,
        Fault::Newer { version } => LineFault::Newer { version },
        // A journal line that ends in a newline was written whole, so it is never torn.
        Fault::Torn | Fault::Defect => LineFault::Defect(words(&error)),
    }
}

fn state_fault(error: DocError) -> StateFault {
    match error.fault {
        Fault::Legacy => StateFault::Legacy,
        Fault::Newer { version } => StateFault::Newer { version },
        Fault::Torn => StateFault::Torn(words(&error)),
        Fault::Defect => StateFault::Edited(words(&error)),
    }
}

/// Field and defect; the sentence around them names the file.
fn words(error: &DocError) -> String {
    if error.path.is_empty() { error.what.clone() } else { format!("{}: {}", error.path, error.what) }
}
