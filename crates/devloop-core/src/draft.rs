//! A decision being written: events and effects collected in order, and the leases they take.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::basis::Basis;
use crate::decide::Decision;
use crate::effect::{Contract, Effect, Job, Start};
use crate::event::Event;
use crate::hold::{Hold, HoldKey, HoldKind, MAX_ITEMS, Subject};
use crate::ids::{DispatchId, Identity, Oid, RouteKey, TaskId};
use crate::reason::Reason;
use crate::state::{Lease, Op, Planning};
use crate::task::{ResumeTo, Stage, Task, clip};
use crate::units::{ActiveMs, MAX_NUMBER, UsdMicros};
pub(crate) use crate::view::View;

/// The operation that a new lease is for.
pub(crate) struct NewLease {
    pub(crate) op: Op,
    pub(crate) subject: Subject,
    pub(crate) route: Option<RouteKey>,
    pub(crate) who: Option<Identity>,
    pub(crate) reserve: UsdMicros,
    pub(crate) basis: Basis,
    pub(crate) worktree: Option<DispatchId>,
    pub(crate) resume_to: Option<ResumeTo>,
}

/// Events and effects in order.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) events: Vec<Event>,
    pub(crate) effects: Vec<Effect>,
}

impl Draft {
    pub(crate) fn of(events: Vec<Event>) -> Draft {
        Draft { events, effects: Vec::new() }
    }

    pub(crate) fn event(&mut self, event: Event) -> &mut Self {
        self.events.push(event);
        self
    }

    pub(crate) fn effect(&mut self, effect: Effect) -> &mut Self {
        self.effects.push(effect);
        self
    }

    pub(crate) fn done(self, reason: Reason) -> Decision {
        Decision { events: self.events, effects: self.effects, reason }
    }

    /// Opens a hold and tells the operator. Detail and items are cut to their bounds here, once for all.
    pub(crate) fn hold(
        &mut self,
        view: &View<'_>,
        key: HoldKey,
        detail: &str,
        items: &[String],
        resume_to: Option<ResumeTo>,
    ) -> &mut Self {
        let hold = Hold {
            kind: key.kind,
            revision: view.state.revision.saturating_add(1).min(MAX_NUMBER),
            opened_at: view.now.wall,
            detail: clip(detail),
            items: items.iter().take(MAX_ITEMS).map(|item| clip(item)).collect(),
            acknowledged: None,
        };
        let instance = view.state.last_instance(view.stamp.owner.instance);
        let text = crate::question::question(view.state, view.policy, instance, &key.subject, &hold).text;
        self.event(Event::HoldOpened { subject: key.subject.clone(), hold, resume_to });
        self.effect(Effect::Notify { key, text })
    }

    /// Takes a lease and asks for its effect. `state` is the state the lease starts from.
    pub(crate) fn take(&mut self, view: &View<'_>, task: Option<&Task>, start: NewLease) -> DispatchId {
        let taken = self.events.iter().filter(|e| matches!(e, Event::LeaseTaken { .. })).count() as u64;
        let dispatch = DispatchId(view.state.next_dispatch.saturating_add(taken));
        let lease = Lease {
            op: start.op,
            subject: start.subject,
            route: start.route,
            who: start.who,
            epoch: 1,
            owner: view.stamp.owner.clone(),
            started_at: view.now.active,
            deadline: deadline(view, start.op),
            reserve: start.reserve,
            basis: start.basis,
            worktree: start.worktree,
            resume_to: start.resume_to,
            ending: None,
        };
        if let Some(effect) = effect_of(view, dispatch, &lease, task) {
            self.effect(effect);
        }
        self.event(Event::LeaseTaken { dispatch, lease });
        dispatch
    }
}

/// When an operation is over at the latest. The host limits each of its own commands; together they may take
/// longer than a model.
pub(crate) fn deadline(view: &View<'_>, op: Op) -> ActiveMs {
    let limits = &view.policy.limits;
    view.now.active.plus(if op.is_model() { limits.dispatch_ms() } else { limits.lifetime_ms() })
}

/// The terms of a task for whoever works on it.
pub(crate) fn contract(task: &Task, base: Oid) -> Contract {
    Contract {
        task: task.id.clone(),
        edition: task.edition,
        title: task.title.clone(),
        tier: task.tier,
        risk: task.risk,
        allowed_paths: task.allowed_paths.clone(),
        criteria: task.criteria.clone(),
        estimate: task.estimate,
        base,
        implementers: task.implementers.iter().cloned().collect(),
    }
}

/// The effect that performs a lease: when it is taken, and again when a host operation is adopted.
/// None when the state lacks what the effect needs, which the caller's checks exclude.
pub(crate) fn effect_of(
    view: &View<'_>,
    dispatch: DispatchId,
    lease: &Lease,
    task: Option<&Task>,
) -> Option<Effect> {
    let epoch = lease.epoch;
    let head = lease.basis.head.clone();
    let base = lease.basis.base.clone();
    let target = view.state.target.branch.clone();
    let known_red = view.state.target.known_red.clone();
    let terms = |task: Option<&Task>| task.zip(base.clone()).map(|(task, base)| contract(task, base));
    Some(match lease.op {
        Op::Plan | Op::Work | Op::Review => Effect::Dispatch {
            dispatch,
            epoch,
            route: lease.route.clone()?,
            limit_ms: view.policy.limits.dispatch_ms(),
            job: job(view, lease, task)?,
        },
        Op::Commit => Effect::Commit {
            dispatch,
            epoch,
            work: lease.worktree?,
            contract: terms(task)?,
            route: lease.route.clone()?,
        },
        Op::Check => Effect::Check {
            dispatch,
            epoch,
            commit: head?,
            contract: terms(task),
            // Before any work all of them are wanted: which are red is what a person is asked about.
            known_red: if task.is_some() { known_red } else { Vec::new() },
        },
        Op::Merge => Effect::Merge {
            dispatch,
            epoch,
            contract: terms(task)?,
            head: head?,
            base: base.clone()?,
            target: target?,
            known_red,
        },
        Op::Refresh => {
            Effect::Refresh { dispatch, epoch, contract: terms(task)?, head: head?, target: target? }
        }
        Op::Verify => Effect::Verify { dispatch, epoch, commit: head?, known_red },
        Op::Revert => {
            Effect::Revert { dispatch, epoch, contract: terms(task)?, commit: head?, target: target? }
        }
    })
}

fn job(view: &View<'_>, lease: &Lease, task: Option<&Task>) -> Option<Job> {
    let base = lease.basis.base.clone();
    match lease.op {
        Op::Plan => {
            let replaces = match &view.state.planning {
                Planning::Wanted { replaces } | Planning::Working { replaces, .. } => replaces.as_ref(),
                Planning::Idle | Planning::Held { .. } => None,
            };
            let look_at = lease.basis.head.clone()?;
            let old = replaces.and_then(|id| view.state.tasks.get(id));
            Some(Job::Plan {
                base: look_at.clone(),
                replaces: old.map(|task| contract(task, task.base.clone().unwrap_or(look_at))),
                notes: view.state.plan_counters.notes.clone(),
            })
        }
        Op::Review => {
            let task = task?;
            Some(Job::Review {
                contract: contract(task, base?),
                head: lease.basis.head.clone()?,
                earlier: task.findings.open.clone(),
                checks: task.checked.clone(),
            })
        }
        _ => {
            let task = task?;
            let start = task.tip.clone().map_or(Start::Fresh, |tip| Start::Continue { tip });
            let notes = match &lease.resume_to {
                Some(ResumeTo::Rework { notes }) => notes.clone(),
                _ => String::new(),
            };
            let findings = task.findings.open.clone();
            Some(Job::Work { contract: contract(task, base?), start, notes, findings })
        }
    }
}

/// The hold key of a task.
pub(crate) fn task_key(task: &TaskId, kind: HoldKind) -> HoldKey {
    HoldKey { subject: Subject::Task(task.clone()), kind }
}

/// Notes for a worker from a text and a list.
pub(crate) fn notes(text: &str, items: &[String]) -> String {
    let mut out = text.to_string();
    for item in items.iter().take(MAX_ITEMS) {
        out.push_str("\n- ");
        out.push_str(item);
    }
    clip(&out)
}

/// Where work on the task continues with these notes.
pub(crate) fn rework(notes: String) -> ResumeTo {
    ResumeTo::Rework { notes }
}

/// The resting place a task's next work starts from; none while it is under a lease or over.
pub(crate) fn resting(task: &Task) -> Option<ResumeTo> {
    match &task.stage {
        Stage::Ready => Some(ResumeTo::Ready),
        Stage::Rework { notes } => Some(ResumeTo::Rework { notes: notes.clone() }),
        Stage::Committed { head } => Some(ResumeTo::Committed { head: head.clone() }),
        Stage::AwaitingReview { head } => Some(ResumeTo::AwaitingReview { head: head.clone() }),
        Stage::MergeReady(reviewed) => Some(ResumeTo::MergeReady(reviewed.clone())),
        _ => None,
    }
}
