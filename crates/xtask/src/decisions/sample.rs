//! The sample states that questions are shown on: a task with a commit at each place it can be held at.

use devloop_core::answer::Answer;
use devloop_core::finding::Findings;
use devloop_core::hold::{Hold, HoldKind, Subject};
use devloop_core::ids::{Branch, Digest, Identity, Oid, RouteKey, TaskId};
use devloop_core::policy::{
    Acceptance, Backend, HighRisk, Independence, Limits, Policy, PostMerge, ReviewPolicy, Route,
};
use devloop_core::question::Question;
use devloop_core::review::{Review, ReviewedHead, Verdict};
use devloop_core::state::{LoopHold, LoopState};
use devloop_core::task::{Counters, ResumeTo, Stage, Task};
use devloop_core::tier::{Risk, Tier};
use devloop_core::units::{UsdMicros, WallMs};
use std::collections::BTreeSet;

/// Where a sample is held, and by what.
pub struct Place {
    resume_to: ResumeTo,
    pub hold: Hold,
}

/// The question on the sample that offers the most answers; the first of equals.
pub fn widest(kind: HoldKind) -> Question {
    let mut all = places(kind).into_iter().map(|place| super::asked(kind, &place));
    let first = all.next().unwrap_or_else(|| super::asked(kind, &place(kind, ResumeTo::Ready)));
    // Approval is about a head that passed; everything else about a commit.
    let weight = |question: &Question| {
        let approves = question.answers.iter().any(|offer| offer.answer == Answer::Approve);
        question.answers.len() + usize::from(approves)
    };
    all.fold(first, |best, next| if weight(&next) > weight(&best) { next } else { best })
}

fn places(kind: HoldKind) -> Vec<Place> {
    let (head, notes) = (oid('b'), "as the reviewer said".to_owned());
    let merge = ResumeTo::MergeReady(reviewed());
    let rest = [
        ResumeTo::Rework { notes },
        ResumeTo::AwaitingReview { head: head.clone() },
        ResumeTo::Committed { head },
    ];
    // What is asked at the merge is shown there.
    let at_merge = matches!(
        kind,
        HoldKind::MergeWedged
            | HoldKind::BaseMoved
            | HoldKind::MergeConflict
            | HoldKind::Refreshes
            | HoldKind::ForgeMergeRefused
    );
    let all: Vec<ResumeTo> = if at_merge { vec![merge] } else { rest.into_iter().chain([merge]).collect() };
    all.into_iter().map(|to| place(kind, to)).collect()
}

fn place(kind: HoldKind, resume_to: ResumeTo) -> Place {
    let items = match kind {
        HoldKind::ReserveExceedsCap => vec!["session_cost_cap".to_owned()],
        HoldKind::ChecksRedAtBase => vec!["make test".to_owned()],
        _ => Vec::new(),
    };
    let opened_at = WallMs(0);
    let hold = Hold { kind, revision: 1, opened_at, detail: String::new(), items, acknowledged: None };
    Place { resume_to, hold }
}

/// The state in which that hold is open.
pub fn state(kind: HoldKind, place: &Place) -> (LoopState, Policy, Subject) {
    let (task, work) = (named(TaskId::parse("a")), named(RouteKey::parse("work")));
    let subject = kind.usual_subject(&task, &work);
    let mut state = LoopState::default();
    state.goal.number = 1;
    state.target.branch = Branch::parse("main").ok();
    state.target.last_merge = Some(oid('e'));
    let stage = match &subject {
        Subject::Task(_) => Stage::Held { resume_to: place.resume_to.clone(), hold: place.hold.clone() },
        _ => {
            state.holds.push(LoopHold { subject: subject.clone(), hold: place.hold.clone() });
            Stage::Rework { notes: String::new() }
        }
    };
    let own = Task {
        id: task.clone(),
        lineage: task,
        title: "a task".to_owned(),
        tier: Tier::T1,
        risk: if kind == HoldKind::SecurityHighRisk { Risk::High } else { Risk::Low },
        depends_on: Vec::new(),
        allowed_paths: vec!["src/**".to_owned()],
        criteria: vec!["it works".to_owned()],
        estimate: None,
        edition: 1,
        stage,
        counters: Counters::default(),
        implementers: BTreeSet::from([named(Identity::parse("acme/worker"))]),
        base: Some(oid('a')),
        tip: Some(oid('b')),
        checked: None,
        findings: Findings::default(),
    };
    state.tasks = vec![own].try_into().unwrap_or_default();
    (state, policy(work), subject)
}

fn policy(work: RouteKey) -> Policy {
    let review = named(RouteKey::parse("review"));
    let route = |who: &str| Route {
        tier: Tier::T3,
        backend: Backend::Scripted,
        identity: named(Identity::parse(who)),
        fallback: Vec::new(),
        price: None,
        peak: None,
        reserve: None,
        max_tokens: None,
        max_parallel: None,
    };
    let routes = [(work.clone(), route("acme/worker")), (review.clone(), route("other/reviewer"))];
    let cap = Some(UsdMicros::DOLLAR);
    Policy {
        digest: named(Digest::parse(&"d".repeat(64))),
        limits: Limits { cost_goal: cap, cost_task: cap, ..Limits::default() },
        routes: routes.into(),
        planner: review.clone(),
        reviewer: review,
        routing: [(Tier::T1, work)].into(),
        acceptance: Acceptance::Absent,
        review: ReviewPolicy { independence: Independence::Model, not_lower: false },
        high_risk: HighRisk::HoldBeforeMerge,
        post_merge: PostMerge::Never,
        trunks: Vec::new(),
    }
}

fn reviewed() -> ReviewedHead {
    let review = Review::bare(Verdict::Pass, oid('b'));
    let who = named(Identity::parse("other/reviewer"));
    let worked = BTreeSet::from([named(Identity::parse("acme/worker"))]);
    ReviewedHead::prove(&review, &oid('b'), &oid('a'), &who, &worked, Independence::Model)
        .expect("a pass by somebody else proves this head")
}

fn oid(digit: char) -> Oid {
    named(Oid::parse(&digit.to_string().repeat(40)))
}

/// The names above are valid.
fn named<T, E: std::fmt::Debug>(parsed: Result<T, E>) -> T {
    parsed.expect("a valid name of the sample")
}
