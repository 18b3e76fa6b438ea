//! `devloop replay --with`: the recorded night beside the one that would have been, as a table. It must not
//! count anything itself.

use std::path::Path;

use devloop_core::render::{one_line, usd};
use devloop_core::units::{DAY_MS, UsdMicros};
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
    out.extend(say::table(&table(&found.recorded, &found.what_if)));
    out.push(String::new());
    match &found.parting {
        None => out.push("Nothing differs.".into()),
        Some(parting) => out.extend(parting_lines("First difference", parting)),
    }
    out.extend(stages(&found.recorded, &found.what_if));
    out.push(String::new());
    let drawn = &found.drawn;
    out.push(format!(
        "drawn: {} as recorded, {} from a median, {} unknown",
        drawn.own,
        drawn.peers,
        drawn.unknown.len()
    ));
    out.extend(drawn.unknown.iter().map(|unknown| format!("  {unknown}")));
    out.extend(found.unfit.iter().map(|unfit| format!("  not accepted here: {unfit}")));
    out.extend(found.remarks.iter().map(|remark| format!("remark: {remark}")));
    match &found.control {
        None => {
            out.push("control: under the recorded policy the recorded night comes out, line by line".into())
        }
        Some(parting) => {
            out.push(
                "control: under the recorded policy this core decides otherwise than was recorded".into(),
            );
            out.extend(parting_lines("  from there on the figures compare two cores too", parting));
        }
    }
    if found.cut {
        out.push("It came to no end within its bound of steps; the figures are those until then.".into());
    }
    out.push(String::new());
    out.push("The rule:".into());
    out.extend(found.rule.iter().map(|sentence| format!("  {sentence}")));
    out
}

/// A figure with its name.
type Row = (&'static str, fn(&Figures) -> String);

fn table(recorded: &Figures, other: &Figures) -> Vec<Vec<String>> {
    let rows: [Row; 12] = [
        ("plans", |f| f.plans.to_string()),
        ("attempts", |f| f.attempts.to_string()),
        ("reviews", |f| f.reviews.to_string()),
        ("merged tasks", |f| format!("{} of {}", f.merged, f.tasks)),
        ("money measured", |f| usd(f.measured_usd_micros)),
        ("money priced", |f| usd(f.priced_usd_micros)),
        ("money assumed", |f| usd(f.assumed_usd_micros)),
        ("money reserved", |f| usd(f.reserved_usd_micros)),
        ("wall time", |f| duration(f.wall_ms)),
        ("questions asked", |f| f.questions.to_string()),
        ("open at the end", |f| if f.open.is_empty() { "none".into() } else { f.open.join(", ") }),
        ("at the end", |f| f.ended.clone()),
    ];
    let quiet = |f: &Figures, name: &str| match name {
        "money priced" => f.priced_usd_micros == UsdMicros(0),
        "money reserved" => f.reserved_usd_micros == UsdMicros(0),
        _ => false,
    };
    let head = vec![String::new(), "recorded".into(), "what if".into()];
    let shown = rows.iter().filter(|(name, _)| !(quiet(recorded, name) && quiet(other, name)));
    let row = |(name, figure): &Row| vec![(*name).to_owned(), figure(recorded), figure(other)];
    std::iter::once(head).chain(shown.map(row)).collect()
}

/// A duration with its two largest units.
fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (days, hours, minutes) = (ms / DAY_MS, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{}.{:01} s", seconds, ms / 100 % 10),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
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

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_their_two_largest_units() {
        let check = |ms: u64, expect: &str| assert_eq!(duration(ms), expect);
        check(0, "0.0 s");
        check(59_940, "59.9 s");
        check(60_000, "1 min 0 s");
        check(3_600_000, "1 h 0 min");
        check(90_000_000, "1 d 1 h");
    }
}
