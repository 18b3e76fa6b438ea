//! Owns how bytes reach the disk: nofollow, mode 0600, atomic replacement, and the numbered points where it
//! can fail. It must not know what a file means.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use super::error::{StoreError, StoreResult};
use super::points;

pub use super::points::Point;

/// What a medium lets happen at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Go,
    /// Fail with this errno before anything happened.
    Fail(i32),
    /// Write only the first `bytes`, then fail with `errno` (points that write; elsewhere as `Fail`).
    Short {
        /// How many bytes reach the file.
        bytes: usize,
        /// The error reported.
        errno: i32,
    },
}

/// The disk as the store sees it; tests put faults and deaths here.
pub trait Medium: Debug + Send + Sync {
    /// Asked right before the operation of `point`.
    fn at(&self, point: Point) -> Verdict;
}

/// The medium of production: everything is allowed to happen. Only a build with debug assertions asks the
/// hook of a test first.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealMedium;

impl Medium for RealMedium {
    fn at(&self, point: Point) -> Verdict {
        points::ask(point, "")
    }
}

/// The points and the durability of one atomic replacement.
#[derive(Debug, Clone, Copy)]
pub struct Replace {
    /// Point before the temporary file is written.
    pub write: Point,
    /// Point before the rename.
    pub rename: Point,
    /// What a power cut may do to it.
    pub keep: Keep,
}

/// What a power cut may do to a replaced file. A killed process never leaves half a file, whatever this says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing: file and folder are synced, behind this point.
    Synced(Point),
    /// The old or the new content is there, as far as the file system keeps such promises for a rename.
    Renamed,
    /// It may be empty or torn, because something else can rebuild it. Three times as fast as a rename on
    /// ext4, which starts writing the data of a file that is renamed over another one.
    Rebuilt,
}

/// Access to the disk through a medium. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Disk {
    medium: Arc<dyn Medium>,
}

impl Default for Disk {
    fn default() -> Self {
        Disk { medium: Arc::new(RealMedium) }
    }
}

impl Disk {
    /// A disk behind the given medium.
    pub fn new(medium: Arc<dyn Medium>) -> Self {
        Disk { medium }
    }

    /// Fails when the medium says so; otherwise nothing happens.
    pub fn pass(&self, point: Point) -> io::Result<()> {
        match self.medium.at(point) {
            Verdict::Go => Ok(()),
            Verdict::Fail(errno) | Verdict::Short { errno, .. } => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Passes a moment behind an operation, where nothing can fail any more.
    pub fn passed(&self, point: Point) {
        let _ = self.medium.at(point);
    }

    /// Writes all bytes at the file's position.
    pub fn write(&self, point: Point, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        match self.medium.at(point) {
            Verdict::Go => file.write_all(bytes),
            Verdict::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
            Verdict::Short { bytes: n, errno } => {
                file.write_all(&bytes[..n.min(bytes.len())])?;
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }

    /// Makes the file's content (and the length needed to read it) durable.
    pub fn sync(&self, point: Point, file: &File) -> io::Result<()> {
        self.pass(point)?;
        file.sync_data()
    }

    /// Makes the entries of a folder durable.
    pub fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.pass(Point::FolderSync)?;
        // Windows has no handle for this; there the rename itself is the promise.
        if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
    }

    /// Replaces `path` by a new file with these bytes: temporary file beside it, then rename.
    pub fn replace(&self, path: &Path, bytes: &[u8], how: Replace) -> StoreResult<()> {
        refuse_strange(path)?;
        let (folder, name) = split(path)?;
        let done = || -> io::Result<()> {
            let temp = temporary(folder, name)?;
            self.write(how.write, temp.as_file(), bytes)?;
            if let Keep::Synced(point) = how.keep {
                self.sync(point, temp.as_file())?;
            }
            self.pass(how.rename)?;
            if how.keep == Keep::Rebuilt && exchange(temp.path(), path) {
                // The old content now stands under the temporary name; what is not removed here is swept
                // later.
                drop(temp);
                return Ok(());
            }
            temp.persist(path).map_err(|refused| refused.error)?;
            if matches!(how.keep, Keep::Synced(_)) { self.sync_folder(folder) } else { Ok(()) }
        };
        done().map_err(StoreError::io("write", path))
    }

    /// Reads a regular file up to `limit` bytes. `None` when it does not exist; a symlink is refused.
    pub fn read(&self, path: &Path, limit: u64) -> StoreResult<Option<Vec<u8>>> {
        let Some(file) = open_existing(path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes).map_err(StoreError::io("read", path))?;
        if bytes.len() as u64 > limit {
            return Err(StoreError::TooLarge { path: path.into(), limit });
        }
        Ok(Some(bytes))
    }

    /// Opens for reading and appending, creating with mode 0600; a symlink is refused.
    pub fn open_append(&self, path: &Path) -> StoreResult<File> {
        refuse_strange(path)?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        private(&mut options);
        options.open(path).map_err(StoreError::io("open", path))
    }
}

/// Swaps two files in one step; false where that is not possible (no such file, no such system call).
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn exchange(_one: &Path, _other: &Path) -> bool {
    false
}

/// A temporary file beside its later name; [`is_temporary`] recognises one that a dead process left behind.
pub fn temporary(folder: &Path, name: &str) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().prefix(&format!(".{name}.")).suffix(".devloop-tmp").tempfile_in(folder)
}

/// True for the names that [`temporary`] gives.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".devloop-tmp")
}

/// Opens an existing regular file for reading without following a symlink or waiting on a pipe.
pub fn open_existing(path: &Path) -> StoreResult<Option<File>> {
    if !refuse_strange(path)? {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.read(true);
    private(&mut options);
    match options.open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("open", path)(e)),
    }
}

/// Creates a folder (0700) unless it is there; a symlink or a file in its place is refused.
pub fn ensure_folder(path: &Path) -> StoreResult<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(StoreError::Escaped { path: path.into(), why: "is not a real folder".into() }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            make_folder(path).map_err(StoreError::io("create", path))
        }
        Err(e) => Err(StoreError::io("look at", path)(e)),
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// True when `path` is a regular file, false when nothing is there; anything else is refused.
pub fn refuse_strange(path: &Path) -> StoreResult<bool> {
    let why = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => return Ok(true),
        Ok(meta) if meta.is_symlink() => "is a symlink",
        Ok(meta) if meta.is_dir() => "is a folder, not a file",
        Ok(_) => "is not a regular file",
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(StoreError::io("look at", path)(e)),
    };
    Err(StoreError::Escaped { path: path.into(), why: why.into() })
}

/// Adds mode 0600, no-follow and close-on-exec (std's default) to the options.
pub fn private(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
}

/// What tells one file from another behind the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId(u64, u64);

impl FileId {
    /// Identity of these metadata.
    pub fn of(meta: &fs::Metadata) -> FileId {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            FileId(meta.dev(), meta.ino())
        }
        #[cfg(not(unix))]
        {
            let born = meta.created().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
            FileId(0, born.map(|d| d.as_nanos() as u64).unwrap_or(0))
        }
    }
}

fn split(path: &Path) -> StoreResult<(&Path, &str)> {
    let name = path.file_name().and_then(|n| n.to_str());
    match (path.parent(), name) {
        (Some(folder), Some(name)) => Ok((folder, name)),
        _ => Err(StoreError::Misuse(format!("{} has no folder or no plain name", path.display()))),
    }
}
