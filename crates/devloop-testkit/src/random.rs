//! Owns seeded inputs: observations and commands that fit the state they meet, and now and then do not. It
//! must not decide what is right; two machines that are given the same inputs are compared by the caller.

mod outcome;
mod policy;

use devloop_core::answer::Answer;
use devloop_core::command::{Command, TaskEdit, Wish};
use devloop_core::decide::Input;
use devloop_core::hold::HoldKey;
use devloop_core::ids::{Branch, Digest, DispatchId, Oid, TaskId};
use devloop_core::observation::{
    Checkout, GoalSeen, Observation, OrphanSeen, Others, ProcessTree, RepoSeen, Stamp,
};
use devloop_core::policy::Policy;
use devloop_core::report::Report;
use devloop_core::state::{Lease, LoopState, Owner, Phase};
use devloop_core::tier::{Risk, Tier};
use devloop_core::units::{AwakeMs, Tokens, UsdMicros, WallMs};

/// A small generator (splitmix64): the same seed gives the same numbers on every machine and in every
/// version. Or a tape: a fuzzer's bytes as the numbers, so that a changed byte is a changed choice.
#[derive(Clone, Debug)]
pub struct Random {
    seed: u64,
    tape: Vec<u8>,
    at: usize,
}

impl Random {
    /// Starts from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, tape: Vec::new(), at: 0 }
    }

    /// Takes its numbers from `tape`, two bytes each, and draws the rest like seed 0.
    #[must_use]
    pub fn of_tape(tape: &[u8]) -> Self {
        Self { seed: 0, tape: tape.to_vec(), at: 0 }
    }

    /// Whether nothing is left on the tape; true at once without one.
    #[must_use]
    pub fn is_worn(&self) -> bool {
        self.at >= self.tape.len()
    }

    /// The next number.
    pub fn word(&mut self) -> u64 {
        if let Some(&low) = self.tape.get(self.at) {
            let high = self.tape.get(self.at + 1).copied().unwrap_or(0);
            self.at += 2;
            // Repeated, so that a small range sees the bytes and a large one is filled.
            return u64::from(u16::from_le_bytes([low, high])) * 0x0001_0001_0001_0001;
        }
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.seed;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `end`; zero when `end` is zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end.max(1)
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        let at = usize::try_from(self.below(choices.len() as u64)).expect("an index of a slice fits");
        choices[at].clone()
    }

    /// 40 random hex digits.
    pub fn oid(&mut self) -> Oid {
        let text = format!("{:016x}{:016x}{:08x}", self.word(), self.word(), self.below(1 << 32));
        Oid::parse(&text).expect("40 hex digits")
    }
}

/// A run of inputs. Give each the state as it stands; what comes next depends on it.
///
/// Every other seed is calm: the same odd things happen, a tenth as often, so that its loop gets further.
#[derive(Clone, Debug)]
pub struct Inputs {
    random: Random,
    wild: bool,
    wall: u64,
    awake: AwakeMs,
    instance: u64,
    goal: Digest,
    branch: Branch,
    tip: Oid,
}

impl Inputs {
    /// Starts from `seed`.
    ///
    /// # Panics
    /// Never: its names are valid.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::of(Random::new(seed), seed % 2 == 1)
    }

    /// Starts from these numbers; a `wild` run has ten times as many odd things.
    ///
    /// # Panics
    /// Never: its names are valid.
    #[must_use]
    pub fn of(mut random: Random, wild: bool) -> Self {
        let branch = random.pick(&["main", "devloop/goal-1", "devloop/goal-1", "feature/x"]);
        Self {
            wall: 1_750_000_000_000 + random.below(86_400_000),
            awake: AwakeMs { boot: 1 + random.below(1 << 40), ms: random.below(1 << 30) },
            instance: 1,
            goal: digest('a'),
            branch: Branch::parse(branch).expect("a branch name"),
            tip: random.oid(),
            wild,
            random,
        }
    }

    /// Whether the tape of these inputs is used up.
    #[must_use]
    pub fn is_worn(&self) -> bool {
        self.random.is_worn()
    }

    /// A policy for the loop; ask once.
    pub fn policy(&mut self) -> Policy {
        policy::policy(&mut self.random)
    }

    /// The next input for a loop that is in `state`.
    pub fn next(&mut self, state: &LoopState) -> Input {
        self.pass_time();
        let at_rest = state.phase != Phase::Active || !state.open_holds().is_empty();
        if self.random.chance(if at_rest { 40 } else { 6 }) {
            let command =
                Command { by: self.random.pick(&["cli", "page"]).to_string(), wish: self.wish(state) };
            return Input::Command { stamp: self.stamp(), command };
        }
        Input::Observation(self.observation(state))
    }

    fn pass_time(&mut self) {
        let step = if self.random.chance(5) { 3_600_000 } else { 90_000 };
        let step = self.random.below(step);
        self.awake.ms += step;
        self.wall += step;
        if self.odd(2) {
            self.wall += self.random.below(40_000_000);
        }
        if self.odd(1) {
            self.wall -= self.random.below(90_000_000);
        }
        if self.odd(1) {
            self.awake = AwakeMs { boot: self.awake.boot + 1, ms: self.random.below(100_000) };
            self.instance += 1;
        }
        if self.odd(2) {
            self.instance += 1;
        }
    }

    /// True in `percent` of a hundred cases, in a calm run in a tenth of them.
    fn odd(&mut self, percent: u64) -> bool {
        let of_thousand = if self.wild { percent * 10 } else { percent };
        self.random.below(1_000) < of_thousand
    }

    fn stamp(&self) -> Stamp {
        Stamp { wall: WallMs(self.wall), awake: self.awake, owner: self.owner() }
    }

    fn owner(&self) -> Owner {
        let pid = 100 + u32::try_from(self.instance).unwrap_or(u32::MAX - 100);
        Owner {
            host: "host".into(),
            boot: self.awake.boot,
            pid,
            started: self.instance,
            instance: self.instance,
        }
    }

    fn observation(&mut self, state: &LoopState) -> Observation {
        if self.odd(1) {
            self.goal = digest(self.random.pick(&['a', 'b']));
        }
        if let Some(merge) = &state.target.last_merge {
            self.tip = merge.clone();
        }
        if self.odd(4) {
            self.tip = self.random.oid();
        }
        let absent = self.odd(1);
        Observation {
            stamp: self.stamp(),
            goal: if absent { GoalSeen::Absent } else { GoalSeen::Present(self.goal.clone()) },
            repo: self.repo(),
            free_disk_bytes: if self.odd(2) { self.random.below(1 << 30) } else { 1 << 40 },
            others: Others {
                committed_today: UsdMicros(if self.odd(3) { self.random.below(1 << 26) } else { 0 }),
                slots: if self.odd(5) { 4 } else { 0 },
            },
            reports: self.reports(state),
            orphans: self.orphans(state),
        }
    }

    fn repo(&mut self) -> RepoSeen {
        let checkout = if self.odd(3) {
            Checkout::Dirty { paths: vec!["src/lib.rs".into()] }
        } else if self.odd(3) {
            Checkout::Busy { what: "rebase".into() }
        } else {
            Checkout::Free
        };
        RepoSeen {
            branch: (!self.odd(1)).then(|| self.branch.clone()),
            tip: Some(self.tip.clone()),
            remote_default: Branch::parse("main").ok(),
            checkout,
            contains_last_merge: !self.odd(1),
        }
    }

    /// Some running operations end, some reports come twice, late or for nobody.
    fn reports(&mut self, state: &LoopState) -> Vec<Report> {
        let mine = state.leases.iter().filter(|(_, lease)| lease.owner.instance == self.instance);
        let ended: Vec<(DispatchId, Lease)> = mine.map(|(id, lease)| (*id, lease.clone())).collect();
        let mut reports = Vec::new();
        for (dispatch, lease) in ended {
            if self.random.chance(70) {
                reports.push(outcome::report(&mut self.random, state, dispatch, &lease));
            }
        }
        if self.random.chance(3) {
            reports.extend(reports.first().cloned());
        }
        if self.random.chance(2) {
            let dispatch = DispatchId(self.random.below(state.next_dispatch + 5));
            let usage = Some(outcome::usage(&mut self.random));
            reports.push(Report { dispatch, epoch: 0, usage, outcome: outcome::odd(&mut self.random) });
        }
        reports
    }

    fn orphans(&mut self, state: &LoopState) -> Vec<OrphanSeen> {
        let foreign = state.leases.iter().filter(|(_, lease)| lease.owner.instance != self.instance);
        let ids: Vec<DispatchId> = foreign.map(|(id, _)| *id).collect();
        let mut seen = Vec::new();
        for dispatch in ids {
            let tree = if self.random.chance(80) { ProcessTree::Dead } else { ProcessTree::Alive };
            let saved = self.random.chance(20).then(|| format!("refs/devloop/orphan/{dispatch}"));
            seen.push(OrphanSeen { dispatch, tree, run_record: self.random.chance(70), saved });
        }
        seen
    }

    fn wish(&mut self, state: &LoopState) -> Wish {
        if self.odd(8) {
            return Wish::Pause { now: self.random.chance(50) };
        }
        match &state.phase {
            Phase::Paused { .. } if self.random.chance(70) => {
                return Wish::Resume { task: None, reset_cost: false };
            }
            Phase::Complete { .. } if self.random.chance(70) => return Wish::NextGoal,
            Phase::Active | Phase::Paused { .. } | Phase::Complete { .. } => {}
        }
        match self.random.below(20) {
            1 => Wish::NextGoal,
            2..=5 => {
                let task = if self.random.chance(50) { self.some_task(state) } else { None };
                Wish::Resume { task, reset_cost: self.random.chance(30) }
            }
            6 | 7 => match self.some_task(state) {
                Some(task) => Wish::Edit { task, edit: self.edit() },
                None => Wish::NextGoal,
            },
            _ => self.answer(state),
        }
    }

    fn some_task(&mut self, state: &LoopState) -> Option<TaskId> {
        let ids: Vec<TaskId> = state.tasks.iter().map(|task| task.id.clone()).collect();
        if ids.is_empty() || self.random.chance(5) {
            TaskId::parse("nobody").ok()
        } else {
            Some(self.random.pick(&ids))
        }
    }

    fn edit(&mut self) -> TaskEdit {
        TaskEdit {
            allowed_paths: self
                .random
                .chance(30)
                .then(|| vec![self.random.pick(&["src/**", "../x", "docs/*"]).into()]),
            criteria: self.random.chance(30).then(|| vec!["still works".into()]),
            tier: self.random.chance(30).then(|| self.random.pick(&[Tier::T0, Tier::T1, Tier::T2])),
            risk: self.random.chance(30).then(|| self.random.pick(&[Risk::Low, Risk::High])),
        }
    }

    /// An answer to an open question, mostly one that it takes.
    fn answer(&mut self, state: &LoopState) -> Wish {
        let open: Vec<(HoldKey, u64)> = state
            .open_holds()
            .into_iter()
            .map(|(subject, hold)| (HoldKey { subject, kind: hold.kind }, hold.revision))
            .collect();
        if open.is_empty() {
            let answer = self.random.pick(&Answer::ALL);
            return Wish::Answer { answer, hold: None, revision: None };
        }
        let (key, revision) = self.random.pick(&open);
        let moves: Vec<Answer> = key.kind.answers().iter().copied().filter(|a| *a != Answer::Stop).collect();
        let answer =
            if self.random.chance(90) { self.random.pick(&moves) } else { self.random.pick(&Answer::ALL) };
        let named = open.len() > 1 || self.random.chance(50);
        let revision = if self.random.chance(5) { revision + 1 } else { revision };
        Wish::Answer {
            answer,
            hold: named.then_some(key),
            revision: self.random.chance(50).then_some(revision),
        }
    }
}

fn digest(digit: char) -> Digest {
    Digest::parse(&digit.to_string().repeat(64)).expect("64 hex digits")
}

/// Some use of a model, for reports.
fn tokens(random: &mut Random) -> Tokens {
    Tokens {
        input_uncached: random.below(50_000),
        cache_read: random.below(50_000),
        cache_write: random.below(5_000),
        output: random.below(20_000),
        reasoning: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_another_gives_others() {
        let state = LoopState::default();
        let run = |seed| {
            let mut inputs = Inputs::new(seed);
            (0..50).map(|_| inputs.next(&state)).collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn a_tape_gives_its_bytes_and_then_the_numbers_of_seed_0() {
        let mut random = Random::of_tape(&[3, 0, 0xff]);
        assert!(!random.is_worn());
        assert_eq!([random.word(), random.word()], [0x0003_0003_0003_0003, 0x00ff_00ff_00ff_00ff]);
        assert!(random.is_worn());
        assert_eq!(random.word(), Random::new(0).word());
    }
}
