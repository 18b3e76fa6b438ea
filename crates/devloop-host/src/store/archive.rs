//! Owns the compressed old segments in `journal/`; it must not touch the segment that is being written.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use super::disk::{self, Disk, Point};
use super::error::{StoreError, StoreResult};

/// One compressed segment. Its file is `<first>-<last>.jsonl.gz`, or `<first>-<last>.<nth>.jsonl.gz` where
/// the same revisions were archived before with other bytes (a segment without steps, replaced by a newer
/// core).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Archive {
    /// Revision of the snapshot.
    pub first: u64,
    /// Last revision.
    pub last: u64,
    /// 1, or higher for a later one of the same revisions.
    pub nth: u32,
    /// The file.
    pub path: PathBuf,
}

/// All archives in order. Files with other names are left alone.
pub fn list(folder: &Path) -> StoreResult<Vec<Archive>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("list", folder)(e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("list", folder))?;
        if let Some((first, last, nth)) = entry.file_name().to_str().and_then(parse) {
            found.push(Archive { first, last, nth, path: entry.path() });
        }
    }
    found.sort();
    Ok(found)
}

/// The lines of an archive as they were in the journal; more than `limit` bytes are refused.
pub fn read(path: &Path, limit: u64) -> StoreResult<Vec<u8>> {
    let Some(file) = disk::open_existing(path)? else {
        let gone = io::Error::from(io::ErrorKind::NotFound);
        return Err(StoreError::io("read", path)(gone));
    };
    let mut bytes = Vec::new();
    let unpacked = GzDecoder::new(file).take(limit + 1).read_to_end(&mut bytes);
    unpacked.map_err(|e| StoreError::integrity(path, None, format!("it cannot be unpacked ({e})")))?;
    if bytes.len() as u64 > limit {
        return Err(StoreError::TooLarge { path: path.into(), limit });
    }
    Ok(bytes)
}

/// Stores a segment durably. Doing it again with the same bytes changes nothing.
pub fn store(disk: &Disk, folder: &Path, first: u64, last: u64, bytes: &[u8], limit: u64) -> StoreResult<()> {
    disk::ensure_folder(folder)?;
    let same = |a: &Archive| a.first == first && a.last == last;
    let before: Vec<Archive> = list(folder)?.into_iter().filter(same).collect();
    if let Some(newest) = before.last()
        && read(&newest.path, limit).is_ok_and(|there| there == bytes)
    {
        return Ok(());
    }
    let nth = before.last().map_or(1, |a| a.nth + 1);
    let path = folder.join(name(first, last, nth));
    let write = || -> io::Result<()> {
        let temp = disk::temporary(folder, "segment")?;
        disk.pass(Point::ArchiveWrite)?;
        compress(temp.as_file(), bytes)?;
        temp.as_file().sync_all()?;
        disk.pass(Point::ArchiveRename)?;
        temp.persist_noclobber(&path).map_err(|refused| refused.error)?;
        disk.sync_folder(folder)
    };
    write().map_err(StoreError::io("write", &path))
}

fn compress(file: &File, bytes: &[u8]) -> io::Result<()> {
    let mut gz = GzEncoder::new(file, Compression::fast());
    gz.write_all(bytes)?;
    gz.finish().map(|_| ())
}

fn name(first: u64, last: u64, nth: u32) -> String {
    if nth == 1 { format!("{first}-{last}.jsonl.gz") } else { format!("{first}-{last}.{nth}.jsonl.gz") }
}

fn parse(name: &str) -> Option<(u64, u64, u32)> {
    let stem = name.strip_suffix(".jsonl.gz")?;
    let (range, nth) = match stem.split_once('.') {
        Some((range, nth)) => (range, nth.parse().ok().filter(|n| *n > 1)?),
        None => (stem, 1),
    };
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?, nth))
}

#[cfg(test)]
mod tests {
    use super::{name, parse};

    #[test]
    fn names_are_read_back_and_others_are_left_alone() {
        for (first, last, nth) in [(0, 0, 1), (0, 255, 1), (7, 7, 3)] {
            assert_eq!(parse(&name(first, last, nth)), Some((first, last, nth)));
        }
        for other in
            ["", "0-1.jsonl", "0-1.1.jsonl.gz", "a-1.jsonl.gz", "01.jsonl.gz", ".segment.x.devloop-tmp"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
