//! One call over and over for some seconds, for a profiler that is attached to this process. It prints how
//! often and how long, and writes no table.

use devloop_bridge::Step;
use devloop_host::machine::{Component, Machine, Native};

use crate::Outcome;
use crate::figures::cpu;
use crate::ground::Ground;

/// Of this thread, without what other programs of the machine take.
const SECONDS: f64 = 2.0;
const NO_DIGEST: u32 = u32::MAX;

/// `what` is decide, fold, replay, open or save; `how` is native or component.
pub fn run(what: &str, how: &str, tasks: &str) -> Outcome<()> {
    let size: usize = tasks.parse()?;
    let ground = Ground::new(size, if size > 100 { 60 } else { 2_000 })?;
    let mut machine: Box<dyn Machine> = match how {
        "native" => Box::new(Native::new()),
        "component" => Box::new(Component::embedded()?),
        _ => return Err("the machine is native or component".into()),
    };
    let lines: Vec<Step> = ground.lines.iter().cloned().map(Step::Line).collect();
    machine.open(&ground.state, &ground.policy)?;
    let (start, mut calls, mut units) = (cpu(), 0_usize, 0_usize);
    while cpu() - start < SECONDS {
        calls += 1;
        match what {
            "decide" => drop(machine.decide(&ground.wait)?),
            "open" => machine.open(&ground.state, &ground.policy)?,
            "save" => drop(machine.save()?),
            "replay" => {
                drop(machine.replay(&ground.state, &ground.policy, &ground.steps, NO_DIGEST)?);
                units += ground.steps.len();
            }
            "fold" => {
                drop(machine.replay(&ground.state, &ground.policy, &lines, NO_DIGEST)?);
                units += ground.lines.iter().map(Vec::len).sum::<usize>();
            }
            _ => return Err("the call is decide, fold, replay, open or save".into()),
        }
    }
    let units = units.max(calls);
    let each = (cpu() - start) / units as f64;
    println!("{what} {how} {tasks}: {units} in all, {:.3} us each, {:.0} a second", each * 1e6, 1.0 / each);
    Ok(())
}
