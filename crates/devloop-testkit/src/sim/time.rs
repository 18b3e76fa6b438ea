//! Owns the world's clocks: wall time that steps, awake time that stands still in suspend and starts anew
//! with a boot, and the true time that only the world knows. It decides nothing.

use devloop_core::units::{AwakeMs, DAY_MS, WallMs};

use super::draw::Draw;

/// The clocks of one machine.
#[derive(Clone, Debug)]
pub struct Time {
    wall: u64,
    boot: u64,
    awake: u64,
    /// Milliseconds that machines were awake, over all boots: by this the world's own things end.
    pub lived: u64,
}

impl Time {
    /// Some evening.
    #[must_use]
    pub fn new(draw: &mut Draw) -> Time {
        let day = 20_400 * DAY_MS;
        let evening = draw.pick(&[18 * 3_600_000, 23 * 3_600_000 + 3_000_000, DAY_MS - 5_000, 60_000]);
        Time { wall: day + evening, boot: 1, awake: 1_000_000, lived: 0 }
    }

    /// Wall time.
    #[must_use]
    pub fn wall(&self) -> WallMs {
        WallMs(self.wall)
    }

    /// Awake time.
    #[must_use]
    pub fn awake(&self) -> AwakeMs {
        AwakeMs { boot: self.boot, ms: self.awake }
    }

    /// The boot's number.
    #[must_use]
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// The machine is awake for that long.
    pub fn pass(&mut self, ms: u64) {
        self.wall += ms;
        self.awake += ms;
        self.lived += ms;
    }

    /// The machine sleeps.
    pub fn suspend(&mut self, ms: u64) {
        self.wall += ms;
    }

    /// Somebody sets the clock.
    pub fn set(&mut self, forward: bool, ms: u64) {
        self.wall = if forward { self.wall + ms } else { self.wall - ms.min(self.wall - DAY_MS) };
    }

    /// The machine starts anew; it was off for a while.
    pub fn reboot(&mut self, off_ms: u64) {
        self.boot += 1;
        self.awake = 20_000;
        self.wall += off_ms;
    }
}
