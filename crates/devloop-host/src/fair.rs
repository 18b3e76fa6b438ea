//! Whose turn it is: how free slots are shared among the projects of a user that want one. Figures in,
//! figures out; it must not read the ledger or a clock.
//!
//! A free slot goes to the project that has the fewest among those that want one; of several with as few, to
//! the one that has waited longest for its next; of several that began to wait in the same millisecond, to
//! the first by its path. Nothing is taken from anybody: shares get even as slots are given back.

use std::collections::BTreeMap;

use crate::shared::Looker;
use crate::store::ledger::{Claim, Share};

/// A project that did not say for so long that it still waits is passed over, in milliseconds: its loop may
/// be suspended, and the slot would be nobody's.
pub const CLAIM_HOLDS_MS: u64 = 120_000;
/// A claim that did not change is said again after this, in milliseconds.
const SAY_AGAIN_MS: u64 = 30_000;

/// One project of the count.
struct Turn<'a> {
    slots: u32,
    since_ms: u64,
    project: &'a str,
    wants: u32,
}

/// How many of the slots are others': what they hold, and what is left to them of what is free. The rest is
/// this project's, which is taken to want whatever it can get.
pub(crate) fn left_to_others(
    looker: Looker,
    own: &str,
    claim: Option<Claim>,
    others: &BTreeMap<String, Share>,
) -> u32 {
    let all = looker.all.max(1);
    let held = others.values().fold(0u32, |sum, share| sum.saturating_add(share.slots));
    let free = all.saturating_sub(held).saturating_sub(looker.kept);
    let waits = |claim: &Claim| looker.now_ms.abs_diff(claim.said_ms) <= CLAIM_HOLDS_MS;
    let theirs = others.iter().filter_map(|(project, share)| {
        let claim = share.claim.filter(waits)?;
        Some(Turn { slots: share.slots, since_ms: claim.since_ms, project, wants: claim.slots })
    });
    // Who never said that it waits has only begun to.
    let since_ms = claim.map_or(u64::MAX, |claim| claim.since_ms);
    let mine = Turn { slots: looker.kept, since_ms, project: own, wants: free };
    let mut turns: Vec<Turn<'_>> = theirs.chain(std::iter::once(mine)).collect();
    let mut got = 0;
    for _ in 0..free {
        let waiting = turns.iter_mut().filter(|turn| turn.wants > 0);
        let Some(next) = waiting.min_by_key(|turn| (turn.slots, turn.since_ms, turn.project)) else { break };
        next.slots += 1;
        next.wants -= 1;
        // Its next one it has waited for since now.
        next.since_ms = looker.now_ms;
        got += u32::from(next.project == own);
    }
    all.saturating_sub(looker.kept).saturating_sub(got).max(held)
}

/// What is to be said of a claim at `now_ms`, after what was said `before`: it waits since it began to, or
/// since this beat, which `took` one. What is nothing new is not said again too soon.
pub(crate) fn renewed(before: Option<Claim>, wants: u32, took: bool, now_ms: u64) -> Option<Claim> {
    if wants == 0 {
        return None;
    }
    let since = before.map(|claim| claim.since_ms).filter(|_| !took);
    // A clock that was set back makes nobody wait longer.
    let since_ms = since.map_or(now_ms, |since| since.min(now_ms));
    let said = before.filter(|before| {
        (before.slots, before.since_ms) == (wants, since_ms) && now_ms.abs_diff(before.said_ms) < SAY_AGAIN_MS
    });
    Some(said.unwrap_or(Claim { slots: wants, since_ms, said_ms: now_ms }))
}

#[cfg(test)]
#[path = "fair/tests.rs"]
mod tests;
