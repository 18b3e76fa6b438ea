//! Effects in flight: their threads, their cancel tokens and the promise of exactly one report each, parked
//! in the inbox before it is told. It does not know what an effect does.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use devloop_core::effect::Effect;
use devloop_core::ids::DispatchId;
use devloop_core::report::{FailureClass, Outcome, Report, Usage};
use devloop_core::task::clip;

use super::{Shared, carry_out};
use crate::process::CancelToken;
use crate::store::points::{self, Point};
use crate::store::small;

/// How an effect ended.
pub(super) struct Done {
    pub outcome: Outcome,
    pub usage: Option<Usage>,
}

impl From<Outcome> for Done {
    fn from(outcome: Outcome) -> Done {
        Done { outcome, usage: None }
    }
}

/// The machine's fault, with the reason in words.
pub(super) fn machine_failure(detail: impl std::fmt::Display) -> Outcome {
    Outcome::Failed { class: FailureClass::Machine, detail: clip(&detail.to_string()) }
}

struct Flight {
    cancel: CancelToken,
    model: bool,
}

#[derive(Default)]
struct Table {
    flights: BTreeMap<DispatchId, Flight>,
    chores: usize,
    closing: bool,
}

/// The table of running effects.
#[derive(Default)]
pub(super) struct Flights {
    table: Mutex<Table>,
    changed: Condvar,
}

impl Flights {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change is one insert, remove or count: a panic between them leaves the table valid.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a dispatch; `None` when it is in flight already.
    fn enter(&self, dispatch: DispatchId, model: bool) -> Option<CancelToken> {
        let mut table = self.table();
        if table.flights.contains_key(&dispatch) {
            return None;
        }
        let cancel = CancelToken::new();
        table.flights.insert(dispatch, Flight { cancel: cancel.clone(), model });
        Some(cancel)
    }

    fn leave(&self, dispatch: DispatchId) {
        self.table().flights.remove(&dispatch);
        self.changed.notify_all();
    }

    /// Counts a piece of housekeeping that a shutdown waits for.
    pub(super) fn enter_chore(self: &Flights) {
        self.table().chores += 1;
    }

    pub(super) fn leave_chore(&self) {
        let mut table = self.table();
        table.chores = table.chores.saturating_sub(1);
        self.changed.notify_all();
    }

    pub(super) fn dispatches(&self) -> Vec<DispatchId> {
        self.table().flights.keys().copied().collect()
    }

    pub(super) fn contains(&self, dispatch: DispatchId) -> bool {
        self.table().flights.contains_key(&dispatch)
    }

    pub(super) fn cancel(&self, dispatch: DispatchId) {
        if let Some(flight) = self.table().flights.get(&dispatch) {
            flight.cancel.cancel();
        }
    }

    /// Cancels everything for good: models, and checks of the host's own operations.
    pub(super) fn close(&self) {
        let mut table = self.table();
        table.closing = true;
        table.flights.values().for_each(|flight| flight.cancel.cancel());
    }

    /// Whether the end of this flight is nobody's: a shutdown interrupted a host operation, whose lease the
    /// next owner takes over and performs again.
    fn is_interrupted(&self, dispatch: DispatchId, outcome: &Outcome) -> bool {
        let table = self.table();
        let host = table.flights.get(&dispatch).is_some_and(|flight| !flight.model);
        let cancelled = matches!(outcome, Outcome::Failed { class: FailureClass::Cancelled, .. });
        table.closing && host && cancelled
    }

    pub(super) fn wait_for_all(&self, grace_ms: u64) {
        let until = Instant::now() + Duration::from_millis(grace_ms);
        let mut table = self.table();
        while !table.flights.is_empty() || table.chores > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            table = self.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Starts a leased effect on a thread of its own.
pub(super) fn start(shared: &Arc<Shared>, effect: Effect) {
    let Some((dispatch, epoch)) = effect.lease() else { return };
    let model = matches!(effect, Effect::Dispatch { .. });
    let Some(cancel) = shared.flights.enter(dispatch, model) else { return };
    let own = Arc::clone(shared);
    let run = move || {
        let caught = catch_unwind(AssertUnwindSafe(|| carry_out(&own, &effect, &cancel)));
        let done = caught.unwrap_or_else(|panic| machine_failure(words_of(&*panic)).into());
        tell(&own, dispatch, epoch, done);
    };
    if let Err(error) = thread::Builder::new().name(format!("devloop-{dispatch}")).spawn(run) {
        tell(
            shared,
            dispatch,
            epoch,
            machine_failure(format_args!("no thread could be started: {error}")).into(),
        );
    }
}

/// Parks the report, leaves the table, tells the supervisor. An owner that was replaced parks nothing: the
/// new owner's inbox is not its own. A full disk loses the parked copy, never the report.
fn tell(shared: &Shared, dispatch: DispatchId, epoch: u32, done: Done) {
    if shared.flights.is_interrupted(dispatch, &done.outcome) {
        return shared.flights.leave(dispatch);
    }
    let report = Report { dispatch, epoch, usage: done.usage, outcome: done.outcome };
    if shared.fence().is_ok() {
        let json = devloop_wire::canonical(&report);
        let parked =
            small::park_report(&shared.setting.disk, &shared.setting.armed, &dispatch.to_string(), &json);
        drop(parked);
        points::reach(Point::ReportWritten, dispatch);
    }
    shared.flights.leave(dispatch);
    (shared.on_report)(report);
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the thread of the dispatch ended early: {}", text.unwrap_or_else(|| "no reason".into()))
}
