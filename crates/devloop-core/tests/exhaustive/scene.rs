//! Owns the places a loop can be in, as whole states that keep the invariants: one task, planning or the
//! target in each of its stages, with the leases, ledger entries and holds that belong to it.

use std::collections::BTreeSet;

use devloop_core::basis::Basis;
use devloop_core::finding::Findings;
use devloop_core::hold::{Hold, HoldKind, Subject};
use devloop_core::ids::{Branch, DispatchId, Oid, TaskId};
use devloop_core::ledger::{Certainty, Entry};
use devloop_core::observation::{Checkout, GoalSeen, Observation, Others, RepoSeen, Stamp};
use devloop_core::policy::{Acceptance, Backend, HighRisk, Independence, Policy, PostMerge};
use devloop_core::review::{Review, ReviewedHead, Verdict};
use devloop_core::state::{Lease, LoopHold, LoopState, Op, Owner, Phase, Planning};
use devloop_core::task::{Counters, Done, ResumeTo, ReviewRun, Stage, Task};
use devloop_core::tier::{Risk, Tier};
use devloop_core::units::{ActiveMs, AwakeMs, DAY_MS, Tokens, UsdMicros, WallMs};
use devloop_testkit::world::{blocking, digest, key, oid, policy};

use super::every::{every, units};

/// Noon of some day, and what the loop's own clock says then.
pub const WALL: u64 = 20_000 * DAY_MS + DAY_MS / 2;
pub const ACTIVE: u64 = 40_000_000_000;

/// The dispatch that runs; one that ended with its usage, one without, and one whose entry is gone.
pub const RUNNING: DispatchId = DispatchId(9);
pub const MEASURED: DispatchId = DispatchId(4);
pub const SILENT: DispatchId = DispatchId(3);
pub const FORGOTTEN: DispatchId = DispatchId(2);

/// A red command that a person accepted at the base.
pub const KNOWN_RED: &str = "make lint";

/// Everything a decision is made from.
#[derive(Clone, Debug)]
pub struct Scene {
    pub state: LoopState,
    pub policy: Policy,
    pub seen: Observation,
}

/// Where the loop stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Task `a` is in this stage; `b` waits for it.
    Task(Stage),
    /// Planning, of the whole goal or of a replacement for `a`.
    Planning(Planning),
    /// The checks run on the target before any work.
    BaseCheck,
}

/// What the operator configured, as far as it changes which way a stage leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Temper {
    pub checks: bool,
    pub post_merge: PostMerge,
    pub risk: Risk,
    pub high_risk: HighRisk,
    pub independence: Independence,
}

pub const CALM: Temper = Temper {
    checks: false,
    post_merge: PostMerge::Never,
    risk: Risk::Low,
    high_risk: HighRisk::HoldBeforeMerge,
    independence: Independence::Model,
};

/// Every combination of what a policy can say about checks, merges, risks and reviewers.
pub fn tempers() -> Vec<Temper> {
    let mut all = Vec::new();
    for checks in [false, true] {
        for post_merge in units!(PostMerge: Never, Always) {
            for risk in units!(Risk: Low, Medium, High) {
                for high_risk in units!(HighRisk: HoldBeforeMerge, HoldBeforeWork) {
                    for independence in units!(Independence: Model, Vendor) {
                        all.push(Temper { checks, post_merge, risk, high_risk, independence });
                    }
                }
            }
        }
    }
    all
}

pub fn id(text: &str) -> TaskId {
    TaskId::parse(text).expect("a task id")
}

/// The base and the tip of task `a`.
pub fn base() -> Oid {
    oid(1)
}
pub fn tip() -> Oid {
    oid(2)
}

fn reviewed() -> ReviewedHead {
    let review = Review::bare(Verdict::Pass, tip());
    let (policy, worked) = (policy(Backend::Command), implementers());
    let reviewer = &policy.routes[&key("review")].identity;
    ReviewedHead::prove(&review, &tip(), &base(), reviewer, &worked, Independence::Vendor).expect("a pass")
}

fn implementers() -> BTreeSet<devloop_core::ids::Identity> {
    BTreeSet::from([policy(Backend::Command).routes[&key("work")].identity.clone()])
}

/// Whom a run of this kind ran as.
fn ran_as(op: Op) -> devloop_core::ids::Identity {
    let route = match op {
        Op::Plan => "plan",
        Op::Review => "review",
        _ => "work",
    };
    policy(Backend::Command).routes[&key(route)].identity.clone()
}

/// Where a held task continues.
pub fn resume_points() -> Vec<ResumeTo> {
    every!(ResumeTo {
        ResumeTo::Ready => [ResumeTo::Ready],
        ResumeTo::Rework { .. } => [ResumeTo::Rework { notes: "mend it".into() }],
        ResumeTo::Committed { .. } => [ResumeTo::Committed { head: tip() }],
        ResumeTo::AwaitingReview { .. } => [ResumeTo::AwaitingReview { head: tip() }],
        ResumeTo::MergeReady(_) => [ResumeTo::MergeReady(reviewed())],
    })
}

/// A hold that opened a minute ago.
pub fn hold(kind: HoldKind) -> Hold {
    let items = if kind == HoldKind::DependencyDropped { vec!["gone".into()] } else { Vec::new() };
    Hold {
        kind,
        revision: 30,
        opened_at: WallMs(WALL - 60_000),
        detail: String::new(),
        items,
        acknowledged: None,
    }
}

/// Every stage of a task but the holds, which have a list of their own.
pub fn stages() -> Vec<Stage> {
    let poll = |at: u64| ReviewRun::Forge { pr: 7, head: tip(), next_poll: WallMs(at) };
    every!(Stage {
        Stage::Ready => [Stage::Ready],
        Stage::Working(_) => [Stage::Working(RUNNING)],
        Stage::Committing(_) => [Stage::Committing(RUNNING)],
        Stage::Committed { .. } => [Stage::Committed { head: tip() }],
        Stage::Checking(_) => [Stage::Checking(RUNNING)],
        Stage::AwaitingReview { .. } => [Stage::AwaitingReview { head: tip() }],
        Stage::InReview(_) => every!(ReviewRun {
            ReviewRun::Dispatch(_) => [ReviewRun::Dispatch(RUNNING)],
            ReviewRun::Forge { .. } => [poll(WALL - 1), poll(WALL + 60_000)],
        }).into_iter().map(Stage::InReview).collect::<Vec<_>>(),
        Stage::Rework { .. } => [Stage::Rework { notes: "mend it".into() }],
        Stage::MergeReady(_) => [Stage::MergeReady(reviewed())],
        Stage::Merging(..) => [Stage::Merging(RUNNING, reviewed())],
        Stage::Refreshing(_) => [Stage::Refreshing(RUNNING)],
        Stage::Verifying(_) => [Stage::Verifying(RUNNING)],
        Stage::Reverting(_) => [Stage::Reverting(RUNNING)],
        Stage::Replanning => [Stage::Replanning],
        Stage::Held { .. } => held_stages(),
        Stage::Done(_) => every!(Done {
            Done::Merged { .. } => [Done::Merged { commit: oid(3) }],
            Done::Accepted => [Done::Accepted],
            Done::MergedElsewhere => [Done::MergedElsewhere],
        }).into_iter().map(Stage::Done).collect::<Vec<_>>(),
        Stage::Dropped { .. } => [Stage::Dropped { replaced_by: Vec::new() }],
    })
}

/// One hold at each resting place; every kind is met in `questions`.
fn held_stages() -> Vec<Stage> {
    let held = |resume_to| Stage::Held { resume_to, hold: hold(HoldKind::BlockedTask) };
    resume_points().into_iter().map(held).collect()
}

fn plannings() -> Vec<Planning> {
    let both = [None, Some(id("a"))];
    let of = |one: fn(Option<TaskId>) -> Planning| both.clone().map(one);
    every!(Planning {
        Planning::Idle => [Planning::Idle],
        Planning::Wanted { .. } => of(|replaces| Planning::Wanted { replaces }),
        Planning::Working { .. } => of(|replaces| Planning::Working { dispatch: RUNNING, replaces }),
        Planning::Held { .. } => of(|replaces| Planning::Held { replaces }),
    })
}

/// Every place.
pub fn places() -> Vec<Place> {
    let mut all: Vec<Place> = stages().into_iter().map(Place::Task).collect();
    all.extend(plannings().into_iter().map(Place::Planning));
    all.push(Place::BaseCheck);
    all
}

pub fn phases() -> Vec<Phase> {
    every!(Phase {
        Phase::Active => [Phase::Active],
        Phase::Paused { .. } => [Phase::Paused { by: "cli".into(), at: WallMs(WALL - 5) }],
        Phase::Complete { .. } => [Phase::Complete { at: WallMs(WALL - 5) }],
    })
}

pub fn owner() -> Owner {
    Owner { host: "here".into(), boot: 1, pid: 2, started: 3, instance: 4 }
}

/// A look at the world now, with nothing in the way.
fn seen() -> Observation {
    let awake = AwakeMs { boot: 1, ms: 1_000_000 };
    Observation {
        stamp: Stamp { wall: WallMs(WALL), awake, owner: owner() },
        goal: GoalSeen::Present(digest(7)),
        repo: RepoSeen {
            branch: Branch::parse("work").ok(),
            tip: Some(oid(3)),
            remote_default: None,
            checkout: Checkout::Free,
            contains_last_merge: true,
        },
        free_disk_bytes: 1 << 40,
        others: Others::default(),
        reports: Vec::new(),
        orphans: Vec::new(),
    }
}

fn rules(temper: Temper) -> Policy {
    let mut policy = policy(Backend::Command);
    policy.post_merge = temper.post_merge;
    policy.high_risk = temper.high_risk;
    policy.review.independence = temper.independence;
    if temper.checks {
        policy.acceptance = Acceptance::Digest(digest(3));
    }
    policy
}

pub fn task(name: &str, stage: Stage) -> Task {
    Task {
        id: id(name),
        lineage: id(name),
        title: format!("do {name}"),
        tier: Tier::T1,
        risk: Risk::Low,
        depends_on: Vec::new(),
        allowed_paths: vec![format!("{name}/**")],
        criteria: vec!["it works".into()],
        estimate: None,
        edition: 1,
        stage,
        counters: Counters::default(),
        implementers: BTreeSet::new(),
        base: None,
        tip: None,
        checked: None,
        findings: Findings::default(),
    }
}

/// Whether a task in this stage has a host commit.
fn has_commit(stage: &Stage) -> bool {
    let fresh = matches!(stage, Stage::Ready | Stage::Working(_) | Stage::Committing(_));
    !fresh && !matches!(stage, Stage::Held { resume_to: ResumeTo::Ready, .. })
}

/// A loop at this place. None when the place and the phase contradict each other: a complete goal has no task
/// that is open.
pub fn scene(place: &Place, phase: &Phase, temper: Temper) -> Option<Scene> {
    let policy = rules(temper);
    let mut state = LoopState { revision: 40, phase: phase.clone(), ..LoopState::default() };
    state.goal.number = 1;
    state.goal.digest = Some(digest(7));
    state.goal.epoch = 1;
    state.policy = Some(policy.digest.clone());
    state.target.branch = Branch::parse("work").ok();
    state.next_dispatch = 10;
    state.progress_at = ActiveMs(ACTIVE - 1_000);
    let clock = &mut state.clock;
    (clock.wall, clock.awake) = (WallMs(WALL), AwakeMs { boot: 1, ms: 1_000_000 });
    (clock.active, clock.day) = (ActiveMs(ACTIVE), WallMs(WALL).day());
    if temper.checks && *place != Place::BaseCheck {
        state.target.verified = Some(oid(3));
        state.target.known_red = vec![KNOWN_RED.into()];
    }
    for (dispatch, certainty) in [(SILENT, Certainty::Assumed), (MEASURED, Certainty::Measured)] {
        let entry = entry(&state, Op::Work, Some(id("a")), certainty, UsdMicros(20_000));
        state.ledger.entries.insert(dispatch, entry);
    }
    people(&mut state, place, temper);
    running(&mut state, &policy, place);
    let open = state.tasks.iter().any(|t| t.is_live() && !t.is_done());
    let begun = !state.leases.is_empty() || state.planning != Planning::Idle || open;
    (!matches!(phase, Phase::Complete { .. }) || !begun).then(|| Scene { state, policy, seen: seen() })
}

/// The tasks, planning and the hold that goes with it.
fn people(state: &mut LoopState, place: &Place, temper: Temper) {
    let (stage, replaces) = match place {
        Place::Task(stage) => (Some(stage.clone()), None),
        Place::BaseCheck => (Some(Stage::Ready), None),
        Place::Planning(planning) => {
            state.planning = planning.clone();
            match planning {
                Planning::Idle => (None, None),
                Planning::Wanted { replaces }
                | Planning::Working { replaces, .. }
                | Planning::Held { replaces } => {
                    (replaces.as_ref().map(|_| Stage::Replanning), replaces.clone())
                }
            }
        }
    };
    if let Planning::Held { .. } = state.planning {
        let held = LoopHold { subject: Subject::Planning, hold: hold(HoldKind::PlanAttempts) };
        state.holds.push(held);
    }
    let Some(stage) = stage else { return };
    let commit = has_commit(&stage) && replaces.is_none();
    let mut a = Task { risk: temper.risk, ..task("a", stage) };
    if commit {
        (a.base, a.tip, a.implementers) = (Some(base()), Some(tip()), implementers());
        a.counters.attempts = 1;
        a.counters.busy_ms = 60_000;
        // It was sent back once.
        a.findings = Findings { open: Findings::default().name(&[blocking("flaw")]), named: 1 };
    }
    let over = a.is_done() || !a.is_live();
    let complete = matches!(state.phase, Phase::Complete { .. });
    let b = if over && complete { Stage::Done(Done::Accepted) } else { Stage::Ready };
    state.tasks.push(a).expect("a new id");
    state.tasks.push(Task { depends_on: vec![id("a")], ..task("b", b) }).expect("a new id");
}

pub fn entry(
    state: &LoopState,
    op: Op,
    lineage: Option<TaskId>,
    certainty: Certainty,
    amount: UsdMicros,
) -> Entry {
    let route = key(match op {
        Op::Plan => "plan",
        Op::Review => "review",
        _ => "work",
    });
    let (goal, day, instance) = (state.goal.number, state.clock.day, owner().instance);
    Entry { op, lineage, route, goal, day, instance, amount, certainty, tokens: Tokens::default() }
}

/// The lease of the place, if something runs there, with its money set aside.
fn running(state: &mut LoopState, policy: &Policy, place: &Place) {
    let (op, subject) = match place {
        Place::BaseCheck => (Op::Check, Subject::Target),
        Place::Planning(Planning::Working { .. }) => (Op::Plan, Subject::Planning),
        Place::Planning(_) => return,
        Place::Task(stage) => match op_of(stage) {
            Some(op) => (op, Subject::Task(id("a"))),
            None => return,
        },
    };
    let of_task = state.tasks.get(&id("a")).filter(|_| matches!(subject, Subject::Task(_)));
    let basis = match (op, of_task) {
        (_, None) => Basis::of_loop(state, policy, Some(oid(3))),
        (Op::Verify | Op::Revert, Some(task)) => {
            Basis { head: Some(oid(3)), ..Basis::of_task(state, policy, task) }
        }
        (_, Some(task)) => {
            let basis = Basis::of_task(state, policy, task);
            Basis { base: basis.base.clone().or(Some(oid(3))), ..basis }
        }
    };
    let resume_to = match op {
        Op::Work | Op::Commit => Some(ResumeTo::Ready),
        Op::Check => Some(ResumeTo::Committed { head: tip() }),
        Op::Review => Some(ResumeTo::AwaitingReview { head: tip() }),
        Op::Merge | Op::Refresh => Some(ResumeTo::MergeReady(reviewed())),
        Op::Revert => Some(ResumeTo::Rework { notes: "mend it".into() }),
        Op::Plan | Op::Verify => None,
    };
    let reserve = UsdMicros(if op.is_model() { 100_000 } else { 0 });
    let entry = entry(state, op, of_task.map(|t| t.lineage.clone()), Certainty::Reserved, reserve);
    let lease = Lease {
        op,
        subject: subject.clone(),
        route: (op.is_model() || op == Op::Commit).then(|| entry.route.clone()),
        who: (op.is_model() || op == Op::Commit).then(|| ran_as(op)),
        epoch: 1,
        owner: owner(),
        started_at: ActiveMs(ACTIVE - 1_000),
        deadline: ActiveMs(ACTIVE + 60_000),
        reserve,
        basis: basis.clone(),
        worktree: (op == Op::Commit).then_some(SILENT),
        resume_to: resume_to.filter(|_| subject != Subject::Target),
        ending: None,
    };
    if op.is_model() {
        state.ledger.entries.insert(RUNNING, entry);
    }
    state.leases.insert(RUNNING, lease);
    if let Some(task) = state.tasks.get(&id("a")).cloned().filter(|_| matches!(subject, Subject::Task(_))) {
        let base = task.base.clone().or(basis.base);
        replace(state, Task { base, ..task });
    }
}

/// Puts a task in the place of the one with its id.
pub fn replace(state: &mut LoopState, task: Task) {
    let mut tasks = devloop_core::state::Tasks::default();
    for old in state.tasks.iter() {
        let kept = if old.id == task.id { task.clone() } else { old.clone() };
        tasks.push(kept).expect("ids stay unique");
    }
    state.tasks = tasks;
}

/// The operation a stage stands for while it names a dispatch.
pub fn op_of(stage: &Stage) -> Option<Op> {
    match stage {
        Stage::Working(_) => Some(Op::Work),
        Stage::Committing(_) => Some(Op::Commit),
        Stage::Checking(_) => Some(Op::Check),
        Stage::InReview(ReviewRun::Dispatch(_)) => Some(Op::Review),
        Stage::Merging(..) => Some(Op::Merge),
        Stage::Refreshing(_) => Some(Op::Refresh),
        Stage::Verifying(_) => Some(Op::Verify),
        Stage::Reverting(_) => Some(Op::Revert),
        _ => None,
    }
}
