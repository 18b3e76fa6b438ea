//! Why a document is refused: which one, where in it, and one sentence. It must not decide what happens then.

use std::fmt;

/// What kind of refusal it is, for callers that do more than show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Written by the earlier plugin, format version 1: to be migrated.
    Legacy,
    /// Written by a newer DevLoop.
    Newer {
        /// The version found.
        version: u64,
    },
    /// Not a whole JSON document: empty, cut off, or no JSON at all.
    Torn,
    /// A whole document with something wrong in it.
    Defect,
}

/// A refused document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocError {
    /// The document, for example `STATE.json`.
    pub document: &'static str,
    /// The field, for example `state.tasks[2].id`; empty when it is about the whole document.
    pub path: String,
    /// What is wrong with it.
    pub what: String,
    /// The kind of refusal.
    pub fault: Fault,
}

impl DocError {
    /// A defect of one field.
    #[must_use]
    pub fn defect(document: &'static str, path: impl Into<String>, what: impl Into<String>) -> Self {
        DocError { document, path: path.into(), what: what.into(), fault: Fault::Defect }
    }

    /// Not a whole document.
    #[must_use]
    pub fn torn(document: &'static str, what: impl Into<String>) -> Self {
        DocError { document, path: String::new(), what: what.into(), fault: Fault::Torn }
    }

    /// A document of the earlier plugin.
    #[must_use]
    pub fn legacy(document: &'static str) -> Self {
        let what = "it is of version 1, written by the earlier plugin; it has to be migrated".into();
        DocError { document, path: String::new(), what, fault: Fault::Legacy }
    }

    /// A document of a version that does not exist yet, beside the newest known one.
    #[must_use]
    pub fn newer(document: &'static str, version: u64, known: u64) -> Self {
        let what = format!(
            "it has version {version}, written by a newer DevLoop; this one knows versions up to {known}: \
             update DevLoop"
        );
        DocError { document, path: String::new(), what, fault: Fault::Newer { version } }
    }
}

impl fmt::Display for DocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            write!(f, "{}: {}", self.document, self.what)
        } else {
            write!(f, "{}: {}: {}", self.document, self.path, self.what)
        }
    }
}

impl std::error::Error for DocError {}
