//! Names of things: newtypes that cannot be mixed up, each with the one rule for what it may contain.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// Why a text is not a valid name. The text itself is kept out of the error: it may be long or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadId {
    /// What was being named, for example `task id`.
    pub what: &'static str,
    /// The rule that the text breaks.
    pub rule: &'static str,
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.what, self.rule)
    }
}

impl core::error::Error for BadId {}

// The text is shared: events, leases and effects all carry names, and copying one must not copy its text.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(try_from = "String"))]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the rule of this name and takes the text over.
            ///
            /// # Errors
            /// [`BadId`] with the rule that is broken.
            pub fn parse(text: &str) -> Result<Self, BadId> {
                let ok: fn(&str) -> bool = $check;
                if ok(text) { Ok(Self(text.into())) } else { Err(BadId { what: $what, rule: $rule }) }
            }
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                Self::parse(&text)
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> String {
                (*name.0).into()
            }
        }
        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')
}

fn is_task_id(s: &str) -> bool {
    let Some(first) = s.bytes().next() else { return false };
    s.len() <= 64
        && (first.is_ascii_alphanumeric() || first == b'_')
        && s.bytes().all(is_word)
        && !s.contains("..")
        && !s.ends_with('.')
        && !s.ends_with(".lock")
}

fn is_hex(s: &str) -> bool {
    s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_label(s: &str) -> bool {
    !s.is_empty() && s.len() <= 200 && s.chars().all(|c| !c.is_control() && !c.is_whitespace())
}

fn is_branch(s: &str) -> bool {
    is_label(s)
        && s.len() <= 255
        && !s.starts_with('-')
        && !s.contains("..")
        && !s.ends_with('/')
        && !s.ends_with(".lock")
        && !s.contains(['~', '^', ':', '?', '*', '[', '\\'])
}

name!(
    /// A task: also its branch `devloop/<id>` and a folder name, so it is one safe path segment.
    TaskId,
    "a task id",
    "1 to 64 characters of A-Z a-z 0-9 . _ -, without '..', not ending in '.' or '.lock'",
    is_task_id
);
name!(
    /// A commit, tree or other git object: 40 or 64 lower-case hex digits.
    Oid,
    "a git object id",
    "40 or 64 lower-case hex digits",
    |s| matches!(s.len(), 40 | 64) && is_hex(s)
);
name!(
    /// A SHA-256 of a document, made by the wire or the host: the core itself never hashes.
    Digest,
    "a digest",
    "64 lower-case hex digits",
    |s| s.len() == 64 && is_hex(s)
);
name!(
    /// The name of a route in the policy.
    RouteKey,
    "a route name",
    "1 to 200 characters without spaces or control characters",
    is_label
);
name!(
    /// `provider/model`: who did the work, for the rule that a reviewer is somebody else.
    Identity,
    "an identity",
    "1 to 200 characters without spaces or control characters",
    is_label
);
name!(
    /// A branch by its short name, for example `devloop/goal-1`.
    Branch,
    "a branch name",
    "a branch name that git accepts, at most 200 characters",
    is_branch
);

impl Identity {
    /// The part before the first `/`: the vendor for the independence rule `vendor`.
    #[must_use]
    pub fn vendor(&self) -> &str {
        self.0.split('/').next().unwrap_or(&self.0)
    }
}

/// A number behind a letter: counts up and is never reused.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($number:ty), $letter:literal, $what:literal, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
        pub struct $name(pub $number);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }

        impl $name {
            /// Reads the written form: the letter and the number.
            ///
            /// # Errors
            /// [`BadId`] for anything else, leading zeros included.
            pub fn parse(text: &str) -> Result<Self, BadId> {
                let bad = BadId { what: $what, rule: $rule };
                let digits = text.strip_prefix($letter).ok_or(bad)?;
                if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
                    return Err(bad);
                }
                if !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(bad);
                }
                digits.parse().map(Self).map_err(|_| bad)
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                alloc::format!("{id}")
            }
        }
    };
}

number!(
    /// One dispatch or other leased operation. Counts up inside a project and is never reused.
    DispatchId(u64),
    "d",
    "a dispatch id",
    "'d' and a number"
);
number!(
    /// A finding of a reviewer. Counts up inside a task; a finding that comes again keeps it.
    FindingId(u32),
    "f",
    "a finding's name",
    "'f' and a number"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_ids_follow_one_rule() {
        for good in ["a", "__proto__", "T-1", "g2-fix.parser", "toString"] {
            assert!(TaskId::parse(good).is_ok(), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", "-a", ".a", "a..b", "a.", "a.lock", "a/b", "a b", "é", &long] {
            assert!(TaskId::parse(bad).is_err(), "{bad}");
        }
        assert!(TaskId::parse(&"a".repeat(64)).is_ok());
    }

    #[test]
    fn numbers_behind_a_letter_read_back_what_they_print() {
        assert_eq!(DispatchId::parse("d17"), Ok(DispatchId(17)));
        for bad in ["17", "d", "d01", "d-1", "d1x", "d99999999999999999999"] {
            assert!(DispatchId::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(FindingId::parse("f17"), Ok(FindingId(17)));
        assert!(FindingId::parse("d17").is_err() && FindingId::parse("f4294967296").is_err());
    }
}
