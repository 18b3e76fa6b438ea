//! The goal's text as it is seen: started, edited, returned, unusable. It decides nothing about tasks.

use crate::decide::Decision;
use crate::draft::{Draft, View};
use crate::event::Event;
use crate::hold::{HoldKey, HoldKind, Subject};
use crate::observation::{GoalSeen, Observation};
use crate::reason::Reason;
use crate::task::clip;

/// A changed goal text counts when seen again this much later: 5 s awake.
pub const GOAL_AGREES_MS: u64 = 5_000;

/// The goal's text: started, edited, or as it was.
pub(super) fn goal(view: &View<'_>, seen: &Observation) -> Option<Decision> {
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
