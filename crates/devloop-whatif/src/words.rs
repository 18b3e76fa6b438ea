//! The comparison in words, the same in a terminal and in a page. It must not count anything itself.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use devloop_core::render::usd;
use devloop_core::units::{DAY_MS, UsdMicros};

use crate::figures::Figures;
use crate::{Drawn, WhatIf};

/// A figure with its name.
type Row = (&'static str, fn(&Figures) -> String);

const ROWS: [Row; 12] = [
    ("plans", |f| f.plans.to_string()),
    ("attempts", |f| f.attempts.to_string()),
    ("reviews", |f| f.reviews.to_string()),
    ("merged tasks", |f| format!("{} of {}", f.merged, f.tasks)),
    ("money measured", |f| usd(f.measured_usd_micros)),
    ("money priced", |f| usd(f.priced_usd_micros)),
    ("money assumed", |f| usd(f.assumed_usd_micros)),
    ("money reserved", |f| usd(f.reserved_usd_micros)),
    ("wall time", |f| duration(f.wall_ms)),
    ("questions asked", |f| f.questions.to_string()),
    ("open at the end", |f| if f.open.is_empty() { "none".into() } else { f.open.join(", ") }),
    ("at the end", |f| f.ended.clone()),
];

impl WhatIf {
    /// The figures of both nights: name, recorded, what if; the first row names the columns. Money of a sort
    /// that neither night has is left out.
    #[must_use]
    pub fn table(&self) -> Vec<[String; 3]> {
        let quiet = |f: &Figures, name: &str| match name {
            "money priced" => f.priced_usd_micros == UsdMicros(0),
            "money reserved" => f.reserved_usd_micros == UsdMicros(0),
            _ => false,
        };
        let (recorded, other) = (&self.recorded, &self.what_if);
        let head = ["".to_string(), "recorded".to_string(), "what if".to_string()];
        let shown = ROWS.iter().filter(|(name, _)| !(quiet(recorded, name) && quiet(other, name)));
        let row = |(name, figure): &Row| [(*name).to_string(), figure(recorded), figure(other)];
        core::iter::once(head).chain(shown.map(row)).collect()
    }

    /// How the ends were drawn, what was refused, and whether the recorded night comes out; what belongs to
    /// the line before is indented.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let Drawn { own, peers, unknown } = &self.drawn;
        let counts = format!("drawn: {own} as recorded, {peers} from a median, {} unknown", unknown.len());
        let mut out = Vec::from([counts]);
        out.extend(unknown.iter().map(|unknown| format!("  {unknown}")));
        out.extend(self.unfit.iter().map(|unfit| format!("  not accepted here: {unfit}")));
        out.extend(self.remarks.iter().map(|remark| format!("remark: {remark}")));
        let control = match &self.control {
            None => "control: under the recorded policy the recorded night comes out, line by line",
            Some(_) => "control: under the recorded policy this core decides otherwise than was recorded",
        };
        out.push(control.to_string());
        if self.cut {
            out.push("It came to no end within its bound of steps; the figures are those until then.".into());
        }
        out
    }
}

/// A duration with its two largest units.
fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (days, hours, minutes) = (ms / DAY_MS, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{}.{:01} s", seconds, ms / 100 % 10),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_their_two_largest_units() {
        let check = |ms: u64, expect: &str| assert_eq!(duration(ms), expect);
        check(0, "0.0 s");
        check(59_940, "59.9 s");
        check(60_000, "1 min 0 s");
        check(3_600_000, "1 h 0 min");
        check(90_000_000, "1 d 1 h");
    }
}
