//! Files of the operator, of git and of the kernel that the shell reads or writes outside the store.
//! Nothing here follows a symbolic link at the last component of an operator's file, and nothing decides.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;

use crate::error::{ErrorKind, HostError};

/// Largest operator file that is read unless the caller says otherwise, in bytes.
pub const OPERATOR_FILE_MAX_BYTES: u64 = 64 * 1024;

/// Why an operator's file could not be used. Each has a sentence of its own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// Nothing has that name.
    #[error("{} does not exist", path.display())]
    Missing { path: PathBuf },
    /// The name is a folder.
    #[error("{} is a folder, not a file", path.display())]
    Folder { path: PathBuf },
    /// The name is a symbolic link; it is never followed, because a run could have planted it.
    #[error("{} is a symbolic link; put the file itself there", path.display())]
    Symlink { path: PathBuf },
    /// A socket, a pipe or a device.
    #[error("{} is not a regular file", path.display())]
    NotRegular { path: PathBuf },
    /// More bytes than the limit.
    #[error("{} is larger than {max_bytes} bytes", path.display())]
    TooLarge { path: PathBuf, max_bytes: u64 },
    /// Not text.
    #[error("{} is not valid UTF-8 (first bad byte at offset {offset})", path.display())]
    NotUtf8 { path: PathBuf, offset: usize },
    /// Anything else that the file system said.
    #[error("{} cannot be read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl FileProblem {
    /// Stable name of the problem, used in JSON and in tests.
    pub fn key(&self) -> &'static str {
        match self {
            FileProblem::Missing { .. } => "missing",
            FileProblem::Folder { .. } => "folder",
            FileProblem::Symlink { .. } => "symlink",
            FileProblem::NotRegular { .. } => "not_regular",
            FileProblem::TooLarge { .. } => "too_large",
            FileProblem::NotUtf8 { .. } => "not_utf8",
            FileProblem::Io { .. } => "io",
        }
    }
}

impl From<FileProblem> for HostError {
    fn from(problem: FileProblem) -> Self {
        let kind = match problem {
            FileProblem::Io { .. } => ErrorKind::External,
            _ => ErrorKind::Config,
        };
        HostError::new(kind, problem.to_string()).because(problem)
    }
}

/// Reads a whole regular file of at most `max_bytes`, refusing links, folders and devices.
///
/// # Errors
/// A named [`FileProblem`]; the file is opened once, so what was checked is what was read.
pub fn read_bytes(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileProblem> {
    let owned = || path.to_path_buf();
    // NONBLOCK: opening a pipe that nobody writes to must not hang the loop.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags as i32).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(FileProblem::Missing { path: owned() }),
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(FileProblem::Symlink { path: owned() });
        }
        Err(source) => return Err(FileProblem::Io { path: owned(), source }),
    };
    let meta = file.metadata().map_err(|source| FileProblem::Io { path: owned(), source })?;
    if meta.is_dir() {
        return Err(FileProblem::Folder { path: owned() });
    }
    if !meta.is_file() {
        return Err(FileProblem::NotRegular { path: owned() });
    }
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|source| FileProblem::Io { path: owned(), source })?;
    if bytes.len() as u64 > max_bytes {
        return Err(FileProblem::TooLarge { path: owned(), max_bytes });
    }
    Ok(bytes)
}

/// Reads an operator's text file (GOAL.md and its like); a byte order mark is kept.
///
/// # Errors
/// As [`read_bytes`], and [`FileProblem::NotUtf8`].
pub fn read_text(path: &Path, max_bytes: u64) -> Result<String, FileProblem> {
    String::from_utf8(read_bytes(path, max_bytes)?)
        .map_err(|e| FileProblem::NotUtf8 { path: path.to_path_buf(), offset: e.utf8_error().valid_up_to() })
}

/// Reads at most `max_bytes` of a kernel file such as `/proc/<pid>/stat`; longer content is cut.
pub fn read_kernel(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The process ids that `/proc` lists now; empty where there is no `/proc`.
pub fn list_pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|e| e.file_name().to_str().and_then(|n| n.parse().ok())).collect()
}

/// The names in a folder; empty when there is no such folder.
pub fn list_names(dir: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    match std::fs::read_dir(dir) {
        Ok(entries) => entries.map(|e| e.map(|e| e.file_name())).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// What the links in a folder lead to; a link to nothing, and a folder that cannot be listed, name nothing.
pub fn list_links(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let links = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.filter_map(|entry| canonical(&entry.path()).ok()).collect()
}

/// Creates (or empties) a file that only this user can read, never through a link.
pub fn create_private(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32).open(path)?;
    Ok(Box::new(file))
}

/// Writes a file whole or not at all: beside its place first, then renamed over what is there, a link
/// included.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temp = crate::store::disk::temporary(folder, &name)?;
    temp.write_all(bytes)?;
    temp.persist(path).map(drop).map_err(|refused| refused.error)
}

/// Makes a folder and its parents, the last one readable by this user only.
pub fn ensure_private_dir(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// What stands at a name without following a link, as a fingerprint that changes when it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Is it a symbolic link.
    pub symlink: bool,
    /// Is it a folder.
    pub folder: bool,
    /// Length in bytes.
    pub bytes: u64,
    /// Modification time since 1970, in nanoseconds.
    pub modified_ns: u128,
}

/// Looks at a name without following a link. `None`: nothing is there, or a parent is not a folder.
pub fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    let since = meta.modified().ok().and_then(|t| t.duration_since(SystemTime::UNIX_EPOCH).ok());
    Some(Stamp {
        symlink: meta.is_symlink(),
        folder: meta.is_dir(),
        bytes: meta.len(),
        modified_ns: since.map_or(0, |d| d.as_nanos()),
    })
}

/// Is it a real folder (or a regular file) of this user, and no link?
pub fn is_own(path: &Path, folder: bool) -> bool {
    use std::os::unix::fs::MetadataExt;
    let me = rustix::process::geteuid().as_raw();
    let kind = |meta: &std::fs::Metadata| if folder { meta.is_dir() } else { meta.is_file() };
    std::fs::symlink_metadata(path).is_ok_and(|meta| kind(&meta) && meta.uid() == me)
}

/// Is it a file that somebody may run? Links are followed: programs are often installed as links.
pub fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Resolves a path to its real, absolute form.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// Copies a git index and keeps its modification time: git compares that time with the times of the
/// entries to find files changed within one clock tick, and a younger copy would hide them.
/// Returns false when there is no file to copy.
pub fn copy_index(from: &Path, to: &Path) -> io::Result<bool> {
    let mut source = match File::open(from) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    let modified = source.metadata()?.modified()?;
    let mut target = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    io::copy(&mut source, &mut target)?;
    target.set_modified(modified)?;
    Ok(true)
}

/// Renames within one file system, replacing a file that has the new name.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Removes a file; a missing one is fine.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Removes a folder without following links; read-only folders in it are made writable first if need be.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(path)?;
            std::fs::remove_dir_all(path)
        }
        other => other,
    }
}

fn make_writable(dir: &Path) -> io::Result<()> {
    std::fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    for name in list_names(dir)? {
        let path = dir.join(name);
        if stamp(&path).is_some_and(|s| s.folder && !s.symlink) {
            make_writable(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(make: impl FnOnce(&Path), want: &str) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("GOAL.md");
        make(&path);
        let got = match read_text(&path, 8) {
            Ok(text) => format!("ok {text}"),
            Err(problem) => problem.key().to_owned(),
        };
        assert_eq!(got, want);
    }

    #[test]
    fn each_problem_has_its_name() {
        check(|_| (), "missing");
        check(|p| std::fs::create_dir(p).unwrap(), "folder");
        check(|p| std::os::unix::fs::symlink("/etc/hostname", p).unwrap(), "symlink");
        check(|p| std::fs::write(p, b"a\xff").unwrap(), "not_utf8");
        check(|p| drop(std::os::unix::net::UnixListener::bind(p).unwrap()), "io");
        check(|p| std::fs::write(p, "").unwrap(), "ok ");
    }

    #[test]
    fn the_limit_itself_is_accepted_and_one_more_is_not() {
        check(|p| std::fs::write(p, "12345678").unwrap(), "ok 12345678");
        check(|p| std::fs::write(p, "123456789").unwrap(), "too_large");
    }

    #[test]
    fn a_link_in_the_way_of_a_new_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join("out")).unwrap();
        assert!(create_private(&dir.path().join("out")).is_err());
        assert_eq!(std::fs::read_to_string(victim).unwrap(), "kept");
    }

    #[test]
    fn a_copied_index_keeps_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        assert!(!copy_index(&a, &b).unwrap());
        std::fs::write(&a, "x").unwrap();
        File::options().write(true).open(&a).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(copy_index(&a, &b).unwrap());
        assert_eq!(stamp(&b).unwrap().modified_ns, 0);
    }
}
