//! Where a recording and its replay part: every field that differs, with both values. It must not decide
//! which of the two is right.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

/// Fields that are listed at most; the rest is counted.
pub const MAX_FIELDS: usize = 20;
/// Longest value that is shown, in characters.
const MAX_VALUE: usize = 200;

/// The first place where a replay leads elsewhere than the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// The file.
    pub file: PathBuf,
    /// The line in it, from 1.
    pub line: usize,
    /// The recorded revision there.
    pub revision: u64,
    /// The fields that differ, in the order of their paths, at most [`MAX_FIELDS`].
    pub fields: Vec<Difference>,
    /// How many more there are.
    pub more: usize,
}

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its path, for example `decisions[1].events[0].lease_taken.dispatch`.
    pub path: String,
    /// The recorded value as JSON; `absent` where it is not there.
    pub recorded: String,
    /// The replayed value as JSON; `absent` where it is not there.
    pub replayed: String,
}

/// Differences while they are collected.
#[derive(Debug, Default)]
pub(super) struct Found {
    fields: Vec<Difference>,
    more: usize,
}

impl Found {
    /// Compares two values below `path`.
    pub(super) fn compare(&mut self, path: &str, recorded: &Value, replayed: &Value) {
        self.walk(path, Some(recorded), Some(replayed));
    }

    /// Compares two serializable values below `path`.
    pub(super) fn compare_as_json<T: Serialize>(&mut self, path: &str, recorded: &T, replayed: &T) {
        let value = |side: &T| serde_json::to_value(side).unwrap_or(Value::Null);
        self.compare(path, &value(recorded), &value(replayed));
    }

    /// Whether nothing differs.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The divergence, if anything differs.
    pub(super) fn at(self, file: impl Into<PathBuf>, line: usize, revision: u64) -> Option<Divergence> {
        let Found { fields, more } = self;
        (!fields.is_empty()).then(|| Divergence { file: file.into(), line, revision, fields, more })
    }

    fn walk(&mut self, path: &str, recorded: Option<&Value>, replayed: Option<&Value>) {
        match (recorded, replayed) {
            (Some(Value::Object(a)), Some(Value::Object(b))) => {
                let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
                let at = |key: &String| if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                keys.into_iter().for_each(|key| self.walk(&at(key), a.get(key), b.get(key)));
            }
            (Some(Value::Array(a)), Some(Value::Array(b))) => {
                (0..a.len().max(b.len()))
                    .for_each(|i| self.walk(&format!("{path}[{i}]"), a.get(i), b.get(i)));
            }
            _ if recorded == replayed => {}
            _ if self.fields.len() >= MAX_FIELDS => self.more += 1,
            _ => self.fields.push(Difference {
                path: path.to_owned(),
                recorded: shown(recorded),
                replayed: shown(replayed),
            }),
        }
    }
}

fn shown(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "absent".to_owned(), Value::to_string);
    devloop_core::render::one_line(&text, MAX_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(recorded: &str, replayed: &str) -> (Vec<String>, usize) {
        let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON of the test");
        let mut found = Found::default();
        found.compare("d", &parse(recorded), &parse(replayed));
        (found.fields.into_iter().map(|field| field.path).collect(), found.more)
    }

    #[test]
    fn every_difference_is_named_by_its_path() {
        let check = |a: &str, b: &str, expect: &[&str]| {
            assert_eq!(paths(a, b), (expect.iter().map(ToString::to_string).collect(), 0));
        };
        check(r#"[{"a":1}]"#, r#"[{"a":1}]"#, &[]);
        check(r#"[{"a":1,"b":[1,2]},5]"#, r#"[{"a":2,"b":[1,3]}]"#, &["d[0].a", "d[0].b[1]", "d[1]"]);
        check(r#"{"a":1}"#, r#"{"b":1}"#, &["d.a", "d.b"]);
        check(r#"{"a":{}}"#, r#"{"a":[]}"#, &["d.a"]);
    }

    #[test]
    fn the_list_of_differences_is_bounded_and_what_is_missing_is_counted() {
        let list = |first: u64, n: usize| serde_json::to_string(&vec![first; n]).expect("JSON");
        let at = |n: usize| {
            let (paths, more) = paths(&list(1, n), &list(2, n));
            (paths.len(), more)
        };
        assert_eq!(at(MAX_FIELDS), (MAX_FIELDS, 0));
        assert_eq!(at(MAX_FIELDS + 1), (MAX_FIELDS, 1));
        let long = format!("\"{}\"", "x".repeat(1_000));
        let mut found = Found::default();
        found.compare("d", &Value::Null, &serde_json::from_str(&long).expect("JSON"));
        let divergence = found.at("f", 1, 1).expect("differs");
        assert_eq!(divergence.fields[0].replayed.chars().count(), MAX_VALUE);
    }
}
