//! Every phase with every wish that is no answer.

use devloop_core::command::{TaskEdit, Wish};
use devloop_core::ids::TaskId;
use devloop_core::policy::{Backend, HighRisk};
use devloop_core::report::Outcome;
use devloop_core::state::Op;
use devloop_core::tier::{Risk, Tier};
use devloop_testkit::world::{World, planned, policy, task_of};

use crate::sheet::{Sheet, until, wish};

fn night() -> World {
    let plan = vec![planned("a", &[], "a/**", Risk::Low), planned("b", &["a"], "b/**", Risk::Low)];
    World::new(plan, policy(Backend::Scripted))
}

fn id(text: &str) -> TaskId {
    TaskId::parse(text).expect("id")
}

fn wishes() -> Vec<(&'static str, Wish)> {
    let edit = |task: &str, edit: TaskEdit| Wish::Edit { task: id(task), edit };
    let paths = |glob: &str| TaskEdit { allowed_paths: Some(vec![glob.into()]), ..TaskEdit::default() };
    vec![
        ("pause", Wish::Pause { now: false }),
        ("pause --now", Wish::Pause { now: true }),
        ("resume", Wish::Resume { task: None, reset_cost: false }),
        ("resume --task a", Wish::Resume { task: Some(id("a")), reset_cost: false }),
        ("resume --task b", Wish::Resume { task: Some(id("b")), reset_cost: false }),
        ("resume --task z", Wish::Resume { task: Some(id("z")), reset_cost: false }),
        ("resume --reset-cost", Wish::Resume { task: None, reset_cost: true }),
        ("task edit a --paths", edit("a", paths("lib/**"))),
        ("task edit b --paths", edit("b", paths("lib/**"))),
        ("task edit b, outside", edit("b", paths("../x"))),
        ("task edit b, nothing", edit("b", TaskEdit::default())),
        ("task edit b --tier T2", edit("b", TaskEdit { tier: Some(Tier::T2), ..TaskEdit::default() })),
        ("task edit b --risk high", edit("b", TaskEdit { risk: Some(Risk::High), ..TaskEdit::default() })),
        ("task edit z", edit("z", paths("lib/**"))),
        ("next", Wish::NextGoal),
    ]
}

fn section(sheet: &mut Sheet, title: &str, world: &World) {
    sheet.section(title, &world.state);
    for (name, wanted) in wishes() {
        sheet.row(name, &world.state, &world.policy, &wish(world, wanted));
    }
}

pub fn write(sheet: &mut Sheet) {
    section(sheet, "before the first goal", &night());
    let mut working = night();
    until(&mut working, Op::Work);
    section(sheet, "a is worked on", &working);
    working.say(Wish::Pause { now: false });
    section(sheet, "paused, a is still worked on", &working);
    drained(sheet, &mut working);
    let mut passed = night();
    until(&mut passed, Op::Merge);
    section(sheet, "a is being merged", &passed);
    let mut held = night();
    held.script =
        Box::new(|effect, _| task_of(effect).map(|_| Outcome::WorkBlocked { summary: "no key".into() }));
    held.run();
    section(sheet, "a is held", &held);
    let mut done = night();
    done.run();
    section(sheet, "complete", &done);
    let look = done.observe();
    sheet.tick("another look", &done.state, &done.policy, &look);
    risky(sheet);
}

/// A pause drains: what runs is settled and its change committed, nothing new starts.
fn drained(sheet: &mut Sheet, world: &mut World) {
    let (dispatch, lease) = world.state.leases.first_key_value().expect("a work");
    let outcome = Outcome::Worked { summary: String::new() };
    let report =
        devloop_core::report::Report { dispatch: *dispatch, epoch: lease.epoch, usage: None, outcome };
    let mut seen = world.observe();
    seen.reports = vec![report];
    let state = sheet.tick("paused, a worked", &world.state, &world.policy, &seen);
    let (dispatch, lease) = state.leases.first_key_value().expect("a commit");
    let outcome = Outcome::Committed { head: devloop_testkit::world::oid(0xc1) };
    seen.reports =
        vec![devloop_core::report::Report { dispatch: *dispatch, epoch: lease.epoch, usage: None, outcome }];
    sheet.tick("paused, its change is committed", &state, &world.policy, &seen);
}

/// A task of high risk under both rules.
fn risky(sheet: &mut Sheet) {
    for rule in [HighRisk::HoldBeforeMerge, HighRisk::HoldBeforeWork] {
        let mut world = World::new(vec![planned("a", &[], "a/**", Risk::High)], policy(Backend::Scripted));
        world.policy.high_risk = rule;
        until(&mut world, Op::Plan);
        let dispatch = *world.state.leases.keys().next().expect("a plan");
        sheet.section(&format!("a plan of high risk, {rule:?}"), &world.state);
        let outcome = Outcome::Planned { tasks: world.plan.clone() };
        let mut seen = world.observe();
        seen.reports = vec![devloop_core::report::Report { dispatch, epoch: 1, usage: None, outcome }];
        sheet.tick("planned", &world.state, &world.policy, &seen);
    }
}
