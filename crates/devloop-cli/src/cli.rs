//! The verbs and what the help says about them. It must not perform any.

use clap::{Args, Parser, Subcommand};
use devloop_host::error::HostError;

use crate::{
    answer, completions, cost, demo, doctor, events, init, next, pause, replay, resume, run, status, task,
    tick,
};

/// What a verb ends with: an exit code, or why it could not be done.
pub type Outcome = Result<u8, HostError>;

/// Everything is well, or well enough.
pub const FINE: u8 = 0;
/// A person is needed, or the project cannot be worked on.
pub const NEEDS_A_PERSON: u8 = 1;

/// From a goal to merged commits.
///
/// Exit codes: 0 while the loop runs, waits, or is held in one task while others move; 1 when it is halted
/// or would halt, is paused, complete, unarmed or not to be trusted; 2 for a usage error.
#[derive(Debug, Parser)]
#[command(name = "devloop", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Shows a whole night in a sample repository, or runs in yours with the backend noop
    Demo(demo::Demo),
    /// Arms a project: writes .devloop/GOAL.md and an example configuration
    Init(init::Init),
    /// Runs the loop in the foreground
    Run(run::Run),
    /// Makes one beat and waits for what it started
    Tick(tick::Tick),
    /// Says where everything stands, with each open question and the commands that answer it
    Status(status::Status),
    /// Answers an open question
    Answer(answer::Answering),
    /// Lets the loop go on, and says what it cleared, what still blocks and whether it helps
    Resume(resume::Resume),
    /// Stops taking new work; what runs goes on unless --now
    Pause(pause::Pause),
    /// Changes a task that nobody works on
    Task(task::TaskVerb),
    /// Starts the next goal after a finished one
    Next(next::Next),
    /// Says what the project cost, and what the next runs will probably cost
    Cost(cost::Cost),
    /// Prints the journal
    Events(events::Events),
    /// Runs the recorded journal and trace through the component and verifies them
    Replay(replay::Replay),
    /// Looks at everything around the loop and names what is wrong; changes nothing
    Doctor(doctor::Doctor),
    /// Prints completions for a shell
    Completions(completions::Completions),
}

/// The form of the answer.
#[derive(Clone, Copy, Debug, Args)]
pub struct Form {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Verb {
    /// Whether a failure is to be printed as JSON too.
    #[must_use]
    pub fn wants_json(&self) -> bool {
        match self {
            Verb::Tick(v) => v.form.json,
            Verb::Status(v) => v.form.json,
            Verb::Answer(v) => v.form.json,
            Verb::Resume(v) => v.form.json,
            Verb::Pause(v) => v.form.json,
            Verb::Task(v) => v.wants_json(),
            Verb::Next(v) => v.form.json,
            Verb::Cost(v) => v.form.json,
            Verb::Events(v) => v.form.json,
            Verb::Replay(v) => v.form.json,
            Verb::Doctor(v) => v.form.json,
            Verb::Demo(_) | Verb::Init(_) | Verb::Run(_) | Verb::Completions(_) => false,
        }
    }

    /// Performs the verb.
    ///
    /// # Errors
    /// Why it could not be done.
    pub fn perform(self) -> Outcome {
        match self {
            Verb::Demo(verb) => demo::perform(&verb),
            Verb::Init(verb) => init::perform(&verb),
            Verb::Run(verb) => run::perform(&verb),
            Verb::Tick(verb) => tick::perform(&verb),
            Verb::Status(verb) => status::perform(&verb),
            Verb::Answer(verb) => answer::perform(verb),
            Verb::Resume(verb) => resume::perform(verb),
            Verb::Pause(verb) => pause::perform(&verb),
            Verb::Task(verb) => task::perform(verb),
            Verb::Next(verb) => next::perform(&verb),
            Verb::Cost(verb) => cost::perform(&verb),
            Verb::Events(verb) => events::perform(&verb),
            Verb::Replay(verb) => replay::perform(&verb),
            Verb::Doctor(verb) => doctor::perform(&verb),
            Verb::Completions(verb) => completions::perform(&verb),
        }
    }
}
