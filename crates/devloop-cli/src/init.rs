//! `devloop init`: arms a project after looking whether the loop can work there. It must not touch anything
//! outside `.devloop/`.

use clap::Args;
use devloop_host::doctor::{self, GOAL_FORM};
use devloop_host::error::{ErrorKind, HostError};

use crate::cli::{FINE, Outcome};
use crate::place::{self, Root};
use crate::say;

/// The start of the comment that a given goal replaces.
const TEMPLATE_PLACE: &str = "<!-- What should be true of this repository";

/// The example that arming writes: nothing is dispatched until a person names a backend.
const CONFIG: &str = r#"{
  "agentBackend": "noop",
  "acceptance": [],
  "budget": {
    "maxCostUsdPerDay": 20,
    "maxCostUsdPerSession": 2,
    "maxTaskAttempts": 3
  }
}
"#;

/// Arms a project
#[derive(Clone, Debug, Args)]
pub struct Init {
    #[command(flatten)]
    pub root: Root,
    /// The goal in a sentence or two; without it GOAL.md is a form to fill in
    #[arg(long, value_name = "TEXT")]
    pub goal: Option<String>,
    /// Arm even on a dirty or detached checkout or during a merge; merges then wait until it is over
    #[arg(long)]
    pub anyway: bool,
}

/// Performs the verb.
///
/// # Errors
/// The first thing that is in the way, with the command that helps; nothing is written then.
pub fn perform(verb: &Init) -> Outcome {
    let root = verb.root.folder()?;
    if verb.goal.as_ref().is_some_and(|goal| goal.trim().is_empty()) {
        let hint = ["devloop", "init", "--help"];
        return Err(HostError::new(
            ErrorKind::User,
            "--goal is empty: say what should be true when the loop is done",
        )
        .hint(hint));
    }
    let about = |error| place::about(error, &root);
    doctor::check_folder(&root, verb.anyway).map_err(about)?;
    let armed = doctor::arm(&root, &goal_text(verb.goal.as_deref()), CONFIG).map_err(about)?;
    let folder = armed.root().to_string_lossy().into_owned();
    let command = |verb: &str| say::command(&["devloop".into(), verb.into(), folder.clone()]);
    say::line(format_args!("Armed: {}", armed.goal().display()));
    say::line(format_args!(
        "Settings: {} (backend noop: it shows what it would do)",
        armed.config().display()
    ));
    if verb.goal.is_none() {
        say::line("Fill in the goal, then:");
    }
    say::line(format_args!("  {}", command("run")));
    say::line(format_args!("  {}", command("status")));
    Ok(FINE)
}

/// GOAL.md with a goal in it, or the form.
#[must_use]
pub fn goal_text(goal: Option<&str>) -> String {
    let Some(goal) = goal else { return GOAL_FORM.to_owned() };
    let line = GOAL_FORM.lines().find(|line| line.starts_with(TEMPLATE_PLACE));
    match line {
        Some(line) => GOAL_FORM.replacen(line, goal.trim(), 1),
        None => format!("# Goal\n\n{}\n", goal.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_goal_takes_the_place_of_the_comment() {
        let text = goal_text(Some("  Make it so.\n"));
        assert!(text.starts_with("# Goal\n\nMake it so.\n\n## Success"), "{text}");
        assert!(!text.contains(TEMPLATE_PLACE));
        assert_eq!(goal_text(None), GOAL_FORM);
    }
}
