//! A tiny world for the core alone: it answers every effect at once, as a script says. Nothing real is
//! touched.

use devloop_core::answer::Answer;
use devloop_core::apply::apply_line;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Input, decide};
use devloop_core::diagnose::max_decisions;
use devloop_core::effect::{Effect, Job};
use devloop_core::finding::{Found, Severity};
use devloop_core::hold::HoldKey;
use devloop_core::ids::{Branch, Digest, DispatchId, Identity, Oid, RouteKey, TaskId};
use devloop_core::invariant;
use devloop_core::observation::{Checkout, GoalSeen, Observation, Others, RepoSeen, Stamp};
use devloop_core::plan::PlannedTask;
use devloop_core::policy::{
    Acceptance, Backend, HighRisk, Independence, Limits, Policy, PostMerge, ReviewPolicy, Route,
};
use devloop_core::reason::{Reason, WaitWhy};
use devloop_core::report::{CheckOutcome, Outcome, Report, Usage, UsageSource};
use devloop_core::review::{Review, Verdict};
use devloop_core::state::{LoopState, Owner};
use devloop_core::task::Stage;
use devloop_core::tier::{Risk, Tier};
use devloop_core::units::{AwakeMs, Tokens, UsdMicros, WallMs};

pub fn oid(n: u64) -> Oid {
    Oid::parse(&format!("{n:040x}")).expect("hex")
}

pub fn digest(n: u64) -> Digest {
    Digest::parse(&format!("{n:064x}")).expect("hex")
}

pub fn route(backend: Backend, who: &str) -> Route {
    Route {
        tier: Tier::T3,
        backend,
        identity: Identity::parse(who).expect("identity"),
        fallback: Vec::new(),
        price: None,
        peak: None,
        reserve: Some(UsdMicros(100_000)),
        max_tokens: None,
        max_parallel: None,
    }
}

pub fn key(name: &str) -> RouteKey {
    RouteKey::parse(name).expect("route")
}

pub fn policy(backend: Backend) -> Policy {
    let routes = [("plan", "lead/plan"), ("work", "cheap/work"), ("review", "lead/review")];
    Policy {
        digest: digest(1),
        limits: Limits::default(),
        routes: routes.into_iter().map(|(k, who)| (key(k), route(backend, who))).collect(),
        planner: key("plan"),
        reviewer: key("review"),
        routing: [Tier::T0, Tier::T1, Tier::T2, Tier::T3].into_iter().map(|t| (t, key("work"))).collect(),
        acceptance: Acceptance::Absent,
        review: ReviewPolicy { independence: Independence::Model, not_lower: false },
        high_risk: HighRisk::HoldBeforeMerge,
        post_merge: PostMerge::Never,
        trunks: Vec::new(),
    }
}

pub fn planned(id: &str, deps: &[&str], paths: &str, risk: Risk) -> PlannedTask {
    PlannedTask {
        id: id.into(),
        title: format!("do {id}"),
        tier: Tier::T1,
        risk,
        depends_on: deps.iter().map(|d| (*d).to_string()).collect(),
        allowed_paths: vec![paths.into()],
        criteria: vec!["it works".into()],
        estimate: None,
    }
}

/// What the script says to one effect; none for the ordinary good outcome.
pub type Script = Box<dyn FnMut(&Effect, u64) -> Option<Outcome>>;

pub struct World {
    pub state: LoopState,
    pub policy: Policy,
    pub wall: u64,
    pub tip: u64,
    pub next_commit: u64,
    pub plan: Vec<PlannedTask>,
    pub script: Script,
    pub queue: Vec<Report>,
    pub branch: &'static str,
    pub cancelled: Vec<DispatchId>,
    pub boot: u64,
    pub instance: u64,
    pub goal: u64,
    pub slept: u64,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("state", &self.state).finish_non_exhaustive()
    }
}

impl World {
    pub fn new(plan: Vec<PlannedTask>, policy: Policy) -> World {
        World {
            state: LoopState::default(),
            policy,
            wall: 1_790_000_000_000,
            tip: 1,
            next_commit: 100,
            plan,
            script: Box::new(|_, _| None),
            queue: Vec::new(),
            branch: "work",
            cancelled: Vec::new(),
            boot: 1,
            instance: 4,
            goal: 7,
            slept: 0,
        }
    }

    pub fn stamp(&self) -> Stamp {
        let owner =
            Owner { host: "here".into(), boot: self.boot, pid: 2, started: 3, instance: self.instance };
        Stamp {
            wall: WallMs(self.wall),
            awake: AwakeMs { boot: self.boot, ms: self.wall - self.slept - 1_789_999_000_000 },
            owner,
        }
    }

    /// Wall time goes on while the machine sleeps.
    pub fn step_clock(&mut self, ms: u64) {
        self.wall += ms;
        self.slept += ms;
    }

    pub fn observe(&self) -> Observation {
        Observation {
            stamp: self.stamp(),
            goal: GoalSeen::Present(digest(self.goal)),
            repo: RepoSeen {
                branch: Branch::parse(self.branch).ok(),
                tip: (self.tip > 0).then(|| oid(self.tip)),
                remote_default: None,
                checkout: Checkout::Free,
                contains_last_merge: true,
            },
            free_disk_bytes: 1 << 40,
            others: Others::default(),
            reports: self.queue.clone(),
            orphans: Vec::new(),
        }
    }

    /// One tick; the last reason.
    pub fn tick(&mut self) -> Reason {
        self.wall += 2_000;
        let input = Input::Observation(self.observe());
        let mut effects = Vec::new();
        let bound = max_decisions(&self.state, &self.policy) + 60;
        for _ in 0..bound {
            let decision = decide(&self.state, &self.policy, &input);
            let quiet = decision.events.is_empty() && decision.effects.is_empty();
            assert!(decision.reason.is_final() || !quiet, "nothing decided: {:?}", decision.reason);
            if !decision.events.is_empty() {
                apply_line(&mut self.state, &decision.events).expect("fold");
                invariant::check(&self.state).expect("invariant");
            }
            effects.extend(decision.effects);
            if decision.reason.is_final() {
                self.queue.clear();
                effects.iter().for_each(|effect| self.perform(effect));
                return decision.reason;
            }
        }
        panic!("a tick took more than {bound} decisions");
    }

    pub fn perform(&mut self, effect: &Effect) {
        if let Effect::Cancel { dispatch } = effect {
            self.cancelled.push(*dispatch);
        }
        let Some((dispatch, epoch)) = effect.lease() else { return };
        self.next_commit += 1;
        let said = (self.script)(effect, self.next_commit);
        let outcome = said.unwrap_or_else(|| self.ordinary(effect));
        if let Outcome::Merged { .. } = outcome {
            self.tip = self.next_commit;
        }
        let cost = UsdMicros(50_000);
        // Whom no provider saw used nothing.
        let model = matches!(effect, Effect::Dispatch { .. }) && !matches!(outcome, Outcome::Refused { .. });
        let usage = model.then_some(Usage::per_dispatch(UsageSource::Result, Tokens::default(), Some(cost)));
        self.queue.push(Report { dispatch, epoch, usage, outcome });
    }

    pub fn ordinary(&self, effect: &Effect) -> Outcome {
        let fresh = oid(self.next_commit);
        match effect {
            Effect::Dispatch { job: Job::Plan { .. }, .. } => Outcome::Planned { tasks: self.plan.clone() },
            Effect::Dispatch { job: Job::Work { .. }, .. } => Outcome::Worked { summary: "done".into() },
            Effect::Dispatch { job: Job::Review { head, .. }, .. } => verdict(Verdict::Pass, head, ""),
            Effect::Commit { .. } => Outcome::Committed { head: fresh },
            Effect::Check { .. } | Effect::Verify { .. } => Outcome::Checked(CheckOutcome::Green),
            Effect::Merge { .. } => Outcome::Merged { commit: fresh },
            Effect::Refresh { .. } => Outcome::Refreshed { head: fresh, base: oid(self.tip) },
            Effect::Revert { .. } => Outcome::Reverted { commit: fresh.clone(), reapplied: fresh },
            _ => Outcome::NoResult { detail: "not a lease".into() },
        }
    }

    /// Ticks until only a person, or nothing, can move the loop.
    pub fn run(&mut self) -> Reason {
        for _ in 0..200 {
            let reason = self.tick();
            if !matches!(reason, Reason::Wait { why: WaitWhy::Lease, .. }) {
                return reason;
            }
        }
        panic!("the night does not end");
    }

    /// Ticks until nothing runs any more; the open holds.
    pub fn run_to_halt(&mut self) -> Vec<String> {
        for _ in 0..50 {
            self.tick();
            if self.state.leases.is_empty() && self.queue.is_empty() {
                break;
            }
        }
        self.holds()
    }

    pub fn say(&mut self, wish: Wish) -> Reason {
        let command = Command { by: "test".into(), wish };
        let input = Input::Command { stamp: self.stamp(), command };
        let decision = decide(&self.state, &self.policy, &input);
        if !decision.events.is_empty() {
            apply_line(&mut self.state, &decision.events).expect("fold");
            invariant::check(&self.state).expect("invariant");
        }
        decision.reason
    }

    pub fn answer(&mut self, answer: Answer) -> Reason {
        self.say(Wish::Answer { answer, hold: None, revision: None })
    }

    pub fn holds(&self) -> Vec<String> {
        let open = self.state.open_holds();
        open.into_iter().map(|(s, h)| HoldKey { subject: s, kind: h.kind }.to_string()).collect()
    }

    pub fn stage(&self, id: &str) -> &Stage {
        &self.state.tasks.get(&TaskId::parse(id).expect("id")).expect("task").stage
    }
}

/// A review; one that sends back finds just what its notes say.
pub fn verdict(verdict: Verdict, head: &Oid, notes: &str) -> Outcome {
    let found: &[&str] = if verdict == Verdict::Rework { &[notes] } else { &[] };
    reviewed(verdict, head, notes, found)
}

/// A review with these blocking findings, all new to the reviewer.
pub fn reviewed(verdict: Verdict, head: &Oid, notes: &str, found: &[&str]) -> Outcome {
    let findings = found.iter().map(|text| blocking(text)).collect();
    Outcome::Reviewed(Review { verdict, head: head.clone(), notes: notes.into(), findings })
}

/// A blocking finding that the reviewer takes for a new one.
pub fn blocking(text: &str) -> Found {
    Found { id: None, severity: Severity::Blocking, path: None, line: None, text: text.into() }
}

pub fn two() -> Vec<PlannedTask> {
    vec![planned("a", &[], "a/**", Risk::Low), planned("b", &["a"], "b/**", Risk::Low)]
}

/// The task of an effect that runs a model on one.
pub fn task_of(effect: &Effect) -> Option<(&str, &Job)> {
    match effect {
        Effect::Dispatch { job, .. } => match job {
            Job::Work { contract, .. } | Job::Review { contract, .. } => Some((contract.task.as_str(), job)),
            Job::Plan { .. } => None,
        },
        _ => None,
    }
}
