//! Goal edits, the target, the clocks, orphans and the policy: what is seen outside any report.

use devloop_core::observation::{Checkout, GoalSeen, Observation, OrphanSeen, ProcessTree};
use devloop_core::policy::{Acceptance, Backend};
use devloop_core::report::{CheckOutcome, Outcome, Report};
use devloop_core::state::{LoopState, Op};
use devloop_core::tier::Risk;
use devloop_core::units::{AwakeMs, DAY_MS, WallMs};
use devloop_testkit::world::{World, digest, planned, policy};

use crate::sheet::{Sheet, until};

fn night() -> World {
    let plan = vec![planned("a", &[], "a/**", Risk::Low), planned("b", &["a"], "b/**", Risk::Low)];
    World::new(plan, policy(Backend::Scripted))
}

pub fn write(sheet: &mut Sheet) {
    start(sheet);
    edits(sheet);
    target(sheet);
    base_checks(sheet);
    clocks(sheet);
    orphans(sheet);
    outside(sheet);
}

fn start(sheet: &mut Sheet) {
    let world = night();
    sheet.section("before the first goal", &world.state);
    let mut absent = world.observe();
    absent.goal = GoalSeen::Absent;
    sheet.tick("no goal file", &world.state, &world.policy, &absent);
    absent.goal = GoalSeen::Unusable("GOAL.md is a folder".into());
    sheet.tick("a folder in its place", &world.state, &world.policy, &absent);
    sheet.tick("a goal file", &world.state, &world.policy, &world.observe());
    for branch in ["main", "MASTER"] {
        let mut world = night();
        world.branch = branch;
        sheet.tick(&format!("a goal file, on {branch}"), &world.state, &world.policy, &world.observe());
    }
    let mut detached = world.observe();
    detached.repo.branch = None;
    sheet.tick("a goal file, on no branch", &world.state, &world.policy, &detached);
    let mut noop = night();
    noop.policy = policy(Backend::Noop);
    sheet.tick("a goal file, noop", &noop.state, &noop.policy, &noop.observe());
}

fn edits(sheet: &mut Sheet) {
    let mut world = night();
    until(&mut world, Op::Work);
    sheet.section("a works, the goal's text is edited", &world.state);
    let mut look = |sheet: &mut Sheet, name: &str, state: &LoopState, passed: u64, goal: GoalSeen| {
        world.wall += passed;
        let mut seen = world.observe();
        seen.goal = goal;
        sheet.tick(name, state, &world.policy, &seen)
    };
    let text = |n| GoalSeen::Present(digest(n));
    let state = world_state(&mut look, sheet);
    let once = look(sheet, "another text", &state, 2_000, text(8));
    look(sheet, "the file is gone", &once, 2_000, GoalSeen::Absent);
    look(sheet, "the old text again", &once, 1_000, text(7));
    let early = look(sheet, "the same text, too early", &once, 1_000, text(8));
    let asked = look(sheet, "the same text after 5 s", &early, 3_000, text(8));
    look(sheet, "the old text again, after the question", &asked, 1_000, text(7));
    let third = look(sheet, "a third text", &asked, 1_000, text(9));
    look(sheet, "the third text after 5 s", &third, 5_000, text(9));
    let strange = |why: &str| GoalSeen::Unusable(why.into());
    let folder = look(sheet, "a folder in its place", &state, 1_000, strange("GOAL.md is a folder"));
    look(sheet, "the folder again", &folder, 1_000, strange("GOAL.md is a folder"));
    let link = look(sheet, "a link in its place", &folder, 1_000, strange("GOAL.md is a symlink"));
    look(sheet, "no file at all", &link, 1_000, GoalSeen::Absent);
    look(sheet, "the text as it was", &link, 1_000, text(7));
    look(sheet, "a folder beside the question about another text", &asked, 1_000, strange("a folder"));
}

/// The state that the edits start from: one look at the text as it was planned for.
fn world_state(
    look: &mut impl FnMut(&mut Sheet, &str, &LoopState, u64, GoalSeen) -> LoopState,
    sheet: &mut Sheet,
) -> LoopState {
    let mut world = night();
    until(&mut world, Op::Work);
    look(sheet, "the text as it was planned for", &world.state, 0, GoalSeen::Present(digest(7)))
}

fn target(sheet: &mut Sheet) {
    let mut world = night();
    let report = until(&mut world, Op::Merge);
    let mut state = world.state.clone();
    state.target.last_merge = Some(devloop_testkit::world::oid(0xe0));
    sheet.section("a merge is refused, the target changes", &state);
    let outcome = Outcome::NotMerged {
        why: devloop_core::report::MergeFault::LostSwap,
        detail: "moved".into(),
        paths: vec![],
    };
    let look = |sheet: &mut Sheet, name: &str, change: &dyn Fn(&mut Observation)| {
        let mut seen = world.observe();
        seen.reports = vec![Report { outcome: outcome.clone(), ..report.clone() }];
        change(&mut seen);
        sheet.tick(name, &state, &world.policy, &seen)
    };
    look(sheet, "as it was", &|_| {});
    look(sheet, "gone", &|seen| seen.repo.tip = None);
    look(sheet, "lost the last merge", &|seen| seen.repo.contains_last_merge = false);
    look(sheet, "checkout dirty", &|seen| {
        seen.repo.checkout = Checkout::Dirty { paths: vec!["x".into()] };
    });
    look(sheet, "checkout in a merge", &|seen| seen.repo.checkout = Checkout::Busy { what: "merge".into() });
    look(sheet, "checkout on another branch", &|seen| {
        seen.repo.branch = devloop_core::ids::Branch::parse("other").ok();
    });
    look(sheet, "is the remote's default", &|seen| seen.repo.remote_default = seen.repo.branch.clone());
}

fn base_checks(sheet: &mut Sheet) {
    let mut world = night();
    world.policy.acceptance = Acceptance::Digest(digest(9));
    for _ in 0..20 {
        world.tick();
        if world.state.leases.values().any(|l| l.op == Op::Check) {
            break;
        }
    }
    let (dispatch, _) = world.state.leases.first_key_value().expect("a check of the base");
    let dispatch = *dispatch;
    sheet.section("the checks run on the base", &world.state);
    let red = |commands: &[&str]| CheckOutcome::Red {
        commands: commands.iter().map(ToString::to_string).collect(),
        output: "boom".into(),
    };
    for (name, outcome) in [
        ("green", CheckOutcome::Green),
        ("red", red(&["make test"])),
        ("could not start", CheckOutcome::Unavailable { detail: "no such program".into() }),
    ] {
        world.wall += 2_000;
        let mut seen = world.observe();
        let outcome = Outcome::Checked(outcome);
        seen.reports = vec![Report { dispatch, epoch: 1, usage: None, outcome }];
        sheet.tick(name, &world.state, &world.policy, &seen);
    }
}

fn clocks(sheet: &mut Sheet) {
    let mut world = night();
    until(&mut world, Op::Work);
    sheet.section("a works, the clocks move", &world.state);
    let (wall, awake) = (world.wall, world.stamp().awake);
    let midnight = (world.state.clock.day.0 + 1) * DAY_MS;
    let look = |sheet: &mut Sheet, name: &str, state: &LoopState, wall: u64, awake: AwakeMs| {
        let mut seen = world.observe();
        (seen.stamp.wall, seen.stamp.awake) = (WallMs(wall), awake);
        sheet.tick(name, state, &world.policy, &seen)
    };
    let state = world.state.clone();
    let later = |ms: u64| AwakeMs { ms: awake.ms + ms, ..awake };
    look(sheet, "2 s later", &state, wall + 2_000, later(2_000));
    look(sheet, "midnight, awake", &state, midnight, later(midnight - wall));
    look(sheet, "5 min ahead", &state, wall + 302_000, later(2_000));
    look(sheet, "a little more than 5 min ahead", &state, wall + 302_001, later(2_000));
    let slept = look(sheet, "asleep over midnight", &state, midnight + 1_000, later(2_000));
    look(sheet, "59 s after it", &slept, midnight + 60_000, later(61_000));
    look(sheet, "60 s after it", &slept, midnight + 61_000, later(62_000));
    let back = look(sheet, "a day back", &state, wall - DAY_MS, later(2_000));
    look(sheet, "back where it was", &back, wall + 4_000, later(4_000));
    look(sheet, "60 s after it went back", &back, wall - DAY_MS + 60_000, later(62_000));
    let booted = AwakeMs { boot: 2, ms: 10 };
    look(sheet, "another boot", &state, wall + 60_000, booted);
    let far = look(sheet, "another boot, the next day", &state, midnight + 60_000, booted);
    look(sheet, "60 s after it", &far, midnight + 120_000, AwakeMs { boot: 2, ms: 60_010 });
}

fn orphans(sheet: &mut Sheet) {
    for op in [Op::Work, Op::Review, Op::Plan, Op::Commit, Op::Merge] {
        let mut world = night();
        until(&mut world, op);
        let (dispatch, _) = world.state.leases.first_key_value().expect("a lease");
        let dispatch = *dispatch;
        sheet.section(&format!("another process finds a {}", op.key()), &world.state);
        world.instance += 1;
        for (name, tree, run_record) in [
            ("alive", ProcessTree::Alive, true),
            ("dead, was started", ProcessTree::Dead, true),
            ("dead, left something", ProcessTree::Dead, true),
            ("dead, was never started", ProcessTree::Dead, false),
        ] {
            let mut seen = world.observe();
            let left = name.ends_with("something") && op == Op::Work;
            let saved = left.then(|| format!("refs/devloop/orphan/{dispatch}"));
            let found = OrphanSeen { dispatch, tree, run_record, saved };
            seen.orphans = if op == Op::Commit || op == Op::Merge { vec![] } else { vec![found] };
            sheet.tick(name, &world.state, &world.policy, &seen);
            if seen.orphans.is_empty() {
                break;
            }
        }
    }
}

fn outside(sheet: &mut Sheet) {
    let mut world = night();
    until(&mut world, Op::Plan);
    world.queue.clear();
    let dispatch = *world.state.leases.keys().next().expect("a plan");
    sheet.section("planned, other projects are at work", &world.state);
    let look = |sheet: &mut Sheet, name: &str, change: &dyn Fn(&mut Observation)| {
        let mut seen = world.observe();
        let outcome = Outcome::Planned { tasks: world.plan.clone() };
        seen.reports = vec![Report { dispatch, epoch: 1, usage: None, outcome }];
        change(&mut seen);
        sheet.tick(name, &world.state, &world.policy, &seen);
    };
    look(sheet, "none are", &|_| {});
    look(sheet, "they took every slot", &|seen| seen.others.slots = 5);
    look(sheet, "they spent the shared money", &|seen| {
        seen.others.committed_today = devloop_core::units::UsdMicros(20_000_000);
    });
    let mut other = world.policy.clone();
    other.digest = digest(2);
    sheet.tick("another configuration", &world.state, &other, &world.observe());
    other.reviewer = devloop_testkit::world::key("work");
    let mut seen = world.observe();
    let outcome = Outcome::Planned { tasks: world.plan.clone() };
    seen.reports = vec![Report { dispatch, epoch: 1, usage: None, outcome }];
    sheet.tick("a reviewer that is the worker", &world.state, &other, &seen);
}
