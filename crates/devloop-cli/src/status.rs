//! `devloop status`: where everything stands, with each open question and the commands that answer it. It
//! only reads.

use clap::Args;
use devloop_host::command::Desk;
use devloop_host::error::{ErrorKind, HostError};
use devloop_host::view::{Budgets, CapView, Money, QuestionView, Sums, TaskView, View, dollars};

use crate::cli::{FINE, Form, NEEDS_A_PERSON, Outcome};
use crate::place::{self, Root};
use crate::say;

/// Says where everything stands
#[derive(Clone, Debug, Args)]
pub struct Status {
    #[command(flatten)]
    pub root: Root,
    #[command(flatten)]
    pub form: Form,
}

/// Performs the verb.
///
/// # Errors
/// When the project is unarmed, cannot be worked with, or its state is not to be trusted.
pub fn perform(verb: &Status) -> Outcome {
    let mut desk = verb.root.desk()?;
    let view = look(&mut desk)?;
    if verb.form.json {
        say::json(&value(&view)?);
    } else {
        for line in lines(&view) {
            say::line(line);
        }
        for warning in &desk.config().warnings {
            say::line(format_args!("configuration: {warning}"));
        }
    }
    Ok(code(&view))
}

/// The view of a project.
///
/// # Errors
/// When its state is not to be trusted.
pub fn look(desk: &mut Desk) -> Result<View, HostError> {
    let root = desk.armed().root().to_path_buf();
    desk.view().map_err(|error| place::about(error, &root))
}

/// The view as JSON.
///
/// # Errors
/// Internal when it is no JSON, which does not happen.
pub fn value(view: &View) -> Result<serde_json::Value, HostError> {
    serde_json::to_value(view)
        .map_err(|error| HostError::new(ErrorKind::Internal, "the view is no JSON").because(error))
}

/// The exit code that a view means.
#[must_use]
pub fn code(view: &View) -> u8 {
    let moves = view.phase == "active" && view.reason.as_deref() != Some("unarmed");
    if moves { FINE } else { NEEDS_A_PERSON }
}

/// The whole view as lines.
#[must_use]
pub fn lines(view: &View) -> Vec<String> {
    let mut out = vec![say::bold(&view.root), headline(view), view.owner.sentence.clone(), place_line(view)];
    out.extend(section("tasks", tasks(&view.tasks)));
    out.extend(section("notes", notes(&view.tasks)));
    out.extend(section("findings of the last reviews", findings(&view.tasks)));
    out.extend(section("running", running(view)));
    let mut spent = money(&view.money, &view.caps);
    spent.push(view.expected.sentence.clone());
    out.extend(section("money", spent));
    for (index, question) in view.questions.iter().enumerate() {
        let of = if view.questions.len() > 1 {
            format!(" {} of {}", index + 1, view.questions.len())
        } else {
            String::new()
        };
        out.push(String::new());
        out.push(say::bold(&format!("question{of}: {}", question.key)));
        out.extend(question_lines(question));
    }
    out
}

fn headline(view: &View) -> String {
    let word = match view.phase {
        "active" => "not halted",
        other => other,
    };
    format!("{word}: {}", view.sentence)
}

fn place_line(view: &View) -> String {
    let budgets = match view.budgets {
        Budgets::Profile => "profile budgets",
        Budgets::Default => "default budgets",
    };
    let target = view.target.as_deref().unwrap_or("not chosen yet");
    format!("revision {} ({budgets}), goal {}, target {target}", view.revision, view.goal)
}

fn section(title: &str, body: Vec<String>) -> Vec<String> {
    if body.is_empty() {
        return body;
    }
    let indented = body.into_iter().map(|line| format!("  {line}"));
    [String::new(), say::bold(title)].into_iter().chain(indented).collect()
}

/// The tasks, one line each.
#[must_use]
pub fn tasks(tasks: &[TaskView]) -> Vec<String> {
    let row = |task: &TaskView| {
        let waits = task.waits_for.as_ref().map(|what| format!("waits for {what}")).unwrap_or_default();
        vec![
            task.id.clone(),
            task.stage.to_owned(),
            format!("attempts {}", task.attempts),
            format!("reviews {}", task.reviews),
            dollars(task.spent),
            waits,
        ]
    };
    say::table(&tasks.iter().map(row).collect::<Vec<_>>())
}

/// What the next worker of a task is told, a line for each that has something.
fn notes(tasks: &[TaskView]) -> Vec<String> {
    tasks.iter().filter_map(|task| Some(format!("{}: {}", task.id, task.notes.as_ref()?))).collect()
}

/// What is still wrong with tasks that are not over, by task.
fn findings(tasks: &[TaskView]) -> Vec<String> {
    let of_task =
        |task: &TaskView| task.findings.iter().map(|line| format!("{}: {line}", task.id)).collect::<Vec<_>>();
    tasks.iter().flat_map(of_task).collect()
}

fn running(view: &View) -> Vec<String> {
    let row = |run: &devloop_host::view::Running| {
        let route = run.route.as_ref().map(|route| format!("by {route}")).unwrap_or_default();
        let ending = if run.ending { "being ended" } else { "" };
        vec![run.dispatch.clone(), run.op.to_owned(), run.subject.clone(), route, ending.to_owned()]
    };
    say::table(&view.running.iter().map(row).collect::<Vec<_>>())
}

/// Money by scope and the caps.
#[must_use]
pub fn money(money: &Money, caps: &[CapView]) -> Vec<String> {
    let row = |name: &str, sums: &Sums| {
        let amounts = [sums.measured, sums.priced, sums.assumed, sums.reserved].map(dollars);
        [name.to_owned()].into_iter().chain(amounts).collect::<Vec<String>>()
    };
    let head = ["", "measured", "priced", "assumed", "reserved"].map(str::to_owned).to_vec();
    let rows =
        [head, row("this goal", &money.goal), row("today", &money.day), row("this run", &money.session)];
    let mut out = say::table(&rows);
    let cap = |cap: &CapView| {
        vec![cap.circuit.to_owned(), format!("{} left of {}", dollars(cap.left), dollars(cap.limit))]
    };
    out.extend(say::table(&caps.iter().map(cap).collect::<Vec<_>>()));
    out
}

/// One question: text, evidence, every answer with its command, what can be done by hand.
#[must_use]
pub fn question_lines(question: &QuestionView) -> Vec<String> {
    let mut out = vec![format!("  {}", question.text)];
    if question.acknowledged {
        out.push("  (a person said that it may stay)".into());
    }
    out.extend(question.evidence.iter().flat_map(|fact| hanging("  - ", fact)));
    for offer in &question.answers {
        let marks =
            [(offer.recommended, "recommended"), (offer.spends, "spends"), (offer.discards, "discards work")];
        let marks: Vec<&str> = marks.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
        let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
        out.push(format!("  {}{marks}: {}", say::bold(offer.answer), offer.text));
        out.push(format!("      {}", offer.command));
    }
    out.extend(question.by_hand.iter().flat_map(|step| hanging("  by hand: ", step)));
    out
}

/// A text of several lines behind a mark; the lines after the first stand below its text.
fn hanging(mark: &str, text: &str) -> Vec<String> {
    let blank = " ".repeat(mark.chars().count());
    let lines = text.trim_end().lines().enumerate();
    lines
        .map(|(i, line)| format!("{}{line}", if i == 0 { mark } else { &blank }).trim_end().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::hanging;

    #[test]
    fn lines_after_the_first_stand_below_it() {
        assert_eq!(hanging("  - ", "a\n\nb\n"), ["  - a", "", "    b"]);
        assert_eq!(hanging("- ", "a"), ["- a"]);
    }
}
