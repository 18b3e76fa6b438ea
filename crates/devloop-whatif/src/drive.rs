//! The night once more under another policy: the core decides, and the world answers with what was recorded.
//! As long as nothing differs the recorded looks are the only ones; from the first difference on events drive
//! the clock. It must not decide by itself.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use devloop_core::apply::apply_line;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Decision, Input, decide};
use devloop_core::diagnose::max_decisions;
use devloop_core::effect::Effect;
use devloop_core::hold::HoldKey;
use devloop_core::ids::{Branch, Digest, DispatchId, Oid};
use devloop_core::observation::Observation;
use devloop_core::policy::Policy;
use devloop_core::reason::Reason;
use devloop_core::state::LoopState;
use devloop_core::units::{Map, WallMs};

use crate::Refused;
use crate::draw::Draws;
use crate::facts::{Facts, opened};
use crate::flight::{Flight, Late};
use crate::moment::{Moment, Span, look_before, stamp_at};
use crate::recording::{Recorded, Recording};

/// Decisions of one tick, as the loop bounds them.
const MAX_GROUP: usize = 200;
/// A tick that was cut goes on this much later, as the loop's own does.
const BEAT_MS: u64 = 2_000;
/// Steps after which a what-if is given up, beside those of the recording.
const MAX_STEPS: usize = 50_000;

/// One line that was decided.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub wall: WallMs,
    pub revision: u64,
    pub decision: Decision,
}

/// A night being driven.
pub(crate) struct Drive<'a> {
    pub(crate) recording: &'a Recording,
    pub(crate) facts: &'a Facts,
    pub(crate) policies: &'a Map<Digest, Policy>,
    pub(crate) state: LoopState,
    pub(crate) now: Moment,
    pub(crate) draws: Draws,
    pub(crate) flights: Map<DispatchId, Flight>,
    pub(crate) late: Late,
    pub(crate) tips: Map<Option<Branch>, Option<Oid>>,
    pub(crate) last_tip: Option<Oid>,
    pub(crate) until: Option<WallMs>,
    /// What was drawn: own, from a peer, and the unknown ones in words.
    pub(crate) drawn: (usize, usize, Vec<String>),
    cursor: usize,
    moved: usize,
    same: bool,
    looked_up_to: Moment,
    openings: Map<HoldKey, usize>,
    scheduled: Vec<(Moment, usize)>,
    fired: BTreeSet<usize>,
    wakes: BTreeSet<Moment>,
    lines: Vec<Line>,
    last: Option<Reason>,
    unfit: Vec<String>,
}

/// How a driven night went.
pub(crate) struct Driven {
    pub lines: Vec<Line>,
    pub state: LoopState,
    pub last: Option<Reason>,
    pub drawn: (usize, usize, Vec<String>),
    /// Recorded commands that were refused.
    pub unfit: Vec<String>,
    /// Whether it was given up before its end.
    pub cut: bool,
}

/// Drives the night under these policies, one for each that was recorded.
///
/// # Errors
/// When the core contradicts itself.
pub(crate) fn drive(
    recording: &Recording,
    facts: &Facts,
    policies: &Map<Digest, Policy>,
) -> Result<Driven, Refused> {
    let mut night = Drive {
        recording,
        facts,
        policies,
        state: recording.start.clone(),
        now: Moment::START,
        draws: Draws::default(),
        flights: Map::new(),
        late: Late::default(),
        tips: Map::new(),
        last_tip: None,
        until: None,
        drawn: (0, 0, Vec::new()),
        cursor: 0,
        moved: 0,
        same: true,
        looked_up_to: Moment::START,
        openings: Map::new(),
        scheduled: Vec::new(),
        fired: BTreeSet::new(),
        wakes: BTreeSet::new(),
        lines: Vec::new(),
        last: None,
        unfit: Vec::new(),
    };
    for (at, report, order) in &facts.foreign {
        night.late.add(*at, *order, report.clone());
    }
    let open: Vec<HoldKey> = night.state.open_holds().into_iter().map(|(s, h)| key(s, h)).collect();
    open.into_iter().for_each(|key| night.opened(key));
    let first = night.policy_at(Moment::START).clone();
    let policy = night.policy(&first)?.clone();
    night.take_over_what_runs(&policy);
    let cut = !night.run()?;
    let Drive { lines, state, last, drawn, unfit, .. } = night;
    Ok(Driven { lines, state, last, drawn, unfit, cut })
}

fn key(subject: devloop_core::hold::Subject, hold: &devloop_core::hold::Hold) -> HoldKey {
    HoldKey { subject, kind: hold.kind }
}

impl Drive<'_> {
    /// Goes on until nothing more happens by itself. False when it took too many steps.
    fn run(&mut self) -> Result<bool, Refused> {
        for _ in 0..MAX_STEPS.saturating_add(self.recording.inputs.len().saturating_mul(20)) {
            let more = if self.same { self.step_as_recorded()? } else { self.step()? };
            if !more {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Nothing differs yet: the recorded input is next, unless the other policy acts on its own before.
    fn step_as_recorded(&mut self) -> Result<bool, Refused> {
        let next = self.recording.inputs.get(self.cursor).map(|recorded| recorded.at);
        let timer = self.timers().into_iter().filter(|at| *at > self.looked_up_to.max(self.now)).min();
        if let Some(at) = timer.filter(|at| next.is_none_or(|next| *at < next)) {
            self.looked_up_to = at;
            if self.acts_differently(at)? {
                self.same = false;
                self.now = at;
                self.beat()?;
            }
            return Ok(true);
        }
        let Some(recorded) = self.recording.inputs.get(self.cursor) else { return Ok(false) };
        self.now = recorded.at;
        let from = self.lines.len();
        let i = self.cursor;
        self.cursor += 1;
        match &recorded.input {
            Input::Observation(_) => self.beat()?,
            Input::Command { .. } => self.say(i)?,
        }
        let decided = self.lines[from..].iter().map(|line| &line.decision);
        self.same = decided.eq(recorded.lines());
        Ok(true)
    }

    /// Whether the policy of the what-if would decide something now where the recorded one would not.
    fn acts_differently(&mut self, at: Moment) -> Result<bool, Refused> {
        let recorded = &self.recording.policies;
        if recorded == self.policies {
            return Ok(false);
        }
        let Some(seen) = self.observe(at) else { return Ok(false) };
        let digest = self.policy_at(at);
        let acts = |policies: &Map<Digest, Policy>| {
            policies.get(digest).is_some_and(|policy| {
                !decide(&self.state, policy, &Input::Observation(seen.clone())).events.is_empty()
            })
        };
        Ok(acts(self.policies) && !acts(recorded))
    }

    /// The next thing that happens.
    fn step(&mut self) -> Result<bool, Refused> {
        let recorded = self.recording.inputs.get(self.cursor).map(|recorded| recorded.at);
        let said = self.scheduled.iter().map(|(at, _)| *at).min();
        let wakes = self.wakes.iter().copied();
        let dues = self.flights.values().filter_map(|flight| flight.due);
        let timers = self.timers().into_iter().filter(|at| *at > self.now);
        let looks = wakes.chain(dues).chain(self.late.moments()).chain(timers);
        let looks = looks.filter(|at| !self.facts.is_dead(*at));
        let Some(next) = looks.chain(recorded).chain(said).min() else { return Ok(false) };
        self.now = self.now.max(next);
        self.wakes = self.wakes.split_off(&self.now.next());
        if let Some(place) = self.scheduled.iter().position(|(at, _)| *at <= self.now) {
            let (_, i) = self.scheduled.remove(place);
            self.say(i)?;
            return Ok(true);
        }
        if recorded.is_some_and(|at| at <= self.now) {
            let i = self.cursor;
            self.cursor += 1;
            let recorded = &self.recording.inputs[i];
            if recorded.look().is_none() {
                let answers = self.said(i).is_some_and(|said| said.to.is_some());
                if !answers {
                    self.say(i)?;
                }
                return Ok(true);
            }
        }
        self.beat()?;
        Ok(true)
    }

    fn said(&self, i: usize) -> Option<&crate::facts::Said> {
        self.facts.said.iter().find(|said| said.input == i)
    }

    /// The policy that looks are decided under at that moment.
    pub(crate) fn policy_at(&self, at: Moment) -> &Digest {
        let inputs = &self.recording.inputs;
        let i = look_before(inputs, at).unwrap_or(0);
        &inputs[i].policy
    }

    fn policy(&self, digest: &Digest) -> Result<&Policy, Refused> {
        self.policies.get(digest).ok_or_else(|| Refused::new("a recorded policy is missing"))
    }

    /// One tick of the loop.
    fn beat(&mut self) -> Result<(), Refused> {
        self.move_branches();
        let Some(seen) = self.observe(self.now) else { return Ok(()) };
        let digest = self.policy_at(self.now).clone();
        let bound = max_decisions(&self.state, self.policy(&digest)?).min(MAX_GROUP);
        let input = Input::Observation(seen.clone());
        let mut effects: Vec<Effect> = Vec::new();
        self.until = None;
        let mut ended = false;
        for _ in 0..bound {
            let decision = decide(&self.state, self.policy(&digest)?, &input);
            let reason = decision.reason.clone();
            effects.extend(decision.effects.iter().cloned());
            self.record(decision, seen.stamp.wall)?;
            ended = reason.is_final();
            if let Reason::Wait { until, .. } = &reason {
                self.until = *until;
            }
            self.last = Some(reason);
            if ended {
                break;
            }
        }
        if !ended {
            self.wakes.insert(self.now.plus(Span::of_ms(BEAT_MS)));
        }
        self.late.seen(self.now);
        self.drop_settled(&seen);
        let policy = self.policy(&digest)?.clone();
        effects.iter().for_each(|effect| self.perform(effect, &policy));
        Ok(())
    }

    fn record(&mut self, decision: Decision, wall: WallMs) -> Result<(), Refused> {
        if decision.events.is_empty() {
            return Ok(());
        }
        apply_line(&mut self.state, &decision.events).map_err(Refused::misfit)?;
        opened(&decision.events).for_each(|key| self.opened(key));
        self.lines.push(Line { wall, revision: self.state.revision, decision });
        Ok(())
    }

    /// A question opened: its recorded answers come after their time.
    fn opened(&mut self, key: HoldKey) {
        let nth = self.openings.entry(key.clone()).or_default();
        *nth += 1;
        let this = Some((key, *nth));
        for said in self.facts.said.iter().filter(|said| said.to == this && !self.fired.contains(&said.input))
        {
            self.scheduled.push((self.now.plus(said.delay), said.input));
        }
        self.scheduled.sort_unstable();
    }

    /// A recorded command, given now.
    fn say(&mut self, i: usize) -> Result<(), Refused> {
        let recorded: &Recorded = &self.recording.inputs[i];
        let Input::Command { stamp, command } = &recorded.input else { return Ok(()) };
        self.scheduled.retain(|(_, other)| *other != i);
        if !self.fired.insert(i) {
            return Ok(());
        }
        let stamp = stamp_at(&self.recording.inputs, self.now, stamp);
        let wall = stamp.wall;
        let command = if self.same { command.clone() } else { self.fit(command, i) };
        let decision =
            decide(&self.state, self.policy(&recorded.policy)?, &Input::Command { stamp, command });
        if let Reason::Refused(refusal) = &decision.reason {
            self.unfit.push(format!("{}: {}", words(&recorded.input), refusal.sentence()));
            return Ok(());
        }
        self.last = Some(decision.reason.clone());
        self.record(decision, wall)?;
        if let Some(looked) = self.said(i).and_then(|said| said.looked) {
            self.wakes.insert(self.now.plus(looked));
        }
        Ok(())
    }

    /// The command as it would have been given here: it names the question, and the revision it has now.
    fn fit(&self, command: &Command, i: usize) -> Command {
        let mut command = command.clone();
        let to = self.said(i).and_then(|said| said.to.clone()).map(|(key, _)| key);
        if let Wish::Answer { hold, revision, .. } = &mut command.wish {
            *hold = to.or_else(|| hold.take());
            let open = hold.as_ref().and_then(|key| self.state.hold(key));
            if let (Some(revision), Some(open)) = (revision, open) {
                *revision = open.revision;
            }
        }
        command
    }

    /// Branches move as they were moved, by others and by the loop's own merges.
    fn move_branches(&mut self) {
        while let Some(found) = self.facts.moves.get(self.moved).filter(|found| found.at <= self.now) {
            self.moved += 1;
            if !(found.first && self.tips.contains_key(&found.branch)) {
                self.tips.insert(found.branch.clone(), found.tip.clone());
            }
        }
        let now = self.now;
        let mut due: Vec<(Moment, Oid)> = Vec::new();
        for flight in self.flights.values_mut() {
            if flight.publish.as_ref().is_some_and(|(at, _)| *at <= now) {
                due.extend(flight.publish.take());
            }
        }
        due.sort();
        if let Some((_, commit)) = due.pop() {
            self.tips.insert(self.state.target.branch.clone(), Some(commit));
        }
    }

    /// Operations whose lease is over are done with.
    fn drop_settled(&mut self, seen: &Observation) {
        let settled = |dispatch: &DispatchId, epoch: u32| {
            self.state.leases.get(dispatch).is_none_or(|lease| lease.epoch != epoch)
        };
        let reported: Vec<DispatchId> = seen.reports.iter().map(|report| report.dispatch).collect();
        let over: Vec<DispatchId> = self
            .flights
            .iter()
            .filter(|(dispatch, flight)| {
                reported.contains(dispatch) && settled(dispatch, flight.report.epoch)
            })
            .map(|(dispatch, _)| *dispatch)
            .collect();
        for dispatch in over {
            if let Some(flight) = self.flights.get_mut(&dispatch) {
                flight.due = None;
            }
        }
    }
}

/// A command in words.
fn words(input: &Input) -> String {
    let Input::Command { command, .. } = input else { return String::new() };
    match &command.wish {
        Wish::Answer { answer, .. } => format!("answer {}", answer.word()),
        Wish::Resume { .. } => "resume".into(),
        Wish::Pause { .. } => "pause".into(),
        Wish::Edit { task, .. } => format!("edit of task {task}"),
        Wish::NextGoal => "next goal".into(),
    }
}
