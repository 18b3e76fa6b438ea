//! Operators' wishes. A command commits events and asks for no effect but a wake-up.

use alloc::string::String;
use alloc::vec::Vec;

use crate::answer::Answer;
use crate::hold::HoldKey;
use crate::ids::TaskId;
use crate::tier::{Risk, Tier};

data! {
    /// One wish, with the name of who wishes it.
    pub struct Command {
        /// Who, for the record, for example `cli` or `page`.
        pub by: String,
        /// What.
        pub wish: Wish,
    }

    /// What is wished.
    pub enum Wish {
        /// Answer a question.
        Answer {
            /// The answer.
            answer: Answer,
            /// Which hold; may be left out when exactly one is open.
            hold: Option<HoldKey>,
            /// The revision at which the hold opened, to be sure it is the one that was read.
            revision: Option<u64>,
        },
        /// Go on after a pause, and look again at what was held.
        Resume {
            /// Retry this task too.
            task: Option<TaskId>,
            /// Grant one more day's worth of money.
            reset_cost: bool,
        },
        /// Stop taking new work.
        Pause {
            /// Also end what runs.
            now: bool,
        },
        /// Change a task that nobody works on.
        Edit {
            /// Which.
            task: TaskId,
            /// How.
            edit: TaskEdit,
        },
        /// Start the next goal after a finished one.
        NextGoal,
    }

    /// Changes to a task; what is absent stays.
    #[derive(Default)]
    pub struct TaskEdit {
        /// New allowed paths.
        pub allowed_paths: Option<Vec<String>>,
        /// New criteria.
        pub criteria: Option<Vec<String>>,
        /// New tier.
        pub tier: Option<Tier>,
        /// New risk.
        pub risk: Option<Risk>,
    }
}
