//! What a dead loop left unfinished is named: to the next worker, and in the question about its task.

use devloop_core::apply::apply_line;
use devloop_core::decide::{Input, decide};
use devloop_core::effect::{Effect, Job};
use devloop_core::observation::{OrphanSeen, ProcessTree};
use devloop_core::policy::Backend;
use devloop_core::question::open_questions;
use devloop_core::state::Op;
use devloop_core::tier::Risk;
use devloop_testkit::world::{World, planned, policy};

const SAVED: &str = "refs/devloop/orphan/";

/// A loop dies while a worker runs, and the next one finds what it left; as often as given.
fn died(times: u32) -> (World, Vec<Effect>) {
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy(Backend::Scripted));
    let mut effects = Vec::new();
    for _ in 0..times {
        let dispatch = loop {
            world.tick();
            let working = world.state.leases.iter().find(|(_, lease)| lease.op == Op::Work);
            if let Some((dispatch, _)) = working {
                break *dispatch;
            }
        };
        world.queue.clear();
        world.instance += 1;
        let saved = Some(format!("{SAVED}{dispatch}"));
        let mut seen = world.observe();
        seen.orphans = vec![OrphanSeen { dispatch, tree: ProcessTree::Dead, run_record: true, saved }];
        let input = Input::Observation(seen);
        loop {
            let decision = decide(&world.state, &world.policy, &input);
            if !decision.events.is_empty() {
                apply_line(&mut world.state, &decision.events).expect("fold");
            }
            effects.extend(decision.effects);
            if decision.reason.is_final() {
                break;
            }
        }
    }
    (world, effects)
}

#[test]
fn the_next_worker_is_told_where_the_unfinished_work_is() {
    let (_, effects) = died(1);
    let told = effects.iter().find_map(|effect| match effect {
        Effect::Dispatch { job: Job::Work { notes, .. }, .. } => Some(notes.clone()),
        _ => None,
    });
    assert_eq!(
        told.as_deref(),
        Some("What d2 left unfinished when its loop died is kept as refs/devloop/orphan/d2.")
    );
}

#[test]
fn the_question_about_dying_dispatches_names_every_ref() {
    let (world, _) = died(3);
    assert_eq!(world.holds(), ["task/a:orphans"]);
    let [question] = &open_questions(&world.state, &world.policy, world.instance)[..] else { panic!("one") };
    let evidence = question.evidence.join("\n");
    assert_eq!(evidence.matches(SAVED).count(), 3, "{evidence}");
}
