//! I12 as a property: whatever happens to the files of a project, it is believed as it really was, or it is
//! refused and not one byte is written. The journal and the state are those of production.

use std::fs;
use std::path::{Path, PathBuf};

use devloop_core::apply::apply_line;
use devloop_core::event::Event;
use devloop_core::ids::Digest;
use devloop_core::reason::Reason;
use devloop_core::state::LoopState;
use devloop_core::units::{ActiveMs, AwakeMs, WallMs};
use devloop_host::store::{wire_format, *};
use devloop_testkit::random::Random;
use devloop_wire::{digest_bytes, event_line, state_doc};

use super::support::{Project, tree};

/// Damaged projects; each seed is another story with another damage.
const SEEDS: u64 = 600;

fn store(project: &Project) -> Store {
    let (lines, states) = wire_format::formats();
    Store::new(project.armed.clone(), Disk::default(), lines, states)
}

fn document(state: &LoopState, tip: &Tip) -> Vec<u8> {
    state_doc::write_file(state, Some(&Digest::parse(&tip.chain).unwrap()))
}

fn head(state: &LoopState, previous: Option<&Tip>) -> Line {
    let previous = previous.map(|tip| Digest::parse(&tip.chain).unwrap());
    let core = digest_bytes(b"core");
    Line::written(state.revision, event_line::write_head(state, &core, None, previous.as_ref()))
}

/// One more line behind `tip`, folded into `state`.
fn step(state: &mut LoopState, wall: u64, tip: &Tip) -> Line {
    let event = Event::ClockAnchored { wall: WallMs(wall), awake: AwakeMs::default(), active: ActiveMs(0) };
    let events = [event];
    apply_line(state, &events).unwrap();
    let (revision, reason) = (state.revision, Reason::ClockMoved);
    let entry =
        event_line::Entry { revision, at: WallMs(wall), by: "test", reason: &reason, events: &events };
    let previous = Digest::parse(&tip.chain).unwrap();
    Line::written(revision, event_line::write_line(&entry, Some(&previous)))
}

/// What really happened: every state with the end of the journal behind it.
struct Story {
    project: Project,
    told: Vec<(LoopState, Tip)>,
    /// Whole copies of the files as they were earlier.
    earlier: Vec<(PathBuf, Vec<u8>)>,
}

fn story(dice: &mut Random) -> Story {
    let project = Project::new();
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let mut store = store(&project);
    store.load().unwrap();
    let mut state = LoopState::default();
    let first = head(&state, None);
    let mut tip = store.start_segment(&lock, &first, &document(&state, &first.tip())).unwrap().tip;
    let mut told = vec![(state.clone(), tip.clone())];
    let mut earlier = Vec::new();
    for n in 0..1 + dice.below(6) {
        if dice.chance(20) {
            earlier.extend(files(&project));
        }
        if dice.chance(25) {
            let line = head(&state, Some(&tip));
            tip = store.start_segment(&lock, &line, &document(&state, &line.tip())).unwrap().tip;
        } else {
            let line = step(&mut state, 1_000 + n, &tip);
            let bytes = document(&state, &line.tip());
            tip = store.commit(&lock, std::slice::from_ref(&line), &bytes, false).unwrap().tip;
        }
        told.push((state.clone(), tip.clone()));
    }
    Story { project, told, earlier }
}

/// State, journal and archive.
fn files(project: &Project) -> Vec<(PathBuf, Vec<u8>)> {
    let ours = |path: &Path| {
        let named = path == project.armed.events() || path.ends_with("STATE.json");
        path.is_file() && (named || path.starts_with(project.armed.journal()))
    };
    tree(project.armed.folder()).into_iter().filter(|(path, _)| ours(path)).collect()
}

/// Something happens to one of the files.
fn harm(dice: &mut Random, story: &Story) {
    let all = files(&story.project);
    let Some((path, bytes)) = all.get(usize::try_from(dice.below(all.len() as u64)).unwrap()).cloned() else {
        return;
    };
    let at = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    let line = usize::try_from(dice.below(lines.len().max(1) as u64)).unwrap();
    let changed: Vec<u8> = match dice.below(10) {
        0 => bytes[..at].to_vec(),
        1 => Vec::new(),
        2 => [&bytes[..], b"{\"v\":2}\n"].concat(),
        3 => [&bytes[..at], b"x", &bytes[at..]].concat(),
        4 if !lines.is_empty() => {
            lines.remove(line);
            lines.concat()
        }
        5 if !lines.is_empty() => {
            lines.insert(line, lines[line]);
            lines.concat()
        }
        6 => match story.earlier.iter().find(|(old, _)| *old == path) {
            Some((_, old)) => old.clone(),
            None => bytes.iter().rev().copied().collect(),
        },
        7 => return fs::remove_file(&path).unwrap(),
        8 => {
            fs::remove_file(&path).unwrap();
            return fs::create_dir(&path).unwrap();
        }
        _ => {
            let mut bytes = bytes.clone();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
            bytes
        }
    };
    fs::write(&path, changed).unwrap();
}

/// What the session makes of it: the documents are read whole, and a snapshot is compared with its digest.
/// None when it refuses. What it believes is a state that was there, at its place in the journal.
fn believed_state(story: &Story, recovered: &Recovered, seed: u64) -> Option<LoopState> {
    let mut state = match &recovered.base {
        Base::State(bytes) => state_doc::parse(bytes).ok()?,
        Base::Snapshot(line) => {
            let head = event_line::parse_head(&line.bytes).ok()?;
            event_line::check_snapshot(&head, &digest_bytes(b"core")).ok()?;
            head.state
        }
    };
    for line in &recovered.lines {
        if let event_line::JournalLine::Events(line) = event_line::parse(&line.bytes).ok()? {
            apply_line(&mut state, &line.events).ok()?;
        }
    }
    let known = story.told.iter().any(|(told, tip)| *told == state && *tip == recovered.tip);
    assert!(known, "seed {seed}: revision {} never was like that", state.revision);
    Some(state)
}

#[test]
fn a_damaged_project_is_believed_whole_or_left_byte_for_byte() {
    let (mut refused, mut believed) = (0, 0);
    for seed in 0..SEEDS {
        let mut dice = Random::new(seed);
        let story = story(&mut dice);
        for _ in 0..1 + dice.below(2) {
            harm(&mut dice, &story);
        }
        let project = &story.project;
        let damaged = fs::read(project.armed.state()).unwrap_or_default();
        let before = tree(project.armed.folder());
        let locks = project.locks();
        let lock = locks.lock(Wait::ONCE).unwrap();
        let mut store = store(project);
        match store.load() {
            Ok(Loaded::Ready(recovered)) => {
                let Some(mut state) = believed_state(&story, &recovered, seed) else {
                    refused += 1;
                    continue;
                };
                believed += 1;
                let line = step(&mut state, 9_000, &recovered.tip);
                let bytes = document(&state, &line.tip());
                let done = store.commit(&lock, std::slice::from_ref(&line), &bytes, true);
                if done.is_ok_and(|done| done.state_error.is_none()) {
                    let whole = story.told.iter().any(|(told, tip)| document(told, tip) == damaged);
                    let kept = tree(project.armed.folder()).iter().any(|(_, bytes)| *bytes == damaged);
                    assert!(whole || damaged.is_empty() || kept, "seed {seed}: it was written over");
                }
            }
            Ok(Loaded::Fresh) => {
                let left = files(project).iter().any(|(_, bytes)| !bytes.is_empty());
                assert!(!left, "seed {seed}: something is left, and it counts as nothing");
            }
            Ok(Loaded::Legacy(_)) => panic!("seed {seed}: nothing of version 1 was ever there"),
            Err(said) => {
                refused += 1;
                let (mut state, tip) = story.told.last().cloned().unwrap();
                let snapshot = head(&state, Some(&tip));
                let line = step(&mut state, 9_000, &tip);
                let bytes = document(&state, &line.tip());
                assert!(store.commit(&lock, &[line], &bytes, true).is_err(), "seed {seed}: {said}");
                assert!(store.load().is_err(), "seed {seed}: {said}");
                assert!(store.start_segment(&lock, &snapshot, &bytes).is_err(), "seed {seed}: {said}");
                let why = said.untrusted();
                assert!(why.is_some(), "seed {seed}: {said} has no question");
            }
        }
        drop(lock);
        if refused + believed == 0 || store.load().is_err() {
            let after: Vec<_> = tree(project.armed.folder())
                .into_iter()
                .filter(|(path, _)| !path.ends_with("LOCK"))
                .collect();
            let before: Vec<_> = before.into_iter().filter(|(path, _)| !path.ends_with("LOCK")).collect();
            assert_eq!(after, before, "seed {seed}");
        }
    }
    assert!(refused > SEEDS / 4 && believed > SEEDS / 8, "{refused} refused, {believed} believed");
}
