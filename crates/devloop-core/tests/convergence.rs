//! Findings from review to rework to review: who is shown them, when a rework ends, and what a review that
//! contradicts itself comes to.

use std::cell::RefCell;
use std::rc::Rc;

use devloop_core::answer::Answer;
use devloop_core::command::{TaskEdit, Wish};
use devloop_core::effect::{Effect, Job};
use devloop_core::finding::{Finding, Found, Severity};
use devloop_core::hold::HoldKind;
use devloop_core::ids::{FindingId, TaskId};
use devloop_core::policy::{Acceptance, Backend};
use devloop_core::question::open_questions;
use devloop_core::reason::Reason;
use devloop_core::report::{CheckOutcome, CommitFault, Outcome};
use devloop_core::review::{Review, Verdict};
use devloop_core::task::{Done, ResumeTo, Stage, Task};
use devloop_core::tier::Risk;
use devloop_testkit::world::{World, blocking, digest, planned, policy, reviewed, task_of, verdict};

/// What a reviewer was shown and what it finds: none for a pass.
type Reviewer = Box<dyn FnMut(&[Finding]) -> Option<Vec<Found>>>;

/// One task whose reviews are written by `reviewer`; reviews in plenty.
fn night(mut reviewer: Reviewer) -> World {
    let mut world = World::new(vec![planned("a", &[], "a/**", Risk::Low)], policy(Backend::Scripted));
    world.policy.limits.review_cycles = 9;
    world.policy.limits.task_attempts = 9;
    world.script = Box::new(move |effect, _| match task_of(effect)? {
        (_, Job::Review { head, earlier, .. }) => {
            let findings = reviewer(earlier)?;
            Some(Outcome::Reviewed(Review { findings, ..Review::bare(Verdict::Rework, head.clone()) }))
        }
        _ => None,
    });
    world
}

/// Reviews in order, then passes.
fn rounds(rounds: Vec<Vec<Found>>) -> World {
    let mut rounds = rounds.into_iter();
    night(Box::new(move |_| rounds.next()))
}

fn news(texts: &[&str]) -> Vec<Found> {
    texts.iter().map(|text| blocking(text)).collect()
}

fn task(world: &World) -> &Task {
    world.state.tasks.get(&TaskId::parse("a").expect("id")).expect("a")
}

fn names(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|one| one.id.to_string()).collect()
}

#[test]
fn worker_and_next_reviewer_are_shown_the_findings_by_name() {
    let shown = Rc::new(RefCell::new(Vec::new()));
    let (work, review) = (shown.clone(), shown.clone());
    let mut world = rounds(vec![]);
    let mut first = true;
    world.script = Box::new(move |effect, _| match task_of(effect)? {
        (_, Job::Work { findings, .. }) => {
            work.borrow_mut().push(("work", names(findings)));
            None
        }
        (_, Job::Review { head, earlier, .. }) => {
            review.borrow_mut().push(("review", names(earlier)));
            std::mem::take(&mut first).then(|| reviewed(Verdict::Rework, head, "", &["one", "two"]))
        }
        (_, Job::Plan { .. }) => None,
    });
    assert_eq!(world.run(), Reason::StillComplete);
    let both = || vec!["f1".to_string(), "f2".to_string()];
    let expect = [("work", vec![]), ("review", vec![]), ("work", both()), ("review", both())];
    assert_eq!(*shown.borrow(), expect);
    // A pass leaves nothing to mend, and the names are not given again.
    assert_eq!((names(&task(&world).findings.open), task(&world).findings.named), (vec![], 2));
}

#[test]
fn fewer_and_other_findings_are_worth_another_rework() {
    let mut world = rounds(vec![news(&["a", "b", "c"]), news(&["d", "e"]), news(&["f"])]);
    assert_eq!(world.run(), Reason::StillComplete);
    assert_eq!(task(&world).counters.review_cycles, 4);
    assert_eq!(task(&world).findings.named, 6);
}

#[test]
fn the_same_finding_twice_asks_with_its_name_and_retry_grants_one_more() {
    let again = |earlier: &[Finding]| match earlier {
        [] => Some(news(&["no test", "no page"])),
        // By its name, in other words.
        [first, ..] => Some(vec![Found { id: Some(first.id), ..blocking("still no test") }]),
    };
    let mut world = night(Box::new(again));
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:no_convergence"]);
    let asked = open_questions(&world.state, &world.policy, 4).remove(0);
    let said = asked.evidence.join("\n");
    let why = "Seen: f1 came again; blocking findings: 1 now, 2 in the review before";
    assert!(said.contains(why) && said.contains("Named: f1: still no test"), "{said}");
    assert!(said.contains("Finding f1: still no test") && said.contains("reviews 2 of 9"), "{said}");
    let words: Vec<&str> = asked.answers.iter().map(|offer| offer.answer.word()).collect();
    assert_eq!(words, ["retry", "retry --fresh", "review", "replan", "accept", "drop", "stop"]);
    // One more rework, and the same again asks again.
    world.answer(Answer::Retry);
    assert!(matches!(world.stage("a"), Stage::Rework { .. }));
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:no_convergence"]);
    world.script = Box::new(|_, _| None);
    world.answer(Answer::Retry);
    assert_eq!(world.run(), Reason::StillComplete);
}

#[test]
fn as_many_findings_as_before_ask_even_when_all_are_new() {
    for (before, now, asks) in [(2, 2, true), (2, 3, true), (2, 1, false), (1, 1, true)] {
        let list = |n: usize, word: &str| (0..n).map(|i| blocking(&format!("{word} {i}"))).collect();
        let mut world = rounds(vec![list(before, "old"), list(now, "new")]);
        let reason = world.run();
        let expect = if asks { Reason::Halted } else { Reason::StillComplete };
        assert_eq!(reason, expect, "{now} after {before}");
        let kind = task(&world).hold().map(|hold| hold.kind);
        assert_eq!(kind, asks.then_some(HoldKind::NoConvergence), "{now} after {before}");
    }
}

#[test]
fn the_circuit_of_reviews_still_ends_a_rework_that_converges() {
    let mut world = rounds(vec![news(&["a", "b"]), news(&["c"])]);
    world.policy.limits.review_cycles = 2;
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:max_review_cycles"]);
}

#[test]
fn every_answer_to_a_standstill_does_what_it_says() {
    let stuck = || {
        let mut world = night(Box::new(|_| Some(news(&["flaw"]))));
        assert_eq!(world.run(), Reason::Halted);
        assert_eq!(world.holds(), ["task/a:no_convergence"]);
        world
    };
    let tip = |world: &World| task(world).tip.clone().expect("a commit");
    for (answer, leads) in [
        (Answer::RetryFresh, "ready"),
        (Answer::Review, "awaiting review"),
        (Answer::Replan, "replanning"),
        (Answer::Accept, "accepted"),
        (Answer::Drop, "dropped"),
        (Answer::Stop, "held"),
    ] {
        let mut world = stuck();
        world.answer(answer);
        assert_eq!(devloop_core::render::stage_word(world.stage("a")), leads, "{answer:?}");
    }
    // A fresh start forgets what was found; the names go on.
    let mut world = stuck();
    world.answer(Answer::RetryFresh);
    assert_eq!((names(&task(&world).findings.open), task(&world).findings.named), (vec![], 1));
    // A second opinion on the same commit may pass it.
    let mut world = stuck();
    let head = tip(&world);
    world.script = Box::new(|_, _| None);
    world.answer(Answer::Review);
    assert_eq!(world.run(), Reason::StillComplete);
    assert!(matches!(world.stage("a"), Stage::Done(Done::Merged { .. })));
    assert_eq!(tip(&world), head);
}

#[test]
fn other_terms_make_old_findings_void() {
    let mut world = night(Box::new(|_| Some(news(&["flaw"]))));
    assert_eq!(world.run(), Reason::Halted);
    let edit = TaskEdit { criteria: Some(vec!["it works better".into()]), ..TaskEdit::default() };
    let wish = Wish::Edit { task: task(&world).id.clone(), edit };
    assert!(matches!(world.say(wish), Reason::TaskEdited { .. }));
    assert!(task(&world).findings.open.is_empty());
    world.answer(Answer::Retry);
    // The first review under the new terms may send it back; only the next one is compared.
    for expect in [1, 2] {
        while task(&world).counters.review_cycles < expect {
            world.tick();
        }
    }
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(task(&world).counters.review_cycles, 2);
}

#[test]
fn a_review_that_contradicts_itself_is_asked_for_again_and_never_a_pass() {
    let nothing = |head: &_| reviewed(Verdict::Rework, head, "mend it", &[]);
    let late = |head: &_| {
        let findings = vec![Found { severity: Severity::Note, ..blocking("later") }];
        let review = Review { findings, ..Review::bare(Verdict::Rework, Clone::clone(head)) };
        Outcome::Reviewed(review)
    };
    let both = |head: &_| reviewed(Verdict::Pass, head, "", &["a flaw"]);
    let noted = |head: &_| reviewed(Verdict::PassWithNotes, head, "", &["a flaw"]);
    let garbage = |_: &_| Outcome::InvalidResult { detail: "two different envelopes".into() };
    let silent = |_: &_| Outcome::NoResult { detail: "no envelope".into() };
    type Say = fn(&devloop_core::ids::Oid) -> Outcome;
    let rows: [(Say, &str); 6] = [
        (nothing, "task/a:invalid_agent_result"),
        (late, "task/a:invalid_agent_result"),
        (both, "task/a:invalid_agent_result"),
        (noted, "task/a:invalid_agent_result"),
        (garbage, "task/a:invalid_agent_result"),
        (silent, "task/a:missing_agent_result"),
    ];
    for (say, holds) in rows {
        for times in [1, 2] {
            let mut world = night(Box::new(|_| None));
            let mut left = times;
            world.script = Box::new(move |effect, _| match task_of(effect)? {
                (_, Job::Review { head, .. }) if left > 0 => {
                    left -= 1;
                    Some(say(head))
                }
                _ => None,
            });
            let reason = world.run();
            let counters = &task(&world).counters;
            assert_eq!(counters.attempts, 1, "the work is not charged again");
            assert_eq!(counters.refusals, times, "each counts as a refusal of the reviewer");
            if times == 1 {
                assert_eq!((reason, counters.review_cycles), (Reason::StillComplete, 1), "{holds}");
                continue;
            }
            assert_eq!((reason, counters.review_cycles), (Reason::Halted, 0), "{holds}");
            assert_eq!(world.holds(), [holds]);
            let Stage::Held { resume_to, .. } = world.stage("a") else { panic!("held") };
            assert!(matches!(resume_to, ResumeTo::AwaitingReview { .. }), "the commit is reviewed again");
            // Its money is kept: whoever was asked may have been paid.
            assert_eq!(world.state.ledger.goal(1).measured.0, 4 * 50_000);
            world.answer(Answer::Retry);
            assert_eq!(world.run(), Reason::StillComplete);
        }
    }
}

#[test]
fn a_change_that_cannot_be_shown_whole_is_planned_anew_and_then_asks() {
    let mut world = night(Box::new(|_| None));
    world.policy.limits.replans = 1;
    world.script = Box::new(|effect, _| match effect {
        Effect::Dispatch { job: Job::Review { .. }, .. } => Some(Outcome::CommitRefused {
            why: CommitFault::TooLarge,
            detail: "the patch is larger than what a reviewer is shown".into(),
            paths: vec!["a/big".into()],
        }),
        Effect::Dispatch { job: Job::Plan { replaces: Some(_), .. }, .. } => {
            Some(Outcome::Planned { tasks: vec![planned("a1", &[], "a/**", Risk::Low)] })
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a1:task_over_budget"]);
    assert!(matches!(world.stage("a"), Stage::Dropped { .. }));
}

#[test]
fn the_reviewer_is_told_what_the_checks_said_of_this_very_commit() {
    let red = |command: &str| {
        Outcome::Checked(CheckOutcome::Red { commands: vec![command.into()], output: "1 failed".into() })
    };
    let told = |says: Option<Outcome>| {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let note = seen.clone();
        let mut world = night(Box::new(|_| None));
        if says.is_some() {
            world.policy.acceptance = Acceptance::Digest(digest(9));
        }
        world.script = Box::new(move |effect, _| match effect {
            Effect::Check { contract: None, .. } => Some(red("make lint")),
            Effect::Check { contract: Some(_), known_red, .. } => {
                assert_eq!(known_red, &["make lint"]);
                says.clone()
            }
            Effect::Dispatch { job: Job::Review { checks, .. }, .. } => {
                note.borrow_mut().push(checks.clone());
                None
            }
            _ => None,
        });
        for answer in [Answer::GoOn, Answer::Review] {
            if world.run() == Reason::Halted {
                world.answer(answer);
            }
        }
        assert_eq!(world.run(), Reason::StillComplete);
        seen.take()
    };
    assert_eq!(told(None), [None]);
    let green = CheckOutcome::Green;
    assert_eq!(told(Some(Outcome::Checked(green.clone()))), [Some(green)]);
    let lint = CheckOutcome::Red { commands: vec!["make lint".into()], output: "1 failed".into() };
    assert_eq!(told(Some(Outcome::Checked(lint.clone()))), [Some(lint)]);
    let away = CheckOutcome::Unavailable { detail: "no such program".into() };
    assert_eq!(told(Some(Outcome::Checked(away.clone()))), [Some(away)]);
}

#[test]
fn findings_of_a_review_that_does_not_count_are_not_kept() {
    let mut world = night(Box::new(|_| None));
    world.script = Box::new(|effect, n| match task_of(effect)? {
        (_, Job::Review { .. }) => {
            let other = devloop_testkit::world::oid(n + 5_000);
            Some(verdict(Verdict::Rework, &other, "flaw"))
        }
        _ => None,
    });
    assert_eq!(world.run(), Reason::Halted);
    assert_eq!(world.holds(), ["task/a:unknown_review_sha"]);
    assert_eq!(names(&task(&world).findings.open), Vec::<String>::new());
    assert_eq!(FindingId::parse("f1"), Ok(FindingId(1)));
}
