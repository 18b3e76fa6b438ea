//! Comments that are too wide, wrapped: rustfmt leaves comments alone. It touches no code and no fenced
//! block.

use super::sizes::LINE_CHARS_MAX;

/// The text with its over-long comment lines wrapped; what does not fit flows into the next line of the
/// comment.
pub fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut fenced = false;
    let mut at = 0;
    while at < lines.len() {
        let Some((prefix, content)) = comment(&lines[at]) else {
            fenced = false;
            at += 1;
            continue;
        };
        fenced ^= content.starts_with("```");
        let room = LINE_CHARS_MAX.saturating_sub(prefix.chars().count());
        let (prefix, cut) = (prefix.to_owned(), cut(content, room));
        if let Some((kept, rest)) = cut.filter(|_| !fenced && !content.starts_with('|')) {
            // A list item goes on below its own text.
            let prefix = if content.starts_with("- ") { format!("{prefix}  ") } else { prefix.clone() };
            let line = format!("{}{kept}", comment(&lines[at]).map_or("", |(prefix, _)| prefix));
            let flows = lines.get(at + 1).and_then(|next| comment(next)).filter(|(next, _)| *next == prefix);
            match flows.filter(|(_, next)| is_prose(next)).map(|(_, next)| format!("{prefix}{rest} {next}")) {
                Some(joined) => lines[at + 1] = joined,
                None => lines.insert(at + 1, format!("{prefix}{rest}")),
            }
            lines[at] = line;
        }
        at += 1;
    }
    let end = if text.ends_with('\n') { "\n" } else { "" };
    lines.join("\n") + end
}

/// The mark of a comment with the spaces around it, and the words.
fn comment(line: &str) -> Option<(&str, &str)> {
    let words = line.trim_start();
    let mark = ["//! ", "/// ", "// "].into_iter().find(|mark| words.starts_with(mark))?;
    let content = words[mark.len()..].trim_start();
    Some((&line[..line.len() - content.len()], content))
}

/// The last space that leaves a line of at most `room` characters, with what stands before and after it.
fn cut(content: &str, room: usize) -> Option<(String, String)> {
    if content.chars().count() <= room {
        return None;
    }
    let end = content.char_indices().nth(room + 1).map_or(content.len(), |(index, _)| index);
    let space = content[..end].rfind(' ').filter(|space| !content[..*space].trim().is_empty())?;
    Some((content[..space].trim_end().to_owned(), content[space + 1..].to_owned()))
}

/// Whether words may be put before this line: not a list, a heading, a table or a fence.
fn is_prose(content: &str) -> bool {
    let starts = content.chars().next().is_some_and(|first| first.is_alphabetic() || "`([".contains(first));
    starts && !content.starts_with("```")
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    fn words(count: usize) -> String {
        vec!["word"; count].join(" ")
    }

    #[test]
    fn long_comments_flow_into_the_next_line() {
        let text = format!("//! {}\n//! end of it.\nfn a() {{}}\n", words(22));
        let expected = format!("//! {}\n//! word end of it.\nfn a() {{}}\n", words(21));
        assert_eq!(wrapped(&text), expected);
        assert_eq!(wrapped(&expected), expected);
    }

    #[test]
    fn lists_blank_lines_and_code_are_kept_apart() {
        let text = format!(
            "    /// {}\n    ///\n    /// - {}\n    /// - b\nlet x = \"{}\";",
            words(22),
            words(22),
            words(30)
        );
        let wide = format!("let x = \"{}\";", words(30));
        let wrapped_text = "    /// {0}\n    /// word word\n".replace("{0}", &words(20));
        let wrapped_item = "    /// - {0}\n    ///   word word\n".replace("{0}", &words(20));
        let expected = format!("{wrapped_text}    ///\n{wrapped_item}    /// - b\n{wide}");
        assert_eq!(wrapped(&text), expected);
    }

    #[test]
    fn fences_tables_and_long_words_stay() {
        let long = "x".repeat(130);
        let text = format!("/// ```\n/// {}\n/// ```\n/// | {} |\n// {long}\n", words(30), words(30));
        assert_eq!(wrapped(&text), text);
    }
}
