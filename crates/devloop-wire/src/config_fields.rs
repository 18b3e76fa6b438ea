//! Reading single fields of a configuration: each refusal has its path, its rule and, for a wrong word, the
//! nearest right one. It must not know what a field means.

use devloop_core::units::UsdMicros;

use crate::config_doc::{ConfigFault, Weight};
use crate::json::key_path;
use crate::money::parse_usd;
use crate::tree::Node;

/// The faults so far. Every reader returns something usable and notes what was wrong.
#[derive(Debug, Default)]
pub(crate) struct Faults(pub Vec<ConfigFault>);

/// An object whose keys were checked, with its path.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    path: String,
    pairs: &'a [(String, Node)],
}

impl<'a> Fields<'a> {
    /// The value of a key; `null` counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        let found = self.pairs.iter().find(|(known, _)| known == key);
        found.map(|(_, node)| node).filter(|node| **node != Node::Null)
    }
    /// The path of a key.
    pub(crate) fn at(&self, key: &str) -> String {
        key_path(&self.path, key)
    }
    /// Its keys with their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a Node)> {
        self.pairs.iter().map(|(key, node)| (key.as_str(), node))
    }
}

/// The word of `known` that was most likely meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within(1.max(word.chars().count() / 3), word, known)
}

/// The same, at most so many slips of the pen away.
pub(crate) fn nearest_within<'a>(
    slips: usize,
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_lowercase();
    let distance = |k: &str| strsim::damerau_levenshtein(&word, &k.to_lowercase());
    let best = known.into_iter().min_by_key(|k| distance(k))?;
    (distance(best) <= slips).then_some(best)
}

fn hint(word: &str, known: &[&str]) -> String {
    nearest(word, known.iter().copied()).map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

impl Faults {
    /// Notes a fault.
    pub(crate) fn add(&mut self, weight: Weight, path: impl Into<String>, what: impl Into<String>) {
        self.0.push(ConfigFault { path: path.into(), what: what.into(), weight });
    }

    /// An object with known keys only.
    pub(crate) fn fields<'a>(&mut self, node: &'a Node, path: &str, known: &[&str]) -> Fields<'a> {
        self.fields_beside(node, path, known, ("", &[]))
    }

    /// The same, for an object whose keys are easily written into another, which is named in words.
    pub(crate) fn fields_beside<'a>(
        &mut self,
        node: &'a Node,
        path: &str,
        known: &[&str],
        (place, others): (&str, &[&str]),
    ) -> Fields<'a> {
        let fields = self.any_fields(node, path);
        for (key, _) in fields.iter().filter(|(key, _)| !known.contains(key)) {
            let moved = others.contains(&key).then(|| format!("; it belongs {place}"));
            let hint = moved.unwrap_or_else(|| hint(key, known));
            self.add(Weight::Error, fields.at(key), format!("unknown key{hint}"));
        }
        fields
    }

    /// An object whose keys are names.
    pub(crate) fn any_fields<'a>(&mut self, node: &'a Node, path: &str) -> Fields<'a> {
        let pairs = match node {
            Node::Map(pairs) => pairs.as_slice(),
            other => {
                self.add(Weight::Closing, path, format!("must be an object, not {}", other.kind()));
                &[]
            }
        };
        Fields { path: path.to_owned(), pairs }
    }

    /// A whole number between two bounds.
    pub(crate) fn number(&mut self, fields: &Fields<'_>, key: &str, bounds: (u64, u64), default: u64) -> u64 {
        let Some(node) = fields.get(key) else { return default };
        let number = match node {
            Node::Number(text) => text.parse::<u64>().ok(),
            _ => None,
        };
        match number.filter(|n| (bounds.0..=bounds.1).contains(n)) {
            Some(number) => number,
            None => {
                let what = format!(
                    "must be a whole number from {} to {}; the default is {default}",
                    bounds.0, bounds.1
                );
                self.add(Weight::Error, fields.at(key), what);
                default
            }
        }
    }

    /// The same for a number that fits 32 bits; `bounds.1` must.
    pub(crate) fn count(&mut self, fields: &Fields<'_>, key: &str, bounds: (u32, u32), default: u32) -> u32 {
        let wide = self.number(fields, key, (bounds.0.into(), bounds.1.into()), default.into());
        u32::try_from(wide).unwrap_or(default)
    }

    /// A whole number between two bounds that limits something; without it there is no limit.
    pub(crate) fn limit(&mut self, fields: &Fields<'_>, key: &str, bounds: (u64, u64)) -> Option<u64> {
        let number = match fields.get(key)? {
            Node::Number(text) => text.parse::<u64>().ok(),
            _ => None,
        };
        let number = number.filter(|n| (bounds.0..=bounds.1).contains(n));
        if number.is_none() {
            let (low, high) = bounds;
            let what = format!("must be a whole number from {low} to {high}; without it there is no limit");
            self.add(Weight::Error, fields.at(key), what);
        }
        number
    }

    /// An amount of US dollars; a wrong one counts as zero, so that no cap is widened by a slip.
    pub(crate) fn money(&mut self, fields: &Fields<'_>, key: &str) -> Option<UsdMicros> {
        let node = fields.get(key)?;
        let read = match node {
            Node::Number(text) | Node::Text(text) => parse_usd(text),
            _ => Err("must be an amount of US dollars, zero or more, for example 2.50"),
        };
        Some(read.unwrap_or_else(|rule| {
            self.add(Weight::Error, fields.at(key), format!("{rule}; it counts as 0"));
            UsdMicros(0)
        }))
    }

    /// True or false.
    pub(crate) fn flag(&mut self, fields: &Fields<'_>, key: &str, default: bool) -> bool {
        match fields.get(key) {
            None => default,
            Some(Node::Bool(flag)) => *flag,
            Some(_) => {
                self.add(
                    Weight::Error,
                    fields.at(key),
                    format!("must be true or false; the default is {default}"),
                );
                default
            }
        }
    }

    /// One word of a table.
    pub(crate) fn word<T: Copy>(&mut self, fields: &Fields<'_>, key: &str, table: &[(&str, T)]) -> Option<T> {
        let node = fields.get(key)?;
        let words: Vec<&str> = table.iter().map(|(word, _)| *word).collect();
        let (found, near) = match node {
            Node::Text(text) => (table.iter().find(|(word, _)| word == text), hint(text, &words)),
            _ => (None, String::new()),
        };
        if found.is_none() {
            self.add(Weight::Closing, fields.at(key), format!("must be one of {}{near}", words.join(", ")));
        }
        found.map(|(_, value)| *value)
    }

    /// A text without control characters that is not empty.
    pub(crate) fn text(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        match fields.get(key)? {
            Node::Text(text) if !text.trim().is_empty() && !text.contains(char::is_control) => {
                Some(text.clone())
            }
            _ => {
                let what = "must be a text that is not empty and has no control characters";
                self.add(Weight::Closing, fields.at(key), what);
                None
            }
        }
    }

    /// A list of texts, each judged by `fault` (the rule it breaks).
    pub(crate) fn texts(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        fault: impl Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let Some(node) = fields.get(key) else { return Vec::new() };
        self.list(node, &fields.at(key), fault)
    }

    /// A list of texts at a path.
    pub(crate) fn list(
        &mut self,
        node: &Node,
        path: &str,
        fault: impl Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let Node::List(nodes) = node else {
            self.add(Weight::Closing, path, format!("must be a list of texts, not {}", node.kind()));
            return Vec::new();
        };
        let mut out = Vec::new();
        for (i, node) in nodes.iter().enumerate() {
            let wrong = match node {
                Node::Text(text) => fault(text),
                other => Some(format!("must be a text, not {}", other.kind())),
            };
            match (wrong, node) {
                (None, Node::Text(text)) => out.push(text.clone()),
                (wrong, _) => self.add(Weight::Closing, format!("{path}[{i}]"), wrong.unwrap_or_default()),
            }
        }
        out
    }
}
