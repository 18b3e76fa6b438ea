//! `devloop tick`: one beat, for schedulers and for looking closely. What it starts it waits for; the
//! report is settled by the next beat.

use clap::Args;
use devloop_host::error::{ErrorKind, HostError};

use crate::cli::{Form, Outcome};
use crate::live::Live;
use crate::place::{self, Root};
use crate::{say, status};

/// Makes one beat and waits for what it started
#[derive(Clone, Debug, Args)]
pub struct Tick {
    #[command(flatten)]
    pub root: Root,
    #[command(flatten)]
    pub form: Form,
}

/// Performs the verb.
///
/// # Errors
/// When another loop runs the project, or it cannot be worked with.
pub fn perform(verb: &Tick) -> Outcome {
    let mut live = Live::open_quiet(&verb.root.folder()?, place::devloop_home()?)?;
    let beaten = live.beat();
    if matches!(beaten, Ok(Some(_))) {
        live.wait_for_what_runs();
    }
    let (view, root) = (live.view(), live.root().to_path_buf());
    live.close()?;
    let Some(report) = beaten? else {
        return Err(place::about(HostError::new(ErrorKind::Busy, "the beat did not come about"), &root));
    };
    if verb.form.json {
        let value = serde_json::to_value(&report)
            .map_err(|error| HostError::new(ErrorKind::Internal, "the report is no JSON").because(error))?;
        say::json(&value);
    } else {
        for sentence in &report.decided {
            say::line(sentence);
        }
        for notice in &report.notices {
            say::line(format_args!("note: {notice}"));
        }
        say::line(format_args!("{} Revision {}.", report.sentence, report.revision));
    }
    Ok(status::code(&view))
}
