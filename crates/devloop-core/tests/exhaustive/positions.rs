//! Owns the positions of every circuit, put into a scene by hand: one before its limit, at it, held because
//! of it, and granted more.

use devloop_core::basis::Basis;
use devloop_core::circuit::{Circuit, ResetPolicy, Scope};
use devloop_core::hold::{HoldKind, Subject};
use devloop_core::ids::TaskId;
use devloop_core::ledger::Spend;
use devloop_core::observation::Checkout;
use devloop_core::state::{Grant, GrantScope, LoopHold, Op, Planning};
use devloop_core::task::{Repeats, Stage, Task};
use devloop_core::units::{ActiveMs, UsdMicros, WallMs};

use super::every::{circuits, units};
use super::scene::{ACTIVE, MEASURED, RUNNING, Scene, WALL, hold, id, owner, replace};

/// Where a circuit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// One more fits exactly.
    Last,
    /// Nothing more fits.
    Reached,
    /// Its hold is open.
    Held,
    /// Nothing more fits, and a person granted one more limit's worth.
    Granted,
}

/// Every circuit in every position it has; the scene as it is comes first.
pub fn positions() -> Vec<Option<(Circuit, Position)>> {
    let all = units!(Position: Last, Reached, Held, Granted);
    let each = circuits().into_iter().flat_map(|circuit| all.iter().map(move |at| Some((circuit, *at))));
    std::iter::once(None).chain(each.collect::<Vec<_>>()).collect()
}

/// Puts the circuit into the position. None when the scene has no such thing: no task, no hold of that kind,
/// nothing that could be granted.
pub fn put(mut scene: Scene, at: Option<(Circuit, Position)>) -> Option<Scene> {
    let Some((circuit, position)) = at else { return Some(scene) };
    let done = match position {
        Position::Last => measure(&mut scene, circuit, 1),
        Position::Reached => measure(&mut scene, circuit, 0),
        Position::Held => held(&mut scene, circuit),
        Position::Granted => granted(&mut scene, circuit) && measure(&mut scene, circuit, 0),
    };
    done.then_some(scene)
}

/// Leaves room for `left` more: dispatches, minutes, or one reservation of the scene's routes.
fn measure(scene: &mut Scene, circuit: Circuit, left: u32) -> bool {
    match circuit {
        Circuit::MaxTaskAttempts
        | Circuit::MaxReviewCycles
        | Circuit::DispatchRefused
        | Circuit::TaskTimeout
        | Circuit::DuplicateAction
        | Circuit::Refreshes
        | Circuit::Replans
        | Circuit::Orphans => of_task(scene, circuit, left),
        Circuit::DispatchDeadline => match scene.state.leases.get_mut(&RUNNING) {
            Some(lease) => {
                lease.deadline = ActiveMs(ACTIVE + u64::from(left) * 60_000);
                true
            }
            None => false,
        },
        Circuit::NoProgress => {
            let minutes = scene.policy.limits.no_progress_minutes - left;
            scene.state.progress_at = ActiveMs(ACTIVE - u64::from(minutes) * 60_000);
            scene.seen.repo.checkout = Checkout::Dirty { paths: vec!["src/lib.rs".into()] };
            true
        }
        Circuit::MaxTokensPerTask => {
            let limit = scene.policy.limits.tokens_per_task;
            let tokens = limit - u64::from(left);
            scene.state.ledger.entries.change(&MEASURED, |entry| entry.tokens.input_uncached = tokens)
        }
        Circuit::TaskCostCap
        | Circuit::SessionCostCap
        | Circuit::GoalCostCap
        | Circuit::DailyCostCap
        | Circuit::AllProjectsDailyCap => money(scene, circuit, left),
        Circuit::MaxParallelWorkers => {
            scene.seen.others.slots = 2;
            scene.policy.limits.parallel_process = scene.state.slots_used() + 2 + left;
            true
        }
        Circuit::MaxParallelPerProject => {
            let limit = scene.state.slots_used() + left;
            // No configuration may set a limit of zero.
            scene.policy.limits.parallel_project = limit;
            limit > 0
        }
        Circuit::PlanAttempts => {
            scene.state.plan_counters.attempts = scene.policy.limits.plan_attempts - left;
            true
        }
        Circuit::PlanRefusals => {
            scene.state.plan_counters.refusals = scene.policy.limits.plan_refusals - left;
            true
        }
        Circuit::DiskLow => {
            scene.seen.free_disk_bytes = scene.policy.limits.disk_low_bytes - 1 + u64::from(left);
            true
        }
    }
}

fn of_task(scene: &mut Scene, circuit: Circuit, left: u32) -> bool {
    let Some(mut task) = scene.state.tasks.get(&id("a")).cloned() else { return false };
    let (limits, counters) = (&scene.policy.limits, &mut task.counters);
    match circuit {
        Circuit::MaxTaskAttempts => counters.attempts = limits.task_attempts - left,
        Circuit::MaxReviewCycles => counters.review_cycles = limits.review_cycles - left,
        Circuit::DispatchRefused => counters.refusals = limits.refusals - left,
        Circuit::Refreshes => counters.refreshes = limits.refreshes - left,
        Circuit::Replans => counters.replans = limits.replans - left,
        Circuit::Orphans => counters.orphans = limits.orphans - left,
        Circuit::TaskTimeout => {
            let spare = u64::from(left) * 60_000;
            counters.busy_ms = limits.lifetime_ms() - spare;
        }
        Circuit::DuplicateAction => {
            let op = if matches!(task.stage, Stage::AwaitingReview { .. }) { Op::Review } else { Op::Work };
            let basis = Basis::of_task(&scene.state, &scene.policy, &task);
            task.counters.repeats = Some(Repeats { op, basis, count: limits.same_action - left });
        }
        other => panic!("{other:?} is not measured on a task's counters"),
    }
    replace(&mut scene.state, task);
    true
}

/// Sets the cap so that what is committed fills it, but for one reservation when there is one left.
fn money(scene: &mut Scene, circuit: Circuit, left: u32) -> bool {
    let reserve = scene.policy.routes.values().next().and_then(|route| route.reserve).expect("a reserve");
    let (ledger, limits) = (&scene.state.ledger, &mut scene.policy.limits);
    let filled = |spend: Spend| UsdMicros(spend.committed().0 + u64::from(left) * reserve.0);
    let day = ledger.day(scene.state.clock.day);
    match circuit {
        Circuit::TaskCostCap => limits.cost_task = Some(filled(ledger.lineage(&id("a")))),
        Circuit::SessionCostCap => limits.cost_session = filled(ledger.session(owner().instance)),
        Circuit::GoalCostCap => limits.cost_goal = Some(filled(ledger.goal(scene.state.goal.number))),
        Circuit::DailyCostCap => limits.cost_day = filled(day),
        Circuit::AllProjectsDailyCap => {
            scene.seen.others.committed_today = UsdMicros(700_000);
            limits.cost_day_all_projects = UsdMicros(filled(day).0 + 700_000);
        }
        other => panic!("{other:?} is not about money"),
    }
    true
}

/// The subject of the circuit's hold, by what it is measured on.
fn subject_of(circuit: Circuit) -> Option<(Subject, HoldKind)> {
    let row = circuit.row();
    let kind = row.hold?;
    let subject = match row.scope {
        Scope::Task | Scope::Lineage => Subject::Task(id("a")),
        Scope::Planning => Subject::Planning,
        Scope::Project if circuit == Circuit::NoProgress => Subject::Target,
        Scope::Project | Scope::Goal | Scope::Process | Scope::User => Subject::Loop,
        Scope::Dispatch => return None,
    };
    Some((subject, kind))
}

fn held(scene: &mut Scene, circuit: Circuit) -> bool {
    let Some((subject, kind)) = subject_of(circuit) else { return false };
    match &subject {
        Subject::Task(name) => return hold_task(scene, name, kind),
        Subject::Planning => match &scene.state.planning {
            Planning::Wanted { replaces } => {
                scene.state.planning = Planning::Held { replaces: replaces.clone() };
            }
            Planning::Idle | Planning::Working { .. } | Planning::Held { .. } => return false,
        },
        Subject::Loop | Subject::Target | Subject::Goal | Subject::Route(_) => {}
    }
    scene.state.holds.push(LoopHold { subject, hold: hold(kind) });
    true
}

/// Only a task that rests can be held.
fn hold_task(scene: &mut Scene, name: &TaskId, kind: HoldKind) -> bool {
    let Some(task) = scene.state.tasks.get(name).cloned() else { return false };
    let rests = task.dispatch().is_none() && task.is_live() && !task.is_done();
    if rests {
        let stage = Stage::Held { resume_to: task.resume_point(), hold: hold(kind) };
        replace(&mut scene.state, Task { stage, ..task });
    }
    rests
}

fn granted(scene: &mut Scene, circuit: Circuit) -> bool {
    let Some((subject, kind)) = subject_of(circuit) else { return false };
    let lasts = match circuit.row().reset {
        ResetPolicy::ByGrant | ResetPolicy::AtUtcMidnight | ResetPolicy::OnFlag => true,
        // What a person resets by name is as if it had never been reached.
        ResetPolicy::OnNamedTask | ResetPolicy::OnProgress | ResetPolicy::Never => false,
    };
    let scope = match kind {
        HoldKind::DailyCostCap | HoldKind::AllProjectsDailyCap => GrantScope::Day(scene.state.clock.day),
        HoldKind::SessionCostCap => GrantScope::Session(owner().instance),
        _ => GrantScope::Goal(scene.state.goal.number),
    };
    let grant = Grant { kind, subject, scope, by: "cli".into(), at: WallMs(WALL - 60_000) };
    scene.state.grants.push(grant);
    lasts
}
