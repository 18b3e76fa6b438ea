//! Changes JSON as JSON: one value, key or item at a time, with words of the document itself and numbers at
//! their limits. It must not know any document.

use devloop_testkit::random::Random;
use serde_json::{Map, Value, json};

/// One line of `data` changed in one to three places; none when no line is JSON or the outcome is too long.
#[must_use]
pub fn json(data: &[u8], max_size: usize, seed: u64) -> Option<Vec<u8>> {
    let mut random = Random::new(seed);
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let at = index(&mut random, lines.len());
    let mut value: Value = serde_json::from_slice(lines[at]).ok()?;
    for _ in 0..=random.below(3) {
        let words = words(&value);
        let nodes = count(&value);
        let target = index(&mut random, nodes);
        let other = nth_value(&value, index(&mut random, nodes));
        if let Some(node) = nth(&mut value, target) {
            change(node, other, &words, &mut random);
        }
    }
    let changed = serde_json::to_vec(&value).ok()?;
    let mut out: Vec<&[u8]> = lines;
    match random.below(12) {
        0 => out.insert(at, &changed),
        1 if out.len() > 1 => drop(out.remove(at)),
        _ => out[at] = &changed,
    }
    let out = out.join(&b'\n');
    (out.len() <= max_size).then_some(out)
}

/// Numbers at which something may turn over.
const NUMBERS: [u64; 10] = [
    0,
    1,
    2,
    255,
    u32::MAX as u64,
    u32::MAX as u64 + 1,
    9_007_199_254_740_991,
    9_007_199_254_740_992,
    i64::MAX as u64,
    u64::MAX,
];

/// Words that readers tend to treat in a way of their own.
const WORDS: [&str; 14] = [
    "",
    "__proto__",
    "constructor",
    "..",
    "../x",
    "**",
    "/",
    "main",
    "a/b",
    "\u{0}",
    "\u{1f600}",
    "0000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "2026-02-29T24:60:60.999Z",
];

fn index(random: &mut Random, len: usize) -> usize {
    usize::try_from(random.below(len as u64)).unwrap_or(0)
}

fn change(node: &mut Value, other: Value, words: &[String], random: &mut Random) {
    match random.below(10) {
        0 => *node = other,
        1 => {
            *node = [Value::Null, json!(true), json!(0), json!(""), json!([]), json!({})][index(random, 6)]
                .clone()
        }
        _ => match node {
            Value::Number(number) => *node = changed_number(number, random),
            Value::String(text) => *text = changed_text(text, words, random),
            Value::Bool(flag) => *flag = !*flag,
            Value::Null => *node = other,
            Value::Array(list) => changed_list(list, other, random),
            Value::Object(map) => changed_map(map, other, words, random),
        },
    }
}

fn changed_number(number: &serde_json::Number, random: &mut Random) -> Value {
    let old = number.as_u64().unwrap_or(0);
    match random.below(6) {
        0 => json!(old.wrapping_add(1)),
        1 => json!(old.wrapping_sub(1)),
        2 => json!(-1),
        3 => json!(0.5),
        _ => json!(random.pick(&NUMBERS)),
    }
}

fn changed_text(text: &str, words: &[String], random: &mut Random) -> String {
    match random.below(6) {
        0 => random.pick(&WORDS).to_owned(),
        1 if !text.is_empty() => text.chars().skip(1).collect(),
        2 => format!("{text}{}", random.pick(&WORDS)),
        3 => text.repeat(index(random, 4)),
        _ if words.is_empty() => String::new(),
        _ => random.pick(words),
    }
}

fn changed_list(list: &mut Vec<Value>, other: Value, random: &mut Random) {
    let at = index(random, list.len());
    match random.below(5) {
        0 if !list.is_empty() => drop(list.remove(at)),
        1 if !list.is_empty() => list.push(list[at].clone()),
        2 if !list.is_empty() => list.swap(0, at),
        _ => list.insert(at.min(list.len()), other),
    }
}

fn changed_map(map: &mut Map<String, Value>, other: Value, words: &[String], random: &mut Random) {
    let keys: Vec<String> = map.keys().cloned().collect();
    let word = if words.is_empty() { String::from("x") } else { random.pick(words) };
    match random.below(4) {
        0 if !keys.is_empty() => drop(map.remove(&random.pick(&keys))),
        1 if !keys.is_empty() => {
            if let Some(value) = map.remove(&random.pick(&keys)) {
                map.insert(word, value);
            }
        }
        2 if !keys.is_empty() => {
            map.insert(random.pick(&keys), other);
        }
        _ => {
            map.insert(word, other);
        }
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn count(value: &Value) -> usize {
    1 + children(value).map(count).sum::<usize>()
}

/// The `n`-th value of a document in the order of its text.
fn nth(value: &mut Value, n: usize) -> Option<&mut Value> {
    if n == 0 {
        return Some(value);
    }
    let mut rest = n - 1;
    let inner: Box<dyn Iterator<Item = &mut Value>> = match value {
        Value::Array(list) => Box::new(list.iter_mut()),
        Value::Object(map) => Box::new(map.values_mut()),
        _ => return None,
    };
    for child in inner {
        let size = count(child);
        if rest < size {
            return nth(child, rest);
        }
        rest -= size;
    }
    None
}

fn nth_value(value: &Value, n: usize) -> Value {
    let mut rest = n;
    let mut node = value;
    'down: while rest > 0 {
        rest -= 1;
        for child in children(node) {
            let size = count(child);
            if rest < size {
                node = child;
                continue 'down;
            }
            rest -= size;
        }
        break;
    }
    node.clone()
}

/// Every key and text of a document.
fn words(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![value];
    while let Some(value) = todo.pop() {
        if let Value::String(text) = value {
            found.push(text.clone());
        }
        if let Value::Object(map) = value {
            found.extend(map.keys().cloned());
        }
        todo.extend(children(value));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_changes_alike_and_most_seeds_change_something() {
        let data = br#"{"version":2,"list":[1,{"a":"x"}],"flag":true}
{"second":null}"#;
        let changed: Vec<Option<Vec<u8>>> = (0..200).map(|seed| json(data, 4_096, seed)).collect();
        assert_eq!(changed, (0..200).map(|seed| json(data, 4_096, seed)).collect::<Vec<_>>());
        let other = changed.iter().flatten().filter(|bytes| bytes[..] != data[..]).count();
        assert!(other > 150, "{other} of 200 differ");
        assert!(json(b"no json", 4_096, 1).is_none());
        assert!((0..200).all(|seed| json(data, 10, seed).is_none_or(|bytes| bytes.len() <= 10)));
    }

    #[test]
    fn every_value_of_a_document_is_reached() {
        let value = json!({ "a": [1, 2], "b": { "c": "x" } });
        assert_eq!(count(&value), 6);
        let found: Vec<Value> = (0..6).map(|n| nth_value(&value, n)).collect();
        assert_eq!(found[2..5], [json!(1), json!(2), json!({ "c": "x" })]);
        assert_eq!(nth(&mut value.clone(), 5), Some(&mut json!("x")));
        assert_eq!(nth(&mut value.clone(), 6), None);
    }
}
