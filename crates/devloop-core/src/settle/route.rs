//! Provider faults close the route, not the task.

use crate::draft::{Draft, View};
use crate::event::Event;
use crate::hold::{HoldKey, HoldKind, Subject};
use crate::ids::RouteKey;
use crate::report::{FailureClass, Outcome};
use crate::state::{Gate, Lease};
use crate::units::WallMs;

/// How long a route stays closed when its provider names no moment: 15 minutes.
pub const ROUTE_PAUSE_MS: u64 = 15 * 60_000;

/// A quota that resets later than this is asked about, and waited for all the same: 24 hours.
pub const QUOTA_WAIT_MAX_MS: u64 = 24 * 3_600_000;

/// Provider faults close the route, not the task; a route that refuses everybody is closed with one question.
pub(super) fn gate_route(view: &View<'_>, draft: &mut Draft, lease: &Lease, outcome: &Outcome) {
    let Some(route) = &lease.route else { return };
    match outcome {
        Outcome::Refused { detail } => {
            let event = Event::RouteRefused { route: route.clone(), subject: lease.subject.clone() };
            draft.event(event);
            let refused = view.state.routes.get(route).map(|r| r.refused.as_slice()).unwrap_or_default();
            if refused.iter().any(|subject| *subject != lease.subject) {
                close(view, draft, route, HoldKind::RouteClosed, detail);
            }
        }
        Outcome::Failed { class, detail } => match class {
            FailureClass::OutOfCredit | FailureClass::LoginExpired => {
                close(view, draft, route, HoldKind::RouteClosed, detail);
            }
            FailureClass::RateLimited { until: Some(at) } if at.since(view.now.wall) > QUOTA_WAIT_MAX_MS => {
                close_until(view, draft, route, Some(*at), detail);
                ask(view, draft, route, HoldKind::QuotaWaitTooLong, detail);
            }
            FailureClass::RateLimited { until } => close_until(view, draft, route, *until, detail),
            FailureClass::Overloaded | FailureClass::NetworkDown => {
                close_until(view, draft, route, None, detail);
            }
            FailureClass::Task
            | FailureClass::Deadline
            | FailureClass::Cancelled
            | FailureClass::ContextTooLong
            | FailureClass::OutputLimit
            | FailureClass::ContentRefusal
            | FailureClass::Machine => {}
        },
        _ => {}
    }
}

fn close(view: &View<'_>, draft: &mut Draft, route: &RouteKey, kind: HoldKind, detail: &str) {
    draft.event(Event::RouteGated { route: route.clone(), gate: Gate::Closed });
    ask(view, draft, route, kind, detail);
}

/// Several dispatches of one route may fail for one reason: it is asked about once.
fn ask(view: &View<'_>, draft: &mut Draft, route: &RouteKey, kind: HoldKind, detail: &str) {
    let key = HoldKey { subject: Subject::Route(route.clone()), kind };
    if view.state.hold(&key).is_none() {
        draft.hold(view, key, detail, &[], None);
    }
}

/// A later report never opens a route earlier than an earlier one said.
fn close_until(view: &View<'_>, draft: &mut Draft, route: &RouteKey, until: Option<WallMs>, detail: &str) {
    let floor = view.now.wall.plus(1_000);
    let at = until.unwrap_or(view.now.wall.plus(ROUTE_PAUSE_MS)).max(floor);
    match view.state.gate(route) {
        Gate::Closed => return,
        Gate::ClosedUntil { at: later, .. } if later >= at => return,
        Gate::Open | Gate::ClosedUntil { .. } => {}
    }
    let gate = Gate::ClosedUntil { at, why: crate::task::clip(detail) };
    draft.event(Event::RouteGated { route: route.clone(), gate });
}
