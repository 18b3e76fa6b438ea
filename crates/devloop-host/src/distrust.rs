//! Why the recorded state of a project is not believed, in the form every surface shows: the reason, its
//! question, and what can be done by hand. It must not look at the files itself.

use std::path::Path;

use devloop_core::untrusted::Untrusted;
use serde::Serialize;

use crate::error::HostError;
use crate::view::{program, quote};

/// What is shown in place of a view while there is no state to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Distrust {
    /// Always `untrusted`.
    pub phase: &'static str,
    /// What was found, and in which file.
    pub sentence: String,
    /// The key of the reason.
    pub reason: &'static str,
    /// What a person is asked.
    pub question: &'static str,
    /// Whether the next tick may find it gone.
    pub passes_by_itself: bool,
    /// What can be done, with commands that can be pasted.
    pub by_hand: Vec<String>,
}

/// The distrust behind an error; none when the error is about something else.
#[must_use]
pub fn of(error: &HostError) -> Option<Distrust> {
    let reason = error.untrusted()?;
    Some(Distrust {
        phase: "untrusted",
        sentence: error.to_string(),
        reason: reason.key(),
        question: reason.question(),
        passes_by_itself: reason.passes_by_itself(),
        by_hand: error.path().map(|path| by_hand(reason, path)).unwrap_or_default(),
    })
}

fn by_hand(reason: Untrusted, path: &Path) -> Vec<String> {
    let quoted = |path: &Path| quote(&[path.to_string_lossy().into_owned()]);
    let root = path.ancestors().find(|at| at.ends_with(".devloop")).and_then(Path::parent);
    let steps = root.map(|root| reason.by_hand(&quoted(root), &quoted(path))).unwrap_or_default();
    let own = quote(&program());
    let ours = |step: String| {
        let step = step.replace(": devloop doctor ", &format!(": {own} doctor "));
        step.replace(": devloop replay ", &format!(": {own} replay "))
    };
    steps.into_iter().map(ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn every_reason_comes_with_its_question_and_steps_that_name_the_file() {
        for why in Untrusted::ALL {
            let file = "/p q/.devloop/STATE.json";
            let error = HostError::new(ErrorKind::Integrity, "it is torn").at(file).as_untrusted(why);
            let told = of(&error).unwrap();
            assert_eq!((told.phase, told.reason, told.question), ("untrusted", why.key(), why.question()));
            assert_eq!(told.sentence, format!("it is torn ({file})"));
            let first = format!("{} doctor '/p q'", quote(&program()));
            assert!(told.by_hand[0].ends_with(&first), "{:?}", told.by_hand);
            assert!(told.by_hand.len() > 1);
        }
        assert_eq!(of(&HostError::new(ErrorKind::Busy, "somebody has it")), None);
    }
}
