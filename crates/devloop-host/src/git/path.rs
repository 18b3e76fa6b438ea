//! Names inside a repository as git has them: bytes, never text, with the kind of the entry beside them.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use devloop_core::ids::Oid;

/// A path inside a repository: relative, `/` between the parts, any bytes but NUL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoPath(Vec<u8>);

impl RepoPath {
    /// Takes the bytes as git gave them.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        RepoPath(bytes.into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a relative path of the file system.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Where it stands below a work tree.
    pub fn below(&self, root: &Path) -> PathBuf {
        root.join(self.as_path())
    }

    /// Is it this path itself, or one that must be a folder for this path to exist?
    pub fn covers(&self, other: &RepoPath) -> bool {
        let (a, b) = (&self.0, &other.0);
        b.starts_with(a) && (a.len() == b.len() || b[a.len()] == b'/')
    }
}

/// Text for a person: wrong bytes and control characters are escaped, everything else stays.
impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// How an entry changed between two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Only the new side has it.
    Added,
    /// Only the old side has it.
    Deleted,
    /// Both have it with other content or another mode.
    Modified,
    /// Both have it, as different kinds of thing.
    Retyped,
}

/// One changed entry; a rename is two of them, one for each name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub path: RepoPath,
    /// How it changed.
    pub change: Change,
    /// Mode on the old side, 0 when absent.
    pub old_mode: u32,
    /// Mode on the new side, 0 when absent.
    pub new_mode: u32,
    /// The content on the new side; none when there is none, or git has not stored it.
    pub blob: Option<Oid>,
}

const KIND_MASK: u32 = 0o170000;
const FILE: u32 = 0o100000;
const SYMLINK: u32 = 0o120000;
const SUBMODULE: u32 = 0o160000;

impl Entry {
    /// Is it a symbolic link now?
    pub fn is_symlink(&self) -> bool {
        self.new_mode & KIND_MASK == SYMLINK
    }

    /// Is it, or was it, another repository inside this one?
    pub fn is_submodule(&self) -> bool {
        self.new_mode & KIND_MASK == SUBMODULE || self.old_mode & KIND_MASK == SUBMODULE
    }

    /// Is it a plain file now?
    pub fn is_file(&self) -> bool {
        self.new_mode & KIND_MASK == FILE
    }

    /// Was it and is it a plain file, with another mode?
    pub fn changed_mode(&self) -> bool {
        self.old_mode & KIND_MASK == FILE && self.is_file() && self.old_mode != self.new_mode
    }
}

/// Reads `--raw -z --no-renames` output: `:old new oid oid S NUL path NUL`.
pub(super) fn parse_raw(bytes: &[u8]) -> Option<Vec<Entry>> {
    let mut fields = bytes.split(|b| *b == 0);
    let mut entries = Vec::new();
    while let Some(head) = fields.next().filter(|f| !f.is_empty()) {
        let head = std::str::from_utf8(head.strip_prefix(b":")?).ok()?;
        let parts: Vec<&str> = head.split(' ').collect();
        let [old_mode, new_mode, _, blob, status] = parts.as_slice() else { return None };
        let change = match status.as_bytes().first()? {
            b'A' => Change::Added,
            b'D' => Change::Deleted,
            b'T' => Change::Retyped,
            b'M' | b'U' => Change::Modified,
            _ => return None,
        };
        entries.push(Entry {
            path: RepoPath::new(fields.next()?),
            change,
            old_mode: u32::from_str_radix(old_mode, 8).ok()?,
            new_mode: u32::from_str_radix(new_mode, 8).ok()?,
            blob: Oid::parse(blob).ok().filter(|_| blob.bytes().any(|digit| digit != b'0')),
        });
    }
    Some(entries)
}

/// Reads a list of names with NUL after each.
pub(super) fn parse_names(bytes: &[u8]) -> Vec<RepoPath> {
    bytes.split(|b| *b == 0).filter(|name| !name.is_empty()).map(RepoPath::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_output_keeps_bytes_and_modes() {
        let zero = "0".repeat(40);
        let raw =
            format!(":000000 120000 {zero} {zero} A\0a\tb -> \"c\"\0:100644 000000 {zero} {zero} D\0x\0");
        let entries = parse_raw(raw.as_bytes()).unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].path.as_bytes(), b"a\tb -> \"c\"");
        assert!(entries[0].is_symlink() && entries[1].change == Change::Deleted);
        assert!(parse_raw(b"nonsense\0").is_none());
        assert_eq!(parse_raw(b""), Some(vec![]));
    }

    #[test]
    fn shown_names_are_one_line_and_readable() {
        assert_eq!(RepoPath::new("docs/设计/ä b.txt").to_string(), "docs/设计/ä b.txt");
        assert_eq!(RepoPath::new(b"a\n\xffb".to_vec()).to_string(), "a\\n\\xffb");
    }

    #[test]
    fn a_folder_covers_what_is_in_it_but_not_its_neighbour() {
        let folder = RepoPath::new("a/b");
        assert!(folder.covers(&RepoPath::new("a/b")) && folder.covers(&RepoPath::new("a/b/c")));
        assert!(!folder.covers(&RepoPath::new("a/bc")) && !folder.covers(&RepoPath::new("a")));
    }
}
