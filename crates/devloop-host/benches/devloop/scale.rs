//! The loop when it is large: a tick with 10,000 tasks, and a start over a journal of 100,000 events.

use devloop_core::apply::apply_line;
use devloop_core::decide::decide;
use devloop_core::ids::{Branch, Digest};
use devloop_core::policy::Backend;
use devloop_core::state::LoopState;
use devloop_host::backend::demo;
use devloop_host::replay::{self, Engine};
use devloop_host::session::Session;
use devloop_host::store::history;
use devloop_host::store::journal::GROUP_LINES;
use devloop_host::store::wire_format::WireLines;
use devloop_host::store::{Line, LockGuard, Store, Wait};
use devloop_testkit::world::{World, policy};
use devloop_wire::event_line::{self, Entry};
use devloop_wire::{json, state_doc};
use serde_json::json;

use crate::Outcome;
use crate::durable::{Seeded, head, turn};
use crate::figures::{self, Samples, shown, timed};
use crate::ground::{Ground, fill};
use crate::project::{Project, instant};

const EVENTS: usize = 100_000;

/// Measures both and prints the tables.
pub fn report(rounds: usize) -> Outcome<()> {
    let mut rows = Vec::new();
    for size in [20, 10_000] {
        let (open, tick) = ticks(size, rounds)?;
        rows.push(vec![size.to_string(), shown(open), shown(tick.median()), shown(tick.percentile(99.0))]);
    }
    let text = "A whole beat of a supervisor that has nothing to record: locks, journal, ledger, git, disk, \
                the decision. Nine of ten tasks are done, the others wait; the backend is `noop`.";
    figures::print("A quiet tick", text, &["tasks", "open", "tick p50", "tick p99"], &rows);
    recovery()
}

/// A supervisor over a project whose journal starts with a large state.
fn ticks(size: usize, rounds: usize) -> Outcome<(f64, Samples)> {
    let config = json!({ "agentBackend": "noop", "tickIntervalMs": 500 });
    let project = Project::new(&config, &instant(&[]))?;
    let mut state = state_doc::parse(&Ground::new(20, 0)?.state)?;
    fill(&mut state, size)?;
    at_rest(&mut state)?;
    let seeded = Seeded::at(&project.root, project.home(), &state)?;
    drop(seeded);
    let mut opened = None;
    let open = timed(|| opened = Some(project.open()));
    let mut supervisor = opened.ok_or("not opened")??;
    // The first beats record the clock, the configuration and what was not known yet.
    for _ in 0..5 {
        supervisor.tick()?;
    }
    let mut samples = Samples::default();
    for _ in 0..rounds {
        let mut done = None;
        samples.push(timed(|| done = Some(supervisor.tick())));
        let report = done.ok_or("no tick")??;
        if report.changed || report.reason != "noop_backend" {
            return Err(format!("the tick is not quiet: {report:?}").into());
        }
    }
    supervisor.close()?;
    Ok((open, samples))
}

/// Nothing runs, and everything is about the sample repository.
fn at_rest(state: &mut LoopState) -> Outcome<()> {
    use devloop_core::state::Tasks;
    use devloop_core::task::{Stage, Task};
    let busy = |task: &Task| !matches!(task.stage, Stage::Ready | Stage::Done(_));
    let tasks: Vec<Task> = state.tasks.iter().filter(|task| !busy(task)).cloned().collect();
    state.tasks = Tasks::try_from(tasks).map_err(|twice| twice.to_string())?;
    state.leases.clear();
    state.goal.digest = Some(json::digest_bytes(demo::GOAL.as_bytes()));
    state.target.branch = Some(Branch::parse(demo::BRANCH)?);
    state.target.last_merge = None;
    state.target.verified = None;
    Ok(())
}

fn recovery() -> Outcome<()> {
    let world = World::new(Vec::new(), policy(Backend::Scripted));
    let state = state_doc::parse(&Ground::new(20, 0)?.state)?;
    let seeded = Seeded::new(&state)?;
    let lock = seeded.locks.lock(Wait::ONCE)?;
    let mut store = seeded.store();
    let _found = store.load()?;
    write_events(&mut store, &lock, &world, state)?;
    let bytes = journal_bytes(&seeded)?;
    let mut rows = Vec::new();
    let mut row = |what: &str, seconds: f64| rows.push(vec![what.to_owned(), shown(seconds)]);
    row("start from STATE.json and the last segment", start(&seeded, &lock, &world)?);
    std::fs::remove_file(seeded.armed.state())?;
    row("start without STATE.json: the last segment is folded", start(&seeded, &lock, &world)?);
    let mut verified = None;
    let seconds = timed(|| verified = Some(history::verify(&seeded.armed, &WireLines)));
    verified.ok_or("not verified")??.ok_or("there is no journal")?;
    row("verify the chain of the whole journal", seconds);
    let mut core = replay::Core::load(Engine::Embedded)?;
    let mut replayed = None;
    let seconds = timed(|| replayed = Some(replay::journal(&seeded.armed, &mut core)));
    replayed.ok_or("not replayed")??.ok_or("there is no journal")?;
    row("fold the whole journal in the component and compare every snapshot", seconds);
    let text = format!(
        "{EVENTS} lines of one event each at 20 tasks, {:.1} MB on disk with old segments compressed.",
        bytes as f64 / 1e6
    );
    figures::print("Recovery", &text, &["what", "once"], &rows);
    Ok(())
}

fn journal_bytes(seeded: &Seeded) -> Outcome<u64> {
    let mut bytes = std::fs::metadata(seeded.armed.events())?.len();
    for entry in std::fs::read_dir(seeded.armed.journal())? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Lines as the loop writes them, in groups that fill a segment: one fsync for each.
fn write_events(store: &mut Store, lock: &LockGuard<'_>, world: &World, mut state: LoopState) -> Outcome<()> {
    let mut written = 0;
    while written < EVENTS {
        if store.journal().room() < GROUP_LINES {
            let previous = store.journal().tip().map(|tip| Digest::parse(&tip.chain)).transpose()?;
            let line = head(&state, previous.as_ref())?;
            let document = state_doc::write_file(&state, Some(&Digest::parse(&line.chain)?));
            let _committed = store.start_segment(lock, &line, &document)?;
        }
        let mut group = Vec::new();
        let mut chain = store.journal().tip().map(|tip| Digest::parse(&tip.chain)).transpose()?;
        for _ in 0..GROUP_LINES.min(EVENTS - written) {
            let input = turn(world, written);
            let decision = decide(&state, &world.policy, &input);
            apply_line(&mut state, &decision.events).map_err(|misfit| misfit.to_string())?;
            let entry = Entry {
                revision: state.revision,
                at: world.stamp().wall,
                by: "bench",
                reason: &decision.reason,
                events: &decision.events,
            };
            let line = event_line::write_line(&entry, chain.as_ref());
            group.push(Line {
                revision: state.revision,
                chain: line.chain.as_str().into(),
                bytes: line.bytes,
            });
            chain = Some(line.chain);
            written += 1;
        }
        let document = state_doc::write_file(&state, chain.as_ref());
        let _committed = store.commit(lock, &group, &document, false)?;
    }
    Ok(())
}

/// What a supervisor does before its first beat.
fn start(seeded: &Seeded, lock: &LockGuard<'_>, world: &World) -> Outcome<f64> {
    let mut done = None;
    let seconds = timed(|| {
        let session = Session::new(seeded.armed.clone(), seeded.disk.clone(), world.policy.clone());
        done = Some(session.and_then(|mut session| session.sync(lock)));
    });
    done.ok_or("not started")??;
    Ok(seconds)
}
