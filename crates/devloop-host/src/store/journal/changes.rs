//! Owns what an instance learns from the journal that others wrote since it last looked; it writes nothing.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::time::SystemTime;

use super::{Journal, SEGMENT_LIMIT_BYTES};
use crate::store::disk::FileId;
use crate::store::error::{StoreError, StoreResult};
use crate::store::history;
use crate::store::line::{self, Line, SegmentFault, Tip};

/// What happened to the journal since a [`Tip`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// Nothing.
    Equal,
    /// These lines, in order and chaining from the tip. Empty when only a segment was started: then
    /// [`Journal::tip`] has another chain at the same revision.
    Ahead(Vec<Line>),
    /// The tip is not in the journal: drop the instance and load again. The text says what was seen.
    Diverged(String),
}

impl Journal {
    /// What happened since `from`, which is what the caller last folded. Cheap when nothing did.
    pub fn poll_changes(&mut self, from: &Tip) -> StoreResult<Changes> {
        if let Some(open) = &mut self.open
            && open.tip == *from
        {
            let now = fs::symlink_metadata(self.armed.events());
            if let Ok(meta) = now
                && FileId::of(&meta) == open.id
            {
                if meta.len() == open.file_len && meta.modified().ok() == open.modified {
                    return Ok(Changes::Equal);
                }
                if meta.len() > open.file_len {
                    let lines = self.read_tail()?;
                    return Ok(if lines.is_empty() { Changes::Equal } else { Changes::Ahead(lines) });
                }
            }
        }
        self.poll_whole(from)
    }

    fn poll_whole(&mut self, from: &Tip) -> StoreResult<Changes> {
        let segment = match self.read() {
            Ok(Some(segment)) => segment,
            Ok(None) => return Ok(Changes::Diverged("EVENTS.jsonl is missing or empty".into())),
            Err(SegmentFault::Legacy) => {
                return Ok(Changes::Diverged("EVENTS.jsonl is of version 1 again".into()));
            }
            Err(SegmentFault::Other(error)) => return Err(error),
        };
        if let Some(at) = segment.lines().position(|l| l.tip() == *from) {
            let after = segment.steps[at..].to_vec();
            return Ok(if after.is_empty() { Changes::Equal } else { Changes::Ahead(after) });
        }
        if segment.head.revision >= from.revision {
            let parts = self.history(from.revision)?;
            if let Some(lines) = history::lines_behind(self.format.as_ref(), &parts, from)? {
                return Ok(Changes::Ahead(lines));
            }
        }
        let last = segment.last();
        Ok(Changes::Diverged(format!(
            "revision {} with chain {} is not in the journal, which ends at revision {} with chain {}",
            from.revision,
            line::short(&from.chain),
            last.revision,
            line::short(&last.chain)
        )))
    }

    /// Reads the lines that somebody else appended behind what is known.
    fn read_tail(&mut self) -> StoreResult<Vec<Line>> {
        let path = self.armed.events();
        let Some(open) = &mut self.open else { return Ok(Vec::new()) };
        let mut file = &open.file;
        let mut bytes = Vec::new();
        let tail = |file: &mut &File, bytes: &mut Vec<u8>| -> io::Result<Option<SystemTime>> {
            file.seek(SeekFrom::Start(open.valid_len))?;
            file.take(SEGMENT_LIMIT_BYTES).read_to_end(bytes)?;
            Ok(file.metadata()?.modified().ok())
        };
        let modified = tail(&mut file, &mut bytes).map_err(StoreError::io("read", &path))?;
        let valid = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let (mut lines, mut tip) = (Vec::new(), open.tip.clone());
        for text in bytes[..valid].split_inclusive(|b| *b == b'\n') {
            let number = open.lines + lines.len() + 1;
            let text = &text[..text.len() - 1];
            let step = line::read_step(self.format.as_ref(), &path, number, &tip, text)?;
            tip = step.tip();
            lines.push(step);
        }
        open.file_len = open.valid_len + bytes.len() as u64;
        open.valid_len += valid as u64;
        open.modified = modified;
        open.lines += lines.len();
        open.tip = tip;
        Ok(lines)
    }
}
