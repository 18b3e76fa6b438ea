//! Questions: a hold put so that a person can answer it. A pure function of the state; nothing of it is stored.

use alloc::string::String;
use alloc::vec::Vec;

use crate::answer::Answer;
use crate::hold::HoldKey;

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
