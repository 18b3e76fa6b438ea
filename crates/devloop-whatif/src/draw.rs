//! The drawing rule: what an operation of the what-if ends with. A recorded end, or `unknown`; never an
//! invented success. It must not move the night on.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use devloop_core::ids::Oid;
use devloop_core::policy::{Acceptance, Policy, Route};
use devloop_core::report::{FailureClass, Outcome, Report, Usage};
use devloop_core::state::{Lease, Op};
use devloop_core::tier::Tier;
use devloop_core::units::Map;

use crate::facts::{About, End, Facts, Past, Role};
use crate::moment::{Moment, Span};

/// The rule in sentences, as every answer states it.
pub const RULE: &[&str] = &[
    "A dispatch ends as the recorded one of the same task and role did, in order, after the same \
     time; a review of a commit that was reviewed gets that commit's verdict.",
    "Beyond what was recorded a planner, worker or reviewer takes the time, tokens and money of the \
     median recorded dispatch of its role and tier. Only a worker's own word is lent with it.",
    "What is missing then ends as unknown, never as a success: a verdict, a plan, a commit, a check \
     and a merge are drawn for what they were recorded for, or not at all.",
    "Money is what was reported for the recorded route. Under another model or price it is the \
     recorded tokens times the new price; without tokens or without a price the reserve is kept as \
     assumed.",
    "An answer comes as long after its question as it was recorded, once per recorded answer; every \
     other question stays open. Pauses, edits, crashes and moves of the target come when they came.",
    "A loop that was ended at work is taken to end with its last recorded look, any other one to live \
     until the next starts. What was still running when the recording ends goes on running.",
];

/// Where an end was drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The recorded operation itself.
    Own(usize),
    /// The median of its role and tier.
    Peer(usize),
    /// Nowhere.
    Unknown,
}

/// What was drawn already.
#[derive(Debug, Default)]
pub(crate) struct Draws {
    used: BTreeSet<usize>,
    /// Operations drawn so far, by role.
    count: Map<Role, usize>,
}

/// What is to be drawn for.
pub(crate) struct Wanted<'a> {
    pub role: &'a Role,
    pub about: &'a About,
    pub acceptance: &'a Acceptance,
    pub tier: Option<Tier>,
}

impl Draws {
    /// Keeps a recorded operation from being drawn.
    pub(crate) fn mark(&mut self, past: usize) {
        self.used.insert(past);
    }

    /// Gives a recorded operation back: what drew it was ended before that end.
    pub(crate) fn give_back(&mut self, facts: &Facts, past: usize) {
        self.used.remove(&past);
        if let Some(count) = facts.pasts.get(past).and_then(|past| self.count.get_mut(&past.role)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Draws the end of an operation that starts at `now`.
    pub(crate) fn draw(&mut self, facts: &Facts, wanted: &Wanted<'_>, now: Moment) -> Source {
        let mut own: Vec<usize> = Vec::new();
        for (i, past) in facts.pasts.iter().enumerate().filter(|(_, past)| past.role == *wanted.role) {
            if past.accident().is_some_and(|at| at <= now) {
                // What ended it is over: it would not have met this one.
                self.used.insert(i);
            } else if fits_checks(past, wanted) {
                own.push(i);
            }
        }
        let nth = self.count.entry(wanted.role.clone()).or_default();
        let at_nth = *nth;
        *nth += 1;
        let free = |i: &usize| !self.used.contains(i);
        let exact = own.iter().copied().filter(free).find(|i| facts.pasts[*i].about == *wanted.about);
        let same_nth = || own.get(at_nth).copied().filter(free).filter(|_| wanted.role.op == Op::Review);
        if let Some(found) = exact.or_else(same_nth) {
            self.used.insert(found);
            return Source::Own(found);
        }
        median(facts, wanted).map_or(Source::Unknown, Source::Peer)
    }
}

/// A check is a fact about the checks that ran.
fn fits_checks(past: &Past, wanted: &Wanted<'_>) -> bool {
    !matches!(wanted.role.op, Op::Check | Op::Verify) || past.acceptance == *wanted.acceptance
}

/// The recorded operation of the same role and tier with the median time.
fn median(facts: &Facts, wanted: &Wanted<'_>) -> Option<usize> {
    let peers = facts.pasts.iter().enumerate().filter(|(_, past)| {
        past.role.op == wanted.role.op && past.tier == wanted.tier && past.accident().is_none()
    });
    let mut spans: Vec<(Span, usize)> = peers.filter_map(|(i, past)| Some((past.span()?, i))).collect();
    spans.sort_unstable();
    spans.get(spans.len().checked_sub(1)? / 2).map(|(_, i)| *i)
}

/// The outcome of an own draw: a verdict that named the commit it was asked about names the commit it is
/// asked about now.
pub(crate) fn own_outcome(past: &Past, report: &Report, lease: &Lease) -> Outcome {
    match (&report.outcome, &past.about, &lease.basis.head) {
        (Outcome::Reviewed(review), About::Commit(Some(asked)), Some(head)) if review.head == *asked => {
            let mut review = review.clone();
            review.head = Oid::clone(head);
            Outcome::Reviewed(review)
        }
        (outcome, ..) => outcome.clone(),
    }
}

/// The outcome of a draw from a peer: a worker's own word, or unknown.
pub(crate) fn lent_outcome(past: &Past, lease: &Lease) -> Option<Outcome> {
    let End::Report(_, report, _) = &past.end else { return None };
    let is_word = match &report.outcome {
        Outcome::Worked { .. } | Outcome::WorkBlocked { .. } | Outcome::WorkFailed { .. } => true,
        Outcome::Failed { class, .. } => {
            class.is_about_content()
                || matches!(class, FailureClass::Task | FailureClass::Deadline | FailureClass::Machine)
        }
        _ => false,
    };
    (is_word && lease.op == Op::Work).then(|| report.outcome.clone())
}

/// An end that nobody recorded.
pub(crate) fn unknown(lease: &Lease) -> Outcome {
    Outcome::NoResult { detail: unknown_words(lease) }
}

/// The words for it.
pub(crate) fn unknown_words(lease: &Lease) -> String {
    format!("unknown: the recording has no such {} of {}", lease.op.key(), lease.subject)
}

/// The recorded usage under the terms of the route that is used now.
pub(crate) fn reprice(
    usage: Option<Usage>,
    past: &Past,
    recorded: Option<&Policy>,
    lease: &Lease,
    policy: &Policy,
) -> Option<Usage> {
    let usage = usage?;
    let before = past.route.as_ref().and_then(|key| recorded?.routes.get(key));
    let now = lease.route.as_ref().and_then(|key| policy.routes.get(key));
    if same_terms(before, now) {
        return Some(usage);
    }
    (usage.tokens.total() > 0).then_some(Usage { cost: None, ..usage })
}

fn same_terms(before: Option<&Route>, now: Option<&Route>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => {
            before.identity == now.identity && before.price == now.price && before.peak == now.peak
        }
        (before, now) => before.is_none() && now.is_none(),
    }
}
