//! Owns the two clocks of the shell: wall time, which may step, and awake time, which stands still in
//! suspend. It must not decide what a step means; the core does.

use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{SystemTime, UNIX_EPOCH};

use devloop_core::units::{AwakeMs, MAX_NUMBER, WallMs};

use crate::store::identity;

/// Where the shell reads time from.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since 1970-01-01 UTC.
    fn wall(&self) -> WallMs;
    /// Milliseconds awake since this boot, with the boot.
    fn awake(&self) -> AwakeMs;
}

/// The clocks of the machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    boot: u64,
}

impl SystemClock {
    /// Reads the boot id once; it cannot change while this process lives.
    pub fn new() -> Self {
        SystemClock { boot: boot_number(&identity::boot_id()) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> WallMs {
        WallMs(system_wall_ms())
    }

    fn awake(&self) -> AwakeMs {
        AwakeMs { boot: self.boot, ms: awake_ms() }
    }
}

/// A clock that moves only when a test says so.
#[derive(Debug)]
pub struct TestClock {
    now: Mutex<(WallMs, AwakeMs)>,
}

impl TestClock {
    /// Starts at these moments.
    pub fn new(wall: WallMs, awake: AwakeMs) -> Self {
        TestClock { now: Mutex::new((wall, awake)) }
    }

    /// Both clocks go on by the same time.
    pub fn advance(&self, ms: u64) {
        self.change(|(wall, awake)| (wall.plus(ms), AwakeMs { ms: awake.ms.saturating_add(ms), ..awake }));
    }

    /// The machine sleeps: only wall time goes on.
    pub fn suspend(&self, ms: u64) {
        self.change(|(wall, awake)| (wall.plus(ms), awake));
    }

    /// Somebody sets the wall clock.
    pub fn set_wall(&self, to: WallMs) {
        self.change(|(_, awake)| (to, awake));
    }

    /// The machine starts again: another boot, awake time from zero.
    pub fn reboot(&self, boot: u64) {
        self.change(|(wall, _)| (wall, AwakeMs { boot, ms: 0 }));
    }

    fn change(&self, to: impl FnOnce((WallMs, AwakeMs)) -> (WallMs, AwakeMs)) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = to(*now);
    }

    fn read(&self) -> (WallMs, AwakeMs) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for TestClock {
    fn wall(&self) -> WallMs {
        self.read().0
    }

    fn awake(&self) -> AwakeMs {
        self.read().1
    }
}

/// Wall time in milliseconds since 1970-01-01 UTC; 0 before it.
pub fn system_wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(MAX_NUMBER).min(MAX_NUMBER)
}

/// The boot as a number of at most 53 bits: the leading bits of its id, which is random already. 0 without
/// an id.
pub fn boot_number(boot_id: &str) -> u64 {
    let digits = boot_id.chars().filter_map(|c| c.to_digit(16)).take(14);
    // 14 hex digits are 56 bits; the three lowest go.
    digits.fold(0, |number, digit| number << 4 | u64::from(digit)) >> 3
}

#[cfg(unix)]
fn awake_ms() -> u64 {
    // CLOCK_MONOTONIC stands still in suspend on Linux; CLOCK_BOOTTIME would not.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let millis = u64::try_from(now.tv_nsec / 1_000_000).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(millis).min(MAX_NUMBER)
}

#[cfg(not(unix))]
fn awake_ms() -> u64 {
    // No clock shared by processes in std here: awake time counts from the first question of this process.
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_number_fits_a_document_and_tells_boots_apart() {
        let check = |id: &str, expect: u64| assert_eq!(boot_number(id), expect);
        check("", 0);
        check("ffffffff-ffff-ffff-ffff-ffffffffffff", MAX_NUMBER);
        check("00000000-0000-0800-0000-000000000000", 1);
        assert_ne!(boot_number("4b7a1d2e-0001-4c"), boot_number("4b7a1d2e-0002-4c"));
    }

    #[test]
    fn the_system_clock_reads_both_clocks() {
        let clock = SystemClock::new();
        let (first, second) = (clock.awake(), clock.awake());
        assert_eq!(first.boot, second.boot);
        assert!(second.ms >= first.ms);
        assert!(clock.wall() > WallMs(1_577_836_800_000), "later than 2020");
    }

    #[test]
    fn the_test_clock_steps_one_clock_at_a_time() {
        let clock = TestClock::new(WallMs(1000), AwakeMs { boot: 7, ms: 10 });
        clock.advance(5);
        clock.suspend(36_000_000);
        assert_eq!((clock.wall(), clock.awake()), (WallMs(36_001_005), AwakeMs { boot: 7, ms: 15 }));
        clock.set_wall(WallMs(3));
        clock.reboot(8);
        assert_eq!((clock.wall(), clock.awake()), (WallMs(3), AwakeMs { boot: 8, ms: 0 }));
    }
}
