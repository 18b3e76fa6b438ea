//! Owns recordings that every form of the core must decide exactly so: random runs, runs with hostile values,
//! the golden traces, and texts that are refused. The native core writes what is expected; it must not be
//! trusted more than the others: a difference is a bug on one of the two sides.

use std::path::Path;

use devloop_core::apply::apply_line;
use devloop_core::command::Wish;
use devloop_core::decide::{Decision, Input, decide};
use devloop_core::ids::FindingId;
use devloop_core::policy::Policy;
use devloop_core::reason::Reason;
use devloop_core::report::{Outcome, Report};
use devloop_core::state::LoopState;
use devloop_core::units::{MAX_NUMBER, UsdMicros};
use devloop_wire::{canonical, policy_doc, state_doc};
use serde::{Deserialize, Serialize};

use crate::random::{Inputs, Random};

/// A run from a state document under a policy document.
#[derive(Clone, Debug, Serialize)]
pub struct Recording {
    /// What it is, for a failing comparison.
    pub name: String,
    /// The state document.
    pub state: String,
    /// The policy document.
    pub policy: String,
    /// The end of the sentence with which the documents are refused before the first step: what is wrong, by
    /// whatever name the document goes there.
    pub refused: Option<String>,
    /// What happens then, each step on the state that the one before led to.
    pub steps: Vec<Step>,
}

/// One input with what comes of it.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The input as JSON text, or something that is none.
    pub input: String,
    /// The decision as canonical JSON; none when the input is refused.
    pub decision: Option<String>,
    /// The sentence with which the input is refused.
    pub refused: Option<String>,
    /// SHA-256 of the saved state afterwards.
    pub digest: String,
}

/// A loop being recorded.
struct Recorder {
    state: LoopState,
    policy: Policy,
    recording: Recording,
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

impl Recorder {
    fn new(name: String, state: LoopState, policy: Policy) -> Self {
        let (before, rules) = (text(state_doc::write(&state)), text(policy_doc::policy_bytes(&policy)));
        let recording = Recording { name, state: before, policy: rules, refused: None, steps: Vec::new() };
        Self { state, policy, recording }
    }

    /// Decides on one text, if it is an input, and takes up what is decided.
    fn take(&mut self, input: &str) -> Option<Reason> {
        let read: Result<Input, _> = serde_json::from_str(input);
        let decided = read.as_ref().map(|input| decide(&self.state, &self.policy, input));
        if let Ok(Decision { events, .. }) = &decided
            && !events.is_empty()
        {
            apply_line(&mut self.state, events).expect("what is decided fits the state");
        }
        self.recording.steps.push(Step {
            input: input.to_owned(),
            decision: decided.as_ref().ok().map(|decision| text(canonical(decision))),
            refused: decided.as_ref().err().map(|error| format!("input: {error}")),
            digest: state_doc::digest(&self.state).to_string(),
        });
        decided.ok().map(|decision| decision.reason)
    }

    /// Decides until the tick on this input is over; a command is decided once.
    fn tick(&mut self, input: &Input) {
        let once = matches!(input, Input::Command { .. });
        let input = text(canonical(input));
        for _ in 0..MAX_DECISIONS {
            if self.take(&input).is_none_or(|reason| once || reason.is_final()) {
                return;
            }
        }
        panic!("{}: a tick does not end", self.recording.name);
    }
}

/// More decisions than a tick of these small loops takes.
const MAX_DECISIONS: usize = 200;

/// A random run; with `hostile` values put into its inputs when asked.
fn random_run(seed: u64, inputs: usize, hostile: bool) -> Recording {
    let mut source = Inputs::new(seed);
    let kind = if hostile { "hostile" } else { "random" };
    let name = format!("{kind} run {seed}");
    let mut recorder = Recorder::new(name, LoopState::default(), source.policy());
    let mut random = Random::new(seed);
    for _ in 0..inputs {
        let mut input = source.next(&recorder.state);
        if hostile {
            twist(&mut random, &mut input);
        }
        recorder.tick(&input);
    }
    recorder.recording
}

/// Texts that have hurt programs before: names of JavaScript's own, marks, controls, limits.
fn hostile_text(random: &mut Random) -> String {
    let texts = [
        "__proto__",
        "constructor",
        "hasOwnProperty",
        "\u{0}\u{1}\u{7f}",
        "\u{2028}\u{2029}\u{feff}",
        "\u{202e}gpj.exe",
        "e\u{301} \u{1f469}\u{200d}\u{1f680} \u{10ffff}",
        "\"\\\r\n\t</script>",
        "9007199254740993",
        "-0",
        "",
    ];
    match random.below(16) {
        0 => "x".repeat(8_192),
        1 => "\u{1f600}".repeat(8_193),
        _ => random.pick(&texts).to_owned(),
    }
}

fn hostile_number(random: &mut Random) -> u64 {
    random.pick(&[0, 1, MAX_NUMBER - 1, MAX_NUMBER, u64::MAX])
}

/// Puts hostile values where a worker, an operator or the machine could have put them.
fn twist(random: &mut Random, input: &mut Input) {
    match input {
        Input::Command { command, .. } => {
            command.by = hostile_text(random);
            if let Wish::Edit { edit, .. } = &mut command.wish {
                edit.criteria = Some(vec![hostile_text(random)]);
            }
        }
        Input::Observation(seen) => {
            if random.chance(5) {
                seen.free_disk_bytes = hostile_number(random);
            }
            if random.chance(5) {
                seen.others.committed_today = UsdMicros(hostile_number(random));
            }
            seen.reports.iter_mut().for_each(|report| twist_report(random, report));
        }
    }
}

fn twist_report(random: &mut Random, report: &mut Report) {
    if let Some(usage) = report.usage.as_mut().filter(|_| random.chance(10)) {
        usage.cost = Some(UsdMicros(hostile_number(random)));
        usage.tokens.output = hostile_number(random);
    }
    match &mut report.outcome {
        Outcome::Planned { tasks } => {
            for task in tasks.iter_mut() {
                task.title = hostile_text(random);
                if random.chance(10) {
                    task.id = random.pick(&["__proto__", "constructor", "toString", "a/b", ""]).to_owned();
                }
            }
        }
        Outcome::Worked { summary } | Outcome::WorkBlocked { summary } | Outcome::WorkFailed { summary } => {
            *summary = hostile_text(random);
        }
        Outcome::Reviewed(review) => {
            review.notes = hostile_text(random);
            for found in &mut review.findings {
                found.text = hostile_text(random);
                found.path = random.chance(50).then(|| hostile_text(random));
                found.id = random.chance(50).then(|| FindingId(random.pick(&[0, 1, 2, u32::MAX])));
            }
        }
        Outcome::NotMerged { detail, paths, .. } | Outcome::CommitRefused { detail, paths, .. } => {
            *detail = hostile_text(random);
            paths.push(hostile_text(random));
        }
        Outcome::NoResult { detail }
        | Outcome::InvalidResult { detail }
        | Outcome::Refused { detail }
        | Outcome::Failed { detail, .. } => *detail = hostile_text(random),
        Outcome::Checked(_)
        | Outcome::Committed { .. }
        | Outcome::CommitEmpty
        | Outcome::Merged { .. }
        | Outcome::AlreadyMerged { .. }
        | Outcome::Refreshed { .. }
        | Outcome::Reverted { .. } => {}
    }
}

/// What a golden trace holds.
#[derive(Deserialize)]
struct Golden {
    policy: Policy,
    state: LoopState,
    input: Input,
    decision: Decision,
}

/// The golden traces of a folder, by name, each with its one decision.
fn golden_runs(folder: &Path) -> std::io::Result<Vec<Recording>> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    let record = |path: &std::path::PathBuf| {
        let golden: Golden = serde_json::from_slice(&std::fs::read(path)?)?;
        let name = format!("golden {}", path.file_stem().unwrap_or_default().to_string_lossy());
        let mut recorder = Recorder::new(name, golden.state, golden.policy);
        recorder.take(&text(canonical(&golden.input)));
        // The trace is the authority here, not the core that records.
        recorder.recording.steps[0].decision = Some(text(canonical(&golden.decision)));
        Ok(recorder.recording)
    };
    paths.iter().map(record).collect()
}

/// Texts that are no inputs, between two that are: a refusal leaves the loop as it was.
fn refused_inputs() -> Recording {
    let mut source = Inputs::new(2);
    let policy = source.policy();
    let mut recorder = Recorder::new("texts that are no inputs".into(), LoopState::default(), policy);
    let first = source.next(&recorder.state);
    recorder.tick(&first);
    let whole = text(canonical(&source.next(&recorder.state)));
    let cut = |at: usize| whole.get(..at).unwrap_or_default().to_owned();
    let mut texts = vec![
        String::new(),
        "null".into(),
        "{}".into(),
        "[]".into(),
        "{\"observation\":{}}".into(),
        "{\"__proto__\":{}}".into(),
        "{\"command\":{\"stamp\":null}}".into(),
        whole.replacen("\"wall\":", "\"wall\":-", 1),
        whole.replacen("\"wall\":", "\"wall\":0.5e", 1),
        whole.replacen("\"wall\":", "\"wall\":99999999999999999999", 1),
        whole.replacen("\"stamp\":", "\"__proto__\":1,\"stamp\":", 1),
        format!("{whole} trailing"),
        "[".repeat(200),
    ];
    texts.extend((1..whole.len()).step_by(97).map(cut));
    texts.iter().for_each(|text| {
        recorder.take(text);
    });
    recorder.take(&whole);
    recorder.recording
}

/// Documents that are refused, with the sentence.
fn refused_documents() -> Vec<Recording> {
    let whole = Recorder::new(String::new(), LoopState::default(), Inputs::new(2).policy()).recording;
    let states = [
        whole.state.replacen("\"version\":2", "\"version\":3", 1),
        whole.state.replacen("\"version\":2", "\"version\":2,\"__proto__\":{}", 1),
        whole.state.replacen("\"revision\":0", "\"revision\":9007199254740992", 1),
        whole.state.replacen("\"revision\":0", "\"revision\":-1", 1),
        whole.state.get(..whole.state.len() / 2).unwrap_or_default().to_owned(),
        String::new(),
    ];
    let policies = [
        whole.policy.replacen("\"version\":2", "\"version\":9", 1),
        whole.policy.replacen("\"planner\":\"planner\"", "\"planner\":\"__proto__\"", 1),
        whole.policy.replacen("\"limits\":", "\"limit\":", 1),
    ];
    let of_state = states.into_iter().map(|state| Recording { state, ..whole.clone() });
    let of_policy = policies.into_iter().map(|policy| Recording { policy, ..whole.clone() });
    let refused = of_state.chain(of_policy).enumerate().map(|(i, mut recording)| {
        let state = state_doc::parse(recording.state.as_bytes()).err().map(|error| error.what);
        let policy = policy_doc::parse_policy(recording.policy.as_bytes()).err().map(|error| error.what);
        recording.name = format!("refused document {i}");
        recording.refused = Some(state.or(policy).expect("one of the two is refused"));
        recording
    });
    refused.collect()
}

/// The whole corpus, always the same. `traces` is the folder of the golden traces.
///
/// # Errors
/// When a trace cannot be read.
///
/// # Panics
/// When the core contradicts itself.
pub fn recordings(traces: &Path) -> std::io::Result<Vec<Recording>> {
    let mut all: Vec<Recording> = (0..48).map(|seed| random_run(seed, 50, false)).collect();
    all.extend((1_000..1_012).map(|seed| random_run(seed, 50, true)));
    all.extend(golden_runs(traces)?);
    all.push(refused_inputs());
    all.extend(refused_documents());
    Ok(all)
}
