//! What was begun is finished before anything new: one merge, then reviews, then checks.

use super::open;
use super::start::start_model;
use crate::admit::is_repeated;
use crate::basis::Basis;
use crate::decide::Decision;
use crate::draft::{Draft, View, resting, task_key};
use crate::event::Event;
use crate::hold::{HoldKey, HoldKind, Subject};
use crate::observation::{Checkout, Observation};
use crate::obstacle::Obstacle;
use crate::policy::Acceptance;
use crate::reason::Reason;
use crate::settle::{has_approval, take_host};
use crate::state::Op;
use crate::task::{ResumeTo, Stage, Task};
use crate::tier::Risk;

/// Finishes what was begun: merge one, review, check.
pub(super) fn finish(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    if view.state.is_held(&Subject::Goal) {
        return None;
    }
    merge(view, seen).or_else(|| review(view, seen)).or_else(|| check(view))
}

/// What keeps the next merge from starting; none when nothing does.
pub(crate) fn merge_obstacle(view: &View<'_>, seen: &Observation) -> Option<Obstacle> {
    let busy = |op: Op| matches!(op, Op::Merge | Op::Verify | Op::Revert);
    if let Some((dispatch, _)) = view.state.leases.iter().find(|(_, lease)| busy(lease.op)) {
        return Some(Obstacle::MergeBusy(*dispatch));
    }
    let stops = |kind: HoldKind| kind != HoldKind::ChecksRedAtBase;
    if view.state.holds.iter().any(|h| h.subject == Subject::Target && stops(h.hold.kind)) {
        return Some(Obstacle::Hold(Subject::Target));
    }
    if seen.repo.tip.is_none() {
        return Some(Obstacle::TargetMissing);
    }
    (seen.repo.checkout != Checkout::Free).then_some(Obstacle::Checkout)
}

fn merge(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let mut ready = view.state.tasks.open().filter_map(|task| match &task.stage {
        Stage::MergeReady(reviewed) => Some((task, reviewed)),
        _ => None,
    });
    let (task, reviewed) = ready.next()?;
    match merge_obstacle(view, seen) {
        None => {}
        Some(Obstacle::Checkout) => return stuck_checkout(view, seen),
        Some(_) => return None,
    }
    if task.risk == Risk::High && !has_approval(view, task, reviewed.head()) {
        let key = HoldKey { subject: Subject::Task(task.id.clone()), kind: HoldKind::SecurityHighRisk };
        return open(view, key, "");
    }
    Some(start_host(view, task, Op::Merge))
}

/// Starts one of the host's own operations, unless it was started with this very basis as often as allowed.
fn start_host(view: &View<'_>, task: &Task, op: Op) -> Decision {
    let mut draft = Draft::default();
    if is_repeated(view, op, task) {
        let key = task_key(&task.id, HoldKind::DuplicateAction);
        let detail = alloc::format!("{} of the same commit", op.key());
        draft.hold(view, key.clone(), &detail, &[], Some(task.resume_point()));
        return draft.done(Reason::Held { key });
    }
    let basis = Basis::of_task(view.state, view.policy, task);
    take_host(view, &mut draft, task, op, basis, resting(task));
    draft.done(Reason::Started { op, subject: Subject::Task(task.id.clone()) })
}

/// A checkout that has been in the way for too long becomes a question.
fn stuck_checkout(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let limit = u64::from(view.policy.limits.no_progress_minutes) * 60_000;
    if !view.state.leases.is_empty() || view.now.active.since(view.state.progress_at) < limit {
        return None;
    }
    let detail = match &seen.repo.checkout {
        Checkout::Free => return None,
        Checkout::Dirty { paths } => alloc::format!("changed in the checkout: {}", paths.join(", ")),
        Checkout::Busy { what } => alloc::format!("in the checkout: {what}"),
    };
    open(view, HoldKey { subject: Subject::Target, kind: HoldKind::NoProgress }, &crate::task::clip(&detail))
}

fn review(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let mut waiting = view.state.tasks.open().filter(|t| matches!(t.stage, Stage::AwaitingReview { .. }));
    waiting.find_map(|task| start_model(view, seen, Op::Review, Some(task)))
}

/// Commits without checks go straight on; the others are checked, which costs no worker slot.
fn check(view: &View<'_>) -> Option<Decision> {
    let committed = |t: &&Task| matches!(t.stage, Stage::Committed { .. });
    let task = view.state.tasks.open().find(committed)?;
    let Stage::Committed { head } = &task.stage else { return None };
    if view.policy.acceptance == Acceptance::Absent {
        let to = ResumeTo::AwaitingReview { head: head.clone() };
        let draft = Draft::of(alloc::vec![Event::TaskMoved { task: task.id.clone(), to }]);
        return Some(draft.done(Reason::NoChecks { task: task.id.clone() }));
    }
    Some(start_host(view, task, Op::Check))
}
