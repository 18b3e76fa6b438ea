//! What happened in a recorded night, as things that can be drawn: operations with their ends, questions with
//! their answers, the target's moves. It must not draw, and it must not read a recording.

use alloc::vec::Vec;

use devloop_core::event::Event;
use devloop_core::hold::{HoldKey, Subject};
use devloop_core::ids::{Branch, Digest, DispatchId, Oid, RouteKey, TaskId};
use devloop_core::observation::OrphanSeen;
use devloop_core::policy::Acceptance;
use devloop_core::report::{FailureClass, Outcome, Report};
use devloop_core::state::{Lease, LoopState, Op, Planning};
use devloop_core::tier::Tier;
use devloop_core::units::Map;

use crate::moment::{Moment, Span};

/// What an operation is named by in the drawing rule: the goal, on what, as what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Role {
    pub goal: u32,
    pub subject: Subject,
    pub op: Op,
}

/// What an operation was about, beside its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// Nothing more: work on a task.
    Task,
    /// Replacing that task; none for a whole plan.
    Replacing(Option<TaskId>),
    /// What a dispatch left in its worktree.
    Work(Option<DispatchId>),
    /// A commit.
    Commit(Option<Oid>),
}

/// How a recorded operation ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// By a report, first seen then.
    Report(Moment, Report, Order),
    /// Its owner died.
    Orphan(Moment),
    /// Not before the recording ends.
    Open,
}

/// Where a report stood: the input and the place in it.
pub(crate) type Order = (usize, usize);

/// One recorded operation.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub id: DispatchId,
    pub role: Role,
    pub about: About,
    pub acceptance: Acceptance,
    pub tier: Option<Tier>,
    pub route: Option<RouteKey>,
    pub policy: Digest,
    /// When it was performed: once, and again after each adoption.
    pub performed: Vec<Moment>,
    /// When it was asked to end.
    pub ending: Option<Moment>,
    pub end: End,
    /// The commit it published, and when the target was first seen there.
    pub published: Option<(Oid, Moment)>,
    /// Reports about its usage that came after its end.
    pub late: Vec<(Span, Report, Order)>,
}

/// One recorded command.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// The input.
    pub input: usize,
    /// The question it answered, and for the how-manieth time that question had opened.
    pub to: Option<(HoldKey, usize)>,
    /// How long after the question opened.
    pub delay: Span,
    /// How soon the loop looked again; none when it never did.
    pub looked: Option<Span>,
}

/// A move of a branch that the loop did not make.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    pub at: Moment,
    pub branch: Option<Branch>,
    pub tip: Option<Oid>,
    /// Whether the branch was seen for the first time.
    pub first: bool,
}

/// Everything that can be drawn.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub pasts: Vec<Past>,
    pub said: Vec<Said>,
    pub moves: Vec<Move>,
    pub orphans: Map<DispatchId, Vec<(Moment, OrphanSeen)>>,
    /// Reports for dispatches that the night does not know.
    pub foreign: Vec<(Moment, Report, Order)>,
    /// From the last look of a loop that was ended at work to the first look of the next one.
    pub gaps: Vec<(Moment, Moment)>,
}

impl Facts {
    /// Whether no loop is taken to live at that moment.
    pub(crate) fn is_dead(&self, at: Moment) -> bool {
        self.gaps.iter().any(|(from, to)| *from < at && at < *to)
    }
}

impl Past {
    /// When something from outside ended it: a crash, a stop. Its own end was never seen.
    pub(crate) fn accident(&self) -> Option<Moment> {
        match &self.end {
            End::Orphan(at) => Some(*at),
            End::Report(at, report, _) if was_stopped(report) => Some(*at),
            End::Report(..) | End::Open => None,
        }
    }

    /// How long it took from its last start to its end.
    pub(crate) fn span(&self) -> Option<Span> {
        match (&self.end, self.performed.last()) {
            (End::Report(at, ..), Some(start)) => Some(at.since(*start)),
            _ => None,
        }
    }
}

fn was_stopped(report: &Report) -> bool {
    matches!(report.outcome, Outcome::Failed { class: FailureClass::Cancelled, .. })
}

/// What a lease is about.
pub(crate) fn about(state: &LoopState, lease: &Lease) -> About {
    match lease.op {
        Op::Plan => About::Replacing(match &state.planning {
            Planning::Wanted { replaces }
            | Planning::Working { replaces, .. }
            | Planning::Held { replaces } => replaces.clone(),
            Planning::Idle => None,
        }),
        Op::Work => About::Task,
        Op::Commit => About::Work(lease.worktree),
        Op::Check | Op::Review | Op::Refresh | Op::Merge | Op::Verify | Op::Revert => {
            About::Commit(lease.basis.head.clone())
        }
    }
}

/// The role of a lease.
pub(crate) fn role(state: &LoopState, lease: &Lease) -> Role {
    Role { goal: state.goal.number, subject: lease.subject.clone(), op: lease.op }
}

/// The tier of a lease's task.
pub(crate) fn tier(state: &LoopState, lease: &Lease) -> Option<Tier> {
    match &lease.subject {
        Subject::Task(id) => state.tasks.get(id).map(|task| task.tier),
        _ => None,
    }
}

/// The questions that a decision opened.
pub(crate) fn opened(events: &[Event]) -> impl Iterator<Item = HoldKey> {
    events.iter().filter_map(|event| match event {
        Event::HoldOpened { subject, hold, .. } => {
            Some(HoldKey { subject: subject.clone(), kind: hold.kind })
        }
        _ => None,
    })
}
