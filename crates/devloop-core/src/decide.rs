//! The decision order: total, pure, first match wins, called again until it answers with a wait or a halt.

use alloc::vec::Vec;

use crate::command::Command;
use crate::effect::Effect;
use crate::event::Event;
use crate::observation::{Observation, Stamp};
use crate::reason::Reason;

data! {
    /// What was decided.
    pub struct Decision {
        /// What is recorded, in order; one journal line, none when empty.
        pub events: Vec<Event>,
        /// What the host does after the line is durable.
        pub effects: Vec<Effect>,
        /// Why.
        pub reason: Reason,
    }

    /// What a decision is made on.
    pub enum Input {
        /// A look at the world.
        Observation(Observation),
        /// An operator's wish, made by the process of the stamp.
        Command {
            /// Who and when.
            stamp: Stamp,
            /// What.
            command: Command,
        },
    }
}
