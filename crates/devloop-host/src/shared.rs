//! The project's part of the user's ledger: what others have committed, and what this project adds. It must
//! not decide.

use devloop_core::decide::Decision;
use devloop_core::event::Event;
use devloop_core::ids::DispatchId;
use devloop_core::ledger::Certainty as Sure;
use devloop_core::observation::Others;
use devloop_core::state::LoopState;
use devloop_core::units::{MAX_NUMBER, UsdMicros};

use crate::error::HostError;
use crate::store::ledger::{Certainty, Entry, Ledger, SHORTEN_BYTES};
use crate::store::{Armed, Identity, LedgerGuard};

fn project(armed: &Armed) -> String {
    armed.root().to_string_lossy().into_owned()
}

/// What the other projects of this user have spent and set aside, and the slots they hold. Of several days
/// that may be today for this project the dearest counts.
#[must_use]
pub fn others(ledger: &Ledger, armed: &Armed, days: impl IntoIterator<Item = u64>) -> Others {
    let (mut money, mut slots, mut waiting) = (0, 0, 0);
    for day in days {
        let sums = ledger.sums(day, Some(&project(armed)));
        money = sums.spent_usd_micros.saturating_add(sums.reserved_usd_micros).min(MAX_NUMBER).max(money);
        slots = sums.slots.max(slots);
        waiting = sums.waiting.max(waiting);
    }
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Others { committed_today: UsdMicros(money), slots: count(slots), waiting: count(waiting) }
}

/// Records what the decisions reserved and settled.
///
/// # Errors
/// When the ledger cannot be written; the project's journal stays the authority and completes it at the next
/// start.
pub fn record(
    ledger: &mut Ledger,
    guard: &LedgerGuard<'_>,
    armed: &Armed,
    me: &Identity,
    state: &LoopState,
    decisions: &[Decision],
) -> Result<(), HostError> {
    let touched = decisions.iter().flat_map(|d| &d.events).filter_map(touches);
    let mut entries: Vec<Entry> = touched.map(|dispatch| entry(armed, me, state, dispatch)).collect();
    // The newest of a key counts, so a dispatch that was touched twice is written once.
    entries.dedup_by(|a, b| a.dispatch == b.dispatch);
    ledger.record(guard, &entries)?;
    ledger.shorten(guard, state.clock.day.0, SHORTEN_BYTES)?;
    Ok(())
}

/// The name of the line that says whether a project waits for a slot; no dispatch has it.
const WAITS: &str = "slot";

/// Says whether the project has no worker and waits for a slot that others have, so that they leave it the
/// next one.
///
/// # Errors
/// When the ledger cannot be written.
pub fn say_waiting(
    ledger: &mut Ledger,
    guard: &LedgerGuard<'_>,
    armed: &Armed,
    me: &Identity,
    day: u64,
    waiting: bool,
) -> Result<(), HostError> {
    let own = project(armed);
    let said = ledger.entries().find(|entry| entry.project == own && entry.dispatch == WAITS);
    if said.is_some_and(|entry| entry.waiting) == waiting {
        return Ok(());
    }
    let entry = Entry {
        project: own,
        dispatch: WAITS.to_owned(),
        certainty: Certainty::Void,
        usd_micros: 0,
        day,
        slot: false,
        waiting,
        owner: waiting.then(|| me.clone()),
        route: None,
        op: None,
        other: serde_json::Map::new(),
    };
    ledger.record(guard, &[entry])?;
    Ok(())
}

/// Makes the ledger agree with the project's state, at start.
///
/// # Errors
/// When the ledger cannot be written.
pub fn complete(
    ledger: &mut Ledger,
    guard: &LedgerGuard<'_>,
    armed: &Armed,
    me: &Identity,
    state: &LoopState,
) -> Result<(), HostError> {
    let all: Vec<Entry> = state.ledger.entries.keys().map(|d| entry(armed, me, state, *d)).collect();
    ledger.complete(guard, &project(armed), &all)?;
    Ok(())
}

fn touches(event: &Event) -> Option<DispatchId> {
    match event {
        Event::LeaseTaken { dispatch, lease } if lease.op.is_model() => Some(*dispatch),
        Event::UsageSettled { dispatch, .. }
        | Event::DispatchRefused { dispatch }
        | Event::DispatchOrphaned { dispatch }
        | Event::LeaseEnded { dispatch, .. } => Some(*dispatch),
        _ => None,
    }
}

/// The entry of a dispatch as the state has it; void when its money was returned.
fn entry(armed: &Armed, me: &Identity, state: &LoopState, dispatch: DispatchId) -> Entry {
    let booked = state.ledger.entries.get(&dispatch);
    let slot = state.leases.get(&dispatch).is_some_and(|lease| lease.op.is_model());
    Entry {
        project: project(armed),
        dispatch: dispatch.to_string(),
        certainty: match booked.map(|entry| entry.certainty) {
            None => Certainty::Void,
            Some(Sure::Reserved) => Certainty::Reserved,
            Some(Sure::Assumed) => Certainty::Assumed,
            Some(Sure::Priced) => Certainty::Priced,
            Some(Sure::Measured) => Certainty::Measured,
        },
        usd_micros: booked.map_or(0, |entry| entry.amount.0),
        day: booked.map_or(state.clock.day.0, |entry| entry.day.0),
        slot,
        waiting: false,
        owner: slot.then(|| me.clone()),
        route: booked.map(|entry| entry.route.to_string()),
        op: booked.map(|entry| entry.op.key().to_string()),
        other: serde_json::Map::new(),
    }
}
