//! Rust source as a flat list of tokens, so that a rule looks for words without being fooled by strings
//! and comments. It parses no grammar.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One token: its text (string literals are emptied) and its line, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// All tokens of a file, or the lexer's complaint.
pub fn all(source: &str) -> Result<Vec<Token>, String> {
    collect(source, false)
}

/// The tokens of a file without the items under `#[cfg(test)]`.
pub fn without_tests(source: &str) -> Result<Vec<Token>, String> {
    collect(source, true)
}

/// The lines on which these texts stand one after the other.
pub fn lines_of(tokens: &[Token], sequence: &[&str]) -> Vec<usize> {
    let same = |window: &[Token]| window.iter().zip(sequence).all(|(token, wanted)| token.text == *wanted);
    tokens.windows(sequence.len()).filter(|window| same(window)).map(|window| window[0].line).collect()
}

/// The lines on which a path is named, written out (`std::fs`) or inside a group (`std::{io, fs::File}`).
pub fn lines_of_path(tokens: &[Token], parent: &str, child: &str) -> Vec<usize> {
    let mut lines = lines_of(tokens, &[parent, ":", ":", child]);
    for (start, window) in tokens.windows(4).enumerate() {
        if [parent, ":", ":", "{"].iter().zip(window).all(|(wanted, token)| token.text == *wanted) {
            lines.extend(
                direct_children(&tokens[start + 4..])
                    .filter(|token| token.text == child)
                    .map(|token| token.line),
            );
        }
    }
    lines
}

/// The first segment of each entry of a use-group whose opening brace stands just before `tokens`.
fn direct_children(tokens: &[Token]) -> impl Iterator<Item = &Token> {
    let mut depth = 0_usize;
    let mut at_start = true;
    let mut closed = false;
    tokens.iter().filter(move |token| {
        if closed {
            return false;
        }
        let first = at_start && depth == 0;
        match token.text.as_str() {
            "{" => depth += 1,
            "}" if depth == 0 => closed = true,
            "}" => depth -= 1,
            _ => {}
        }
        at_start = depth == 0 && token.text == ",";
        first
    })
}

fn collect(source: &str, skip_tests: bool) -> Result<Vec<Token>, String> {
    let stream: TokenStream = source.parse().map_err(|error| format!("is not Rust: {error}"))?;
    let mut tokens = Vec::new();
    flatten(stream, skip_tests, &mut tokens);
    Ok(tokens)
}

fn flatten(stream: TokenStream, skip_tests: bool, out: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        if skip_tests && is_punct(&tree, '#') && trees.peek().is_some_and(is_cfg_test) {
            // The attribute's item ends with its braces or with a semicolon.
            for tree in trees.by_ref() {
                let braces =
                    matches!(&tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
                if braces || is_punct(&tree, ';') {
                    break;
                }
            }
            continue;
        }
        push(tree, skip_tests, out);
    }
}

fn push(tree: TokenTree, skip_tests: bool, out: &mut Vec<Token>) {
    let line = tree.span().start().line;
    match tree {
        TokenTree::Group(group) => {
            let (open, close) = match group.delimiter() {
                Delimiter::Parenthesis => ("(", ")"),
                Delimiter::Brace => ("{", "}"),
                Delimiter::Bracket => ("[", "]"),
                Delimiter::None => ("", ""),
            };
            let end = group.span_close().start().line;
            out.push(Token { text: open.to_owned(), line });
            flatten(group.stream(), skip_tests, out);
            out.push(Token { text: close.to_owned(), line: end });
        }
        TokenTree::Literal(literal) => {
            let text = literal.to_string();
            out.push(Token { text: if text.contains('"') { "\"\"".to_owned() } else { text }, line });
        }
        other => out.push(Token { text: other.to_string(), line }),
    }
}

fn is_punct(tree: &TokenTree, wanted: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

fn is_cfg_test(tree: &TokenTree) -> bool {
    let TokenTree::Group(group) = tree else { return false };
    let text: String = group.stream().to_string().chars().filter(|letter| !letter.is_whitespace()).collect();
    group.delimiter() == Delimiter::Bracket && text == "cfg(test)"
}

#[cfg(test)]
mod tests {
    use super::{all, lines_of, lines_of_path, without_tests};

    #[test]
    fn strings_and_comments_are_no_words() {
        let tokens = all("// std::fs\n/// std::fs\nfn f() { g(\"std::fs\"); }\nuse std::fs;").unwrap();
        assert_eq!(lines_of(&tokens, &["std", ":", ":", "fs"]), [4]);
    }

    #[test]
    fn paths_are_seen_in_groups_at_their_own_depth() {
        let lines = |source: &str| lines_of_path(&all(source).unwrap(), "std", "fs");
        assert_eq!(lines("use std::{io, fs};"), [1]);
        assert_eq!(lines("use std::{\n  fs::File,\n  io};"), [2]);
        assert_eq!(lines("use std::{io::{fs}, path};"), [0_usize; 0]);
        assert_eq!(lines("use rustix::fs; use std::{path}; use a::{fs};"), [0_usize; 0]);
    }

    #[test]
    fn items_for_tests_are_left_out() {
        let source =
            "#[cfg(test)]\nmod t { use std::fs; }\n#[cfg(test)]\nuse std::fs;\nfn f() {}\nuse std::fs;";
        assert_eq!(lines_of_path(&without_tests(source).unwrap(), "std", "fs"), [6]);
        assert_eq!(lines_of_path(&all(source).unwrap(), "std", "fs"), [2, 4, 6]);
        assert!(without_tests("fn f( {").is_err());
    }
}
