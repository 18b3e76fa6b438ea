//! Finds the tagged envelopes in what a model printed. It must not know what an envelope says.

use std::ops::Range;

use serde::de::IgnoredAny;

/// The tag in front of an envelope.
pub const START: &str = "<devloop_result>";
/// The tag behind it.
pub const END: &str = "</devloop_result>";

/// More start tags than this are not looked at: an output full of them has no verdict.
pub(crate) const MAX_BLOCKS: usize = 64;
/// How many end tags are tried for a block whose strings hold raw line breaks.
const MAX_ENDS: usize = 8;

/// One start tag with what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// From the start tag to behind the end tag; of a malformed block only the start tag.
    pub range: Range<usize>,
    /// The JSON object between the tags; none when there is no whole one.
    pub json: Option<String>,
    /// Whether the start tag stands at the very start of a line. Examples are indented, quoted or inside a
    /// sentence.
    pub own_line: bool,
}

/// Every block of a text, in order, at most one more than [`MAX_BLOCKS`]. Tags inside the strings of a
/// block do not start blocks of their own.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find(START).map(|at| from + at)
        && found.len() <= MAX_BLOCKS
    {
        let inner = start + START.len();
        let own_line = start == 0 || text.as_bytes()[start - 1] == b'\n';
        let (json, end) = match object(text, inner).or_else(|| mended(text, inner)) {
            Some((json, end)) => (Some(json), end),
            None => (None, inner),
        };
        found.push(Block { range: start..end, json, own_line });
        from = end;
    }
    found
}

/// A whole JSON object at `inner` with the end tag behind it, code fences around it ignored.
fn object(text: &str, inner: usize) -> Option<(String, usize)> {
    let open = inner + fence_len(&text[inner..]);
    let body = text[open..].trim_start();
    let begin = text.len() - body.len();
    if !body.starts_with('{') {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(body).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let end = begin + values.byte_offset();
    Some((text[begin..end].to_owned(), closed(text, end)?))
}

/// The same for an object whose strings hold raw line breaks or tabs, as models print them: they are escaped.
fn mended(text: &str, inner: usize) -> Option<(String, usize)> {
    let mut from = inner;
    for _ in 0..MAX_ENDS {
        let end = text[from..].find(END).map(|at| from + at)?;
        let open = inner + fence_len(&text[inner..]);
        let body = text.get(open..end)?.trim().trim_end_matches('`').trim();
        let json = escape_controls(body);
        if json.starts_with('{') && serde_json::from_str::<IgnoredAny>(&json).is_ok() {
            return Some((json, end + END.len()));
        }
        from = end + END.len();
    }
    None
}

/// The length of a code fence line at the start of a text, white space in front of it included.
fn fence_len(text: &str) -> usize {
    let body = text.trim_start();
    if !body.starts_with("```") {
        return 0;
    }
    let line = body.find('\n').unwrap_or(body.len());
    text.len() - body.len() + line
}

/// The place behind the end tag, when nothing but white space and a closing fence stands before it.
fn closed(text: &str, from: usize) -> Option<usize> {
    let rest = text[from..].trim_start();
    let rest = rest.strip_prefix("```").map_or(rest, str::trim_start);
    rest.starts_with(END).then(|| text.len() - rest.len() + END.len())
}

fn escape_controls(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        match c {
            '\n' if in_string => out.push_str("\\n"),
            '\r' if in_string => out.push_str("\\r"),
            '\t' if in_string => out.push_str("\\t"),
            c => out.push(c),
        }
        match c {
            '"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = in_string && c == '\\' && !escaped;
    }
    out
}
