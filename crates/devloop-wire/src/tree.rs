//! JSON that a person typed, with numbers as the digits that stand there and without silent duplicates.
//! It must not know any key.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON value whose numbers are text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// Deeper nesting than this has no meaning in any document of ours.
const MAX_DEPTH: usize = 16;

struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Pairs<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs: Vec<(String, &'de RawValue)> = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if pairs.iter().any(|(known, _)| *known == key) {
                        return Err(serde::de::Error::custom(format!("the key {key:?} stands twice")));
                    }
                    pairs.push((key, value));
                }
                Ok(Pairs(pairs))
            }
        }
        source.deserialize_map(Reader)
    }
}

impl Node {
    /// Reads a whole text.
    ///
    /// # Errors
    /// A sentence with line and column.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Node, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
        // The whole text first, so that a syntax error is reported with its place in the file.
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| error.to_string())?;
        read(text.trim(), 0)
    }

    /// Takes a value over that was parsed before. Numbers have the digits that a JSON writer gives them.
    pub(crate) fn of(value: &serde_json::Value) -> Node {
        match value {
            serde_json::Value::Null => Node::Null,
            serde_json::Value::Bool(flag) => Node::Bool(*flag),
            serde_json::Value::Number(number) => Node::Number(number.to_string()),
            serde_json::Value::String(text) => Node::Text(text.clone()),
            serde_json::Value::Array(list) => Node::List(list.iter().map(Node::of).collect()),
            serde_json::Value::Object(map) => {
                Node::Map(map.iter().map(|(key, value)| (key.clone(), Node::of(value))).collect())
            }
        }
    }

    /// The word for its kind, with an article.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "true or false",
            Node::Number(_) => "a number",
            Node::Text(_) => "a text",
            Node::List(_) => "a list",
            Node::Map(_) => "an object",
        }
    }
}

fn read(text: &str, depth: usize) -> Result<Node, String> {
    let said = |error: serde_json::Error| error.to_string();
    if depth > MAX_DEPTH {
        return Err(format!("it is nested deeper than {MAX_DEPTH} levels"));
    }
    match text.as_bytes().first() {
        Some(b'{') => {
            let pairs: Pairs<'_> = serde_json::from_str(text).map_err(said)?;
            let nodes = pairs.0.into_iter().map(|(key, raw)| Ok((key, read(raw.get(), depth + 1)?)));
            nodes.collect::<Result<_, String>>().map(Node::Map)
        }
        Some(b'[') => {
            let list: Vec<&RawValue> = serde_json::from_str(text).map_err(said)?;
            let nodes = list.into_iter().map(|raw| read(raw.get(), depth + 1));
            nodes.collect::<Result<_, String>>().map(Node::List)
        }
        Some(b'"') => serde_json::from_str(text).map(Node::Text).map_err(said),
        Some(b't' | b'f') => serde_json::from_str(text).map(Node::Bool).map_err(said),
        Some(b'n') => Ok(Node::Null),
        _ => Ok(Node::Number(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_keys_stand_once() {
        let node = Node::parse(br#" {"a":[0.10000000000000000001,1e3,-2],"b":{"c":null,"d":true,"e":"x"}} "#);
        let number = |text: &str| Node::Number(text.into());
        let list = Node::List(vec![number("0.10000000000000000001"), number("1e3"), number("-2")]);
        let map = Node::Map(vec![
            ("c".into(), Node::Null),
            ("d".into(), Node::Bool(true)),
            ("e".into(), Node::Text("x".into())),
        ]);
        assert_eq!(node, Ok(Node::Map(vec![("a".into(), list), ("b".into(), map)])));
        let twice = Node::parse(br#"{"x":{"a":1,"b":2,"a":3}}"#).unwrap_err();
        assert!(twice.contains(r#"the key "a" stands twice"#), "{twice}");
        let place = Node::parse(b"{\n  \"a\": 1,\n}").unwrap_err();
        assert!(place.contains("line 3 column 1"), "{place}");
        let deep = |n: usize| Node::parse(format!("{}{}", "[".repeat(n), "]".repeat(n)).as_bytes());
        assert!(deep(17).is_ok() && deep(18).is_err());
        assert!(Node::parse(b"\xff").is_err());
    }
}
