//! One axis of time for a whole recording: awake time, over reboots too. It must not read any clock.

use devloop_core::observation::Stamp;
use devloop_core::units::{AwakeMs, MAX_NUMBER, WallMs};

use crate::recording::Recorded;

/// Parts of a millisecond, so that inputs of the same millisecond keep their order.
const PARTS: u64 = 1_000;

/// A moment of the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) const START: Moment = Moment(0);

    /// A distance later.
    pub(crate) fn plus(self, span: Span) -> Moment {
        Moment(self.0.saturating_add(span.0))
    }

    /// The distance from an earlier moment; zero when it is later.
    pub(crate) fn since(self, earlier: Moment) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// The very next moment.
    pub(crate) fn next(self) -> Moment {
        Moment(self.0.saturating_add(1))
    }
}

/// A distance of two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(u64);

impl Span {
    pub(crate) fn of_ms(ms: u64) -> Span {
        Span(ms.saturating_mul(PARTS))
    }

    pub(crate) fn ms(self) -> u64 {
        self.0 / PARTS
    }
}

/// Gives every input its moment. Awake time counts; between two boots, which do not compare, wall time does.
pub(crate) fn tell_time(inputs: &mut [Recorded]) {
    let mut ms = 0_u64;
    let mut at = Moment::START;
    for i in 0..inputs.len() {
        if i > 0 {
            let (before, after) = (inputs[i - 1].stamp(), inputs[i].stamp());
            let passed = if before.awake.boot == after.awake.boot {
                after.awake.ms.saturating_sub(before.awake.ms)
            } else {
                after.wall.since(before.wall)
            };
            ms = ms.saturating_add(passed);
            at = at.next().max(Moment::START.plus(Span::of_ms(ms)));
        }
        inputs[i].at = at;
    }
}

/// The last input at or before a moment; the first one before all.
pub(crate) fn last_before(inputs: &[Recorded], at: Moment) -> usize {
    inputs.partition_point(|recorded| recorded.at <= at).saturating_sub(1)
}

/// The last look of a loop at or before a moment; else the first look at all.
pub(crate) fn look_before(inputs: &[Recorded], at: Moment) -> Option<usize> {
    let up_to = inputs.partition_point(|recorded| recorded.at <= at);
    let is_look = |i: &usize| inputs[*i].look().is_some();
    (0..up_to).rev().find(is_look).or_else(|| (up_to..inputs.len()).find(is_look))
}

/// What both clocks show at a moment: what was recorded last, and what passed since.
pub(crate) fn stamp_at(inputs: &[Recorded], at: Moment, who: &Stamp) -> Stamp {
    let last = &inputs[last_before(inputs, at)];
    let passed = at.since(last.at).ms();
    let (wall, awake) = (last.stamp().wall, last.stamp().awake);
    Stamp {
        wall: WallMs(wall.0.saturating_add(passed).min(MAX_NUMBER)),
        awake: AwakeMs { ms: awake.ms.saturating_add(passed).min(MAX_NUMBER), ..awake },
        owner: who.owner.clone(),
    }
}

/// The moment `ms` after `at`, when that is later.
pub(crate) fn later(at: Moment, ms: u64) -> Option<Moment> {
    (ms > 0).then(|| at.plus(Span::of_ms(ms)))
}
