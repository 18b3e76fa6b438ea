//! The loop when it is large: a tick with 10,000 tasks, and a start over a journal of 100,000 events.

use devloop_core::apply::apply_line;
use devloop_core::command::Command;
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
use crate::durable::{Seeded, head, pause_or_resume, turn};
use crate::figures::{self, Samples, cpu_timed, shown, timed};
use crate::ground::{Ground, fill};
use crate::project::{Project, instant};

const EVENTS: usize = 100_000;
/// Seconds.
const TICK_GOAL: f64 = 0.025;
/// Seconds.
const RECOVERY_GOAL: f64 = 0.5;

/// Measures both and prints the tables.
pub fn report(rounds: usize) -> Outcome<()> {
    let mut rows = Vec::new();
    for size in [20, 100, 1_000, 10_000] {
        let beats = ticks(size, rounds)?;
        let verdict = match beats.quiet.median() <= TICK_GOAL {
            true => "met",
            false => "missed",
        };
        rows.push(vec![
            size.to_string(),
            shown(beats.open),
            format!("{} (goal {}: {verdict})", shown(beats.quiet.median()), shown(TICK_GOAL)),
            shown(beats.quiet.percentile(99.0)),
            shown(beats.quiet_cpu.median()),
            shown(beats.recorded.median()),
            shown(beats.recorded_cpu.median()),
        ]);
    }
    let text = "A whole beat of a supervisor: locks, journal, ledger, git, disk, the decision. A quiet one \
                has nothing to record; a recorded one is a pause or a resume, with its journal line, fsync \
                and STATE.json written whole. CPU is that of the calling thread, without git's processes \
                and the disk. Nine of ten tasks are done, the others wait; the backend is `noop`.";
    let columns =
        ["tasks", "open", "quiet p50", "quiet p99", "quiet, CPU p50", "recorded p50", "recorded, CPU p50"];
    figures::print("A tick", text, &columns, &rows);
    recovery()
}

/// What beats of one size take, in seconds.
#[derive(Default)]
struct Beats {
    open: f64,
    quiet: Samples,
    quiet_cpu: Samples,
    recorded: Samples,
    recorded_cpu: Samples,
}

/// A supervisor over a project whose journal starts with a large state.
fn ticks(size: usize, rounds: usize) -> Outcome<Beats> {
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
    let mut beats = Beats { open, ..Beats::default() };
    for _ in 0..rounds {
        let (mut done, mut own) = (None, 0.0);
        beats.quiet.push(timed(|| own = cpu_timed(|| done = Some(supervisor.tick()))));
        beats.quiet_cpu.push(own);
        let report = done.ok_or("no tick")??;
        if report.changed || report.reason != "noop_backend" {
            return Err(format!("the tick is not quiet: {report:?}").into());
        }
    }
    for number in 0..rounds {
        let (mut done, mut own) = (None, 0.0);
        let wish = || Command { by: "bench".into(), wish: pause_or_resume(number) };
        beats.recorded.push(timed(|| own = cpu_timed(|| done = Some(supervisor.wish(wish())))));
        beats.recorded_cpu.push(own);
        done.ok_or("no command")??;
    }
    supervisor.close()?;
    Ok(beats)
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
    let mut row = |what: &str, seconds: f64| {
        let verdict = if seconds <= RECOVERY_GOAL { "met" } else { "missed" };
        rows.push(vec![
            what.to_owned(),
            format!("{} (goal {}: {verdict})", shown(seconds), shown(RECOVERY_GOAL)),
        ]);
    };
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
