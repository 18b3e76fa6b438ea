//! Numbers and texts of an input, cut to what a document may hold. It judges nothing else.

use alloc::string::String;

use crate::decide::Input;
use crate::finding::{Found, MAX_FINDINGS};
use crate::hold::MAX_ITEMS;
use crate::observation::{MAX_REPORTS, Observation, Stamp};
use crate::report::{CheckOutcome, FailureClass, Outcome, Report, Usage};
use crate::task::{MAX_TEXT, clip};
use crate::units::{MAX_NUMBER, Tokens, UsdMicros, WallMs};

/// The input within its bounds; none when it is so already, which is the rule.
pub(crate) fn bounded(input: &Input) -> Option<Input> {
    match input {
        Input::Command { stamp, command } if !is_sane(stamp) || command.by.chars().count() > MAX_TEXT => {
            let mut command = command.clone();
            command.by = clip(&command.by);
            Some(Input::Command { stamp: sane(stamp), command })
        }
        Input::Observation(seen)
            if !is_sane(&seen.stamp)
                || seen.reports.len() > MAX_REPORTS
                || !seen.reports.iter().all(fits) =>
        {
            let reports = seen.reports.iter().take(MAX_REPORTS).map(cut).collect();
            let stamp = sane(&seen.stamp);
            Some(Input::Observation(Observation { stamp, reports, ..seen.clone() }))
        }
        Input::Command { .. } | Input::Observation(_) => None,
    }
}

fn is_sane(stamp: &Stamp) -> bool {
    let owner = &stamp.owner;
    let numbers = [stamp.wall.0, stamp.awake.boot, stamp.awake.ms, owner.boot, owner.started, owner.instance];
    numbers.into_iter().all(|n| n <= MAX_NUMBER) && owner.host.chars().count() <= MAX_TEXT
}

fn sane(stamp: &Stamp) -> Stamp {
    let mut stamp = stamp.clone();
    let owner = &mut stamp.owner;
    owner.host = clip(&owner.host);
    let numbers = [
        &mut stamp.wall.0,
        &mut stamp.awake.boot,
        &mut stamp.awake.ms,
        &mut owner.boot,
        &mut owner.started,
        &mut owner.instance,
    ];
    numbers.into_iter().for_each(|n| *n = (*n).min(MAX_NUMBER));
    stamp
}

/// Only what is kept is looked at: the words of a worker that is done, for example, are not.
fn fits(report: &Report) -> bool {
    let usage = report.usage.as_ref().is_none_or(|usage| cut_usage(usage) == *usage);
    let until = match &report.outcome {
        Outcome::Failed { class: FailureClass::RateLimited { until: Some(at) }, .. } => at.0 <= MAX_NUMBER,
        _ => true,
    };
    let short = |text: &String| text.chars().count() <= MAX_TEXT;
    usage
        && until
        && match &report.outcome {
            Outcome::Reviewed(review) => {
                let own = |found: &Found| found.bounded() == *found;
                short(&review.notes)
                    && review.findings.len() <= MAX_FINDINGS
                    && review.findings.iter().all(own)
            }
            Outcome::Checked(CheckOutcome::Red { commands, output }) => {
                short(output) && commands.len() <= MAX_ITEMS && commands.iter().all(short)
            }
            _ => true,
        }
}

fn cut(report: &Report) -> Report {
    let mut report = report.clone();
    report.usage = report.usage.as_ref().map(cut_usage);
    match &mut report.outcome {
        Outcome::Failed { class: FailureClass::RateLimited { until: Some(at) }, .. } => {
            *at = WallMs(at.0.min(MAX_NUMBER));
        }
        Outcome::Reviewed(review) => {
            review.notes = clip(&review.notes);
            review.findings = review.findings.iter().take(MAX_FINDINGS).map(Found::bounded).collect();
        }
        Outcome::Checked(CheckOutcome::Red { commands, output }) => {
            commands.truncate(MAX_ITEMS);
            commands.iter_mut().for_each(|command| *command = clip(command));
            *output = clip(output);
        }
        _ => {}
    }
    report
}

fn cut_usage(usage: &Usage) -> Usage {
    let most = |n: u64| n.min(MAX_NUMBER);
    let tokens = Tokens {
        input_uncached: most(usage.tokens.input_uncached),
        cache_read: most(usage.tokens.cache_read),
        cache_write: most(usage.tokens.cache_write),
        output: most(usage.tokens.output),
        reasoning: most(usage.tokens.reasoning),
    };
    Usage { tokens, cost: usage.cost.map(|cost| UsdMicros(most(cost.0))), ..*usage }
}
