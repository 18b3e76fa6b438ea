//! The cost report of a project: its own book in rows, and what the user's ledger lets expect of the next
//! runs. It only reads.

use std::path::Path;

use devloop_core::cost::{By, Forecast, Row, Sample, Share, forecasts, per_merge, rows, samples};
use devloop_core::expected::expected;
use devloop_core::ids::{DispatchId, RouteKey};
use devloop_core::ledger::Spend;
use devloop_core::policy::Policy;
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
    /// What the runs still to come will probably cost.
    pub expected: ExpectedView,
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

/// What the runs still to come will probably cost, in millionths of a US dollar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExpectedView {
    /// In one sentence; it says where nothing is known.
    pub sentence: String,
    /// Runs to come of which others were measured on the same route.
    pub runs: u64,
    /// The sum of their medians.
    pub median_usd_micros: u64,
    /// The sum of their 90th percentiles.
    pub p90_usd_micros: u64,
    /// Runs to come without any history.
    pub unknown_runs: u64,
    /// What those will set aside.
    pub unknown_reserve_usd_micros: u64,
}

impl ExpectedView {
    /// From the state and the measured runs of before.
    #[must_use]
    pub fn of(state: &LoopState, policy: &Policy, history: &[Forecast]) -> ExpectedView {
        let sum = expected(state, policy, history);
        ExpectedView {
            sentence: sum.sentence(),
            runs: sum.runs,
            median_usd_micros: sum.median.0,
            p90_usd_micros: sum.p90.0,
            unknown_runs: sum.unknown_runs,
            unknown_reserve_usd_micros: sum.unknown_reserve.0,
        }
    }
}

/// What measured runs of all the user's projects let expect of the next one of each route.
#[must_use]
pub fn history(root: &Path, state: &LoopState, ledger: &Ledger) -> Vec<Forecast> {
    forecasts(samples(state).chain(elsewhere(root, state, ledger)))
}

/// Makes the report from a project's state and the user's ledger.
#[must_use]
pub fn report(root: &Path, state: &LoopState, policy: &Policy, ledger: &Ledger, by: By) -> CostReport {
    let rows = rows(state, by);
    let merges = per_merge(state);
    let history = history(root, state, ledger);
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
        forecasts: history.iter().map(forecast_row).collect(),
        expected: ExpectedView::of(state, policy, &history),
    }
}

/// Measured runs that this project's book does not hold any more, or that other projects made.
fn elsewhere(root: &Path, state: &LoopState, ledger: &Ledger) -> Vec<Sample> {
    let own = root.to_string_lossy();
    let booked = |dispatch: &str| {
        DispatchId::parse(dispatch).is_ok_and(|dispatch| state.ledger.entries.contains_key(&dispatch))
    };
    let known = [Certainty::Priced, Certainty::Measured];
    let measured = ledger.entries().filter(|entry| known.contains(&entry.certainty));
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
