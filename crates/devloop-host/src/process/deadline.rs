//! Deadlines in awake time and the token that cancels a child. A suspended machine does not use up a
//! deadline: `Instant` reads the monotonic clock, which stands still during suspend.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A moment in awake time, or never.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// `ms` awake milliseconds from now; `None` never passes. A span too long to represent never passes.
    pub fn after(ms: Option<u64>) -> Self {
        Deadline(ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms))))
    }

    /// Has it passed?
    pub fn passed(&self) -> bool {
        self.0.is_some_and(|at| Instant::now() >= at)
    }

    /// How long to sleep at most before asking again, never more than `floor`.
    pub fn wait_at_most(&self, floor: Duration) -> Duration {
        match self.0 {
            Some(at) => at.saturating_duration_since(Instant::now()).min(floor),
            None => floor,
        }
    }
}

/// Asks a running child to stop. Clones share one flag; it never goes back.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels; seen by the waiting side within 25 ms.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Was it cancelled?
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_of_nothing_never_passes_and_one_of_zero_has_passed() {
        assert!(!Deadline::after(None).passed());
        assert!(!Deadline::after(Some(u64::MAX)).passed());
        assert!(Deadline::after(Some(0)).passed());
        let step = Duration::from_millis(25);
        assert_eq!(Deadline::after(None).wait_at_most(step), step);
        assert_eq!(Deadline::after(Some(0)).wait_at_most(step), Duration::ZERO);
    }

    #[test]
    fn clones_of_a_token_share_the_flag() {
        let token = CancelToken::new();
        let other = token.clone();
        assert!(!other.is_cancelled());
        token.cancel();
        assert!(other.is_cancelled());
    }
}
