//! Owns what can happen next in a random night: time, reports, wishes, changes of the world. Drawn as small
//! numbers, so that a failing night shrinks to few and simple moves.

use devloop_core::answer::Answer;
use devloop_core::command::{TaskEdit, Wish};
use devloop_core::tier::{Risk, Tier};
use proptest::prelude::*;

/// One thing that happens. Numbers name the one among what is there, counted round and round.
#[derive(Clone, Debug)]
pub enum Move {
    /// Both clocks go on.
    Pass { ms: u64 },
    /// The wall clock alone jumps.
    Jump { ms: i64 },
    /// The supervisor starts again, after a boot of the machine when asked.
    Restart { boot: bool },
    /// A running operation ends as its kind should.
    EndWell { lease: usize, usage: usize },
    /// A running operation ends somehow, with a lying epoch when asked.
    End { lease: usize, outcome: usize, usage: usize, stale: bool },
    /// A report for a dispatch that may never have been.
    Stray { dispatch: u64, outcome: usize, usage: usize },
    /// An answer to an open question: one that is offered, or any.
    Answer { question: usize, answer: usize, offered: bool },
    /// Any other wish.
    Say { wish: Wish },
    /// The goal's text: as planned, another, gone.
    Goal { text: u8 },
    /// The checkout, the target's tip, other projects.
    World { checkout: usize, tip: u64, lost: bool, slots: u32, spent: u64 },
}

fn edits() -> impl Strategy<Value = TaskEdit> {
    let tier = proptest::option::of(prop::sample::select(vec![Tier::T0, Tier::T1, Tier::T3]));
    let risk = proptest::option::of(prop::sample::select(vec![Risk::Low, Risk::High]));
    let paths = proptest::option::of(prop::sample::select(vec!["a/**", "b/**", "../x"]));
    (tier, risk, paths).prop_map(|(tier, risk, paths)| TaskEdit {
        allowed_paths: paths.map(|path| vec![path.to_string()]),
        criteria: None,
        tier,
        risk,
    })
}

fn wishes() -> impl Strategy<Value = Wish> {
    let tasks = prop::sample::select(vec!["a", "b", "c", "nobody"]).prop_map(super::scene::id);
    let named = proptest::option::of(tasks.clone());
    prop_oneof![
        4 => (named, any::<bool>()).prop_map(|(task, reset_cost)| Wish::Resume { task, reset_cost }),
        1 => any::<bool>().prop_map(|now| Wish::Pause { now }),
        2 => (tasks, edits()).prop_map(|(task, edit)| Wish::Edit { task, edit }),
        1 => Just(Wish::NextGoal),
        1 => Just(Wish::Answer { answer: Answer::Retry, hold: None, revision: Some(0) }),
    ]
}

fn one() -> impl Strategy<Value = Move> {
    let at = 0usize..8;
    prop_oneof![
        6 => (0u64..600_000).prop_map(|ms| Move::Pass { ms }),
        1 => (0u64..4_000_000).prop_map(|ms| Move::Pass { ms }),
        1 => (-90_000_000i64..90_000_000).prop_map(|ms| Move::Jump { ms }),
        1 => any::<bool>().prop_map(|boot| Move::Restart { boot }),
        24 => (at.clone(), 0usize..4).prop_map(|(lease, usage)| Move::EndWell { lease, usage }),
        8 => (at.clone(), 0usize..99, 0usize..4, prop::bool::weighted(0.1))
            .prop_map(|(lease, outcome, usage, stale)| Move::End { lease, outcome, usage, stale }),
        1 => (0u64..40, 0usize..99, 0usize..4)
            .prop_map(|(dispatch, outcome, usage)| Move::Stray { dispatch, outcome, usage }),
        8 => (at.clone(), 0usize..13, prop::bool::weighted(0.9))
            .prop_map(|(question, answer, offered)| Move::Answer { question, answer, offered }),
        3 => wishes().prop_map(|wish| Move::Say { wish }),
        1 => (0u8..4).prop_map(|text| Move::Goal { text }),
        1 => (0usize..3, 0u64..4, prop::bool::weighted(0.1), 0u32..7, 0u64..30_000_000).prop_map(
            |(checkout, tip, lost, slots, spent)| Move::World { checkout, tip, lost, slots, spent }
        ),
    ]
}

/// A night of at most `most` moves.
pub fn night(most: usize) -> impl Strategy<Value = Vec<Move>> {
    proptest::collection::vec(one(), 1..most)
}
