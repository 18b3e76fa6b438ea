//! Facts in: everything a decision may know about the world, read by the host in one go.

use alloc::string::String;
use alloc::vec::Vec;

use crate::ids::{Branch, Digest, DispatchId, Oid};
use crate::report::Report;
use crate::state::{LoopState, Owner};
use crate::units::{ActiveMs, AwakeMs, UsdMicros, WallMs};

data! {
    /// One look at the world. Deciding again on the same observation is expected until the answer is a wait
    /// or a halt.
    pub struct Observation {
        /// Who looks and when.
        pub stamp: Stamp,
        /// The goal's text.
        pub goal: GoalSeen,
        /// The repository.
        pub repo: RepoSeen,
        /// Free bytes where the worktrees are.
        pub free_disk_bytes: u64,
        /// Other projects of this user.
        pub others: Others,
        /// Finished operations that may not be settled yet, at most [`MAX_REPORTS`]: more are not looked at.
        pub reports: Vec<Report>,
        /// Leases of other owners and what is known of their processes.
        pub orphans: Vec<OrphanSeen>,
    }

    /// Who looks and when.
    pub struct Stamp {
        /// Wall time.
        pub wall: WallMs,
        /// Awake time.
        pub awake: AwakeMs,
        /// The supervisor; for a command from another process that process.
        pub owner: Owner,
    }

    /// The goal's text.
    pub enum GoalSeen {
        /// There is none: the project is not armed.
        Absent,
        /// It has this digest.
        Present(Digest),
        /// Something has its name that is no goal: a folder, a link, too large. One sentence that says which.
        Unusable(String),
    }

    /// The repository.
    pub struct RepoSeen {
        /// The branch the user's checkout is on; none when its HEAD is detached.
        pub branch: Option<Branch>,
        /// The target's tip; before the target is known, the checkout's.
        pub tip: Option<Oid>,
        /// The remote's default branch, if any.
        pub remote_default: Option<Branch>,
        /// What keeps the user's checkout from following a merge.
        pub checkout: Checkout,
        /// False when the target lost the loop's last merge.
        pub contains_last_merge: bool,
    }

    /// The user's checkout.
    pub enum Checkout {
        /// Clean on the target, or on another branch: a merge does not disturb it.
        Free,
        /// On the target with tracked changes.
        Dirty {
            /// Some of the changed paths.
            paths: Vec<String>,
        },
        /// A merge, rebase or pick of a person is going on.
        Busy {
            /// What.
            what: String,
        },
    }

    /// Other projects of this user, read under the ledger's lock.
    #[derive(Copy, Default)]
    pub struct Others {
        /// Spent and set aside today.
        pub committed_today: UsdMicros,
        /// Worker slots that they have, and those that the host leaves to them.
        pub slots: u32,
    }

    /// A lease of another owner.
    pub struct OrphanSeen {
        /// The dispatch.
        pub dispatch: DispatchId,
        /// What is known of its processes.
        pub tree: ProcessTree,
        /// Whether its run record exists: without one nothing was started.
        pub run_record: bool,
        /// The ref that its uncommitted work was saved as.
        pub saved: Option<String>,
    }

    /// What is known of a dispatch's processes.
    #[derive(Copy)]
    pub enum ProcessTree {
        /// None of them lives: proven.
        Dead,
        /// Some live.
        Alive,
    }
}

/// One look has at most this many reports. The host keeps the rest for its next look.
pub const MAX_REPORTS: usize = crate::apply::MAX_UNATTRIBUTED;

/// The two clocks of one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Wall time.
    pub wall: WallMs,
    /// Awake time of the loop.
    pub active: ActiveMs,
}

impl Stamp {
    /// Reads this stamp against the state's anchor. Awake time of another boot does not compare with it: then
    /// the loop's time goes on from where it was last seen to move.
    #[must_use]
    pub fn now(&self, state: &LoopState) -> Now {
        let anchor = &state.clock;
        let comparable = anchor.awake.boot == self.awake.boot && self.awake.ms >= anchor.awake.ms;
        let active = if comparable {
            anchor.active.plus(self.awake.ms - anchor.awake.ms)
        } else {
            anchor.active.max(state.progress_at)
        };
        Now { wall: self.wall, active }
    }
}
