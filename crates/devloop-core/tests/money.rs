//! What reports say of their use, row by row: whatever they lead to, in whatever order they come, the money
//! and the tokens end up in the ledger once.

use devloop_core::ids::DispatchId;
use devloop_core::ledger::Certainty;
use devloop_core::policy::Backend;
use devloop_core::report::{Outcome, Report, Usage, UsageBasis, UsageSource};
use devloop_core::units::{Tokens, UsdMicros};
use devloop_testkit::world::{World, policy, two};

const SPENT: UsdMicros = UsdMicros(40_000);
const RESERVE: UsdMicros = UsdMicros(100_000);

fn tokens(output: u64) -> Tokens {
    Tokens { output, ..Tokens::default() }
}

fn used(output: u64, cost: Option<UsdMicros>) -> Option<Usage> {
    Some(Usage::per_dispatch(UsageSource::Result, tokens(output), cost))
}

/// Numbers of a session record.
fn covering(output: u64, basis: UsageBasis) -> Option<Usage> {
    Some(Usage { tokens: tokens(output), cost: Some(SPENT), source: UsageSource::SessionRecords, basis })
}

fn part() -> Usage {
    Usage { tokens: tokens(7), cost: None, source: UsageSource::Result, basis: UsageBasis::Partial }
}

fn refused() -> Outcome {
    Outcome::Refused { detail: "no binary".into() }
}

fn silent() -> Outcome {
    Outcome::NoResult { detail: String::new() }
}

/// A loop with one running work dispatch and nothing reported yet.
fn working() -> (World, DispatchId) {
    let mut world = World::new(two(), policy(Backend::Scripted));
    for _ in 0..2 {
        world.tick();
    }
    world.queue.clear();
    let running: Vec<DispatchId> = world.state.leases.keys().copied().collect();
    let [dispatch] = running[..] else { panic!("one dispatch runs: {running:?}") };
    (world, dispatch)
}

/// Reports by epoch (the lease has 1), use and outcome, one tick each; then the dispatch's entry.
type Row = (&'static str, Vec<(u32, Option<Usage>, Outcome)>, (Certainty, UsdMicros, u64));

fn rows() -> Vec<Row> {
    let old = |usage| (0, usage, silent());
    vec![
        ("money of an old epoch", vec![old(used(0, Some(SPENT)))], (Certainty::Measured, SPENT, 0)),
        (
            "a refusal that was paid for",
            vec![(1, used(7, Some(SPENT)), refused())],
            (Certainty::Measured, SPENT, 7),
        ),
        (
            "a refusal after money of an old epoch",
            vec![old(used(7, Some(SPENT))), (1, None, refused())],
            (Certainty::Measured, SPENT, 7),
        ),
        (
            "tokens after silence",
            vec![(1, None, silent()), old(used(7, None))],
            (Certainty::Assumed, RESERVE, 7),
        ),
        (
            "money alone after tokens",
            vec![old(used(7, None)), (1, used(0, Some(SPENT)), silent())],
            (Certainty::Measured, SPENT, 7),
        ),
        (
            "the total of a resumed session",
            vec![(1, covering(7, UsageBasis::Cumulative), silent())],
            (Certainty::Assumed, RESERVE, 0),
        ),
        (
            "the total of a session, then what the dispatch used",
            vec![(1, covering(900, UsageBasis::Cumulative), silent()), old(used(7, Some(SPENT)))],
            (Certainty::Measured, SPENT, 7),
        ),
        (
            "numbers that cover nobody knows what",
            vec![(1, covering(7, UsageBasis::Unknown), silent())],
            (Certainty::Assumed, RESERVE, 0),
        ),
        (
            "a part below the reserve",
            vec![(1, covering(7, UsageBasis::Partial), silent())],
            (Certainty::Assumed, RESERVE, 7),
        ),
        (
            "a part above the reserve",
            vec![(1, Some(Usage { cost: Some(UsdMicros(170_000)), ..part() }), silent())],
            (Certainty::Assumed, UsdMicros(170_000), 7),
        ),
        (
            "measured twice",
            vec![old(used(7, Some(SPENT))), (1, used(9, Some(UsdMicros(1))), silent())],
            (Certainty::Measured, SPENT, 7),
        ),
    ]
}

#[test]
fn usage_is_booked_once_and_never_lost() {
    for (name, reports, expected) in rows() {
        let (mut world, dispatch) = working();
        for (epoch, usage, outcome) in reports {
            world.queue = vec![Report { dispatch, epoch, usage, outcome }];
            world.tick();
        }
        let entry = world.state.ledger.entries.get(&dispatch).unwrap_or_else(|| panic!("{name}: no entry"));
        assert_eq!((entry.certainty, entry.amount, entry.tokens.total()), expected, "{name}");
    }
}

#[test]
fn money_of_a_dispatch_that_was_refused_counts_when_it_comes_late() {
    let (mut world, dispatch) = working();
    for (usage, outcome) in
        [(None, refused()), (used(7, Some(SPENT)), silent()), (used(7, Some(SPENT)), silent())]
    {
        world.queue = vec![Report { dispatch, epoch: 1, usage, outcome }];
        world.tick();
    }
    assert!(!world.state.ledger.entries.contains_key(&dispatch), "a refusal sets nothing aside");
    let booked: Vec<UsdMicros> = world.state.ledger.unattributed.values().map(|u| u.amount).collect();
    assert_eq!(booked, [SPENT], "once");
}
