//! One table as text: sections of a state with the rows that start from it. It decides nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use devloop_core::apply::apply_line;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Decision, Input, decide};
use devloop_core::diagnose::max_decisions;
use devloop_core::invariant;
use devloop_core::observation::Observation;
use devloop_core::policy::Policy;
use devloop_core::reason::Reason;
use devloop_core::report::{Outcome, Report};
use devloop_core::state::{LoopState, Op};
use devloop_core::task::Task;
use devloop_testkit::sketch::{difference, effect, event, facets};
use devloop_testkit::world::World;

/// The text of one table.
#[derive(Default)]
pub struct Sheet {
    text: String,
    base: BTreeMap<String, String>,
}

impl Sheet {
    /// A section: its title and the state that its rows start from.
    pub fn section(&mut self, title: &str, state: &LoopState) {
        self.base.clear();
        self.variant(title, state);
        self.base = facets(state);
    }

    /// A section whose state is that of the last one but for what is named.
    pub fn variant(&mut self, title: &str, state: &LoopState) {
        self.text += &format!("\n# {title}\n");
        for (name, text) in facets(state).iter().filter(|(name, text)| self.base.get(*name) != Some(*text)) {
            self.text += &format!("#   {name}: {text}\n");
        }
    }

    /// A line for the reader.
    pub fn note(&mut self, text: &str) {
        self.text += &format!("\n{text}\n");
    }

    /// One row: what comes in, what is decided, what differs then. The state after it.
    pub fn row(&mut self, what: &str, state: &LoopState, policy: &Policy, input: &Input) -> LoopState {
        let decision = decide(state, policy, input);
        self.text += &format!("\n{what}\n");
        let after = self.decision(state, &decision, "");
        for line in difference(state, &after) {
            self.text += &format!("   = {line}\n");
        }
        after
    }

    /// One row that goes on until the tick is over. The state after it.
    pub fn tick(&mut self, what: &str, state: &LoopState, policy: &Policy, seen: &Observation) -> LoopState {
        self.text += &format!("\n{what}\n");
        self.rest(state, policy, seen, "")
    }

    /// What the next tick makes of it.
    pub fn then(&mut self, state: &LoopState, policy: &Policy, seen: &Observation) -> LoopState {
        self.rest(state, policy, seen, "then ")
    }

    fn rest(&mut self, state: &LoopState, policy: &Policy, seen: &Observation, mark: &str) -> LoopState {
        let input = Input::Observation(seen.clone());
        let mut at = state.clone();
        for _ in 0..max_decisions(state, policy) {
            let decision = decide(&at, policy, &input);
            at = self.decision(&at, &decision, mark);
            if decision.reason.is_final() {
                for line in difference(state, &at) {
                    self.text += &format!("   = {line}\n");
                }
                return at;
            }
        }
        panic!("the tick does not end:\n{}", self.text);
    }

    fn decision(&mut self, state: &LoopState, decision: &Decision, mark: &str) -> LoopState {
        let events: Vec<String> = decision.events.iter().map(event).collect();
        let effects: Vec<String> = decision.effects.iter().map(effect).collect();
        self.text += &format!("   {mark}{}", decision.reason.key());
        if let Reason::Refused(refusal) = &decision.reason {
            self.text += &format!(": {}", refusal.sentence());
        }
        if !events.is_empty() {
            self.text += &format!(" | {}", events.join("; "));
        }
        if !effects.is_empty() {
            self.text += &format!(" | -> {}", effects.join("; "));
        }
        self.text += "\n";
        let mut after = state.clone();
        if !decision.events.is_empty() {
            apply_line(&mut after, &decision.events).expect("the events follow from the state");
            assert_eq!(invariant::check(&after), Ok(()), "{}", self.text);
        }
        after
    }

    /// Compares with the text that was reviewed; writes it anew when asked to.
    pub fn compare(self, name: &str) {
        let file = format!("tests/tables/{name}.txt");
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(&file);
        if std::env::var_os("DEVLOOP_BLESS").is_some() {
            std::fs::write(&path, &self.text).expect("a table is written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = kept.lines().zip(self.text.lines()).position(|(old, new)| old != new);
        let line = differs.unwrap_or_else(|| kept.lines().count().min(self.text.lines().count()));
        assert!(
            kept == self.text,
            "{file}:{} differs.\n kept: {:?}\n now:  {:?}\nLook at the change, then write it anew with \
             DEVLOOP_BLESS=1 cargo test -p devloop-core --test tables",
            line + 1,
            kept.lines().nth(line),
            self.text.lines().nth(line)
        );
    }
}

/// Ticks until such an operation runs on a task (or planning); its own report is taken out of the queue.
pub fn until(world: &mut World, op: Op) -> Report {
    for _ in 0..60 {
        world.tick();
        let on_task = |subject: &devloop_core::hold::Subject| *subject != devloop_core::hold::Subject::Target;
        let found = world.state.leases.iter().find(|(_, l)| l.op == op && on_task(&l.subject));
        if let Some((dispatch, lease)) = found {
            let (dispatch, epoch) = (*dispatch, lease.epoch);
            world.queue.retain(|report| report.dispatch != dispatch);
            let outcome = Outcome::NoResult { detail: "nothing".into() };
            return Report { dispatch, epoch, usage: None, outcome };
        }
    }
    panic!("no {op:?} ever runs");
}

/// An observation with one report in it, two seconds later.
pub fn seen_with(world: &mut World, report: Report) -> Input {
    world.wall += 2_000;
    let mut seen = world.observe();
    seen.reports = vec![report];
    Input::Observation(seen)
}

/// A wish as an input.
pub fn wish(world: &World, wish: Wish) -> Input {
    Input::Command { stamp: world.stamp(), command: Command { by: "cli".into(), wish } }
}

/// Changes one task of a state, as no event could.
pub fn change(state: &mut LoopState, id: &str, change: impl Fn(&mut Task)) {
    let mut tasks: Vec<Task> = state.tasks.clone().into();
    tasks.iter_mut().filter(|task| task.id.as_str() == id).for_each(change);
    state.tasks = tasks.try_into().expect("ids stay");
}
