//! Reports of this process, kept until their leases are over: a full disk may have refused to park one. It
//! reads no file and decides nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use devloop_core::report::Report;

/// What the effects of this process told, in the order in which it came.
#[derive(Debug, Default)]
pub struct Told(Mutex<Vec<Report>>);

impl Told {
    fn reports(&self) -> MutexGuard<'_, Vec<Report>> {
        // Every change is one push or one retain: a panic between them leaves the list valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a report.
    pub fn add(&self, report: Report) {
        self.reports().push(report);
    }

    /// Adds those that were not found parked.
    pub fn complete(&self, parked: &mut Vec<Report>) {
        for report in self.reports().iter() {
            if !parked.iter().any(|p| p.dispatch == report.dispatch && p.epoch == report.epoch) {
                parked.push(report.clone());
            }
        }
    }

    /// Forgets those of which nothing is awaited any more.
    pub fn forget(&self, is_settled: impl Fn(&Report) -> bool) {
        self.reports().retain(|report| !is_settled(report));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use devloop_core::ids::DispatchId;
    use devloop_core::report::Outcome;

    fn report(dispatch: u64, epoch: u32) -> Report {
        Report { dispatch: DispatchId(dispatch), epoch, usage: None, outcome: Outcome::CommitEmpty }
    }

    #[test]
    fn a_report_that_was_not_parked_is_seen_until_it_is_settled() {
        let told = Told::default();
        told.add(report(1, 1));
        told.add(report(2, 1));
        let mut seen = vec![report(1, 1)];
        told.complete(&mut seen);
        assert_eq!(seen, [report(1, 1), report(2, 1)], "none twice, none missing");
        told.forget(|r| r.dispatch == DispatchId(2));
        let mut seen = Vec::new();
        told.complete(&mut seen);
        assert_eq!(seen, [report(1, 1)]);
    }
}
