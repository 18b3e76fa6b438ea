//! One operation of the what-if while it is under way: when it reports, and what. It must not decide.

use alloc::vec::Vec;

use devloop_core::ids::Oid;
use devloop_core::report::{FailureClass, Outcome, Report};
use devloop_core::state::{Ending, Lease, Owner};

use crate::draw::Source;
use crate::facts::{End, Order, Past};
use crate::moment::{Moment, Span};

/// An operation under way.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub source: Source,
    pub owner: Owner,
    /// How often it was performed before: adopted operations are performed again.
    pub again: usize,
    /// When its report is seen; none when nobody ever sees one.
    pub due: Option<Moment>,
    pub report: Report,
    pub order: Order,
    /// The commit that the target is moved to, and when.
    pub publish: Option<(Moment, Oid)>,
    pub cancelled: bool,
    /// It was still running when the recording ended.
    pub open: bool,
}

/// When an own draw reports, performed for the `again`-th time at `now`; and whether it is one that never
/// did.
pub(crate) fn due_of(past: &Past, again: usize, now: Moment) -> (Option<Moment>, bool) {
    let End::Report(end, ..) = &past.end else {
        return (None, matches!(past.end, End::Open));
    };
    if past.accident().is_some() {
        return (Some(*end), false);
    }
    let last = past.performed.len().saturating_sub(1);
    match past.performed.get(again + 1).filter(|_| again < last) {
        // Its owner died then, and the next one performed it again.
        Some(taken_over) if *taken_over > now => (None, false),
        Some(_) => (past.span().map(|span| now.plus(span)), false),
        None => {
            let start = past.performed.get(again.min(last)).copied().unwrap_or(*end);
            (Some(now.plus(end.since(start))), false)
        }
    }
}

/// When an own draw, performed for the `again`-th time, moves the target, if that performance did.
pub(crate) fn publish_of(
    past: &Past,
    again: usize,
    due: Option<Moment>,
    now: Moment,
) -> Option<(Moment, Oid)> {
    let (commit, at) = past.published.clone()?;
    let start = *past.performed.get(again).or(past.performed.last())?;
    let taken_over = past.performed.get(again + 1);
    if at < start || taken_over.is_some_and(|taken_over| *taken_over <= at) {
        return None;
    }
    let moved = now.plus(at.since(start));
    Some((due.map_or(moved, |due| due.min(moved)), commit))
}

impl Flight {
    /// Asked to end: as the recorded one did when it was asked too, else at once and without a result. True
    /// when its recorded end will not be seen.
    pub(crate) fn cancel(&mut self, past: Option<&Past>, lease: &Lease, now: Moment) -> bool {
        if self.cancelled {
            return false;
        }
        self.cancelled = true;
        self.open = false;
        let class = match lease.ending {
            Some(Ending::Deadline) => FailureClass::Deadline,
            Some(Ending::Operator) => FailureClass::Cancelled,
            // Its owner is dead: nobody reports.
            Some(Ending::Orphan) | None => return false,
        };
        if let Some((asked, End::Report(end, ..))) = past.and_then(|past| Some((past.ending?, &past.end))) {
            let grace = now.plus(end.since(asked));
            self.due = Some(self.due.map_or(grace, |due| due.min(grace)));
            return false;
        }
        let early = self.due.is_none_or(|due| due > now);
        if early {
            self.due = Some(now.next());
            self.publish = None;
            self.report.usage = None;
            self.report.outcome =
                Outcome::Failed { class, detail: "it was ended before its end is known".into() };
        }
        early
    }
}

/// Reports about usage that arrive after the end.
#[derive(Debug, Default)]
pub(crate) struct Late(Vec<(Moment, Order, Report)>);

impl Late {
    pub(crate) fn add(&mut self, at: Moment, order: Order, report: Report) {
        self.0.push((at, order, report));
    }

    pub(crate) fn from_past(&mut self, past: &Past, report: &Report, now: Moment) {
        for (span, late, order) in &past.late {
            let late = Report { dispatch: report.dispatch, ..late.clone() };
            self.0.push((now.plus(*span), *order, late));
        }
    }

    pub(crate) fn moments(&self) -> impl Iterator<Item = Moment> {
        self.0.iter().map(|(at, ..)| *at)
    }

    /// What is due.
    pub(crate) fn due(&self, now: Moment) -> impl Iterator<Item = (Order, Report)> {
        self.0.iter().filter(move |late| late.0 <= now).map(|(_, order, report)| (*order, report.clone()))
    }

    /// Forgets what was due: it was seen.
    pub(crate) fn seen(&mut self, now: Moment) {
        self.0.retain(|late| late.0 > now);
    }
}

/// A span as a moment after another, for what has no recorded time.
pub(crate) fn at_once_or(now: Moment, span: Option<Span>) -> Moment {
    span.map_or(now.next(), |span| now.plus(span).max(now.next()))
}
