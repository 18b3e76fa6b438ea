//! Whole nights of the core alone: a tiny world answers every effect at once. It must not touch anything real.
//! The world's workers follow a script, so that each path from a plan to a finished goal is walked.

use devloop_core::answer::Answer;
use devloop_core::apply::apply_line;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Input, decide};
use devloop_core::diagnose::max_decisions;
use devloop_core::effect::{Effect, Job};
use devloop_core::hold::{HoldKey, HoldKind};
use devloop_core::ids::{Branch, Digest, DispatchId, Identity, Oid, RouteKey, TaskId};
use devloop_core::invariant;
use devloop_core::observation::{Checkout, GoalSeen, Observation, Others, RepoSeen, Stamp};
use devloop_core::plan::PlannedTask;
use devloop_core::policy::{
    Acceptance, Backend, HighRisk, Independence, Limits, Policy, PostMerge, ReviewPolicy, Route,
};
use devloop_core::reason::{Reason, WaitWhy};
use devloop_core::report::{CheckOutcome, FailureClass, MergeFault, Outcome, Report, Usage};
use devloop_core::review::{Review, Verdict};
use devloop_core::state::{LoopState, Owner, Phase};
use devloop_core::task::{Done, Stage};
use devloop_core::tier::{Risk, Tier};
use devloop_core::units::{AwakeMs, Tokens, UsdMicros, WallMs};

fn oid(n: u64) -> Oid {
    Oid::parse(&format!("{n:040x}")).expect("hex")
}

fn digest(n: u64) -> Digest {
    Digest::parse(&format!("{n:064x}")).expect("hex")
}

fn route(backend: Backend, who: &str) -> Route {
    Route {
        tier: Tier::T3,
        backend,
        identity: Identity::parse(who).expect("identity"),
        fallback: Vec::new(),
        price: None,
        reserve: Some(UsdMicros(100_000)),
        max_tokens: None,
        max_parallel: None,
    }
}

fn key(name: &str) -> RouteKey {
    RouteKey::parse(name).expect("route")
}

fn policy(backend: Backend) -> Policy {
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

fn planned(id: &str, deps: &[&str], paths: &str, risk: Risk) -> PlannedTask {
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
type Script = Box<dyn FnMut(&Effect, u64) -> Option<Outcome>>;

struct World {
    state: LoopState,
    policy: Policy,
    wall: u64,
    tip: u64,
    next_commit: u64,
    plan: Vec<PlannedTask>,
    script: Script,
    queue: Vec<Report>,
    branch: &'static str,
    cancelled: Vec<DispatchId>,
}

impl World {
    fn new(plan: Vec<PlannedTask>, policy: Policy) -> World {
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
        }
    }

    fn stamp(&self) -> Stamp {
        let owner = Owner { host: "here".into(), boot: 1, pid: 2, started: 3, instance: 4 };
        Stamp {
            wall: WallMs(self.wall),
            awake: AwakeMs { boot: 1, ms: self.wall - 1_789_999_000_000 },
            owner,
        }
    }

    fn observe(&self) -> Observation {
        Observation {
            stamp: self.stamp(),
            goal: GoalSeen::Present(digest(7)),
            repo: RepoSeen {
                branch: Some(Branch::parse(self.branch).expect("branch")),
                tip: Some(oid(self.tip)),
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
    fn tick(&mut self) -> Reason {
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

    fn perform(&mut self, effect: &Effect) {
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
        let model = matches!(effect, Effect::Dispatch { .. });
        let usage = model.then_some(Usage { tokens: Tokens::default(), cost: Some(cost) });
        self.queue.push(Report { dispatch, epoch, usage, outcome });
    }

    fn ordinary(&self, effect: &Effect) -> Outcome {
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
    fn run(&mut self) -> Reason {
        for _ in 0..200 {
            let reason = self.tick();
            if !matches!(reason, Reason::Wait { why: WaitWhy::Lease, .. }) {
                return reason;
            }
        }
        panic!("the night does not end");
    }

    fn say(&mut self, wish: Wish) -> Reason {
        let command = Command { by: "test".into(), wish };
        let input = Input::Command { stamp: self.stamp(), command };
        let decision = decide(&self.state, &self.policy, &input);
        if !decision.events.is_empty() {
            apply_line(&mut self.state, &decision.events).expect("fold");
            invariant::check(&self.state).expect("invariant");
        }
        decision.reason
    }

    fn answer(&mut self, answer: Answer) -> Reason {
        self.say(Wish::Answer { answer, hold: None, revision: None })
    }

    fn holds(&self) -> Vec<String> {
        let open = self.state.open_holds();
        open.into_iter().map(|(s, h)| HoldKey { subject: s, kind: h.kind }.to_string()).collect()
    }

    fn stage(&self, id: &str) -> &Stage {
        &self.state.tasks.get(&TaskId::parse(id).expect("id")).expect("task").stage
    }
}

fn verdict(verdict: Verdict, head: &Oid, notes: &str) -> Outcome {
    Outcome::Reviewed(Review { verdict, head: head.clone(), notes: notes.into() })
}

fn two() -> Vec<PlannedTask> {
    vec![planned("a", &[], "a/**", Risk::Low), planned("b", &["a"], "b/**", Risk::Low)]
}

/// The task of an effect that runs a model on one.
fn task_of(effect: &Effect) -> Option<(&str, &Job)> {
    match effect {
        Effect::Dispatch { job, .. } => match job {
            Job::Work { contract, .. } | Job::Review { contract, .. } => Some((contract.task.as_str(), job)),
            Job::Plan { .. } => None,
        },
        _ => None,
    }
}

#[test]
fn a_goal_goes_from_plan_to_merged_commits() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::StillComplete);
    assert!(matches!(world.stage("a"), Stage::Done(Done::Merged { .. })));
    assert!(matches!(world.stage("b"), Stage::Done(Done::Merged { .. })));
    assert_eq!(world.state.ledger.goal(1).measured, UsdMicros(5 * 50_000), "plan, two works, two reviews");
    assert!(world.state.leases.is_empty());
}

#[test]
fn checks_run_once_on_the_base_then_on_every_commit() {
    let mut policy = policy(Backend::Scripted);
    policy.acceptance = Acceptance::Digest(digest(9));
    policy.post_merge = PostMerge::Always;
    let mut world = World::new(two(), policy);
    let counted = std::rc::Rc::new(std::cell::RefCell::new((0, 0, 0)));
    let seen = counted.clone();
    world.script = Box::new(move |effect, _| {
        let mut n = seen.borrow_mut();
        match effect {
            Effect::Check { contract: None, .. } => n.0 += 1,
            Effect::Check { contract: Some(_), .. } => n.1 += 1,
            Effect::Verify { .. } => n.2 += 1,
            _ => {}
        }
        None
    });
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(*counted.borrow(), (1, 2, 2));
}

#[test]
fn a_held_task_holds_only_itself_and_retry_sets_it_going() {
    let plan = vec![planned("a", &[], "a/**", Risk::Low), planned("b", &[], "b/**", Risk::Low)];
    let mut world = World::new(plan, policy(Backend::Scripted));
    world.script = Box::new(|effect, _| match task_of(effect) {
        Some(("a", Job::Work { .. })) => Some(Outcome::WorkBlocked { summary: "no key".into() }),
        _ => None,
    });
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:blocked_task"]);
    assert!(matches!(world.stage("b"), Stage::Done(_)));
    world.script = Box::new(|_, _| None);
    assert!(matches!(world.answer(Answer::Retry), Reason::Answered { .. }));
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn attempts_run_out_and_ask() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.script = Box::new(|effect, _| match task_of(effect) {
        Some(("a", Job::Work { .. })) => {
            Some(Outcome::Failed { class: FailureClass::Task, detail: "compile error".into() })
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:max_task_attempts"]);
    assert_eq!(world.state.ledger.goal(1).measured, UsdMicros(4 * 50_000), "one plan, three attempts");
    assert!(matches!(world.answer(Answer::Accept), Reason::Refused(_)), "only offered answers count");
    world.answer(Answer::Drop);
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/b:dependency_dropped"]);
    world.script = Box::new(|_, _| None);
    world.answer(Answer::GoOn);
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn a_rework_carries_the_reviewers_notes() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    let noted = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = noted.clone();
    let mut first = true;
    world.script = Box::new(move |effect, _| match task_of(effect) {
        Some(("a", Job::Review { head, .. })) if std::mem::take(&mut first) => {
            Some(verdict(Verdict::Rework, head, "name it better"))
        }
        Some((_, Job::Work { notes, .. })) => {
            seen.borrow_mut().push(notes.clone());
            None
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(*noted.borrow(), ["", "name it better", ""]);
}

#[test]
fn high_risk_is_worked_and_reviewed_and_then_approved_by_a_person() {
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::High)], policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:security_high_risk"]);
    assert!(matches!(world.answer(Answer::Approve), Reason::Answered { .. }));
    assert_eq!(world.run(), Reason::StillComplete);
    assert!(matches!(world.stage("a"), Stage::Done(Done::Merged { .. })));
    assert!(world.state.grants.is_empty(), "the approval was consumed");
}

#[test]
fn a_goal_cap_stops_and_allow_grants_one_more_limit() {
    let mut policy = policy(Backend::Scripted);
    policy.limits.cost_goal = Some(UsdMicros(160_000));
    let mut world = World::new(two(), policy);
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["loop:goal_cost_cap"]);
    assert!(matches!(world.answer(Answer::Allow), Reason::Answered { .. }));
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn a_reserve_above_a_whole_cap_is_its_own_question() {
    let mut policy = policy(Backend::Scripted);
    policy.limits.cost_session = UsdMicros(60_000);
    let mut world = World::new(two(), policy);
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["loop:reserve_exceeds_cap"]);
    world.answer(Answer::Allow);
    assert_eq!(world.run(), Reason::Halted, "one more limit's worth is soon spent too");
    assert_eq!(world.holds(), ["loop:session_cost_cap"]);
}

#[test]
fn noop_names_what_it_would_do_and_takes_no_lease() {
    let mut world = World::new(two(), policy(Backend::Noop));
    let reason = world.run();
    assert!(matches!(reason, Reason::Wait { why: WaitWhy::NoopBackend { .. }, .. }), "{reason:?}");
    assert!(world.state.leases.is_empty() && world.state.ledger.entries.is_empty());
}

#[test]
fn refusals_cost_no_attempt_and_hold_only_that_task() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.script = Box::new(|effect, _| match task_of(effect) {
        Some(("a", Job::Work { .. })) => Some(Outcome::Refused { detail: "no such program".into() }),
        _ => None,
    });
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:dispatch_refused"]);
    assert_eq!(world.state.tasks.iter().next().expect("a").counters.attempts, 0);
}

#[test]
fn a_provider_fault_closes_the_route_until_its_reset() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    let until = WallMs(world.wall + 600_000);
    world.script = Box::new(move |effect, _| match task_of(effect) {
        Some((_, Job::Work { .. })) => {
            let class = FailureClass::RateLimited { until: Some(until) };
            Some(Outcome::Failed { class, detail: "limit reached".into() })
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::Wait { why: WaitWhy::Time, until: Some(until) });
    assert_eq!(world.state.tasks.iter().next().expect("a").counters.attempts, 0);
    world.script = Box::new(|_, _| None);
    world.wall += 600_000;
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn a_trunk_is_worked_for_but_not_merged_into() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    world.branch = "Main";
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["target:merge_onto_trunk"]);
    assert!(matches!(world.stage("a"), Stage::MergeReady(_)));
    world.answer(Answer::Branch);
    assert_eq!(world.state.target.branch.as_ref().map(Branch::as_str), Some("devloop/goal-1"));
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn overlap_refreshes_conflict_reworks_once_then_asks() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    let mut merges = 0;
    world.script = Box::new(move |effect, _| match effect {
        Effect::Merge { .. } => {
            merges += 1;
            let fault = |why| Outcome::NotMerged { why, detail: "x".into(), paths: vec!["a/x".into()] };
            match merges {
                1 => Some(fault(MergeFault::Overlap)),
                2 | 3 => Some(fault(MergeFault::Conflict)),
                _ => None,
            }
        }
        _ => None,
    });
    // Reviews: first, after the refresh, after the rework: two are the default, so give it room.
    world.policy.limits.review_cycles = 9;
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:merge_conflict"]);
    assert_eq!(world.state.tasks.iter().next().expect("a").counters.refreshes, 1);
}

#[test]
fn red_after_the_merge_is_reverted_and_worked_on_again() {
    let mut policy = policy(Backend::Scripted);
    policy.acceptance = Acceptance::Digest(digest(9));
    policy.post_merge = PostMerge::Always;
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy);
    let mut first = true;
    world.script = Box::new(move |effect, _| match effect {
        Effect::Verify { .. } if std::mem::take(&mut first) => {
            Some(Outcome::Checked(CheckOutcome::Red { commands: vec!["test".into()], output: "boom".into() }))
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(world.state.tasks.iter().next().expect("a").counters.attempts, 2);
}

#[test]
fn pause_drains_and_pause_now_cancels() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    while world.state.leases.is_empty() || world.state.tasks.is_empty() {
        world.tick();
    }
    assert_eq!(world.say(Wish::Pause { now: true }), Reason::Paused);
    assert_eq!(world.tick(), Reason::StillPaused);
    assert!(!matches!(world.state.phase, Phase::Active));
    assert_eq!(world.say(Wish::Resume { task: None, reset_cost: false }), Reason::Resumed);
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn replan_replaces_the_task_and_rewrites_who_waits_for_it() {
    let mut world = World::new(two(), policy(Backend::Scripted));
    let mut first = true;
    world.script = Box::new(move |effect, _| match effect {
        Effect::Dispatch { job: Job::Review { contract, head }, .. }
            if contract.task.as_str() == "a" && std::mem::take(&mut first) =>
        {
            Some(verdict(Verdict::Replan, head, "too big"))
        }
        Effect::Dispatch { job: Job::Plan { replaces: Some(_), .. }, .. } => Some(Outcome::Planned {
            tasks: vec![planned("a1", &[], "a/**", Risk::Low), planned("a2", &["a1"], "a/**", Risk::Low)],
        }),
        _ => None,
    });
    assert_eq!(world.run(), Reason::StillComplete);
    assert!(matches!(world.stage("a"), Stage::Dropped { replaced_by } if replaced_by.len() == 2));
    let waits: Vec<String> = world
        .state
        .tasks
        .get(&TaskId::parse("b").expect("id"))
        .expect("b")
        .depends_on
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(waits, ["a1", "a2"]);
}

#[test]
fn an_empty_plan_and_a_bad_plan_ask() {
    let mut world = World::new(Vec::new(), policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["planning:empty_plan"]);
    let cyclic = vec![planned("a", &["b"], "a/**", Risk::Low), planned("b", &["a"], "b/**", Risk::Low)];
    let mut world = World::new(cyclic, policy(Backend::Scripted));
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["planning:plan_attempts"]);
    let open = world.state.open_holds();
    assert!(open[0].1.detail.contains("a -> b -> a"), "{}", open[0].1.detail);
}

#[test]
fn every_hold_kind_opened_here_offers_only_answers_that_are_accepted() {
    for kind in HoldKind::ALL {
        assert!(!kind.key().is_empty());
    }
}
