//! Owns what a journal line is to the store: bytes, revision, chain. What a line says belongs to the wire
//! crate.

use std::fmt::Debug;
use std::path::Path;

use super::error::{StoreError, StoreResult};

/// The chain value before the very first line of a journal.
pub const FIRST_CHAIN: &str = "";

/// One journal line without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Revision that the line leads to; the first line of a segment repeats the one before it.
    pub revision: u64,
    /// Lower-case hex SHA-256 over the previous chain and this line.
    pub chain: String,
    /// The bytes in the file.
    pub bytes: Vec<u8>,
}

/// Where a journal stands: what a reader compares to know whether it is up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tip {
    /// Revision of the last line.
    pub revision: u64,
    /// Its chain.
    pub chain: String,
}

impl Line {
    /// Where a journal that ends with this line stands.
    pub fn tip(&self) -> Tip {
        Tip { revision: self.revision, chain: self.chain.clone() }
    }
}

/// What a format reads from a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineHead {
    /// Revision of the line.
    pub revision: u64,
    /// Chain written in the line.
    pub chain: String,
}

/// Why a line cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineFault {
    /// Written by the earlier plugin (version 1).
    Legacy,
    /// Written by a newer DevLoop.
    Newer {
        /// Its version.
        version: u64,
    },
    /// Not a line of ours; the text names the defect.
    Defect(String),
}

/// The format of journal lines. The wire crate knows it; the store only asks these two questions.
pub trait LineFormat: Debug + Send + Sync {
    /// Reads one line. `first` is true for the first line of a segment (the snapshot).
    fn read(&self, bytes: &[u8], first: bool) -> Result<LineHead, LineFault>;

    /// The chain that this line must carry behind `previous` ([`FIRST_CHAIN`] at the very start).
    fn chain(&self, previous: &str, bytes: &[u8]) -> Result<String, LineFault>;
}

/// A segment: a snapshot line and the lines behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The snapshot.
    pub head: Line,
    /// The lines behind it, each one revision further.
    pub steps: Vec<Line>,
    /// Bytes up to and including the last newline; a torn tail lies behind them.
    pub valid_len: u64,
}

impl Segment {
    /// The last line.
    pub fn last(&self) -> &Line {
        self.steps.last().unwrap_or(&self.head)
    }

    /// All lines, the snapshot first.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        std::iter::once(&self.head).chain(&self.steps)
    }
}

/// Why a file is not a segment.
#[derive(Debug)]
pub(crate) enum SegmentFault {
    /// Its first line is of version 1.
    Legacy,
    /// Anything else, as the sentence to show.
    Other(StoreError),
}

/// Reads a segment and checks revisions and chain. `None` when there is no whole line.
/// A last line without newline is dropped; any other defect is named with its line number.
pub(crate) fn read_segment(
    format: &dyn LineFormat,
    path: &Path,
    bytes: &[u8],
) -> Result<Option<Segment>, SegmentFault> {
    let valid_len = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    if valid_len == 0 {
        return Ok(None);
    }
    let mut texts = bytes[..valid_len - 1].split(|b| *b == b'\n').enumerate();
    let Some((_, first)) = texts.next() else { return Ok(None) };
    let head = match format.read(first, true) {
        Ok(head) => line(head, first),
        Err(LineFault::Legacy) => return Err(SegmentFault::Legacy),
        Err(fault) => return Err(SegmentFault::Other(refuse(path, 1, fault))),
    };
    let mut segment = Segment { head, steps: Vec::new(), valid_len: valid_len as u64 };
    for (index, text) in texts {
        let step =
            read_step(format, path, index + 1, &segment.last().tip(), text).map_err(SegmentFault::Other)?;
        segment.steps.push(step);
    }
    Ok(Some(segment))
}

/// Reads the line behind `before` and checks that it is one revision further and chains from it.
pub(crate) fn read_step(
    format: &dyn LineFormat,
    path: &Path,
    number: usize,
    before: &Tip,
    bytes: &[u8],
) -> StoreResult<Line> {
    let head = format.read(bytes, false).map_err(|fault| refuse(path, number, fault))?;
    let step = line(head, bytes);
    if step.revision != before.revision + 1 {
        let why = format!("it has revision {} behind revision {}", step.revision, before.revision);
        return Err(StoreError::integrity(path, Some(number), why));
    }
    check_chain(format, path, number, &before.chain, &step)?;
    Ok(step)
}

/// Checks that a line chains from `previous`.
pub(crate) fn check_chain(
    format: &dyn LineFormat,
    path: &Path,
    number: usize,
    previous: &str,
    line: &Line,
) -> StoreResult<()> {
    let expect = format.chain(previous, &line.bytes).map_err(|fault| refuse(path, number, fault))?;
    if expect == line.chain {
        return Ok(());
    }
    let why = format!("its chain {} does not follow from the line before it", short(&line.chain));
    Err(StoreError::integrity(path, Some(number), why))
}

fn line(head: LineHead, bytes: &[u8]) -> Line {
    Line { revision: head.revision, chain: head.chain, bytes: bytes.to_vec() }
}

fn refuse(path: &Path, number: usize, fault: LineFault) -> StoreError {
    match fault {
        LineFault::Newer { version } => StoreError::Newer { path: path.into(), version },
        LineFault::Legacy => StoreError::integrity(path, Some(number), "it is of version 1"),
        LineFault::Defect(why) => StoreError::integrity(path, Some(number), why),
    }
}

/// The first characters of a digest, enough to tell two apart in a sentence.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
