//! `devloop resume`: lets the loop go on and says whether that helps. It must not decide what is cleared.

use clap::Args;
use devloop_core::command::Wish;
use devloop_core::ids::TaskId;

use crate::cli::{Form, Outcome};
use crate::place::Root;
use crate::wish;

/// Lets the loop go on
#[derive(Clone, Debug, Args)]
pub struct Resume {
    #[command(flatten)]
    pub root: Root,
    /// Retry this task too; its circuits start anew
    #[arg(long, value_name = "ID", value_parser = TaskId::parse)]
    pub task: Option<TaskId>,
    /// Grant one more day's worth of money
    #[arg(long)]
    pub reset_cost: bool,
    #[command(flatten)]
    pub form: Form,
}

/// Performs the verb.
///
/// # Errors
/// When the project cannot be worked with.
pub fn perform(verb: Resume) -> Outcome {
    let mut desk = verb.root.desk()?;
    let report = wish::commit(&mut desk, Wish::Resume { task: verb.task, reset_cost: verb.reset_cost })?;
    wish::tell(&desk, &report, verb.form, true)
}
