//! Owns the lists: every value, or at least one of every variant, of what a decision can meet. A variant
//! that is added to an enum does not compile until its list names it.

use devloop_core::answer::Answer;
use devloop_core::circuit::Circuit;
use devloop_core::finding::{Found, Severity};
use devloop_core::ids::{FindingId, Oid};
use devloop_core::observation::Checkout;
use devloop_core::report::{
    CheckOutcome, CommitFault, FailureClass, MergeFault, Outcome, Usage, UsageBasis, UsageSource,
};
use devloop_core::review::{Review, Verdict};
use devloop_core::tier::Risk;
use devloop_core::units::{Tokens, UsdMicros, WallMs};
use devloop_testkit::world::{blocking, planned, verdict};

use super::scene::WALL;

/// The variants of an enum without data: the list and a match without a rest.
macro_rules! units {
    ($type:ident: $($variant:ident),+ $(,)?) => {{
        let _complete = |value: &$type| match value { $($type::$variant => ()),+ };
        vec![$($type::$variant),+]
    }};
}

/// Values by pattern: every pattern has at least one, and together the patterns leave nothing out.
macro_rules! every {
    ($type:ty { $($pattern:pat => $values:expr),+ $(,)? }) => {{
        let _complete = |value: &$type| match value { $($pattern => ()),+ };
        let mut all: Vec<$type> = Vec::new();
        $({
            let values: Vec<$type> = $values.into();
            assert!(!values.is_empty(), "no value of {}", stringify!($pattern));
            assert!(values.iter().all(|v| matches!(v, $pattern)), "{} has strangers", stringify!($pattern));
            all.extend(values);
        })+
        all
    }};
}

pub(crate) use {every, units};

fn text() -> String {
    "what was found".into()
}

fn failures() -> Vec<FailureClass> {
    let reset = |after: u64| FailureClass::RateLimited { until: Some(WallMs(WALL + after)) };
    every!(FailureClass {
        FailureClass::Task => [FailureClass::Task],
        FailureClass::Deadline => [FailureClass::Deadline],
        FailureClass::Cancelled => [FailureClass::Cancelled],
        FailureClass::OutOfCredit => [FailureClass::OutOfCredit],
        FailureClass::RateLimited { .. } =>
            [FailureClass::RateLimited { until: None }, reset(0), reset(3_600_000), reset(200_000_000)],
        FailureClass::LoginExpired => [FailureClass::LoginExpired],
        FailureClass::Overloaded => [FailureClass::Overloaded],
        FailureClass::NetworkDown => [FailureClass::NetworkDown],
        FailureClass::ContextTooLong => [FailureClass::ContextTooLong],
        FailureClass::OutputLimit => [FailureClass::OutputLimit],
        FailureClass::ContentRefusal => [FailureClass::ContentRefusal],
        FailureClass::Machine => [FailureClass::Machine],
    })
}

/// Checks that end in every way; `known` is a red command that a person accepted at the base.
fn checks(known: &str) -> Vec<CheckOutcome> {
    let red = |command: &str| CheckOutcome::Red { commands: vec![command.into()], output: text() };
    every!(CheckOutcome {
        CheckOutcome::Green => [CheckOutcome::Green],
        CheckOutcome::Red { .. } =>
            [red("make test"), red(known), CheckOutcome::Red { commands: Vec::new(), output: text() }],
        CheckOutcome::Unavailable { .. } => [CheckOutcome::Unavailable { detail: text() }],
    })
}

fn reviews(head: &Oid, other: &Oid) -> Vec<Outcome> {
    let verdicts = units!(Verdict: Pass, PassWithNotes, Rework, Replan, Blocked);
    let of = |head: &Oid| {
        let review = |v: &Verdict| verdict(*v, head, &text());
        verdicts.iter().map(review).collect::<Vec<_>>()
    };
    // The one that was found before, one that was not, both, one for later, and none.
    let found = |id: Option<u32>, severity| Found { id: id.map(FindingId), severity, ..blocking("flaw") };
    let (again, new) = (found(Some(1), Severity::Blocking), found(None, Severity::Blocking));
    let lists = [vec![again.clone()], vec![again, new], vec![found(None, Severity::Note)], vec![]];
    let say = |verdict, findings| Review { findings, ..Review::bare(verdict, head.clone()) };
    let with = lists.iter().flat_map(|list| {
        [Verdict::Rework, Verdict::Pass].map(|verdict| Outcome::Reviewed(say(verdict, list.clone())))
    });
    [of(head), of(other), with.collect()].concat()
}

fn plans() -> Vec<Outcome> {
    let task = |id: &str, deps: &[&str]| planned(id, deps, "new/**", Risk::Low);
    let plans = [
        vec![task("n", &[])],
        vec![task("n", &[]), task("m", &["n"])],
        // Refused: no task, an id that is taken, a circle, a stranger, a name no plan may use.
        vec![],
        vec![task("a", &[])],
        vec![task("n", &["m"]), task("m", &["n"])],
        vec![task("n", &["nobody"])],
        vec![task("__proto__", &[])],
    ];
    plans.map(|tasks| Outcome::Planned { tasks }).into()
}

fn not_merged() -> Vec<Outcome> {
    let faults = units!(MergeFault: Conflict, Overlap, LostSwap, CandidateRed, ChecksUnavailable, Checkout,
        Rewound, BuriedMerge, UnknownCommit, Git);
    let of = |why| Outcome::NotMerged { why, detail: text(), paths: vec!["a/x".into()] };
    faults.into_iter().map(of).collect()
}

fn commit_refused() -> Vec<Outcome> {
    let faults = units!(CommitFault: Scope, ScopeUnknown, Secret, Escaped, Late, BranchTaken, TooLarge, Git);
    let of = |why| Outcome::CommitRefused { why, detail: text(), paths: vec!["elsewhere/x".into()] };
    faults.into_iter().map(of).collect()
}

/// How a dispatch can end. `head` is the task's own, `other` any other commit, `known` a red command that a
/// person accepted.
pub fn outcomes(head: &Oid, other: &Oid, known: &str) -> Vec<Outcome> {
    let fresh = other.clone();
    every!(Outcome {
        Outcome::Planned { .. } => plans(),
        Outcome::Worked { .. } => [Outcome::Worked { summary: text() }],
        Outcome::WorkBlocked { .. } => [Outcome::WorkBlocked { summary: text() }],
        Outcome::WorkFailed { .. } => [Outcome::WorkFailed { summary: text() }],
        Outcome::Committed { .. } => [Outcome::Committed { head: fresh.clone() }],
        Outcome::CommitEmpty => [Outcome::CommitEmpty],
        Outcome::CommitRefused { .. } => commit_refused(),
        Outcome::Checked(_) => checks(known).into_iter().map(Outcome::Checked).collect::<Vec<_>>(),
        Outcome::Reviewed(_) => reviews(head, other),
        Outcome::Merged { .. } => [Outcome::Merged { commit: fresh.clone() }],
        Outcome::AlreadyMerged { .. } => [Outcome::AlreadyMerged { tip: fresh.clone() }],
        Outcome::NotMerged { .. } => not_merged(),
        Outcome::Refreshed { .. } =>
            [Outcome::Refreshed { head: fresh.clone(), base: head.clone() }],
        Outcome::Reverted { .. } =>
            [Outcome::Reverted { commit: fresh.clone(), reapplied: head.clone() }],
        Outcome::NoResult { .. } => [Outcome::NoResult { detail: text() }],
        Outcome::InvalidResult { .. } => [Outcome::InvalidResult { detail: text() }],
        Outcome::Failed { .. } =>
            failures().into_iter().map(|class| Outcome::Failed { class, detail: text() }).collect::<Vec<_>>(),
        Outcome::Refused { .. } => [Outcome::Refused { detail: text() }],
    })
}

/// What a backend may say about its use: nothing, tokens, money, both, more than there is.
pub fn usages() -> Vec<Option<Usage>> {
    let tokens = Tokens { input_uncached: 1_000, output: 50, ..Tokens::default() };
    let cost = Some(UsdMicros(40_000));
    let covering = |basis| Some(Usage { tokens, cost, source: UsageSource::SessionRecords, basis });
    vec![
        None,
        Some(Usage::per_dispatch(UsageSource::Result, tokens, None)),
        Some(Usage::per_dispatch(UsageSource::Result, Tokens::default(), cost)),
        Some(Usage::per_dispatch(UsageSource::Result, tokens, cost)),
        Some(Usage::per_dispatch(
            UsageSource::Unknown,
            Tokens { output: u64::MAX, cache_read: u64::MAX, ..tokens },
            Some(UsdMicros(u64::MAX)),
        )),
        Some(Usage::per_dispatch(UsageSource::Result, Tokens::default(), Some(UsdMicros(0)))),
        covering(UsageBasis::Partial),
        covering(UsageBasis::Cumulative),
    ]
}

/// Every circuit; the core's own table has a row for each.
pub fn circuits() -> Vec<Circuit> {
    units!(Circuit: MaxTaskAttempts, MaxReviewCycles, DispatchRefused, TaskTimeout, DispatchDeadline,
        DuplicateAction, NoProgress, MaxTokensPerTask, TaskCostCap, SessionCostCap, GoalCostCap, DailyCostCap,
        AllProjectsDailyCap, MaxParallelWorkers, MaxParallelPerProject, Refreshes, Replans, Orphans,
        PlanAttempts, PlanRefusals, DiskLow)
}

/// Every answer, from a match of its own.
pub fn answers() -> Vec<Answer> {
    units!(Answer: Retry, RetryFresh, Review, Accept, Approve, Drop, Stop, Allow, GoOn, Continue, Replan,
        Branch, Open)
}

/// The user's checkout in every condition.
pub fn checkouts() -> Vec<Checkout> {
    every!(Checkout {
        Checkout::Free => [Checkout::Free],
        Checkout::Dirty { .. } => [Checkout::Dirty { paths: vec!["src/lib.rs".into()] }],
        Checkout::Busy { .. } => [Checkout::Busy { what: "rebase".into() }],
    })
}
