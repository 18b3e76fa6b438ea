//! The world of a driven night: what is seen at a moment, and what becomes of an effect. Everything in it was
//! recorded. It must not decide.

use alloc::vec::Vec;

use devloop_core::effect::Effect;
use devloop_core::ids::DispatchId;
use devloop_core::observation::{Checkout, Observation, OrphanSeen, ProcessTree};
use devloop_core::policy::Policy;
use devloop_core::report::{Outcome, Report};
use devloop_core::state::{Gate, Lease};
use devloop_core::task::Stage;

use crate::draw::{Source, Wanted, lent_outcome, own_outcome, reprice, unknown, unknown_words};
use crate::drive::Drive;
use crate::facts::{About, End, Order, about, role, tier};
use crate::flight::{Flight, at_once_or, due_of, publish_of};
use crate::moment::{Moment, later, look_before, stamp_at};

/// Behind every recorded report.
const LAST: Order = (usize::MAX, 0);

impl Drive<'_> {
    /// What a look at that moment sees. None when the recording has no look at all.
    pub(crate) fn observe(&mut self, at: Moment) -> Option<Observation> {
        let inputs = &self.recording.inputs;
        let recorded = inputs[look_before(inputs, at)?].look()?;
        let stamp = stamp_at(inputs, at, &recorded.stamp);
        let mut seen = Observation { stamp, reports: Vec::new(), orphans: Vec::new(), ..recorded.clone() };
        let tip = self.tips.get(&self.state.target.branch).cloned();
        seen.repo.tip = tip.unwrap_or_else(|| self.last_tip.clone());
        self.last_tip.clone_from(&seen.repo.tip);
        let owner = &seen.stamp.owner;
        for (dispatch, flight) in self.flights.iter_mut().filter(|(_, flight)| flight.owner != *owner) {
            // It died with its loop, unless its report was left behind.
            let lost = |moment: &Moment| *moment > at || self.facts.is_dead(*moment);
            flight.publish.take_if(|(publish, _)| lost(publish));
            let model = self.state.leases.get(dispatch).is_some_and(|lease| lease.op.is_model());
            if let (Some(_), true, Source::Own(past)) =
                (flight.due.take_if(|d| lost(d)), model, flight.source)
            {
                self.draws.give_back(self.facts, past);
            }
        }
        let due = self.flights.values().filter(|flight| flight.due.is_some_and(|due| due <= at));
        let mut reports: Vec<(Order, Report)> = due.map(|f| (f.order, f.report.clone())).collect();
        reports.extend(self.late.due(at));
        reports.sort_by_key(|(order, report)| (*order, report.dispatch));
        seen.reports = reports.into_iter().map(|(_, report)| report).collect();
        let foreign = self.state.leases.iter().filter(|(_, l)| l.op.is_model() && l.owner != *owner);
        seen.orphans = foreign.map(|(dispatch, _)| self.orphan(*dispatch, at)).collect();
        Some(seen)
    }

    /// What is known of the processes of a dead loop's dispatch: as recorded, else that they ran and are
    /// gone.
    fn orphan(&self, dispatch: DispatchId, at: Moment) -> OrphanSeen {
        let past = self.flights.get(&dispatch).and_then(|flight| match flight.source {
            Source::Own(past) => self.facts.orphans.get(&self.facts.pasts[past].id),
            Source::Peer(_) | Source::Unknown => None,
        });
        let found = past.and_then(|looks| looks.iter().rev().find(|(when, _)| *when <= at).or(looks.first()));
        match found {
            Some((_, seen)) => OrphanSeen { dispatch, ..seen.clone() },
            None => OrphanSeen { dispatch, tree: ProcessTree::Dead, run_record: true, saved: None },
        }
    }

    /// What becomes of an effect.
    pub(crate) fn perform(&mut self, effect: &Effect, policy: &Policy) {
        if let Effect::Cancel { dispatch } = effect {
            let lease = self.state.leases.get(dispatch).cloned();
            let now = self.now;
            if let (Some(flight), Some(lease)) = (self.flights.get_mut(dispatch), lease) {
                let past = match flight.source {
                    Source::Own(past) => self.facts.pasts.get(past),
                    Source::Peer(_) | Source::Unknown => None,
                };
                if let (true, Source::Own(past)) = (flight.cancel(past, &lease, now), flight.source) {
                    self.draws.give_back(self.facts, past);
                }
            }
        }
        let Some((dispatch, epoch)) = effect.lease() else { return };
        let Some(lease) = self.state.leases.get(&dispatch).cloned() else { return };
        let (source, again) = match self.flights.get(&dispatch) {
            Some(before) => (before.source, before.again + 1),
            None => (self.draw(&lease), 0),
        };
        let flight = self.flight(dispatch, epoch, &lease, source, again, policy);
        if let (Source::Own(past), 0) = (source, again) {
            self.late.from_past(&self.facts.pasts[past], &flight.report, self.now);
        }
        self.flights.insert(dispatch, flight);
    }

    /// Operations that ran before the recording begins end as they did.
    pub(crate) fn take_over_what_runs(&mut self, policy: &Policy) {
        let leases = self.recording.start.leases.clone();
        for (dispatch, lease) in &leases {
            let is_this = |past: &crate::facts::Past| past.id == *dispatch;
            let Some(past) = self.facts.pasts.iter().position(is_this) else { continue };
            self.draws.mark(past);
            let flight = self.flight(*dispatch, lease.epoch, lease, Source::Own(past), 0, policy);
            self.flights.insert(*dispatch, flight);
        }
    }

    fn draw(&mut self, lease: &Lease) -> Source {
        let role = role(&self.state, lease);
        let about = match about(&self.state, lease) {
            About::Work(Some(work)) => {
                About::Work(self.flights.get(&work).and_then(|flight| match flight.source {
                    Source::Own(past) => Some(self.facts.pasts[past].id),
                    Source::Peer(_) | Source::Unknown => None,
                }))
            }
            about => about,
        };
        let (acceptance, tier) = (&lease.basis.acceptance, tier(&self.state, lease));
        let wanted = Wanted { role: &role, about: &about, acceptance, tier };
        self.draws.draw(self.facts, &wanted, self.now)
    }

    fn flight(
        &mut self,
        dispatch: DispatchId,
        epoch: u32,
        lease: &Lease,
        source: Source,
        again: usize,
        policy: &Policy,
    ) -> Flight {
        let now = self.now;
        let empty = |outcome: Outcome| Report { dispatch, epoch, usage: None, outcome };
        let mut flight = Flight {
            source,
            owner: lease.owner.clone(),
            again,
            due: Some(now.next()),
            report: empty(unknown(lease)),
            order: LAST,
            publish: None,
            cancelled: false,
            open: false,
        };
        let past = match source {
            Source::Own(past) | Source::Peer(past) => &self.facts.pasts[past],
            Source::Unknown => {
                self.drawn.2.push(unknown_words(lease));
                return flight;
            }
        };
        let recorded = self.recording.policies.get(&past.policy);
        if let End::Report(_, report, order) = &past.end {
            flight.report.usage = reprice(report.usage, past, recorded, lease, policy);
            match source {
                Source::Own(_) => {
                    (flight.report.outcome, flight.order) = (own_outcome(past, report, lease), *order);
                }
                _ => match lent_outcome(past, lease) {
                    Some(outcome) => {
                        flight.report.outcome = outcome;
                        self.drawn.1 += 1;
                    }
                    None => self.drawn.2.push(unknown_words(lease)),
                },
            }
        }
        if matches!(source, Source::Own(_)) {
            (flight.due, flight.open) = due_of(past, again, now);
            flight.publish = publish_of(past, again, flight.due, now);
            self.drawn.0 += usize::from(again == 0);
        } else {
            flight.due = Some(at_once_or(now, past.span()));
        }
        flight
    }

    /// Moments at which the core may decide something without anything new to see.
    pub(crate) fn timers(&self) -> Vec<Moment> {
        let inputs = &self.recording.inputs;
        let Some(look) = look_before(inputs, self.now).and_then(|i| inputs[i].look()) else {
            return Vec::new();
        };
        let stamp = stamp_at(inputs, self.now, &look.stamp);
        let (state, clock) = (&self.state, stamp.now(&self.state));
        let active = |at: u64| later(self.now, at.saturating_sub(clock.active.0));
        let wall = |at: u64| later(self.now, at.saturating_sub(clock.wall.0));
        let never_ends = |dispatch: &DispatchId| self.flights.get(dispatch).is_some_and(|flight| flight.open);
        let leases = state.leases.iter().filter(|(d, lease)| lease.ending.is_none() && !never_ends(d));
        let mut found: Vec<Option<Moment>> = leases.map(|(_, lease)| active(lease.deadline.0)).collect();
        found.push(self.until.and_then(|until| wall(until.0)));
        found.push(state.goal.pending.as_ref().and_then(|pending| {
            active(pending.seen_at.0.saturating_add(devloop_core::decide::GOAL_AGREES_MS))
        }));
        found.push(state.clock.pending_day.and_then(|pending| {
            active(pending.seen_at.0.saturating_add(devloop_core::clock::DAY_AGREES_MS))
        }));
        for route in state.routes.values() {
            if let Gate::ClosedUntil { at, .. } = &route.gate {
                found.push(wall(at.0));
            }
        }
        let ready = state.tasks.iter().any(|task| matches!(task.stage, Stage::MergeReady(_)));
        if ready && look.repo.checkout != Checkout::Free {
            let minutes = self.policies.get(self.policy_at(self.now)).map(|p| p.limits.no_progress_minutes);
            let limit = u64::from(minutes.unwrap_or(0)).saturating_mul(60_000);
            found.push(active(state.progress_at.0.saturating_add(limit)));
        }
        found.into_iter().flatten().collect()
    }
}
