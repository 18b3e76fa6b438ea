//! A durable step (decide, append, fsync, STATE.json, trace) against a bare append and fsync of the same
//! bytes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use devloop_component::CORE_DIGEST;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::Input;
use devloop_core::ids::Digest;
use devloop_core::state::LoopState;
use devloop_host::backend::demo;
use devloop_host::session::Session;
use devloop_host::store::wire_format::{WireLines, WireStates};
use devloop_host::store::{Armed, Disk, Identity, Line, Locks, Store, UserFolder, Wait, layout};
use devloop_testkit::world::{World, policy};
use devloop_wire::{event_line, state_doc};

use crate::figures::{self, Samples, against, shown, timed};
use crate::ground::Ground;
use crate::{Outcome, project};

const GOAL: f64 = 2.0;

/// An armed folder with a journal that starts with this state.
pub struct Seeded {
    _folders: Vec<tempfile::TempDir>,
    /// The folder.
    pub armed: Armed,
    /// Its locks, taken by this process.
    pub locks: Locks,
    /// How it is written.
    pub disk: Disk,
}

impl Seeded {
    /// A sample repository whose journal starts with `state`.
    pub fn new(state: &LoopState) -> Outcome<Seeded> {
        let (home, folder) = (project::folder()?, project::folder()?);
        let root = demo::sample_repo(&folder.path().join("project"))?;
        let seeded = Seeded::at(&root, home.path(), state)?;
        Ok(Seeded { _folders: vec![home, folder], ..seeded })
    }

    /// An armed folder without a journal gets one that starts with `state`.
    pub fn at(root: &Path, home: &Path, state: &LoopState) -> Outcome<Seeded> {
        let (armed, disk) = (layout::require_armed(root)?, Disk::default());
        let user = UserFolder::at(home.join("devloop"));
        let locks = Locks::new(armed.clone(), user, disk.clone(), Identity::new_instance());
        let seeded = Seeded { _folders: Vec::new(), armed, locks, disk };
        seeded.seed(state)?;
        Ok(seeded)
    }

    /// The journal and state of the project.
    pub fn store(&self) -> Store {
        Store::new(self.armed.clone(), self.disk.clone(), Arc::new(WireLines), Arc::new(WireStates))
    }

    fn seed(&self, state: &LoopState) -> Outcome<()> {
        let head = head(state, None)?;
        let document = state_doc::write_file(state, Some(&Digest::parse(&head.chain)?));
        let lock = self.locks.lock(Wait::ONCE)?;
        let _committed = self.store().start_segment(&lock, &head, &document)?;
        Ok(())
    }
}

/// The first line of a segment.
pub fn head(state: &LoopState, previous: Option<&Digest>) -> Outcome<Line> {
    let core = Digest::parse(CORE_DIGEST)?;
    let head = event_line::write_head(state, &core, state.policy.as_ref(), previous);
    Ok(Line { revision: state.revision, chain: head.chain.as_str().into(), bytes: head.bytes })
}

/// Pauses and goes on in turns: each is one line.
pub fn turn(world: &World, number: usize) -> Input {
    let command = Command { by: "bench".into(), wish: pause_or_resume(number) };
    Input::Command { stamp: world.stamp(), command }
}

/// A wish that is always accepted and records one line.
pub fn pause_or_resume(number: usize) -> Wish {
    match number % 2 {
        0 => Wish::Pause { now: false },
        _ => Wish::Resume { task: None, reset_cost: false },
    }
}

/// Measures two sizes of state and prints the table.
pub fn report(steps: usize) -> Outcome<()> {
    let mut rows = Vec::new();
    for (size, steps) in [(20, steps), (1_000, steps / 4)] {
        let (step, bare, bytes) = of_size(size, steps)?;
        let ratio = |percent: f64| step.percentile(percent) / bare.percentile(percent);
        rows.push(vec![
            size.to_string(),
            format!("{bytes:.0} bytes"),
            format!("{} / {}", shown(bare.median()), shown(bare.percentile(99.0))),
            format!("{} / {}", shown(step.median()), shown(step.percentile(99.0))),
            shown(step.median() - bare.median()),
            against(ratio(50.0), GOAL),
            against(ratio(99.0), GOAL),
        ]);
    }
    let text = format!(
        "{steps} steps at 20 tasks, a quarter of that at 1,000, each followed by the bare append and fsync \
         of the bytes that the step added to its journal, on the same file system. A step is a decision \
         in the component, its journal line with fsync, STATE.json by rename, and the trace; every 255th \
         starts a segment. The faster the disk syncs in \
         that moment, the larger is the ratio: read it beside the bare figure."
    );
    let columns =
        ["tasks", "line", "bare p50 / p99", "step p50 / p99", "beyond p50", "ratio p50", "ratio p99"];
    figures::print("A durable step against a bare append", &text, &columns, &rows);
    Ok(())
}

fn of_size(size: usize, steps: usize) -> Outcome<(Samples, Samples, f64)> {
    let ground = Ground::new(size, 0)?;
    let seeded = Seeded::new(&state_doc::parse(&ground.state)?)?;
    let world = World::new(Vec::new(), policy(devloop_core::policy::Backend::Scripted));
    let lock = seeded.locks.lock(Wait::ONCE)?;
    let mut session = Session::new(seeded.armed.clone(), seeded.disk.clone(), world.policy.clone())?;
    session.sync(&lock)?;
    let bare = OpenOptions::new().append(true).create(true).open(seeded.armed.folder().join("bare"))?;
    let (mut mine, mut other, mut total) = (Samples::default(), Samples::default(), 0.0);
    for number in 0..steps {
        let input = turn(&world, number);
        let before = length(&seeded)?;
        let mut done = None;
        mine.push(timed(|| done = Some(session.run(&lock, &input, "bench"))));
        if !done.ok_or("no step")??.changed {
            return Err("a step recorded nothing".into());
        }
        let bytes = added(&seeded, before)?;
        total += bytes.len() as f64;
        let mut wrote = Ok(());
        other.push(timed(|| wrote = append(&bare, &bytes)));
        wrote?;
    }
    Ok((mine, other, total / steps as f64))
}

fn append(mut file: &File, bytes: &[u8]) -> std::io::Result<()> {
    file.write_all(bytes)?;
    file.sync_data()
}

fn length(seeded: &Seeded) -> Outcome<u64> {
    Ok(std::fs::metadata(seeded.armed.events())?.len())
}

/// The last line where a new segment began, else all that is new.
fn added(seeded: &Seeded, before: u64) -> Outcome<Vec<u8>> {
    let mut file = File::open(seeded.armed.events())?;
    let mut bytes = Vec::new();
    let grown = file.metadata()?.len() > before;
    file.seek(SeekFrom::Start(if grown { before } else { 0 }))?;
    file.read_to_end(&mut bytes)?;
    if !grown && let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
        bytes.drain(..=at);
    }
    Ok(bytes)
}
