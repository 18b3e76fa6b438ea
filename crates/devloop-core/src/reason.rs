//! Why a decision is what it is: one closed list, each with a key for journals and a sentence for people.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::answer::Answer;
use crate::hold::{HoldKey, Subject};
use crate::ids::{RouteKey, TaskId};
use crate::state::Op;
use crate::units::WallMs;

data! {
    /// Why.
    pub enum Reason {
        /// A report was settled.
        Settled {
            /// The operation.
            op: Op,
            /// On what.
            subject: Subject,
        },
        /// Usage was settled whose dispatch was over already.
        UsageSettledLate,
        /// A dispatch of a dead owner was settled.
        OrphanSettled {
            /// On what.
            subject: Subject,
        },
        /// A dispatch of a dead owner still has live processes; they are being ended.
        OrphanAlive {
            /// On what.
            subject: Subject,
        },
        /// A host operation of a dead owner is performed again.
        LeaseAdopted {
            /// The operation.
            op: Op,
        },
        /// A dispatch ran into its deadline.
        DeadlinePassed {
            /// On what.
            subject: Subject,
        },
        /// The clock was anchored, stepped, or a day began.
        ClockMoved,
        /// The policy changed.
        PolicyChanged,
        /// The goal was started.
        GoalStarted,
        /// Another goal text was seen.
        GoalEditSeen,
        /// The old goal text is back.
        GoalTextReturned,
        /// A hold opened.
        Held {
            /// Which.
            key: HoldKey,
        },
        /// A hold went away by itself.
        HoldWithdrawn {
            /// Which.
            key: HoldKey,
        },
        /// An operation started.
        Started {
            /// The operation.
            op: Op,
            /// On what.
            subject: Subject,
        },
        /// A commit without checks goes to review.
        NoChecks {
            /// The task.
            task: TaskId,
        },
        /// A plan is wanted.
        PlanWanted,
        /// The goal is reached.
        GoalReached,
        /// An answer was given.
        Answered {
            /// To what.
            key: HoldKey,
            /// Which.
            answer: Answer,
        },
        /// The loop was stopped by a person.
        Paused,
        /// The loop was let go on by a person.
        Resumed,
        /// A task was changed by a person.
        TaskEdited {
            /// Which.
            task: TaskId,
        },
        /// The finished goal was put away.
        GoalArchived,
        /// A command was not accepted; nothing changed.
        Refused(Refusal),
        /// Nothing to decide while paused.
        StillPaused,
        /// Nothing to decide after the goal.
        StillComplete,
        /// There is no goal file.
        Unarmed,
        /// Something else must happen first.
        Wait {
            /// What.
            why: WaitWhy,
            /// A moment to look again at the latest; none for the host's own beat.
            until: Option<WallMs>,
        },
        /// Only a person can move the loop.
        Halted,
    }

    /// What a wait is for.
    pub enum WaitWhy {
        /// Running operations.
        Lease,
        /// A moment.
        Time,
        /// Something outside this project.
        Shared,
        /// The backend is `noop`: this is what would be dispatched.
        NoopBackend {
            /// The operation.
            op: Op,
            /// On what.
            subject: Subject,
            /// By which route.
            route: RouteKey,
        },
    }

    /// Why a command was not accepted.
    pub enum Refusal {
        /// No question is open.
        NoQuestion,
        /// No hold of that name is open.
        NoSuchHold {
            /// The name.
            key: HoldKey,
        },
        /// The hold was answered already.
        Stale {
            /// Which.
            key: HoldKey,
            /// With what.
            answer: Answer,
            /// By whom.
            by: String,
            /// When.
            at: WallMs,
        },
        /// A newer hold of the same name is open.
        Reopened {
            /// Which.
            key: HoldKey,
            /// The revision it opened at.
            revision: u64,
        },
        /// Several questions are open.
        Ambiguous {
            /// Their names.
            keys: Vec<HoldKey>,
        },
        /// The answer is not offered.
        NotOffered {
            /// For what.
            key: HoldKey,
            /// What is.
            offered: Vec<Answer>,
        },
        /// No such task.
        UnknownTask {
            /// The name.
            task: TaskId,
        },
        /// The task is being worked on.
        TaskBusy {
            /// Which.
            task: TaskId,
            /// The operation.
            op: Op,
        },
        /// The task is over.
        TaskOver {
            /// Which.
            task: TaskId,
        },
        /// The edit breaks a rule.
        BadEdit {
            /// The field.
            field: String,
            /// Its rule.
            rule: String,
        },
        /// The edit changes nothing.
        EmptyEdit,
        /// The loop is paused already.
        AlreadyPaused,
        /// The goal is complete.
        GoalComplete,
        /// The goal is not complete.
        GoalNotComplete,
        /// No goal was started yet.
        NotStarted,
    }
}

impl Reason {
    /// Every key that [`Reason::key`] can answer with. Each has a recorded trace in `tests/traces/`.
    pub const KEYS: [&str; 31] = [
        "settled",
        "usage_settled_late",
        "orphan_settled",
        "orphan_alive",
        "lease_adopted",
        "deadline_passed",
        "clock_moved",
        "policy_changed",
        "goal_started",
        "goal_edit_seen",
        "goal_text_returned",
        "held",
        "hold_withdrawn",
        "started",
        "no_checks",
        "plan_wanted",
        "goal_reached",
        "answered",
        "paused",
        "resumed",
        "task_edited",
        "goal_archived",
        "refused",
        "still_paused",
        "still_complete",
        "unarmed",
        "wait_lease",
        "wait_time",
        "wait_shared",
        "noop_backend",
        "halted",
    ];

    /// Whether deciding again on the same observation would say the same: the tick is over.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Reason::StillPaused
                | Reason::StillComplete
                | Reason::Unarmed
                | Reason::Wait { .. }
                | Reason::Halted
                | Reason::Refused(_)
        )
    }

    /// The stable key in journals.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            Reason::Settled { .. } => "settled",
            Reason::UsageSettledLate => "usage_settled_late",
            Reason::OrphanSettled { .. } => "orphan_settled",
            Reason::OrphanAlive { .. } => "orphan_alive",
            Reason::LeaseAdopted { .. } => "lease_adopted",
            Reason::DeadlinePassed { .. } => "deadline_passed",
            Reason::ClockMoved => "clock_moved",
            Reason::PolicyChanged => "policy_changed",
            Reason::GoalStarted => "goal_started",
            Reason::GoalEditSeen => "goal_edit_seen",
            Reason::GoalTextReturned => "goal_text_returned",
            Reason::Held { .. } => "held",
            Reason::HoldWithdrawn { .. } => "hold_withdrawn",
            Reason::Started { .. } => "started",
            Reason::NoChecks { .. } => "no_checks",
            Reason::PlanWanted => "plan_wanted",
            Reason::GoalReached => "goal_reached",
            Reason::Answered { .. } => "answered",
            Reason::Paused => "paused",
            Reason::Resumed => "resumed",
            Reason::TaskEdited { .. } => "task_edited",
            Reason::GoalArchived => "goal_archived",
            Reason::Refused(_) => "refused",
            Reason::StillPaused => "still_paused",
            Reason::StillComplete => "still_complete",
            Reason::Unarmed => "unarmed",
            Reason::Wait { why, .. } => match why {
                WaitWhy::Lease => "wait_lease",
                WaitWhy::Time => "wait_time",
                WaitWhy::Shared => "wait_shared",
                WaitWhy::NoopBackend { .. } => "noop_backend",
            },
            Reason::Halted => "halted",
        }
    }

    /// One sentence for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Reason::Settled { op, subject } => format!("The {} of {} came back.", op.key(), named(subject)),
            Reason::UsageSettledLate => "Late usage was booked.".to_string(),
            Reason::OrphanSettled { subject } => {
                format!("The dispatch of {} lost its process and was settled.", named(subject))
            }
            Reason::OrphanAlive { subject } => {
                let what = named(subject);
                format!("Processes of an earlier loop still work on {what}; they are being ended.")
            }
            Reason::LeaseAdopted { op } => format!("An interrupted {} is done again.", op.key()),
            Reason::DeadlinePassed { subject } => {
                format!("The dispatch of {} ran out of time.", named(subject))
            }
            Reason::ClockMoved => "The clock was read anew.".to_string(),
            Reason::PolicyChanged => "The configuration changed.".to_string(),
            Reason::GoalStarted => "The goal was started.".to_string(),
            Reason::GoalEditSeen => "GOAL.md was edited.".to_string(),
            Reason::GoalTextReturned => "GOAL.md is again as planned.".to_string(),
            Reason::Held { key } => format!("A person is needed: {key}."),
            Reason::HoldWithdrawn { key } => format!("No longer needed: {key}."),
            Reason::Started { op, subject } => format!("The {} of {} started.", op.key(), named(subject)),
            Reason::NoChecks { task } => format!("No checks are configured; {task} goes to review."),
            Reason::PlanWanted => "A plan is wanted.".to_string(),
            Reason::GoalReached => "Every task is done.".to_string(),
            Reason::Answered { key, answer } => format!("{key} was answered with {}.", answer.word()),
            Reason::Paused => "The loop was paused.".to_string(),
            Reason::Resumed => "The loop goes on.".to_string(),
            Reason::TaskEdited { task } => format!("Task {task} was edited."),
            Reason::GoalArchived => "The goal was put away; the next one may start.".to_string(),
            Reason::Refused(refusal) => refusal.sentence(),
            Reason::StillPaused => "The loop is paused.".to_string(),
            Reason::StillComplete => "The goal is complete.".to_string(),
            Reason::Unarmed => "There is no GOAL.md.".to_string(),
            Reason::Wait { why, .. } => why.sentence(),
            Reason::Halted => "Only a person can move the loop.".to_string(),
        }
    }
}

/// A subject as the object of a sentence.
fn named(subject: &Subject) -> String {
    match subject {
        Subject::Planning | Subject::Goal => "the goal".to_string(),
        Subject::Target => "the target".to_string(),
        Subject::Loop => "the loop".to_string(),
        Subject::Task(id) => format!("task {id}"),
        Subject::Route(key) => format!("route {key}"),
    }
}

impl WaitWhy {
    fn sentence(&self) -> String {
        match self {
            WaitWhy::Lease => "Waiting for running operations.".to_string(),
            WaitWhy::Time => "Waiting for a moment.".to_string(),
            WaitWhy::Shared => "Waiting for something outside this project.".to_string(),
            WaitWhy::NoopBackend { op, subject, route } => {
                format!("The backend of route {route} is noop; it would {} {}.", op.key(), named(subject))
            }
        }
    }
}

impl Refusal {
    /// One sentence for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Refusal::NoQuestion => "No question is open.".to_string(),
            Refusal::NoSuchHold { key } => format!("No question {key} is open."),
            Refusal::Stale { key, answer, by, .. } => {
                format!("{key} was answered already: {} by {by}.", answer.word())
            }
            Refusal::Reopened { key, revision } => {
                format!("{key} was opened again at revision {revision}; read it first.")
            }
            Refusal::Ambiguous { keys } => {
                let names: Vec<String> = keys.iter().map(ToString::to_string).collect();
                format!("Several questions are open; name one with --hold: {}.", names.join(", "))
            }
            Refusal::NotOffered { key, offered } => {
                let words: Vec<&str> = offered.iter().map(|a| a.word()).collect();
                format!("{key} does not take that answer; it takes: {}.", words.join(", "))
            }
            Refusal::UnknownTask { task } => format!("There is no task {task}."),
            Refusal::TaskBusy { task, op } => {
                format!("Task {task} has a running {}; wait for it or pause with --now.", op.key())
            }
            Refusal::TaskOver { task } => format!("Task {task} is over."),
            Refusal::BadEdit { field, rule } => format!("{field} must be {rule}."),
            Refusal::EmptyEdit => "The edit changes nothing.".to_string(),
            Refusal::AlreadyPaused => "The loop is paused already.".to_string(),
            Refusal::GoalComplete => "The goal is complete.".to_string(),
            Refusal::GoalNotComplete => "The goal is not complete.".to_string(),
            Refusal::NotStarted => "No goal was started yet.".to_string(),
        }
    }
}
