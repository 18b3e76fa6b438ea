//! Loops of any size, built by a small night of the core's own and filled up with tasks like its own. It
//! measures nothing.

use devloop_bridge::Step;
use devloop_core::apply::apply_line;
use devloop_core::decide::{Input, decide};
use devloop_core::event::Event;
use devloop_core::ids::TaskId;
use devloop_core::plan::PlannedTask;
use devloop_core::policy::Backend;
use devloop_core::reason::{Reason, WaitWhy};
use devloop_core::state::LoopState;
use devloop_core::task::{Stage, Task};
use devloop_core::tier::Risk;
use devloop_testkit::world::{World, planned, policy};
use devloop_wire::{policy_doc, state_doc};

use crate::Outcome;

/// Tasks of the night that every loop starts from.
const NIGHT: usize = 20;
/// Tasks that are done before the loop is measured.
const DONE: usize = 5;

/// A loop in the middle of its night, and what follows from there.
pub struct Ground {
    /// The state, as a document.
    pub state: Vec<u8>,
    /// The policy, as a document.
    pub policy: Vec<u8>,
    /// An observation on which there is nothing to do but wait for running workers.
    pub wait: Input,
    /// The journal lines of the next ticks.
    pub lines: Vec<Vec<Event>>,
    /// The decisions of the next ticks, to be made anew.
    pub steps: Vec<Step>,
}

/// Twenty tasks of which some are done and some run.
fn night() -> World {
    let plan: Vec<PlannedTask> =
        (0..NIGHT).map(|i| planned(&format!("t{i}"), &[], &format!("t{i}/**"), Risk::Low)).collect();
    let mut world = World::new(plan, policy(Backend::Scripted));
    while done(&world.state) < DONE {
        world.tick();
    }
    world
}

fn done(state: &LoopState) -> usize {
    state.tasks.iter().filter(|task| matches!(task.stage, Stage::Done(_))).count()
}

/// Fills a state up to `size` tasks: nine of ten are done as those before them, the others wait for a slot.
pub fn fill(state: &mut LoopState, size: usize) -> Outcome<()> {
    let like = |wanted: fn(&Stage) -> bool| state.tasks.iter().find(|task| wanted(&task.stage)).cloned();
    let finished = like(|stage| matches!(stage, Stage::Done(_))).ok_or("no task is done")?;
    let ready = like(|stage| matches!(stage, Stage::Ready)).ok_or("no task is ready")?;
    for number in state.tasks.len()..size {
        let pattern = if number % 10 == 0 { &ready } else { &finished };
        let id = TaskId::parse(&format!("more-{number}"))?;
        let paths = vec![format!("more-{number}/**")];
        let task = Task { lineage: id.clone(), id, allowed_paths: paths, ..pattern.clone() };
        state.tasks.push(task).map_err(|twice| twice.to_string())?;
    }
    Ok(())
}

impl Ground {
    /// With `size` tasks and about `lines` journal lines to follow.
    pub fn new(size: usize, lines: usize) -> Outcome<Ground> {
        let mut world = night();
        fill(&mut world.state, size)?;
        let state = state_doc::write(&world.state);
        let reports = std::mem::take(&mut world.queue);
        let wait = Input::Observation(world.observe());
        let quiet = decide(&world.state, &world.policy, &wait);
        if !matches!(quiet.reason, Reason::Wait { why: WaitWhy::Lease, .. }) || !quiet.events.is_empty() {
            return Err(format!("the observation does not end in a wait: {quiet:?}").into());
        }
        world.queue = reports;
        let policy = policy_doc::policy_bytes(&world.policy);
        let mut ground = Ground { state, policy, wait, lines: Vec::new(), steps: Vec::new() };
        while ground.lines.len() < lines {
            ground.follow(&mut world)?;
        }
        Ok(ground)
    }

    /// One tick of the night, written down.
    fn follow(&mut self, world: &mut World) -> Outcome<()> {
        world.wall += 2_000;
        let input = Input::Observation(world.observe());
        let mut effects = Vec::new();
        loop {
            let decision = decide(&world.state, &world.policy, &input);
            self.steps.push(Step::Decide(input.clone()));
            effects.extend(decision.effects);
            if !decision.events.is_empty() {
                apply_line(&mut world.state, &decision.events).map_err(|misfit| misfit.to_string())?;
                self.lines.push(decision.events);
            }
            if decision.reason.is_final() {
                break;
            }
        }
        world.queue.clear();
        effects.iter().for_each(|effect| world.perform(effect));
        if world.queue.is_empty() { Err("the night ended too early".into()) } else { Ok(()) }
    }
}
