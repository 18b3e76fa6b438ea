//! Tests of questions: every kind in several states, and the rules of each answer.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::samples::{
    held, hold, of_task, oid, policy, reviewed, route_key, state, states_of, task, task_id, who, with_hold,
    worked,
};
use super::{Question, open_questions, question};
use crate::answer::Answer;
use crate::hold::{Acknowledged, Hold, HoldKey, HoldKind, MAX_ITEMS, Subject};
use crate::ids::{Branch, DispatchId};
use crate::ledger::{Certainty, Entry};
use crate::policy::{HighRisk, Limits, Policy};
use crate::state::{Grant, GrantScope, LoopState, Op};
use crate::task::{ResumeTo, Stage};
use crate::units::{Tokens, UsdMicros, WallMs};

fn ask(state: &LoopState, policy: &Policy) -> Question {
    let mut all = open_questions(state, policy, 1);
    assert_eq!(all.len(), 1, "one question is open");
    all.remove(0)
}

fn words(question: &Question) -> Vec<&'static str> {
    question.answers.iter().map(|offer| offer.answer.word()).collect()
}

#[test]
fn every_kind_has_a_whole_question_in_every_state() {
    for kind in HoldKind::ALL {
        for state in states_of(*kind) {
            let asked = ask(&state, &policy());
            let recommended = asked.answers.iter().filter(|offer| offer.recommended).count();
            assert_eq!(recommended, 1, "{kind}");
            assert!(asked.answers.iter().any(|offer| offer.answer == Answer::Stop), "{kind}");
            assert!(!asked.evidence.is_empty(), "{kind}");
            let offers = asked.answers.iter().map(|offer| &offer.text);
            for text in offers.chain(&asked.by_hand).chain([&asked.text]) {
                assert!(!text.trim().is_empty() && !text.contains(['{', '}']), "{kind}: {text}");
            }
            assert!(asked.text.contains('?'), "{kind}: {}", asked.text);
            let is_task = matches!(asked.key.subject, Subject::Task(_));
            assert!(
                !is_task || asked.text.contains("task a (\"do a\")") || asked.text.contains("Task a"),
                "{kind}"
            );
        }
    }
}

#[test]
fn offers_are_a_part_of_what_the_kind_takes_and_never_recommend_giving_up() {
    for kind in HoldKind::ALL {
        for state in states_of(*kind) {
            let asked = ask(&state, &policy());
            let offered = super::offered(&state, &policy(), 1, &asked.key.subject, &hold(*kind));
            let said: Vec<Answer> = asked.answers.iter().map(|offer| offer.answer).collect();
            assert_eq!(offered, said, "{kind}");
            assert!(offered.iter().all(|answer| kind.answers().contains(answer)), "{kind}");
            assert!(!asked.answers.iter().any(|o| o.recommended && o.answer == Answer::Drop), "{kind}");
        }
    }
}

#[test]
fn what_needs_a_commit_or_a_pass_is_offered_only_with_one() {
    let check = |state: LoopState, expect: &[&str]| assert_eq!(words(&ask(&state, &policy())), expect);
    let risk = HoldKind::SecurityHighRisk;
    let rest = ["retry", "accept", "drop", "stop"];
    check(of_task(ResumeTo::MergeReady(reviewed()), risk), &["approve", "retry", "accept", "drop", "stop"]);
    check(of_task(ResumeTo::AwaitingReview { head: oid('b') }, risk), &rest);
    let before = Policy { high_risk: HighRisk::HoldBeforeWork, ..policy() };
    let unworked = state([task("a", held(ResumeTo::Ready, risk))]);
    assert_eq!(words(&ask(&unworked, &before)), ["approve", "accept", "drop", "stop"]);
    check(unworked, &rest);
    let fresh = |kind| state([task("a", held(ResumeTo::Ready, kind))]);
    check(fresh(HoldKind::NoReviewPass), &["retry", "drop", "stop"]);
    check(of_task(ResumeTo::Ready, HoldKind::NoReviewPass), &["review", "retry", "drop", "stop"]);
    check(fresh(HoldKind::MaxTaskAttempts), &["retry", "drop", "stop"]);
    check(of_task(ResumeTo::Ready, HoldKind::MaxTaskAttempts), &["retry", "retry --fresh", "drop", "stop"]);
}

#[test]
fn a_review_is_offered_while_one_is_left() {
    let with = |cycles: u32| {
        let mut a = worked("a", held(ResumeTo::AwaitingReview { head: oid('b') }, HoldKind::StaleReviewSha));
        a.counters.review_cycles = cycles;
        state([a])
    };
    let limit = policy().limits.review_cycles;
    assert_eq!(words(&ask(&with(limit - 1), &policy())), ["review", "retry", "drop", "stop"]);
    assert_eq!(words(&ask(&with(limit), &policy())), ["retry", "drop", "stop"]);
}

#[test]
fn replan_is_offered_while_the_lineage_has_one_left() {
    let with = |kind, replans: u32| {
        let mut a = worked("a", held(ResumeTo::Ready, kind));
        a.counters.replans = replans;
        state([a])
    };
    let offers = |state: &LoopState| words(&ask(state, &policy())).contains(&"replan");
    let limit = policy().limits.replans;
    assert!(offers(&with(HoldKind::BlockedTask, limit - 1)));
    assert!(!offers(&with(HoldKind::BlockedTask, limit)));
    assert!(offers(&with(HoldKind::Replans, limit)), "this very question is about one more");
}

#[test]
fn a_cap_of_zero_does_not_offer_to_allow_more() {
    let open = |kind: HoldKind, items: &[&str]| {
        let items = items.iter().map(ToString::to_string).collect();
        with_hold(state([]), Subject::Loop, Hold { items, ..hold(kind) })
    };
    let rich = policy();
    let none = UsdMicros(0);
    let limits = Limits { cost_session: none, cost_day: none, cost_goal: Some(none), ..Limits::default() };
    let poor = Policy { limits, ..policy() };
    let rows = [
        (HoldKind::SessionCostCap, [].as_slice()),
        (HoldKind::DailyCostCap, &[]),
        (HoldKind::ReserveExceedsCap, &["session_cost_cap"]),
        (HoldKind::ReserveExceedsCap, &["goal_cost_cap"]),
    ];
    for (kind, items) in rows {
        let state = open(kind, items);
        assert_eq!(words(&ask(&state, &rich)), ["allow", "stop"], "{kind}");
        assert_eq!(words(&ask(&state, &poor)), ["stop"], "{kind}");
        assert!(ask(&state, &poor).answers[0].recommended, "{kind}");
    }
    let goal = open(HoldKind::GoalCostCap, &[]);
    assert_eq!(words(&ask(&goal, &poor)), ["stop"]);
}

#[test]
fn retry_says_where_it_continues_and_fresh_what_it_discards() {
    let asked =
        ask(&of_task(ResumeTo::Rework { notes: String::new() }, HoldKind::MaxTaskAttempts), &policy());
    let [retry, fresh, ..] = asked.answers.as_slice() else { panic!("two answers") };
    assert!(
        retry.text.starts_with("Continues from the task's last host commit bbbbbbbbbb"),
        "{}",
        retry.text
    );
    assert!((retry.spends, retry.discards, retry.recommended) == (true, false, true));
    assert!(fresh.text.contains("current target and discards the task's commits up to bbbbbbbbbb"));
    assert!((fresh.spends, fresh.discards, fresh.recommended) == (true, true, false));
    let early = ask(&state([task("a", held(ResumeTo::Ready, HoldKind::MissingAgentResult))]), &policy());
    assert!(early.answers[0].text.starts_with("Starts the task from the current target"));
}

#[test]
fn spending_and_discarding_follow_from_where_the_task_is() {
    let at = |place, kind| ask(&of_task(place, kind), &policy());
    let flags = |question: &Question, answer| {
        let offer = question.answers.iter().find(|offer| offer.answer == answer).expect("offered");
        (offer.spends, offer.discards)
    };
    let moved = at(ResumeTo::MergeReady(reviewed()), HoldKind::BaseMoved);
    assert_eq!(flags(&moved, Answer::Retry), (false, false), "the same head is merged");
    let risky = at(ResumeTo::MergeReady(reviewed()), HoldKind::SecurityHighRisk);
    assert_eq!(flags(&risky, Answer::Retry), (true, true), "a paid pass is void");
    assert_eq!(flags(&risky, Answer::Approve), (false, false));
    assert_eq!(flags(&risky, Answer::Accept), (false, true));
    let red = at(ResumeTo::Rework { notes: String::new() }, HoldKind::PostMergeRed);
    assert_eq!(flags(&red, Answer::Accept), (false, false), "it stays merged");
    let review = at(ResumeTo::AwaitingReview { head: oid('b') }, HoldKind::StaleReviewSha);
    assert_eq!(flags(&review, Answer::Review), (true, false));
    let mut open = with_hold(state([worked("b", Stage::Ready)]), Subject::Goal, hold(HoldKind::GoalChanged));
    assert_eq!(flags(&ask(&open, &policy()), Answer::Replan), (true, true));
    assert_eq!(flags(&ask(&open, &policy()), Answer::Continue), (true, false));
    open = with_hold(state([task("b", Stage::Ready)]), Subject::Goal, hold(HoldKind::GoalChanged));
    assert_eq!(flags(&ask(&open, &policy()), Answer::Replan), (true, false));
}

#[test]
fn recommendations_do_not_spend_what_midnight_gives() {
    let first = |state: &LoopState| {
        let asked = ask(state, &policy());
        asked.answers.iter().find(|offer| offer.recommended).map(|offer| offer.answer)
    };
    let on = |subject, hold| with_hold(state([]), subject, hold);
    assert_eq!(first(&on(Subject::Loop, hold(HoldKind::DailyCostCap))), Some(Answer::Stop));
    assert_eq!(first(&on(Subject::Loop, hold(HoldKind::SessionCostCap))), Some(Answer::Allow));
    assert_eq!(first(&on(Subject::Target, hold(HoldKind::MergeOntoTrunk))), Some(Answer::Branch));
    let red = hold(HoldKind::ChecksRedAtBase);
    assert_eq!(first(&on(Subject::Target, red.clone())), Some(Answer::Retry));
    let known = Hold { items: vec!["npm test".into()], ..red };
    assert_eq!(first(&on(Subject::Target, known)), Some(Answer::GoOn));
}

#[test]
fn a_branch_that_is_a_trunk_itself_is_not_offered() {
    let state = with_hold(state([]), Subject::Target, hold(HoldKind::MergeOntoTrunk));
    let trunks = vec![Branch::parse("Devloop/Goal-2").expect("a branch")];
    assert_eq!(words(&ask(&state, &Policy { trunks, ..policy() })), ["allow", "stop"]);
    assert!(ask(&state, &policy()).answers[0].text.contains("devloop/goal-2"));
}

#[test]
fn money_is_shown_against_its_cap_with_its_grants() {
    let mut state = with_hold(state([]), Subject::Loop, hold(HoldKind::SessionCostCap));
    let entry = Entry {
        op: Op::Plan,
        lineage: None,
        route: route_key("work"),
        goal: 2,
        day: state.clock.day,
        instance: 1,
        amount: UsdMicros(1_250_000),
        certainty: Certainty::Priced,
        tokens: Tokens::default(),
    };
    state.ledger.entries.insert(DispatchId(1), entry.clone());
    state.ledger.entries.insert(DispatchId(2), Entry { instance: 2, ..entry });
    state.grants.push(Grant {
        kind: HoldKind::SessionCostCap,
        subject: Subject::Loop,
        scope: GrantScope::Session(1),
        by: "cli".into(),
        at: WallMs(0),
    });
    let said = ask(&state, &policy()).evidence;
    assert_eq!(said[0], "session_cost_cap: $1.25 of $4.00 spent or set aside.");
    assert_eq!(said[1], "That is $0.00 measured, $1.25 priced, $0.00 assumed, $0.00 reserved.");
    assert_eq!(said[2], "Opened at 2026-03-01 12:03 UTC, revision 7.");
}

#[test]
fn evidence_counts_against_limits_and_bounds_its_lists() {
    let mut a = worked("a", held(ResumeTo::Ready, HoldKind::ScopeViolation));
    a.counters.attempts = 3;
    a.counters.refusals = 1;
    if let Stage::Held { hold, .. } = &mut a.stage {
        hold.items = (0..MAX_ITEMS).map(|i| format!("p{i}\nq")).collect();
        hold.detail = "outside".into();
    }
    let said = ask(&state([a]), &policy()).evidence;
    assert_eq!(said[0], "Seen: outside");
    assert!(
        said[1].starts_with("Named: p0 q, p1 q,") && said[1].ends_with("p19 q, and 30 more"),
        "{}",
        said[1]
    );
    assert!(said.contains(&"Counted: attempts 3 of 3, refusals 1 of 2.".to_string()), "{said:?}");
    assert!(said.contains(&"Allowed paths: a/**.".to_string()));
}

#[test]
fn routes_stand_in_the_evidence_of_what_they_keep() {
    let refused = ask(&of_task(ResumeTo::Ready, HoldKind::NoIndependentReviewer), &policy());
    let said = refused.evidence.join("\n");
    assert!(said.contains("Work: route work is acme/worker, open."), "{said}");
    assert!(said.contains("Review: route review is other/reviewer, open."), "{said}");
    let subject = Subject::Route(route_key("gone"));
    let closed = with_hold(state([]), subject, hold(HoldKind::RouteClosed));
    assert!(ask(&closed, &policy()).evidence[0].contains("no longer configured"));
}

#[test]
fn a_title_is_never_read_as_a_template_and_stays_on_its_line() {
    let mut a = worked("a", held(ResumeTo::Ready, HoldKind::BlockedTask));
    a.title = format!("{{tip}}\n{}", "x".repeat(300));
    let text = ask(&state([a]), &policy()).text;
    assert!(text.starts_with("Task a (\"{tip} xxx"), "{text}");
    assert!(!text.contains('\n') && text.len() < 200, "{text}");
}

#[test]
fn steps_by_hand_are_left_out_when_they_would_name_nothing() {
    let risky = |resume_to| ask(&of_task(resume_to, HoldKind::SecurityHighRisk), &policy()).by_hand;
    let (a, b) = ("a".repeat(40), "b".repeat(40));
    assert_eq!(risky(ResumeTo::MergeReady(reviewed()))[0], format!("Read the change: git diff {a} {b}"));
    let early = ask(&state([task("a", held(ResumeTo::Ready, HoldKind::SecurityHighRisk))]), &policy());
    assert_eq!(early.by_hand, ["Lower the risk, if it is not high: devloop task edit a --risk medium"]);
}

#[test]
fn dropping_names_who_waits_and_acknowledged_ones_come_last() {
    let mut b = task("b", held(ResumeTo::Ready, HoldKind::BlockedTask));
    b.depends_on = vec![task_id("a")];
    let mut a = worked("a", held(ResumeTo::Ready, HoldKind::BlockedTask));
    if let Stage::Held { hold, .. } = &mut a.stage {
        hold.acknowledged = Some(Acknowledged { by: "cli".into(), at: WallMs(0) });
    }
    let asked = open_questions(&state([a, b]), &policy(), 1);
    let keys: Vec<String> = asked.iter().map(|question| question.key.to_string()).collect();
    assert_eq!(keys, ["task/b:blocked_task", "task/a:blocked_task"]);
    assert!(asked[1].acknowledged && !asked[0].acknowledged);
    let drop = asked[1].answers.iter().find(|offer| offer.answer == Answer::Drop).expect("offered");
    assert!(drop.text.contains("One task depends on it"), "{}", drop.text);
}

#[test]
fn a_hold_that_is_about_to_open_is_put_as_well() {
    let state = state([worked("a", Stage::MergeReady(reviewed()))]);
    let subject = Subject::Task(task_id("a"));
    let asked = question(&state, &policy(), 1, &subject, &hold(HoldKind::SecurityHighRisk));
    assert_eq!(asked.key, HoldKey { subject, kind: HoldKind::SecurityHighRisk });
    assert_eq!(asked.answers[0].answer, Answer::Approve);
    assert!(asked.answers[0].text.contains(who("other/reviewer").as_str()));
}
