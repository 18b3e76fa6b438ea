//! The cost report of a project: its own book in rows, and what the user's ledger lets expect of the next
//! runs. It only reads.

use std::path::Path;

use devloop_core::cost::{By, Forecast, Row, Sample, Share, forecasts, per_merge, rows, samples};
use devloop_core::ids::{DispatchId, RouteKey};
use devloop_core::ledger::Spend;
use devloop_core::state::{LoopState, Op};
use devloop_core::units::{Day, UsdMicros};
use serde::Serialize;

use crate::store::ledger::{Certainty, Ledger};

/// What a project cost, in millionths of a US dollar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CostReport {
    /// What the rows are made by: `task`, `route` or `day`.
    pub by: &'static str,
    /// The rows; together they are everything that was ever spent or set aside here.
    pub rows: Vec<CostRow>,
    /// Their sum.
    pub total: CostRow,
    /// Tasks of the current goal that were merged.
    pub merged: u64,
    /// What the current goal spent for each of them; none while nothing is merged.
    pub usd_micros_per_merge: Option<u64>,
    /// What the next run of each route will probably cost, from measured runs of all the user's projects.
    pub forecasts: Vec<ForecastRow>,
}

/// One row of a cost report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CostRow {
    /// What it is about: a task, a route, a day, or a name in parentheses.
    pub name: String,
    /// Dispatches started for it.
    pub dispatches: u64,
    /// Reported money.
    pub measured_usd_micros: u64,
    /// Reported tokens times a known price.
    pub priced_usd_micros: u64,
    /// Kept for dispatches that reported nothing.
    pub assumed_usd_micros: u64,
    /// Set aside for running dispatches.
    pub reserved_usd_micros: u64,
    /// Its tokens.
    pub tokens: u64,
}

/// What one run will probably cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ForecastRow {
    /// `plan`, `work` or `review`.
    pub op: &'static str,
    /// The route.
    pub route: String,
    /// Measured runs it is made from.
    pub runs: u64,
    /// Half of the runs cost this or less.
    pub median_usd_micros: u64,
    /// Nine of ten runs cost this or less.
    pub p90_usd_micros: u64,
}

/// Makes the report from a project's state and the user's ledger.
#[must_use]
pub fn report(root: &Path, state: &LoopState, ledger: &Ledger, by: By) -> CostReport {
    let rows = rows(state, by);
    let merges = per_merge(state);
    let elsewhere = elsewhere(root, state, ledger);
    CostReport {
        by: match by {
            By::Task => "task",
            By::Route => "route",
            By::Day => "day",
        },
        total: total(&rows),
        rows: rows.iter().map(|row| cost_row(name(&row.share), row)).collect(),
        merged: merges.merged,
        usd_micros_per_merge: merges.each.map(|amount| amount.0),
        forecasts: forecasts(samples(state).chain(elsewhere)).iter().map(forecast_row).collect(),
    }
}

/// Measured runs that this project's book does not hold any more, or that other projects made.
fn elsewhere(root: &Path, state: &LoopState, ledger: &Ledger) -> Vec<Sample> {
    let own = root.to_string_lossy();
    let booked = |dispatch: &str| {
        DispatchId::parse(dispatch).is_ok_and(|dispatch| state.ledger.entries.contains_key(&dispatch))
    };
    let measured = ledger.entries().filter(|entry| entry.certainty == Certainty::Measured);
    let others = measured.filter(|entry| entry.project != own || !booked(&entry.dispatch));
    let sample = |entry: &crate::store::ledger::Entry| {
        Some(Sample {
            route: RouteKey::parse(entry.route.as_deref()?).ok()?,
            op: Op::MODEL.iter().copied().find(|op| Some(op.key()) == entry.op.as_deref())?,
            amount: UsdMicros(entry.usd_micros),
        })
    };
    others.filter_map(sample).collect()
}

fn total(rows: &[Row]) -> CostRow {
    let mut sum = Row { share: Share::Unattributed, dispatches: 0, spend: Spend::default(), tokens: 0 };
    for row in rows {
        sum.dispatches += row.dispatches;
        sum.spend = sum.spend.plus(&row.spend);
        sum.tokens = sum.tokens.saturating_add(row.tokens);
    }
    cost_row("total".to_owned(), &sum)
}

fn name(share: &Share) -> String {
    match share {
        Share::Planning => "(planning)".to_owned(),
        Share::Task(id) => id.to_string(),
        Share::Route(key) => key.to_string(),
        Share::Day(day) => date(*day),
        Share::Unattributed => "(unattributed)".to_owned(),
        Share::EarlierGoals => "(earlier goals)".to_owned(),
    }
}

/// A day as `2026-03-01`.
fn date(day: Day) -> String {
    crate::view::utc(day.0.saturating_mul(devloop_core::units::DAY_MS)).chars().take(10).collect()
}

fn cost_row(name: String, row: &Row) -> CostRow {
    CostRow {
        name,
        dispatches: row.dispatches,
        measured_usd_micros: row.spend.measured.0,
        priced_usd_micros: row.spend.priced.0,
        assumed_usd_micros: row.spend.assumed.0,
        reserved_usd_micros: row.spend.reserved.0,
        tokens: row.tokens,
    }
}

fn forecast_row(forecast: &Forecast) -> ForecastRow {
    ForecastRow {
        op: forecast.op.key(),
        route: forecast.route.to_string(),
        runs: forecast.runs,
        median_usd_micros: forecast.median.0,
        p90_usd_micros: forecast.p90.0,
    }
}
