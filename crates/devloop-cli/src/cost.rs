//! `devloop cost`: what the project cost, and what the next runs will probably cost. It only reads.

use clap::{Args, ValueEnum};
use devloop_core::cost::By;
use devloop_host::cost::{CostReport, CostRow};
use devloop_host::error::{ErrorKind, HostError};
use devloop_host::view::dollars;

use crate::cli::{FINE, Form, Outcome};
use crate::place::{self, Root};
use crate::say;

/// Says what the project cost
#[derive(Clone, Debug, Args)]
pub struct Cost {
    #[command(flatten)]
    pub root: Root,
    /// What the rows are about
    #[arg(long, value_enum, default_value_t = Column::Task)]
    pub by: Column,
    /// Print the rows as CSV, amounts in millionths of a US dollar
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    #[command(flatten)]
    pub form: Form,
}

/// What the rows are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// Tasks, each with its replacements
    Task,
    /// Routes
    Route,
    /// UTC days of the dispatches
    Day,
}

/// Performs the verb.
///
/// # Errors
/// When the project is unarmed or its state is not to be trusted.
pub fn perform(verb: &Cost) -> Outcome {
    let mut desk = verb.root.desk()?;
    let root = desk.armed().root().to_path_buf();
    let by = match verb.by {
        Column::Task => By::Task,
        Column::Route => By::Route,
        Column::Day => By::Day,
    };
    let report = desk.cost(by).map_err(|error| place::about(error, &root))?;
    if verb.form.json {
        let value = serde_json::to_value(&report);
        let broken = |error| HostError::new(ErrorKind::Internal, "the report is no JSON").because(error);
        say::json(&value.map_err(broken)?);
    } else if verb.csv {
        csv(&report).into_iter().for_each(say::line);
    } else {
        lines(&report).into_iter().for_each(say::line);
    }
    Ok(FINE)
}

/// A CSV cell: a route may hold a comma or a quote, but no line break.
fn cell(text: &str) -> String {
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// The rows as CSV.
fn csv(report: &CostReport) -> Vec<String> {
    let money = "measured_usd_micros,priced_usd_micros,assumed_usd_micros,reserved_usd_micros";
    let mut lines = vec![format!("{},dispatches,{money},tokens", report.by)];
    lines.extend(report.rows.iter().map(|row| {
        format!(
            "{},{},{},{},{},{},{}",
            cell(&row.name),
            row.dispatches,
            row.measured_usd_micros,
            row.priced_usd_micros,
            row.assumed_usd_micros,
            row.reserved_usd_micros,
            row.tokens
        )
    }));
    lines
}

fn lines(report: &CostReport) -> Vec<String> {
    let row = |row: &CostRow| {
        let money =
            [row.measured_usd_micros, row.priced_usd_micros, row.assumed_usd_micros, row.reserved_usd_micros];
        let first = [row.name.clone(), row.dispatches.to_string()];
        let cells = first.into_iter().chain(money.map(dollars)).chain([row.tokens.to_string()]);
        cells.collect::<Vec<String>>()
    };
    let head = [report.by, "dispatches", "measured", "priced", "assumed", "reserved", "tokens"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(report.rows.iter().map(row));
    rows.push(row(&report.total));
    let mut out = say::table(&rows);
    if let Some(each) = report.usd_micros_per_merge {
        let tasks =
            crate::picture::count(usize::try_from(report.merged).unwrap_or(usize::MAX), "merged task");
        out.extend([String::new(), format!("this goal: {tasks}, {} each", dollars(each))]);
    }
    out.extend([String::new(), report.expected.sentence.clone()]);
    if !report.forecasts.is_empty() {
        out.extend([String::new(), say::bold("the next run, from what was measured")]);
        let head = ["", "route", "median", "90 of 100", "runs"].map(str::to_owned).to_vec();
        let rows = report.forecasts.iter().map(|f| {
            let amounts = [f.median_usd_micros, f.p90_usd_micros].map(dollars);
            let names = [f.op.to_owned(), f.route.clone()];
            names.into_iter().chain(amounts).chain([f.runs.to_string()]).collect()
        });
        out.extend(say::table(&[head].into_iter().chain(rows).collect::<Vec<_>>()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn a_cell_is_quoted_when_it_must_be() {
        assert_eq!(cell("T2:claude/opus"), "T2:claude/opus");
        assert_eq!(cell(r#"a,"b""#), r#""a,""b""""#);
    }
}
