//! What a decision is made from, in one place, with the sums that it asks for more than once. It must not
//! decide.

use alloc::vec::Vec;
use core::cell::{OnceCell, RefCell};

use crate::circuit::{Cap, loop_caps};
use crate::ids::TaskId;
use crate::ledger::{LineageSum, Spend};
use crate::observation::{Now, Stamp};
use crate::obstacle::{Obstacle, Waker};
use crate::policy::Policy;
use crate::state::LoopState;
use crate::task::Task;

/// State, policy and stamp of one decision. Sums are made when they are first asked for, so that a decision
/// over ten thousand tasks walks over the ledger once and not once a task.
pub(crate) struct View<'a> {
    pub(crate) state: &'a LoopState,
    pub(crate) policy: &'a Policy,
    pub(crate) stamp: &'a Stamp,
    pub(crate) now: Now,
    /// Model dispatches under lease.
    pub(crate) slots_used: u32,
    occupying: OnceCell<Vec<&'a Task>>,
    caps: OnceCell<Vec<Cap>>,
    today: OnceCell<Spend>,
    /// What keeps each open task from being worked on, in their order, as far as the judge was asked.
    judged: RefCell<Vec<Option<Obstacle>>>,
    /// What moves each open task, in their order, as far as it was found out.
    wakers: RefCell<Vec<Option<Waker>>>,
}

impl<'a> View<'a> {
    pub(crate) fn new(state: &'a LoopState, policy: &'a Policy, stamp: &'a Stamp) -> View<'a> {
        View {
            state,
            policy,
            stamp,
            now: stamp.now(state),
            slots_used: state.slots_used(),
            occupying: OnceCell::new(),
            caps: OnceCell::new(),
            today: OnceCell::new(),
            judged: RefCell::default(),
            wakers: RefCell::default(),
        }
    }

    /// The tasks whose paths are taken, in plan order.
    pub(crate) fn occupying(&self) -> &[&'a Task] {
        self.occupying.get_or_init(|| self.state.tasks.open().filter(|task| task.occupies_paths()).collect())
    }

    /// Keeps what the judge said of work on the open task of that rank.
    pub(crate) fn remember(&self, rank: usize, obstacle: &Obstacle) {
        put(&self.judged, self.state.tasks.open().len(), rank, obstacle.clone());
    }

    /// What the judge said of work on the open task of that rank; none when it was not asked or let it go.
    pub(crate) fn judged(&self, rank: usize) -> Option<Obstacle> {
        self.judged.borrow().get(rank).cloned().flatten()
    }

    /// What moves the open task of that rank, if that was found out.
    pub(crate) fn waker(&self, rank: usize) -> Option<Waker> {
        self.wakers.borrow().get(rank).copied().flatten()
    }

    /// Keeps what moves the open task of that rank.
    pub(crate) fn set_waker(&self, rank: usize, waker: Waker) {
        put(&self.wakers, self.state.tasks.open().len(), rank, waker);
    }

    /// What the lineage cost so far.
    pub(crate) fn lineage(&self, lineage: &TaskId) -> LineageSum {
        self.state.ledger.entries.of_lineage(lineage)
    }

    /// The caps that hold for everything.
    pub(crate) fn caps(&self) -> &[Cap] {
        let instance = self.stamp.owner.instance;
        self.caps.get_or_init(|| loop_caps(self.state, &self.policy.limits, instance))
    }

    /// The sums of the current day.
    pub(crate) fn spent_today(&self) -> Spend {
        *self.today.get_or_init(|| self.state.ledger.day(self.state.clock.day))
    }
}

/// Puts what was found out into its place of a list of `len`, which is made when there is something to keep.
fn put<T: Clone>(list: &RefCell<Vec<Option<T>>>, len: usize, at: usize, value: T) {
    let mut list = list.borrow_mut();
    if list.is_empty() {
        list.resize(len, None);
    }
    if let Some(place) = list.get_mut(at) {
        *place = Some(value);
    }
}
