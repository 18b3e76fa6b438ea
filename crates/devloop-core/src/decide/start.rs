//! What is begun: a plan, the check of the base, work in its order; and the one way in which a model starts.

use alloc::vec::Vec;

use super::open;
use crate::admit::{Admission, admit};
use crate::basis::Basis;
use crate::decide::Decision;
use crate::draft::{Draft, NewLease, View, resting};
use crate::event::Event;
use crate::hold::{HoldKey, HoldKind, Subject};
use crate::observation::Observation;
use crate::policy::{Acceptance, HighRisk};
use crate::reason::Reason;
use crate::state::{LoopState, Op, Planning};
use crate::task::{Stage, Task};
use crate::tier::Risk;
use crate::units::UsdMicros;

pub(super) fn plan(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let state = view.state;
    match &state.planning {
        Planning::Wanted { .. } => start_model(view, seen, Op::Plan, None),
        Planning::Idle => {
            let replaced = state.tasks.open().find(|t| matches!(t.stage, Stage::Replanning));
            let fresh = state.tasks.open().len() == 0 && !state.tasks.iter().any(Task::is_live);
            if replaced.is_none() && !fresh {
                return None;
            }
            let event = Event::PlanWanted { replaces: replaced.map(|task| task.id.clone()) };
            Some(Draft::of(alloc::vec![event]).done(Reason::PlanWanted))
        }
        Planning::Working { .. } | Planning::Held { .. } => None,
    }
}

pub(super) fn work(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let order = work_order(view.state);
    if order.is_empty() || view.state.is_held(&Subject::Goal) {
        return None;
    }
    if needs_base_check(view) {
        return base_check(view, seen);
    }
    order.into_iter().find_map(|(rank, task)| {
        if view.policy.high_risk == HighRisk::HoldBeforeWork
            && task.risk == Risk::High
            && task.base.is_none()
            && !was_approved(view, task)
        {
            let key = HoldKey { subject: Subject::Task(task.id.clone()), kind: HoldKind::SecurityHighRisk };
            return open(view, key, "");
        }
        match admit(view, seen, Op::Work, Some(task)) {
            // If nothing else starts either, the wait asks for it.
            Admission::Blocked(obstacle) => {
                view.remember(rank, &obstacle);
                None
            }
            word => begin(view, seen, Op::Work, Some(task), word),
        }
    })
}

/// Whether a person let a high-risk task be worked on.
fn was_approved(view: &View<'_>, task: &Task) -> bool {
    let subject = Subject::Task(task.id.clone());
    view.state.grants.iter().any(|g| g.kind == HoldKind::SecurityHighRisk && g.subject == subject)
}

/// Reworks first, then the tasks that most others wait for, then plan order; each with its rank among the
/// open tasks.
fn work_order(state: &LoopState) -> Vec<(usize, &Task)> {
    let mut waited: Vec<usize> = alloc::vec![0; state.tasks.open().len()];
    for task in state.tasks.open() {
        let ranks = task.depends_on.iter().filter_map(|id| state.tasks.open_rank(id));
        ranks.for_each(|rank| waited[rank] += 1);
    }
    let idle = |(_, t): &(usize, &Task)| matches!(t.stage, Stage::Ready | Stage::Rework { .. });
    let mut order: Vec<(usize, &Task)> = state.tasks.open().enumerate().filter(idle).collect();
    order.sort_by_key(|(rank, t)| (matches!(t.stage, Stage::Ready), core::cmp::Reverse(waited[*rank])));
    order
}

/// Whether the operator's checks have not been seen on the target yet.
pub(crate) fn needs_base_check(view: &View<'_>) -> bool {
    view.policy.acceptance != Acceptance::Absent && view.state.target.verified.is_none()
}

fn base_check(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let running = view.state.leases.values().any(|l| l.subject == Subject::Target);
    let tip = seen.repo.tip.clone().filter(|_| !running)?;
    let mut draft = Draft::default();
    let lease = NewLease {
        op: Op::Check,
        subject: Subject::Target,
        route: None,
        who: None,
        reserve: UsdMicros(0),
        basis: Basis::of_loop(view.state, view.policy, Some(tip)),
        worktree: None,
        resume_to: None,
    };
    draft.take(view, None, lease);
    Some(draft.done(Reason::Started { op: Op::Check, subject: Subject::Target }))
}

/// Starts a model, opens the hold that a person must answer first, or does nothing when it only has to wait.
pub(super) fn start_model(
    view: &View<'_>,
    seen: &Observation,
    op: Op,
    task: Option<&Task>,
) -> Option<Decision> {
    begin(view, seen, op, task, admit(view, seen, op, task))
}

/// Does what the judge's word about the operation asks for.
fn begin(
    view: &View<'_>,
    seen: &Observation,
    op: Op,
    task: Option<&Task>,
    word: Admission,
) -> Option<Decision> {
    let (route, reserve) = match word {
        Admission::Go { route, reserve } => (route, reserve),
        Admission::Blocked(_) => return None,
        Admission::Hold { key, detail, items } => {
            let mut draft = Draft::default();
            let held = task.filter(|task| key.subject == Subject::Task(task.id.clone()));
            draft.hold(view, key.clone(), &detail, &items, held.map(Task::resume_point));
            return Some(draft.done(Reason::Held { key }));
        }
    };
    let tip = seen.repo.tip.clone()?;
    let (subject, basis) = match task {
        Some(task) => {
            let mut basis = Basis::of_task(view.state, view.policy, task);
            // Without a commit of its own there is nothing that an older base would be right for.
            basis.base = basis.base.filter(|_| task.tip.is_some()).or(Some(tip));
            (Subject::Task(task.id.clone()), basis)
        }
        None => (Subject::Planning, Basis::of_loop(view.state, view.policy, Some(tip))),
    };
    let mut draft = Draft::default();
    let lease = NewLease {
        op,
        subject: subject.clone(),
        who: view.policy.routes.get(&route).map(|route| route.identity.clone()),
        route: Some(route),
        reserve,
        basis,
        worktree: None,
        resume_to: task.and_then(resting),
    };
    draft.take(view, task, lease);
    Some(draft.done(Reason::Started { op, subject }))
}
