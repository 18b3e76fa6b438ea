//! What a goal will probably cost from here on, from what earlier runs cost. It must not know a plan better
//! than the state does: reworks and repeated reviews are in nobody's plan.

use alloc::format;
use alloc::string::{String, ToString};

use crate::admit::reserve_of;
use crate::cost::Forecast;
use crate::ids::RouteKey;
use crate::policy::{Backend, Policy};
use crate::render::usd;
use crate::state::{LoopState, Op, Phase, Planning};
use crate::task::{ResumeTo, Stage};
use crate::units::UsdMicros;

/// What the runs that are still to be started for the goal will probably cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Runs to come of which others were measured on the same route.
    pub runs: u64,
    /// The sum of their medians.
    pub median: UsdMicros,
    /// The sum of their 90th percentiles: all of them dear.
    pub p90: UsdMicros,
    /// Runs to come without any history.
    pub unknown_runs: u64,
    /// What those will set aside.
    pub unknown_reserve: UsdMicros,
}

/// Sums up the runs to come: one plan where one is wanted, one work and one review for every task that needs
/// them, each on the first route of its list. Reworks and repeated reviews are in nobody's plan.
#[must_use]
pub fn expected(state: &LoopState, policy: &Policy, history: &[Forecast]) -> Expected {
    let mut sum = Expected::default();
    let mut add = |op: Op, route: Option<&RouteKey>| {
        let Some(key) = route else { return };
        let Some(route) = policy.routes.get(key).filter(|route| route.backend != Backend::Noop) else {
            return;
        };
        match history.iter().find(|known| known.op == op && known.route == *key) {
            Some(known) => {
                sum.runs += 1;
                sum.median = sum.median.plus(known.median.0);
                sum.p90 = sum.p90.plus(known.p90.0);
            }
            None => {
                sum.unknown_runs += 1;
                let reserve = reserve_of(state, key, route);
                sum.unknown_reserve = sum.unknown_reserve.plus(reserve.0);
            }
        }
    };
    let none_yet = state.planning == Planning::Idle && state.tasks.iter().next().is_none();
    let done = matches!(state.phase, Phase::Complete { .. });
    if matches!(state.planning, Planning::Wanted { .. } | Planning::Held { .. }) || (none_yet && !done) {
        add(Op::Plan, policy.plan_routes().first().copied());
    }
    for task in state.tasks.iter() {
        let (works, reviews) = to_come(&task.stage);
        if works {
            add(Op::Work, policy.work_routes(task.tier).first().copied());
        }
        if reviews {
            add(Op::Review, policy.review_routes().first().copied());
        }
    }
    sum
}

/// Whether a task in this stage is still to be worked on, and to be reviewed.
fn to_come(stage: &Stage) -> (bool, bool) {
    match stage {
        Stage::Ready | Stage::Rework { .. } => (true, true),
        Stage::Held { resume_to, .. } => match resume_to {
            ResumeTo::Ready | ResumeTo::Rework { .. } => (true, true),
            ResumeTo::Committed { .. } | ResumeTo::AwaitingReview { .. } => (false, true),
            ResumeTo::MergeReady(_) => (false, false),
        },
        Stage::Working(_)
        | Stage::Committing(_)
        | Stage::Committed { .. }
        | Stage::Checking(_)
        | Stage::AwaitingReview { .. } => (false, true),
        Stage::InReview(_)
        | Stage::MergeReady(_)
        | Stage::Merging(..)
        | Stage::Refreshing(_)
        | Stage::Verifying(_)
        | Stage::Reverting(_)
        // What replaces it is not known yet.
        | Stage::Replanning
        | Stage::Done(_)
        | Stage::Dropped { .. } => (false, false),
    }
}

impl Expected {
    /// In one sentence, also where nothing is known.
    #[must_use]
    pub fn sentence(&self) -> String {
        let runs = |n: u64| if n == 1 { "1 run".to_string() } else { format!("{n} runs") };
        let unknown = || {
            let (n, reserve) = (runs(self.unknown_runs), usd(self.unknown_reserve));
            format!("{n} of routes that were never measured will set aside {reserve}")
        };
        match (self.runs, self.unknown_runs) {
            (0, 0) => "Still to come: no run is known yet.".to_string(),
            (0, _) => format!("Still to come: nothing to go by; {}.", unknown()),
            (known, rest) => {
                let rest = if rest > 0 { format!("; {}", unknown()) } else { String::new() };
                let (median, p90) = (usd(self.median), usd(self.p90));
                let known = runs(known);
                format!("Still to come: {known}, {median} by the median, {p90} by the 90th percentile{rest}.")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::DispatchId;

    #[test]
    fn what_is_to_come_is_told_from_history_and_says_where_there_is_none() {
        use crate::question::samples::{policy, route_key, state, task};
        let policy = policy();
        let known = |op, route: &str, median, p90| Forecast {
            op,
            route: route_key(route),
            runs: 9,
            median: UsdMicros(median),
            p90: UsdMicros(p90),
        };
        let tasks = || [task("a", Stage::Ready), task("b", Stage::Working(DispatchId(3)))];
        let history =
            [known(Op::Work, "work", 200_000, 700_000), known(Op::Review, "review", 10_000, 20_000)];
        let expect =
            Expected { runs: 3, median: UsdMicros(220_000), p90: UsdMicros(740_000), ..Default::default() };
        let all = expected(&state(tasks()), &policy, &history);
        assert_eq!(all, expect);
        let said = "Still to come: 3 runs, $0.22 by the median, $0.74 by the 90th percentile.";
        assert_eq!(all.sentence(), said);
        let half = expected(&state(tasks()), &policy, &history[1..]);
        assert_eq!((half.runs, half.unknown_runs, half.unknown_reserve), (2, 1, UsdMicros(500_000)));
        let said = "Still to come: 2 runs, $0.02 by the median, $0.04 by the 90th percentile; 1 run of \
                    routes that were never measured will set aside $0.50.";
        assert_eq!(half.sentence(), said);
        let none = expected(&state(tasks()), &policy, &[]);
        let said = "Still to come: nothing to go by; 3 runs of routes that were never measured will set \
                    aside $1.50.";
        assert_eq!(none.sentence(), said);
        // Before the plan only the plan itself is known.
        let before = expected(&state([]), &policy, &[known(Op::Plan, "review", 5, 6)]);
        assert_eq!((before.runs, before.median), (1, UsdMicros(5)));
        let noop = {
            let mut policy = policy.clone();
            policy.routes.values_mut().for_each(|route| route.backend = Backend::Noop);
            policy
        };
        assert_eq!(
            expected(&state(tasks()), &noop, &history).sentence(),
            "Still to come: no run is known yet."
        );
    }
}
