//! Owns what happens to the world between two ticks: to its clocks, its goal, its policy, its repository, its
//! disk, its neighbours and its processes. Every trouble has a name, which is counted.

use devloop_core::ids::{Branch, Oid};
use devloop_core::observation::{Checkout, Others};
use devloop_core::units::UsdMicros;

use super::audit::{Broken, Kept};
use super::{World, repo, rules};

type Trouble = fn(&mut World) -> Kept;

/// Every trouble with its name.
const TROUBLES: &[(&str, Trouble)] = &[
    ("suspend", suspend),
    ("clock_set", clock_set),
    ("midnight", midnight),
    ("reboot", reboot),
    ("killed_at_rest", killed),
    ("goal_edited", goal_edited),
    ("goal_text_returned", goal_returned),
    ("goal_missing", goal_missing),
    ("goal_unusable", goal_unusable),
    ("policy_changed", policy_changed),
    ("person_commits", person_commits),
    ("person_merges_the_task", person_merges),
    ("target_rewound", target_rewound),
    ("target_deleted", target_deleted),
    ("switched_branch", switched),
    ("detached", detached),
    ("checkout_dirty", dirty),
    ("checkout_busy", busy),
    ("checkout_clean", clean),
    ("disk_low", disk_low),
    ("disk_freed", disk_freed),
    ("others_busy", others_busy),
    ("others_gone", others_gone),
    ("second_supervisor", second_supervisor),
    ("remote_default", remote_default),
    ("journal_spoiled", spoiled),
];

impl World {
    /// Something happens.
    ///
    /// # Errors
    /// A broken promise.
    pub(super) fn trouble(&mut self) -> Kept {
        let (name, happens) = self.draw.pick(TROUBLES);
        self.happened(name);
        happens(self)
    }

    /// People put one thing after the other in order again.
    pub(super) fn mend(&mut self) {
        if self.goal_unusable {
            self.goal_unusable = false;
        } else if self.goal.is_none() {
            self.goal = Some(0);
        } else if self.repo.checkout != Checkout::Free {
            self.repo.checkout = Checkout::Free;
        } else if self.free_disk < 1 << 30 {
            self.free_disk = 1 << 40;
        } else {
            self.others = Others::default();
        }
    }

    fn target(&self) -> Option<Branch> {
        let own = self.audit.shadow.target.branch.clone();
        own.or_else(|| self.repo.head.as_ref().and_then(|name| Branch::parse(name).ok()))
    }
}

fn suspend(world: &mut World) -> Kept {
    let ms = world.draw.pick(&[600_000, 60_000, 28_800_000]);
    world.time.suspend(ms);
    Ok(())
}

fn clock_set(world: &mut World) -> Kept {
    let forward = world.draw.odd(500);
    let ms = world.draw.pick(&[400_000, 90_000_000, 3_000]);
    world.time.set(forward, ms);
    Ok(())
}

fn midnight(world: &mut World) -> Kept {
    let wall = world.time.wall();
    let ahead = wall.day().next_midnight().since(wall);
    let over = world.draw.pick(&[1_000, 0, 61_000]);
    world.time.pass(ahead + over);
    Ok(())
}

fn reboot(world: &mut World) -> Kept {
    world.die(true);
    Ok(())
}

fn killed(world: &mut World) -> Kept {
    world.die(false);
    Ok(())
}

fn goal_edited(world: &mut World) -> Kept {
    world.goal = Some(1 + world.draw.below(2));
    Ok(())
}

fn goal_returned(world: &mut World) -> Kept {
    world.goal = Some(0);
    Ok(())
}

fn goal_missing(world: &mut World) -> Kept {
    world.goal = None;
    Ok(())
}

fn goal_unusable(world: &mut World) -> Kept {
    world.goal_unusable = true;
    Ok(())
}

fn policy_changed(world: &mut World) -> Kept {
    world.policy = rules::changed(&mut world.draw, &world.policy);
    Ok(())
}

fn person_commits(world: &mut World) -> Kept {
    if let Some(target) = world.target() {
        world.repo.person_commits(&target, None);
    }
    Ok(())
}

fn person_merges(world: &mut World) -> Kept {
    let tips: Vec<Oid> = world.audit.shadow.tasks.iter().filter_map(|task| task.tip.clone()).collect();
    if let (Some(target), false) = (world.target(), tips.is_empty()) {
        let head = world.draw.pick(&tips);
        if !world.repo.contains(Some(&target), &head) {
            world.repo.person_commits(&target, Some(head));
        }
    }
    Ok(())
}

fn target_rewound(world: &mut World) -> Kept {
    if let Some(target) = world.target() {
        let by = world.draw.pick(&[1, 2, 5]);
        world.repo.person_rewinds(&target, by);
    }
    Ok(())
}

fn target_deleted(world: &mut World) -> Kept {
    if let Some(target) = world.target() {
        world.repo.person_switches(repo::HOME);
        world.repo.person_deletes(&target);
    }
    Ok(())
}

fn switched(world: &mut World) -> Kept {
    let target = world.target().map(|branch| branch.as_str().to_string());
    let name = world.draw.pick(&[target.unwrap_or_else(|| repo::HOME.into()), "feature/x".into()]);
    world.repo.person_switches(&name);
    Ok(())
}

fn detached(world: &mut World) -> Kept {
    world.repo.head = None;
    Ok(())
}

fn dirty(world: &mut World) -> Kept {
    world.repo.checkout = Checkout::Dirty { paths: vec!["src/lib.rs".into()] };
    Ok(())
}

fn busy(world: &mut World) -> Kept {
    world.repo.checkout = Checkout::Busy { what: "rebase".into() };
    Ok(())
}

fn clean(world: &mut World) -> Kept {
    world.repo.checkout = Checkout::Free;
    Ok(())
}

fn disk_low(world: &mut World) -> Kept {
    world.free_disk = 1 << 20;
    Ok(())
}

fn disk_freed(world: &mut World) -> Kept {
    world.free_disk = 1 << 40;
    Ok(())
}

fn others_busy(world: &mut World) -> Kept {
    let committed_today = UsdMicros(world.draw.pick(&[100_000, 0, 50_000_000, 2_000_000_000]));
    let slots = world.draw.pick(&[0, 4, 5]);
    world.others = Others { committed_today, slots };
    Ok(())
}

fn others_gone(world: &mut World) -> Kept {
    world.others = Others::default();
    Ok(())
}

/// OWNER is held for life: a second supervisor finds it taken and changes nothing.
fn second_supervisor(world: &mut World) -> Kept {
    if world.me.is_none() {
        return world.rise();
    }
    Ok(())
}

fn remote_default(world: &mut World) -> Kept {
    let name = world.draw.pick(&["develop", repo::HOME, "main"]);
    world.repo.remote_default = Branch::parse(name).ok();
    Ok(())
}

/// I12: a journal that was changed by something else is not believed, and nothing is written until it is
/// mended.
fn spoiled(world: &mut World) -> Kept {
    let at = usize::try_from(world.draw.below(4_000)).unwrap_or(0);
    let Some(was) = world.disk.spoil(at) else { return Ok(()) };
    let believed = world.disk.replay().is_ok();
    world.disk.mend(was);
    if believed {
        return Err(Broken::new("I12", format!("a changed byte {at} of the last line is believed")));
    }
    Ok(())
}
