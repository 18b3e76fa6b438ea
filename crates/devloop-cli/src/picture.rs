//! How a running loop looks: plain lines for what happened, and below them, on a terminal, a few lines that
//! are drawn anew at every beat. It reads reports and views, nothing else.

use std::collections::{BTreeMap, BTreeSet};

use devloop_core::units::WallMs;
use devloop_host::clock::{Clock, SystemClock};
use devloop_host::supervisor::TickReport;
use devloop_host::view::{QuestionView, Running, TaskView, View, dollars, utc};

use crate::{say, status};

/// Lines longer than this are cut in the part that is drawn anew; a wrapped line could not be taken back.
const WIDTH: usize = 79;
/// What stands below a line that begins with the time.
const BELOW: &str = "                    ";
/// The operations that are told when they start.
const TOLD_WHEN_STARTED: [&str; 4] = ["plan", "work", "review", "revert"];
/// Tasks shown in that part.
const MAX_TASKS: usize = 12;

/// What was shown so far.
#[derive(Debug, Default)]
pub struct Picture {
    drawn: usize,
    stages: BTreeMap<String, &'static str>,
    running: BTreeSet<String>,
    asked: BTreeSet<(String, u64)>,
    last: String,
}

impl Picture {
    /// Nothing was shown.
    pub fn new() -> Picture {
        Picture::default()
    }

    /// Shows a beat: what changed as lines, then where everything stands.
    pub fn show(&mut self, report: &TickReport, view: &View) {
        let lines = self.news(report, view);
        self.clear();
        for line in lines {
            say::line(line);
        }
        if say::is_terminal() {
            self.draw(view);
        }
    }

    /// Takes the drawn part back.
    pub fn clear(&mut self) {
        if self.drawn > 0 {
            say::raw(&format!("\x1b[{}A\x1b[J", self.drawn));
            self.drawn = 0;
        }
    }

    fn news(&mut self, report: &TickReport, view: &View) -> Vec<String> {
        let mut told = self.tasks_and_runs(view);
        for notice in &report.notices {
            // What the notice of a question says is shown with the question.
            if !view.questions.iter().any(|question| notice.contains(&question.key)) {
                told.push(format!("note      {notice}"));
            }
        }
        if report.sentence != self.last && !report.reason.starts_with("wait_lease") {
            told.push(report.sentence.clone());
        }
        self.last.clone_from(&report.sentence);
        let mut lines: Vec<String> =
            told.into_iter().map(|text| format!("{}  {text}", say::dim(&now()))).collect();
        for question in &view.questions {
            if self.asked.insert((question.key.clone(), question.revision)) && !question.acknowledged {
                lines.extend(asked(question));
            }
        }
        lines
    }

    fn tasks_and_runs(&mut self, view: &View) -> Vec<String> {
        let mut told = Vec::new();
        if self.stages.is_empty() && !view.tasks.is_empty() {
            told.push(format!("planned   {}", count(view.tasks.len(), "task")));
        }
        for task in &view.tasks {
            let before = self.stages.insert(task.id.clone(), task.stage);
            if before != Some(task.stage) {
                told.extend(landmark(task, before));
            }
        }
        for run in view.running.iter().filter(|run| TOLD_WHEN_STARTED.contains(&run.op)) {
            if !self.running.contains(&run.dispatch) {
                told.push(started(run, view));
                told.extend(to_mend(run, view));
            }
        }
        self.running = view.running.iter().map(|run| run.dispatch.clone()).collect();
        told
    }

    fn draw(&mut self, view: &View) {
        let mut lines = vec!["─".repeat(40), format!("{} Revision {}.", view.sentence, view.revision)];
        lines.extend(status::tasks(&view.tasks[..view.tasks.len().min(MAX_TASKS)]));
        if view.tasks.len() > MAX_TASKS {
            lines.push(format!("and {} more", view.tasks.len() - MAX_TASKS));
        }
        let day = view.money.day;
        let spent = day.measured.saturating_add(day.priced).saturating_add(day.assumed);
        lines.push(format!(
            "today {} spent, {} set aside; Ctrl-C ends the loop",
            dollars(spent),
            dollars(day.reserved)
        ));
        self.drawn = lines.len();
        // A line break in a title would make the picture taller than what is taken back.
        let flat = |line: &String| say::clean(&line.replace(['\n', '\t'], " "));
        let cut = lines.iter().map(|line| flat(line).chars().take(WIDTH).collect::<String>());
        say::raw(&cut.map(|line| say::dim(&line) + "\n").collect::<String>());
    }
}

/// `12:03:04`, UTC as everywhere.
fn now() -> String {
    let WallMs(ms) = SystemClock::new().wall();
    utc(ms).get(11..19).unwrap_or_default().to_owned()
}

/// A question with its first choice; `status` shows the rest.
fn asked(question: &QuestionView) -> Vec<String> {
    let mut lines =
        vec![format!("{}  {}", say::dim(&now()), say::bold(&format!("asks      {}", question.key)))];
    lines.push(format!("{BELOW}{}", question.text));
    let first = question.answers.iter().find(|offer| offer.recommended).or(question.answers.first());
    if let Some(offer) = first {
        lines.push(format!("{BELOW}{}: {}", say::bold(offer.answer), offer.text));
        lines.push(format!("{BELOW}    {}", offer.command));
    }
    let others: Vec<&str> = question.answers.iter().map(|offer| offer.answer).collect();
    lines.push(format!("{BELOW}`status` shows the evidence and every answer: {}", others.join(", ")));
    lines
}

fn started(run: &Running, view: &View) -> String {
    let subject = run.subject.strip_prefix("task/").unwrap_or(&run.subject);
    let title = if run.op == "plan" { "the goal" } else { subject };
    let route = run.route.as_ref().map(|route| format!("by {route}, ")).unwrap_or_default();
    let task = view.tasks.iter().find(|task| task.id == subject);
    let nth = match (run.op, task) {
        ("work", Some(task)) if task.attempts > 1 => format!(", attempt {}", task.attempts),
        ("review", Some(task)) if task.reviews > 1 => format!(", review {}", task.reviews),
        _ => String::new(),
    };
    let op = if run.op == "work" && !nth.is_empty() { "rework" } else { run.op };
    format!("{op:<8}  {title} ({route}{}{nth})", run.dispatch)
}

/// What a rework is to mend, as its reviewer named it.
fn to_mend(run: &Running, view: &View) -> Vec<String> {
    let of_run = |task: &&TaskView| run.op == "work" && run.subject == format!("task/{}", task.id);
    let task = view.tasks.iter().find(of_run);
    task.into_iter().flat_map(|task| &task.findings).map(|line| format!("finding   {line}")).collect()
}

/// The line for a stage that is told; the others show in what was started.
fn landmark(task: &TaskView, before: Option<&'static str>) -> Option<String> {
    let id = &task.id;
    match (task.stage, before) {
        (_, None) => Some(format!("task      {id}: {}", task.title)),
        ("merge ready", _) => Some(format!("passed    {id}: the review names this very commit")),
        ("held" | "merged" | "accepted" | "merged elsewhere" | "dropped" | "replaced", _) => {
            Some(format!("{:<8}  {id} ({} spent)", task.stage, dollars(task.spent)))
        }
        _ => None,
    }
}

/// `3 tasks`, `1 task`.
#[must_use]
pub fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
