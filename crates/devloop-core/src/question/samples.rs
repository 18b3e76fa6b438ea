//! Small states for the tests of questions, PROGRESS.md and invariants. Never compiled into the core.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::basis::Basis;
use crate::hold::{Hold, HoldKind, Subject};
use crate::ids::{Branch, Digest, DispatchId, Identity, Oid, RouteKey, TaskId};
use crate::ledger::{Certainty, Entry};
use crate::policy::{
    Acceptance, Backend, HighRisk, Independence, Limits, Policy, PostMerge, ReviewPolicy, Route,
};
use crate::review::{Review, ReviewedHead, Verdict};
use crate::state::{Lease, LoopHold, LoopState, Op, Owner, Planning};
use crate::task::{Counters, ResumeTo, Stage, Task};
use crate::tier::{Risk, Tier};
use crate::units::{ActiveMs, DAY_MS, Day, Map, Tokens, UsdMicros, WallMs};

pub(crate) fn task_id(text: &str) -> TaskId {
    TaskId::parse(text).expect(text)
}

/// A commit of forty times the same digit.
pub(crate) fn oid(digit: char) -> Oid {
    Oid::parse(&String::from_iter([digit; 40])).expect("a hex digit")
}

pub(crate) fn who(text: &str) -> Identity {
    Identity::parse(text).expect(text)
}

pub(crate) fn route_key(text: &str) -> RouteKey {
    RouteKey::parse(text).expect(text)
}

pub(crate) fn route(identity: &str) -> Route {
    Route {
        tier: Tier::T3,
        backend: Backend::Scripted,
        identity: who(identity),
        fallback: vec![],
        price: None,
        peak: None,
        reserve: None,
        max_tokens: None,
        max_parallel: None,
    }
}

pub(crate) fn policy() -> Policy {
    let routes = [("work", "acme/worker"), ("review", "other/reviewer")];
    Policy {
        digest: Digest::parse(&"d".repeat(64)).expect("hex"),
        limits: Limits::default(),
        routes: routes.into_iter().map(|(key, identity)| (route_key(key), route(identity))).collect(),
        planner: route_key("review"),
        reviewer: route_key("review"),
        routing: Map::from([(Tier::T1, route_key("work"))]),
        acceptance: Acceptance::Absent,
        review: ReviewPolicy { independence: Independence::Model, not_lower: true },
        high_risk: HighRisk::HoldBeforeMerge,
        post_merge: PostMerge::Never,
        trunks: vec![],
    }
}

pub(crate) fn task(id: &str, stage: Stage) -> Task {
    Task {
        id: task_id(id),
        lineage: task_id(id),
        title: alloc::format!("do {id}"),
        tier: Tier::T1,
        risk: Risk::Low,
        depends_on: vec![],
        allowed_paths: vec![alloc::format!("{id}/**")],
        criteria: vec!["works".into()],
        estimate: None,
        edition: 1,
        stage,
        counters: Counters::default(),
        implementers: BTreeSet::new(),
        base: None,
        tip: None,
        checked: None,
        findings: crate::finding::Findings::default(),
    }
}

/// A task with the commit `b` on base `a`, by `acme/worker`.
pub(crate) fn worked(id: &str, stage: Stage) -> Task {
    let (base, tip) = (Some(oid('a')), Some(oid('b')));
    Task { base, tip, implementers: BTreeSet::from([who("acme/worker")]), ..task(id, stage) }
}

/// The proof that `other/reviewer` passed the commit `b` on base `a`.
pub(crate) fn reviewed() -> ReviewedHead {
    let review = Review::bare(Verdict::Pass, oid('b'));
    let who_worked = BTreeSet::from([who("acme/worker")]);
    let reviewer = who("other/reviewer");
    let proven =
        ReviewedHead::prove(&review, &oid('b'), &oid('a'), &reviewer, &who_worked, Independence::Model);
    proven.expect("an independent pass")
}

pub(crate) fn hold(kind: HoldKind) -> Hold {
    Hold {
        kind,
        revision: 7,
        opened_at: WallMs(1_772_366_580_000),
        detail: String::new(),
        items: vec![],
        acknowledged: None,
    }
}

pub(crate) fn held(resume_to: ResumeTo, kind: HoldKind) -> Stage {
    Stage::Held { resume_to, hold: hold(kind) }
}

/// An active goal on branch `main` with these tasks.
pub(crate) fn state(tasks: impl IntoIterator<Item = Task>) -> LoopState {
    let mut state = LoopState { revision: 9, ..LoopState::default() };
    state.goal.number = 2;
    state.clock.day = Day(20);
    state.clock.wall = WallMs(20 * DAY_MS + 1);
    state.target.branch = Branch::parse("main").ok();
    for task in tasks {
        state.tasks.push(task).expect("ids are used once");
    }
    state
}

/// Opens a hold of the loop itself.
pub(crate) fn with_hold(mut state: LoopState, subject: Subject, hold: Hold) -> LoopState {
    if subject == Subject::Planning {
        state.planning = Planning::Held { replaces: None };
    }
    state.holds.push(LoopHold { subject, hold });
    state
}

/// Takes a lease by hand; one that runs a model gets its entry in the ledger.
pub(crate) fn lease(state: &mut LoopState, number: u64, op: Op, subject: Subject) {
    let (dispatch, policy) = (DispatchId(number), policy());
    let reserve = UsdMicros(if op.is_model() { 500_000 } else { 0 });
    let route = op.is_model().then(|| route_key("work"));
    if let Some(route) = &route {
        let lineage = match &subject {
            Subject::Task(id) => Some(id.clone()),
            _ => None,
        };
        let entry = Entry {
            op,
            lineage,
            route: route.clone(),
            goal: state.goal.number,
            day: state.clock.day,
            instance: 1,
            amount: reserve,
            certainty: Certainty::Reserved,
            tokens: Tokens::default(),
        };
        state.ledger.entries.insert(dispatch, entry);
    }
    let lease = Lease {
        op,
        subject,
        who: (op.is_model() || op == Op::Commit).then(|| who("acme/worker")),
        route,
        epoch: 1,
        owner: Owner { host: "host".into(), boot: 1, pid: 2, started: 3, instance: 1 },
        started_at: ActiveMs(0),
        deadline: ActiveMs(60_000),
        reserve,
        basis: Basis::of_loop(state, &policy, None),
        worktree: None,
        resume_to: None,
        ending: None,
    };
    state.leases.insert(dispatch, lease);
    state.next_dispatch = state.next_dispatch.max(number + 1);
}

/// Task `a`, held with its commit, beside a task `b` that is ready.
pub(crate) fn of_task(stage: ResumeTo, kind: HoldKind) -> LoopState {
    let stage = held(stage, kind);
    state([worked("a", stage), task("b", Stage::Ready)])
}

/// The states every kind is put in: a task at each resting place, with and without a commit, or the loop.
pub(crate) fn states_of(kind: HoldKind) -> Vec<LoopState> {
    let subject = kind.usual_subject(&task_id("a"), &route_key("work"));
    if !matches!(subject, Subject::Task(_)) {
        let detached = LoopState { target: LoopState::default().target, ..state([]) };
        return vec![
            with_hold(
                state([worked("b", Stage::Rework { notes: String::new() })]),
                subject.clone(),
                hold(kind),
            ),
            with_hold(detached, subject, hold(kind)),
        ];
    }
    let tip = oid('b');
    let places = [
        ResumeTo::Rework { notes: "mend it".into() },
        ResumeTo::Committed { head: tip.clone() },
        ResumeTo::AwaitingReview { head: tip },
        ResumeTo::MergeReady(reviewed()),
    ];
    let mut all: Vec<LoopState> = places.into_iter().map(|place| of_task(place, kind)).collect();
    all.push(state([task("a", held(ResumeTo::Ready, kind))]));
    all
}
