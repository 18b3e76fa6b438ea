//! Where a target starts from: the seeds kept in its folder, and those made from the golden traces and the
//! version 1 fixtures, which so never go stale. It reads the repository and must not write.

use std::fs;
use std::path::{Path, PathBuf};

use devloop_core::decide::{Decision, Input};
use devloop_core::policy::Policy;
use devloop_core::state::LoopState;
use devloop_testkit::random::Random;
use devloop_wire::event_line::{self, Entry};
use devloop_wire::trace_line::{self, TraceEntry};
use devloop_wire::{budget_doc, digest_bytes, policy_doc, state_doc};
use serde::Deserialize;
use serde_json::json;

/// One seed: a name and its bytes.
pub type Seed = (String, Vec<u8>);

/// A golden trace.
#[derive(Deserialize)]
struct Golden {
    policy: Policy,
    state: LoopState,
    input: Input,
    decision: Decision,
}

/// Where the kept seeds of a target lie.
#[must_use]
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Every seed of a target, by name.
///
/// # Panics
/// When the repository's own traces or fixtures cannot be read.
#[must_use]
pub fn of(target: &str) -> Vec<Seed> {
    let mut seeds = files(&folder(target), "");
    match target {
        "journal" => seeds.extend(traces().map(|(name, golden)| (name, journal(&golden)))),
        "state" => seeds.extend(traces().map(|(name, golden)| (name, saved(&golden)))),
        "config" => seeds.extend(traces().map(|(name, golden)| (name, policy(&golden)))),
        "machine" => seeds.extend(traces().map(|(name, golden)| (name, story(&golden)))),
        "migration" => seeds.extend(fixtures()),
        "boundary" | "nights" => seeds.extend((0..24).map(tape)),
        _ => {}
    }
    if target == "config" {
        let limits = budget_doc::write(&devloop_wire::config_doc::Config::default().limits);
        seeds.push(("limits".to_owned(), limits));
    }
    seeds
}

fn files(folder: &Path, ending: &str) -> Vec<Seed> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(ending));
    paths.sort();
    let name =
        |path: &Path| path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    paths.iter().map(|path| (name(path), fs::read(path).expect("a readable seed"))).collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn traces() -> impl Iterator<Item = (String, Golden)> {
    let found = files(&repository().join("tests/traces"), ".json");
    assert!(!found.is_empty(), "tests/traces is empty");
    found.into_iter().map(|(name, text)| {
        let golden = serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, golden)
    })
}

/// A segment of two lines and its trace.
fn journal(golden: &Golden) -> Vec<u8> {
    let core = digest_bytes(b"a core");
    let head = event_line::write_head(&golden.state, &core, Some(&golden.policy.digest), None);
    let entry = Entry {
        revision: golden.state.revision + 1,
        at: golden.state.clock.wall,
        by: "cli",
        reason: &golden.decision.reason,
        events: &golden.decision.events,
    };
    let line = event_line::write_line(&entry, Some(&head.chain)).bytes;
    let trace_head = trace_line::write_head(&golden.state, &core, &golden.policy);
    let trace = trace_line::write(&TraceEntry {
        revision: golden.state.revision + 1,
        input: &golden.input,
        decisions: std::slice::from_ref(&golden.decision),
        state_digest: &core,
    });
    [head.bytes, line, trace_head, trace].join(&b'\n')
}

fn saved(golden: &Golden) -> Vec<u8> {
    state_doc::write(&golden.state)
}

fn policy(golden: &Golden) -> Vec<u8> {
    policy_doc::policy_bytes(&golden.policy)
}

fn story(golden: &Golden) -> Vec<u8> {
    let decide = json!({ "decide": golden.input });
    let steps = match golden.decision.events.is_empty() {
        true => json!([decide, "commit"]),
        false => json!([decide, "discard", { "fold": golden.decision.events }, decide, "commit"]),
    };
    let state = json!({ "version": 2, "state": golden.state });
    let policy = json!({ "version": 2, "policy": golden.policy });
    json!({ "state": state, "policy": policy, "steps": steps }).to_string().into_bytes()
}

/// The version 1 fixtures as the migration target reads them: one line a file, the journal last.
fn fixtures() -> Vec<Seed> {
    let folder = repository().join("tests/documents/v1");
    let mut names: Vec<PathBuf> =
        fs::read_dir(folder).expect("the fixtures").map(|entry| entry.expect("an entry").path()).collect();
    names.retain(|path| path.is_dir());
    names.sort();
    let seed = |case: PathBuf| {
        let read = |name: &str| fs::read(case.join(name)).unwrap_or_default();
        let compact = |bytes: Vec<u8>| match serde_json::from_slice::<serde_json::Value>(&bytes) {
            Ok(value) => value.to_string().into_bytes(),
            Err(_) => bytes.into_iter().filter(|byte| *byte != b'\n').collect(),
        };
        let parts = [compact(read("STATE.json")), compact(read("PENDING_HOLD")), read("EVENTS.jsonl")];
        (
            case.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned()),
            parts.join(&b'\n'),
        )
    };
    names.into_iter().map(seed).collect()
}

fn tape(seed: u64) -> Seed {
    let mut random = Random::new(seed);
    let bytes = (0..64 << (seed % 5)).map(|_| random.word().to_le_bytes()[0]).collect();
    (format!("tape-{seed}"), bytes)
}
