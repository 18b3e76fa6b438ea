//! The branch that merges go to: found, on a trunk, rewound, gone. It merges nothing.

use super::open;
use crate::circuit::grants;
use crate::decide::Decision;
use crate::draft::{Draft, View};
use crate::event::Event;
use crate::hold::{HoldKey, HoldKind, Subject};
use crate::observation::Observation;
use crate::question::goal_branch;
use crate::reason::Reason;

/// The target: a branch that merges may go to, which still has what was merged.
pub(super) fn target(view: &View<'_>, seen: &Observation) -> Option<Decision> {
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
