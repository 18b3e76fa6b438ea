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

/// A quota that resets later than this needs a person: 24 hours.
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
                close(view, draft, route, HoldKind::QuotaWaitTooLong, detail);
            }
            FailureClass::RateLimited { until } => close_until(view, draft, route, *until, detail),
            FailureClass::Overloaded | FailureClass::NetworkDown => {
                close_until(view, draft, route, None, detail);
            }
            FailureClass::Task | FailureClass::Deadline | FailureClass::Cancelled | FailureClass::Machine => {
            }
        },
        _ => {}
    }
}

fn close(view: &View<'_>, draft: &mut Draft, route: &RouteKey, kind: HoldKind, detail: &str) {
    draft.event(Event::RouteGated { route: route.clone(), gate: Gate::Closed });
    let key = HoldKey { subject: Subject::Route(route.clone()), kind };
    draft.hold(view, key, detail, &[], None);
}

fn close_until(view: &View<'_>, draft: &mut Draft, route: &RouteKey, until: Option<WallMs>, detail: &str) {
    let floor = view.now.wall.plus(1_000);
    let at = until.unwrap_or(view.now.wall.plus(ROUTE_PAUSE_MS)).max(floor);
    let gate = Gate::ClosedUntil { at, why: crate::task::clip(detail) };
    draft.event(Event::RouteGated { route: route.clone(), gate });
}
