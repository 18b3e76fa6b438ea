//! Questions: a hold put so that a person can answer it. Computed, never stored.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::answer::Answer;
use crate::hold::{Hold, HoldKey, HoldKind, Subject};
use crate::ids::Oid;
use crate::policy::{HighRisk, Policy};
use crate::render::one_line;
use crate::state::LoopState;
use crate::task::{ResumeTo, Task};

#[cfg(test)]
mod accepted;
mod evidence;
mod offer;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
mod text;

data! {
    /// A hold as a person reads it.
    pub struct Question {
        /// Its name in answers.
        pub key: HoldKey,
        /// The revision at which the hold opened.
        pub revision: u64,
        /// The question in one or two sentences.
        pub text: String,
        /// What speaks for it, computed from the state.
        pub evidence: Vec<String>,
        /// What can be answered in this very state.
        pub answers: Vec<Offer>,
        /// What can be done outside the loop.
        pub by_hand: Vec<String>,
        /// Whether a person said that it may stay.
        pub acknowledged: bool,
    }

    /// One answer that would be accepted.
    pub struct Offer {
        /// The word.
        pub answer: Answer,
        /// What it does.
        pub text: String,
        /// Whether a model is paid again.
        pub spends: bool,
        /// Whether work is thrown away.
        pub discards: bool,
        /// The first choice.
        pub recommended: bool,
    }
}

/// Every open question, the acknowledged ones last. `instance` is the supervisor's: some money counts per
/// supervisor.
#[must_use]
pub fn open_questions(state: &LoopState, policy: &Policy, instance: u64) -> Vec<Question> {
    let open = state.open_holds();
    open.iter().map(|(subject, hold)| question(state, policy, instance, subject, hold)).collect()
}

/// The question that a hold puts. The hold need not be in the state yet: it may be about to open.
#[must_use]
pub fn question(
    state: &LoopState,
    policy: &Policy,
    instance: u64,
    subject: &Subject,
    hold: &Hold,
) -> Question {
    let facts = Facts::new(state, policy, instance, subject, hold);
    Question {
        key: HoldKey { subject: subject.clone(), kind: hold.kind },
        revision: hold.revision,
        text: text::question(&facts),
        evidence: evidence::list(&facts),
        answers: offer::offers(&facts),
        by_hand: text::by_hand(&facts),
        acknowledged: hold.acknowledged.is_some(),
    }
}

/// The answers that are accepted for a hold in this very state, in the order of its kind: the one list that
/// both the
/// question and the judge of an answer use.
#[must_use]
pub fn offered(
    state: &LoopState,
    policy: &Policy,
    instance: u64,
    subject: &Subject,
    hold: &Hold,
) -> Vec<Answer> {
    offer::answers(&Facts::new(state, policy, instance, subject, hold))
}

/// The branch that the answer `branch` makes.
#[must_use]
pub fn goal_branch(state: &LoopState) -> String {
    alloc::format!("devloop/goal-{}", state.goal.number)
}

/// The longest title inside a sentence, in characters.
const MAX_TITLE: usize = 80;

/// What a question is computed from.
#[derive(Clone, Copy)]
struct Facts<'a> {
    state: &'a LoopState,
    policy: &'a Policy,
    instance: u64,
    subject: &'a Subject,
    hold: &'a Hold,
    task: Option<&'a Task>,
}

impl<'a> Facts<'a> {
    fn new(
        state: &'a LoopState,
        policy: &'a Policy,
        instance: u64,
        subject: &'a Subject,
        hold: &'a Hold,
    ) -> Self {
        let task = match subject {
            Subject::Task(id) => state.tasks.get(id),
            _ => None,
        };
        Facts { state, policy, instance, subject, hold, task }
    }

    /// The subject as a sentence names it.
    fn name(&self) -> String {
        match (self.subject, self.task) {
            (Subject::Task(id), Some(task)) => {
                alloc::format!("task {id} (\"{}\")", one_line(&task.title, MAX_TITLE))
            }
            (Subject::Task(id), None) => alloc::format!("task {id}"),
            (Subject::Planning, _) => "planning".to_string(),
            (Subject::Route(key), _) => alloc::format!("route {key}"),
            (Subject::Goal, _) => "the goal".to_string(),
            (Subject::Target, _) => "the target".to_string(),
            (Subject::Loop, _) => "the loop".to_string(),
        }
    }

    /// The task's last host commit.
    fn tip(&self) -> Option<&'a Oid> {
        self.task.and_then(|task| task.tip.as_ref())
    }

    /// The target's name, for sentences.
    fn target(&self) -> String {
        self.state.target.branch.as_ref().map_or("the target branch".to_string(), ToString::to_string)
    }

    /// Where the held task continues; where it would, when the hold is about to open.
    fn resume_to(&self) -> Option<ResumeTo> {
        self.task.map(Task::resume_point)
    }

    /// A task of high risk that is not to be worked on before a person said so.
    fn waits_for_leave(&self) -> bool {
        self.hold.kind == HoldKind::SecurityHighRisk
            && self.policy.high_risk == HighRisk::HoldBeforeWork
            && self.task.is_some_and(|task| task.base.is_none())
    }

    fn is_reviewed(&self) -> bool {
        matches!(self.resume_to(), Some(ResumeTo::MergeReady(_)))
    }
}
