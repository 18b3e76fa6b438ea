//! Why nothing is decided at all: the state of a project cannot be read back. It owns the closed list of
//! these reasons with their words; the host finds them, and nothing is written then.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

data! {
    /// Why there is no state to decide on. None of them is a hold and none takes an answer: an answer would
    /// have to be written over what nobody understands.
    #[derive(Copy, PartialOrd, Ord)]
    pub enum Untrusted {
        /// `.devloop`, or a file in it, is a link, leads elsewhere or is of the wrong kind.
        EscapedDevloop,
        /// A file is there and cannot be read at this moment.
        UnreadableState,
        /// State and journal contradict themselves or each other.
        InvalidState,
        /// A newer DevLoop wrote the state or the journal.
        NewerState,
    }
}

impl Untrusted {
    /// Every reason, in the order of the list.
    pub const ALL: [Untrusted; 4] = [
        Untrusted::EscapedDevloop,
        Untrusted::UnreadableState,
        Untrusted::InvalidState,
        Untrusted::NewerState,
    ];

    /// The stable key; the plugin's name where it had one.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Untrusted::EscapedDevloop => "escaped_devloop",
            Untrusted::UnreadableState => "unreadable_state",
            Untrusted::InvalidState => "invalid_state",
            Untrusted::NewerState => "newer_state",
        }
    }

    /// What is asked. Which file it is, and what was found in it, is the evidence: the host's own sentence.
    #[must_use]
    pub const fn question(self) -> &'static str {
        match self {
            Untrusted::EscapedDevloop => {
                "The folder .devloop, or a file in it, is a link or of the wrong kind. Who put it there?"
            }
            Untrusted::UnreadableState => {
                "What is recorded of the loop cannot be read at this moment. What keeps it?"
            }
            Untrusted::InvalidState => {
                "What is recorded of the loop contradicts itself, so nothing is decided. Which part is right?"
            }
            Untrusted::NewerState => "A newer DevLoop worked here. Update this one, or go back to that one?",
        }
    }

    /// Whether the next tick may find it gone by itself: then nobody has to say that it is.
    #[must_use]
    pub const fn passes_by_itself(self) -> bool {
        matches!(self, Untrusted::UnreadableState)
    }

    /// What can be done by hand; `root` is the project's folder, `file` what it is about, both quoted for a
    /// shell.
    #[must_use]
    pub fn by_hand(self, root: &str, file: &str) -> Vec<String> {
        let look = format!("See every file that cannot be trusted: devloop doctor {root}");
        let own = match self {
            Untrusted::EscapedDevloop => alloc::vec![
                format!("See what it is: ls -ld {file}"),
                format!(
                    "Move it away, and put a folder or a file of its name there: mv -n {file} {file}.away"
                ),
            ],
            Untrusted::UnreadableState => alloc::vec![
                format!("See its rights, and whether it is a file: ls -ld {file}"),
                "The loop tries again at its next tick".to_string(),
            ],
            Untrusted::InvalidState => alloc::vec![
                format!("Read how the journal goes and where it breaks: devloop replay {root}"),
                "Put STATE.json and EVENTS.jsonl back from one backup of .devloop, both together".to_string(),
            ],
            Untrusted::NewerState => {
                alloc::vec![
                    "Install the newer DevLoop again; this one leaves the files as they are".to_string()
                ]
            }
        };
        core::iter::once(look).chain(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_way_of_a_state_has_a_name_and_a_next_step() {
        for (i, reason) in Untrusted::ALL.iter().enumerate() {
            assert!(Untrusted::ALL[i + 1..].iter().all(|other| other.key() != reason.key()));
            assert!(reason.question().ends_with('?'), "{reason:?}");
            let steps = reason.by_hand("/p", "/p/.devloop/STATE.json");
            assert!(steps[0].ends_with("devloop doctor /p") && steps.len() > 1, "{steps:?}");
        }
        assert!(Untrusted::UnreadableState.passes_by_itself() && !Untrusted::InvalidState.passes_by_itself());
    }
}
