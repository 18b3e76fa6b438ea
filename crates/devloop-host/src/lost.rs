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

#[cfg(test)]
mod tests {
    use super::*;
    use devloop_core::basis::Basis;
    use devloop_core::hold::Subject;
    use devloop_core::state::Op;
    use devloop_core::units::{ActiveMs, UsdMicros};
    use devloop_wire::config_doc::Config;

    fn owner(instance: u64) -> Owner {
        Owner { host: "here".into(), boot: 1, pid: 2, started: 3, instance }
    }

    /// A state with leases: number, operation and the instance that took it.
    fn state(leases: &[(u64, Op, u64)]) -> LoopState {
        let mut state = LoopState::default();
        let basis = Basis::of_loop(&state, &Config::default().policy(), None);
        for (number, op, instance) in leases {
            let lease = Lease {
                op: *op,
                subject: Subject::Planning,
                route: None,
                who: None,
                epoch: 4,
                owner: owner(*instance),
                started_at: ActiveMs(0),
                deadline: ActiveMs(1),
                reserve: UsdMicros(0),
                basis: basis.clone(),
                worktree: None,
                resume_to: None,
                ending: None,
            };
            state.leases.insert(DispatchId(*number), lease);
        }
        state
    }

    #[test]
    fn a_lease_that_nobody_works_on_is_reported_at_the_second_look_as_what_it_is() {
        let (me, mut lost) = (owner(1), Lost::default());
        let state = state(&[(1, Op::Plan, 1), (2, Op::Commit, 1), (3, Op::Work, 1), (4, Op::Work, 9)]);
        let flies = |dispatch: &DispatchId| *dispatch == DispatchId(3);
        assert_eq!(lost.reports(&state, &me, &[], flies), [], "a report may be on its way");
        let found = lost.reports(&state, &me, &[], flies);
        let told: Vec<(u64, u32, bool)> = found
            .iter()
            .map(|r| (r.dispatch.0, r.epoch, matches!(r.outcome, Outcome::Refused { .. })))
            .collect();
        // A model was not reached; an operation of the host failed with the machine; d3 flies, d4 is
        // another's.
        assert_eq!(told, [(1, 4, true), (2, 4, false)]);
        let class = |report: &Report| match &report.outcome {
            Outcome::Failed { class, .. } => Some(class.clone()),
            _ => None,
        };
        assert_eq!(class(&found[1]), Some(FailureClass::Machine));
        assert!(found.iter().all(|report| report.usage.is_none()), "nothing was used");
    }

    #[test]
    fn one_that_is_known_or_told_again_in_between_is_not_lost() {
        let (me, mut lost) = (owner(1), Lost::default());
        let state = state(&[(1, Op::Plan, 1)]);
        let (nobody, flying) = (|_: &DispatchId| false, |_: &DispatchId| true);
        assert_eq!(lost.reports(&state, &me, &[], nobody), []);
        assert_eq!(lost.reports(&state, &me, &[], flying), [], "it flies after all");
        assert_eq!(lost.reports(&state, &me, &[], nobody), [], "counted from the start again");
        let outcome = Outcome::Refused { detail: "its own report".into() };
        let own = Report { dispatch: DispatchId(1), epoch: 4, usage: None, outcome };
        assert_eq!(lost.reports(&state, &me, std::slice::from_ref(&own), nobody), []);
        assert_eq!(lost.reports(&LoopState::default(), &me, &[], nobody), [], "settled in between");
    }
}
