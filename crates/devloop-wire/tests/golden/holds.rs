//! Golden traces of holds and circuits, each a small trace that `devloop replay` takes. `holds/<kind>.jsonl`
//! ends a tick with that hold open and then has its question answered; `circuits/<key>.jsonl` ends a tick in
//! which that circuit makes work wait. What is asked and offered stands in `holds/questions.txt`.
//!
//! `DEVLOOP_BLESS=1` records what no longer replays anew, out of simulated nights: the shortest one found.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use devloop_core::answer::Answer;
use devloop_core::apply::apply_line;
use devloop_core::circuit::TABLE;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Decision, Input, decide};
use devloop_core::hold::{HoldKey, HoldKind};
use devloop_core::ids::Digest;
use devloop_core::policy::Policy;
use devloop_core::question::{Question, open_questions};
use devloop_core::reason::Reason;
use devloop_core::state::LoopState;
use devloop_testkit::sim;
use devloop_wire::state_doc;
use devloop_wire::trace_line::{self, TraceEntry, TraceRecord};

/// Nights that are looked through for the shortest trace of each; more only for what none of them has.
const NIGHTS: u64 = 400;
/// Where the search ends.
const MOST_NIGHTS: u64 = 4_000;

fn folder(name: &str) -> PathBuf {
    super::folder().join(name)
}

/// Circuits that open no hold: what they do shows in what waits.
fn waiting_circuits() -> impl Iterator<Item = &'static str> {
    TABLE.iter().filter(|row| row.hold.is_none()).map(|row| row.key)
}

/// One input with what was decided on it.
struct Beat {
    policy: Policy,
    before: LoopState,
    input: Input,
    decisions: Vec<Decision>,
    after: LoopState,
}

fn fold(state: &mut LoopState, decisions: &[Decision]) {
    for decision in decisions.iter().filter(|decision| !decision.events.is_empty()) {
        apply_line(state, &decision.events).expect("a decision folds");
    }
}

/// The beats of a trace, each decided again and compared.
fn replay(name: &str, lines: &[Vec<u8>]) -> Vec<Beat> {
    let mut at: Option<(Policy, LoopState)> = None;
    let mut beats = Vec::new();
    for line in lines {
        match trace_line::parse(line).unwrap_or_else(|error| panic!("{name}: {error}")) {
            TraceRecord::Head(head) => at = Some((head.policy, head.state)),
            TraceRecord::Line(line) => {
                let (policy, before) = at.clone().unwrap_or_else(|| panic!("{name} has no head"));
                let mut after = before.clone();
                for decided in &line.decisions {
                    assert_eq!(&decide(&after, &policy, &line.input), decided, "{name}");
                    fold(&mut after, std::slice::from_ref(decided));
                }
                assert_eq!(state_doc::digest(&after), line.state_digest, "{name}");
                at = Some((policy.clone(), after.clone()));
                beats.push(Beat { policy, before, input: line.input, decisions: line.decisions, after });
            }
        }
    }
    beats
}

fn read(path: &PathBuf) -> Option<Vec<Vec<u8>>> {
    let bytes = fs::read(path).ok()?;
    Some(bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect())
}

fn question(beat: &Beat, kind: HoldKind) -> Option<Question> {
    let Input::Observation(seen) = &beat.input else { return None };
    let instance = beat.after.last_instance(seen.stamp.owner.instance);
    let open = open_questions(&beat.after, &beat.policy, instance);
    open.into_iter().find(|question| question.key.kind == kind)
}

/// The first choice that does more than to leave it.
fn best(question: &Question) -> Option<Answer> {
    let moving = || question.answers.iter().filter(|offer| offer.answer != Answer::Stop);
    moving().find(|offer| offer.recommended).or_else(|| moving().next()).map(|offer| offer.answer)
}

fn answer(beat: &Beat, key: &HoldKey, answer: Answer) -> Option<Input> {
    let Input::Observation(seen) = &beat.input else { return None };
    let wish = Wish::Answer { answer, hold: Some(key.clone()), revision: None };
    Some(Input::Command { stamp: seen.stamp.clone(), command: Command { by: "cli".into(), wish } })
}

fn no_core() -> Digest {
    Digest::parse(&"0".repeat(64)).expect("64 hex digits")
}

/// A beat as a trace, with one more input behind it when there is one.
fn write(beat: &Beat, then: Option<Input>) -> Vec<u8> {
    let mut lines = vec![trace_line::write_head(&beat.before, &no_core(), &beat.policy)];
    let mut line = |input: &Input, decisions: &[Decision], after: &LoopState| {
        let state_digest = state_doc::digest(after);
        let entry = TraceEntry { revision: after.revision, input, decisions, state_digest: &state_digest };
        lines.push(trace_line::write(&entry));
    };
    line(&beat.input, &beat.decisions, &beat.after);
    if let Some(input) = then {
        let decision = decide(&beat.after, &beat.policy, &input);
        let mut after = beat.after.clone();
        fold(&mut after, std::slice::from_ref(&decision));
        line(&input, &[decision], &after);
    }
    lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect()
}

/// The shortest trace of everything that is wanted, by file.
#[derive(Default)]
struct Found(BTreeMap<PathBuf, Vec<u8>>);

impl Found {
    fn take(&mut self, path: PathBuf, text: Vec<u8>) {
        if self.0.get(&path).is_none_or(|kept| text.len() < kept.len()) {
            self.0.insert(path, text);
        }
    }

    fn look(&mut self, beat: &Beat, wanted: &[HoldKind]) {
        for kind in wanted {
            let opens = beat.before.open_holds().iter().all(|(_, hold)| hold.kind != *kind);
            // One that no decision opens is there from the start.
            if opens == kind.is_carried_over() {
                continue;
            }
            let Some(asked) = question(beat, *kind) else { continue };
            let input = best(&asked).and_then(|word| answer(beat, &asked.key, word));
            if input.is_some() {
                self.take(folder("holds").join(format!("{kind}.jsonl")), write(beat, input));
            }
        }
        for key in tripped(beat) {
            self.take(folder("circuits").join(format!("{key}.jsonl")), write(beat, None));
        }
    }
}

/// The circuits that make work wait, or end a dispatch, in this beat.
fn tripped(beat: &Beat) -> Vec<&'static str> {
    let over = |decision: &Decision| matches!(decision.reason, Reason::DeadlinePassed { .. });
    let mut found = Vec::new();
    if beat.decisions.iter().any(over) {
        found.push("dispatch_deadline");
    }
    let ends = beat.decisions.last().map(|decision| &decision.reason);
    if let (Input::Observation(seen), Some(Reason::Wait { .. })) = (&beat.input, ends) {
        found.extend(sim::tripped(&beat.after, &beat.policy, seen));
    }
    found
}

fn record() {
    let stale = |path: PathBuf| {
        let replays = |path: &PathBuf| {
            let lines = read(path)?;
            std::panic::catch_unwind(|| replay("", &lines)).ok().filter(|beats| !beats.is_empty())
        };
        replays(&path).is_none().then_some(path)
    };
    let holds = HoldKind::ALL.iter().map(|kind| folder("holds").join(format!("{kind}.jsonl")));
    let circuits = waiting_circuits().map(|key| folder("circuits").join(format!("{key}.jsonl")));
    let wanted: Vec<PathBuf> = holds.chain(circuits).filter_map(stale).collect();
    if wanted.is_empty() {
        return;
    }
    let name = |kind: &&HoldKind| wanted.contains(&folder("holds").join(format!("{kind}.jsonl")));
    let kinds: Vec<HoldKind> = HoldKind::ALL.iter().filter(name).copied().collect();
    let mut found = Found::default();
    for seed in 0..MOST_NIGHTS {
        if seed >= NIGHTS && wanted.iter().all(|path| found.0.contains_key(path)) {
            break;
        }
        let night = sim::traced(seed);
        replay(&format!("seed {seed}"), &night.trace).iter().for_each(|beat| found.look(beat, &kinds));
    }
    for name in ["holds", "circuits"] {
        fs::create_dir_all(folder(name)).expect("a folder of traces");
    }
    for (path, text) in found.0.into_iter().filter(|(path, _)| wanted.contains(path)) {
        fs::write(path, text).expect("a trace is written");
    }
}

#[test]
fn every_hold_has_a_trace_in_which_it_opens_and_is_answered_and_every_other_circuit_one_in_which_it_waits() {
    let bless = std::env::var_os("DEVLOOP_BLESS").is_some();
    if bless {
        record();
    }
    let mut text = String::from("What each trace beside this file asks, and how it is answered there.\n");
    for kind in HoldKind::ALL {
        let name = format!("holds/{kind}.jsonl");
        let lines = read(&super::folder().join(&name)).unwrap_or_else(|| panic!("no {name}"));
        let beats = replay(&name, &lines);
        let [opens, answered] = beats.as_slice() else { panic!("{name} has {} inputs", beats.len()) };
        let asked = question(opens, *kind).unwrap_or_else(|| panic!("{name}: {kind} is not open"));
        let open_before = opens.before.hold(&asked.key).is_some();
        assert_eq!(open_before, kind.is_carried_over(), "{name}: who opens it");
        let [Decision { reason: Reason::Answered { key, answer }, .. }] = answered.decisions.as_slice()
        else {
            panic!("{name}: {:?}", answered.decisions)
        };
        assert_eq!(*key, asked.key, "{name}");
        assert!(asked.answers.iter().any(|offer| offer.answer == *answer), "{name}: {answer:?}");
        assert!(answered.after.hold(key).is_none(), "{name}: answered and still open");
        describe(&mut text, &asked, *answer);
    }
    for key in waiting_circuits() {
        let name = format!("circuits/{key}.jsonl");
        let lines = read(&super::folder().join(&name)).unwrap_or_else(|| panic!("no {name}"));
        let beats = replay(&name, &lines);
        assert!(beats.iter().any(|beat| tripped(beat).contains(&key)), "{name}");
    }
    let beside = folder("holds").join("questions.txt");
    if bless {
        fs::write(&beside, &text).expect("the text beside the traces");
    }
    assert_eq!(fs::read_to_string(beside).unwrap_or_default(), text, "holds/questions.txt is stale");
}

fn describe(text: &mut String, asked: &Question, answer: Answer) {
    let _ = writeln!(text, "\n{}\n  {}", asked.key, asked.text);
    for offer in &asked.answers {
        let mark = if offer.answer == answer { " <- given" } else { "" };
        let _ = writeln!(text, "  {}: {}{mark}", offer.answer.word(), offer.text);
    }
}

#[test]
fn every_trace_belongs_to_a_hold_or_to_a_circuit() {
    let check = |name: &str, known: Vec<String>| {
        for entry in fs::read_dir(folder(name)).expect("a folder of traces") {
            let file = entry.expect("an entry").file_name().to_string_lossy().into_owned();
            assert!(known.contains(&file) || file == "questions.txt", "{name}/{file} is of nothing");
        }
    };
    check("holds", HoldKind::ALL.iter().map(|kind| format!("{kind}.jsonl")).collect());
    check("circuits", waiting_circuits().map(|key| format!("{key}.jsonl")).collect());
}
