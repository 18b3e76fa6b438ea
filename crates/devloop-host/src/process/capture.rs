//! What a child wrote, bounded: the first bytes and the last bytes are kept, the middle is counted.
//! It owns the form of the omission mark; it does not read pipes.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::files;

/// Where one output stream goes and how much of each end is kept, in bytes.
#[derive(Debug, Clone)]
pub enum Sink {
    /// Into a private file: the head as it arrives, the mark and the tail at the end.
    File { path: PathBuf, head_bytes: usize, tail_bytes: usize },
    /// Into memory.
    Memory { head_bytes: usize, tail_bytes: usize },
}

impl Sink {
    /// A file that keeps `bytes`, half from each end.
    pub fn file(path: impl Into<PathBuf>, bytes: usize) -> Self {
        Sink::File { path: path.into(), head_bytes: bytes / 2, tail_bytes: bytes - bytes / 2 }
    }
}

/// What was kept of one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The kept bytes with the omission mark between the ends; empty when they went to a file.
    pub bytes: Vec<u8>,
    /// The file that holds them.
    pub path: Option<PathBuf>,
    /// How many bytes the child wrote.
    pub total_bytes: u64,
    /// How many of them are not kept. Anything but zero means: this is not the whole output.
    pub omitted_bytes: u64,
}

impl Captured {
    /// The kept bytes as text, wrong bytes replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// The line that stands for the bytes left out.
pub fn omission_mark(omitted_bytes: u64) -> String {
    format!("\n[devloop: {omitted_bytes} bytes omitted]\n")
}

/// Collects one stream.
pub(super) struct Collector {
    file: Option<(Box<dyn Write + Send>, PathBuf)>,
    head: Vec<u8>,
    head_len: usize,
    head_max: usize,
    tail: VecDeque<u8>,
    tail_max: usize,
    total: u64,
    write_error: Option<io::Error>,
}

impl Collector {
    pub(super) fn open(sink: &Sink) -> io::Result<Self> {
        let (file, head_max, tail_max) = match sink {
            Sink::File { path, head_bytes, tail_bytes } => {
                (Some((create(path)?, path.clone())), *head_bytes, *tail_bytes)
            }
            Sink::Memory { head_bytes, tail_bytes } => (None, *head_bytes, *tail_bytes),
        };
        Ok(Collector {
            file,
            head: Vec::new(),
            head_len: 0,
            head_max,
            tail: VecDeque::new(),
            tail_max,
            total: 0,
            write_error: None,
        })
    }

    /// Takes the next bytes. A full disk is remembered, never a reason to stop reading: a child that
    /// cannot write would hang.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let to_head = bytes.len().min(self.head_max - self.head_len);
        let (head, rest) = bytes.split_at(to_head);
        self.head_len += to_head;
        match &mut self.file {
            Some((file, _)) if !head.is_empty() => {
                if let Err(e) = file.write_all(head) {
                    self.write_error.get_or_insert(e);
                }
            }
            Some(_) => {}
            None => self.head.extend_from_slice(head),
        }
        let rest = &rest[rest.len().saturating_sub(self.tail_max)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// Writes mark and tail; the first failure to write is reported with what was counted.
    pub(super) fn finish(&mut self) -> (Captured, Option<io::Error>) {
        let kept = (self.head_len + self.tail.len()) as u64;
        let omitted_bytes = self.total - kept;
        let mut end = Vec::with_capacity(self.tail.len() + 64);
        if omitted_bytes > 0 {
            end.extend_from_slice(omission_mark(omitted_bytes).as_bytes());
        }
        end.extend(std::mem::take(&mut self.tail));
        let mut captured = Captured { total_bytes: self.total, omitted_bytes, ..Captured::default() };
        match self.file.take() {
            Some((mut file, path)) => {
                if let Err(e) = file.write_all(&end).and_then(|()| file.flush()) {
                    self.write_error.get_or_insert(e);
                }
                captured.path = Some(path);
            }
            None => {
                captured.bytes = std::mem::take(&mut self.head);
                captured.bytes.extend(end);
            }
        }
        (captured, self.write_error.take())
    }
}

fn create(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    files::create_private(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: usize, tail: usize, pieces: &[&str], want: &str, omitted: u64) {
        let mut memory = Collector::open(&Sink::Memory { head_bytes: head, tail_bytes: tail }).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut file =
            Collector::open(&Sink::File { path: path.clone(), head_bytes: head, tail_bytes: tail }).unwrap();
        for piece in pieces {
            memory.push(piece.as_bytes());
            file.push(piece.as_bytes());
        }
        let (captured, error) = memory.finish();
        assert!(error.is_none());
        assert_eq!((captured.text().as_str(), captured.omitted_bytes), (want, omitted));
        assert!(file.finish().1.is_none());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), want);
    }

    #[test]
    fn both_ends_are_kept_and_the_middle_is_counted() {
        check(4, 4, &["abcd", "efgh"], "abcdefgh", 0);
        check(4, 4, &["abcd", "e", "fghi"], "abcd\n[devloop: 1 bytes omitted]\nfghi", 1);
        check(2, 3, &["abcdefghijkl"], "ab\n[devloop: 7 bytes omitted]\njkl", 7);
        check(3, 0, &["abc", "d"], "abc\n[devloop: 1 bytes omitted]\n", 1);
        check(0, 2, &["a", "b", "c"], "\n[devloop: 1 bytes omitted]\nbc", 1);
    }
}
