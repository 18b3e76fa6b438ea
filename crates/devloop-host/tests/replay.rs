//! A changed recording is found and named, in every kind of line, and another core by what it decides.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::PathBuf;

use devloop_bridge::{Replayed, Step};
use devloop_component::CORE_DIGEST;
use devloop_core::decide::{Decision, Input};
use devloop_core::event::Event;
use devloop_core::ids::Digest;
use devloop_core::policy::Backend;
use devloop_core::question::Question;
use devloop_core::reason::Reason;
use devloop_core::units::UsdMicros;
use devloop_host::error::ErrorKind;
use devloop_host::machine::{Machine, MachineError, Native};
use devloop_host::replay::{self, Core, Divergence, Engine, Recording};
use devloop_host::store::{Armed, Disk, layout};
use devloop_testkit::night::Night;
use devloop_testkit::world::{World, policy, two};
use devloop_wire::{event_line, state_doc};
use flate2::Compression;

/// A whole night, recorded by this very core.
fn night() -> Night {
    let mut night = Night::new(World::new(two(), policy(Backend::Scripted)));
    night.core = Digest::parse(CORE_DIGEST).unwrap();
    assert_eq!(night.run(), Reason::StillComplete);
    night
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// An armed project with this journal and trace.
    fn project(&self, night: &Night) -> Armed {
        let armed = layout::arm(&Disk::default(), self.0.path(), "goal").unwrap();
        fs::write(armed.events(), night.journal()).unwrap();
        fs::write(armed.trace(), night.trace()).unwrap();
        armed
    }
}

fn native() -> Core {
    Core::load(Engine::Native).unwrap()
}

fn divergence(trace: &str, core: &mut Core) -> Option<Divergence> {
    let folder = Folder::new();
    let path = folder.file("TRACE.jsonl", trace);
    replay::file(&path, core).unwrap().unwrap().divergence().cloned()
}

#[test]
fn a_changed_trace_is_named_by_line_and_field() {
    let good = text(night().trace());
    assert_eq!(divergence(&good, &mut native()), None);
    let check = |what: &str, from: &str, to: &str, path: &str| {
        let at = good.find(from).unwrap_or_else(|| panic!("{what}: no {from}"));
        let line = good[..at].matches('\n').count() + 1;
        let found =
            divergence(&good.replacen(from, to, 1), &mut native()).unwrap_or_else(|| panic!("{what}"));
        assert_eq!(found.line, line, "{what}: {found:#?}");
        let paths: Vec<&str> = found.fields.iter().map(|field| field.path.as_str()).collect();
        assert!(paths.iter().any(|found| found.contains(path)), "{what}: {paths:?}");
        assert!(found.fields.iter().all(|field| field.recorded != field.replayed));
    };
    check("decision", r#""reason":"goal_reached""#, r#""reason":"goal_started""#, "].reason");
    check(
        "event",
        r#""usage_settled":{"dispatch":"d1","amount":50000"#,
        r#""usage_settled":{"dispatch":"d1","amount":50001"#,
        "usage_settled.amount",
    );
    check("input", r#""cost":50000"#, r#""cost":50001"#, "usage_settled.amount");
    check("state at the start", r#""next_dispatch":1"#, r#""next_dispatch":2"#, "state_digest");
    check("effect", r#""limit_ms":2700000"#, r#""limit_ms":2700001"#, "dispatch.limit_ms");
    let digest = good.rfind(r#""state_digest":""#).unwrap() + r#""state_digest":""#.len();
    let other = if good.as_bytes()[digest] == b'0' { "1" } else { "0" };
    let mut changed = good.clone();
    changed.replace_range(digest..=digest, other);
    let found = divergence(&changed, &mut native()).unwrap();
    assert_eq!((found.fields.len(), found.fields[0].path.as_str()), (1, "state_digest"));
    assert_eq!(found.line, good.matches('\n').count());
}

#[test]
fn every_changed_byte_of_a_journal_is_found() {
    let folder = Folder::new();
    let good = night().journal();
    let path = folder.file("EVENTS.jsonl", &good);
    assert!(replay::file(&path, &mut native()).unwrap().unwrap().divergence().is_none());
    // A prime step walks through every part of a line: version, revision, event, reason, chain.
    for at in (0..good.len()).step_by(997) {
        let mut bad = good.clone();
        bad[at] = if bad[at] == b'7' { b'8' } else { b'7' };
        fs::write(&path, &bad).unwrap();
        let found = replay::file(&path, &mut native());
        let refused = found.as_ref().is_err()
            || found.as_ref().is_ok_and(|f| f.as_ref().unwrap().divergence().is_some());
        assert!(refused, "byte {at} of {}", String::from_utf8_lossy(&good[at.saturating_sub(30)..at + 1]));
    }
    let line = good.split(|b| *b == b'\n').next().unwrap().len() + 200;
    let mut bad = good.clone();
    bad[line] = b'~';
    fs::write(&path, &bad).unwrap();
    let error = replay::file(&path, &mut native()).unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
}

/// Sealed anew after the change, a journal still contradicts the state beside it.
#[test]
fn a_journal_that_was_sealed_anew_differs_field_by_field_from_the_state() {
    let folder = Folder::new();
    let night = night();
    let armed = folder.project(&night);
    let mut state = night.world.state.clone();
    let first = *state.ledger.entries.keys().next().unwrap();
    assert!(state.ledger.entries.change(&first, |entry| entry.amount = UsdMicros(1)));
    state.next_dispatch = 99;
    let journal = night.journal();
    let last = journal.split(|b| *b == b'\n').rfind(|line| !line.is_empty()).unwrap();
    let chain = event_line::read_head(last).unwrap().chain;
    fs::write(armed.state(), state_doc::write_file(&state, Some(&chain))).unwrap();
    let report = replay::journal(&armed, &mut native()).unwrap().unwrap();
    let found = report.divergence.unwrap();
    let fields: Vec<_> =
        found.fields.iter().map(|f| (f.path.as_str(), f.recorded.as_str(), f.replayed.as_str())).collect();
    assert_eq!(
        fields,
        [("state.ledger.entries.d1.amount", "1", "50000"), ("state.next_dispatch", "99", "10")]
    );
    assert_eq!(found.file, armed.state());
}

/// A core that calls everything it starts by another name.
struct Other(Native);

impl Machine for Other {
    fn open(&mut self, state: &[u8], policy: &[u8]) -> Result<(), MachineError> {
        self.0.open(state, policy)
    }
    fn is_open(&self) -> bool {
        self.0.is_open()
    }
    fn close(&mut self) {
        self.0.close();
    }
    fn decide(&mut self, input: &Input) -> Result<Decision, MachineError> {
        let mut decision = self.0.decide(input)?;
        if decision.reason == Reason::PlanWanted || decision.reason == Reason::GoalStarted {
            decision.reason = Reason::Halted;
        }
        Ok(decision)
    }
    fn commit(&mut self) -> Result<(), MachineError> {
        self.0.commit()
    }
    fn discard(&mut self) -> Result<(), MachineError> {
        self.0.discard()
    }
    fn fold(&mut self, line: &[Event]) -> Result<(), MachineError> {
        self.0.fold(line)
    }
    fn set_policy(&mut self, policy: &[u8]) -> Result<(), MachineError> {
        self.0.set_policy(policy)
    }
    fn save(&mut self) -> Result<Vec<u8>, MachineError> {
        self.0.save()
    }
    fn digest(&mut self) -> Result<String, MachineError> {
        self.0.digest()
    }
    fn revision(&mut self) -> Result<u64, MachineError> {
        self.0.revision()
    }
    fn questions(&mut self, instance: u64) -> Result<Vec<Question>, MachineError> {
        self.0.questions(instance)
    }
    fn view(&mut self, instance: u64) -> Result<String, MachineError> {
        self.0.view(instance)
    }
    fn replay(
        &mut self,
        state: &[u8],
        policy: &[u8],
        steps: &[Step],
        digest_every: u32,
    ) -> Result<Vec<Replayed>, MachineError> {
        self.0.replay(state, policy, steps, digest_every)
    }
    fn fuel_used(&self) -> Option<u64> {
        None
    }
}

#[test]
fn another_core_is_told_by_what_it_decides_and_its_digests_are_not_compared() {
    let night = night();
    let trace = text(night.trace());
    let mut other = Core::of(Other(Native::new()), &"e".repeat(64), "another core");
    let found = divergence(&trace, &mut other).unwrap();
    assert_eq!((found.line, found.revision), (2, night_line_revision(&trace)), "{found:#?}");
    assert!(found.fields.iter().all(|field| field.path.ends_with(".reason")), "{found:#?}");
    assert_eq!(found.fields[0].replayed, "\"halted\"");

    let folder = Folder::new();
    let path = folder.file("TRACE.jsonl", &trace);
    let mut same = Core::of(Native::new(), &"e".repeat(64), "the same under another name");
    let report = replay::file(&path, &mut same).unwrap().unwrap().trace.unwrap();
    assert_eq!((report.divergence, report.digests_compared), (None, 0));
    assert_eq!(report.digests_of_other_cores, report.inputs + report.runs);
}

fn night_line_revision(trace: &str) -> u64 {
    let line = trace.lines().nth(1).unwrap();
    serde_json::from_str::<serde_json::Value>(line).unwrap()["revision"].as_u64().unwrap()
}

#[test]
fn segments_are_read_compressed_too_and_torn_lines_are_left_out_and_said() {
    let (folder, night) = (Folder::new(), night());
    let journal = night.journal();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut gz, &journal).unwrap();
    let packed = folder.file("0-45.jsonl.gz", gz.finish().unwrap());
    let report = replay::file(&packed, &mut native()).unwrap().unwrap().journal.unwrap();
    assert_eq!((report.last_revision, report.torn_bytes), (night.world.state.revision, 0));
    let torn = folder.file("EVENTS.jsonl", &journal[..journal.len() - 40]);
    let report = replay::file(&torn, &mut native()).unwrap().unwrap().journal.unwrap();
    assert_eq!(report.last_revision, night.world.state.revision - 1);
    assert!(report.torn_bytes > 0);
    let trace = night.trace();
    let torn = folder.file("TRACE.jsonl", &trace[..trace.len() - 40]);
    let report = replay::file(&torn, &mut native()).unwrap().unwrap().trace.unwrap();
    assert!(report.torn_bytes > 0 && report.divergence.is_none());
}

#[test]
fn a_golden_trace_is_replayed_and_one_that_was_changed_is_named() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces/goal_reached.json");
    let report = replay::file(&golden, &mut native()).unwrap().unwrap().trace.unwrap();
    assert_eq!((report.decisions, report.divergence), (1, None));
    let folder = Folder::new();
    let text = fs::read_to_string(golden).unwrap();
    let at = text.rfind("goal_reached").unwrap();
    let changed = format!("{}goal_started{}", &text[..at], &text[at + "goal_reached".len()..]);
    let changed = folder.file("x.json", changed);
    let found = replay::file(&changed, &mut native()).unwrap().unwrap();
    assert_eq!(found.divergence().unwrap().fields[0].path, "decision.reason");
}

#[test]
fn what_is_no_recording_is_refused_with_one_sentence_and_a_next_command() {
    let folder = Folder::new();
    let check = |name: &str, text: &str, kind: ErrorKind, says: &str| {
        let error = replay::file(&folder.file(name, text), &mut native()).unwrap_err();
        assert_eq!(error.kind(), kind, "{name}: {error}");
        assert!(error.to_string().contains(says), "{name}: {error}");
        assert!(!error.hints().is_empty(), "{name}");
    };
    check("EVENTS.v1.jsonl", "{\"v\":1,\"revision\":1}\n", ErrorKind::Config, "version 1");
    check("GOAL.md", "Say hello.\n", ErrorKind::User, "no JSON object");
    check("empty", "", ErrorKind::User, "empty");
    let half = text(night().trace());
    check("TRACE.jsonl", half.split_once('\n').unwrap().1, ErrorKind::User, "in the middle of a trace");
}

#[test]
fn a_what_if_needs_a_trace_and_names_the_fault_of_the_policy_file() {
    let (folder, night) = (Folder::new(), night());
    let armed = folder.project(&night);
    let policy = folder.file("policy.json", r#"{"budget":{"maxCostUsdPerGoal":0.15}}"#);
    let found = replay::what_if(Recording::Project(&armed), &policy).unwrap();
    assert_eq!((found.control, found.recorded.merged, found.what_if.merged), (None, 2, 0));
    let of_file = replay::what_if(Recording::File(&armed.trace()), &policy).unwrap();
    assert_eq!(of_file.what_if, found.what_if);
    let refused = |recording, path: &PathBuf| replay::what_if(recording, path).unwrap_err();
    let events = armed.events();
    assert_eq!(refused(Recording::File(&events), &policy).kind(), ErrorKind::User);
    let bad = folder.file("bad.json", r#"{"budget":{"maxCostUsdPerGaol":1}}"#);
    let said = refused(Recording::Project(&armed), &bad);
    assert_eq!(said.kind(), ErrorKind::Config);
    assert!(said.to_string().contains("budget.maxCostUsdPerGaol: unknown key; did you mean"), "{said}");
    let document = r#"{"budget":{"maxCostUsdPerGoal":0.15}}"#;
    let padded = |length: usize| {
        folder.file("long.json", &format!("{document}{}", " ".repeat(length - document.len())))
    };
    let at = replay::what_if(Recording::Project(&armed), &padded(1024 * 1024)).unwrap();
    assert_eq!(at.what_if, found.what_if);
    let above = refused(Recording::Project(&armed), &padded(1024 * 1024 + 1));
    assert!(above.to_string().contains("larger than 1048576 bytes"), "{above}");
}
