//! Owns the supervisor of the world: one tick as the host does it, load, observe, decide, commit, perform,
//! settle, and every way a process or a disk can end it in between. It decides nothing.

use devloop_core::apply::apply_line;
use devloop_core::decide::{Decision, Input, decide};
use devloop_core::diagnose::max_decisions;
use devloop_core::effect::{Effect, Job, Start};
use devloop_core::observation::{GoalSeen, Observation, RepoSeen, Stamp};
use devloop_core::reason::Reason;
use devloop_core::report::Report;
use devloop_core::state::{LoopState, Op, Owner};

use super::audit::{Broken, Kept};
use super::disk::Tip;
use super::{World, goal_digest};

/// Decisions of one tick, at most, as in the host.
const MAX_GROUP: usize = 200;

/// A tick that never comes to its end is cut this often before it counts as one that goes in circles.
const MAX_CUTS: u32 = 6;

/// One life of a supervisor.
#[derive(Clone, Debug)]
pub struct Supervisor {
    /// Who it is.
    pub owner: Owner,
    state: LoopState,
    tip: Tip,
}

/// What happens to a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Well,
    DiskFull,
    CutBack,
    Overtaken,
    KilledBeforeCommit,
    PowerLost,
    KilledBeforeEffects,
    KilledAmongEffects,
}

const FATES: [Fate; 7] = [
    Fate::DiskFull,
    Fate::CutBack,
    Fate::Overtaken,
    Fate::KilledBeforeCommit,
    Fate::PowerLost,
    Fate::KilledBeforeEffects,
    Fate::KilledAmongEffects,
];

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Fate::Well => "well",
            Fate::DiskFull => "disk_full",
            Fate::CutBack => "append_cut_back",
            Fate::Overtaken => "overtaken_by_a_command",
            Fate::KilledBeforeCommit => "killed_before_commit",
            Fate::PowerLost => "unsynced_tail_lost",
            Fate::KilledBeforeEffects => "killed_before_effects",
            Fate::KilledAmongEffects => "killed_among_effects",
        }
    }
}

impl World {
    /// One tick; the reason it ended with, none when it was ended before its commit.
    ///
    /// # Errors
    /// A broken promise.
    pub(super) fn tick(&mut self) -> Result<Option<Reason>, Broken> {
        self.rise()?;
        self.load()?;
        let Some(me) = self.me.clone() else { return Ok(None) };
        let seen = self.observe(&me.owner, &me.state);
        let (group, pending) = self.decide_all(&me.state, &seen)?;
        let last = group.last().map(|decision| decision.reason.clone());
        let fate = self.fate();
        match fate {
            Fate::DiskFull | Fate::CutBack => {
                // Nothing is durable, so nothing is performed; the next tick starts from the files.
                self.me = None;
                self.keep_owner = Some(me.owner);
                return Ok(None);
            }
            Fate::KilledBeforeCommit => {
                self.die(false);
                return Ok(None);
            }
            Fate::Overtaken => {
                self.operate()?;
                if me.tip != *self.disk.tip() {
                    return self.overtaken(&me, &group);
                }
            }
            _ => {}
        }
        let recorded = group.iter().filter(|decision| !decision.events.is_empty()).count();
        let keep = (fate == Fate::PowerLost)
            .then(|| usize::try_from(self.draw.below(recorded as u64 + 1)).unwrap_or(0));
        let by = format!("loop/{}", me.owner.instance);
        if recorded > 0 {
            let wall = self.time.wall();
            let appended = self.disk.append(&me.tip, &me.state, wall, &by, &group, keep);
            appended.map_err(|_| Broken::new("I4", "a tick that held the lock was refused as stale"))?;
        }
        self.record(&me.state, &Input::Observation(seen.clone()), &group, keep);
        self.absorb(Some(&seen))?;
        if fate == Fate::PowerLost {
            self.die(true);
            return Ok(None);
        }
        self.agrees(&pending)?;
        if let Some(own) = &mut self.me {
            (own.state, own.tip) = (pending, self.disk.tip().clone());
        }
        self.carry_out(&group, &me.owner, fate)?;
        self.settle(&seen);
        if matches!(fate, Fate::KilledBeforeEffects | Fate::KilledAmongEffects) {
            self.die(false);
        }
        self.last_seen = Some(seen);
        self.audit.so_far()?;
        Ok(last)
    }

    /// Another process was faster: what was decided on the older state is refused and thrown away.
    fn overtaken(&mut self, me: &Supervisor, group: &[Decision]) -> Result<Option<Reason>, Broken> {
        match self.disk.append(&me.tip, &me.state, self.time.wall(), "loop", group, None) {
            Ok(()) => Err(Broken::new("I4", "a stale group was appended")),
            Err(_) => Ok(None),
        }
    }

    fn fate(&mut self) -> Fate {
        if !self.draw.odd(self.danger) {
            return Fate::Well;
        }
        let fate = self.draw.pick(&FATES);
        self.happened(fate.name());
        fate
    }

    /// A supervisor is there: the one that lives, or a new one that recovers what the disk has.
    pub(super) fn rise(&mut self) -> Kept {
        if self.me.is_some() {
            return Ok(());
        }
        let state = self.disk.recover().map_err(|what| Broken::new("recovery", what))?;
        self.agrees(&state)?;
        let owner = match self.keep_owner.take() {
            Some(owner) => owner,
            None => self.new_owner(),
        };
        let kept = |dispatch: &_| {
            state.leases.contains_key(dispatch)
                || state.leases.values().any(|l| l.worktree == Some(*dispatch))
        };
        self.repo.worktrees.retain(kept);
        self.me = Some(Supervisor { owner, state, tip: self.disk.tip().clone() });
        Ok(())
    }

    /// A process that nobody was before.
    pub(super) fn new_owner(&mut self) -> Owner {
        self.instances += 1;
        let instance = self.instances;
        let pid = 100 + u32::try_from(instance).unwrap_or(0);
        Owner { host: "here".into(), boot: self.time.boot(), pid, started: instance, instance }
    }

    /// Folds what other processes committed.
    fn load(&mut self) -> Kept {
        let Some(me) = &mut self.me else { return Ok(()) };
        if me.tip == *self.disk.tip() {
            return Ok(());
        }
        let lines = self.disk.events_after(me.tip.revision).map_err(|what| Broken::new("load", what))?;
        for line in lines {
            apply_line(&mut me.state, &line.events).map_err(|e| Broken::new("load", e.to_string()))?;
        }
        me.tip = self.disk.tip().clone();
        let state = me.state.clone();
        self.agrees(&state)
    }

    /// What a process believes is what the committed lines say.
    fn agrees(&self, state: &LoopState) -> Kept {
        if *state == self.audit.shadow {
            return Ok(());
        }
        let what = format!("revision {} is another state when its journal is folded", state.revision);
        Err(Broken::new("replay", what))
    }

    /// Reads the lines that are new on the disk and has them checked.
    pub(super) fn absorb(&mut self, seen: Option<&Observation>) -> Kept {
        let from = self.audit.shadow.revision;
        if self.disk.tip().revision == from {
            return Ok(());
        }
        let lines = self.disk.events_after(from).map_err(|what| Broken::new("replay", what))?;
        self.seen.lines += lines.len() as u64;
        let others = seen.map(|seen| seen.others);
        lines.iter().try_for_each(|line| self.audit.line(line, &self.policy, others.as_ref()))
    }

    fn stamp(&self, owner: &Owner) -> Stamp {
        Stamp { wall: self.time.wall(), awake: self.time.awake(), owner: owner.clone() }
    }

    /// The stamp of a command: while a supervisor lives, its dispatches are its own.
    pub(super) fn stamp_of_command(&mut self) -> Stamp {
        let owner = match &self.me {
            Some(me) => me.owner.clone(),
            None => self.new_owner(),
        };
        self.stamp(&owner)
    }

    /// One look at the world.
    pub(super) fn observe(&self, owner: &Owner, state: &LoopState) -> Observation {
        let target = state.target.branch.as_ref();
        let tip = self.repo.tip(target);
        let merge = state.target.last_merge.as_ref().filter(|_| tip.is_some());
        let leads_to_merge = |dispatch| {
            let lease = state.leases.get(dispatch);
            lease.is_some_and(|l| matches!(l.op, Op::Review | Op::Merge | Op::Refresh))
        };
        let asked =
            state.looks_at_checkout() || self.inbox.iter().any(|report| leads_to_merge(&report.dispatch));
        let on_target = target.is_none_or(|target| self.repo.head.as_deref() == Some(target.as_str()));
        let checkout = if asked && on_target {
            self.repo.checkout.clone()
        } else {
            devloop_core::observation::Checkout::Free
        };
        Observation {
            stamp: self.stamp(owner),
            goal: match self.goal {
                _ if self.goal_unusable => GoalSeen::Unusable("it is a folder".into()),
                Some(text) => GoalSeen::Present(goal_digest(text)),
                None => GoalSeen::Absent,
            },
            repo: RepoSeen {
                branch: self.repo.head.as_ref().and_then(|n| devloop_core::ids::Branch::parse(n).ok()),
                contains_last_merge: merge.is_none_or(|merge| self.repo.contains(target, merge)),
                tip,
                remote_default: self.repo.remote_default.clone(),
                checkout,
            },
            free_disk_bytes: self.free_disk,
            others: self.others,
            reports: self.inbox.clone(),
            orphans: self.orphans(state, owner),
        }
    }

    /// Decides on a copy until the reason is final or the tick is long enough.
    fn decide_all(
        &mut self,
        state: &LoopState,
        seen: &Observation,
    ) -> Result<(Vec<Decision>, LoopState), Broken> {
        let mut pending = state.clone();
        let mut group: Vec<Decision> = Vec::new();
        let input = Input::Observation(seen.clone());
        for _ in 0..max_decisions(state, &self.policy).min(MAX_GROUP) {
            let decision = decide(&pending, &self.policy, &input);
            if group.is_empty() && decision != decide(&pending, &self.policy, &input) {
                return Err(Broken::new("I2", "the same inputs were decided in two ways"));
            }
            self.seen.decided(&decision);
            let last = decision.reason.is_final();
            if !last && decision.events.is_empty() {
                let what = format!("nothing is recorded and nothing ends: {}", decision.reason.sentence());
                return Err(Broken::new("circle", what));
            }
            if !decision.events.is_empty() {
                apply_line(&mut pending, &decision.events)
                    .map_err(|e| Broken::new("fold", format!("{e} by {}", decision.reason.sentence())))?;
            }
            group.push(decision);
            if last {
                self.cuts = 0;
                return Ok((group, pending));
            }
        }
        self.cuts += 1;
        if self.cuts > MAX_CUTS {
            let said: Vec<_> = group.iter().rev().take(6).map(|d| d.reason.sentence()).collect();
            return Err(Broken::new("circle", format!("ticks never end: {}", said.join(" < "))));
        }
        Ok((group, pending))
    }

    fn carry_out(&mut self, group: &[Decision], owner: &Owner, fate: Fate) -> Kept {
        let effects: Vec<Effect> = group.iter().flat_map(|d| d.effects.iter().cloned()).collect();
        let count = match fate {
            Fate::KilledBeforeEffects => 0,
            Fate::KilledAmongEffects => {
                usize::try_from(self.draw.below(effects.len() as u64 + 1)).unwrap_or(0)
            }
            _ => effects.len(),
        };
        effects.into_iter().take(count).try_for_each(|effect| self.perform(effect, owner))
    }

    fn perform(&mut self, effect: Effect, owner: &Owner) -> Kept {
        self.seen.performed(&effect);
        if let Some((dispatch, epoch)) = effect.lease() {
            let lease = self.audit.shadow.leases.get(&dispatch);
            if !lease.is_some_and(|lease| lease.epoch == epoch && lease.owner == *owner) {
                return Err(Broken::new("I5", format!("{dispatch} is to be performed without its lease")));
            }
        }
        match effect {
            Effect::Dispatch { dispatch, ref job, .. } => {
                let from = match job {
                    Job::Work { start: Start::Continue { tip }, .. } => Some(tip.clone()),
                    _ => None,
                };
                let who = self.identity(&effect);
                self.audit.starts(dispatch, who, from);
                self.start(effect);
            }
            Effect::RemoveWorktree { dispatch } => {
                if self.flights.contains_key(&dispatch) {
                    let what = format!("the worktree of {dispatch} goes while it is worked in");
                    return Err(Broken::new("I15", what));
                }
                self.repo.worktrees.remove(&dispatch);
            }
            Effect::Cancel { dispatch } => self.cancel(dispatch),
            Effect::CreateTarget { branch } => self.repo.create(&branch),
            Effect::Wake | Effect::Notify { .. } => {}
            leased => self.start(leased),
        }
        Ok(())
    }

    /// A report whose lease is over has done its work.
    fn settle(&mut self, seen: &Observation) {
        let leases = &self.audit.shadow.leases;
        let open =
            |report: &Report| leases.get(&report.dispatch).is_some_and(|lease| lease.epoch == report.epoch);
        let settled: Vec<Report> = seen.reports.iter().filter(|report| !open(report)).cloned().collect();
        self.inbox.retain(|report| !settled.contains(report));
        for report in settled {
            if let Some(cost) = report.usage.and_then(|usage| usage.cost) {
                self.audit.told(report.dispatch, cost);
            }
        }
    }

    /// The process is gone, with the power or without.
    pub(super) fn die(&mut self, power: bool) {
        self.me = None;
        self.keep_owner = None;
        self.lose_flights(power);
        if power {
            let off = self.draw.pick(&[60_000, 30_000_000]);
            self.time.reboot(off);
        }
    }
}
