//! Owns the course of a night: its setting, its wild steps, and the calm after them in which everybody is
//! reasonable and the goal must be reached.

use std::panic::{AssertUnwindSafe, catch_unwind};

use devloop_core::command::Wish;
use devloop_core::hold::HoldKind;
use devloop_core::ids::Branch;
use devloop_core::observation::{Checkout, Others};
use devloop_core::question::Question;
use devloop_core::reason::{Reason, WaitWhy};
use devloop_core::state::Phase;
use devloop_wire::state_doc;

use super::audit::{Broken, Kept};
use super::draw::{Draw, Script};
use super::{Coverage, World, repo, rules};

/// Ticks that a reasonable world may take to reach the goal.
const CALM_TICKS: u32 = 600;
/// Ticks in a row that a reasonable world may wait for something outside.
const CALM_WAITS: u32 = 20;

/// What came of a night.
#[derive(Clone, Debug)]
pub struct Night {
    /// Everything that was chosen.
    pub script: Script,
    /// What was reached.
    pub seen: Coverage,
    /// The promise that was broken, if one was.
    pub broken: Option<Broken>,
    /// Inputs and decisions as lines of a trace; empty unless asked for.
    pub trace: Vec<Vec<u8>>,
    /// The same for people, one line each.
    pub story: String,
}

/// The night of a seed.
#[must_use]
pub fn of_seed(seed: u64) -> Night {
    run(Draw::of_seed(seed), None, false)
}

/// The night of a seed with its trace.
#[must_use]
pub fn traced(seed: u64) -> Night {
    run(Draw::of_seed(seed), None, true)
}

/// The night of a script. It is as long as the script.
#[must_use]
pub fn of_script(script: &Script, traced: bool) -> Night {
    let steps = script.steps.len().saturating_sub(1);
    run(Draw::of_script(script.clone()), Some(steps), traced)
}

fn run(mut draw: Draw, steps: Option<usize>, traced: bool) -> Night {
    let drawn = draw.pick(&[25, 50, 80, 140]);
    let steps = steps.unwrap_or(drawn);
    let trouble = draw.pick(&[0, 40, 120, 350]);
    let mut world = World::new(draw, traced);
    let lived = catch_unwind(AssertUnwindSafe(|| world.night(steps, trouble)));
    let broken = lived.unwrap_or_else(|panic| Err(Broken::new("I3", panicked(&panic)))).err();
    let trace = world.trace.take().unwrap_or_default();
    let script = world.draw.script().clone();
    Night { script, seen: world.seen, broken, trace: trace.lines, story: trace.story }
}

/// What a panic said.
fn panicked(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a panic: {}", text.unwrap_or("of unknown words"))
}

impl World {
    fn night(&mut self, steps: usize, trouble: u64) -> Kept {
        for _ in 0..steps {
            self.draw.next_step();
            self.step(trouble)?;
        }
        let end = self.last_reason.as_ref().map_or("none", Reason::key);
        self.seen.ended(end);
        self.calm()?;
        self.afterwards()
    }

    fn step(&mut self, trouble: u64) -> Kept {
        self.seen.steps += 1;
        self.pass_time();
        if self.draw.odd(trouble) {
            self.trouble()?;
        }
        if self.draw.odd(150) {
            self.mend();
        }
        self.land();
        let asked =
            matches!(self.last_reason, Some(Reason::Halted | Reason::StillPaused | Reason::StillComplete));
        if self.draw.odd(if asked { 700 } else { 60 }) {
            self.operate()?;
        }
        self.beat()
    }

    fn pass_time(&mut self) {
        let until = match &self.last_reason {
            Some(Reason::Wait { until: Some(until), .. }) => until.since(self.time.wall()),
            _ => 0,
        };
        let to_the_moment = until > 0 && self.draw.odd(400);
        let ms = self.draw.pick(&[30_000, 1_000, 5_500, 120_000, 900_000, 4_000_000]);
        self.time.pass(if to_the_moment { until } else { ms });
    }

    fn beat(&mut self) -> Kept {
        self.last_reason = self.tick()?;
        if let Some(reason) = self.last_reason.clone() {
            if let (Reason::Wait { .. }, Some(seen)) = (&reason, &self.last_seen) {
                self.seen.waits(&self.audit.shadow, &self.policy, seen);
            }
            self.at_rest(&reason)?;
        }
        let revision = self.audit.shadow.revision;
        if self.offered_at != Some(revision) {
            self.offered_at = Some(revision);
            self.offers()?;
        }
        self.audit.so_far()
    }

    /// Everybody is reasonable from here on; then the goal is reached.
    fn calm(&mut self) -> Kept {
        self.draw.calm_down();
        self.tidy_up();
        let mut waits = 0;
        for _ in 0..CALM_TICKS {
            self.land();
            self.beat()?;
            waits += 1;
            match self.last_reason.clone() {
                Some(Reason::StillComplete) => return Ok(()),
                Some(Reason::StillPaused) => self.say(Wish::Resume { task: None, reset_cost: false })?,
                Some(Reason::Wait { why: WaitWhy::NoopBackend { .. }, .. }) => self.loosen(),
                Some(Reason::Wait { why: WaitWhy::Time, until: Some(until) }) => {
                    waits = 0;
                    let ahead = until.since(self.time.wall());
                    self.time.pass(ahead);
                }
                Some(Reason::Wait { why: WaitWhy::Lease, .. }) => waits = 0,
                _ => {}
            }
            if !self.questions().is_empty() {
                waits = 0;
                let alone = |q: &Question| q.key.kind == HoldKind::NoIndependentReviewer;
                if self.questions().iter().any(alone) || !self.help()? {
                    self.loosen();
                    self.help()?;
                }
            }
            if waits > CALM_WAITS {
                return Err(self.stuck("waits although nothing is in the way"));
            }
            self.time.pass(30_000);
        }
        Err(self.stuck("does not reach its goal"))
    }

    /// The operator changes the configuration to what lets the goal be reached.
    fn loosen(&mut self) {
        self.policy = rules::generous(&self.policy);
    }

    /// The operator puts the world in order.
    fn tidy_up(&mut self) {
        self.faults = 0;
        self.danger = 0;
        self.free_disk = 1 << 40;
        self.others = Others::default();
        self.repo.checkout = Checkout::Free;
        self.goal = self.goal.or(Some(0));
        self.goal_unusable = false;
        let target = self.audit.shadow.target.branch.clone();
        if target.is_none() || self.repo.head.is_none() {
            let name = target.as_ref().map_or(repo::HOME, Branch::as_str).to_string();
            if target.is_none() || self.repo.tip(target.as_ref()).is_some() {
                self.repo.person_switches(&name);
            }
        }
    }

    fn stuck(&self, what: &str) -> Broken {
        let state = &self.audit.shadow;
        let reason = self.last_reason.as_ref().map_or("nothing", Reason::key);
        let holds: Vec<String> = self.questions().iter().map(|q| q.key.to_string()).collect();
        let stages: Vec<String> = state
            .tasks
            .iter()
            .filter(|task| task.is_live() && !task.is_done())
            .map(|task| format!("{} {:?}", task.id, task.stage).chars().take(160).collect())
            .collect();
        let what = format!(
            "a calm night {what}: {reason}, planning {:?}, holds [{}], tasks [{}]",
            state.planning,
            holds.join(", "),
            stages.join("; ")
        );
        Broken::new("liveness", what)
    }

    /// What must be true when it is all over.
    fn afterwards(&mut self) -> Kept {
        self.land();
        let state = &self.audit.shadow;
        if !matches!(state.phase, Phase::Complete { .. }) || !state.leases.is_empty() {
            return Err(Broken::new("rest", "the goal is reached while something runs"));
        }
        if let Some(dispatch) = self.repo.worktrees.iter().next() {
            return Err(Broken::new("I15", format!("the worktree of {dispatch} is left over")));
        }
        let folded = self.disk.replay().map_err(|what| Broken::new("replay", what))?;
        if folded != *state {
            return Err(Broken::new("replay", "the whole journal folds to another state"));
        }
        let read = state_doc::parse(&state_doc::write(state));
        if read.as_ref().ok() != Some(state) {
            return Err(Broken::new("replay", format!("the state document reads back as {read:?}")));
        }
        self.audit.money_is_kept()
    }
}
