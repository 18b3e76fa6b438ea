//! Owns EVENTS.jsonl: appending a group with one fsync, starting segments, and seeing what others appended.
//! It is the authority over the state; it must not know what a line says.

mod changes;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::SystemTime;

use super::archive;
use super::disk::{self, Disk, FileId, Point};
use super::error::{StoreError, StoreResult};
use super::history;
use super::layout::Armed;
use super::line::{self, FIRST_CHAIN, Line, LineFormat, Segment, SegmentFault, Tip};
use super::locks::LockGuard;

pub use changes::Changes;

/// Most lines of a segment, its snapshot included.
pub const SEGMENT_LINES: usize = 256;
/// Most lines of one group: what an empty segment has room for. A tick with more commits in parts.
pub const GROUP_LINES: usize = SEGMENT_LINES - 1;
/// Largest segment that is read, in bytes.
pub const SEGMENT_LIMIT_BYTES: u64 = 256 * 1024 * 1024;

/// The journal of one project, as this instance knows it.
#[derive(Debug)]
pub struct Journal {
    armed: Armed,
    disk: Disk,
    format: Arc<dyn LineFormat>,
    open: Option<Open>,
}

/// The current segment as it was last read or written.
#[derive(Debug)]
struct Open {
    file: File,
    /// Opened at the first write, so that reading needs no permission to write.
    writer: Option<File>,
    id: FileId,
    file_len: u64,
    valid_len: u64,
    modified: Option<SystemTime>,
    lines: usize,
    first_revision: u64,
    tip: Tip,
}

impl Journal {
    /// Nothing is read yet; `recover::load` does that.
    pub fn new(armed: Armed, disk: Disk, format: Arc<dyn LineFormat>) -> Self {
        Journal { armed, disk, format, open: None }
    }

    /// Where the journal stood when it was last read or written. `None` before loading, without a journal,
    /// and after any failed write.
    pub fn tip(&self) -> Option<&Tip> {
        self.open.as_ref().map(|open| &open.tip)
    }

    /// How many lines the current segment still takes. A longer group needs [`Journal::start_segment`] first.
    pub fn room(&self) -> usize {
        self.open.as_ref().map_or(0, |open| SEGMENT_LINES.saturating_sub(open.lines))
    }

    /// The project.
    pub fn armed(&self) -> &Armed {
        &self.armed
    }

    /// The format of the lines.
    pub fn format(&self) -> &Arc<dyn LineFormat> {
        &self.format
    }

    /// Reads the current segment and remembers where it ends. `None` when there is no whole line.
    pub(crate) fn read(&mut self) -> Result<Option<Segment>, SegmentFault> {
        self.open = None;
        let path = self.armed.events();
        let io = |e| SegmentFault::Other(StoreError::io("read", &path)(e));
        let Some(file) = disk::open_existing(&path).map_err(SegmentFault::Other)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let whole = (&file).take(SEGMENT_LIMIT_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
        if whole as u64 > SEGMENT_LIMIT_BYTES {
            let limit = SEGMENT_LIMIT_BYTES;
            return Err(SegmentFault::Other(StoreError::TooLarge { path: path.clone(), limit }));
        }
        let segment = line::read_segment(self.format.as_ref(), &path, &bytes)?;
        if let Some(segment) = &segment {
            let meta = file.metadata().map_err(io)?;
            self.open = Some(Open {
                id: FileId::of(&meta),
                file_len: whole as u64,
                valid_len: segment.valid_len,
                modified: meta.modified().ok(),
                lines: 1 + segment.steps.len(),
                first_revision: segment.head.revision,
                tip: segment.last().tip(),
                file,
                writer: None,
            });
        }
        Ok(segment)
    }

    /// Appends one group of lines with one fsync. On an error the journal is cut back to where it was and
    /// forgotten: the caller drops the instance that decided these lines and loads again.
    pub fn append(&mut self, lock: &LockGuard<'_>, group: &[Line]) -> StoreResult<()> {
        lock.require(&self.armed)?;
        let Some(open) = &self.open else {
            return Err(StoreError::Misuse("the journal was not loaded".into()));
        };
        if group.is_empty() {
            return Ok(());
        }
        if group.len() > self.room() {
            let why = format!("a group of {} lines; the segment has room for {}", group.len(), self.room());
            return Err(StoreError::Misuse(why));
        }
        let (bytes, tip) = self.seal(open.tip.clone(), group)?;
        self.require_unmoved()?;
        let writer = self.writer()?;
        let Some(open) = &mut self.open else {
            return Err(StoreError::Misuse("the journal was lost".into()));
        };
        match write_group(&self.disk, &writer, open, &bytes) {
            Ok(modified) => {
                open.valid_len += bytes.len() as u64;
                open.file_len = open.valid_len;
                open.modified = modified;
                open.lines += group.len();
                open.tip = tip;
                open.writer = Some(writer);
                Ok(())
            }
            Err(source) => {
                let cut_back = cut(&self.disk, &writer, open.valid_len).is_ok();
                self.open = None;
                Err(StoreError::CommitFailed { source, cut_back })
            }
        }
    }

    /// Starts a segment with a snapshot of the present state; the segment before it goes to `journal/`. The
    /// snapshot repeats the present revision and chains from the present tip ([`FIRST_CHAIN`] without one).
    /// After any error the journal must be loaded again.
    pub fn start_segment(&mut self, lock: &LockGuard<'_>, head: &Line) -> StoreResult<()> {
        lock.require(&self.armed)?;
        let path = self.armed.events();
        let previous = match &self.open {
            Some(open) => open.tip.clone(),
            None => Tip { revision: head.revision, chain: FIRST_CHAIN.into() },
        };
        if head.revision != previous.revision {
            let why = format!("a snapshot of revision {} at revision {}", head.revision, previous.revision);
            return Err(StoreError::Misuse(why));
        }
        line::check_chain(self.format.as_ref(), &path, 1, &previous.chain, head)?;
        require_one_line(head)?;
        match &self.open {
            Some(_) => self.require_unmoved()?,
            None => self.require_replaceable()?,
        }
        let before = self.open.take();
        self.replace_segment(before, head)?;
        match self.read() {
            Ok(Some(_)) => Ok(()),
            Ok(None) | Err(SegmentFault::Legacy) => {
                Err(StoreError::integrity(path, Some(1), "the segment just written is not there"))
            }
            Err(SegmentFault::Other(error)) => Err(error),
        }
    }

    /// Every segment from the one that holds revision `since`, oldest first; the current one is last.
    pub fn history(&self, since: u64) -> StoreResult<Vec<history::Part>> {
        history::parts(&self.armed, self.format.as_ref(), since)
    }

    /// The bytes of a group and the tip behind it, after checking that it continues `tip`.
    fn seal(&self, mut tip: Tip, group: &[Line]) -> StoreResult<(Vec<u8>, Tip)> {
        let mut bytes = Vec::with_capacity(group.iter().map(|l| l.bytes.len() + 1).sum());
        for line in group {
            require_one_line(line)?;
            let expect = self.format.chain(&tip.chain, &line.bytes);
            if line.revision != tip.revision + 1 || expect.as_deref() != Ok(line.chain.as_str()) {
                let why = format!("line {} does not continue revision {}", line.revision, tip.revision);
                return Err(StoreError::Misuse(why));
            }
            tip = line.tip();
            bytes.extend_from_slice(&line.bytes);
            bytes.push(b'\n');
        }
        Ok((bytes, tip))
    }

    /// The handle for appending to the file that was read.
    fn writer(&mut self) -> StoreResult<File> {
        let path = self.armed.events();
        let Some(open) = &mut self.open else {
            return Err(StoreError::Misuse("the journal was lost".into()));
        };
        let writer = match open.writer.take() {
            Some(writer) => writer,
            None => self.disk.open_append(&path)?,
        };
        let meta = writer.metadata().map_err(StoreError::io("look at", &path))?;
        if FileId::of(&meta) != open.id {
            return Err(StoreError::Stale { why: "another segment is current".into() });
        }
        Ok(writer)
    }

    fn require_unmoved(&self) -> StoreResult<()> {
        let Some(open) = &self.open else { return Ok(()) };
        let path = self.armed.events();
        let stale = |why: &str| Err(StoreError::Stale { why: why.into() });
        match fs::symlink_metadata(&path) {
            Ok(meta) if FileId::of(&meta) != open.id => stale("another segment is current"),
            Ok(meta) if meta.len() != open.file_len => stale("its length changed"),
            Ok(_) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => stale("it is gone"),
            Err(e) => Err(StoreError::io("look at", path)(e)),
        }
    }

    /// Without a loaded journal only nothing, an empty file, or a version 1 journal with a kept copy may go.
    fn require_replaceable(&self) -> StoreResult<()> {
        let path = self.armed.events();
        let there = self.disk.read(&path, SEGMENT_LIMIT_BYTES)?.unwrap_or_default();
        if !there.contains(&b'\n') {
            return Ok(());
        }
        let kept = self.disk.read(&self.armed.events_v1(), SEGMENT_LIMIT_BYTES)?;
        if kept.is_some_and(|kept| kept == there) {
            return Ok(());
        }
        Err(StoreError::Misuse(format!("{} was not loaded and would be lost", path.display())))
    }

    /// Order: new segment durable under a temporary name, old one archived, rename. A crash between any two
    /// leaves the old segment current and whole.
    fn replace_segment(&self, before: Option<Open>, head: &Line) -> StoreResult<()> {
        let (path, folder) = (self.armed.events(), self.armed.folder());
        let failed = |cut_back| move |source| StoreError::CommitFailed { source, cut_back };
        let write = || -> io::Result<tempfile::NamedTempFile> {
            let temp = disk::temporary(folder, "EVENTS.jsonl")?;
            let mut bytes = head.bytes.clone();
            bytes.push(b'\n');
            self.disk.write(Point::SegmentWrite, temp.as_file(), &bytes)?;
            self.disk.sync(Point::SegmentSync, temp.as_file())?;
            Ok(temp)
        };
        let temp = write().map_err(failed(true))?;
        if let Some(open) = before {
            let mut bytes = Vec::new();
            let mut file = &open.file;
            let whole =
                file.seek(SeekFrom::Start(0)).and_then(|_| file.take(open.valid_len).read_to_end(&mut bytes));
            whole.map_err(StoreError::io("read", &path))?;
            let (first, last) = (open.first_revision, open.tip.revision);
            archive::store(&self.disk, &self.armed.journal(), first, last, &bytes, SEGMENT_LIMIT_BYTES)?;
        }
        self.disk.pass(Point::SegmentRename).map_err(failed(true))?;
        temp.persist(&path).map_err(|refused| failed(true)(refused.error))?;
        self.disk.sync_folder(folder).map_err(failed(false))
    }
}

/// Cuts off a torn tail, writes the group and makes it durable.
fn write_group(disk: &Disk, writer: &File, open: &Open, bytes: &[u8]) -> io::Result<Option<SystemTime>> {
    if open.file_len > open.valid_len {
        cut(disk, writer, open.valid_len)?;
    }
    disk.write(Point::JournalWrite, writer, bytes)?;
    disk.sync(Point::JournalSync, writer)?;
    disk.passed(Point::JournalSynced);
    Ok(writer.metadata()?.modified().ok())
}

fn cut(disk: &Disk, file: &File, len: u64) -> io::Result<()> {
    disk.pass(Point::JournalCut)?;
    file.set_len(len)?;
    file.sync_data()
}

fn require_one_line(line: &Line) -> StoreResult<()> {
    if line.bytes.is_empty() || line.bytes.contains(&b'\n') {
        return Err(StoreError::Misuse(format!("line {} is empty or holds a newline", line.revision)));
    }
    Ok(())
}
