//! Tests that every offered answer is accepted by the decision and every other one refused, and that an
//! answer leads where its words say.

use alloc::format;
use alloc::vec;

use super::samples::{held, oid, policy, reviewed, state, states_of, task, task_id, worked};
use super::{Facts, offer, open_questions};
use crate::answer::Answer;
use crate::apply::apply_line;
use crate::command::{Command, Wish};
use crate::decide::{Decision, Input, decide};
use crate::hold::{HoldKey, HoldKind, Subject};
use crate::invariant::check;
use crate::observation::{Checkout, GoalSeen, Observation, Others, RepoSeen, Stamp};
use crate::policy::{HighRisk, Policy};
use crate::reason::{Reason, Refusal};
use crate::state::{LoopState, Owner};
use crate::task::{ResumeTo, Stage, Task};
use crate::tier::Risk;
use crate::units::AwakeMs;

fn stamp(state: &LoopState) -> Stamp {
    let owner = Owner { host: "host".into(), boot: 1, pid: 2, started: 3, instance: 1 };
    Stamp { wall: state.clock.wall, awake: AwakeMs::default(), owner }
}

fn answer(state: &LoopState, policy: &Policy, key: &HoldKey, answer: Answer) -> Decision {
    let wish = Wish::Answer { answer, hold: Some(key.clone()), revision: None };
    let command = Command { by: "cli".into(), wish };
    decide(state, policy, &Input::Command { stamp: stamp(state), command })
}

fn answered(state: &LoopState, policy: &Policy, key: &HoldKey, word: Answer) -> LoopState {
    let mut after = state.clone();
    let decision = answer(state, policy, key, word);
    assert_eq!(decision.reason, Reason::Answered { key: key.clone(), answer: word });
    apply_line(&mut after, &decision.events).expect("the events follow from the state");
    after
}

#[test]
fn what_is_offered_is_accepted_and_nothing_else_is() {
    for kind in HoldKind::ALL {
        for state in states_of(*kind) {
            assert_eq!(check(&state), Ok(()), "{kind} before");
            let asked = open_questions(&state, &policy(), 1).remove(0);
            for word in Answer::ALL {
                if asked.answers.iter().any(|offer| offer.answer == word) {
                    let after = answered(&state, &policy(), &asked.key, word);
                    assert_eq!(check(&after), Ok(()), "{kind} after {}", word.word());
                    let open = after.hold(&asked.key);
                    assert_eq!(open.is_some(), word == Answer::Stop, "{kind} after {}", word.word());
                } else {
                    let decision = answer(&state, &policy(), &asked.key, word);
                    let refused = matches!(decision.reason, Reason::Refused(Refusal::NotOffered { .. }));
                    assert!(refused && decision.events.is_empty(), "{kind}: {}", word.word());
                }
            }
        }
    }
}

#[test]
fn retry_and_review_lead_where_they_say() {
    let id = task_id("a");
    for kind in HoldKind::ALL.iter().filter(|kind| kind.answers().contains(&Answer::Retry)) {
        for state in states_of(*kind) {
            let Some(before) = state.tasks.get(&id) else { continue };
            let (subject, hold) = (Subject::Task(id.clone()), before.hold().expect("held"));
            let facts_policy = policy();
            let facts = Facts::new(&state, &facts_policy, 1, &subject, hold);
            let expect = offer::retry_to(&facts).expect("a task");
            let key = HoldKey { subject: subject.clone(), kind: *kind };
            let after = answered(&state, &policy(), &key, Answer::Retry);
            let stage = &after.tasks.get(&id).expect("a task").stage;
            // The notes of a rework are the hold's own words; where it works is what counts.
            let same = match (stage, &expect) {
                (Stage::Rework { .. }, ResumeTo::Rework { .. }) => true,
                (stage, to) => *stage == Stage::from(to.clone()),
            };
            assert!(same, "{kind}: {stage:?} instead of {expect:?}");
        }
    }
}

/// Armed, clean, on the target.
fn observation(state: &LoopState) -> Observation {
    Observation {
        stamp: stamp(state),
        goal: GoalSeen::Present(policy().digest),
        repo: RepoSeen {
            branch: state.target.branch.clone(),
            tip: Some(oid('e')),
            remote_default: None,
            checkout: Checkout::Free,
            contains_last_merge: true,
        },
        free_disk_bytes: u64::MAX >> 11,
        others: Others::default(),
        reports: vec![],
        orphans: vec![],
    }
}

/// Decides until nothing more is to be decided, and folds.
fn settle_down(mut state: LoopState, policy: &Policy) -> LoopState {
    for _ in 0..50 {
        let decision = decide(&state, policy, &Input::Observation(observation(&state)));
        apply_line(&mut state, &decision.events).expect("the events follow from the state");
        assert_eq!(check(&state), Ok(()), "{}", decision.reason.sentence());
        if decision.reason.is_final() {
            return state;
        }
    }
    panic!("no end of decisions on {:?}", state.tasks);
}

/// An active goal whose text is the one that is seen.
fn running(task: Task) -> LoopState {
    let mut state = state([task]);
    state.goal.digest = Some(policy().digest);
    state
}

fn at_its_limits(kind: HoldKind, resume_to: ResumeTo) -> Task {
    let mut task = worked("a", held(resume_to, kind));
    let (limits, counters) = (policy().limits, &mut task.counters);
    counters.attempts = limits.task_attempts;
    counters.review_cycles = limits.review_cycles;
    counters.refusals = limits.refusals;
    counters.orphans = limits.orphans;
    counters.refreshes = limits.refreshes;
    counters.replans = limits.replans;
    task
}

#[test]
fn an_answer_that_lets_a_task_go_on_does_not_bring_its_question_back() {
    let rework = || ResumeTo::Rework { notes: "mend it".into() };
    let await_review = || ResumeTo::AwaitingReview { head: oid('b') };
    let rows = [
        (HoldKind::MaxTaskAttempts, rework(), Answer::Retry),
        (HoldKind::MaxTaskAttempts, rework(), Answer::RetryFresh),
        (HoldKind::MaxReviewCycles, rework(), Answer::Retry),
        (HoldKind::MaxReviewCycles, rework(), Answer::RetryFresh),
        (HoldKind::NoReviewPass, await_review(), Answer::Retry),
        (HoldKind::DispatchRefused, await_review(), Answer::Retry),
        (HoldKind::Orphans, rework(), Answer::Retry),
        (HoldKind::Replans, rework(), Answer::Replan),
    ];
    for (kind, resume_to, word) in rows {
        let state = running(at_its_limits(kind, resume_to));
        let key = HoldKey { subject: Subject::Task(task_id("a")), kind };
        let after = settle_down(answered(&state, &policy(), &key, word), &policy());
        let task = after.tasks.get(&task_id("a")).expect("a task");
        assert!(task.hold().is_none(), "{kind} after {}: {:?}", word.word(), task.hold());
    }
}

#[test]
fn leave_to_work_on_a_high_risk_starts_the_work() {
    let policy = Policy { high_risk: HighRisk::HoldBeforeWork, ..policy() };
    let unworked = task("a", held(ResumeTo::Ready, HoldKind::SecurityHighRisk));
    let state = running(Task { risk: Risk::High, ..unworked });
    let key = HoldKey { subject: Subject::Task(task_id("a")), kind: HoldKind::SecurityHighRisk };
    let after = settle_down(answered(&state, &policy, &key, Answer::Approve), &policy);
    let stage = &after.tasks.get(&task_id("a")).expect("a task").stage;
    assert!(matches!(stage, Stage::Working(_)), "{stage:?}");
}

#[test]
fn approving_merges_exactly_that_head() {
    let passed = worked("a", held(ResumeTo::MergeReady(reviewed()), HoldKind::SecurityHighRisk));
    let mut state = running(Task { risk: Risk::High, ..passed });
    state.target.branch = crate::ids::Branch::parse("work").ok();
    let key = HoldKey { subject: Subject::Task(task_id("a")), kind: HoldKind::SecurityHighRisk };
    let after = settle_down(answered(&state, &policy(), &key, Answer::Approve), &policy());
    let stage = format!("{:?}", after.tasks.get(&task_id("a")).expect("a task").stage);
    assert!(stage.starts_with("Merging"), "{stage}");
}
