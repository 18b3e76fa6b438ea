//! The core native and in its component, on the same loops: a quiet decision, decisions and events in one
//! batch, open and save; how fast, and how the costs grow with the number of tasks.

use devloop_bridge::Step;
use devloop_host::machine::{Component, Machine, Native};

use crate::Outcome;
use crate::figures::{self, Samples, cpu_timed, in_turns, shown, times};
use crate::ground::Ground;

/// Ten times as many from one to the next, so that a growth above ten is worse than linear.
const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
/// Above this many tasks a night is measured in part only.
const MANY: usize = 100;
/// The size that the goals speak of.
const USUAL: usize = 20;
const EVENTS_GOAL: f64 = 1_100_000.0;
const DECISIONS_GOAL: f64 = 500_000.0;
/// Digests are not part of what is measured.
const NO_DIGEST: u32 = u32::MAX;

/// What one size costs, native and in the component, in seconds of CPU time.
struct Costs(Vec<(&'static str, Samples, Samples)>);

/// Measures every size and prints the tables.
pub fn report(rounds: usize) -> Outcome<()> {
    usual(rounds)?;
    let mut sizes = Vec::new();
    for size in SIZES {
        let rounds = if size > 1_000 { rounds / 3 + 1 } else { rounds };
        sizes.push(of_size(size, rounds)?);
    }
    against_native(&sizes);
    growth(&sizes);
    Ok(())
}

/// The rates at the usual size.
fn usual(rounds: usize) -> Outcome<()> {
    let Costs(costs) = of_size(USUAL, rounds)?;
    let rate = |samples: &Samples| 1.0 / samples.median();
    let mut rows = Vec::new();
    for (what, native, component) in &costs {
        let goal = match *what {
            FOLD => EVENTS_GOAL,
            BATCH => DECISIONS_GOAL,
            _ => continue,
        };
        let verdict = if rate(component) >= goal { "met" } else { "missed" };
        rows.push(vec![
            (*what).to_owned(),
            thousands(rate(native)),
            thousands(rate(component)),
            format!("{}: {verdict}", thousands(goal)),
            shown(component.median()),
        ]);
    }
    let text = "At 20 tasks, on one core, in seconds of CPU time of the calling thread. A batch is one call \
                over the boundary with the steps of several goals from plan to merge: observations with \
                reports go in, decisions with events and effects come out. What opening the state costs is \
                measured beside it and taken off.";
    let columns = ["what", "native, a second", "component, a second", "goal", "component, each"];
    figures::print("How fast the core is", text, &columns, &rows);
    Ok(())
}

fn thousands(rate: f64) -> String {
    format!("{:.0} thousand", rate / 1e3)
}

const QUIET: &str = "quiet decision";
const BATCH: &str = "decision in a batch";
const FOLD: &str = "event folded in a batch";
const LINE: &str = "line folded by itself";
const OPEN: &str = "open";
const SAVE: &str = "save";

fn of_size(size: usize, rounds: usize) -> Outcome<Costs> {
    // Small loops go on for several goals; in large ones nothing may end, or they would no longer be large.
    let ground = Ground::new(size, if size > MANY { 60 } else { 2_000 })?;
    let (mut native, mut component) = (Native::new(), Component::embedded()?);
    native.open(&ground.state, &ground.policy)?;
    component.open(&ground.state, &ground.policy)?;
    let quiet =
        in_turns(rounds, || expect(native.decide(&ground.wait)), || expect(component.decide(&ground.wait)));
    let saved = in_turns(rounds, || expect(native.save()), || expect(component.save()));
    let (mut other, mut sealed) = (Native::new(), Component::embedded()?);
    let opened = in_turns(rounds, || open(&mut other, &ground), || open(&mut sealed, &ground));
    let lines: Vec<Step> = ground.lines.iter().cloned().map(Step::Line).collect();
    let events: usize = ground.lines.iter().map(Vec::len).sum();
    let decided = batches(&ground, &ground.steps, ground.steps.len(), rounds)?;
    let folded = batches(&ground, &lines, events, rounds)?;
    let one = one_by_one(&ground, rounds)?;
    let row = |what, (native, component)| (what, native, component);
    Ok(Costs(vec![
        row(QUIET, quiet),
        row(BATCH, decided),
        row(FOLD, folded),
        row(LINE, one),
        row(OPEN, opened),
        row(SAVE, saved),
    ]))
}

/// A measurement of something that fails is worth nothing: it ends the run.
fn expect<T, E: std::fmt::Display>(answer: Result<T, E>) {
    if let Err(error) = answer {
        panic!("the core failed while it was measured: {error}");
    }
}

fn open(machine: &mut dyn Machine, ground: &Ground) {
    expect(machine.open(&ground.state, &ground.policy));
}

/// The cost of one unit of a batch of `units`, without that of a batch of one step: its opening.
fn batches(ground: &Ground, steps: &[Step], units: usize, rounds: usize) -> Outcome<(Samples, Samples)> {
    let mut machines: [Box<dyn Machine>; 2] = [Box::new(Native::new()), Box::new(Component::embedded()?)];
    let mut samples = [Samples::default(), Samples::default()];
    for _ in 0..rounds {
        for (machine, samples) in machines.iter_mut().zip(&mut samples) {
            let mut run = |steps: &[Step]| {
                cpu_timed(|| expect(machine.replay(&ground.state, &ground.policy, steps, NO_DIGEST)))
            };
            let (opening, all) = (run(&steps[..1]), run(steps));
            samples.push((all - opening).max(0.0) / (units - 1) as f64);
        }
    }
    let [native, component] = samples;
    Ok((native, component))
}

/// All lines, one after the other, on a loop opened anew outside of the measurement.
fn one_by_one(ground: &Ground, rounds: usize) -> Outcome<(Samples, Samples)> {
    let (mut native, mut component) = (Native::new(), Component::embedded()?);
    let (mut first, mut second) = (Samples::default(), Samples::default());
    let fold = |machine: &mut dyn Machine| {
        open(machine, ground);
        let all = cpu_timed(|| ground.lines.iter().for_each(|line| expect(machine.fold(line))));
        all / ground.lines.len() as f64
    };
    for _ in 0..rounds {
        first.push(fold(&mut native));
        second.push(fold(&mut component));
    }
    Ok((first, second))
}

/// A short batch of events on a large state is lost in the noise of opening it.
fn is_told(what: &str, size: usize) -> bool {
    what != FOLD || size <= MANY
}

fn against_native(sizes: &[Costs]) {
    let mut rows = Vec::new();
    for (size, Costs(costs)) in SIZES.iter().zip(sizes) {
        for (what, native, component) in costs.iter().filter(|(what, ..)| is_told(what, *size)) {
            rows.push(vec![
                size.to_string(),
                (*what).to_owned(),
                shown(native.median()),
                shown(component.median()),
                times(component.median_ratio(native)),
            ]);
        }
    }
    let text = "Each measured in turns, native and component, in CPU time. `quiet decision`: one observation \
                that ends in waiting for running workers, nothing copied but the observation and the \
                decision. `line folded by itself`: one call for each journal line, the pending copy of the \
                state kept beside. `open` and `save`: the whole state as a document.";
    let columns = ["tasks", "what", "native", "component", "component / native"];
    figures::print("The core, native and in its component", text, &columns, &rows);
}

/// How the costs of the component grow from one size to the next, which has ten times as many tasks.
fn growth(sizes: &[Costs]) {
    let mut rows = Vec::new();
    for (at, what) in [QUIET, BATCH, FOLD, LINE, OPEN, SAVE].into_iter().enumerate() {
        let medians: Vec<f64> = sizes.iter().map(|Costs(costs)| costs[at].2.median()).collect();
        let mut row = vec![what.to_owned()];
        let steps = medians.windows(2).zip(&SIZES[1..]);
        let none = || "not told".to_owned();
        row.extend(steps.map(|(pair, size)| match is_told(what, *size) {
            true => times(pair[1] / pair[0]),
            false => none(),
        }));
        let (last, size) = (medians[medians.len() - 1], SIZES[SIZES.len() - 1]);
        row.push(if is_told(what, size) { shown(last / size as f64) } else { none() });
        rows.push(row);
    }
    let text = "In the component, for ten times as many tasks: below 10x a task costs less, at 10x as much \
                as before. Nine of ten tasks are done with two entries each in the ledger, the others wait.";
    let columns = ["what", "10 to 100 tasks", "100 to 1,000", "1,000 to 10,000", "each task, at 10,000"];
    figures::print("How costs grow", text, &columns, &rows);
}
