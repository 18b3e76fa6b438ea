//! The two clocks: wall time for days and quotas, awake time for deadlines. Steps are recorded, days follow
//! late.

use alloc::vec::Vec;

use crate::decide::Decision;
use crate::draft::{Draft, View};
use crate::event::Event;
use crate::reason::Reason;
use crate::settle::lift_caps;
use crate::state::Clock;

/// A difference between the clocks above this is a step: 5 minutes.
pub const STEP_MS: u64 = 5 * 60_000;
/// A day seen after a step counts when seen again this much later: 60 s awake.
pub const DAY_AGREES_MS: u64 = 60_000;

/// Records what the clocks did, if it matters.
pub(crate) fn observe(view: &View<'_>) -> Option<Decision> {
    let (clock, stamp, now) = (&view.state.clock, view.stamp, view.now);
    let moved = |events: Vec<Event>| Some(Draft::of(events).done(Reason::ClockMoved));
    let (wall, awake, active) = (stamp.wall, stamp.awake, now.active);
    let unread = *clock == Clock::default() && (wall, awake) != (clock.wall, clock.awake);
    if unread || clock.awake.boot != awake.boot || awake.ms < clock.awake.ms {
        return moved(alloc::vec![Event::ClockAnchored { wall, awake, active }]);
    }
    let expected = clock.wall.plus(awake.ms - clock.awake.ms);
    if wall.0.abs_diff(expected.0) > STEP_MS {
        return moved(alloc::vec![Event::ClockStepped { wall, awake, active }]);
    }
    let day = wall.day();
    // The day that waits to be confirmed is not today's any more: today's waits instead.
    if clock.pending_day.is_some_and(|pending| pending.day != day) {
        return moved(alloc::vec![Event::ClockStepped { wall, awake, active }]);
    }
    let follows = match clock.pending_day {
        Some(pending) => active.since(pending.seen_at) >= DAY_AGREES_MS,
        None => day > clock.day,
    };
    if follows {
        let mut events = alloc::vec![Event::DayRolled { day }];
        events.extend(lift_caps(view));
        return moved(events);
    }
    None
}
