//! Every circuit one below its limit and at it: what is decided next.

use devloop_core::answer::Answer;
use devloop_core::circuit::{Circuit, TABLE};
use devloop_core::command::Wish;
use devloop_core::ids::TaskId;
use devloop_core::ledger::{Certainty, Entry};
use devloop_core::policy::{Backend, Policy};
use devloop_core::report::{Outcome, Report};
use devloop_core::review::{Review, Verdict};
use devloop_core::state::{LoopState, Op};
use devloop_core::task::{Repeats, Stage, Task};
use devloop_core::tier::Risk;
use devloop_core::units::{DAY_MS, UsdMicros};
use devloop_testkit::world::{World, oid, planned, policy};

use crate::sheet::{Sheet, change, until, wish};

/// The night before something starts.
struct Scene {
    world: World,
    op: Op,
}

fn task(state: &LoopState) -> &Task {
    state.tasks.get(&TaskId::parse("a").expect("id")).expect("a")
}

/// Task `a` is to be worked on again, or waits for its review: nothing runs.
fn scene(op: Op) -> Scene {
    let plan = vec![planned("a", &[], "a/**", Risk::Low)];
    let mut world = World::new(plan, policy(Backend::Scripted));
    if op == Op::Plan {
        world.tick();
        world.queue.clear();
        world.state.leases.clear();
        world.state.ledger.entries.clear();
        world.state.planning = devloop_core::state::Planning::Wanted { replaces: None };
        world.state.plan_counters = Default::default();
        return Scene { world, op };
    }
    until(&mut world, Op::Review);
    world.queue.clear();
    world.state.leases.clear();
    world.state.ledger.entries.change_all(|e| e.certainty = Certainty::Measured);
    let head = task(&world.state).tip.clone().expect("a commit");
    change(&mut world.state, "a", |task| {
        task.counters = Default::default();
        task.stage = match op {
            Op::Work => Stage::Rework { notes: "mend it".into() },
            _ => Stage::AwaitingReview { head: head.clone() },
        };
    });
    Scene { world, op }
}

/// Money that is spent, so that exactly `left` remains of the cap.
fn spend(state: &mut LoopState, amount: u64) {
    state.ledger.entries.change_all(|entry| entry.amount = UsdMicros(0));
    if let Some((dispatch, entry)) = state.ledger.entries.iter().next().map(|(d, e)| (*d, e.clone())) {
        let lineage = TaskId::parse("a").ok();
        state.ledger.entries.insert(dispatch, Entry { amount: UsdMicros(amount), lineage, ..entry });
    }
}

/// Sets the circuit to `used` of a limit of three.
fn set(circuit: Circuit, used: u32, state: &mut LoopState, policy: &mut Policy) {
    let limits = &mut policy.limits;
    let dollars = |n: u32| u64::from(n) * 100_000;
    let count = |state: &mut LoopState, set: &dyn Fn(&mut Task)| change(state, "a", set);
    match circuit {
        Circuit::MaxTaskAttempts => count(state, &|t| t.counters.attempts = used),
        Circuit::MaxReviewCycles => {
            limits.review_cycles = 3;
            count(state, &|t| t.counters.review_cycles = used);
        }
        Circuit::DispatchRefused => {
            limits.refusals = 3;
            count(state, &|t| t.counters.refusals = used);
        }
        Circuit::Orphans => count(state, &|t| t.counters.orphans = used),
        Circuit::TaskTimeout => {
            (limits.lifetime_minutes, limits.dispatch_minutes, limits.task_attempts) = (3, 1, 3);
            count(state, &|t| t.counters.busy_ms = u64::from(used) * 60_000);
        }
        Circuit::DuplicateAction => {
            let basis = devloop_core::basis::Basis::of_task(state, policy, task(state));
            count(state, &|t| {
                t.counters.repeats = Some(Repeats { op: Op::Work, basis: basis.clone(), count: used });
            });
        }
        Circuit::MaxTokensPerTask => {
            limits.tokens_per_task = 3;
            spend(state, 0);
            let first = state.ledger.entries.keys().next().copied();
            first.map(|dispatch| {
                state.ledger.entries.change(&dispatch, |entry| entry.tokens.output = u64::from(used))
            });
        }
        // A dispatch sets 0.10 aside: it fits once more below the limit.
        Circuit::TaskCostCap => {
            limits.cost_task = Some(UsdMicros(dollars(3)));
            spend(state, dollars(used));
        }
        Circuit::SessionCostCap => {
            limits.cost_session = UsdMicros(dollars(3));
            spend(state, dollars(used));
        }
        Circuit::GoalCostCap => {
            limits.cost_goal = Some(UsdMicros(dollars(3)));
            spend(state, dollars(used));
        }
        Circuit::DailyCostCap => {
            limits.cost_day = UsdMicros(dollars(3));
            spend(state, dollars(used));
        }
        Circuit::AllProjectsDailyCap => {
            limits.cost_day_all_projects = UsdMicros(dollars(3));
            spend(state, dollars(used));
        }
        Circuit::PlanAttempts => state.plan_counters.attempts = used,
        Circuit::PlanRefusals => {
            limits.plan_refusals = 3;
            state.plan_counters.refusals = used;
        }
        Circuit::DispatchDeadline
        | Circuit::NoProgress
        | Circuit::MaxParallelWorkers
        | Circuit::MaxParallelPerProject
        | Circuit::Refreshes
        | Circuit::Replans
        | Circuit::DiskLow => {}
    }
}

pub fn write(sheet: &mut Sheet) {
    for row in TABLE {
        let op = match row.circuit {
            Circuit::PlanAttempts | Circuit::PlanRefusals => Op::Plan,
            Circuit::MaxReviewCycles => Op::Review,
            _ => Op::Work,
        };
        let Scene { mut world, op } = scene(op);
        world.wall += 600_000;
        sheet.section(&format!("{} before a {}", row.key, op.key()), &world.state);
        match row.circuit {
            Circuit::DispatchDeadline => deadline(sheet),
            Circuit::NoProgress => no_progress(sheet),
            Circuit::MaxParallelPerProject => slots(sheet),
            Circuit::MaxParallelWorkers | Circuit::DiskLow => around(sheet, row.circuit, world),
            // Counted where a report settles: see the table of reports.
            Circuit::Refreshes | Circuit::Replans => at_settlement(sheet, row.circuit),
            circuit => {
                for used in [2, 3] {
                    let (mut state, mut policy) = (world.state.clone(), world.policy.clone());
                    set(circuit, used, &mut state, &mut policy);
                    sheet.tick(&format!("{used} of 3 used"), &state, &policy, &world.observe());
                }
            }
        }
    }
    after_a_weekend(sheet);
}

/// A question that is answered days later: the time that a task waits for a person is not its lifetime.
fn after_a_weekend(sheet: &mut Sheet) {
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy(Backend::Scripted));
    let report = until(&mut world, Op::Review);
    let notes = "looked at something else".into();
    let review = Review { notes, ..Review::bare(Verdict::Pass, oid(77)) };
    let mut seen = world.observe();
    seen.reports = vec![Report { outcome: Outcome::Reviewed(review), ..report }];
    let asked = sheet.tick("a review of another commit", &world.state, &world.policy, &seen);
    world.wall += 3 * DAY_MS;
    let wanted = Wish::Answer { answer: Answer::Review, hold: None, revision: None };
    let answered = sheet.row("review, three days later", &asked, &world.policy, &wish(&world, wanted));
    world.wall += 2_000;
    sheet.then(&answered, &world.policy, &world.observe());
}

/// Circuits on what is seen outside.
fn around(sheet: &mut Sheet, circuit: Circuit, mut world: World) {
    world.policy.limits.parallel_process = 3;
    for used in [2, 3] {
        let mut seen = world.observe();
        match circuit {
            Circuit::MaxParallelWorkers => seen.others.slots = used,
            _ => seen.free_disk_bytes = (1 << 30) - u64::from(used / 3),
        }
        sheet.tick(&format!("{used} of 3 used"), &world.state, &world.policy, &seen);
    }
}

fn slots(sheet: &mut Sheet) {
    let plan = vec![planned("a", &[], "a/**", Risk::Low), planned("b", &[], "b/**", Risk::Low)];
    let mut world = World::new(plan, policy(Backend::Scripted));
    world.policy.limits.parallel_project = 1;
    until(&mut world, Op::Work);
    sheet.section("a works, b could", &world.state);
    for slots in [2, 1] {
        world.policy.limits.parallel_project = slots;
        sheet.tick(&format!("1 of {slots} used"), &world.state, &world.policy, &world.observe());
    }
    world.policy.limits.parallel_project = 3;
    world.policy.limits.parallel_process = 2;
    for left in [1, 0] {
        let mut seen = world.observe();
        seen.others.slots = left;
        let name = format!("1 of 2 of the process used, {left} of others or left to them");
        sheet.tick(&name, &world.state, &world.policy, &seen);
    }
}

fn deadline(sheet: &mut Sheet) {
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy(Backend::Scripted));
    until(&mut world, Op::Work);
    let start = world.wall;
    for passed in [45 * 60_000 - 1, 45 * 60_000] {
        world.wall = start + passed;
        sheet.tick(&format!("{passed} ms after its start"), &world.state, &world.policy, &world.observe());
    }
}

fn no_progress(sheet: &mut Sheet) {
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy(Backend::Scripted));
    let report = until(&mut world, Op::Review);
    let head = task(&world.state).tip.clone().expect("a commit");
    let outcome = devloop_testkit::world::verdict(devloop_core::review::Verdict::Pass, &head, "");
    let dirty = devloop_core::observation::Checkout::Dirty { paths: vec!["README.md".into()] };
    let mut seen = world.observe();
    seen.reports = vec![devloop_core::report::Report { outcome, ..report }];
    seen.repo.checkout = dirty.clone();
    let mut state = sheet.tick("passed while the checkout is dirty", &world.state, &world.policy, &seen);
    let start = world.wall;
    for passed in [15 * 60_000 - 1, 15 * 60_000] {
        world.wall = start + passed;
        let mut seen = world.observe();
        seen.repo.checkout = dirty.clone();
        state = sheet.tick(&format!("still dirty {passed} ms later"), &state, &world.policy, &seen);
    }
    sheet.tick("clean again", &state, &world.policy, &world.observe());
}

fn at_settlement(sheet: &mut Sheet, circuit: Circuit) {
    use devloop_core::report::MergeFault;
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy(Backend::Scripted));
    world.policy.limits.replans = 3;
    let op = if circuit == Circuit::Refreshes { Op::Merge } else { Op::Review };
    let report = until(&mut world, op);
    let head = task(&world.state).tip.clone().expect("a commit");
    for used in [2, 3] {
        let mut state = world.state.clone();
        change(&mut state, "a", |task| match circuit {
            Circuit::Refreshes => task.counters.refreshes = used,
            _ => task.counters.replans = used,
        });
        let outcome = match circuit {
            Circuit::Refreshes => {
                let (why, detail) = (MergeFault::Overlap, "moved".into());
                Outcome::NotMerged { why, detail, paths: vec!["a/x".into()] }
            }
            _ => {
                let verdict = devloop_core::review::Verdict::Replan;
                devloop_testkit::world::verdict(verdict, &head, "wrong task")
            }
        };
        let mut seen = world.observe();
        seen.reports = vec![Report { outcome, ..report.clone() }];
        sheet.tick(&format!("{used} of 3 used"), &state, &world.policy, &seen);
    }
}
