//! Owns the modelled disk: a journal of real lines in segments, of which only the fsynced part survives, and
//! what recovery finds in it. It follows the rules of the store and must not decide anything.

use devloop_core::apply::apply_line;
use devloop_core::decide::Decision;
use devloop_core::ids::Digest;
use devloop_core::state::LoopState;
use devloop_core::units::WallMs;
use devloop_wire::event_line::{self, Entry, JournalLine};
use devloop_wire::state_doc;

/// Lines of one segment, its first line included. Small, so that a night has several.
const SEGMENT: usize = 48;

/// Where a process believes the journal to stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tip {
    /// The last line's revision.
    pub revision: u64,
    /// Its chain; none before the first line.
    pub chain: Option<Digest>,
}

/// One line as it lies there.
#[derive(Clone, Debug)]
struct Line {
    bytes: Vec<u8>,
    revision: u64,
    is_head: bool,
}

/// Why a group was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The journal is not where the writer believes it to be.
    Stale,
}

/// The journal.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    lines: Vec<Line>,
    tip: Tip,
    room: usize,
}

impl Disk {
    /// A journal that starts with this state.
    #[must_use]
    pub fn of(state: &LoopState) -> Disk {
        let mut disk = Disk::default();
        disk.start_segment(state);
        disk
    }

    /// Where it stands.
    #[must_use]
    pub fn tip(&self) -> &Tip {
        &self.tip
    }

    /// Appends the lines of one tick behind what the writer believes to be the last one; `keep` of them
    /// survive, all when none is named. `state` is the writer's state before the group.
    ///
    /// # Errors
    /// [`Rejected::Stale`] when another process wrote meanwhile; nothing is written then.
    pub fn append(
        &mut self,
        believed: &Tip,
        state: &LoopState,
        at: WallMs,
        by: &str,
        group: &[Decision],
        keep: Option<usize>,
    ) -> Result<(), Rejected> {
        if *believed != self.tip {
            return Err(Rejected::Stale);
        }
        let recorded = group.iter().filter(|decision| !decision.events.is_empty());
        let recorded: Vec<&Decision> = recorded.collect();
        if self.lines.is_empty() || self.room < recorded.len() {
            self.start_segment(state);
        }
        let kept = keep.unwrap_or(recorded.len());
        for decision in recorded.into_iter().take(kept) {
            let revision = self.tip.revision + 1;
            let entry = Entry { revision, at, by, reason: &decision.reason, events: &decision.events };
            let written = event_line::write_line(&entry, self.tip.chain.as_ref());
            self.push(Line { bytes: written.bytes, revision, is_head: false }, written.chain);
        }
        Ok(())
    }

    fn start_segment(&mut self, state: &LoopState) {
        let head = event_line::write_head(state, &core(), state.policy.as_ref(), self.tip.chain.as_ref());
        let revision = state.revision;
        self.push(Line { bytes: head.bytes, revision, is_head: true }, head.chain);
        self.room = SEGMENT - 1;
    }

    fn push(&mut self, line: Line, chain: Digest) {
        self.tip = Tip { revision: line.revision, chain: Some(chain) };
        self.room = self.room.saturating_sub(1);
        self.lines.push(line);
    }

    /// The events behind a revision, read from the bytes.
    ///
    /// # Errors
    /// What is wrong with a line.
    pub fn events_after(&self, revision: u64) -> Result<Vec<event_line::EventLine>, String> {
        let behind = self.lines.iter().rev().take_while(|line| line.revision > revision);
        let behind = behind.filter(|line| !line.is_head);
        let mut found: Vec<_> = behind
            .map(|line| event_line::parse_line(&line.bytes).map_err(|error| error.to_string()))
            .collect::<Result<_, _>>()?;
        found.reverse();
        Ok(found)
    }

    /// What a new process finds: the last snapshot with the lines behind it.
    ///
    /// # Errors
    /// What is wrong with a line.
    pub fn recover(&self) -> Result<LoopState, String> {
        let from = self.lines.iter().rposition(|line| line.is_head).unwrap_or(0);
        fold(&self.lines[from..])
    }

    /// All lines from the very first, with every chain and every snapshot checked.
    ///
    /// # Errors
    /// What is wrong with a line.
    pub fn replay(&self) -> Result<LoopState, String> {
        let bytes = self.lines.iter().map(|line| line.bytes.as_slice());
        event_line::verify_chain("", bytes).map_err(|(at, error)| format!("line {at}: {error}"))?;
        fold(&self.lines)
    }

    /// Changes one byte of the last line and returns the old one; none when there is no line.
    pub fn spoil(&mut self, at: usize) -> Option<(usize, u8)> {
        let line = self.lines.last_mut()?;
        let at = at % line.bytes.len();
        let old = line.bytes[at];
        line.bytes[at] = if old == b'7' { b'8' } else { b'7' };
        Some((at, old))
    }

    /// Takes a change of [`Disk::spoil`] back.
    pub fn mend(&mut self, (at, old): (usize, u8)) {
        if let Some(line) = self.lines.last_mut() {
            line.bytes[at] = old;
        }
    }
}

/// The digest of the core that writes: any fixed one.
pub(super) fn core() -> Digest {
    Digest::parse(&"0".repeat(64)).expect("64 hex digits")
}

fn fold(lines: &[Line]) -> Result<LoopState, String> {
    let mut state = LoopState::default();
    for (i, line) in lines.iter().enumerate() {
        match event_line::parse(&line.bytes).map_err(|error| error.to_string())? {
            JournalLine::Head(head) => {
                event_line::check_snapshot(&head, &core()).map_err(|error| error.to_string())?;
                if i > 0 && head.state != state {
                    return Err(format!("the snapshot at revision {} is not what was folded", head.revision));
                }
                state = state_doc::parse(&state_doc::write(&head.state)).map_err(|e| e.to_string())?;
            }
            JournalLine::Events(line) => {
                apply_line(&mut state, &line.events).map_err(|misfit| misfit.to_string())?;
            }
        }
    }
    Ok(state)
}
