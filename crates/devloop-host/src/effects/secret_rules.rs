//! The rules of the secret scan and their matcher: names of formats in, places of secrets out. Which files
//! are looked at, and what is done about it, is not its matter. docs/adr/0012-secrets.md says why these
//! rules.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};

/// Rules of gitleaks; `cargo xtask secrets` writes them.
const RULES: &str = include_str!("secret_rules.tsv");

/// Formats that those rules leave out or know only a part of, in the same form.
const OWN: &str = r"
anthropic-token	3	sk-ant-		\b(sk-ant-[A-Za-z0-9_-]{24,})
deepseek-api-key	3	sk-		\b(sk-[a-f0-9]{32})\b
hashicorp-vault-token	3.5	hvs.		\b(hvs\.[\w-]{90,120})\b
sourcegraph-token	3	sgp_		\b(sgp_(?:[a-fA-F0-9]{16}_|local_)?[a-fA-F0-9]{40})\b
square-token	2	sq0atp-		\b(sq0atp-[\w-]{22,60})\b";

/// One format.
struct Rule {
    name: &'static str,
    /// Bits of entropy for each character; a placeholder has less.
    entropy: f64,
    words: Vec<&'static str>,
    /// Samples from somebody's manual.
    known: &'static str,
    pattern: &'static str,
    /// Compiled when one of its words was first seen; none when it is no pattern, which a test excludes.
    compiled: OnceLock<Option<(Regex, Option<Regex>)>>,
}

impl Rule {
    /// A line of the table; none for a comment.
    fn of(line: &'static str) -> Option<Rule> {
        let mut fields = line.split('\t');
        let (name, entropy) = (fields.next()?, fields.next()?.parse().ok()?);
        let words = fields.next()?.split(',').collect();
        let (known, pattern) = (fields.next()?, fields.next()?);
        Some(Rule { name, entropy, words, known, pattern, compiled: OnceLock::new() })
    }

    fn compiled(&self) -> Option<&(Regex, Option<Regex>)> {
        // Bytes, not characters: a secret is ASCII, and a file may be anything.
        let compile = |text: &str| RegexBuilder::new(text).unicode(false).build().ok();
        let both = || {
            let known = (!self.known.is_empty()).then(|| compile(self.known));
            Some((compile(self.pattern)?, known.flatten()))
        };
        self.compiled.get_or_init(both).as_ref()
    }

    fn find(&self, bytes: &[u8], found: &mut Vec<(&'static str, Range<usize>)>) {
        let Some((pattern, known)) = self.compiled() else { return };
        for captures in pattern.captures_iter(bytes) {
            let Some(secret) = captures.get(1).or_else(|| captures.get(0)) else { continue };
            let text = secret.as_bytes();
            if entropy(text) >= self.entropy && !known.as_ref().is_some_and(|known| known.is_match(text)) {
                found.push((self.name, secret.range()));
            }
        }
    }
}

struct Rules {
    all: Vec<Rule>,
    /// Finds the words of all rules at once.
    words: Option<AhoCorasick>,
    /// For each word, the rule that it belongs to.
    owners: Vec<usize>,
}

static KNOWN: LazyLock<Rules> = LazyLock::new(|| {
    let all: Vec<Rule> = RULES.lines().chain(OWN.lines()).filter_map(Rule::of).collect();
    let words = all.iter().enumerate().flat_map(|(at, rule)| rule.words.iter().map(move |word| (at, word)));
    let (owners, words): (Vec<usize>, Vec<&str>) = words.unzip();
    Rules { words: AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok(), owners, all }
});

/// Every secret in a text: the name of its format, and where it stands.
pub(super) fn find(bytes: &[u8]) -> Vec<(&'static str, Range<usize>)> {
    let known = &*KNOWN;
    let Some(words) = &known.words else { return Vec::new() };
    let mut is_asked = vec![false; known.all.len()];
    for word in words.find_overlapping_iter(bytes) {
        is_asked[known.owners[word.pattern().as_usize()]] = true;
    }
    let mut found = Vec::new();
    for (rule, _) in known.all.iter().zip(is_asked).filter(|(_, is_asked)| *is_asked) {
        rule.find(bytes, &mut found);
    }
    found
}

/// Shannon's, in bits for each byte.
fn entropy(text: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for byte in text {
        counts[usize::from(*byte)] += 1;
    }
    let share = |count: &u32| f64::from(*count) / text.len() as f64;
    counts.iter().filter(|count| **count > 0).map(share).map(|p| -p * p.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::string::bytes_regex;
    use proptest::test_runner::TestRunner;

    fn names(text: &[u8]) -> Vec<&'static str> {
        find(text).into_iter().map(|(name, _)| name).collect()
    }

    /// Rule by rule: secrets made from its pattern are found between quotes, in the middle of a text.
    #[test]
    fn every_rule_compiles_and_finds_what_its_pattern_makes() {
        let mut runner = TestRunner::deterministic();
        let mut made = 0;
        for rule in &KNOWN.all {
            assert!(rule.compiled().is_some(), "{}", rule.name);
            // What stands around a secret cannot be made, and quotes stand there.
            let edges = [r"\b", r#"(?:[\x60'"\s;]|\\[nr]|$)"#, r"(?:[^\w-]|\z)", r"(?:[^a-zA-Z0-9+/]|\z)"];
            let bare = edges.iter().fold(rule.pattern.to_owned(), |text, edge| text.replace(edge, ""));
            let Ok(samples) = bytes_regex(&format!("(?-u){bare}")) else { continue };
            made += 1;
            for _ in 0..20 {
                let sample = samples.new_tree(&mut runner).unwrap().current();
                // A pattern may want the edge of a word, and a placeholder is none.
                let has_edge = sample.last().is_some_and(u8::is_ascii_alphanumeric);
                if !has_edge || entropy(&sample) < rule.entropy + 0.3 {
                    continue;
                }
                let word = rule.words[0].as_bytes();
                let text = [b"# ", word, b"\nkey: \"", &sample[..], b"\"\nb\xff = 2\n"].concat();
                let all = names(&text);
                assert!(all.contains(&rule.name), "{}: {all:?}", rule.name);
            }
        }
        assert!(made > 100 && KNOWN.all.len() <= made + 5, "{made} of {}", KNOWN.all.len());
    }

    #[test]
    fn a_format_is_told_from_what_only_looks_like_it() {
        let check = |text: &str, expect: &[&str]| assert_eq!(names(text.as_bytes()), expect, "{text}");
        let made = |prefix: &str, body: &str| format!("token = \"{prefix}{body}\"");
        let mixed = "aB3dE5fG7hJ9kL1mN0pQ2rS4tU6vW8xY0zA1";
        check(&made("ghp_", mixed), &["github-pat"]);
        check(&made("GHP_", mixed), &[]);
        check(&made("ghp_", &"x".repeat(36)), &[]);
        check(&made("AKIA", "IOSFODNN7EXAMPLE"), &[]);
        check(&made("AKIA", "Q3EGRZ7PMW5TKDNB"), &["aws-access-token"]);
        check(&made("sk-", "0123456789abcdef0123456789abcdef"), &["deepseek-api-key"]);
        check(&made("task-", "0123456789abcdef0123456789abcdef"), &[]);
        check(&made("sk-ant-oat01-", mixed), &["anthropic-token"]);
        check("the keyword ghp_ alone, sk_live, AKIA, xoxb- and a commit 4b1d", &[]);
    }

    #[test]
    fn the_sources_of_this_crate_hold_no_secret() {
        let mut open = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
        let mut seen = 0;
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|end| end == "rs") {
                seen += 1;
                assert_eq!(names(&std::fs::read(&path).unwrap()), [""; 0], "{}", path.display());
            }
        }
        assert!(seen > 100, "{seen}");
    }
}
