//! The core native and in its component, on the same loops: decide, fold, open, save and the batch replay.

use devloop_host::machine::{Component, Machine, Native};

use crate::Outcome;
use crate::figures::{self, Samples, in_turns, shown, times};
use crate::ground::Ground;

const SIZES: [usize; 3] = [20, 1_000, 10_000];
/// Digests are not part of what is measured.
const NO_DIGEST: u32 = u32::MAX;

/// Measures every size and prints the table.
pub fn report(rounds: usize) -> Outcome<()> {
    let mut rows = Vec::new();
    for size in SIZES {
        let ground = Ground::new(size, 40)?;
        let rounds = if size > 1_000 { rounds / 2 + 1 } else { rounds };
        rows.extend(of_size(&ground, size, rounds)?);
    }
    let text = "Each measured in turns, native and component. `decide`: one observation that ends in \
                waiting for running workers, nothing copied but the observation and the decision. `fold`: \
                one journal line of a busy night. `replay`: one decision of the same night in one batch \
                call, opening included. `open` and `save`: the whole state as a document.";
    let columns = ["tasks", "what", "native", "component", "component / native"];
    figures::print("The core, native and in its component", text, &columns, &rows);
    Ok(())
}

fn of_size(ground: &Ground, size: usize, rounds: usize) -> Outcome<Vec<Vec<String>>> {
    let (mut native, mut component) = (Native::new(), Component::embedded()?);
    native.open(&ground.state, &ground.policy)?;
    component.open(&ground.state, &ground.policy)?;
    let row = |what: &str, per: f64, (native, component): (Samples, Samples)| {
        let ratio = times(component.median_ratio(&native));
        let of = |samples: &Samples| shown(samples.median() / per);
        vec![size.to_string(), what.into(), of(&native), of(&component), ratio]
    };
    let decided =
        in_turns(rounds, || expect(native.decide(&ground.wait)), || expect(component.decide(&ground.wait)));
    let saved = in_turns(rounds, || expect(native.save()), || expect(component.save()));
    let opened =
        in_turns(rounds, || open(&mut Native::new(), ground), || component_open(&mut component, ground));
    let replayed = in_turns(rounds, || replay(&mut native, ground), || replay(&mut component, ground));
    Ok(vec![
        row("decide", 1.0, decided),
        row("fold", ground.lines.len() as f64, folded(ground, rounds)?),
        row("replay, per decision", ground.steps.len() as f64, replayed),
        row("open", 1.0, opened),
        row("save", 1.0, saved),
    ])
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

fn component_open(machine: &mut Component, ground: &Ground) {
    open(machine, ground);
}

fn replay(machine: &mut dyn Machine, ground: &Ground) {
    expect(machine.replay(&ground.state, &ground.policy, &ground.steps, NO_DIGEST));
}

/// All lines, one after the other, on a loop opened anew outside of the measurement.
fn folded(ground: &Ground, rounds: usize) -> Outcome<(Samples, Samples)> {
    let (mut native, mut component) = (Native::new(), Component::embedded()?);
    let (mut first, mut second) = (Samples::default(), Samples::default());
    let fold = |machine: &mut dyn Machine| {
        open(machine, ground);
        figures::timed(|| ground.lines.iter().for_each(|line| expect(machine.fold(line))))
    };
    for _ in 0..rounds {
        first.push(fold(&mut native));
        second.push(fold(&mut component));
    }
    Ok((first, second))
}
