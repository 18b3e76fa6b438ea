//! Finds numbers that JSON readers elsewhere could not hold exactly. Works on the text, so that no type can
//! forget to check; the text must be known to be valid JSON.

use devloop_core::units::MAX_NUMBER;

use crate::json::key_path;

/// The path of the first whole number above 2^53 - 1.
pub(crate) fn first_too_large(bytes: &[u8]) -> Option<String> {
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b'0'..=b'9' => {
                let end = number_end(bytes, at);
                if is_too_large(&bytes[at..end]) {
                    return Some(path_to(bytes, at));
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    None
}

fn number_end(bytes: &[u8], at: usize) -> usize {
    let more = bytes[at..].iter().take_while(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    at + more.count()
}

fn is_too_large(digits: &[u8]) -> bool {
    // Anything that is not a plain row of digits was refused by its type or is text of an untyped value.
    let whole = digits.iter().all(u8::is_ascii_digit);
    whole
        && digits.len() >= 16
        && std::str::from_utf8(digits)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
            .is_none_or(|n| n > MAX_NUMBER)
}

/// The place behind the string that starts at `at`.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    while next < bytes.len() {
        match bytes[next] {
            b'\\' => next += 2,
            b'"' => return next + 1,
            _ => next += 1,
        }
    }
    bytes.len()
}

/// One open bracket on the way to a place.
enum Step {
    Key(String),
    Index(usize),
}

/// The path of the value that starts at `target`.
fn path_to(bytes: &[u8], target: usize) -> String {
    let mut steps: Vec<Step> = Vec::new();
    let mut last_string = (0, 0);
    let mut at = 0;
    while at < target {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at);
                last_string = (at, end);
                at = end;
                continue;
            }
            b':' => {
                if let Some(Step::Key(key)) = steps.last_mut() {
                    let text = &bytes[last_string.0..last_string.1];
                    *key = serde_json::from_slice(text).unwrap_or_default();
                }
            }
            b'{' => steps.push(Step::Key(String::new())),
            b'[' => steps.push(Step::Index(0)),
            b'}' | b']' => {
                steps.pop();
            }
            b',' => {
                if let Some(Step::Index(index)) = steps.last_mut() {
                    *index += 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Key(key) => path = key_path(&path, &key),
            Step::Index(index) => path = format!("{path}[{index}]"),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_up_to_their_limit() {
        let found = |text: &str| first_too_large(text.as_bytes());
        assert_eq!(found(r#"{"a":9007199254740991}"#), None);
        assert_eq!(found(r#"{"a":9007199254740992}"#), Some("a".into()));
        assert_eq!(
            found(r#"{"x":[0,{"y":"\"9007199254740992"},{"z":99999999999999999999}]}"#),
            Some("x[2].z".into())
        );
        assert_eq!(found(r#"["9007199254740992 \\", 1]"#), None);
        assert_eq!(found(r#"{"a\"b":{"c":18446744073709551615}}"#), Some(r#"["a\"b"].c"#.into()));
        assert_eq!(found(r#"{"":{"":9007199254740992}}"#), Some(r#"[""][""]"#.into()));
    }
}
