//! Leases of this very process that nobody works on: a disk that failed between the commit of a decision and
//! its effects lost them. They are reported as what they are; nothing is started again here.

use std::collections::BTreeSet;

use devloop_core::ids::DispatchId;
use devloop_core::report::{FailureClass, Outcome, Report};
use devloop_core::state::{Lease, LoopState, Owner};

/// What nobody worked on at the last look.
#[derive(Debug, Default)]
pub struct Lost(BTreeSet<DispatchId>);

impl Lost {
    /// Reports of leases of `me` that were unknown at this look and at the one before: at a single one a
    /// report may just be on its way.
    pub fn reports(
        &mut self,
        state: &LoopState,
        me: &Owner,
        seen: &[Report],
        known: impl Fn(&DispatchId) -> bool,
    ) -> Vec<Report> {
        let told = |dispatch: &DispatchId| seen.iter().any(|report| report.dispatch == *dispatch);
        let mine = state.leases.iter().filter(|(_, lease)| lease.owner == *me);
        let nobody: Vec<(DispatchId, &Lease)> =
            mine.map(|(dispatch, lease)| (*dispatch, lease)).filter(|(d, _)| !known(d) && !told(d)).collect();
        let lost = nobody.iter().filter(|(dispatch, _)| self.0.contains(dispatch));
        let reports = lost.map(|(dispatch, lease)| report(*dispatch, lease)).collect();
        self.0 = nobody.into_iter().map(|(dispatch, _)| dispatch).collect();
        reports
    }
}

fn report(dispatch: DispatchId, lease: &Lease) -> Report {
    let detail = "the disk failed between its record and its start; it was never started".to_owned();
    let outcome = match lease.op.is_model() {
        // Nobody was reached: the money goes back.
        true => Outcome::Refused { detail },
        false => Outcome::Failed { class: FailureClass::Machine, detail },
    };
    Report { dispatch, epoch: lease.epoch, usage: None, outcome }
}
