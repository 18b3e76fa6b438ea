//! From nothing to the first decision of the core in its component: each time in a process of its own.

use std::process::Command;

use devloop_host::machine::{Component, Machine};

use crate::Outcome;
use crate::figures::{self, Samples, shown, timed};
use crate::ground::Ground;

const ROUNDS: usize = 15;
/// Seconds.
const GOAL: f64 = 0.01;

/// Prints the table.
pub fn report() -> Outcome<()> {
    let mut parts = [(); 3].map(|()| Samples::default());
    for _ in 0..ROUNDS {
        let out = Command::new(std::env::current_exe()?).arg("first-decision").output()?;
        let text = String::from_utf8(out.stdout)?;
        let seconds: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        if seconds.len() != parts.len() {
            return Err(
                format!("the measured process failed: {}", String::from_utf8_lossy(&out.stderr)).into()
            );
        }
        parts.iter_mut().zip(seconds).for_each(|(samples, seconds)| samples.push(seconds));
    }
    let names = ["load the image", "start an instance and open a state of 20 tasks", "first decision"];
    let mut rows: Vec<Vec<String>> = names
        .iter()
        .zip(&parts)
        .map(|(name, samples)| vec![(*name).into(), shown(samples.median())])
        .collect();
    let all: f64 = parts.iter().map(Samples::median).sum();
    let verdict = if all <= GOAL { "met" } else { "missed" };
    rows.push(vec!["together".into(), format!("{} (goal {}: {verdict})", shown(all), shown(GOAL))]);
    let text =
        format!("{ROUNDS} fresh processes, medians; pages of the image are touched for the first time.");
    figures::print("From nothing to the first decision", &text, &["what", "median"], &rows);
    Ok(())
}

/// One process: prints the seconds of each part.
pub fn once() -> Outcome<()> {
    let ground = Ground::new(20, 0)?;
    let mut loaded = None;
    let load = timed(|| loaded = Some(Component::embedded()));
    let mut machine = loaded.ok_or("not loaded")??;
    let mut done = Ok(());
    let open = timed(|| done = machine.open(&ground.state, &ground.policy));
    done?;
    let mut decided = None;
    let decide = timed(|| decided = Some(machine.decide(&ground.wait)));
    decided.ok_or("not decided")??;
    println!("{load} {open} {decide}");
    Ok(())
}
