//! How a running loop looks: plain lines for what happened, and below them, on a terminal, a few lines that are drawn
//! anew at every beat. It reads reports and views, nothing else.

use std::collections::{BTreeMap, BTreeSet};

use devloop_core::units::WallMs;
use devloop_host::clock::{Clock, SystemClock};
use devloop_host::supervisor::TickReport;
use devloop_host::view::{Running, TaskView, View, dollars, utc};

use crate::{say, status};

/// Lines longer than this are cut in the part that is drawn anew; a wrapped line could not be taken back.
const WIDTH: usize = 79;
/// Tasks shown in that part.
const MAX_TASKS: usize = 12;

/// What was shown so far.
#[derive(Debug, Default)]
pub struct Picture {
    drawn: usize,
    stages: BTreeMap<String, &'static str>,
    running: BTreeMap<String, String>,
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
        let mut lines = Vec::new();
        let mut tell = |text: String| lines.push(format!("{}  {text}", say::dim(&now())));
        for run in ended(&self.running, &view.running) {
            tell(format!("ended    {run}"));
        }
        if self.stages.is_empty() && !view.tasks.is_empty() {
            tell(format!("planned  {}", count(view.tasks.len(), "task")));
        }
        for task in &view.tasks {
            let before = self.stages.insert(task.id.clone(), task.stage);
            if before != Some(task.stage) && is_landmark(task, before) {
                tell(landmark(task, before));
            }
        }
        for run in &view.running {
            let text = running(run);
            if self.running.get(&run.dispatch) != Some(&text) {
                tell(format!("started  {text}"));
            }
        }
        self.running = view.running.iter().map(|run| (run.dispatch.clone(), running(run))).collect();
        for notice in &report.notices {
            // A question is shown whole below.
            if !view.questions.iter().any(|question| notice.contains(&question.text)) {
                tell(format!("note     {notice}"));
            }
        }
        if report.sentence != self.last && !report.reason.starts_with("wait_lease") {
            tell(report.sentence.clone());
        }
        self.last.clone_from(&report.sentence);
        for question in &view.questions {
            if self.asked.insert((question.key.clone(), question.revision)) && !question.acknowledged {
                lines.push(format!("{}  {}", say::dim(&now()), say::bold(&format!("asks     {}", question.key))));
                lines.extend(status::question_lines(question).into_iter().map(|line| format!("        {line}")));
            }
        }
        lines
    }

    fn draw(&mut self, view: &View) {
        let mut lines = vec!["─".repeat(40), format!("{} Revision {}.", view.sentence, view.revision)];
        lines.extend(status::tasks(&view.tasks[..view.tasks.len().min(MAX_TASKS)]));
        if view.tasks.len() > MAX_TASKS {
            lines.push(format!("and {} more", view.tasks.len() - MAX_TASKS));
        }
        let day = view.money.day;
        let spent = day.measured.saturating_add(day.priced).saturating_add(day.assumed);
        lines.push(format!("today {} spent, {} set aside; Ctrl-C ends the loop", dollars(spent), dollars(day.reserved)));
        self.drawn = lines.len();
        let cut = lines.iter().map(|line| line.chars().take(WIDTH).collect::<String>());
        say::raw(&cut.map(|line| say::dim(&line) + "\n").collect::<String>());
    }
}

/// `12:03:04`, UTC as everywhere.
fn now() -> String {
    let WallMs(ms) = SystemClock::new().wall();
    utc(ms).get(11..19).unwrap_or_default().to_owned()
}

fn running(run: &Running) -> String {
    let route = run.route.as_ref().map(|route| format!(" by {route}")).unwrap_or_default();
    let ending = if run.ending { ", being ended" } else { "" };
    format!("{} of {}{route} ({}{ending})", run.op, run.subject, run.dispatch)
}

fn ended(before: &BTreeMap<String, String>, now: &[Running]) -> Vec<String> {
    let gone = before.iter().filter(|(dispatch, _)| !now.iter().any(|run| run.dispatch == **dispatch));
    gone.map(|(_, text)| text.clone()).collect()
}

/// Stages that are told; the others show in what started and ended.
fn is_landmark(task: &TaskView, before: Option<&'static str>) -> bool {
    let told = ["rework", "held", "merged", "accepted", "merged elsewhere", "dropped", "replaced", "merge ready"];
    told.contains(&task.stage) || (before.is_none() && task.stage == "ready")
}

fn landmark(task: &TaskView, before: Option<&'static str>) -> String {
    let id = &task.id;
    match (task.stage, before) {
        ("ready", None) => format!("task     {id}: {}", task.title),
        ("merge ready", _) => format!("passed   {id}: its review names this very commit"),
        ("rework", _) => format!("rework   {id} (attempts so far: {})", task.attempts),
        (stage, _) => format!("{stage:<8} {id} ({} spent)", dollars(task.spent)),
    }
}

/// `3 tasks`, `1 task`.
#[must_use]
pub fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
