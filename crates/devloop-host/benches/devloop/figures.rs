//! Samples of one run: medians, 99th percentiles and ratios, printed as tables of Markdown. It measures
//! nothing.

use std::time::{Duration, Instant};

/// Durations of one kind, in seconds.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds one.
    pub fn push(&mut self, seconds: f64) {
        self.0.push(seconds);
    }

    /// The value below which `percent` of a hundred samples lie; zero without a sample.
    pub fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        let at = (last as f64 * percent / 100.0).round() as usize;
        sorted.get(at).copied().unwrap_or(0.0)
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// The median of the ratios of samples that were taken one after the other.
    pub fn median_ratio(&self, base: &Samples) -> f64 {
        let ratios = self.0.iter().zip(&base.0).map(|(mine, base)| mine / base.max(1e-12)).collect();
        Samples(ratios).median()
    }
}

/// CPU time of this thread so far, in seconds: on a machine that others use too it tells what a call costs.
pub fn cpu() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// How long one call takes, in seconds.
pub fn timed(call: impl FnOnce()) -> f64 {
    let start = Instant::now();
    call();
    start.elapsed().as_secs_f64()
}

/// CPU time that one call takes of this thread, in seconds.
pub fn cpu_timed(call: impl FnOnce()) -> f64 {
    let start = cpu();
    call();
    cpu() - start
}

/// CPU time that each of two calls takes, measured in turns so that a busy moment of the machine meets both.
/// A sample is the mean of as many calls as fill a few milliseconds.
pub fn in_turns(rounds: usize, mut one: impl FnMut(), mut other: impl FnMut()) -> (Samples, Samples) {
    let (n, m) = (calls_of(&mut one), calls_of(&mut other));
    let (mut first, mut second) = (Samples::default(), Samples::default());
    for _ in 0..rounds {
        first.push(cpu_timed(|| (0..n).for_each(|_| one())) / f64::from(n));
        second.push(cpu_timed(|| (0..m).for_each(|_| other())) / f64::from(m));
    }
    (first, second)
}

/// Calls that fill a few milliseconds.
fn calls_of(call: &mut impl FnMut()) -> u32 {
    let once = cpu_timed(&mut *call).min(cpu_timed(&mut *call)).max(1e-9);
    ((Duration::from_millis(4).as_secs_f64() / once) as u32).clamp(1, 5_000)
}

/// A duration in the unit that reads best.
pub fn shown(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// A ratio.
pub fn times(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

/// A ratio beside its goal.
pub fn against(ratio: f64, goal: f64) -> String {
    let verdict = if ratio <= goal { "met" } else { "missed" };
    format!("{ratio:.2}x (goal {goal:.1}x: {verdict})")
}

/// Prints a heading, sentences below it, and a table.
pub fn print(title: &str, sentences: &str, columns: &[&str], rows: &[Vec<String>]) {
    println!("\n## {title}\n\n{sentences}\n");
    println!("| {} |\n|{}", columns.join(" | "), " --- |".repeat(columns.len()));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}
