//! Owns reading the journal across its segments, for late readers, replay and doctor; it writes nothing.

use std::path::PathBuf;

use super::archive;
use super::disk::Disk;
use super::error::{StoreError, StoreResult};
use super::journal::SEGMENT_LIMIT_BYTES;
use super::layout::Armed;
use super::line::{self, FIRST_CHAIN, Line, LineFormat, Segment, SegmentFault, Tip};

/// One segment of the journal and the file that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The file.
    pub path: PathBuf,
    /// Its lines.
    pub segment: Segment,
}

/// What a check of the whole journal found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryReport {
    /// Segments read.
    pub segments: usize,
    /// Lines read, snapshots included.
    pub lines: usize,
    /// Revision of the oldest snapshot.
    pub first_revision: u64,
    /// Last revision.
    pub last_revision: u64,
    /// True when the oldest snapshot is the very first line; false when older segments were removed.
    pub complete: bool,
}

/// Segments from the one that holds revision `since`, oldest first, the current one last.
pub(crate) fn parts(armed: &Armed, format: &dyn LineFormat, since: u64) -> StoreResult<Vec<Part>> {
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for old in archive::list(&armed.journal())? {
        if old.last >= since {
            let bytes = archive::read(&old.path, SEGMENT_LIMIT_BYTES)?;
            files.push((old.path, bytes));
        }
    }
    let current = Disk::default().read(&armed.events(), SEGMENT_LIMIT_BYTES)?;
    files.push((armed.events(), current.unwrap_or_default()));
    let mut found = Vec::new();
    for (index, (path, bytes)) in files.iter().enumerate() {
        // A crash between archiving and renaming leaves an archive of what is still the start of a later
        // file.
        let superseded = files[index + 1..].iter().any(|(_, later)| later.starts_with(bytes));
        if superseded {
            continue;
        }
        match line::read_segment(format, path, bytes) {
            Ok(Some(segment)) => found.push(Part { path: path.clone(), segment }),
            Ok(None) => {}
            Err(SegmentFault::Legacy) => {
                return Err(StoreError::integrity(path, Some(1), "it is of version 1"));
            }
            Err(SegmentFault::Other(error)) => return Err(error),
        }
    }
    Ok(found)
}

/// The lines behind `from`, snapshots left out. `None` when `from` is not in these parts.
pub(crate) fn lines_behind(
    format: &dyn LineFormat,
    parts: &[Part],
    from: &Tip,
) -> StoreResult<Option<Vec<Line>>> {
    let (mut found, mut tip) = (None::<Vec<Line>>, from.clone());
    for part in parts {
        for (index, line) in part.segment.lines().enumerate() {
            let Some(lines) = &mut found else {
                if line.tip() == *from {
                    found = Some(Vec::new());
                } else if index == 0 && follows(format, from, line) {
                    found = Some(Vec::new());
                    tip = line.tip();
                }
                continue;
            };
            if index == 0 {
                require_join(format, part, &tip)?;
            } else {
                lines.push(line.clone());
            }
            tip = line.tip();
        }
    }
    Ok(found)
}

/// Checks every segment and every join between them.
pub fn verify(armed: &Armed, format: &dyn LineFormat) -> StoreResult<Option<HistoryReport>> {
    let parts = parts(armed, format, 0)?;
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(None) };
    for pair in parts.windows(2) {
        require_join(format, &pair[1], &pair[0].segment.last().tip())?;
    }
    let head = &first.segment.head;
    let start = Tip { revision: head.revision, chain: FIRST_CHAIN.into() };
    Ok(Some(HistoryReport {
        segments: parts.len(),
        lines: parts.iter().map(|p| p.segment.lines().count()).sum(),
        first_revision: head.revision,
        last_revision: last.segment.last().revision,
        complete: follows(format, &start, head),
    }))
}

/// How the current segment joins the history before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Join {
    /// It chains from the archived segment, or it is the first.
    Proven,
    /// The segment before it is missing or unreadable; the text says which.
    Unproven(String),
}

/// Checks that the current segment chains from what was archived right before it.
pub(crate) fn check_join(armed: &Armed, format: &dyn LineFormat, current: &Segment) -> StoreResult<Join> {
    let head = &current.head;
    if follows(format, &Tip { revision: head.revision, chain: FIRST_CHAIN.into() }, head) {
        return Ok(Join::Proven);
    }
    let before = archive::list(&armed.journal())?.into_iter().filter(|a| a.last == head.revision);
    let mut unreadable = None;
    let mut contradicted = None;
    for old in before {
        let bytes = match archive::read(&old.path, SEGMENT_LIMIT_BYTES) {
            Ok(bytes) => bytes,
            Err(error) => {
                unreadable = Some(error.to_string());
                continue;
            }
        };
        match line::read_segment(format, &old.path, &bytes) {
            Ok(Some(segment)) if follows(format, &segment.last().tip(), head) => return Ok(Join::Proven),
            Ok(Some(segment)) if segment.head == *head => {}
            Ok(_) => contradicted = Some(old.path),
            Err(_) => unreadable = Some(format!("{} is damaged", old.path.display())),
        }
    }
    match (unreadable, contradicted) {
        (Some(why), _) => Ok(Join::Unproven(why)),
        (None, Some(old)) => {
            let why = format!("its snapshot does not chain from {}", old.display());
            Err(StoreError::integrity(armed.events(), Some(1), why))
        }
        (None, None) => {
            Ok(Join::Unproven(format!("the segment that ends at revision {} is missing", head.revision)))
        }
    }
}

fn require_join(format: &dyn LineFormat, part: &Part, tip: &Tip) -> StoreResult<()> {
    if follows(format, tip, &part.segment.head) {
        return Ok(());
    }
    let why = format!("its snapshot does not chain from revision {} of the segment before it", tip.revision);
    Err(StoreError::integrity(&part.path, Some(1), why))
}

/// True when `head` is a snapshot that continues `tip`.
pub(crate) fn follows(format: &dyn LineFormat, tip: &Tip, head: &Line) -> bool {
    head.revision == tip.revision
        && format.chain(&tip.chain, &head.bytes).as_deref() == Ok(head.chain.as_str())
}
