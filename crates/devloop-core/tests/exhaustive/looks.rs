//! Owns the ways the world can look when no report comes in: goal text, target, checkout, owners and orphans,
//! clocks.

use devloop_core::ids::Branch;
use devloop_core::observation::{GoalSeen, Observation, OrphanSeen, ProcessTree};
use devloop_core::policy::Backend;
use devloop_core::state::{Owner, PendingDigest};
use devloop_core::units::{ActiveMs, DAY_MS, WallMs};
use devloop_testkit::world::digest;

use super::every::{checkouts, every, units};
use super::scene::{ACTIVE, RUNNING, Scene, WALL};

/// The scene as it is, and with one thing of the world or of the state's memory of it changed.
pub fn looks(scene: &Scene) -> Vec<Scene> {
    let mut all = vec![scene.clone()];
    let mut look = |change: &dyn Fn(&mut Scene)| {
        let mut changed = scene.clone();
        change(&mut changed);
        all.push(changed);
    };
    for goal in goals() {
        look(&|s| s.seen.goal = goal.clone());
        // The same, after another text was seen a while ago.
        look(&|s| {
            s.seen.goal = goal.clone();
            s.state.goal.pending =
                Some(PendingDigest { digest: digest(8), seen_at: ActiveMs(ACTIVE - 9_000) });
        });
    }
    for checkout in checkouts() {
        look(&|s| s.seen.repo.checkout = checkout.clone());
    }
    for branch in [None, Some("main"), Some("devloop/goal-1"), Some("side")] {
        let branch = branch.and_then(|name| Branch::parse(name).ok());
        look(&|s| s.seen.repo.branch = branch.clone());
        look(&|s| s.state.target.branch = branch.clone());
        look(&|s| (s.state.target.branch, s.seen.repo.tip) = (branch.clone(), None));
    }
    look(&|s| {
        s.state.target.last_merge = s.seen.repo.tip.clone();
        s.seen.repo.contains_last_merge = false;
    });
    for (dispatch, tree, run_record) in orphans() {
        let orphan = OrphanSeen { dispatch, tree, run_record, saved: None };
        look(&|s| {
            s.seen.stamp.owner = Owner { instance: 5, ..s.seen.stamp.owner.clone() };
            s.seen.orphans = vec![orphan.clone()];
        });
    }
    for clock in clocks(&scene.seen) {
        look(&|s| s.seen = clock.clone());
    }
    look(&|s| s.policy.digest = digest(9));
    look(&|s| s.policy.routes.values_mut().for_each(|route| route.backend = Backend::Noop));
    all
}

fn goals() -> Vec<GoalSeen> {
    every!(GoalSeen {
        GoalSeen::Absent => [GoalSeen::Absent],
        GoalSeen::Unusable(_) => ["is a folder", "is too large"].map(|why| GoalSeen::Unusable(why.into())),
        GoalSeen::Present(_) => [7, 8, 9].map(|n| GoalSeen::Present(digest(n))),
    })
}

fn orphans() -> Vec<(devloop_core::ids::DispatchId, ProcessTree, bool)> {
    let trees = units!(ProcessTree: Dead, Alive).into_iter();
    trees.flat_map(|tree| [(RUNNING, tree, false), (RUNNING, tree, true)]).collect()
}

/// Time passes, jumps ahead and back, over midnight and over a start of the machine.
fn clocks(seen: &Observation) -> Vec<Observation> {
    let at = |wall: u64, boot: u64, ms: u64| {
        let mut seen = seen.clone();
        seen.stamp.wall = WallMs(wall);
        (seen.stamp.awake.boot, seen.stamp.awake.ms) = (boot, ms);
        seen
    };
    let (boot, ms) = (seen.stamp.awake.boot, seen.stamp.awake.ms);
    vec![
        at(WALL + DAY_MS, boot, ms + DAY_MS),
        at(WALL + DAY_MS, boot, ms + 1_000),
        at(WALL - DAY_MS, boot, ms + 1_000),
        at(WALL + 1_000, boot + 1, 5),
        at(WALL + 1_000, boot, ms - 5),
        at(0, boot, ms),
        at((1 << 53) - 1, boot, (1 << 53) - 1),
    ]
}
