//! Writes the rules of the secret scan from the rules of gitleaks: those with a format of their own, which
//! hardly anything else has. It must not change a rule.

use std::path::Path;

use crate::tools::root;

/// Where the rules lie.
const OUT: &str = "crates/devloop-host/src/effects/secret_rules.tsv";

/// A rule that finds a value by the word before it. Too much of what it finds is none.
const GUESS: &str = r"[\w.-]{0,50}?";

/// Rules that are left out, and why.
const LEFT_OUT: [(&str, &str); 20] = [
    ("clickhouse-cloud-api-secret-key", "four characters before letters and digits: any digest may begin so"),
    ("curl-auth-header", "a command line with any word in a header"),
    ("curl-auth-user", "a command line with any name and password"),
    ("facebook-access-token", "digits and letters without a mark of their own"),
    ("flutterwave-encryption-key", "keys for tests, which are made to be shared"),
    ("flutterwave-public-key", "public"),
    ("flutterwave-secret-key", "keys for tests, which are made to be shared"),
    ("freemius-secret-key", "one kind of file only"),
    ("gitlab-session-cookie", "ends with the session"),
    ("hashicorp-tf-api-token", "has no beginning of its own"),
    ("jwt", "every test of a login has one, and it ends by itself"),
    ("jwt-base64", "the same once more encoded"),
    ("kubernetes-secret-yaml", "any text in a file of a kind"),
    ("nuget-config-password", "one kind of file only"),
    ("private-key", "DevLoop has its own, which also sees a key that is cut short"),
    ("sidekiq-sensitive-url", "no token"),
    ("sourcegraph-access-token", "takes every commit for one; DevLoop has its own"),
    ("square-access-token", "takes any base64 for one; DevLoop has its own"),
    ("twilio-api-key", "takes digests in capitals for one"),
    ("vault-service-token", "takes calls of methods for one; DevLoop has its own"),
];

/// The licence of the rules, which goes with every copy.
const HEAD: &str = "\
# Made by `cargo xtask secrets` from config/gitleaks.toml of https://github.com/gitleaks/gitleaks; no
# rule is changed. A line: name, least entropy in bits for each character, words one of which must be
# there, what is no secret, pattern; tabs in between.
#
# MIT License
#
# Copyright (c) 2019 Zachary Rice
#
# Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
# associated documentation files (the \"Software\"), to deal in the Software without restriction,
# including without limitation the rights to use, copy, modify, merge, publish, distribute,
# sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
# furnished to do so, subject to the following conditions:
#
# The above copyright notice and this permission notice shall be included in all copies or substantial
# portions of the Software.
#
# THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
# NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
# NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
# OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
# CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
";

/// `cargo xtask secrets <gitleaks.toml>`.
pub fn run(args: &[String]) -> Result<(), String> {
    let [file] = args else {
        return Err("usage: cargo xtask secrets <path of gitleaks.toml>".into());
    };
    let text = std::fs::read_to_string(Path::new(file)).map_err(|e| format!("{file}: {e}"))?;
    let rules = rules(&text).map_err(|why| format!("{file}: {why}"))?;
    println!("{} rules taken over", rules.len());
    std::fs::write(root().join(OUT), format!("{HEAD}{}\n", rules.join("\n"))).map_err(|e| e.to_string())
}

/// The lines of the rules that are taken over.
fn rules(text: &str) -> Result<Vec<String>, String> {
    let document: toml::Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
    let rules = document.get("rules").and_then(toml::Value::as_array).ok_or("has no rules")?;
    rules.iter().filter_map(|rule| line(rule).transpose()).collect()
}

fn line(rule: &toml::Value) -> Result<Option<String>, String> {
    let text = |key: &str| rule.get(key).and_then(toml::Value::as_str);
    let id = text("id").ok_or("a rule has no id")?;
    let Some(pattern) = text("regex") else { return Ok(None) };
    let is_left_out = LEFT_OUT.iter().any(|(name, _)| *name == id);
    if is_left_out || pattern.contains(GUESS) || text("path").is_some() {
        return Ok(None);
    }
    let words = texts(rule.get("keywords"));
    if words.is_empty() {
        return Err(format!("rule {id} has no keywords"));
    }
    let entropy = match rule.get("entropy") {
        None => 0.0,
        Some(number) => number.as_float().or(number.as_integer().map(|n| n as f64)).ok_or("an entropy")?,
    };
    let lists = rule.get("allowlists").and_then(toml::Value::as_array).into_iter().flatten();
    let none: Vec<&str> = lists.flat_map(|list| texts(list.get("regexes"))).collect();
    let fields = [id, &entropy.to_string(), &words.join(","), &none.join("|"), pattern].map(str::to_owned);
    match fields.iter().any(|field| field.contains(['\t', '\n'])) {
        true => Err(format!("rule {id} holds a tab or an end of line")),
        false => Ok(Some(fields.join("\t"))),
    }
}

fn texts(value: Option<&toml::Value>) -> Vec<&str> {
    let list = value.and_then(toml::Value::as_array).into_iter().flatten();
    list.filter_map(toml::Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn rules_with_a_format_of_their_own_are_taken_over_unchanged_and_guesses_are_not() {
        let text = r"
            [[rules]]
            id = 'some-token'
            regex = '''\b(abc_[a-z]{9})\b'''
            entropy = 3
            keywords = ['abc_']
            [[rules.allowlists]]
            regexes = ['''x$''', '''y$''']
            [[rules]]
            id = 'guess'
            regex = '''(?i)[\w.-]{0,50}?(?:adobe)(?:x)'''
            keywords = ['adobe']
            [[rules]]
            id = 'jwt'
            regex = '''ey'''
            keywords = ['ey']
            [[rules]]
            id = 'by-name'
            path = '''\.p12$'''
        ";
        let line = "some-token\t3\tabc_\tx$|y$\t\\b(abc_[a-z]{9})\\b".to_owned();
        assert_eq!(super::rules(text), Ok(vec![line]));
        let bare = "[[rules]]\nid = 'a'\nregex = 'b'";
        assert_eq!(super::rules(bare), Err("rule a has no keywords".into()));
    }
}
