//! A state with one of everything is written and read back: no variant has a form that only goes one way.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::BTreeSet;

use devloop_core::answer::Answer;
use devloop_core::finding::{Finding, Findings, Severity};
use devloop_core::hold::{Acknowledged, HoldKey, HoldKind, Subject};
use devloop_core::ids::{DispatchId, FindingId, Identity, RouteKey};
use devloop_core::ledger::{Certainty, Entry, Unattributed};
use devloop_core::policy::Independence;
use devloop_core::report::CheckOutcome;
use devloop_core::review::{Review, ReviewedHead, Verdict};
use devloop_core::state::{
    AnswerRecord, Ending, Gate, Grant, GrantScope, LoopHold, LoopState, Op, PendingDay, PendingDigest, Phase,
    Planning, RouteState,
};
use devloop_core::task::{Done, Estimate, Repeats, ResumeTo, ReviewRun, Stage, Task};
use devloop_core::units::{ActiveMs, Day, MAX_NUMBER, Tokens, UsdMicros, WallMs};
use devloop_wire::state_doc;
use support::{basis, digest, hold, lease, oid, task, task_id};

fn proof() -> ReviewedHead {
    let review = Review::bare(Verdict::Pass, oid('2'));
    let who = |text: &str| Identity::parse(text).unwrap();
    let workers = BTreeSet::from([who("a/b")]);
    ReviewedHead::prove(&review, &oid('2'), &oid('1'), &who("c/d"), &workers, Independence::Model).unwrap()
}

/// Every stage, with the operation of those that have a lease.
fn stages() -> Vec<(Stage, Option<Op>)> {
    let d = DispatchId;
    let head = oid('2');
    let forge = ReviewRun::Forge { pr: 7, head: head.clone(), next_poll: WallMs(3) };
    let held = |resume_to| (Stage::Held { resume_to, hold: hold(HoldKind::BlockedTask) }, None);
    vec![
        (Stage::Working(d(0)), Some(Op::Work)),
        (Stage::Committing(d(1)), Some(Op::Commit)),
        (Stage::Checking(d(2)), Some(Op::Check)),
        (Stage::InReview(ReviewRun::Dispatch(d(3))), Some(Op::Review)),
        (Stage::Merging(d(4), proof()), Some(Op::Merge)),
        (Stage::Refreshing(d(5)), Some(Op::Refresh)),
        (Stage::Verifying(d(6)), Some(Op::Verify)),
        (Stage::Reverting(d(7)), Some(Op::Revert)),
        (Stage::Ready, None),
        (Stage::Committed { head: head.clone() }, None),
        (Stage::AwaitingReview { head: head.clone() }, None),
        (Stage::InReview(forge), None),
        (Stage::Rework { notes: "mend \"it\"\n".into() }, None),
        (Stage::MergeReady(proof()), None),
        (Stage::Replanning, None),
        held(ResumeTo::Ready),
        held(ResumeTo::Rework { notes: String::new() }),
        held(ResumeTo::Committed { head: head.clone() }),
        held(ResumeTo::AwaitingReview { head: head.clone() }),
        held(ResumeTo::MergeReady(proof())),
        (Stage::Done(Done::Merged { commit: head }), None),
        (Stage::Done(Done::Accepted), None),
        (Stage::Done(Done::MergedElsewhere), None),
        (Stage::Dropped { replaced_by: vec![task_id("t0")] }, None),
    ]
}

fn fill_loop(state: &mut LoopState) {
    let route = |text: &str| RouteKey::parse(text).unwrap();
    for (i, kind) in HoldKind::ALL.iter().enumerate() {
        let subject = match i % 4 {
            0 => Subject::Route(route("a/b:c")),
            1 => Subject::Goal,
            2 => Subject::Target,
            _ => Subject::Loop,
        };
        let mut hold = hold(*kind);
        hold.acknowledged = (i % 2 == 0).then(|| Acknowledged { by: "cli".into(), at: WallMs(1) });
        state.holds.push(LoopHold { subject, hold });
    }
    let scopes = [
        GrantScope::Head { head: oid('3'), contract: 2 },
        GrantScope::Day(Day(9)),
        GrantScope::Goal(1),
        GrantScope::Session(MAX_NUMBER),
    ];
    state.grants.extend(scopes.into_iter().map(|scope| Grant {
        kind: HoldKind::DailyCostCap,
        subject: Subject::Task(task_id("t1")),
        scope,
        by: "page".into(),
        at: WallMs(2),
    }));
    let gates =
        [Gate::Open, Gate::Closed, Gate::ClosedUntil { at: WallMs(5), why: "limit".into() }].into_iter();
    state.routes.extend(gates.enumerate().map(|(i, gate)| {
        (route(&format!("r{i}")), RouteState { gate, refused: vec![Subject::Task(task_id("t2"))] })
    }));
    state.answers.extend(Answer::ALL.into_iter().map(|answer| AnswerRecord {
        key: HoldKey { subject: Subject::Planning, kind: HoldKind::EmptyPlan },
        answer,
        by: "cli".into(),
        at: WallMs(4),
    }));
    state.goal.digest = Some(digest('a'));
    state.goal.pending = Some(PendingDigest { digest: digest('b'), seen_at: ActiveMs(1) });
    state.clock.pending_day = Some(PendingDay { day: Day(3), seen_at: ActiveMs(2) });
    let tokens = Tokens { input_uncached: 1, cache_read: 2, cache_write: 3, output: 4, reasoning: 5 };
    for (i, certainty) in [Certainty::Reserved, Certainty::Assumed, Certainty::Priced, Certainty::Measured]
        .into_iter()
        .enumerate()
    {
        let entry = Entry {
            op: Op::Work,
            lineage: (i > 0).then(|| task_id("t0")),
            route: route("r0"),
            goal: 1,
            day: Day(2),
            instance: 3,
            amount: UsdMicros(MAX_NUMBER),
            certainty,
            tokens,
        };
        state.ledger.entries.insert(DispatchId(i as u64), entry);
    }
    let foreign =
        Unattributed { dispatch: "d9 \u{1f600}".into(), day: Day(1), revision: 4, amount: UsdMicros(6) };
    state.ledger.unattributed.insert(foreign.dispatch.clone(), foreign);
}

/// A state with every stage, every kind of hold, grant, gate, answer and certainty.
fn everything() -> LoopState {
    let mut state = LoopState { next_dispatch: 100, ..LoopState::default() };
    for (i, (stage, op)) in stages().into_iter().enumerate() {
        let mut task = task(&format!("t{i}"), &[]);
        task.stage = stage;
        task.estimate = Some(Estimate { lines: 1, files: 2 });
        task.implementers.insert(Identity::parse("a/b").unwrap());
        (task.base, task.tip) = (Some(oid('1')), Some(oid('2')));
        let id = FindingId(u32::try_from(i).unwrap());
        let (path, line) =
            if i % 2 == 0 { (Some("src/\u{e9}.rs".into()), Some(u32::MAX)) } else { (None, None) };
        let severity = if i % 2 == 0 { Severity::Blocking } else { Severity::Note };
        let found = Finding { id, severity, path, line, text: "a \"flaw\"\n".into() };
        task.findings = Findings { open: if i == 0 { vec![] } else { vec![found] }, named: id.0 };
        let red = CheckOutcome::Red { commands: vec!["make".into()], output: "boom".into() };
        let away = CheckOutcome::Unavailable { detail: "gone".into() };
        task.checked = [None, Some(CheckOutcome::Green), Some(red), Some(away)][i % 4].clone();
        task.counters.repeats = Some(Repeats { op: Op::Work, basis: basis(), count: 2 });
        if let Some(op) = op {
            let mut lease = lease(op, Subject::Task(task.id.clone()));
            lease.worktree = Some(DispatchId(50));
            lease.resume_to = Some(ResumeTo::MergeReady(proof()));
            lease.ending =
                [None, Some(Ending::Deadline), Some(Ending::Operator), Some(Ending::Orphan)][i % 4];
            state.leases.insert(DispatchId(i as u64), lease);
        }
        state.tasks.push(task).unwrap();
    }
    fill_loop(&mut state);
    state
}

#[test]
fn one_of_everything_reads_back() {
    let mut state = everything();
    let phases = [
        Phase::Active,
        Phase::Paused { by: "cli".into(), at: WallMs(1) },
        Phase::Complete { at: WallMs(MAX_NUMBER) },
    ];
    for phase in phases {
        state.phase = phase;
        assert_eq!(state_doc::parse(&state_doc::write(&state)).unwrap(), state);
    }
    for replaces in [None, Some(task_id("t3"))] {
        state.planning = Planning::Wanted { replaces: replaces.clone() };
        assert_eq!(state_doc::parse(&state_doc::write(&state)).unwrap(), state);
        let dispatch = DispatchId(60);
        state.leases.insert(dispatch, lease(Op::Plan, Subject::Planning));
        state.planning = Planning::Working { dispatch, replaces };
        assert_eq!(state_doc::parse(&state_doc::write(&state)).unwrap(), state);
        state.leases.remove(&dispatch);
    }
    state.planning = Planning::Held { replaces: None };
    let error = state_doc::parse(&state_doc::write(&state)).unwrap_err();
    assert_eq!(error.path, "state.planning");
    state.holds.push(LoopHold { subject: Subject::Planning, hold: hold(HoldKind::EmptyPlan) });
    assert_eq!(state_doc::parse(&state_doc::write(&state)).unwrap(), state);
}

#[test]
fn a_state_from_before_there_were_findings_reads_and_one_with_bad_names_does_not() {
    let mut state = LoopState::default();
    state.tasks.push(task("t", &[])).unwrap();
    let text = String::from_utf8(state_doc::write(&state)).unwrap();
    assert!(!text.contains("findings") && !text.contains("checked"), "{text}");
    let found = |id| Finding {
        id: FindingId(id),
        severity: Severity::Note,
        path: None,
        line: None,
        text: "x".into(),
    };
    let with = |open: Vec<Finding>, named| {
        let mut state = LoopState::default();
        let findings = Findings { open, named };
        state.tasks.push(Task { findings, ..task("t", &[]) }).unwrap();
        state_doc::parse(&state_doc::write(&state)).map(|read| assert_eq!(read, state)).map_err(|e| e.path)
    };
    let bad = Err("state.tasks[0].findings.open".to_owned());
    assert_eq!(with((1..=20).map(found).collect(), 20), Ok(()));
    assert_eq!(with((1..=21).map(found).collect(), 21), bad);
    assert_eq!(with(vec![found(1), found(1)], 1), bad);
    assert_eq!(with(vec![found(2)], 1), bad);
}

#[test]
fn a_number_above_the_limit_is_found_wherever_it_hides() {
    let mut state = everything();
    state.leases.get_mut(&DispatchId(3)).unwrap().owner.instance = MAX_NUMBER + 1;
    let error = state_doc::parse(&state_doc::write(&state)).unwrap_err();
    assert_eq!(error.path, "state.leases.d3.owner.instance");
}
