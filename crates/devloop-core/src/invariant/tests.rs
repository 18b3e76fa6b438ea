//! Tests of the invariants: one good state, and every rule broken by one change to it.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::{MAX_GRANTS, Violation, check};
use crate::finding::{Finding, Findings, MAX_FINDING_TEXT, Severity};
use crate::hold::{Acknowledged, HoldKey, HoldKind, MAX_ITEMS, Subject};
use crate::ids::{DispatchId, FindingId};
use crate::ledger::{Certainty, Entry, Unattributed};
use crate::question::samples::{
    held, hold, lease, oid, reviewed, route_key, state, task, task_id, who, with_hold, worked,
};
use crate::state::{
    AnswerRecord, Ending, Gate, Grant, GrantScope, LoopHold, LoopState, MAX_ANSWERS, Op, PendingDay, Phase,
    Planning, RouteState,
};
use crate::task::{Done, MAX_TEXT, ResumeTo, ReviewRun, Stage, Task};
use crate::units::{ActiveMs, Day, MAX_NUMBER, UsdMicros, WallMs};

const WORK: DispatchId = DispatchId(1);
const MERGE: DispatchId = DispatchId(2);
const PLAN: DispatchId = DispatchId(3);

/// A state with most stages, three leases, a planning dispatch and a hold of a route.
fn good() -> LoopState {
    let tasks = [
        task("ready", Stage::Ready),
        task("working", Stage::Working(WORK)),
        worked("merging", Stage::Merging(MERGE, reviewed())),
        worked("passed", Stage::MergeReady(reviewed())),
        worked("held", held(ResumeTo::MergeReady(reviewed()), HoldKind::BaseMoved)),
        worked("committed", Stage::Committed { head: oid('b') }),
        worked("merged", Stage::Done(Done::Merged { commit: oid('c') })),
        task("dropped", Stage::Dropped { replaced_by: vec![] }),
        task("replanning", Stage::Replanning),
    ];
    let mut state = state(tasks);
    state.planning = Planning::Working { dispatch: PLAN, replaces: Some(task_id("replanning")) };
    lease(&mut state, WORK.0, Op::Work, Subject::Task(task_id("working")));
    lease(&mut state, MERGE.0, Op::Merge, Subject::Task(task_id("merging")));
    lease(&mut state, PLAN.0, Op::Plan, Subject::Planning);
    edit(&mut state, "passed").depends_on = vec![task_id("ready"), task_id("dropped")];
    edit(&mut state, "ready").depends_on = vec![task_id("working")];
    let key = route_key("work");
    state.routes.insert(key.clone(), RouteState { gate: Gate::Closed, refused: vec![] });
    with_hold(state, Subject::Route(key), hold(HoldKind::RouteClosed))
}

fn edit<'a>(state: &'a mut LoopState, id: &str) -> impl core::ops::DerefMut<Target = Task> + use<'a> {
    state.tasks.get_mut(&task_id(id)).expect(id)
}

type Break = fn(&mut LoopState);
type SetText = fn(&mut LoopState, &str);
type SetNumber = fn(&mut LoopState, u64);

fn broken(rows: &[(Violation, Break)]) {
    assert_eq!(check(&good()), Ok(()));
    for (expect, change) in rows {
        let mut state = good();
        change(&mut state);
        assert_eq!(check(&state).as_ref(), Err(expect), "{expect}");
    }
}

fn work(state: &mut LoopState) -> &mut crate::state::Lease {
    state.leases.get_mut(&WORK).expect("the worker's lease")
}

#[test]
fn an_empty_state_and_a_full_one_are_good() {
    assert_eq!(check(&LoopState::default()), Ok(()));
    assert_eq!(check(&good()), Ok(()));
}

#[test]
fn leases_and_what_names_them_agree() {
    broken(&[
        (Violation::MissingLease(WORK), |s| drop((s.leases.remove(&WORK), s.ledger.entries.remove(&WORK)))),
        (Violation::MissingLease(PLAN), |s| drop((s.leases.remove(&PLAN), s.ledger.entries.remove(&PLAN)))),
        (Violation::WrongLease(WORK), |s| edit(s, "working").stage = Stage::Ready),
        (Violation::WrongLease(WORK), |s| edit(s, "working").stage = Stage::Checking(WORK)),
        (Violation::WrongLease(WORK), |s| {
            edit(s, "working").stage = Stage::Ready;
            edit(s, "ready").stage = Stage::Working(WORK);
        }),
        (Violation::WrongLease(WORK), |s| work(s).subject = Subject::Loop),
        (Violation::WrongLease(PLAN), |s| s.planning = Planning::Idle),
        (Violation::WrongLease(MERGE), |s| {
            drop((s.leases.remove(&PLAN), s.ledger.entries.remove(&PLAN)));
            s.planning = Planning::Working { dispatch: MERGE, replaces: None };
        }),
        (Violation::WrongLease(DispatchId(4)), |s| lease(s, 4, Op::Merge, Subject::Target)),
        (Violation::TwoLeases(Subject::Task(task_id("working"))), |s| {
            lease(s, 4, Op::Check, Subject::Task(task_id("working")));
        }),
        (Violation::TwoLeases(Subject::Target), |s| {
            lease(s, 4, Op::Check, Subject::Target);
            lease(s, 5, Op::Check, Subject::Target);
        }),
        (Violation::TwoMerges(DispatchId(4)), |s| {
            edit(s, "passed").stage = Stage::Verifying(DispatchId(4));
            lease(s, 4, Op::Verify, Subject::Task(task_id("passed")));
        }),
        (Violation::DispatchAhead(PLAN), |s| s.next_dispatch = 3),
    ]);
}

#[test]
fn a_lease_that_was_asked_to_end_may_have_lost_its_task() {
    let mut state = good();
    work(&mut state).ending = Some(Ending::Operator);
    edit(&mut state, "working").stage = Stage::Replanning;
    assert_eq!(check(&state), Ok(()));
    lease(&mut state, 4, Op::Work, Subject::Task(task_id("working")));
    edit(&mut state, "working").stage = Stage::Working(DispatchId(4));
    assert_eq!(check(&state), Ok(()), "the old lease only waits for its end");
    work(&mut state).ending = None;
    assert_eq!(check(&state), Err(Violation::WrongLease(WORK)));
}

fn book(state: &mut LoopState, change: impl FnOnce(&mut Entry)) {
    assert!(state.ledger.entries.change(&WORK, change), "booked");
}

#[test]
fn money_is_booked_for_what_runs() {
    broken(&[
        (Violation::NoEntry(WORK), |s| drop(s.ledger.entries.remove(&WORK))),
        (Violation::NoEntry(WORK), |s| book(s, |e| e.op = Op::Review)),
        (Violation::NoEntry(WORK), |s| work(s).route = None),
        (Violation::StrayReserve(DispatchId(0)), |s| {
            let entry = s.ledger.entries[&WORK].clone();
            s.ledger.entries.insert(DispatchId(0), entry);
        }),
        (Violation::DispatchAhead(DispatchId(9)), |s| {
            let mut entry = s.ledger.entries[&WORK].clone();
            entry.certainty = Certainty::Measured;
            s.ledger.entries.insert(DispatchId(9), entry);
        }),
        (Violation::Nobody(WORK), |s| work(s).who = None),
        (Violation::DayAhead, |s| book(s, |e| e.day = Day(21))),
        (Violation::DayAhead, |s| {
            let usage =
                Unattributed { dispatch: "x".into(), day: Day(21), revision: 0, amount: UsdMicros(1) };
            s.ledger.unattributed.insert("x".into(), usage);
        }),
        (Violation::PendingDay, |s| {
            s.clock.pending_day = Some(PendingDay { day: Day(20), seen_at: ActiveMs(0) });
        }),
    ]);
    let mut settled = good();
    book(&mut settled, |e| e.certainty = Certainty::Measured);
    assert_eq!(check(&settled), Ok(()), "usage may settle before the lease ends");
}

#[test]
fn only_what_passed_as_it_is_can_be_merged() {
    let head = |id: &str| Violation::WrongHead(task_id(id));
    broken(&[
        (head("passed"), |s| edit(s, "passed").tip = Some(oid('c'))),
        (head("merging"), |s| edit(s, "merging").tip = None),
        (head("passed"), |s| edit(s, "passed").base = Some(oid('c'))),
        (head("held"), |s| edit(s, "held").tip = Some(oid('c'))),
        (head("committed"), |s| edit(s, "committed").tip = Some(oid('c'))),
        (head("committed"), |s| edit(s, "committed").stage = Stage::AwaitingReview { head: oid('c') }),
        (head("committed"), |s| {
            let run = ReviewRun::Forge { pr: 1, head: oid('c'), next_poll: WallMs(0) };
            edit(s, "committed").stage = Stage::InReview(run);
        }),
        (head("committed"), |s| {
            edit(s, "committed").stage =
                held(ResumeTo::Committed { head: oid('c') }, HoldKind::CheckUnavailable);
        }),
        (Violation::SameIdentity(task_id("passed")), |s| {
            edit(s, "passed").implementers.insert(who("other/reviewer"));
        }),
        (Violation::OpenTask(task_id("ready")), |s| s.phase = Phase::Complete { at: WallMs(0) }),
    ]);
}

#[test]
fn holds_lie_where_they_belong_once() {
    let route = || HoldKey { subject: Subject::Route(route_key("work")), kind: HoldKind::RouteClosed };
    let misplaced = HoldKey { subject: Subject::Task(task_id("ready")), kind: HoldKind::BlockedTask };
    broken(&[
        (Violation::DuplicateHold(route()), |s| s.holds.push(s.holds[0].clone())),
        (Violation::MisplacedHold(misplaced), |s| {
            let subject = Subject::Task(task_id("ready"));
            s.holds.push(LoopHold { subject, hold: hold(HoldKind::BlockedTask) });
        }),
        (Violation::PlanningHold, |s| {
            s.holds.push(LoopHold { subject: Subject::Planning, hold: hold(HoldKind::EmptyPlan) });
        }),
        (Violation::ClosedRoute(route_key("work")), |s| s.holds.clear()),
    ]);
    let mut held = state([]);
    held.planning = Planning::Held { replaces: None };
    assert_eq!(check(&held), Err(Violation::PlanningHold));
    assert_eq!(check(&with_hold(held, Subject::Planning, hold(HoldKind::EmptyPlan))), Ok(()));
}

#[test]
fn dependencies_exist_and_run_in_no_circle() {
    broken(&[
        (Violation::UnknownDependency(task_id("ready")), |s| {
            edit(s, "ready").depends_on.push(task_id("nobody"));
        }),
        (Violation::Cycle(task_id("ready")), |s| edit(s, "ready").depends_on.push(task_id("ready"))),
        (Violation::Cycle(task_id("ready")), |s| edit(s, "working").depends_on.push(task_id("ready"))),
    ]);
}

#[test]
fn lists_end_at_their_limit() {
    let grant = || Grant {
        kind: HoldKind::DailyCostCap,
        subject: Subject::Loop,
        scope: GrantScope::Goal(2),
        by: "cli".into(),
        at: WallMs(0),
    };
    let record = || AnswerRecord {
        key: HoldKey { subject: Subject::Loop, kind: HoldKind::DailyCostCap },
        answer: crate::answer::Answer::Allow,
        by: "cli".into(),
        at: WallMs(0),
    };
    let mut state = good();
    state.grants = vec![grant(); MAX_GRANTS];
    state.answers = vec![record(); MAX_ANSWERS];
    state.target.known_red = vec!["npm test".into(); MAX_ITEMS];
    state.holds[0].hold.items = vec!["path".into(); MAX_ITEMS];
    assert_eq!(check(&state), Ok(()), "all at their limit");
    let above: [(&str, Break); 4] = [
        ("grants", |s| s.grants.push(s.grants[0].clone())),
        ("answers", |s| s.answers.push(s.answers[0].clone())),
        ("target.known_red", |s| s.target.known_red.push("x".into())),
        ("hold.items", |s| s.holds[0].hold.items.push("x".into())),
    ];
    for (what, change) in above {
        let mut state = state.clone();
        change(&mut state);
        assert_eq!(check(&state), Err(Violation::TooMany(what)));
    }
}

#[test]
fn texts_end_at_their_limit_in_characters() {
    let set: [(&str, SetText); 8] = [
        ("task.title", |s, text| edit(s, "ready").title = text.into()),
        ("task.criteria", |s, text| edit(s, "ready").criteria = vec![text.into()]),
        ("task.notes", |s, text| edit(s, "ready").stage = Stage::Rework { notes: text.into() }),
        ("resume_to.notes", |s, text| {
            edit(s, "ready").stage = held(ResumeTo::Rework { notes: text.into() }, HoldKind::BlockedTask);
        }),
        ("hold.detail", |s, text| s.holds[0].hold.detail = text.into()),
        ("hold.acknowledged.by", |s, text| {
            s.holds[0].hold.acknowledged = Some(Acknowledged { by: text.into(), at: WallMs(0) });
        }),
        ("plan_counters.notes", |s, text| s.plan_counters.notes = text.into()),
        ("phase.by", |s, text| s.phase = Phase::Paused { by: text.into(), at: WallMs(0) }),
    ];
    for (what, change) in set {
        let mut state = good();
        change(&mut state, &"é".repeat(MAX_TEXT));
        assert_eq!(check(&state), Ok(()), "{what}");
        change(&mut state, &"é".repeat(MAX_TEXT + 1));
        assert_eq!(check(&state), Err(Violation::TextTooLong(what)));
    }
}

#[test]
fn findings_keep_their_number_their_texts_and_their_names() {
    let found = |id| Finding {
        id: FindingId(id),
        severity: Severity::Blocking,
        path: None,
        line: None,
        text: String::new(),
    };
    let with = |open: Vec<Finding>, named| {
        let mut state = good();
        edit(&mut state, "ready").findings = Findings { open, named };
        check(&state)
    };
    let many = |n: u32| (1..=n).map(found).collect::<Vec<_>>();
    assert_eq!(with(many(20), 20), Ok(()));
    assert_eq!(with(many(21), 21), Err(Violation::TooMany("task.findings")));
    let long = |n| vec![Finding { text: "é".repeat(n), ..found(1) }];
    assert_eq!(with(long(MAX_FINDING_TEXT), 1), Ok(()));
    assert_eq!(with(long(MAX_FINDING_TEXT + 1), 1), Err(Violation::TextTooLong("task.findings")));
    let bad = Err(Violation::FindingName(task_id("ready")));
    assert_eq!(with(vec![found(2), found(2)], 2), bad);
    assert_eq!(with(vec![found(3)], 2), bad);
}

#[test]
fn numbers_end_at_what_every_reader_holds_exactly() {
    let set: [(&str, SetNumber); 9] = [
        ("revision", |s, n| s.revision = n),
        ("next_dispatch", |s, n| s.next_dispatch = n),
        ("clock.wall", |s, n| s.clock.wall = WallMs(n)),
        ("clock.awake.boot", |s, n| s.clock.awake.boot = n),
        ("hold.opened_at", |s, n| s.holds[0].hold.opened_at = WallMs(n)),
        ("lease.deadline", |s, n| work(s).deadline = ActiveMs(n)),
        ("lease.owner.instance", |s, n| work(s).owner.instance = n),
        ("ledger.amount", |s, n| book(s, |e| e.amount = UsdMicros(n))),
        ("ledger.tokens", |s, n| book(s, |e| e.tokens.output = n)),
    ];
    for (what, change) in set {
        let mut state = good();
        change(&mut state, MAX_NUMBER);
        assert_eq!(check(&state), Ok(()), "{what}");
        change(&mut state, MAX_NUMBER + 1);
        assert_eq!(check(&state), Err(Violation::NumberTooLarge(what)));
    }
}
