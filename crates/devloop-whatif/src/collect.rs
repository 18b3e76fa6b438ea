//! Collects the facts of a recorded night by folding it once. It must not decide anything again.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use devloop_core::apply::apply;
use devloop_core::command::Wish;
use devloop_core::decide::{Decision, Input};
use devloop_core::event::Event;
use devloop_core::hold::HoldKey;
use devloop_core::ids::{Branch, DispatchId, Oid};
use devloop_core::observation::Observation;
use devloop_core::reason::Reason;
use devloop_core::report::{Outcome, Report};
use devloop_core::state::{Lease, LoopState, Phase};
use devloop_core::units::Map;

use crate::Refused;
use crate::facts::{End, Facts, Move, Past, Said, about, opened, role, tier};
use crate::moment::{Moment, Span};
use crate::recording::Recording;

/// Collects the facts of a recording.
///
/// # Errors
/// When the recording does not fold.
pub(crate) fn collect(recording: &Recording) -> Result<Facts, Refused> {
    let mut walk = Walk {
        recording,
        state: recording.start.clone(),
        facts: Facts::default(),
        by_id: Map::new(),
        openings: Map::new(),
        seen: Vec::new(),
    };
    for (subject, hold) in recording.start.open_holds() {
        walk.openings.entry(HoldKey { subject, kind: hold.kind }).or_default().push(Moment::START);
    }
    for (dispatch, lease) in &recording.start.leases {
        walk.taken(0, *dispatch, lease);
    }
    for i in 0..recording.inputs.len() {
        walk.input(i)?;
    }
    let mut facts = walk.facts;
    branch_moves(recording, &mut facts)?;
    Ok(facts)
}

struct Walk<'a> {
    recording: &'a Recording,
    state: LoopState,
    facts: Facts,
    by_id: Map<DispatchId, usize>,
    openings: Map<HoldKey, Vec<Moment>>,
    seen: Vec<Report>,
}

impl Walk<'_> {
    fn input(&mut self, i: usize) -> Result<(), Refused> {
        let recorded = &self.recording.inputs[i];
        match &recorded.input {
            Input::Observation(seen) => {
                self.handover(i, seen);
                self.reports(i, seen);
            }
            Input::Command { command, .. } => self.command(i, &command.wish),
        }
        for decision in recorded.lines() {
            self.decision(i, decision)?;
        }
        Ok(())
    }

    /// Another loop looks for the first time: did the one before leave something that ran?
    fn handover(&mut self, i: usize, seen: &Observation) {
        let inputs = &self.recording.inputs;
        let Some(before) = inputs[..i].iter().rev().find(|recorded| recorded.look().is_some()) else {
            return;
        };
        let owner = &seen.stamp.owner;
        let left = self.state.leases.values().any(|lease| lease.owner != *owner);
        if before.stamp().owner != *owner && left {
            self.facts.gaps.push((before.at, inputs[i].at));
        }
    }

    /// Reports for no lease are late usage, each taken once.
    fn reports(&mut self, i: usize, seen: &Observation) {
        let at = self.recording.inputs[i].at;
        for orphan in &seen.orphans {
            self.facts.orphans.entry(orphan.dispatch).or_default().push((at, orphan.clone()));
        }
        for (place, report) in seen.reports.iter().enumerate() {
            let live = self.state.leases.get(&report.dispatch).is_some_and(|l| l.epoch == report.epoch);
            if live || report.usage.is_none() || self.seen.contains(report) {
                continue;
            }
            self.seen.push(report.clone());
            match self.by_id.get(&report.dispatch) {
                Some(past) => {
                    let past = &mut self.facts.pasts[*past];
                    let start = past.performed.first().copied().unwrap_or(at);
                    past.late.push((at.since(start), report.clone(), (i, place)));
                }
                None => self.facts.foreign.push((at, report.clone(), (i, place))),
            }
        }
    }

    fn command(&mut self, i: usize, wish: &Wish) {
        let recorded = &self.recording.inputs[i];
        let (at, inputs) = (recorded.at, &self.recording.inputs);
        let key = answered(recorded.lines(), wish, &self.state);
        let to = key.and_then(|key| {
            let opened = self.openings.get(&key)?;
            Some(((key, opened.len()), at.since(*opened.last()?)))
        });
        let looked =
            inputs[i + 1..].iter().find(|later| later.look().is_some()).map(|later| later.at.since(at));
        let (to, delay) = to.map_or((None, Span::of_ms(0)), |(to, delay)| (Some(to), delay));
        self.facts.said.push(Said { input: i, to, delay, looked });
    }

    fn decision(&mut self, i: usize, decision: &Decision) -> Result<(), Refused> {
        let at = self.recording.inputs[i].at;
        for event in &decision.events {
            match event {
                Event::LeaseTaken { dispatch, lease } => self.taken(i, *dispatch, lease),
                Event::LeaseAdopted { dispatch, .. } => self.past(*dispatch, |past| past.performed.push(at)),
                Event::LeaseEnding { dispatch, .. } => self.past(*dispatch, |past| past.ending = Some(at)),
                Event::LeaseEnded { dispatch, .. } => {
                    let end = self.end_of(i, decision, *dispatch);
                    self.past(*dispatch, |past| past.end = end);
                }
                _ => {}
            }
            apply(&mut self.state, event).map_err(Refused::misfit)?;
        }
        for key in opened(&decision.events) {
            self.openings.entry(key).or_default().push(at);
        }
        self.state.revision += 1;
        Ok(())
    }

    fn past(&mut self, dispatch: DispatchId, change: impl FnOnce(&mut Past)) {
        if let Some(past) = self.by_id.get(&dispatch) {
            change(&mut self.facts.pasts[*past]);
        }
    }

    fn taken(&mut self, i: usize, dispatch: DispatchId, lease: &Lease) {
        let recorded = &self.recording.inputs[i];
        self.by_id.insert(dispatch, self.facts.pasts.len());
        self.facts.pasts.push(Past {
            id: dispatch,
            role: role(&self.state, lease),
            about: about(&self.state, lease),
            acceptance: lease.basis.acceptance.clone(),
            tier: tier(&self.state, lease),
            route: lease.route.clone(),
            policy: recorded.policy.clone(),
            performed: alloc::vec![recorded.at],
            ending: None,
            end: End::Open,
            published: None,
            late: Vec::new(),
        });
    }

    fn end_of(&self, i: usize, decision: &Decision, dispatch: DispatchId) -> End {
        let recorded = &self.recording.inputs[i];
        let epoch = self.state.leases.get(&dispatch).map(|lease| lease.epoch);
        let reports = recorded.look().map(|seen| seen.reports.as_slice()).unwrap_or_default();
        let fits = |report: &Report| report.dispatch == dispatch && Some(report.epoch) == epoch;
        match reports.iter().position(fits) {
            Some(place) if !matches!(decision.reason, Reason::OrphanSettled { .. }) => {
                End::Report(recorded.at, reports[place].clone(), (i, place))
            }
            _ => End::Orphan(recorded.at),
        }
    }
}

/// The question that a command answered: the one it names in its record, else the first that it lifted. A
/// resume after a pause is about the pause.
fn answered<'a>(
    lines: impl Iterator<Item = &'a Decision>,
    wish: &Wish,
    state: &LoopState,
) -> Option<HoldKey> {
    if matches!(wish, Wish::Resume { .. }) && matches!(state.phase, Phase::Paused { .. }) {
        return None;
    }
    let events: Vec<&Event> = lines.flat_map(|line| &line.events).collect();
    let record = events.iter().find_map(|event| match event {
        Event::AnswerGiven { record } => Some(record.key.clone()),
        _ => None,
    });
    record.or_else(|| {
        events.iter().find_map(|event| match event {
            Event::HoldLifted { key, .. } => Some(key.clone()),
            _ => None,
        })
    })
}

/// Tells the loop's own moves of a branch from those of others. A merge that no look ever saw as the tip was
/// moved on by somebody before anybody looked: that move is what counts.
fn branch_moves(recording: &Recording, facts: &mut Facts) -> Result<(), Refused> {
    let mut own: Map<Oid, usize> = Map::new();
    for (i, past) in facts.pasts.iter().enumerate() {
        if let End::Report(_, report, _) = &past.end
            && let Outcome::Merged { commit } | Outcome::Reverted { commit, .. } = &report.outcome
        {
            own.insert(commit.clone(), i);
        }
    }
    let mut tips: Map<Option<Branch>, Option<Oid>> = Map::new();
    let mut published: BTreeSet<usize> = BTreeSet::new();
    let mut state = recording.start.clone();
    for recorded in &recording.inputs {
        if let Some(seen) = recorded.look() {
            let (branch, tip) = (state.target.branch.clone(), seen.repo.tip.clone());
            if tips.get(&branch) != Some(&tip) {
                let by_loop =
                    tip.as_ref().and_then(|tip| own.get(tip)).filter(|past| published.insert(**past));
                match by_loop {
                    Some(past) => facts.pasts[*past].published = tip.clone().map(|tip| (tip, recorded.at)),
                    None => facts.moves.push(Move {
                        at: recorded.at,
                        branch: branch.clone(),
                        tip: tip.clone(),
                        first: !tips.contains_key(&branch),
                    }),
                }
                tips.insert(branch, tip);
            }
        }
        for event in recorded.lines().flat_map(|line| &line.events) {
            apply(&mut state, event).map_err(Refused::misfit)?;
        }
    }
    Ok(())
}
