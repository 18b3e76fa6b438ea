//! Whether an operation that runs a model may start now: one judge for planning, work and review.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::basis::Basis;
use crate::circuit::{Cap, Circuit, grants, lineage_cap, task_trip};
use crate::draft::{View, task_key};
use crate::hold::{HoldKey, HoldKind, Subject};
use crate::ids::RouteKey;
use crate::observation::Observation;
use crate::obstacle::Obstacle;
use crate::paths::lists_overlap;
use crate::policy::{Backend, DEFAULT_RESERVE, Route};
use crate::review::{differs, is_independent};
use crate::state::{Gate, LoopState, Op};
use crate::task::{Stage, Task};
use crate::units::{MAX_NUMBER, UsdMicros, WallMs};

/// The judge's word.
pub(crate) enum Admission {
    /// It may start.
    Go {
        /// On this route.
        route: RouteKey,
        /// Setting this aside.
        reserve: UsdMicros,
    },
    /// Not now.
    Blocked(Obstacle),
    /// A person is needed first.
    Hold {
        /// Which hold to open.
        key: HoldKey,
        /// What was seen.
        detail: String,
        /// What it is about.
        items: Vec<String>,
    },
}

/// Judges the start of `op` on the task; on planning when there is none.
pub(crate) fn admit(view: &View<'_>, seen: &Observation, op: Op, task: Option<&Task>) -> Admission {
    let own = || task.map_or_else(|| plan_gate(view, op), |task| task_gate(view, op, task));
    if let Some(no) = holds(view, op, task).or_else(own).or_else(|| slots(view, seen)) {
        return no;
    }
    let route = match choose_route(view, op, task) {
        Ok(route) => route,
        Err(no) => return no,
    };
    let reserve = reserve_of(view.state, route, &view.policy.routes[route]);
    match money(view, seen, task, reserve).or_else(|| disk(view, seen)) {
        Some(no) => no,
        None => Admission::Go { route: route.clone(), reserve },
    }
}

/// Holds that keep everything that costs money.
fn holds(view: &View<'_>, op: Op, task: Option<&Task>) -> Option<Admission> {
    let blocked = |subject| Some(Admission::Blocked(Obstacle::Hold(subject)));
    if let Some(held) = task.filter(|t| t.hold().is_some()) {
        return blocked(Subject::Task(held.id.clone()));
    }
    let own = [Subject::Goal, Subject::Loop].into_iter().find(|subject| view.state.is_held(subject));
    if let Some(subject) = own {
        return blocked(subject);
    }
    if op == Op::Plan && view.state.is_held(&Subject::Planning) {
        return blocked(Subject::Planning);
    }
    let red = op == Op::Work && view.state.has_hold(&Subject::Target, HoldKind::ChecksRedAtBase);
    if red { blocked(Subject::Target) } else { None }
}

/// What the task itself must fulfil: dependencies, circuits, paths.
fn task_gate(view: &View<'_>, op: Op, task: &Task) -> Option<Admission> {
    if op == Op::Work
        && let Some(no) = dependencies(view.state, task)
    {
        return Some(no);
    }
    let tokens = view.lineage(&task.lineage).tokens;
    if let Some(circuit) = task_trip(view.state, view.policy, task, op == Op::Review, tokens) {
        let kind = circuit.row().hold?;
        return Some(hold_task(task, kind, String::new()));
    }
    if is_repeated(view, op, task) {
        return Some(hold_task(task, HoldKind::DuplicateAction, format!("{} of the same commit", op.key())));
    }
    if op != Op::Work {
        return None;
    }
    let overlap = view.occupying().iter().find(|other| keeps_out(other, task));
    overlap.map(|other| Admission::Blocked(Obstacle::Overlap(other.id.clone())))
}

/// Whether the operation started as often as allowed with the very basis it would start with now.
pub(crate) fn is_repeated(view: &View<'_>, op: Op, task: &Task) -> bool {
    let limit = view.policy.limits.same_action.max(1);
    let often = task.counters.repeats.as_ref().filter(|repeats| repeats.op == op && repeats.count >= limit);
    often.is_some_and(|repeats| {
        repeats.basis.difference(&Basis::of_task(view.state, view.policy, task)).is_none()
    })
}

/// Whether `other` keeps `task` from being worked on. Of two that both wait to be worked on again, the one
/// with the smaller name goes first: each would wait for the other for ever.
fn keeps_out(other: &Task, task: &Task) -> bool {
    let waits = |task: &Task| matches!(task.stage, Stage::Rework { .. });
    other.id != task.id
        && !(waits(other) && waits(task) && task.id < other.id)
        && lists_overlap(&other.allowed_paths, &task.allowed_paths)
}

fn dependencies(state: &LoopState, task: &Task) -> Option<Admission> {
    for id in &task.depends_on {
        match state.tasks.get(id) {
            Some(dep) if dep.is_done() => {}
            Some(dep) if dep.is_live() => {
                return Some(Admission::Blocked(Obstacle::Dependency(id.clone())));
            }
            _ => {
                let items = alloc::vec![id.to_string()];
                let key = task_key(&task.id, HoldKind::DependencyDropped);
                return Some(Admission::Hold { key, detail: String::new(), items });
            }
        }
    }
    None
}

fn hold_task(task: &Task, kind: HoldKind, detail: String) -> Admission {
    Admission::Hold { key: task_key(&task.id, kind), detail, items: Vec::new() }
}

fn hold_planning(kind: HoldKind, detail: String) -> Admission {
    Admission::Hold { key: HoldKey { subject: Subject::Planning, kind }, detail, items: Vec::new() }
}

/// The circuits of planning: asked here too, because a dispatch may end without a report that is judged.
fn plan_gate(view: &View<'_>, op: Op) -> Option<Admission> {
    let (seen, limits) = (&view.state.plan_counters, &view.policy.limits);
    let rows = [
        (seen.attempts >= limits.plan_attempts, HoldKind::PlanAttempts),
        (seen.refusals >= limits.plan_refusals, HoldKind::PlanRefusals),
    ];
    let tripped = rows.into_iter().find_map(|(tripped, kind)| tripped.then_some(kind));
    tripped.filter(|_| op == Op::Plan).map(|kind| hold_planning(kind, seen.notes.clone()))
}

/// Counts are at least one: a limit of zero would be a wait that nothing ends.
fn slots(view: &View<'_>, seen: &Observation) -> Option<Admission> {
    let (own, limits) = (view.slots_used, &view.policy.limits);
    if own >= limits.parallel_project.max(1) {
        return Some(Admission::Blocked(Obstacle::Slot));
    }
    if own.saturating_add(seen.others.slots) >= limits.parallel_process.max(1) {
        let obstacle = if own > 0 { Obstacle::Slot } else { Obstacle::SharedSlot };
        return Some(Admission::Blocked(obstacle));
    }
    None
}

fn disk(view: &View<'_>, seen: &Observation) -> Option<Admission> {
    let low = seen.free_disk_bytes < view.policy.limits.disk_low_bytes;
    low.then_some(Admission::Blocked(Obstacle::Disk))
}

/// The first route of the list that is open, has room and, for work and review, keeps reviewers independent.
fn choose_route<'a>(view: &View<'a>, op: Op, task: Option<&Task>) -> Result<&'a RouteKey, Admission> {
    let all = match (op, task) {
        (Op::Review, _) => view.policy.review_routes(),
        (Op::Work, Some(task)) => view.policy.work_routes(task.tier),
        _ => view.policy.plan_routes(),
    };
    let fit: Vec<&RouteKey> = all.iter().copied().filter(|key| is_fit(view, op, task, key)).collect();
    let Some(first) = fit.first().copied() else {
        return Err(match task {
            Some(task) => hold_task(task, HoldKind::NoIndependentReviewer, names(view, &all)),
            None => {
                let detail = format!("plannerRoute names {}, which is no route", view.policy.planner);
                hold_planning(HoldKind::PlanRefusals, detail)
            }
        });
    };
    let noop = |key: &RouteKey| view.policy.routes[key].backend == Backend::Noop;
    let open = |key: &RouteKey| is_open(view, key) && has_room(view, key);
    // A noop route is never passed over for its fallbacks, and as a fallback it takes nothing either.
    match fit.iter().copied().find(|key| noop(key) || open(key)) {
        Some(key) if noop(key) => Err(Admission::Blocked(Obstacle::Noop { op, route: key.clone() })),
        Some(key) => Ok(key),
        None => {
            let until = fit.iter().filter_map(|key| opens_at(view, key)).min();
            Err(Admission::Blocked(Obstacle::Route { route: first.clone(), until }))
        }
    }
}

fn names(view: &View<'_>, keys: &[&RouteKey]) -> String {
    let who = |key: &&RouteKey| view.policy.routes[*key].identity.to_string();
    keys.iter().map(who).collect::<Vec<_>>().join(", ")
}

/// Whether the rule of independence lets this route do it: a reviewer differs from everyone who worked; a
/// worker leaves at least one reviewer who does.
fn is_fit(view: &View<'_>, op: Op, task: Option<&Task>, key: &RouteKey) -> bool {
    let (Some(task), Some(route)) = (task, view.policy.routes.get(key)) else {
        return view.policy.routes.contains_key(key);
    };
    let rule = view.policy.review;
    let trusted = |route: &Route| !rule.not_lower || route.tier >= task.tier;
    match op {
        Op::Review => {
            trusted(route) && is_independent(&route.identity, &task.implementers, rule.independence)
        }
        _ => {
            let before = &task.implementers;
            view.policy.review_routes().iter().any(|reviewer| {
                let reviewer = &view.policy.routes[*reviewer];
                trusted(reviewer)
                    && differs(&reviewer.identity, &route.identity, rule.independence)
                    && is_independent(&reviewer.identity, before, rule.independence)
            })
        }
    }
}

pub(crate) fn is_open(view: &View<'_>, key: &RouteKey) -> bool {
    match view.state.routes.get(key).map(|route| &route.gate) {
        None | Some(Gate::Open) => true,
        Some(Gate::ClosedUntil { at, .. }) => *at <= view.now.wall,
        Some(Gate::Closed) => false,
    }
}

fn opens_at(view: &View<'_>, key: &RouteKey) -> Option<WallMs> {
    match view.state.routes.get(key).map(|route| &route.gate) {
        Some(Gate::ClosedUntil { at, .. }) if *at > view.now.wall => Some(*at),
        _ => None,
    }
}

fn has_room(view: &View<'_>, key: &RouteKey) -> bool {
    let used = view.state.leases.values().filter(|l| l.op.is_model() && l.route.as_ref() == Some(key));
    view.policy.routes[key].max_parallel.is_none_or(|max| (used.count() as u64) < u64::from(max.max(1)))
}

/// What a dispatch sets aside before it starts.
#[must_use]
pub fn reserve_of(state: &LoopState, key: &RouteKey, route: &Route) -> UsdMicros {
    let priced = || Some(route.dearest_price()?.ceiling(route.max_tokens?));
    let own = route.reserve.or_else(priced);
    let amount = own.or_else(|| state.ledger.measured_p90(key)).unwrap_or(DEFAULT_RESERVE);
    UsdMicros(amount.0.min(MAX_NUMBER))
}

/// Whether the reserve fits every cap: otherwise a hold when waiting cannot help, a wait when it can.
fn money(view: &View<'_>, seen: &Observation, task: Option<&Task>, reserve: UsdMicros) -> Option<Admission> {
    let of_task = task.and_then(|task| {
        let spend = || view.lineage(&task.lineage).spend;
        lineage_cap(view.state, &view.policy.limits, task, spend)
    });
    for cap in view.caps().iter().chain(&of_task) {
        let subject = match (cap.circuit, task) {
            (Circuit::TaskCostCap, Some(task)) => Subject::Task(task.id.clone()),
            _ => Subject::Loop,
        };
        if let Some(no) = judge_cap(cap, subject, reserve) {
            return Some(no);
        }
    }
    shared_money(view, seen, reserve)
}

fn judge_cap(cap: &Cap, subject: Subject, reserve: UsdMicros) -> Option<Admission> {
    if reserve > cap.limit {
        let key = HoldKey { subject, kind: HoldKind::ReserveExceedsCap };
        let items = alloc::vec![cap.circuit.row().key.to_string()];
        return Some(Admission::Hold { key, detail: crate::render::usd(reserve), items });
    }
    if !cap.fits_when_settled(reserve) {
        let key = HoldKey { subject, kind: cap.circuit.row().hold? };
        return Some(Admission::Hold { key, detail: crate::render::usd(reserve), items: Vec::new() });
    }
    (!cap.fits_now(reserve)).then_some(Admission::Blocked(Obstacle::Reserve(cap.circuit)))
}

fn shared_money(view: &View<'_>, seen: &Observation, reserve: UsdMicros) -> Option<Admission> {
    let widened = 1 + grants(view.state, HoldKind::AllProjectsDailyCap, view.stamp.owner.instance);
    let limit = UsdMicros(view.policy.limits.cost_day_all_projects.0.saturating_mul(widened));
    let spend = view.spent_today();
    let cap = Cap { circuit: Circuit::AllProjectsDailyCap, limit, spend };
    let own = judge_cap(&cap, Subject::Loop, reserve);
    if own.is_some() {
        return own;
    }
    let all = spend.committed().plus(seen.others.committed_today.0).plus(reserve.0);
    (all > limit || all.is_saturated()).then_some(Admission::Blocked(Obstacle::SharedReserve))
}
