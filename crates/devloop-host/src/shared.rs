//! The project's part of the user's ledger: what others have committed, and what this project adds. It must
//! not decide.

use std::collections::BTreeSet;
use std::path::Path;

use devloop_core::decide::Decision;
use devloop_core::event::Event;
use devloop_core::hold::Subject;
use devloop_core::ids::DispatchId;
use devloop_core::ledger::Certainty as Sure;
use devloop_core::observation::{Observation, OrphanSeen, Others, ProcessTree};
use devloop_core::obstacle::Obstacle;
use devloop_core::policy::Policy;
use devloop_core::report::Report;
use devloop_core::state::LoopState;
use devloop_core::units::{MAX_NUMBER, UsdMicros};
use devloop_core::wait::obstacles;

use crate::effects::run_record;
use crate::error::HostError;
use crate::fair;
use crate::process::tree::{self, TreeRecord};
use crate::store::ledger::{Certainty, Entry, Ledger, SHORTEN_BYTES};
use crate::store::{Armed, Identity, LedgerGuard};

fn project(armed: &Armed) -> String {
    armed.root().to_string_lossy().into_owned()
}

/// What a look at the ledger is made for.
#[derive(Debug, Clone, Copy)]
pub struct Looker {
    /// The slots that there are, as this project's configuration says.
    pub all: u32,
    /// Those it holds and keeps: what ended by now is not among them.
    pub kept: u32,
    /// Wall time in milliseconds since 1970.
    pub now_ms: u64,
}

/// What the other projects of this user have spent and set aside, and the slots that are theirs: those they
/// hold, and those that are left to them ([`fair`]). Of several days that may be today for this project the
/// dearest counts.
#[must_use]
pub fn others(ledger: &Ledger, armed: &Armed, days: impl IntoIterator<Item = u64>, looker: Looker) -> Others {
    let own = project(armed);
    let money = days.into_iter().map(|day| ledger.sums(day, Some(&own)));
    let committed = money.map(|sums| sums.spent_usd_micros.saturating_add(sums.reserved_usd_micros));
    let committed = UsdMicros(committed.max().unwrap_or(0).min(MAX_NUMBER));
    let mut shares = ledger.shares(outlives);
    let mine = shares.remove(&own).and_then(|share| share.claim);
    let slots = fair::left_to_others(looker, &own, mine, &shares);
    Others { committed_today: committed, slots }
}

/// Whether something of a dispatch runs although the loop that started it is dead: it works on until the next
/// loop of its project ends it.
fn outlives(entry: &Entry) -> bool {
    let Ok(dispatch) = DispatchId::parse(&entry.dispatch) else { return false };
    let boot = entry.owner.as_ref().map(|owner| owner.boot.clone()).filter(|boot| !boot.is_empty());
    let marker = run_record::marker_at(Path::new(&entry.project), dispatch);
    !tree::alive(&TreeRecord { boot, leader: None, marker }).is_empty()
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

/// The name of the line that says what a project waits for; no dispatch has it.
const CLAIM: &str = "slot";

/// Says how many more slots the project would take, so that they are left to it when its turn comes; `took`
/// is whether this beat took one.
///
/// # Errors
/// When the ledger cannot be written.
pub fn claim(
    ledger: &mut Ledger,
    guard: &LedgerGuard<'_>,
    armed: &Armed,
    me: &Identity,
    seen: &Observation,
    (wants, took): (u32, bool),
) -> Result<(), HostError> {
    let own = project(armed);
    let said = ledger.entries().find(|entry| entry.project == own && entry.dispatch == CLAIM);
    // A loop that started again speaks for itself.
    let before = said.filter(|entry| entry.owner.as_ref() == Some(me)).and_then(|entry| entry.claim);
    let claim = fair::renewed(before, wants, took, seen.stamp.wall.0);
    if before == claim && (claim.is_some() || said.is_none_or(|entry| entry.claim.is_none())) {
        return Ok(());
    }
    let entry = Entry {
        project: own,
        dispatch: CLAIM.to_owned(),
        certainty: Certainty::Void,
        usd_micros: 0,
        day: seen.stamp.wall.day().0,
        slot: false,
        claim,
        owner: claim.is_some().then(|| me.clone()),
        route: None,
        op: None,
        other: serde_json::Map::new(),
    };
    ledger.record(guard, &[entry])?;
    Ok(())
}

/// How many more slots the project would take if there were enough: what waits for one now, and for nothing
/// else.
#[must_use]
pub fn wanted(state: &LoopState, policy: &Policy, seen: &Observation) -> u32 {
    let room = policy.limits.parallel_project.max(1).saturating_sub(state.slots_used());
    if room == 0 || seen.others.slots == 0 {
        return 0;
    }
    // What would wait for its money or its route all the same leaves the slot to others.
    let mut alone = seen.clone();
    alone.others.slots = 0;
    let kept: BTreeSet<Subject> =
        obstacles(state, policy, &alone).into_iter().map(|(subject, _)| subject).collect();
    let waits = obstacles(state, policy, seen).into_iter().filter(|(subject, obstacle)| {
        matches!(obstacle, Obstacle::Slot | Obstacle::SharedSlot) && !kept.contains(subject)
    });
    u32::try_from(waits.count()).unwrap_or(u32::MAX).min(room)
}

/// Slots that the project holds and keeps: a dispatch whose report is there, or whose processes are proven
/// dead, gives its slot back in this very beat, and whose turn it is then is to be asked again.
#[must_use]
pub fn kept(state: &LoopState, reports: &[Report], orphans: &[OrphanSeen]) -> u32 {
    let ends = |dispatch: &DispatchId, epoch: u32| {
        let reported = reports.iter().any(|report| (report.dispatch, report.epoch) == (*dispatch, epoch));
        let dead = |orphan: &OrphanSeen| orphan.dispatch == *dispatch && orphan.tree == ProcessTree::Dead;
        reported || orphans.iter().any(dead)
    };
    let held =
        state.leases.iter().filter(|(dispatch, lease)| lease.op.is_model() && !ends(dispatch, lease.epoch));
    u32::try_from(held.count()).unwrap_or(u32::MAX)
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
        claim: None,
        owner: slot.then(|| me.clone()),
        route: booked.map(|entry| entry.route.to_string()),
        op: booked.map(|entry| entry.op.key().to_string()),
        other: serde_json::Map::new(),
    }
}
