//! A whole night with time in it, recorded as a loop records it: operations take a while, loops are killed
//! and started again, people answer. Nothing real is touched.

use devloop_core::apply::apply_line;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Decision, Input, decide};
use devloop_core::diagnose::max_decisions;
use devloop_core::effect::Effect;
use devloop_core::ids::{Digest, DispatchId};
use devloop_core::observation::{Checkout, Observation, OrphanSeen, ProcessTree, RepoSeen, Stamp};
use devloop_core::policy::Policy;
use devloop_core::reason::Reason;
use devloop_core::report::{FailureClass, Outcome, Report, Usage, UsageSource};
use devloop_core::units::UsdMicros;
use devloop_wire::event_line::{self, Entry};
use devloop_wire::trace_line::{self, TraceEntry};
use devloop_wire::{digest_bytes, state_doc};

use crate::world::World;

/// Milliseconds between two looks when nothing wakes the loop.
pub const BEAT_MS: u64 = 2_000;

/// How long an effect takes, in milliseconds.
pub type Took = Box<dyn FnMut(&Effect) -> u64>;
/// What an effect used.
pub type Used = Box<dyn FnMut(&Effect) -> Option<Usage>>;

/// A night that is being recorded.
pub struct Night {
    /// The state, the policy, and what effects end with.
    pub world: World,
    /// How long effects take.
    pub took: Took,
    /// What they use.
    pub used: Used,
    /// The digest of the core that records.
    pub core: Digest,
    /// The user's checkout.
    pub checkout: Checkout,
    /// What a command of another process is decided under; none for the loop's own policy.
    pub desk: Option<Policy>,
    under_way: Vec<(u64, Report)>,
    instance: u64,
    head: bool,
    trace: Vec<Vec<u8>>,
    journal: Vec<Vec<u8>>,
    chain: Option<Digest>,
}

impl std::fmt::Debug for Night {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Night").field("world", &self.world).finish_non_exhaustive()
    }
}

impl Night {
    /// A night of this world: models take a minute and cost 5 cents, the rest takes a second.
    pub fn new(world: World) -> Night {
        let model = |effect: &Effect| matches!(effect, Effect::Dispatch { .. });
        let usage = Usage::per_dispatch(
            UsageSource::Result,
            devloop_core::units::Tokens::default(),
            Some(UsdMicros(50_000)),
        );
        Night {
            world,
            took: Box::new(move |effect| if model(effect) { 60_000 } else { 1_000 }),
            used: Box::new(move |effect| model(effect).then_some(usage)),
            core: digest_bytes(b"a core"),
            checkout: Checkout::Free,
            desk: None,
            under_way: Vec::new(),
            instance: 4,
            head: true,
            trace: Vec::new(),
            journal: Vec::new(),
            chain: None,
        }
    }

    fn stamp(&self) -> Stamp {
        let mut stamp = self.world.stamp();
        stamp.owner.instance = self.instance;
        stamp
    }

    fn look(&self) -> Observation {
        let stamp = self.stamp();
        let due = self.under_way.iter().filter(|(at, _)| *at <= self.world.wall);
        let foreign =
            self.world.state.leases.iter().filter(|(_, l)| l.op.is_model() && l.owner != stamp.owner);
        let orphan = |dispatch: DispatchId| OrphanSeen {
            dispatch,
            tree: ProcessTree::Dead,
            run_record: true,
            saved: None,
        };
        let seen = self.world.observe();
        Observation {
            repo: RepoSeen { checkout: self.checkout.clone(), ..seen.repo },
            reports: due.map(|(_, report)| report.clone()).collect(),
            orphans: foreign.map(|(dispatch, _)| orphan(*dispatch)).collect(),
            stamp,
            ..seen
        }
    }

    /// The next look: when something ended, at the latest after [`BEAT_MS`].
    ///
    /// # Panics
    /// When the core contradicts itself.
    pub fn beat(&mut self) -> Reason {
        let next = self.under_way.iter().map(|(at, _)| *at).filter(|at| *at > self.world.wall).min();
        self.world.wall = next.unwrap_or(u64::MAX).min(self.world.wall + BEAT_MS);
        let seen = self.look();
        let input = Input::Observation(seen.clone());
        let before = self.world.state.clone();
        let mut decisions = Vec::new();
        for _ in 0..max_decisions(&before, &self.world.policy) {
            let decision = decide(&self.world.state, &self.world.policy, &input);
            if !decision.events.is_empty() {
                apply_line(&mut self.world.state, &decision.events).expect("fold");
            }
            decisions.push(decision);
            if decisions.last().is_some_and(|d| d.reason.is_final()) {
                break;
            }
        }
        self.record(&before, &input, &decisions, "loop/4");
        self.under_way.retain(|(_, report)| !seen.reports.contains(report));
        let effects: Vec<Effect> = decisions.iter().flat_map(|d| d.effects.iter().cloned()).collect();
        effects.iter().for_each(|effect| self.perform(effect));
        decisions.pop().expect("a decision").reason
    }

    fn perform(&mut self, effect: &Effect) {
        if let Effect::Cancel { dispatch } = effect {
            let soon = self.world.wall + 500;
            for (at, report) in self.under_way.iter_mut().filter(|(_, r)| r.dispatch == *dispatch) {
                let class = FailureClass::Cancelled;
                report.outcome = Outcome::Failed { class, detail: "it was ended on request".into() };
                *at = soon;
            }
        }
        self.world.perform(effect);
        if let Some(mut report) = self.world.queue.pop() {
            report.usage = (self.used)(effect);
            self.under_way.push((self.world.wall + (self.took)(effect), report));
        }
    }

    /// A person says something, from another process, a second later.
    ///
    /// # Panics
    /// When the core contradicts itself.
    pub fn say(&mut self, wish: Wish) -> Reason {
        self.world.wall += 1_000;
        let before = self.world.state.clone();
        let input = Input::Command { stamp: self.stamp(), command: Command { by: "test".into(), wish } };
        let policy = self.desk.as_ref().unwrap_or(&self.world.policy);
        let decision = decide(&before, policy, &input);
        if !decision.events.is_empty() {
            apply_line(&mut self.world.state, &decision.events).expect("fold");
        }
        let reason = decision.reason.clone();
        if let Some(policy) = self.desk.as_ref().filter(|_| !decision.events.is_empty()) {
            self.trace.push(trace_line::write_head(&before, &self.core, policy));
        }
        self.record(&before, &input, &[decision], "test");
        reason
    }

    /// The loop is killed with everything it runs, and started again after `ms`.
    pub fn kill(&mut self, ms: u64) {
        self.under_way.clear();
        self.instance += 1;
        self.world.wall += ms;
        self.head = true;
    }

    /// A report arrives after `ms`, whoever sent it.
    pub fn arrive(&mut self, ms: u64, report: Report) {
        self.under_way.push((self.world.wall + ms, report));
    }

    /// Beats until nothing happens by itself.
    ///
    /// # Panics
    /// When that does not come.
    pub fn run(&mut self) -> Reason {
        for _ in 0..20_000 {
            let reason = self.beat();
            let waits = matches!(reason, Reason::Wait { until: Some(_), .. });
            if !waits && self.under_way.is_empty() && reason.is_final() {
                return reason;
            }
        }
        panic!("the night does not end: {:?}", self.world.holds());
    }

    fn record(
        &mut self,
        before: &devloop_core::state::LoopState,
        input: &Input,
        decisions: &[Decision],
        by: &str,
    ) {
        let lines: Vec<&Decision> = decisions.iter().filter(|d| !d.events.is_empty()).collect();
        if lines.is_empty() {
            return;
        }
        if self.head {
            self.trace.push(trace_line::write_head(before, &self.core, &self.world.policy));
            self.head = false;
        }
        let state = &self.world.state;
        let state_digest = &state_doc::digest(state);
        self.trace.push(trace_line::write(&TraceEntry {
            revision: state.revision,
            input,
            decisions,
            state_digest,
        }));
        if self.journal.is_empty() {
            let head = event_line::write_head(before, &self.core, before.policy.as_ref(), None);
            self.journal.push(head.bytes);
            self.chain = Some(head.chain);
        }
        for (i, line) in lines.iter().enumerate() {
            let stamp = match input {
                Input::Observation(seen) => &seen.stamp,
                Input::Command { stamp, .. } => stamp,
            };
            let revision = before.revision + 1 + i as u64;
            let entry = Entry { revision, at: stamp.wall, by, reason: &line.reason, events: &line.events };
            let written = event_line::write_line(&entry, self.chain.as_ref());
            self.journal.push(written.bytes);
            self.chain = Some(written.chain);
        }
    }

    /// The trace so far.
    #[must_use]
    pub fn trace(&self) -> Vec<u8> {
        joined(&self.trace)
    }

    /// The journal so far: one segment.
    #[must_use]
    pub fn journal(&self) -> Vec<u8> {
        joined(&self.journal)
    }
}

fn joined(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect()
}
