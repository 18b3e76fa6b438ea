//! What surfaces show: one document for the command line, the page and scripts. It reads the state and
//! changes nothing.

use std::path::Path;

use devloop_core::circuit::{Cap, loop_caps};
use devloop_core::cost::Forecast;
use devloop_core::hold::Subject;
use devloop_core::ledger::Spend;
use devloop_core::observation::{Checkout, Observation};
use devloop_core::obstacle::Obstacle;
use devloop_core::policy::Policy;
use devloop_core::question::{Question, open_questions};
use devloop_core::render::{one_line, stage_word, usd};
use devloop_core::state::{LoopState, Phase};
use devloop_core::task::{ResumeTo, Stage, Task};
use devloop_core::wait::obstacles;
use serde::Serialize;

use crate::cost::ExpectedView;
use crate::store::OwnerRecord;

/// The longest notes that are shown of a task, in characters.
const NOTES_MAX_CHARS: usize = 240;
/// Characters of a finding that a surface shows.
const FINDING_CHARS: usize = 160;

/// Where the limits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Budgets {
    /// From the configuration of the profile or the project.
    Profile,
    /// The defaults.
    Default,
}

/// Everything a surface shows of one project.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// The project's root.
    pub root: String,
    /// The state's revision.
    pub revision: u64,
    /// Where the limits come from.
    pub budgets: Budgets,
    /// Whether a loop runs.
    pub owner: OwnerView,
    /// `active`, `paused` or `complete`; `halted` when only a person can move an active loop.
    pub phase: &'static str,
    /// The goal's number.
    pub goal: u32,
    /// The branch merges go to.
    pub target: Option<String>,
    /// The key of what the loop answers now.
    pub reason: Option<String>,
    /// The same as a sentence.
    pub sentence: String,
    /// The tasks in plan order.
    pub tasks: Vec<TaskView>,
    /// Running operations.
    pub running: Vec<Running>,
    /// Money by scope, in millionths of a US dollar.
    pub money: Money,
    /// The caps.
    pub caps: Vec<CapView>,
    /// What the runs still to come will probably cost.
    pub expected: ExpectedView,
    /// Open questions, acknowledged ones last.
    pub questions: Vec<QuestionView>,
}

/// The loop that holds or last held the project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnerView {
    /// `runs`, `ended`, `died`, `never`, or `unknown` when it is on another machine.
    pub key: &'static str,
    /// Its process, if there ever was one.
    pub pid: Option<u32>,
    /// The same as a sentence.
    pub sentence: String,
}

impl OwnerView {
    /// A loop that runs in this process.
    #[must_use]
    pub fn runs(pid: u32) -> OwnerView {
        OwnerView { key: "runs", pid: Some(pid), sentence: format!("Process {pid} runs the loop.") }
    }

    /// What the record of the owner says.
    #[must_use]
    pub fn of(record: Option<&OwnerRecord>) -> OwnerView {
        let Some(owner) = record else {
            return OwnerView { key: "never", pid: None, sentence: "No loop ever ran here.".into() };
        };
        let (pid, host) = (owner.pid, &owner.host);
        let (key, sentence) = match (owner.released, owner.identity().is_alive()) {
            (true, _) => ("ended", format!("No loop runs: the last one (process {pid}) ended in order.")),
            (false, Some(true)) => return OwnerView::runs(pid),
            (false, Some(false)) => (
                "died",
                format!("No loop runs: the last one (process {pid}) died; the next settles its work."),
            ),
            (false, None) => {
                let place = format!("Process {pid} on the machine {host}, or in a container of it,");
                ("unknown", format!("{place} runs the loop, or died there."))
            }
        };
        OwnerView { key, pid: Some(pid), sentence }
    }
}

/// One task.
#[derive(Clone, Debug, Serialize)]
pub struct TaskView {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its stage as one word.
    pub stage: &'static str,
    /// What keeps it from moving, if anything.
    pub waits_for: Option<String>,
    /// What whoever works on it next is told, on one line.
    pub notes: Option<String>,
    /// Attempts so far.
    pub attempts: u32,
    /// Reviews so far.
    pub reviews: u32,
    /// What the last review found, one line each.
    pub findings: Vec<String>,
    /// Spent and set aside, in millionths of a US dollar.
    pub spent: u64,
}

/// A running operation.
#[derive(Clone, Debug, Serialize)]
pub struct Running {
    /// Its dispatch.
    pub dispatch: String,
    /// What.
    pub op: &'static str,
    /// On what.
    pub subject: String,
    /// By which route.
    pub route: Option<String>,
    /// Whether it is being ended.
    pub ending: bool,
}

/// Sums in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sums {
    /// Reported money.
    pub measured: u64,
    /// Tokens times price.
    pub priced: u64,
    /// Kept for silent dispatches.
    pub assumed: u64,
    /// Set aside for running dispatches.
    pub reserved: u64,
}

/// Money by scope.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Money {
    /// This goal.
    pub goal: Sums,
    /// This UTC day.
    pub day: Sums,
    /// Since the loop started.
    pub session: Sums,
}

/// A cap as it stands.
#[derive(Clone, Debug, Serialize)]
pub struct CapView {
    /// The circuit's key.
    pub circuit: &'static str,
    /// The limit with its grants, in millionths of a US dollar.
    pub limit: u64,
    /// What is left.
    pub left: u64,
}

/// An open question with answers that can be pasted.
#[derive(Clone, Debug, Serialize)]
pub struct QuestionView {
    /// Its name.
    pub key: String,
    /// The revision at which it opened.
    pub revision: u64,
    /// The question.
    pub text: String,
    /// What speaks for it.
    pub evidence: Vec<String>,
    /// The answers.
    pub answers: Vec<OfferView>,
    /// What can be done outside the loop.
    pub by_hand: Vec<String>,
    /// Whether a person said that it may stay.
    pub acknowledged: bool,
}

/// One answer.
#[derive(Clone, Debug, Serialize)]
pub struct OfferView {
    /// The word.
    pub answer: &'static str,
    /// What it does.
    pub text: String,
    /// Whether a model is paid again.
    pub spends: bool,
    /// Whether work is thrown away.
    pub discards: bool,
    /// The first choice.
    pub recommended: bool,
    /// The command that gives it, absolute and quoted for a POSIX shell.
    pub command: String,
}

/// What a view is made from.
#[derive(Debug)]
pub struct Source<'a> {
    /// The project's root.
    pub root: &'a Path,
    /// The state.
    pub state: &'a LoopState,
    /// The policy.
    pub policy: &'a Policy,
    /// The last look at the world, if there was one.
    pub seen: Option<&'a Observation>,
    /// The supervisor whose session money is shown.
    pub instance: u64,
    /// Key and sentence of the last reason.
    pub last: Option<(&'a str, &'a str)>,
    /// Where the limits come from.
    pub budgets: Budgets,
    /// The loop that holds or last held the project.
    pub owner: OwnerView,
    /// What measured runs let expect of the next ones.
    pub history: &'a [Forecast],
}

/// Makes the view.
#[must_use]
pub fn make(source: &Source<'_>) -> View {
    let state = source.state;
    let keeps = source.seen.map(|seen| obstacles(state, source.policy, seen)).unwrap_or_default();
    let questions = open_questions(state, source.policy, source.instance);
    View {
        root: source.root.to_string_lossy().into_owned(),
        revision: state.revision,
        budgets: source.budgets,
        owner: source.owner.clone(),
        phase: phase(state, source.last),
        goal: state.goal.number,
        target: state.target.branch.as_ref().map(ToString::to_string),
        reason: source.last.map(|(key, _)| key.to_string()),
        sentence: sentence(source.last, &keeps),
        tasks: state.tasks.iter().map(|task| task_view(source, task, &keeps)).collect(),
        running: running(state),
        money: Money {
            goal: sums(&state.ledger.goal(state.goal.number)),
            day: sums(&state.ledger.day(state.clock.day)),
            session: sums(&state.ledger.session(source.instance)),
        },
        caps: loop_caps(state, &source.policy.limits, source.instance).iter().map(cap_view).collect(),
        expected: ExpectedView::of(state, source.policy, source.history),
        questions: questions.iter().map(|question| question_view(source.root, question)).collect(),
    }
}

/// The sentence of the reason; no task says yet what planning waits for.
fn sentence(last: Option<(&str, &str)>, keeps: &[(Subject, Obstacle)]) -> String {
    let Some((key, said)) = last else { return String::new() };
    let planning = keeps.iter().find(|(subject, _)| *subject == Subject::Planning);
    match planning.filter(|(_, what)| !matches!(what, Obstacle::Noop { .. } | Obstacle::Hold(_))) {
        Some((_, what)) if key.starts_with("wait_") => {
            format!("{said} Planning waits for {}.", obstacle_sentence(what))
        }
        _ => said.to_owned(),
    }
}

fn phase(state: &LoopState, last: Option<(&str, &str)>) -> &'static str {
    match &state.phase {
        Phase::Paused { .. } => "paused",
        Phase::Complete { .. } => "complete",
        // A view made without the loop looks one beat ahead; it is halted only when its question is there to
        // be read.
        Phase::Active if last.is_some_and(|(key, _)| key == "halted") && !state.open_holds().is_empty() => {
            "halted"
        }
        Phase::Active => "active",
    }
}

fn task_view(source: &Source<'_>, task: &Task, keeps: &[(Subject, Obstacle)]) -> TaskView {
    let state = source.state;
    let subject = Subject::Task(task.id.clone());
    let obstacle = keeps.iter().find(|(kept, _)| *kept == subject).map(|(_, obstacle)| obstacle);
    let booked = state.ledger.entries.values().filter(|e| e.lineage.as_ref() == Some(&task.lineage));
    TaskView {
        id: task.id.to_string(),
        title: task.title.clone(),
        stage: stage_word(&task.stage),
        waits_for: obstacle.map(|obstacle| match (obstacle, source.seen) {
            (Obstacle::Checkout, Some(seen)) => in_the_checkout(&seen.repo.checkout),
            (other, _) => obstacle_sentence(other),
        }),
        notes: notes(task).map(|notes| one_line(notes, NOTES_MAX_CHARS)),
        attempts: task.counters.attempts,
        reviews: task.counters.review_cycles,
        findings: task.findings.open.iter().map(|one| one.line(FINDING_CHARS)).collect(),
        spent: devloop_core::units::total(booked.map(|e| e.amount)).0,
    }
}

fn notes(task: &Task) -> Option<&str> {
    match &task.stage {
        Stage::Rework { notes } | Stage::Held { resume_to: ResumeTo::Rework { notes }, .. } => Some(notes),
        _ => None,
    }
}

/// What a merge waits for, with what is in the way.
fn in_the_checkout(checkout: &Checkout) -> String {
    let wanted = obstacle_sentence(&Obstacle::Checkout);
    match checkout {
        Checkout::Free => wanted,
        Checkout::Dirty { paths } => format!("{wanted}; changed there: {}", paths.join(", ")),
        Checkout::Busy { what } => format!("{wanted}; there is a {what}"),
    }
}

/// An obstacle in words.
#[must_use]
pub fn obstacle_sentence(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::Hold(subject) => format!("an answer about {subject}"),
        Obstacle::Dependency(id) => format!("task {id}"),
        Obstacle::Overlap(id) => format!("task {id}, which works on the same paths"),
        Obstacle::Slot => "a free worker slot".into(),
        Obstacle::SharedSlot => "a worker slot used by another project".into(),
        Obstacle::Route { route, until: Some(at) } => format!("route {route}, closed until {}", utc(at.0)),
        Obstacle::Route { route, until: None } => format!("route {route}"),
        Obstacle::Reserve(circuit) => format!("money set aside by running work ({})", circuit.row().key),
        Obstacle::SharedReserve => "money used by other projects today".into(),
        Obstacle::Checkout => "a clean checkout of the target branch".into(),
        Obstacle::MergeBusy(dispatch) => format!("the merge {dispatch}"),
        Obstacle::Noop { op, route } => format!("nothing: route {route} is noop and would {} here", op.key()),
        Obstacle::Disk => "free disk space".into(),
        Obstacle::Preparation(dispatch) => format!("preparation {dispatch}"),
        Obstacle::TargetMissing => "the target branch".into(),
        Obstacle::Poll { at } => format!("the pull request, looked at again at {}", utc(at.0)),
    }
}

/// A moment as UTC text.
#[must_use]
pub fn utc(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| format!("{ms} ms"), |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn running(state: &LoopState) -> Vec<Running> {
    let shown = state.leases.iter().map(|(dispatch, lease)| Running {
        dispatch: dispatch.to_string(),
        op: lease.op.key(),
        subject: lease.subject.to_string(),
        route: lease.route.as_ref().map(ToString::to_string),
        ending: lease.ending.is_some(),
    });
    shown.collect()
}

fn sums(spend: &Spend) -> Sums {
    Sums {
        measured: spend.measured.0,
        priced: spend.priced.0,
        assumed: spend.assumed.0,
        reserved: spend.reserved.0,
    }
}

fn cap_view(cap: &Cap) -> CapView {
    CapView { circuit: cap.circuit.row().key, limit: cap.limit.0, left: cap.left().0 }
}

fn question_view(root: &Path, question: &Question) -> QuestionView {
    let offers = question.answers.iter().map(|offer| OfferView {
        answer: offer.answer.word(),
        text: offer.text.clone(),
        spends: offer.spends,
        discards: offer.discards,
        recommended: offer.recommended,
        command: answer_command(root, question, offer.answer.word()),
    });
    QuestionView {
        key: question.key.to_string(),
        revision: question.revision,
        text: question.text.clone(),
        evidence: question.evidence.clone(),
        answers: offers.collect(),
        by_hand: question.by_hand.clone(),
        acknowledged: question.acknowledged,
    }
}

fn answer_command(root: &Path, question: &Question, word: &str) -> String {
    let mut argv = program();
    argv.push("answer".into());
    argv.extend(word.split(' ').map(str::to_string));
    argv.push(root.to_string_lossy().into_owned());
    argv.extend(["--hold".into(), question.key.to_string()]);
    argv.extend(["--revision".into(), question.revision.to_string()]);
    quote(&argv)
}

/// How this copy of DevLoop is started, absolute: a package manager links no `devloop` on the path.
#[must_use]
pub fn program() -> Vec<String> {
    // The addon runs inside node: there the plugin names the launcher that starts the command line.
    if let Ok(launcher) = std::env::var("DEVLOOP_LAUNCHER") {
        return launcher.split('\u{1f}').map(str::to_string).collect();
    }
    match std::env::current_exe() {
        // Linux marks a program that was replaced while it ran; the new one has the old name.
        Ok(path) => vec![path.to_string_lossy().trim_end_matches(" (deleted)").to_string()],
        Err(_) => vec!["devloop".into()],
    }
}

/// A command line for a POSIX shell.
#[must_use]
pub fn quote(argv: &[String]) -> String {
    shlex::try_join(argv.iter().map(String::as_str)).unwrap_or_else(|_| argv.join(" "))
}

/// Money in dollars.
#[must_use]
pub fn dollars(micros: u64) -> String {
    usd(devloop_core::units::UsdMicros(micros))
}
