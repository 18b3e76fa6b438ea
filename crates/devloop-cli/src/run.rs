//! `devloop run`: the loop in the foreground. It must not know how a beat works.

use clap::Args;
use devloop_host::error::HostError;

use crate::cli::{FINE, NEEDS_A_PERSON, Outcome};
use crate::live::{End, Live};
use crate::place::{self, Root};
use crate::{say, status};

/// Runs the loop in the foreground
#[derive(Clone, Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub root: Root,
    /// End when nothing runs and nothing will by itself; exit 1 when a person is needed
    #[arg(long)]
    pub until_idle: bool,
}

/// Performs the verb.
///
/// # Errors
/// When another loop runs the project, or it cannot be worked with.
pub fn perform(verb: &Run) -> Outcome {
    let mut live = Live::open(&verb.root.folder()?, place::devloop_home()?)?;
    say::line(format_args!("DevLoop runs {}", say::bold(&live.root().to_string_lossy())));
    for warning in live.warnings() {
        say::line(format_args!("configuration: {warning}"));
    }
    let ended = live.run(verb.until_idle);
    finish(live, ended)
}

/// Gives the project back, whatever happened, and says where it stands.
fn finish(live: Live, ended: Result<End, HostError>) -> Outcome {
    let (view, root) = (live.view(), live.root().to_string_lossy().into_owned());
    live.close()?;
    let end = ended?;
    say::line(format_args!("{} Revision {}.", view.sentence, view.revision));
    let next = if end == End::Idle && view.questions.is_empty() { "run" } else { "status" };
    say::line(format_args!("  {}", say::command(&["devloop".into(), next.into(), root])));
    let fine = end == End::Stopped || view.phase == "complete" || status::code(&view) == FINE;
    Ok(if fine { FINE } else { NEEDS_A_PERSON })
}
