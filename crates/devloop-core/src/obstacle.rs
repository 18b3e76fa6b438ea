//! The one thing that keeps a task from moving, and what will end it. Computed, never stored.

use crate::circuit::Circuit;
use crate::hold::Subject;
use crate::ids::{DispatchId, RouteKey, TaskId};
use crate::state::Op;
use crate::units::WallMs;

data! {
    /// Why a task (or planning) does not move.
    pub enum Obstacle {
        /// A hold.
        Hold(Subject),
        /// A task it depends on is not done.
        Dependency(TaskId),
        /// Another task occupies paths that overlap.
        Overlap(TaskId),
        /// All worker slots of the project are taken.
        Slot,
        /// All worker slots of the process or the user are taken elsewhere.
        SharedSlot,
        /// Every route it could take is closed or full.
        Route {
            /// The first of them.
            route: RouteKey,
            /// When one opens, if a moment is known.
            until: Option<WallMs>,
        },
        /// Money is set aside by dispatches that still run; the cap has room when they settle.
        Reserve(Circuit),
        /// Other projects have used the shared money.
        SharedReserve,
        /// The user's checkout is in the way of the merge.
        Checkout,
        /// Another merge, verification or revert goes on.
        MergeBusy(DispatchId),
        /// Its route is `noop`: this is what would be dispatched.
        Noop {
            /// The operation.
            op: Op,
            /// The route.
            route: RouteKey,
        },
        /// The disk is nearly full.
        Disk,
        /// The checks of the base, or a replan, come first.
        Preparation(DispatchId),
        /// The target branch is being made.
        TargetMissing,
        /// A pull request is polled.
        Poll {
            /// When to look again.
            at: WallMs,
        },
    }

    /// What ends an obstacle.
    #[derive(Copy)]
    pub enum Waker {
        /// A report of this lease.
        Lease(DispatchId),
        /// A moment.
        At(WallMs),
        /// Something outside that is polled with a floor.
        Shared,
        /// A person.
        Person,
    }
}
