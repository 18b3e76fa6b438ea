//! The simulator: a seeded world around the pure core, with its clocks, disk, repository, workers, operators
//! and every fault they have. After every step all promises are checked; at the end everybody becomes
//! reasonable, and then the goal must be reached. Nothing real is touched, and nothing here decides.

mod audit;
mod carried;
mod coverage;
mod disk;
mod draw;
mod flight;
mod many;
mod night;
mod outcome;
mod people;
mod repo;
mod rest;
mod rules;
mod shrink;
mod supervisor;
mod time;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};

use devloop_core::command::Wish;
use devloop_core::decide::{Decision, Input};
use devloop_core::ids::{Digest, DispatchId};
use devloop_core::observation::{Observation, Others};
use devloop_core::policy::Policy;
use devloop_core::reason::Reason;
use devloop_core::report::Report;
use devloop_core::state::{LoopState, Owner};
use devloop_wire::state_doc;
use devloop_wire::trace_line::{self, TraceEntry};

pub use audit::Broken;
pub use coverage::{Coverage, tripped};
pub use draw::Script;
pub use many::{Many, many};
pub use night::{Night, of_script, of_seed, traced};
pub use shrink::shrink;

use audit::Audit;
use disk::Disk;
use draw::Draw;
use flight::{Flight, Later};
use repo::Repo;
use supervisor::Supervisor;
use time::Time;

/// The whole world of one night.
#[derive(Debug)]
pub struct World {
    draw: Draw,
    /// How often outcomes are bad, in percent of the usual.
    faults: u64,
    /// What goes wrong in this night rather than anything else: luck seldom changes.
    habit: u64,
    /// How often ticks are ended by force, in permille.
    danger: u64,
    time: Time,
    disk: Disk,
    repo: Repo,
    policy: Policy,
    goal: Option<u64>,
    /// Something that is no text has the goal's name.
    goal_unusable: bool,
    free_disk: u64,
    others: Others,
    me: Option<Supervisor>,
    /// A process that lives but lost its session.
    keep_owner: Option<Owner>,
    instances: u64,
    cuts: u32,
    flights: BTreeMap<DispatchId, Flight>,
    /// Dispatches whose process was started: their records outlive everything.
    records: BTreeSet<DispatchId>,
    inbox: Vec<Report>,
    later: Vec<Later>,
    next_name: u64,
    last_wish: Option<Wish>,
    last_reason: Option<Reason>,
    /// What the last tick saw.
    last_seen: Option<Observation>,
    helped: BTreeMap<String, u32>,
    /// The revision that questions were last looked at.
    offered_at: Option<u64>,
    audit: Audit,
    seen: Coverage,
    trace: Option<Trace>,
}

/// The inputs and decisions of a night in the form of TRACE.jsonl.
#[derive(Clone, Debug, Default)]
struct Trace {
    lines: Vec<Vec<u8>>,
    at: Option<(Digest, Digest)>,
    story: String,
}

/// The digest of a goal's text.
fn goal_digest(text: u64) -> Digest {
    Digest::parse(&format!("{:064x}", 100 + text)).expect("64 hex digits")
}

impl World {
    fn new(mut draw: Draw, traced: bool) -> World {
        let faults = draw.pick(&[0, 40, 100, 200]);
        let danger = draw.pick(&[0, 5, 20, 80]);
        let habit = draw.below(24);
        let time = Time::new(&mut draw);
        let policy = rules::policy(&mut draw);
        let mut repo = Repo::new();
        let branch = draw.pick(&[repo::HOME, "main", "trunk", "devloop/goal-1"]);
        repo.start_on(branch);
        if draw.odd(30) {
            repo.head = None;
        }
        let carried = draw.odd(60).then(|| carried::state(&mut draw, time.wall(), branch));
        let seen = Coverage::of(carried.as_ref());
        World {
            draw,
            faults,
            habit,
            danger,
            time,
            disk: carried.as_ref().map_or_else(Disk::default, Disk::of),
            repo,
            policy,
            goal: Some(0),
            goal_unusable: false,
            free_disk: 1 << 40,
            others: Others::default(),
            me: None,
            keep_owner: None,
            instances: 0,
            cuts: 0,
            flights: BTreeMap::new(),
            records: BTreeSet::new(),
            inbox: Vec::new(),
            later: Vec::new(),
            next_name: 0,
            last_wish: None,
            last_reason: None,
            last_seen: None,
            helped: BTreeMap::new(),
            offered_at: None,
            audit: carried.map_or_else(Audit::default, Audit::carried),
            seen,
            trace: traced.then(Trace::default),
        }
    }

    /// True in `permille` of a thousand cases of a night with the usual faults.
    fn faulty(&mut self, permille: u64) -> bool {
        let permille = permille * self.faults / 100;
        self.draw.odd(permille)
    }

    /// Which of `count` faults it is: the night's own one or any.
    fn fault(&mut self, count: u64) -> u64 {
        if self.draw.odd(600) { self.habit % count } else { self.draw.below(count) }
    }

    /// Something happened to the world.
    fn happened(&mut self, name: &'static str) {
        self.seen.trouble(name);
        let at = self.draw.step();
        if let Some(trace) = &mut self.trace {
            trace.story.push_str(&format!("step {at}: {name}\n"));
        }
    }

    /// Keeps what was decided, when a trace is wanted: the first `keep` recorded decisions, all when none is
    /// named.
    fn record(&mut self, before: &LoopState, input: &Input, group: &[Decision], keep: Option<usize>) {
        let at = self.draw.step();
        let Some(trace) = &mut self.trace else { return };
        for decision in group {
            let effects: Vec<&str> = decision.effects.iter().map(coverage::effect).collect();
            let asked = if effects.is_empty() { String::new() } else { format!(" [{}]", effects.join(", ")) };
            trace.story.push_str(&format!("step {at}: {}{asked}\n", decision.reason.sentence()));
        }
        if keep.is_some() {
            // What is lost was never decided; the next line starts from what is left.
            return;
        }
        let head = (self.policy.digest.clone(), state_doc::digest(before));
        if trace.at.as_ref() != Some(&head) {
            trace.lines.push(trace_line::write_head(before, &disk::core(), &self.policy));
        }
        let mut after = before.clone();
        for decision in group.iter().filter(|decision| !decision.events.is_empty()) {
            // The fold was checked when it was decided.
            let _ = devloop_core::apply::apply_line(&mut after, &decision.events);
        }
        let digest = state_doc::digest(&after);
        let entry = TraceEntry { revision: after.revision, input, decisions: group, state_digest: &digest };
        trace.lines.push(trace_line::write(&entry));
        trace.at = Some((head.0, digest));
    }
}
