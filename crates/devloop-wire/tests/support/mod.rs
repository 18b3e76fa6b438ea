//! States and events for the document tests, made by the core itself. It must not check anything.
#![allow(dead_code, reason = "every test binary uses its own part")]

use devloop_core::apply::apply_line;
use devloop_core::basis::Basis;
use devloop_core::event::Event;
use devloop_core::hold::{Hold, HoldKind, Subject};
use devloop_core::ids::{Branch, Digest, DispatchId, Identity, Oid, RouteKey, TaskId};
use devloop_core::policy::{Acceptance, Independence, ReviewPolicy};
use devloop_core::state::{Lease, LoopState, Op, Owner};
use devloop_core::task::{Counters, Stage, Task};
use devloop_core::tier::{Risk, Tier};
use devloop_core::units::{ActiveMs, UsdMicros, WallMs};

pub fn oid(fill: char) -> Oid {
    Oid::parse(&fill.to_string().repeat(40)).unwrap()
}

pub fn digest(fill: char) -> Digest {
    Digest::parse(&fill.to_string().repeat(64)).unwrap()
}

pub fn task_id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

pub fn basis() -> Basis {
    Basis {
        goal_epoch: 1,
        contract: 1,
        acceptance: Acceptance::Absent,
        review_policy: ReviewPolicy { independence: Independence::Model, not_lower: false },
        base: Some(oid('a')),
        head: None,
    }
}

pub fn task(id: &str, depends_on: &[&str]) -> Task {
    Task {
        id: task_id(id),
        lineage: task_id(id),
        title: format!("do \"{id}\" – ünïcode\n"),
        tier: Tier::T1,
        risk: Risk::Low,
        depends_on: depends_on.iter().map(|d| task_id(d)).collect(),
        allowed_paths: vec![format!("{id}/**")],
        criteria: vec!["works".into()],
        estimate: None,
        edition: 1,
        stage: Stage::Ready,
        counters: Counters::default(),
        implementers: Default::default(),
        base: None,
        tip: None,
        checked: None,
        findings: Default::default(),
    }
}

pub fn lease(op: Op, subject: Subject) -> Lease {
    let somebody = op.is_model() || op == Op::Commit;
    Lease {
        op,
        subject,
        who: somebody.then(|| Identity::parse("acme/worker").unwrap()),
        route: Some(RouteKey::parse("worker").unwrap()),
        epoch: 1,
        owner: Owner { host: "h".into(), boot: 1, pid: 2, started: 3, instance: 4 },
        started_at: ActiveMs(5),
        deadline: ActiveMs(6),
        reserve: UsdMicros(500_000),
        basis: basis(),
        worktree: None,
        resume_to: None,
        ending: None,
    }
}

pub fn hold(kind: HoldKind) -> Hold {
    Hold {
        kind,
        revision: 1,
        opened_at: WallMs(9),
        detail: "seen".into(),
        items: vec!["a".into()],
        acknowledged: None,
    }
}

/// The lines of a small story: a goal, a plan of three tasks, one worked on, one held, and a hold on the
/// target.
pub fn story() -> Vec<Vec<Event>> {
    let d = DispatchId;
    vec![
        vec![Event::GoalStarted {
            number: 1,
            digest: digest('b'),
            at: WallMs(1_700_000_000_000),
            branch: Some(Branch::parse("devloop/goal-1").unwrap()),
        }],
        vec![Event::LeaseTaken { dispatch: d(1), lease: lease(Op::Plan, Subject::Planning) }],
        vec![
            Event::LeaseEnded { dispatch: d(1), at: ActiveMs(7) },
            Event::PlanAccepted {
                tasks: vec![task("a", &[]), task("b", &[]), task("__proto__", &["a"])],
                replaces: None,
            },
        ],
        vec![Event::LeaseTaken { dispatch: d(2), lease: lease(Op::Work, Subject::Task(task_id("a"))) }],
        vec![
            Event::HoldOpened {
                subject: Subject::Task(task_id("b")),
                hold: hold(HoldKind::BlockedTask),
                resume_to: None,
            },
            Event::HoldOpened {
                subject: Subject::Target,
                hold: hold(HoldKind::MergeOntoTrunk),
                resume_to: None,
            },
        ],
    ]
}

/// The state after [`story`].
pub fn state() -> LoopState {
    let mut state = LoopState::default();
    for line in story() {
        apply_line(&mut state, &line).unwrap();
    }
    state
}
