//! Forty tasks of one second on eight slots: how near a real night comes to what eight workers could do. It
//! measures nothing else.

use std::time::Instant;

use devloop_host::supervisor::Supervisor;
use serde_json::{Value, json};

use crate::Outcome;
use crate::figures::{self, Samples, shown};
use crate::project::{Project, instant, scripted};

const TASKS: usize = 40;
const SLOTS: usize = 8;
const TASK_MS: u64 = 1_000;
/// Of the goal: wall time against what the slots could do at best.
const GOAL: f64 = 1.15;

/// Workers of one second each, that touch a folder of their own.
fn script() -> Value {
    let names: Vec<String> = (0..TASKS).map(|at| format!("t{at:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut script = instant(&names);
    for rule in script["rules"].as_array_mut().into_iter().flatten() {
        if rule["role"] == "work" {
            rule["delayMs"] = json!(TASK_MS);
        }
    }
    script
}

fn config() -> Value {
    let mut config = scripted();
    config["budget"] = json!({ "maxParallelWorkers": SLOTS, "maxParallelPerProject": SLOTS });
    // The default reserves of eight workers are more than a session may cost: money would be measured.
    config["scripted"]["reserveUsd"] = json!(0.02);
    config
}

/// What one night took, in seconds.
struct Night {
    /// From the first beat to the goal.
    whole: f64,
    /// From the start of the first worker to the end of the last.
    work: f64,
    /// The most workers at a time.
    most: usize,
}

fn night() -> Outcome<Night> {
    let project = Project::new(&config(), &script())?;
    let mut supervisor = project.open()?;
    let (start, mut first, mut last, mut most) = (Instant::now(), None, None, 0);
    project.watch(&mut supervisor, |supervisor: &Supervisor| {
        let working = supervisor.view().running.iter().filter(|run| run.op == "work").count();
        most = most.max(working);
        if working > 0 {
            first.get_or_insert_with(Instant::now);
            last = None;
        } else if first.is_some() {
            last.get_or_insert_with(Instant::now);
        }
    })?;
    let whole = start.elapsed().as_secs_f64();
    supervisor.close()?;
    let (first, last) = first.zip(last).ok_or("no worker was ever seen")?;
    Ok(Night { whole, work: (last - first).as_secs_f64(), most })
}

/// Measures and prints the table.
pub fn report(rounds: usize) -> Outcome<()> {
    let ideal = (TASKS.div_ceil(SLOTS) as u64 * TASK_MS) as f64 / 1e3;
    let (mut whole, mut work, mut most) = (Samples::default(), Samples::default(), 0);
    for _ in 0..rounds {
        let night = night()?;
        whole.push(night.whole);
        work.push(night.work);
        most = most.max(night.most);
    }
    let row = |what: &str, samples: &Samples| {
        let ratio = samples.median() / ideal;
        let verdict = if ratio <= GOAL { "met" } else { "missed" };
        vec![what.into(), shown(samples.median()), format!("{ratio:.2}x (goal {GOAL}x: {verdict})")]
    };
    let rows = [
        row("first worker starts to last worker ends", &work),
        row("first beat to goal complete: plan, reviews and merges included", &whole),
    ];
    let text = format!(
        "{TASKS} tasks of {TASK_MS} ms on {SLOTS} slots, {rounds} nights, medians; ideal is {ideal:.0} s. \
         Workers sleep, so what is beyond it is the loop's own work: worktrees, commits, reviews and merges, \
         with git on the cores named above. At most {most} worked at a time."
    );
    figures::print("Forty tasks on eight slots", &text, &["what", "median", "of ideal"], &rows);
    Ok(())
}
