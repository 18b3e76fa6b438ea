//! The one error of the shell: its kind, where it happened and what to do next. It renders nothing
//! for a particular surface; the CLI and the HTTP routes translate it through the table below.

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};

use devloop_core::untrusted::Untrusted;

/// What sort of failure this is; it alone selects exit code and HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The request itself is wrong: an unknown answer, a missing argument.
    User,
    /// A document or the repository is not in a state that the loop can work with.
    Config,
    /// Somebody else holds what is needed; the same request may work later.
    Busy,
    /// The request was about an older revision.
    Stale,
    /// A program or a file system outside the loop failed.
    External,
    /// What is on disk contradicts itself and must not be written over.
    Integrity,
    /// A fault of DevLoop.
    Internal,
}

/// One row per kind: kind, stable key, exit code of the CLI, HTTP status.
const KINDS: [(ErrorKind, &str, u8, u16); 7] = [
    (ErrorKind::User, "user", 2, 400),
    (ErrorKind::Config, "config", 1, 422),
    (ErrorKind::Busy, "busy", 1, 503),
    (ErrorKind::Stale, "stale", 1, 409),
    (ErrorKind::External, "external", 1, 502),
    (ErrorKind::Integrity, "integrity", 1, 500),
    (ErrorKind::Internal, "internal", 1, 500),
];

impl ErrorKind {
    fn row(self) -> (ErrorKind, &'static str, u8, u16) {
        // The table has a row for each kind in declaration order; a test compares them.
        KINDS[self as usize]
    }

    /// Stable lower-case name, used in JSON.
    pub fn key(self) -> &'static str {
        self.row().1
    }

    /// Exit code of the CLI.
    pub fn exit_code(self) -> u8 {
        self.row().2
    }

    /// HTTP status of the dashboard routes.
    pub fn http_status(self) -> u16 {
        self.row().3
    }

    /// Every kind, in table order.
    pub fn all() -> impl Iterator<Item = ErrorKind> {
        KINDS.iter().map(|row| row.0)
    }
}

type Source = Box<dyn StdError + Send + Sync + 'static>;

/// A failure of the shell. Boxed inside so that `Result<_, HostError>` stays small.
#[derive(Debug)]
pub struct HostError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    field: Option<String>,
    hints: Vec<Vec<String>>,
    untrusted: Option<Untrusted>,
    source: Option<Source>,
}

impl HostError {
    /// An error of `kind`; `message` is one sentence for the person who must act, without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        HostError(Box::new(Inner {
            kind,
            message: message.into(),
            path: None,
            field: None,
            hints: Vec::new(),
            untrusted: None,
            source: None,
        }))
    }

    /// The file or folder that it is about.
    #[must_use]
    pub fn at(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.path = Some(path.into());
        self
    }

    /// Prefixes the field path of a document: the innermost field is added first, its parents later.
    #[must_use]
    pub fn in_field(mut self, name: &str) -> Self {
        self.0.field = Some(match self.0.field.take() {
            Some(inner) => format!("{name}.{inner}"),
            None => name.to_owned(),
        });
        self
    }

    /// Adds a command that the operator can run next, as an argv list; a surface quotes it.
    #[must_use]
    pub fn hint<S: Into<String>>(mut self, argv: impl IntoIterator<Item = S>) -> Self {
        self.0.hints.push(argv.into_iter().map(Into::into).collect());
        self
    }

    /// Says why there is no state to decide on.
    #[must_use]
    pub fn as_untrusted(mut self, why: Untrusted) -> Self {
        self.0.untrusted = Some(why);
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The kind, which selects exit code and HTTP status.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence alone, without path, field and cause.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file or folder that it is about, when there is one.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The field of the document that it is about, when there is one.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// Why there is no state to decide on, when that is what failed.
    pub fn untrusted(&self) -> Option<Untrusted> {
        self.0.untrusted
    }

    /// Commands that would help, each an argv list.
    pub fn hints(&self) -> &[Vec<String>] {
        &self.0.hints
    }

    /// An input or output failure on `path`.
    pub fn io(path: impl Into<PathBuf>, what: &str, source: std::io::Error) -> Self {
        HostError::new(ErrorKind::External, format!("cannot {what}")).at(path).because(source)
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(field) = &self.0.field {
            write!(f, " (field {field})")?;
        }
        if let Some(path) = self.0.path.as_ref().map(|path| path.display().to_string())
            && !self.0.message.contains(&path)
        {
            write!(f, " ({path})")?;
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl StdError for HostError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|s| &**s as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_row() {
        for (index, kind) in ErrorKind::all().enumerate() {
            assert_eq!(kind as usize, index, "the table must be in declaration order");
        }
        assert_eq!(ErrorKind::User.exit_code(), 2);
        assert_eq!(ErrorKind::Stale.http_status(), 409);
        assert!(ErrorKind::all().filter(|k| *k != ErrorKind::User).all(|k| k.exit_code() == 1));
    }

    #[test]
    fn fields_nest_and_the_source_is_kept() {
        let io = std::io::Error::other("disk is gone");
        let error =
            HostError::io("/x/STATE.json", "read the state", io).in_field("tier").in_field("tasks[2]");
        assert_eq!(error.field(), Some("tasks[2].tier"));
        assert!(error.source().is_some());
        let shown = error.hint(["devloop", "doctor"]).to_string();
        assert_eq!(shown, "cannot read the state (field tasks[2].tier) (/x/STATE.json): disk is gone");
    }
}
