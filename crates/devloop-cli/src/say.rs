//! How answers look: lines on standard output, failures on standard error, colour only where a person
//! looks. It must not know what is said.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use devloop_host::distrust;
use devloop_host::error::HostError;
use devloop_host::view::{program, quote};
use serde_json::{Value, json};

/// The codes that paint a text; no other reaches a terminal, and none anything else.
const PAINT: [&str; 3] = ["\x1b[0m", "\x1b[1m", "\x1b[2m"];

/// Prints a line. A reader that went away is no failure of ours.
pub fn line(text: impl Display) {
    let _ = writeln!(std::io::stdout().lock(), "{}", clean(&text.to_string()));
}

/// A text without what would command a terminal or turn the order of letters around: titles, notes and
/// summaries are a model's words and could hide a line or forge one.
#[must_use]
pub fn clean(text: &str) -> String {
    cleaned(text, paints())
}

fn cleaned(text: &str, paints: bool) -> String {
    let is_bad = |c: char| {
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || c.is_control() && !matches!(c, '\n' | '\t')
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let paint = PAINT.iter().find(|code| paints && rest.starts_with(**code));
        let taken = paint.map_or(c.len_utf8(), |code| code.len());
        match paint {
            Some(code) => out.push_str(code),
            None => out.push(if is_bad(c) { char::REPLACEMENT_CHARACTER } else { c }),
        }
        rest = &rest[taken..];
    }
    out
}

/// Prints without a newline and flushes: parts of a live picture.
pub fn raw(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints a remark on standard error.
pub fn note(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{}", clean(&text.to_string()));
}

/// Prints a value as JSON.
pub fn json(value: &Value) {
    line(format_args!("{value:#}"));
}

/// Whether standard output is looked at by a person.
#[must_use]
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// A text in bold on a terminal.
#[must_use]
pub fn bold(text: &str) -> String {
    painted(text, "1")
}

/// A text that steps back on a terminal.
#[must_use]
pub fn dim(text: &str) -> String {
    painted(text, "2")
}

/// Whether texts are painted: a person looks, and has not asked for plain ones.
fn paints() -> bool {
    is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

fn painted(text: &str, code: &str) -> String {
    if paints() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// A hint as a command that can be pasted: `devloop` becomes this very program.
#[must_use]
pub fn command(hint: &[String]) -> String {
    match hint.split_first() {
        Some((first, rest)) if first == "devloop" => {
            let mut argv = program();
            argv.extend(rest.iter().cloned());
            quote(&argv)
        }
        _ => quote(hint),
    }
}

/// One sentence: what is wrong, which field, which path, and the cause where the sentence does not hold it
/// already.
#[must_use]
pub fn sentence(error: &HostError) -> String {
    let mut text = error.message().to_owned();
    let mut add = |part: String, shown: &str| {
        if !text.contains(shown) {
            text.push_str(&part);
        }
    };
    if let Some(field) = error.field() {
        add(format!(" (field {field})"), field);
    }
    if let Some(path) = error.path() {
        let shown = path.display().to_string();
        add(format!(" ({shown})"), &shown);
    }
    if let Some(source) = std::error::Error::source(error) {
        let shown = source.to_string();
        add(format!(": {shown}"), &shown);
    }
    text
}

/// Why a verb could not be done, with the next command.
pub fn failure(error: &HostError, as_json: bool) {
    let distrust = distrust::of(error);
    let by_hand = distrust.as_ref().map(|told| told.by_hand.clone()).unwrap_or_default();
    if as_json {
        let next: Vec<String> = error.hints().iter().map(|hint| command(hint)).collect();
        json(&json!({ "error": {
            "kind": error.kind().key(),
            "sentence": sentence(error),
            "path": error.path().map(|path| path.to_string_lossy()),
            "field": error.field(),
            "next": next,
            "reason": distrust.as_ref().map(|told| told.reason),
            "question": distrust.as_ref().map(|told| told.question),
            "by_hand": by_hand,
        }}));
        return;
    }
    note(format_args!("devloop: {}", sentence(error)));
    if let Some(told) = distrust {
        note(format_args!("  {}: {}", told.reason, told.question));
    }
    for step in &by_hand {
        note(format_args!("  by hand: {step}"));
    }
    for hint in error.hints() {
        note(format_args!("  try: {}", command(hint)));
    }
}

/// Rows with aligned columns, two blanks between them, no trailing blanks.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let row_text = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<String>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(row_text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use devloop_host::error::ErrorKind;

    #[test]
    fn a_sentence_says_everything_once() {
        let check = |error: HostError, expect: &str| assert_eq!(sentence(&error), expect);
        check(HostError::new(ErrorKind::User, "no"), "no");
        check(
            HostError::new(ErrorKind::Config, "bad").in_field("budget").at("/x/c.json"),
            "bad (field budget) (/x/c.json)",
        );
        check(HostError::new(ErrorKind::Config, "/x/c.json is bad").at("/x/c.json"), "/x/c.json is bad");
    }

    #[test]
    fn a_models_words_command_no_terminal() {
        let check = |text: &str, expect: &str| assert_eq!(cleaned(text, true), expect, "{text:?}");
        check("a\tb\nc é", "a\tb\nc é");
        check("\x1b[1mask\x1b[0m", "\x1b[1mask\x1b[0m");
        check("x\x1b[8mhidden", "x\u{fffd}[8mhidden");
        check("\x1b]0;title\x07\r", "\u{fffd}]0;title\u{fffd}\u{fffd}");
        check("\u{202e}txt\u{9b}2J", "\u{fffd}txt\u{fffd}2J");
        assert_eq!(cleaned("\x1b[1mask", false), "\u{fffd}[1mask", "nothing is painted where nobody looks");
    }

    #[test]
    fn columns_are_aligned() {
        let row = |cells: &[&str]| cells.iter().map(|c| (*c).to_owned()).collect::<Vec<String>>();
        assert_eq!(table(&[row(&["a", "long", ""]), row(&["bcd", "x", "y"])]), ["a    long", "bcd  x     y"]);
    }
}
