//! `cargo xtask decisions`: docs/DECISIONS.md from the core: its tables, the words it puts its questions in,
//! and the comments of its enums. It owns the layout of that page; every word in it belongs to the core.

mod sample;
mod source;

use crate::tools;
use devloop_core::circuit::TABLE;
use devloop_core::hold::{Hold, HoldKind};
use devloop_core::question::{Question, question};
use devloop_core::reason::Reason;
use devloop_core::untrusted::Untrusted;
use source::Docs;

/// The page.
pub const PAGE: &str = "docs/DECISIONS.md";

/// Writes the page; with `--check` only compares.
pub fn run(args: &[String]) -> Result<(), String> {
    let check = match args {
        [] => false,
        [word] if word == "--check" => true,
        _ => return Err("usage: cargo xtask decisions [--check]".to_owned()),
    };
    let root = tools::root();
    let text = page(&|path| std::fs::read_to_string(root.join(path)).ok())?;
    let kept = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    match (kept == text, check) {
        (true, _) => Ok(()),
        (false, true) => Err(format!("{PAGE} is not what the core says: run `cargo xtask decisions`")),
        (false, false) => std::fs::write(root.join(PAGE), text).map_err(|error| format!("{PAGE}: {error}")),
    }
}

/// The whole page; `read` gives a file of the repository.
pub fn page(read: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let core = |name: &str| {
        let path = format!("crates/devloop-core/src/{name}.rs");
        read(&path).ok_or(format!("{path} cannot be read")).and_then(|text| Docs::of(&path, &text))
    };
    let (reasons, holds, circuits) = (core("reason")?, core("hold")?, core("circuit")?);
    let untrusted = core("untrusted")?;
    let mut out = String::from(HEAD);
    reasons_part(&mut out, &reasons, read)?;
    questions_part(&mut out, &holds)?;
    untrusted_part(&mut out, &untrusted)?;
    circuits_part(&mut out, &circuits)?;
    out.push_str("\n## Waits\n\nWhat the reason `wait` names.\n\n| wait | when |\n|---|---|\n");
    for (name, doc) in reasons.of_enum("WaitWhy")? {
        out.push_str(&format!("| `{}` | {} |\n", snake(name), cell(doc)));
    }
    out.push_str(REFUSALS);
    for (name, doc) in reasons.of_enum("Refusal")? {
        out.push_str(&format!("| `{}` | {} |\n", snake(name), cell(doc)));
    }
    Ok(out)
}

const HEAD: &str = "# Decisions

Generated from the core by `cargo xtask decisions`; `cargo xtask tidy` fails when it is stale. What each
decision records and asks for in every state stands in the tables under `crates/devloop-core/tests/tables`.
";

const REASONS: &str = "
## Reasons

Why a decision is what it is. The last column is what the recorded decision of `tests/traces` did.

| reason | when | says, for example | what happens, for example |
|---|---|---|---|
";

const QUESTIONS: &str = "
## Questions

Every hold, as it is put on a sample task `a` with a commit on its base. Which answers are offered depends
on the state; those that this sample cannot take are named below its table.
";

const UNTRUSTED: &str = "
## Without a state

Why nothing is decided at all. Nothing is written then and no answer is offered: what is found, with its
file, is said by whatever command is given.
";

const CARRIED_OVER: &str =
    "No decision opens it: only a state that was carried over from version 1 has it.\n\n";

const REFUSALS: &str = "
## Refusals

Why a command was not accepted. Nothing changes then.

| refusal | when |
|---|---|
";

/// Every reason: when, the sentence, and what its recorded decision did.
fn reasons_part(out: &mut String, docs: &Docs, read: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    out.push_str(REASONS);
    for key in Reason::KEYS {
        let when = reasons_doc(docs, key)?;
        let path = format!("tests/traces/{key}.json");
        let trace = read(&path).ok_or(format!("{path} cannot be read"))?;
        let trace: serde_json::Value =
            serde_json::from_str(&trace).map_err(|error| format!("{path}: {error}"))?;
        let decision = &trace["decision"];
        let reason: Reason = serde_json::from_value(decision["reason"].clone())
            .map_err(|error| format!("{path}: decision.reason: {error}"))?;
        let mut did = Vec::new();
        for (what, list) in [("records", &decision["events"]), ("asks for", &decision["effects"])] {
            let names = names(list);
            if !names.is_empty() {
                did.push(format!("{what} {}", names.join(", ")));
            }
        }
        let did = if did.is_empty() { "nothing; the tick is over".to_owned() } else { did.join("; ") };
        out.push_str(&format!("| `{key}` | {} | {} | {did} |\n", cell(&when), cell(&reason.sentence())));
    }
    Ok(())
}

/// The comment of the variant behind a key; the kinds of waits are variants of their own.
fn reasons_doc(docs: &Docs, key: &str) -> Result<String, String> {
    let named = |of: &str, key: &str| -> Result<Option<String>, String> {
        Ok(docs.of_enum(of)?.iter().find(|(name, _)| snake(name) == key).map(|(_, doc)| doc.clone()))
    };
    let wait = || named("WaitWhy", key.strip_prefix("wait_").unwrap_or(key));
    match named("Reason", key)? {
        Some(doc) => Ok(doc),
        None => wait()?.ok_or(format!("reason {key} has no variant of its name")),
    }
}

/// The names of recorded events or effects, each once.
fn names(list: &serde_json::Value) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for one in list.as_array().into_iter().flatten() {
        let name = match one {
            serde_json::Value::String(name) => Some(name),
            other => other.as_object().and_then(|object| object.keys().next()),
        };
        names.extend(name.map(|name| format!("`{name}`")).filter(|name| !names.contains(name)));
    }
    names
}

/// Every question: when, its words, its answers with what they do, and what can be done by hand.
fn questions_part(out: &mut String, docs: &Docs) -> Result<(), String> {
    out.push_str(QUESTIONS);
    for kind in HoldKind::ALL {
        let when = docs.variant("hold_kinds", &format!("{kind:?}"))?;
        let asked = sample::widest(*kind);
        out.push_str(&format!(
            "\n### `{kind}`\n\n{when} On `{}`.\n\n> {}\n\n",
            asked.key.subject, asked.text
        ));
        if kind.is_carried_over() {
            out.push_str(CARRIED_OVER);
        }
        out.push_str("| answer | what it does | pays a model | discards work |\n|---|---|---|---|\n");
        for offer in &asked.answers {
            let word = if offer.recommended { "**, first choice" } else { "" };
            let mark = if offer.recommended { "**" } else { "" };
            out.push_str(&format!(
                "| {mark}{}{word} | {} | {} | {} |\n",
                offer.answer.word(),
                cell(&offer.text),
                yes(offer.spends),
                yes(offer.discards)
            ));
        }
        let offered = |answer| asked.answers.iter().any(|offer| offer.answer == answer);
        let others: Vec<&str> =
            kind.answers().iter().filter(|answer| !offered(**answer)).map(|answer| answer.word()).collect();
        if !others.is_empty() {
            out.push_str(&format!("\nIn other states also: {}.\n", others.join(", ")));
        }
        if !asked.by_hand.is_empty() {
            out.push('\n');
            asked.by_hand.iter().for_each(|step| out.push_str(&format!("- By hand: {step}\n")));
        }
    }
    Ok(())
}

/// Why there may be no state to decide on.
fn untrusted_part(out: &mut String, docs: &Docs) -> Result<(), String> {
    out.push_str(UNTRUSTED);
    for reason in Untrusted::ALL {
        let when = docs.variant("Untrusted", &format!("{reason:?}"))?;
        let passes = if reason.passes_by_itself() { "the next tick tries again" } else { "a person" };
        let (key, question) = (reason.key(), reason.question());
        out.push_str(&format!("\n### `{key}`\n\n{when} Ended by: {passes}.\n\n> {question}\n\n"));
        for step in reason.by_hand("<folder>", "<file>") {
            out.push_str(&format!("- By hand: {step}\n"));
        }
    }
    Ok(())
}

fn circuits_part(out: &mut String, docs: &Docs) -> Result<(), String> {
    out.push_str(
        "\n## Circuits\n\n| circuit | measures | on | cleared by | opens |\n|---|---|---|---|---|\n",
    );
    for row in TABLE {
        let measures = docs.variant("Circuit", &format!("{:?}", row.circuit))?;
        let scope = docs.variant("Scope", &format!("{:?}", row.scope))?;
        let reset = docs.variant("ResetPolicy", &format!("{:?}", row.reset))?;
        let opens = row.hold.map_or("no question: work waits".to_owned(), |kind| format!("`{kind}`"));
        out.push_str(&format!(
            "| `{}` | {} | {} | {} | {opens} |\n",
            row.key,
            cell(&measures),
            cell(&scope),
            cell(&reset)
        ));
    }
    Ok(())
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// A text inside a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// `WordLikeThis` as `word_like_this`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

/// The question of a hold on a state.
fn asked(kind: HoldKind, place: &sample::Place) -> Question {
    let (state, policy, subject) = sample::state(kind, place);
    let hold: &Hold = &place.hold;
    question(&state, &policy, 1, &subject, hold)
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_become_keys() {
        assert_eq!(super::snake("NoopBackend"), "noop_backend");
        assert_eq!(super::cell("a|b\nc"), "a\\|b c");
    }

    #[test]
    fn a_page_without_its_sources_is_refused() {
        assert_eq!(
            super::page(&|_| None),
            Err("crates/devloop-core/src/reason.rs cannot be read".to_owned())
        );
    }
}
