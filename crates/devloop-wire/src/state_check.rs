//! What types alone cannot promise of a state that was read: names that point at each other. It must not
//! repair.

use devloop_core::finding::MAX_FINDINGS;
use devloop_core::hold::{MAX_ITEMS, Subject};
use devloop_core::ids::DispatchId;
use devloop_core::state::{Lease, LoopState, MAX_ANSWERS, Op, Planning};
use devloop_core::task::{Stage, Task};

use crate::fault::DocError;

/// Checks a state; `prefix` is its path in the document.
pub(crate) fn check(document: &'static str, prefix: &str, state: &LoopState) -> Result<(), DocError> {
    match fault(state) {
        Some((path, what)) => Err(DocError::defect(document, format!("{prefix}.{path}"), what)),
        None => Ok(()),
    }
}

type Found = Option<(String, String)>;

fn found(path: String, what: impl Into<String>) -> Found {
    Some((path, what.into()))
}

fn fault(state: &LoopState) -> Found {
    state
        .leases
        .iter()
        .find_map(|(id, lease)| lease_fault(state, *id, lease))
        .or_else(|| state.tasks.iter().enumerate().find_map(|(i, task)| task_fault(state, i, task)))
        .or_else(|| id_fault(state))
        .or_else(|| planning_fault(state))
        .or_else(|| hold_fault(state))
        .or_else(|| {
            let many = state.answers.len() > MAX_ANSWERS;
            many.then(|| ("answers".into(), format!("must be at most {MAX_ANSWERS} answers")))
        })
}

fn lease_fault(state: &LoopState, id: DispatchId, lease: &Lease) -> Found {
    let at = |field: &str| format!("leases.{id}.{field}");
    match &lease.subject {
        Subject::Task(task) if state.tasks.get(task).is_none() => {
            found(at("subject"), format!("there is no task {task}"))
        }
        Subject::Task(_) if lease.op == Op::Plan => {
            found(at("op"), "a task is not planned under a lease of its own")
        }
        Subject::Planning if lease.op != Op::Plan => {
            found(at("op"), "planning takes no other operation than plan")
        }
        Subject::Target if lease.op != Op::Check => {
            found(at("op"), "the target takes no other operation than check")
        }
        Subject::Task(_) | Subject::Planning | Subject::Target => None,
        Subject::Route(_) | Subject::Goal | Subject::Loop => {
            found(at("subject"), format!("no operation runs on {}", lease.subject))
        }
    }
}

fn task_fault(state: &LoopState, i: usize, task: &Task) -> Found {
    let at = |field: &str| format!("tasks[{i}].{field}");
    if let Some(unknown) = task.depends_on.iter().find(|id| state.tasks.get(id).is_none()) {
        return found(at("depends_on"), format!("there is no task {unknown}"));
    }
    if let Some(dispatch) = task.dispatch() {
        let own = Subject::Task(task.id.clone());
        if state.leases.get(&dispatch).is_none_or(|lease| lease.subject != own) {
            return found(at("stage"), format!("it names {dispatch}, which is no lease of task {}", task.id));
        }
    }
    if let Stage::Dropped { replaced_by } = &task.stage
        && let Some(unknown) = replaced_by.iter().find(|id| state.tasks.get(id).is_none())
    {
        return found(at("stage.dropped.replaced_by"), format!("there is no task {unknown}"));
    }
    if task.findings.open.len() > MAX_FINDINGS {
        return found(at("findings.open"), format!("must be at most {MAX_FINDINGS} findings"));
    }
    if !task.findings.names_are_own() {
        return found(at("findings.open"), "each must have an id of its own, at most `named`");
    }
    let items = task.hold().map_or(0, |hold| hold.items.len());
    (items > MAX_ITEMS).then(|| (at("stage.held.hold.items"), format!("must be at most {MAX_ITEMS} items")))
}

fn id_fault(state: &LoopState) -> Found {
    let used = state.leases.keys().chain(state.ledger.entries.keys()).max()?;
    (used.0 >= state.next_dispatch)
        .then(|| ("next_dispatch".into(), format!("it must be above {}, the highest id in use", used.0)))
}

fn planning_fault(state: &LoopState) -> Found {
    match &state.planning {
        Planning::Working { dispatch, .. } => {
            let known = state.leases.get(dispatch).is_some_and(|lease| lease.subject == Subject::Planning);
            (!known)
                .then(|| ("planning".into(), format!("it names {dispatch}, which is no lease of planning")))
        }
        // Without a hold nobody would be asked, and planning would stand still for ever.
        Planning::Held { .. } if !state.is_held(&Subject::Planning) => {
            found("planning".into(), "it is held, but there is no hold on subject planning")
        }
        Planning::Idle | Planning::Wanted { .. } if state.is_held(&Subject::Planning) => {
            found("planning".into(), "there is a hold on subject planning, but it is not held")
        }
        Planning::Held { .. } | Planning::Idle | Planning::Wanted { .. } => None,
    }
}

fn hold_fault(state: &LoopState) -> Found {
    for (i, hold) in state.holds.iter().enumerate() {
        let at = |field: &str| format!("holds[{i}].{field}");
        if let Subject::Task(id) = &hold.subject {
            return found(at("subject"), format!("the hold of task {id} belongs into its stage"));
        }
        let twice = |other: &&devloop_core::state::LoopHold| {
            other.subject == hold.subject && other.hold.kind == hold.hold.kind
        };
        if state.holds.iter().take(i).any(|other| twice(&other)) {
            return found(at("hold.kind"), format!("{} is held for {} twice", hold.subject, hold.hold.kind));
        }
        if hold.hold.items.len() > MAX_ITEMS {
            return found(at("hold.items"), format!("must be at most {MAX_ITEMS} items"));
        }
    }
    None
}
