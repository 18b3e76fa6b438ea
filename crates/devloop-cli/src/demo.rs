//! `devloop demo`: a whole night in front of your eyes, in a sample repository or in yours. It answers
//! questions only in the sample, and only by pasting the command that was printed.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Parser};
use devloop_core::hold::{HoldKey, Subject};
use devloop_host::backend::demo;
use devloop_host::clock::{Clock, SystemClock};
use devloop_host::command::Desk;
use devloop_host::error::{ErrorKind, HostError};
use devloop_host::replay::{self, Core, Engine};
use devloop_host::store::{Arming, UserFolder, layout};
use devloop_host::view::{OfferView, QuestionView, View, dollars, program};
use devloop_host::{doctor, files};

use crate::cli::{Cli, FINE, NEEDS_A_PERSON, Outcome, Verb};
use crate::live::{End, Live};
use crate::picture::count;
use crate::{init, place, say, status, wish};

/// Answers that the demo pastes at most, so that a sample gone wrong ends.
const MAX_PASTED: usize = 8;
/// What an unarmed repository of yours is armed with.
const GOAL: &str = "See what DevLoop would do in this repository.";
/// An example for `replay --with`: less than the sample's cap, which trips once and is allowed.
const LESS_MONEY: &str = "{\n  \"budget\": { \"maxCostUsdPerGoal\": 0.15 }\n}\n";
/// Its configuration: nothing is dispatched.
const CONFIG: &str = "{\n  \"agentBackend\": \"noop\"\n}\n";

/// Shows a whole night
#[derive(Clone, Debug, Args)]
pub struct Demo {
    /// A repository of yours; without it a sample is made in a temporary folder. An unarmed one is armed:
    /// only its .devloop/ is written
    pub path: Option<PathBuf>,
}

/// Performs the verb.
///
/// # Errors
/// When the repository cannot be worked with.
pub fn perform(verb: &Demo) -> Outcome {
    match &verb.path {
        Some(path) => yours(&place::absolute(path)?),
        None => sample(),
    }
}

/// A repository of the operator's: run until nothing happens by itself.
fn yours(root: &Path) -> Outcome {
    doctor::check_folder(root, true).map_err(|error| place::about(error, root))?;
    if !matches!(layout::inspect(root)?, Arming::Armed(_)) {
        let armed = doctor::arm(root, &init::goal_text(Some(GOAL)), CONFIG)?;
        say::line(format_args!(
            "Armed {} with an example goal and the backend noop.",
            armed.root().display()
        ));
        say::line("Only .devloop/ was written; remove that folder and the project is as it was.");
    }
    let home = place::devloop_home()?;
    let mut live = Live::open(root, home.clone())?;
    say::line(format_args!("DevLoop runs {} until nothing happens by itself.", live.root().display()));
    let ended = live.run(true);
    let (view, root) = (live.view(), live.root().to_path_buf());
    live.close()?;
    ended?;
    say::line(&view.sentence);
    summary(&root, &view)?;
    say::line(format_args!("Settings: {}", root.join(".devloop").join("config.json").display()));
    Ok(FINE)
}

/// Where a sample is.
struct Sample {
    root: PathBuf,
    /// Its own ledger: invented money must not count against the operator's caps.
    home: PathBuf,
}

fn make_sample() -> Result<Sample, HostError> {
    let name = format!("devloop-demo-{}-{}", std::process::id(), SystemClock::new().wall().0);
    let folder = std::env::temp_dir().join(name);
    let made = |path: &Path| {
        files::ensure_private_dir(path).map_err(|source| HostError::io(path, "make the folder", source))
    };
    made(&folder)?;
    let home = folder.join("home");
    made(&home)?;
    Ok(Sample { root: demo::sample_repo(&folder.join("greetings"))?, home })
}

/// The sample: a night with two tasks at once, a rework, a spent budget and a question that is left open.
fn sample() -> Outcome {
    let sample = make_sample()?;
    say::line(say::bold("A night with DevLoop, in a sample repository"));
    say::line(format_args!("repository: {}", sample.root.display()));
    say::line("workers:    scripted, they edit files and review, and cost invented money");
    say::line("");
    let mut live = Live::open(&sample.root, sample.home.clone())?;
    let ended = night(&mut live, &sample);
    let (view, root) = (live.view(), live.root().to_path_buf());
    live.close()?;
    if ended? == End::Stopped {
        return Ok(NEEDS_A_PERSON);
    }
    summary(&root, &view)?;
    left_open(&view, &sample);
    another_budget(&root, &sample)?;
    let as_meant = view.phase == "complete" || view.questions.iter().any(is_left_to_you);
    if as_meant {
        return Ok(FINE);
    }
    let what = format!("the sample ended elsewhere than it should: {}", view.sentence);
    Err(place::about(HostError::new(ErrorKind::Internal, what), &root))
}

/// Runs until idle, pastes what is to be answered, and goes on.
fn night(live: &mut Live, sample: &Sample) -> Result<End, HostError> {
    for _ in 0..=MAX_PASTED {
        if live.run(true)? == End::Stopped {
            return Ok(End::Stopped);
        }
        let view = live.view();
        let Some((question, offer)) = to_paste(&view) else { return Ok(End::Idle) };
        say::line("");
        say::line(format_args!(
            "A person would read this in the morning; the demo pastes an answer to {}:",
            question.key
        ));
        say::line(format_args!("$ {}", offer.command));
        paste(&offer.command, sample)?;
        say::line("");
    }
    Ok(End::Idle)
}

/// The next question that the demo answers, with the answer: the recommended one, else the first that moves
/// something.
fn to_paste(view: &View) -> Option<(&QuestionView, &OfferView)> {
    let open = view.questions.iter().filter(|question| !question.acknowledged && !is_left_to_you(question));
    open.filter_map(|question| {
        let moves = |offer: &&OfferView| offer.answer != "stop" && offer.answer != "drop";
        let recommended = question.answers.iter().filter(moves).find(|offer| offer.recommended);
        Some((question, recommended.or_else(|| question.answers.iter().find(moves))?))
    })
    .next()
}

/// What is about one task is left to you: the sample means one of them to run out of attempts.
fn is_left_to_you(question: &QuestionView) -> bool {
    HoldKey::parse(&question.key).is_ok_and(|key| matches!(key.subject, Subject::Task(_)))
}

/// Does what a shell would do with the printed command: splits it, reads it as a command line of this
/// program, and answers as another process would, past the running loop.
fn paste(line: &str, sample: &Sample) -> Result<(), HostError> {
    let broken = |what: String| HostError::new(ErrorKind::Internal, what);
    let words =
        shlex::split(line).ok_or_else(|| broken(format!("a printed command cannot be read: {line}")))?;
    let argv = words
        .strip_prefix(program().as_slice())
        .ok_or_else(|| broken(format!("not this program: {line}")))?;
    let argv = std::iter::once("devloop").chain(argv.iter().map(String::as_str));
    let cli = Cli::try_parse_from(argv)
        .map_err(|error| broken(format!("a printed command is refused: {error}")))?;
    let Verb::Answer(answering) = cli.verb else { return Err(broken(format!("no answer: {line}"))) };
    let mut desk = Desk::open(&answering.root.folder()?, UserFolder::at(sample.home.join("devloop")))?;
    let report = wish::commit(&mut desk, answering.wish()?)?;
    say::line(format_args!("{} Revision {}.", report.sentence, report.revision));
    if report.accepted {
        return Ok(());
    }
    Err(broken(format!("an offered answer was not accepted: {}", report.sentence)))
}

/// What came out of it.
fn summary(root: &Path, view: &View) -> Result<(), HostError> {
    let head = |title: &str| {
        say::line("");
        say::line(say::bold(title));
    };
    head("summary");
    for task in status::tasks(&view.tasks) {
        say::line(format_args!("  {task}"));
    }
    let commits = commits(root, view)?;
    let target = view.target.as_deref().unwrap_or("no target yet");
    say::line(format_args!("  {} on {target}:", count(commits.len(), "commit")));
    for commit in commits {
        say::line(format_args!("    {commit}"));
    }
    let goal = view.money.goal;
    say::line(format_args!(
        "  money: {} measured, {} priced, {} assumed, {} reserved",
        dollars(goal.measured),
        dollars(goal.priced),
        dollars(goal.assumed),
        dollars(goal.reserved)
    ));
    say::line(format_args!("  {} open", count(view.questions.len(), "question")));
    let armed = layout::require_armed(root)?;
    let mut core = Core::load(Engine::Embedded)?;
    if let Some(report) = replay::journal(&armed, &mut core)? {
        crate::replay::journal_lines(&report)
            .into_iter()
            .for_each(|line| say::line(format_args!("  {line}")));
    }
    Ok(())
}

/// The newest commits of the target, one line each.
fn commits(root: &Path, view: &View) -> Result<Vec<String>, HostError> {
    let Some(target) = &view.target else { return Ok(Vec::new()) };
    doctor::log(root, target).map_err(|error| place::about(error, root))
}

/// Ends with a question that the recording can answer: what less money would have made of this night.
fn another_budget(root: &Path, sample: &Sample) -> Result<(), HostError> {
    let policy = sample.home.join("less-money.json");
    let written = || files::create_private(&policy)?.write_all(LESS_MONEY.as_bytes());
    written().map_err(|source| HostError::io(&policy, "write the example policy", source))?;
    let argv = ["devloop", "replay", &root.to_string_lossy(), "--with", &policy.to_string_lossy()];
    say::line("");
    say::line("What would have become of this night with less money? The recording knows:");
    say::line(format_args!("  {}", say::command(&argv.map(str::to_owned))));
    let page = sample.home.join("night.html");
    let argv = ["devloop", "replay", &root.to_string_lossy(), "--page", &page.to_string_lossy()];
    say::line("The same in a browser, under whatever budget you type there:");
    say::line(format_args!("  {}", say::command(&argv.map(str::to_owned))));
    Ok(())
}

/// The question that stays, whole, with the commands that answer it.
fn left_open(view: &View, sample: &Sample) {
    for question in &view.questions {
        say::line("");
        say::line(say::bold(&format!("left to you: {}", question.key)));
        status::question_lines(question).into_iter().for_each(say::line);
    }
    if !view.questions.is_empty() {
        // The sample has a ledger of its own; the loop that goes on must find it.
        let mut argv = vec!["env".to_owned(), format!("DSH_HOME={}", sample.home.display())];
        argv.extend(program());
        argv.extend(["run".to_owned(), view.root.clone(), "--until-idle".to_owned()]);
        say::line("");
        say::line("Paste one of the commands above, then let the loop go on:");
        say::line(format_args!("  {}", say::command(&argv)));
    }
}
