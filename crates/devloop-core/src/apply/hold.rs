//! Folds holds opened, lifted and acknowledged. See the module above for who may call it.

use super::{Folded, misfit};
use crate::event::Event;
use crate::hold::{Hold, HoldKey, Subject};
use crate::state::{LoopHold, LoopState, Planning};
use crate::task::Stage;
use crate::units::ActiveMs;

pub(super) fn hold(state: &mut LoopState, event: &Event) -> Folded {
    match event {
        Event::HoldOpened { subject: Subject::Task(id), hold, resume_to } => {
            let Some(task) = state.tasks.get_mut(id) else { return misfit("no task", id) };
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
            let said = crate::hold::Acknowledged { by: by.clone(), at: *at };
            match hold_mut(state, key) {
                Some(hold) => hold.acknowledged = Some(said),
                None => return misfit("no hold", key),
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn hold_mut<'a>(state: &'a mut LoopState, key: &HoldKey) -> Option<&'a mut Hold> {
    match &key.subject {
        Subject::Task(id) => match &mut state.tasks.get_mut(id)?.stage {
            Stage::Held { hold, .. } if hold.kind == key.kind => Some(hold),
            _ => None,
        },
        subject => {
            let found = state.holds.iter_mut().find(|h| h.subject == *subject && h.hold.kind == key.kind);
            found.map(|h| &mut h.hold)
        }
    }
}

fn lift(state: &mut LoopState, key: &HoldKey, at: ActiveMs) -> Folded {
    state.progress_at = at;
    match &key.subject {
        Subject::Task(id) => {
            let Some(task) = state.tasks.get_mut(id) else { return misfit("no task", id) };
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
