//! The decision order: total, pure, first match wins, called again until it answers with a wait or a halt.

use alloc::vec::Vec;

use crate::admit::{Admission, admit, is_open, is_repeated};
use crate::basis::Basis;
use crate::circuit::grants;
use crate::command::Command;
use crate::draft::{Draft, NewLease, View, resting, task_key};
use crate::effect::Effect;
use crate::event::Event;
use crate::hold::{HoldKey, HoldKind, Subject};
use crate::observation::{Checkout, GoalSeen, Observation, Stamp};
use crate::obstacle::Obstacle;
use crate::policy::{Acceptance, Policy};
use crate::question::goal_branch;
use crate::reason::Reason;
use crate::settle::{has_approval, lift_caps, settle, take_host};
use crate::state::{LoopState, Op, Phase, Planning};
use crate::task::{ResumeTo, Stage, Task, clip};
use crate::tier::Risk;
use crate::units::UsdMicros;
use crate::{clock, operate, recovery, wait};

data! {
    /// What was decided.
    pub struct Decision {
        /// What is recorded, in order; one journal line, none when empty.
        pub events: Vec<Event>,
        /// What the host does after the line is durable.
        pub effects: Vec<Effect>,
        /// Why.
        pub reason: Reason,
    }

    /// What a decision is made on.
    pub enum Input {
        /// A look at the world.
        Observation(Observation),
        /// An operator's wish, made by the process of the stamp.
        Command {
            /// Who and when.
            stamp: Stamp,
            /// What.
            command: Command,
        },
    }
}

/// A changed goal text counts when seen again this much later: 5 s awake.
pub const GOAL_AGREES_MS: u64 = 5_000;

/// Decides. Total: every state, policy and input has an answer.
#[must_use]
pub fn decide(state: &LoopState, policy: &Policy, input: &Input) -> Decision {
    let bounded = crate::bounded::bounded(input);
    match bounded.as_ref().unwrap_or(input) {
        Input::Observation(seen) => observe(state, policy, seen),
        Input::Command { stamp, command } => operate::operate(&View::new(state, policy, stamp), command),
    }
}

fn observe(state: &LoopState, policy: &Policy, seen: &Observation) -> Decision {
    let view = View::new(state, policy, &seen.stamp);
    if !matches!(seen.goal, GoalSeen::Present(_)) && state.goal.number == 0 {
        return Draft::default().done(Reason::Unarmed);
    }
    let settled = clock::observe(&view)
        .or_else(|| settle(&view, seen))
        .or_else(|| recovery::recover(&view, seen))
        .or_else(|| policy_changed(&view));
    if let Some(decision) = settled {
        return decision;
    }
    match &state.phase {
        Phase::Paused { .. } => return wait::ending(&view).done(Reason::StillPaused),
        Phase::Complete { .. } => return wait::ending(&view).done(Reason::StillComplete),
        Phase::Active => {}
    }
    if seen.goal == GoalSeen::Absent {
        return Draft::default().done(Reason::Unarmed);
    }
    goal(&view, seen)
        .or_else(|| target(&view, seen))
        .or_else(|| withdraw(&view, seen))
        .or_else(|| finish(&view, seen))
        .or_else(|| plan(&view, seen))
        .or_else(|| work(&view, seen))
        .or_else(|| complete(&view))
        .unwrap_or_else(|| wait::wait(&view, seen))
}

fn policy_changed(view: &View<'_>) -> Option<Decision> {
    if view.state.policy.as_ref() == Some(&view.policy.digest) {
        return None;
    }
    let mut draft = Draft::of(alloc::vec![Event::PolicyChanged { digest: view.policy.digest.clone() }]);
    draft.events.extend(lift_caps(view));
    Some(draft.done(Reason::PolicyChanged))
}

/// The goal's text: started, edited, or as it was.
fn goal(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let digest = match &seen.goal {
        GoalSeen::Present(digest) => digest,
        GoalSeen::Unusable(why) => return unusable(view, why),
        GoalSeen::Absent => return None,
    };
    let goal = &view.state.goal;
    let Some(planned) = &goal.digest else {
        let started = Event::GoalStarted {
            number: goal.number.saturating_add(1),
            digest: digest.clone(),
            at: view.now.wall,
            branch: seen.repo.branch.clone(),
        };
        return Some(Draft::of(alloc::vec![started]).done(Reason::GoalStarted));
    };
    let key = HoldKey { subject: Subject::Goal, kind: HoldKind::GoalChanged };
    let held = view.state.hold(&key);
    if digest == planned {
        goal.pending.as_ref()?;
        let mut draft = Draft::of(alloc::vec![Event::GoalTextReturned]);
        if held.is_some() {
            draft.event(Event::HoldLifted { key, at: view.now.active });
        }
        return Some(draft.done(Reason::GoalTextReturned));
    }
    match &goal.pending {
        Some(pending) if pending.digest == *digest => {
            // An answer is about the text that was read: for yet another text it is asked again.
            let asked = held.is_some_and(|hold| hold.detail == digest.as_str());
            if asked || view.now.active.since(pending.seen_at) < GOAL_AGREES_MS {
                return None;
            }
            let mut draft = Draft::default();
            if held.is_some() {
                draft.event(Event::HoldLifted { key: key.clone(), at: view.now.active });
            }
            draft.hold(view, key.clone(), digest.as_str(), &[], None);
            Some(draft.done(Reason::Held { key }))
        }
        _ => {
            let event = Event::GoalEditSeen { digest: digest.clone(), at: view.now.active };
            Some(Draft::of(alloc::vec![event]).done(Reason::GoalEditSeen))
        }
    }
}

/// What stands in the place of the goal's text is none: asked about with the reason as it is now.
fn unusable(view: &View<'_>, why: &str) -> Option<Decision> {
    let key = HoldKey { subject: Subject::Goal, kind: HoldKind::GoalUnusable };
    let held = view.state.hold(&key);
    if held.is_some_and(|hold| hold.detail == clip(why)) {
        return None;
    }
    let mut draft = Draft::default();
    if held.is_some() {
        draft.event(Event::HoldLifted { key: key.clone(), at: view.now.active });
    }
    draft.hold(view, key.clone(), why, &[], None);
    Some(draft.done(Reason::Held { key }))
}

/// The target: a branch that merges may go to, which still has what was merged.
fn target(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let target = &view.state.target;
    let kind = match &target.branch {
        None if seen.repo.branch.is_some() => return found_target(view, seen),
        None => HoldKind::MergeDetachedHead,
        Some(branch) if seen.repo.tip.is_none() => {
            // Only the loop's own branch is made by the loop; one that a person deleted is a person's matter.
            if branch.as_str() == goal_branch(view.state) {
                return None;
            }
            let key = HoldKey { subject: Subject::Target, kind: HoldKind::MergeDetachedHead };
            return open(view, key, &alloc::format!("the target branch {branch} is gone"));
        }
        Some(branch) => {
            let granted = grants(view.state, HoldKind::MergeOntoTrunk, view.stamp.owner.instance) > 0;
            if !granted && view.policy.is_trunk(branch, seen.repo.remote_default.as_ref()) {
                HoldKind::MergeOntoTrunk
            } else if !seen.repo.contains_last_merge && target.last_merge.is_some() {
                HoldKind::TargetRewound
            } else {
                return None;
            }
        }
    };
    open(view, HoldKey { subject: Subject::Target, kind }, "")
}

/// The goal started on no branch and the checkout is on one now: merges go there.
fn found_target(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let branch = seen.repo.branch.clone()?;
    let mut draft = Draft::of(alloc::vec![Event::TargetChosen { branch }]);
    let key = HoldKey { subject: Subject::Target, kind: HoldKind::MergeDetachedHead };
    if view.state.hold(&key).is_some() {
        draft.event(Event::HoldLifted { key: key.clone(), at: view.now.active });
    }
    Some(draft.done(Reason::HoldWithdrawn { key }))
}

fn open(view: &View<'_>, key: HoldKey, detail: &str) -> Option<Decision> {
    if view.state.hold(&key).is_some() {
        return None;
    }
    let mut draft = Draft::default();
    draft.hold(view, key.clone(), detail, &[], None);
    Some(draft.done(Reason::Held { key }))
}

/// Holds whose cause went away by itself.
fn withdraw(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let instance = view.stamp.owner.instance;
    let gone = |subject: &Subject, kind: HoldKind| match (subject, kind) {
        (Subject::Goal, HoldKind::GoalUnusable) => matches!(seen.goal, GoalSeen::Present(_)),
        (Subject::Target, HoldKind::NoProgress) => seen.repo.checkout == Checkout::Free,
        (Subject::Target, HoldKind::TargetRewound) => {
            seen.repo.contains_last_merge && seen.repo.tip.is_some()
        }
        (Subject::Target, HoldKind::MergeDetachedHead) => {
            view.state.target.branch.is_some() && seen.repo.tip.is_some()
        }
        // A session's money starts anew with its supervisor.
        (Subject::Loop, HoldKind::SessionCostCap) => view.state.last_instance(instance) != instance,
        (Subject::Route(route), HoldKind::QuotaWaitTooLong) => is_open(view, route),
        _ => false,
    };
    let held = view.state.holds.iter().find(|h| gone(&h.subject, h.hold.kind))?;
    let key = HoldKey { subject: held.subject.clone(), kind: held.hold.kind };
    let event = Event::HoldLifted { key: key.clone(), at: view.now.active };
    Some(Draft::of(alloc::vec![event]).done(Reason::HoldWithdrawn { key }))
}

/// Finishes what was begun: merge one, review, check.
fn finish(view: &View<'_>, seen: &Observation) -> Option<Decision> {
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

fn plan(view: &View<'_>, seen: &Observation) -> Option<Decision> {
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

fn work(view: &View<'_>, seen: &Observation) -> Option<Decision> {
    let order = work_order(view.state);
    if order.is_empty() || view.state.is_held(&Subject::Goal) {
        return None;
    }
    if needs_base_check(view) {
        return base_check(view, seen);
    }
    order.into_iter().find_map(|(rank, task)| {
        if view.policy.high_risk == crate::policy::HighRisk::HoldBeforeWork
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
fn start_model(view: &View<'_>, seen: &Observation, op: Op, task: Option<&Task>) -> Option<Decision> {
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

/// Every live task is done: the goal is reached, whatever the caps say.
fn complete(view: &View<'_>) -> Option<Decision> {
    let idle = matches!(view.state.planning, Planning::Idle) && view.state.leases.is_empty();
    if !idle || view.state.tasks.open().len() > 0 || !view.state.tasks.iter().any(Task::is_live) {
        return None;
    }
    let event = Event::GoalCompleted { at: view.now.wall };
    Some(Draft::of(alloc::vec![event]).done(Reason::GoalReached))
}
