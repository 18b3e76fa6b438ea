//! Every operation with every report that is meaningful for it.

use devloop_core::effect::{Effect, Job};
use devloop_core::finding::{Found, Severity};
use devloop_core::ids::{FindingId, Oid};
use devloop_core::policy::{Acceptance, Backend, PostMerge};
use devloop_core::report::{
    CheckOutcome, CommitFault, FailureClass, MergeFault, Outcome, Report, Usage, UsageBasis, UsageSource,
};
use devloop_core::review::{Review, Verdict};
use devloop_core::state::Op;
use devloop_core::tier::Risk;
use devloop_core::units::{Tokens, UsdMicros, WallMs};
use devloop_testkit::world::{World, blocking, digest, oid, planned, policy, reviewed};

use crate::sheet::{Sheet, seen_with, until};

/// Task `a`, on which `b` waits, with checks before and after its merge.
fn night() -> World {
    let mut policy = policy(Backend::Scripted);
    policy.acceptance = Acceptance::Digest(digest(9));
    policy.post_merge = PostMerge::Always;
    let plan = vec![planned("a", &[], "a/**", Risk::Low), planned("b", &["a"], "b/**", Risk::Low)];
    World::new(plan, policy)
}

/// The night at the moment in which the operation runs.
fn at(op: Op) -> (World, Report) {
    let mut world = night();
    let mut first = true;
    world.script = Box::new(move |effect, _| match (op, effect) {
        (Op::Refresh, Effect::Merge { .. }) if std::mem::take(&mut first) => {
            let (why, detail) = (MergeFault::Overlap, "moved".into());
            Some(Outcome::NotMerged { why, detail, paths: vec!["a/x".into()] })
        }
        (Op::Revert, Effect::Verify { .. }) => Some(red()),
        _ => None,
    });
    let report = until(&mut world, op);
    (world, report)
}

fn red() -> Outcome {
    Outcome::Checked(CheckOutcome::Red { commands: vec!["make test".into()], output: "boom".into() })
}

fn failures() -> Vec<(String, Outcome)> {
    let all = [
        ("failed at it", FailureClass::Task),
        ("ran out of time", FailureClass::Deadline),
        ("was ended on request", FailureClass::Cancelled),
        ("account empty", FailureClass::OutOfCredit),
        ("rate limited", FailureClass::RateLimited { until: None }),
        ("rate limited for an hour", FailureClass::RateLimited { until: Some(WallMs(1_790_004_000_000)) }),
        ("rate limited for two days", FailureClass::RateLimited { until: Some(WallMs(1_790_173_000_000)) }),
        ("login expired", FailureClass::LoginExpired),
        ("overloaded", FailureClass::Overloaded),
        ("network down", FailureClass::NetworkDown),
        ("context too long", FailureClass::ContextTooLong),
        ("output limit", FailureClass::OutputLimit),
        ("content refused", FailureClass::ContentRefusal),
        ("machine at fault", FailureClass::Machine),
    ];
    let of = |(name, class): (&str, FailureClass)| {
        (name.to_string(), Outcome::Failed { class, detail: name.into() })
    };
    all.map(of).into()
}

fn of_models() -> Vec<(String, Outcome)> {
    let mut all = failures();
    all.push(("refused".into(), Outcome::Refused { detail: "no binary".into() }));
    all.push(("returned nothing".into(), Outcome::NoResult { detail: "nothing".into() }));
    all.push(("returned something else".into(), Outcome::InvalidResult { detail: "garbage".into() }));
    let (why, detail) = (CommitFault::Escaped, "wrote into the checkout".into());
    all.push((
        "wrote into the checkout".into(),
        Outcome::CommitRefused { why, detail, paths: vec!["x".into()] },
    ));
    all
}

fn plans() -> Vec<(String, Outcome)> {
    let plan = |tasks: Vec<_>| Outcome::Planned { tasks };
    let one = |id: &str, deps: &[&str]| planned(id, deps, "x/**", Risk::Low);
    let mut all = vec![
        ("planned two tasks".into(), plan(vec![one("a", &[]), one("b", &["a"])])),
        ("planned no task".into(), plan(vec![])),
        ("planned a circle".into(), plan(vec![one("a", &["b"]), one("b", &["a"])])),
        ("planned one id twice".into(), plan(vec![one("a", &[]), one("a", &[])])),
        ("planned a stranger".into(), plan(vec![one("a", &["z"])])),
        ("planned __proto__".into(), plan(vec![one("__proto__", &[])])),
        ("planned the whole tree of .git".into(), plan(vec![planned("a", &[], ".git/**", Risk::Low)])),
    ];
    all.extend(of_models());
    all
}

fn works() -> Vec<(String, Outcome)> {
    let summary = || "as it is".to_string();
    let mut all = vec![
        ("worked".into(), Outcome::Worked { summary: summary() }),
        ("is blocked".into(), Outcome::WorkBlocked { summary: summary() }),
        ("says that it failed".into(), Outcome::WorkFailed { summary: summary() }),
    ];
    all.extend(of_models());
    all
}

fn commits() -> Vec<(String, Outcome)> {
    let refused = |why: CommitFault| {
        let name = format!("not committed: {why:?}");
        (name, Outcome::CommitRefused { why, detail: "found".into(), paths: vec!["x".into()] })
    };
    let faults = [
        CommitFault::Scope,
        CommitFault::ScopeUnknown,
        CommitFault::Secret,
        CommitFault::Escaped,
        CommitFault::Late,
        CommitFault::BranchTaken,
        CommitFault::TooLarge,
        CommitFault::Git,
    ];
    let mut all = vec![
        ("committed".into(), Outcome::Committed { head: oid(0xc1) }),
        ("nothing to commit".into(), Outcome::CommitEmpty),
    ];
    all.extend(faults.map(refused));
    all.push(machine());
    all
}

fn machine() -> (String, Outcome) {
    let class = FailureClass::Machine;
    ("machine at fault".into(), Outcome::Failed { class, detail: "no space".into() })
}

fn checks() -> Vec<(String, Outcome)> {
    let away = CheckOutcome::Unavailable { detail: "no such program".into() };
    let (why, detail) = (MergeFault::UnknownCommit, "gone".into());
    vec![
        ("green".into(), Outcome::Checked(CheckOutcome::Green)),
        ("red".into(), red()),
        ("could not start".into(), Outcome::Checked(away)),
        ("commit gone".into(), Outcome::NotMerged { why, detail, paths: vec![] }),
        machine(),
    ]
}

fn reviews(world: &World) -> Vec<(String, Outcome)> {
    let task = world.state.tasks.iter().next().expect("a");
    let head = task.tip.clone().expect("a commit");
    let say = |verdict, head: Oid| devloop_testkit::world::verdict(verdict, &head, "see there");
    let verdicts =
        [Verdict::Pass, Verdict::PassWithNotes, Verdict::Rework, Verdict::Replan, Verdict::Blocked];
    let of = |verdict: Verdict| (format!("{verdict:?}").to_lowercase(), say(verdict, head.clone()));
    let mut all: Vec<_> = verdicts.map(of).into();
    all.push(("pass for another commit".into(), say(Verdict::Pass, oid(0xbad))));
    let with = |verdict, found: &[&str]| reviewed(verdict, &head, "see there", found);
    all.push(("rework with two findings".into(), with(Verdict::Rework, &["flaw", "other flaw"])));
    all.push(("rework without a finding".into(), with(Verdict::Rework, &[])));
    all.push(("pass with a blocking finding".into(), with(Verdict::Pass, &["flaw"])));
    let noted = Found { severity: Severity::Note, ..blocking("for later") };
    let review = Review { findings: vec![noted], ..Review::bare(Verdict::PassWithNotes, head.clone()) };
    all.push(("pass with a finding for later".into(), Outcome::Reviewed(review)));
    let (why, detail) = (CommitFault::TooLarge, "too large to be shown".into());
    all.push(("change too large".into(), Outcome::CommitRefused { why, detail, paths: vec!["x".into()] }));
    let (why, detail) = (MergeFault::UnknownCommit, "gone".into());
    all.push(("commit gone".into(), Outcome::NotMerged { why, detail, paths: vec![] }));
    all.extend(of_models());
    all
}

fn merges() -> Vec<(String, Outcome)> {
    let faults = [
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
    ];
    let of = |why: MergeFault| {
        let name = format!("not published: {why:?}");
        (name, Outcome::NotMerged { why, detail: "found".into(), paths: vec!["a/x".into()] })
    };
    let mut all = faults.map(of).to_vec();
    all.push(machine());
    all
}

/// Writes one section: every outcome of the operation, each from the same state.
fn section(sheet: &mut Sheet, op: Op, outcomes: fn(&World) -> Vec<(String, Outcome)>) {
    let (mut world, report) = at(op);
    sheet.section(&format!("{} runs", op.key()), &world.state);
    for (name, outcome) in outcomes(&world) {
        let input = seen_with(&mut world, Report { outcome, ..report.clone() });
        let (state, policy) = (world.state.clone(), world.policy.clone());
        sheet.row(&name, &state, &policy, &input);
    }
}

pub fn write(sheet: &mut Sheet) {
    section(sheet, Op::Plan, |_| plans());
    section(sheet, Op::Work, |_| works());
    section(sheet, Op::Commit, |_| commits());
    section(sheet, Op::Check, |_| checks());
    section(sheet, Op::Review, reviews);
    second_review(sheet);
    section(sheet, Op::Merge, |_| {
        let mut all = vec![
            ("merged".to_string(), Outcome::Merged { commit: oid(0xe1) }),
            ("was merged already".to_string(), Outcome::AlreadyMerged { tip: oid(0xe2) }),
        ];
        all.extend(merges());
        all
    });
    section(sheet, Op::Refresh, |_| {
        let mut all =
            vec![("refreshed".to_string(), Outcome::Refreshed { head: oid(0xc2), base: oid(0xb2) })];
        all.extend(merges());
        all
    });
    section(sheet, Op::Verify, |_| checks());
    section(sheet, Op::Revert, |_| {
        let mut all =
            vec![("reverted".to_string(), Outcome::Reverted { commit: oid(0xe3), reapplied: oid(0xc3) })];
        all.extend(merges());
        all
    });
    usage(sheet);
}

/// The second review of a task that was sent back once with two findings.
fn second_review(sheet: &mut Sheet) {
    let mut world = night();
    world.policy.limits.review_cycles = 3;
    let mut first = true;
    world.script = Box::new(move |effect, _| match effect {
        Effect::Dispatch { job: Job::Review { head, .. }, .. } if std::mem::take(&mut first) => {
            Some(reviewed(Verdict::Rework, head, "two things", &["flaw", "other flaw"]))
        }
        _ => None,
    });
    until(&mut world, Op::Review);
    world.tick();
    let report = until(&mut world, Op::Review);
    sheet.section("the second review runs", &world.state);
    let head = world.state.tasks.iter().next().and_then(|a| a.tip.clone()).expect("a commit");
    let named = |id, text: &str| Found { id: Some(FindingId(id)), ..blocking(text) };
    let rows: [(&str, Vec<Found>); 6] = [
        ("one other flaw", vec![blocking("third flaw")]),
        ("two other flaws", vec![blocking("third flaw"), blocking("fourth flaw")]),
        ("one of the two by its name", vec![named(2, "still there")]),
        ("one of the two by its words", vec![blocking("other  flaw")]),
        ("a name that never was", vec![named(9, "third flaw")]),
        ("none", vec![]),
    ];
    for (name, findings) in rows {
        let review = Review { findings, ..Review::bare(Verdict::Rework, head.clone()) };
        let input = seen_with(&mut world, Report { outcome: Outcome::Reviewed(review), ..report.clone() });
        let (state, policy) = (world.state.clone(), world.policy.clone());
        sheet.row(name, &state, &policy, &input);
    }
}

/// Money comes with a report, after it, or not at all.
fn usage(sheet: &mut Sheet) {
    let (mut world, report) = at(Op::Work);
    sheet.section("usage of a work", &world.state);
    let tokens = Tokens { input_uncached: 1_000, output: 50, ..Tokens::default() };
    let cost = Some(UsdMicros(30_000));
    let covering =
        |basis| Some(Usage { basis, ..Usage::per_dispatch(UsageSource::SessionRecords, tokens, cost) });
    for (name, usage) in [
        ("says nothing", None),
        ("says tokens", Some(Usage::per_dispatch(UsageSource::Result, tokens, None))),
        ("says money", Some(Usage::per_dispatch(UsageSource::Result, tokens, cost))),
        ("tells a part", covering(UsageBasis::Partial)),
        ("tells the total of a session", covering(UsageBasis::Cumulative)),
        ("tells numbers of nobody knows what", covering(UsageBasis::Unknown)),
    ] {
        let outcome = Outcome::Worked { summary: String::new() };
        let told = Report { usage, outcome, ..report.clone() };
        let input = seen_with(&mut world, told.clone());
        let (state, policy) = (world.state.clone(), world.policy.clone());
        let after = sheet.row(name, &state, &policy, &input);
        let late = Report { usage: Some(Usage::per_dispatch(UsageSource::Result, tokens, cost)), ..told };
        let input = seen_with(&mut world, late);
        sheet.row(&format!("{name}, then money comes late"), &after, &policy, &input);
    }
    let stranger = Report { dispatch: devloop_core::ids::DispatchId(99), ..report };
    let usage = Some(Usage::per_dispatch(UsageSource::Result, tokens, cost));
    let input = seen_with(&mut world, Report { usage, ..stranger });
    let (state, policy) = (world.state.clone(), world.policy.clone());
    sheet.row("money of a dispatch that nobody knows", &state, &policy, &input);
}
