//! Folds holds opened, lifted and acknowledged. See the module above for who may call it.

use super::{Folded, misfit};
use crate::event::Event;
use crate::hold::{Acknowledged, Hold, HoldKey, Subject};
use crate::state::{LoopHold, LoopState, Planning};
use crate::task::Stage;
use crate::units::ActiveMs;

pub(super) fn hold(state: &mut LoopState, event: &Event) -> Folded {
    match event {
        Event::HoldOpened { subject: Subject::Task(id), hold, resume_to } => {
            let Some(mut task) = state.tasks.get_mut(id) else { return misfit("no task", id) };
            let resume_to = resume_to.clone().unwrap_or_else(|| task.resume_point());
            task.stage = Stage::Held { resume_to, hold: hold.clone() };
            Ok(())
        }
        Event::HoldOpened { subject, hold, .. } => {
            if !state.has_hold(subject, hold.kind) {
                state.holds.push(LoopHold { subject: subject.clone(), hold: hold.clone() });
            }
            if *subject == Subject::Planning {
                let replaces = match &state.planning {
                    Planning::Wanted { replaces }
                    | Planning::Working { replaces, .. }
                    | Planning::Held { replaces } => replaces.clone(),
                    Planning::Idle => None,
                };
                state.planning = Planning::Held { replaces };
            }
            Ok(())
        }
        Event::HoldLifted { key, at } => lift(state, key, *at),
        Event::HoldAcknowledged { key, by, at } => {
            let said = Acknowledged { by: by.clone(), at: *at };
            if acknowledge(state, key, said) { Ok(()) } else { misfit("no hold", key) }
        }
        _ => Ok(()),
    }
}

/// Whether there is a hold of that name, which is acknowledged now.
fn acknowledge(state: &mut LoopState, key: &HoldKey, said: Acknowledged) -> bool {
    let note = |hold: &mut Hold| hold.acknowledged = Some(said);
    match &key.subject {
        Subject::Task(id) => match state.tasks.get_mut(id).as_mut().map(|task| &mut task.stage) {
            Some(Stage::Held { hold, .. }) if hold.kind == key.kind => note(hold),
            _ => return false,
        },
        subject => match state.holds.iter_mut().find(|h| h.subject == *subject && h.hold.kind == key.kind) {
            Some(open) => note(&mut open.hold),
            None => return false,
        },
    }
    true
}

fn lift(state: &mut LoopState, key: &HoldKey, at: ActiveMs) -> Folded {
    state.progress_at = at;
    match &key.subject {
        Subject::Task(id) => {
            let Some(mut task) = state.tasks.get_mut(id) else { return misfit("no task", id) };
            let Stage::Held { resume_to, .. } = &task.stage else { return misfit("no hold", key) };
            task.stage = resume_to.clone().into();
        }
        subject => {
            state.holds.retain(|h| h.subject != *subject || h.hold.kind != key.kind);
            if let (Subject::Planning, Planning::Held { replaces }) = (subject, &state.planning) {
                state.planning = Planning::Wanted { replaces: replaces.clone() };
            }
        }
    }
    Ok(())
}
