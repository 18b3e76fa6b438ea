//! Owns how a leased operation ends in a random run: mostly well, often badly, sometimes absurdly.

use devloop_core::finding::{Found, Severity};
use devloop_core::hold::Subject;
use devloop_core::ids::{DispatchId, Oid};
use devloop_core::plan::PlannedTask;
use devloop_core::report::{
    CheckOutcome, CommitFault, FailureClass, MergeFault, Outcome, Report, Usage, UsageBasis, UsageSource,
};
use devloop_core::review::{Review, Verdict};
use devloop_core::state::{Lease, LoopState, Op};
use devloop_core::task::Estimate;
use devloop_core::tier::{Risk, Tier};
use devloop_core::units::{UsdMicros, WallMs};

use super::{Random, tokens};

/// A report of `lease`.
pub fn report(random: &mut Random, state: &LoopState, dispatch: DispatchId, lease: &Lease) -> Report {
    let outcome = match random.below(100) {
        0 => odd(random),
        1..=6 => failed(random),
        7..=9 => Outcome::Refused { detail: "no binary".into() },
        _ => fitting(random, state, lease),
    };
    let usage = if lease.op.is_model() && random.chance(70) { Some(usage(random)) } else { None };
    let epoch = if random.chance(3) { lease.epoch.wrapping_add(1) } else { lease.epoch };
    Report { dispatch, epoch, usage, outcome }
}

/// What a dispatch may have used.
pub fn usage(random: &mut Random) -> Usage {
    let cost = random.chance(50).then(|| UsdMicros(random.below(400_000)));
    let source = random.pick(&[UsageSource::Result, UsageSource::SessionRecords, UsageSource::AgentPort]);
    let own = UsageBasis::PerDispatch;
    let basis =
        random.pick(&[own, own, own, UsageBasis::Partial, UsageBasis::Cumulative, UsageBasis::Unknown]);
    Usage { tokens: tokens(random), cost, source, basis }
}

/// An outcome of some other operation.
pub fn odd(random: &mut Random) -> Outcome {
    match random.below(6) {
        0 => Outcome::Worked { summary: "unasked".into() },
        1 => Outcome::Committed { head: random.oid() },
        2 => Outcome::Merged { commit: random.oid() },
        3 => Outcome::Checked(CheckOutcome::Green),
        4 => Outcome::InvalidResult { detail: "not an envelope".into() },
        _ => Outcome::NoResult { detail: String::new() },
    }
}

fn failed(random: &mut Random) -> Outcome {
    let until = random.chance(70).then(|| WallMs(1_750_000_000_000 + random.below(200_000_000)));
    let class = random.pick(&[
        FailureClass::Task,
        FailureClass::Deadline,
        FailureClass::Cancelled,
        FailureClass::OutOfCredit,
        FailureClass::RateLimited { until },
        FailureClass::LoginExpired,
        FailureClass::Overloaded,
        FailureClass::NetworkDown,
        FailureClass::ContextTooLong,
        FailureClass::OutputLimit,
        FailureClass::ContentRefusal,
        FailureClass::Machine,
    ]);
    Outcome::Failed { class, detail: "it said so".into() }
}

fn fitting(random: &mut Random, state: &LoopState, lease: &Lease) -> Outcome {
    match lease.op {
        Op::Plan => plan(random, state),
        Op::Work => match random.below(20) {
            0 => Outcome::WorkBlocked { summary: "a key is missing".into() },
            1 => Outcome::WorkFailed { summary: "tests stay red".into() },
            _ => Outcome::Worked { summary: "done".into() },
        },
        Op::Commit => commit(random),
        Op::Check | Op::Verify => Outcome::Checked(checks(random)),
        Op::Review => Outcome::Reviewed(review(random, state, lease)),
        Op::Refresh => match random.below(5) {
            0 => not_merged(random),
            _ => Outcome::Refreshed { head: random.oid(), base: random.oid() },
        },
        Op::Merge => match random.below(10) {
            0..=2 => not_merged(random),
            3 => Outcome::AlreadyMerged { tip: random.oid() },
            _ => Outcome::Merged { commit: random.oid() },
        },
        Op::Revert => match random.below(5) {
            0 => not_merged(random),
            _ => Outcome::Reverted { commit: random.oid(), reapplied: random.oid() },
        },
    }
}

fn plan(random: &mut Random, state: &LoopState) -> Outcome {
    let count = random.below(5);
    let mut tasks: Vec<PlannedTask> = Vec::new();
    for at in 0..count {
        let earlier: Vec<String> = tasks.iter().map(|task| task.id.clone()).collect();
        let depends_on = if random.chance(40) { earlier.into_iter().take(1).collect() } else { Vec::new() };
        // Seldom an id that is taken already: such a plan is refused.
        let number = if random.chance(3) { 0 } else { state.tasks.len() as u64 + at };
        tasks.push(PlannedTask {
            id: format!("task-{number}"),
            title: format!("Task {number}"),
            tier: random.pick(&[Tier::T0, Tier::T1, Tier::T1, Tier::T2]),
            risk: random.pick(&[Risk::Low, Risk::Low, Risk::Medium, Risk::High]),
            depends_on,
            allowed_paths: vec![format!("part-{}/**", random.below(4))],
            criteria: vec!["works".into()],
            estimate: random.chance(50).then_some(Estimate { lines: 40, files: 2 }),
        });
    }
    Outcome::Planned { tasks }
}

fn commit(random: &mut Random) -> Outcome {
    let fault = match random.below(20) {
        0 => return Outcome::CommitEmpty,
        1 => CommitFault::Scope,
        2 => random.pick(&[
            CommitFault::ScopeUnknown,
            CommitFault::Secret,
            CommitFault::Escaped,
            CommitFault::Late,
            CommitFault::BranchTaken,
            CommitFault::TooLarge,
            CommitFault::Git,
        ]),
        _ => return Outcome::Committed { head: random.oid() },
    };
    Outcome::CommitRefused { why: fault, detail: "found".into(), paths: vec!["elsewhere/x".into()] }
}

fn checks(random: &mut Random) -> CheckOutcome {
    match random.below(10) {
        0 | 1 => CheckOutcome::Red { commands: vec!["cargo test".into()], output: "1 failed".into() },
        2 => CheckOutcome::Unavailable { detail: "no such program".into() },
        _ => CheckOutcome::Green,
    }
}

fn review(random: &mut Random, state: &LoopState, lease: &Lease) -> Review {
    let verdict = match random.below(20) {
        0..=3 => Verdict::Rework,
        4 => Verdict::Replan,
        5 => Verdict::Blocked,
        6..=9 => Verdict::PassWithNotes,
        _ => Verdict::Pass,
    };
    let seen: Option<Oid> = lease.basis.head.clone().filter(|_| !random.chance(3));
    let head = seen.unwrap_or_else(|| random.oid());
    Review { verdict, head, notes: "see above".into(), findings: findings(random, state, verdict, lease) }
}

/// What a reviewer names: mostly what fits its verdict, sometimes what was named before, sometimes nothing
/// where something is needed.
fn findings(random: &mut Random, state: &LoopState, verdict: Verdict, lease: &Lease) -> Vec<Found> {
    let task = match &lease.subject {
        Subject::Task(id) => state.tasks.get(id),
        _ => None,
    };
    let earlier = task.map(|task| task.findings.open.as_slice()).unwrap_or_default();
    let count = if random.chance(90) { 1 + random.below(3) } else { 0 };
    let fits = if verdict == Verdict::Rework { Severity::Blocking } else { Severity::Note };
    let one = |random: &mut Random| {
        let again = if random.chance(20) && !earlier.is_empty() { Some(random.pick(earlier)) } else { None };
        Found {
            id: again.as_ref().filter(|_| random.chance(70)).map(|earlier| earlier.id),
            severity: if random.chance(95) { fits } else { Severity::Blocking },
            path: match &again {
                Some(earlier) => earlier.path.clone(),
                None => random.chance(50).then(|| format!("part-{}/x", random.below(4))),
            },
            line: random.chance(50).then_some(7),
            text: again.map_or_else(|| format!("flaw {}", random.below(1_000)), |earlier| earlier.text),
        }
    };
    (0..count).map(|_| one(random)).collect()
}

fn not_merged(random: &mut Random) -> Outcome {
    let why = random.pick(&[
        MergeFault::Conflict,
        MergeFault::Overlap,
        MergeFault::LostSwap,
        MergeFault::CandidateRed,
        MergeFault::ChecksUnavailable,
        MergeFault::Checkout,
        MergeFault::Rewound,
        MergeFault::BuriedMerge,
        MergeFault::UnknownCommit,
        MergeFault::Git,
    ]);
    Outcome::NotMerged { why, detail: "found".into(), paths: vec!["part-1/x".into()] }
}
