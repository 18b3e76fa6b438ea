//! What the book says by task, route or day, and what the next runs will probably cost. It sums and sorts; it
//! never invents an amount.

use alloc::vec::Vec;

use crate::ids::{RouteKey, TaskId};
use crate::ledger::{Certainty, Entry, Spend};
use crate::state::{LoopState, Op};
use crate::task::{Done, Stage};
use crate::units::{Day, Map, UsdMicros};

/// What the rows of a cost table are made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A task with its replacements.
    Task,
    /// A route.
    Route,
    /// The UTC day of the dispatch.
    Day,
}

/// What one row of a cost table is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// Planning and replanning: they belong to no task.
    Planning,
    /// A lineage, by the id of its first task.
    Task(TaskId),
    /// A route.
    Route(RouteKey),
    /// A UTC day.
    Day(Day),
    /// Usage that named no dispatch of this project.
    Unattributed,
    /// Goals that were put away; only their sum is kept.
    EarlierGoals,
}

/// One row of a cost table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is about.
    pub share: Share,
    /// Dispatches that were started for it.
    pub dispatches: u64,
    /// Its money.
    pub spend: Spend,
    /// Its tokens, saturating.
    pub tokens: u64,
}

/// The whole book in rows; their sum is everything the project ever spent or set aside.
#[must_use]
pub fn rows(state: &LoopState, by: By) -> Vec<Row> {
    let mut rows: Map<Share, Row> = Map::new();
    let mut add = |share: Share, dispatches: u64, certainty: Certainty, amount: UsdMicros, tokens: u64| {
        let empty = Row { share: share.clone(), dispatches: 0, spend: Spend::default(), tokens: 0 };
        let row = rows.entry(share).or_insert(empty);
        row.dispatches += dispatches;
        row.spend.add(certainty, amount);
        row.tokens = row.tokens.saturating_add(tokens);
    };
    for entry in state.ledger.entries.values() {
        add(share(entry, by), 1, entry.certainty, entry.amount, entry.tokens.total());
    }
    for foreign in state.ledger.unattributed.values() {
        let share = if by == By::Day { Share::Day(foreign.day) } else { Share::Unattributed };
        add(share, 0, Certainty::Measured, foreign.amount, 0);
    }
    let old = state.ledger.archived;
    let sums = [
        (Certainty::Measured, old.measured, old.tokens),
        (Certainty::Priced, old.priced, 0),
        (Certainty::Assumed, old.assumed, 0),
    ];
    for (certainty, amount, tokens) in sums {
        if amount > UsdMicros(0) || tokens > 0 {
            add(Share::EarlierGoals, 0, certainty, amount, tokens);
        }
    }
    rows.into_values().collect()
}

fn share(entry: &Entry, by: By) -> Share {
    match by {
        By::Task => entry.lineage.clone().map_or(Share::Planning, Share::Task),
        By::Route => Share::Route(entry.route.clone()),
        By::Day => Share::Day(entry.day),
    }
}

/// What the goal's merged tasks cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerMerge {
    /// Tasks of this goal whose commit the loop merged.
    pub merged: u64,
    /// Everything the goal spent, planning and dropped tasks included, for each of them, rounded up; none
    /// while nothing is merged.
    pub each: Option<UsdMicros>,
}

/// The cost of a merged task of this goal.
#[must_use]
pub fn per_merge(state: &LoopState) -> PerMerge {
    let done = |stage: &Stage| matches!(stage, Stage::Done(Done::Merged { .. }));
    let merged = state.tasks.iter().filter(|task| done(&task.stage)).count() as u64;
    let spent = state.ledger.goal(state.goal.number).spent().0;
    PerMerge { merged, each: (merged > 0).then(|| UsdMicros(spent.div_ceil(merged))) }
}

/// What one measured run of a route did and cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The route.
    pub route: RouteKey,
    /// What it did.
    pub op: Op,
    /// What it cost.
    pub amount: UsdMicros,
}

/// What the next run of a route will probably cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// What it does.
    pub op: Op,
    /// The route.
    pub route: RouteKey,
    /// Measured runs it is made from.
    pub runs: u64,
    /// Half of the runs cost this or less.
    pub median: UsdMicros,
    /// Nine of ten runs cost this or less.
    pub p90: UsdMicros,
}

/// The measured entries of the book as samples.
pub fn samples(state: &LoopState) -> impl Iterator<Item = Sample> {
    let measured = state.ledger.entries.values().filter(|entry| entry.certainty >= Certainty::Priced);
    measured.map(|entry| Sample { route: entry.route.clone(), op: entry.op, amount: entry.amount })
}

/// One forecast for each route and operation that was ever measured, planning first, then work, then review.
#[must_use]
pub fn forecasts(samples: impl IntoIterator<Item = Sample>) -> Vec<Forecast> {
    let mut groups: Vec<(Op, RouteKey, Vec<UsdMicros>)> = Vec::new();
    for sample in samples {
        match groups.iter_mut().find(|(op, route, _)| *op == sample.op && *route == sample.route) {
            Some((_, _, amounts)) => amounts.push(sample.amount),
            None => groups.push((sample.op, sample.route, alloc::vec![sample.amount])),
        }
    }
    let order = |op: Op| Op::MODEL.iter().position(|known| *known == op);
    groups.sort_by(|a, b| (order(a.0), &a.1).cmp(&(order(b.0), &b.1)));
    let forecast = |(op, route, mut amounts): (Op, RouteKey, Vec<UsdMicros>)| {
        amounts.sort_unstable();
        Forecast {
            op,
            route,
            runs: amounts.len() as u64,
            median: percentile(&amounts, 50).unwrap_or_default(),
            p90: percentile(&amounts, 90).unwrap_or_default(),
        }
    };
    groups.into_iter().map(forecast).collect()
}

/// The smallest of the sorted amounts that at least `percent` of a hundred of them do not exceed; none of no
/// amounts.
#[must_use]
pub fn percentile(sorted: &[UsdMicros], percent: usize) -> Option<UsdMicros> {
    let rank = sorted.len().saturating_mul(percent.min(100)).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::DispatchId;
    use crate::ledger::{Archived, Unattributed};
    use crate::units::{Tokens, total};

    fn entry(
        op: Op,
        lineage: Option<&str>,
        route: &str,
        day: u64,
        amount: u64,
        certainty: Certainty,
    ) -> Entry {
        Entry {
            op,
            lineage: lineage.map(|id| TaskId::parse(id).expect("id")),
            route: RouteKey::parse(route).expect("route"),
            goal: 0,
            day: Day(day),
            instance: 1,
            amount: UsdMicros(amount),
            certainty,
            tokens: Tokens { output: 10, ..Tokens::default() },
        }
    }

    fn book() -> LoopState {
        let mut state = LoopState::default();
        let entries = [
            entry(Op::Plan, None, "plan", 1, 5, Certainty::Measured),
            entry(Op::Work, Some("a"), "work", 1, 100, Certainty::Priced),
            entry(Op::Review, Some("a"), "review", 2, 30, Certainty::Assumed),
            entry(Op::Work, Some("b"), "work", 2, 300, Certainty::Reserved),
        ];
        state.ledger.entries = (1..).map(DispatchId).zip(entries).collect();
        let foreign = Unattributed { dispatch: "x".into(), day: Day(2), revision: 1, amount: UsdMicros(7) };
        state.ledger.unattributed.insert("x".into(), foreign);
        state.ledger.archived = Archived {
            measured: UsdMicros(600),
            priced: UsdMicros(300),
            assumed: UsdMicros(100),
            tokens: 50,
        };
        state
    }

    fn shown(by: By) -> Vec<(Share, u64, u64)> {
        rows(&book(), by).into_iter().map(|r| (r.share, r.dispatches, r.spend.committed().0)).collect()
    }

    #[test]
    fn every_table_says_where_all_the_money_went() {
        let task = |id: &str| Share::Task(TaskId::parse(id).expect("id"));
        let route = |key: &str| Share::Route(RouteKey::parse(key).expect("route"));
        let rest = [(Share::Unattributed, 0, 7), (Share::EarlierGoals, 0, 1_000)];
        let by_task = [(Share::Planning, 1, 5), (task("a"), 2, 130), (task("b"), 1, 300)];
        assert_eq!(shown(By::Task), [by_task.to_vec(), rest.to_vec()].concat());
        let by_route = [(route("plan"), 1, 5), (route("review"), 1, 30), (route("work"), 2, 400)];
        assert_eq!(shown(By::Route), [by_route.to_vec(), rest.to_vec()].concat());
        let by_day =
            [(Share::Day(Day(1)), 2, 105), (Share::Day(Day(2)), 2, 337), (Share::EarlierGoals, 0, 1_000)];
        assert_eq!(shown(By::Day), by_day);
        for by in [By::Task, By::Route, By::Day] {
            let sum = total(rows(&book(), by).iter().map(|row| row.spend.committed()));
            assert_eq!(sum, UsdMicros(1_442), "{by:?}");
        }
    }

    #[test]
    fn a_forecast_counts_only_what_was_measured() {
        let found = forecasts(samples(&book()));
        let shown: Vec<_> =
            found.iter().map(|f| (f.op, f.route.as_str(), f.runs, f.median.0, f.p90.0)).collect();
        assert_eq!(shown, [(Op::Plan, "plan", 1, 5, 5), (Op::Work, "work", 1, 100, 100)]);
    }

    #[test]
    fn a_percentile_is_an_amount_that_was_seen() {
        let check = |count: u64, percent: usize, expect: Option<u64>| {
            let sorted: Vec<UsdMicros> = (1..=count).map(UsdMicros).collect();
            assert_eq!(percentile(&sorted, percent), expect.map(UsdMicros), "{count} {percent}");
        };
        check(0, 50, None);
        check(1, 50, Some(1));
        check(2, 50, Some(1));
        check(3, 50, Some(2));
        check(10, 90, Some(9));
        check(11, 90, Some(10));
        check(10, 100, Some(10));
        check(10, 0, Some(1));
        check(10, 200, Some(10));
    }

    #[test]
    fn nothing_merged_has_no_price_for_a_merge() {
        assert_eq!(per_merge(&book()), PerMerge { merged: 0, each: None });
    }
}
