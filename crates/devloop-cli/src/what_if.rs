//! `devloop replay --with`: the recorded night beside the one that would have been, as a table. It must not
//! count anything itself.

use std::path::Path;

use devloop_core::render::one_line;
use devloop_host::replay::{self, Figures, Parting, Recording, WhatIf};

use crate::cli::{FINE, Form, Outcome};
use crate::picture::count;
use crate::say;

/// Fields of the first difference that are shown; all are in the JSON.
const SHOWN_FIELDS: usize = 5;
/// Characters of each value.
const SHOWN_CHARS: usize = 60;

/// Answers for a recording under a policy file.
///
/// # Errors
/// As [`replay::what_if`].
pub fn answer(recording: Recording<'_>, policy: &Path, form: Form) -> Outcome {
    let found = replay::what_if(recording, policy)?;
    if form.json {
        say::json(&serde_json::json!(found));
    } else {
        lines(&found, policy).into_iter().for_each(say::line);
    }
    Ok(FINE)
}

fn lines(found: &WhatIf, policy: &Path) -> Vec<String> {
    let (from, to) = found.covers;
    let whole = if found.from_the_start { "from its start" } else { "its start is in no trace any more" };
    let mut out = vec![
        format!(
            "what if: goal {}, revisions {from} to {to} ({whole}), under {}",
            found.goal,
            policy.display()
        ),
        String::new(),
    ];
    out.extend(say::table(&found.table().into_iter().map(Vec::from).collect::<Vec<_>>()));
    out.push(String::new());
    match &found.parting {
        None => out.push("Nothing differs.".into()),
        Some(parting) => out.extend(parting_lines("First difference", parting)),
    }
    out.extend(stages(&found.recorded, &found.what_if));
    out.push(String::new());
    out.extend(found.notes());
    if let Some(parting) = &found.control {
        out.extend(parting_lines("  from there on the figures compare two cores too", parting));
    }
    out.push(String::new());
    out.push("The rule:".into());
    out.extend(found.rule.iter().map(|sentence| format!("  {sentence}")));
    out
}

fn parting_lines(title: &str, parting: &Parting) -> Vec<String> {
    let over = || "the night was over".to_owned();
    let said = |words: &Option<String>| words.clone().unwrap_or_else(over);
    let mut out = vec![
        format!("{title}: revision {}", parting.revision),
        format!("  recorded: {}", said(&parting.recorded)),
        format!("  what if:  {}", said(&parting.what_if)),
    ];
    // Where another thing is decided its fields say nothing; where the same is, they are the difference.
    if parting.recorded != parting.what_if {
        return out;
    }
    for field in parting.fields.iter().take(SHOWN_FIELDS) {
        let short = |text: &str| one_line(text, SHOWN_CHARS);
        out.push(format!("    {}: {} -> {}", field.path, short(&field.recorded), short(&field.what_if)));
    }
    let more = parting.fields.len().saturating_sub(SHOWN_FIELDS) + parting.more;
    if more > 0 {
        out.push(format!("    and {} (--json has them)", count(more, "more field")));
    }
    out
}

/// Tasks that end elsewhere.
fn stages(recorded: &Figures, other: &Figures) -> Vec<String> {
    let absent = || "in no plan".to_owned();
    let mut names: Vec<_> = recorded.stages.keys().chain(other.stages.keys()).collect();
    names.sort();
    names.dedup();
    let at = |figures: &Figures, id| figures.stages.get(id).cloned().unwrap_or_else(absent);
    let differ = names.into_iter().map(|id| (id, at(recorded, id), at(other, id)));
    let lines = differ.filter(|(_, a, b)| a != b).map(|(id, a, b)| format!("  task {id}: {a} -> {b}"));
    lines.collect()
}
