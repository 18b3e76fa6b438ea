//! Owns what runs: one flight per leased effect, models with processes of their own, and the reports that
//! come of them: once, twice, late or never. What a flight says is `outcome`'s.

use devloop_core::effect::Effect;
use devloop_core::ids::{DispatchId, Identity};
use devloop_core::observation::{OrphanSeen, ProcessTree};
use devloop_core::report::{FailureClass, Outcome, Report, Usage, UsageSource};
use devloop_core::state::LoopState;

use super::World;

/// How long the host lets a process live that was asked to end, in milliseconds.
const GRACE_MS: u64 = 30_000;

/// Something that runs.
#[derive(Clone, Debug)]
pub struct Flight {
    /// What.
    pub effect: Effect,
    /// When it ends, in lived milliseconds.
    pub ends: u64,
    /// Whether it ends because its time is over.
    pub at_deadline: bool,
    /// Whether it was asked to end.
    pub cancelled: bool,
    /// Whether its supervisor died: then it reports to nobody.
    pub lost: bool,
}

/// A report that comes later.
#[derive(Clone, Debug)]
pub struct Later {
    /// When, in lived milliseconds.
    pub at: u64,
    /// What.
    pub report: Report,
}

impl World {
    /// Starts a leased effect. One that is in flight already is left to run.
    pub(super) fn start(&mut self, effect: Effect) {
        let Some((dispatch, _)) = effect.lease() else { return };
        if self.flights.contains_key(&dispatch) {
            return;
        }
        let mut takes = self.draw.pick(&[20_000, 3_000, 240_000, 1_200_000, 7_200_000]);
        let mut at_deadline = false;
        if let Effect::Dispatch { limit_ms, job, .. } = &effect {
            self.records.insert(dispatch);
            if !matches!(job, devloop_core::effect::Job::Plan { .. }) || takes > 3_000 {
                self.repo.worktrees.insert(dispatch);
            }
            at_deadline = takes >= *limit_ms;
            takes = takes.min(*limit_ms);
            if at_deadline && self.draw.odd(300) {
                // Its end takes longer than its time.
                takes += GRACE_MS * 20;
            }
        } else {
            takes = takes.min(600_000);
        }
        let ends = self.time.lived + takes;
        let flight = Flight { effect, ends, at_deadline, cancelled: false, lost: false };
        self.flights.insert(dispatch, flight);
    }

    /// Asks a flight to end; some are deaf for a while.
    pub(super) fn cancel(&mut self, dispatch: DispatchId) {
        let deaf = self.draw.odd(200);
        let lived = self.time.lived;
        if let Some(flight) = self.flights.get_mut(&dispatch) {
            flight.cancelled = true;
            let end = lived + if deaf { GRACE_MS } else { 0 };
            flight.ends = flight.ends.min(end);
        }
    }

    /// Ends what has come to its end.
    pub(super) fn land(&mut self) {
        let due = self.flights.iter().filter(|(_, flight)| flight.ends <= self.time.lived);
        let due: Vec<DispatchId> = due.map(|(id, _)| *id).collect();
        for dispatch in due {
            if let Some(flight) = self.flights.remove(&dispatch)
                && !flight.lost
            {
                self.report(dispatch, &flight);
            }
        }
        let (now, later) =
            std::mem::take(&mut self.later).into_iter().partition(|later| later.at <= self.time.lived);
        self.later = later;
        let now: Vec<Later> = now;
        self.inbox.extend(now.into_iter().map(|later| later.report));
    }

    fn report(&mut self, dispatch: DispatchId, flight: &Flight) {
        let Some((_, epoch)) = flight.effect.lease() else { return };
        let model = matches!(flight.effect, Effect::Dispatch { .. });
        let outcome = self.ending(dispatch, flight);
        let usage = if model { self.usage(dispatch, &outcome) } else { None };
        let report = Report { dispatch, epoch, usage, outcome };
        if model && self.faulty(60) {
            self.repeat(&report);
        }
        self.inbox.push(report);
    }

    fn ending(&mut self, dispatch: DispatchId, flight: &Flight) -> Outcome {
        let failed = |class, detail: &str| Outcome::Failed { class, detail: detail.into() };
        if flight.cancelled && !self.draw.odd(200) {
            return failed(FailureClass::Cancelled, "it was asked to end");
        }
        if flight.at_deadline && !self.draw.odd(100) {
            return failed(FailureClass::Deadline, "its time was over");
        }
        self.outcome(dispatch, &flight.effect)
    }

    /// What a model says it used: nothing, tokens, or money, mostly below what was set aside.
    fn usage(&mut self, dispatch: DispatchId, outcome: &Outcome) -> Option<Usage> {
        let refused = matches!(outcome, Outcome::Refused { .. });
        if refused != self.faulty(30) {
            return None;
        }
        let tokens = devloop_core::units::Tokens {
            input_uncached: self.draw.pick(&[1_000, 30_000]),
            output: self.draw.pick(&[500, 20_000]),
            ..Default::default()
        };
        let micros = self.draw.pick(&[Some(20_000), None, Some(0), Some(90_000), Some(700_000)]);
        let cost = micros.map(devloop_core::units::UsdMicros);
        let usage = Usage::per_dispatch(UsageSource::Result, tokens, cost);
        if self.faulty(100) {
            // It comes after the report, on its own.
            let outcome = Outcome::NoResult { detail: "usage only".into() };
            let report = Report { dispatch, epoch: 1, usage: Some(usage), outcome };
            let at = self.time.lived + self.draw.pick(&[60_000, 3_600_000]);
            self.later.push(Later { at, report });
            return None;
        }
        Some(usage)
    }

    /// The same report once more, perhaps with other words or another epoch.
    fn repeat(&mut self, report: &Report) {
        let at = self.time.lived + self.draw.pick(&[30_000, 0, 1_800_000]);
        let mut report = report.clone();
        match self.draw.below(4) {
            1 => report.epoch += 1,
            2 => report.dispatch = DispatchId(report.dispatch.0 + 1_000),
            3 => report.usage = None,
            _ => {}
        }
        self.later.push(Later { at, report });
    }

    /// What a supervisor sees of leases that are not its own.
    pub(super) fn orphans(&self, state: &LoopState, me: &devloop_core::state::Owner) -> Vec<OrphanSeen> {
        let foreign = state.leases.iter().filter(|(_, lease)| lease.owner != *me && lease.op.is_model());
        let seen = |dispatch: &DispatchId| OrphanSeen {
            dispatch: *dispatch,
            tree: if self.flights.contains_key(dispatch) { ProcessTree::Alive } else { ProcessTree::Dead },
            run_record: self.records.contains(dispatch),
            saved: None,
        };
        foreign.map(|(dispatch, _)| seen(dispatch)).collect()
    }

    /// The process of a supervisor is gone: threads die with it, models may live on.
    pub(super) fn lose_flights(&mut self, all: bool) {
        let ids: Vec<DispatchId> = self.flights.keys().copied().collect();
        for dispatch in ids {
            let Some(mut flight) = self.flights.remove(&dispatch) else { continue };
            let model = matches!(flight.effect, Effect::Dispatch { .. });
            if !model {
                if self.draw.odd(400) {
                    // It had done its work and only its report is lost.
                    let _ = self.outcome(dispatch, &flight.effect);
                }
            } else if !all && !self.draw.odd(400) {
                flight.lost = true;
                self.flights.insert(dispatch, flight);
            }
        }
        let mut kept = Vec::new();
        for report in std::mem::take(&mut self.inbox) {
            if !self.draw.odd(150) {
                kept.push(report);
            }
        }
        self.inbox = kept;
    }

    /// Whose work a route's is, under the policy of the moment.
    pub(super) fn identity(&self, effect: &Effect) -> Option<Identity> {
        match effect {
            Effect::Dispatch { route, .. } | Effect::Commit { route, .. } => {
                self.policy.routes.get(route).map(|route| route.identity.clone())
            }
            _ => None,
        }
    }
}
