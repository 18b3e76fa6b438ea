//! Loops of any size, built by a small night of the core's own and filled up with tasks like its own. It
//! measures nothing.

use devloop_bridge::Step;
use devloop_core::apply::apply_line;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Decision, Input, decide};
use devloop_core::effect::Effect;
use devloop_core::event::Event;
use devloop_core::ids::{DispatchId, TaskId};
use devloop_core::ledger::Entry;
use devloop_core::plan::PlannedTask;
use devloop_core::policy::Backend;
use devloop_core::reason::{Reason, WaitWhy};
use devloop_core::state::{LoopState, Phase};
use devloop_core::task::{Stage, Task};
use devloop_core::tier::Risk;
use devloop_core::units::UsdMicros;
use devloop_testkit::world::{World, planned, policy};
use devloop_wire::{policy_doc, state_doc};

use crate::Outcome;

/// Tasks of the night that every loop starts from, at most.
const NIGHT: usize = 20;
/// The part of them that is done before the loop is measured.
const DONE: usize = 4;
/// Money that no cap of a measured loop runs out of.
const ENOUGH: UsdMicros = UsdMicros(1 << 50);
const DAY_MS: u64 = 86_400_000;

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

/// A few tasks of which some are done and some run.
fn night(tasks: usize) -> World {
    let plan: Vec<PlannedTask> =
        (0..tasks).map(|i| planned(&format!("t{i}"), &[], &format!("t{i}/**"), Risk::Low)).collect();
    let mut rules = policy(Backend::Scripted);
    let limits = &mut rules.limits;
    (limits.cost_day, limits.cost_day_all_projects, limits.cost_session) = (ENOUGH, ENOUGH, ENOUGH);
    let mut world = World::new(plan, rules);
    while done(&world.state) < tasks / DONE {
        world.tick();
    }
    world
}

fn done(state: &LoopState) -> usize {
    state.tasks.iter().filter(|task| matches!(task.stage, Stage::Done(_))).count()
}

/// Fills a state up to `size` tasks: nine of ten are done as those before them, with what they cost in the
/// ledger; the others wait for a slot.
pub fn fill(state: &mut LoopState, size: usize) -> Outcome<()> {
    if state.tasks.len() >= size {
        return Ok(());
    }
    let like = |wanted: fn(&Stage) -> bool| state.tasks.iter().find(|task| wanted(&task.stage)).cloned();
    let finished = like(|stage| matches!(stage, Stage::Done(_))).ok_or("no task is done")?;
    let ready = like(|stage| matches!(stage, Stage::Ready)).ok_or("no task is ready")?;
    let of_finished = |entry: &&Entry| entry.lineage.as_ref() == Some(&finished.lineage);
    let booked: Vec<Entry> = state.ledger.entries.values().filter(of_finished).cloned().collect();
    for number in state.tasks.len()..size {
        let pattern = if number % 10 == 0 { &ready } else { &finished };
        let id = TaskId::parse(&format!("more-{number}"))?;
        let paths = vec![format!("more-{number}/**")];
        if matches!(pattern.stage, Stage::Done(_)) {
            for entry in &booked {
                let dispatch = DispatchId(state.next_dispatch);
                state.next_dispatch += 1;
                state.ledger.entries.insert(dispatch, Entry { lineage: Some(id.clone()), ..entry.clone() });
            }
        }
        let task = Task { lineage: id.clone(), id, allowed_paths: paths, ..pattern.clone() };
        state.tasks.push(task).map_err(|twice| twice.to_string())?;
    }
    Ok(())
}

impl Ground {
    /// With `size` tasks and about `lines` journal lines to follow.
    pub fn new(size: usize, lines: usize) -> Outcome<Ground> {
        let mut world = night(size.min(NIGHT));
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
            match world.state.phase {
                Phase::Complete { .. } => ground.next(&mut world)?,
                _ => ground.follow(&mut world)?,
            }
        }
        Ok(ground)
    }

    /// One tick of the night, written down.
    fn follow(&mut self, world: &mut World) -> Outcome<()> {
        world.wall += 2_000;
        let input = Input::Observation(world.observe());
        let mut effects = Vec::new();
        self.steps.push(Step::Decide(input.clone()));
        loop {
            let decision = decide(&world.state, &world.policy, &input);
            let is_last = decision.reason.is_final();
            effects.extend(self.take(world, decision)?);
            if is_last {
                break;
            }
            self.steps.push(Step::Again);
        }
        world.queue.clear();
        effects.iter().for_each(|effect| world.perform(effect));
        let over = matches!(world.state.phase, Phase::Complete { .. });
        if world.queue.is_empty() && !over { Err("the night is stuck".into()) } else { Ok(()) }
    }

    /// The next goal on the next day, like the one before: it is planned, worked on, reviewed and merged.
    fn next(&mut self, world: &mut World) -> Outcome<()> {
        world.wall += DAY_MS;
        let command = Command { by: "bench".into(), wish: Wish::NextGoal };
        let input = Input::Command { stamp: world.stamp(), command };
        let decision = decide(&world.state, &world.policy, &input);
        self.steps.push(Step::Decide(input));
        self.take(world, decision).map(drop)
    }

    fn take(&mut self, world: &mut World, decision: Decision) -> Outcome<Vec<Effect>> {
        if !decision.events.is_empty() {
            apply_line(&mut world.state, &decision.events).map_err(|misfit| misfit.to_string())?;
            self.lines.push(decision.events);
        }
        Ok(decision.effects)
    }
}
