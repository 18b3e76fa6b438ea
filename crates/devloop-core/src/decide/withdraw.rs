//! Questions that withdraw themselves because their cause went away. It opens none.

use crate::admit::is_open;
use crate::decide::Decision;
use crate::draft::{Draft, View};
use crate::event::Event;
use crate::hold::{HoldKey, HoldKind, Subject};
use crate::observation::{Checkout, GoalSeen, Observation};
use crate::reason::Reason;

/// Holds whose cause went away by itself.
pub(super) fn withdraw(view: &View<'_>, seen: &Observation) -> Option<Decision> {
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
