//! The loop's state (version 2). Written only by `apply`; everything else reads it.

use alloc::string::String;
use alloc::vec::Vec;

use crate::basis::Basis;
use crate::hold::{Hold, HoldKey, HoldKind, Subject};
use crate::ids::{Branch, Digest, DispatchId, Identity, Oid, RouteKey, TaskId};
use crate::ledger::Ledger;
use crate::task::{ResumeTo, Task};
use crate::units::{ActiveMs, AwakeMs, Day, Map, UsdMicros, WallMs};

pub use crate::tasks::{DuplicateTask, Tasks};

data! {
    /// Everything the loop knows.
    pub struct LoopState {
        /// Grows by one per journal line.
        pub revision: u64,
        /// What is wanted.
        pub goal: Goal,
        /// Lifecycle of the loop.
        pub phase: Phase,
        /// Where merges go.
        pub target: Target,
        /// Whether a plan is wanted or being made.
        pub planning: Planning,
        /// What the planning circuits measure.
        pub plan_counters: PlanCounters,
        /// The tasks in plan order.
        pub tasks: Tasks,
        /// Every running operation, once.
        pub leases: Map<DispatchId, Lease>,
        /// Holds that are not a task's, in the order they opened; one per subject and kind.
        pub holds: Vec<LoopHold>,
        /// Permissions that answers gave.
        pub grants: Vec<Grant>,
        /// Routes that are not simply open.
        pub routes: Map<RouteKey, RouteState>,
        /// Money and tokens by dispatch.
        pub ledger: Ledger,
        /// The clock's anchor.
        pub clock: Clock,
        /// The policy in force when the last line was written.
        pub policy: Option<Digest>,
        /// The next dispatch id.
        pub next_dispatch: u64,
        /// When something last moved.
        pub progress_at: ActiveMs,
        /// The last answers, newest last, at most [`MAX_ANSWERS`]: a second answer is told what the first one
        /// was.
        pub answers: Vec<AnswerRecord>,
    }

    /// A hold that is not a task's.
    pub struct LoopHold {
        /// What it keeps.
        pub subject: Subject,
        /// Why.
        pub hold: Hold,
    }

    /// What is wanted.
    pub struct Goal {
        /// Counts the goals of this project from 1; zero before the first.
        pub number: u32,
        /// Digest of the goal's text that the plan was made for.
        pub digest: Option<Digest>,
        /// A differing text seen once, and when: it counts when seen again 5 s later.
        pub pending: Option<PendingDigest>,
        /// Grows when the goal is replanned: older results do not count.
        pub epoch: u32,
        /// When the goal started.
        pub started_at: WallMs,
    }

    /// A goal text seen once.
    pub struct PendingDigest {
        /// Its digest.
        pub digest: Digest,
        /// When it was seen.
        pub seen_at: ActiveMs,
    }

    /// Lifecycle of the loop. A halt is not stored: it is what `decide` answers when only a person can move
    /// the loop.
    pub enum Phase {
        /// Working.
        Active,
        /// A person stopped it.
        Paused {
            /// Who.
            by: String,
            /// When.
            at: WallMs,
        },
        /// The goal is reached.
        Complete {
            /// When.
            at: WallMs,
        },
    }

    /// Where merges go.
    pub struct Target {
        /// The branch the checkout was on when the goal started; none when it had none.
        pub branch: Option<Branch>,
        /// The commit on which the operator's checks were last seen, or the loop's last merge; none asks for
        /// a check.
        pub verified: Option<Oid>,
        /// Checks that were red before any work and that a person accepted, at most 50.
        pub known_red: Vec<String>,
        /// The last merge commit of the loop; the target must contain it.
        pub last_merge: Option<Oid>,
    }

    /// Whether a plan is wanted or being made.
    pub enum Planning {
        /// Nothing to plan.
        Idle,
        /// To be planned.
        Wanted {
            /// The task to be replaced; none for a whole plan.
            replaces: Option<TaskId>,
        },
        /// A planner runs.
        Working {
            /// Its dispatch.
            dispatch: DispatchId,
            /// The task to be replaced.
            replaces: Option<TaskId>,
        },
        /// Needs a person; the hold lies under subject planning.
        Held {
            /// The task to be replaced.
            replaces: Option<TaskId>,
        },
    }

    /// What the planning circuits measure; starts anew with an accepted plan or an answer.
    #[derive(Default)]
    pub struct PlanCounters {
        /// Plan dispatches that reached a model and gave no accepted plan.
        pub attempts: u32,
        /// Plan dispatches that no provider saw.
        pub refusals: u32,
        /// What was wrong with the last plan, for the next planner; empty at first.
        pub notes: String,
    }

    /// What is being done under a lease.
    #[derive(Copy, PartialOrd, Ord)]
    pub enum Op {
        /// A planner runs.
        Plan,
        /// A worker runs.
        Work,
        /// The host commits.
        Commit,
        /// Checks run.
        Check,
        /// A reviewer runs.
        Review,
        /// The target is merged into a branch.
        Refresh,
        /// A branch is merged into the target.
        Merge,
        /// Checks run on a merge.
        Verify,
        /// A merge is taken back.
        Revert,
    }

    /// The exclusive right to one operation.
    pub struct Lease {
        /// What.
        pub op: Op,
        /// On what.
        pub subject: Subject,
        /// By which route; for a commit the route that worked; none for the host's own operations.
        pub route: Option<RouteKey>,
        /// Whose work it is: the identity that the route had when it was dispatched; for a commit the
        /// worker's. A later edit of the configuration changes nobody's work. None for the host's own
        /// operations.
        pub who: Option<Identity>,
        /// Fences a report against its own lease.
        pub epoch: u32,
        /// Who performs it.
        pub owner: Owner,
        /// When it started.
        pub started_at: ActiveMs,
        /// When it is over, in awake time.
        pub deadline: ActiveMs,
        /// What it set aside.
        pub reserve: UsdMicros,
        /// What its result relies on.
        pub basis: Basis,
        /// The dispatch whose worktree it works in; none when it needs none.
        pub worktree: Option<DispatchId>,
        /// Where its task goes back to when it ends without a result; none for planning and the target.
        pub resume_to: Option<ResumeTo>,
        /// Whether it was asked to end.
        pub ending: Option<Ending>,
    }

    /// Why a lease was asked to end.
    #[derive(Copy)]
    pub enum Ending {
        /// Its deadline passed.
        Deadline,
        /// A person paused with `--now`, dropped the task or replanned.
        Operator,
        /// Its owner died and its processes still live.
        Orphan,
    }

    /// A process that performs effects. A reload of a plugin is a new instance.
    pub struct Owner {
        /// The machine.
        pub host: String,
        /// Its boot.
        pub boot: u64,
        /// The process.
        pub pid: u32,
        /// When that process started, in clock ticks since boot: a reused pid differs.
        pub started: u64,
        /// A number made anew by every supervisor.
        pub instance: u64,
    }

    /// A permission that an answer gave.
    pub struct Grant {
        /// What was asked.
        pub kind: HoldKind,
        /// About what.
        pub subject: Subject,
        /// What it is valid for.
        pub scope: GrantScope,
        /// Who gave it.
        pub by: String,
        /// When.
        pub at: WallMs,
    }

    /// What a grant is valid for; void when that changes.
    pub enum GrantScope {
        /// Exactly this head of the task, with this edition of its contract.
        Head {
            /// The commit.
            head: Oid,
            /// The edition.
            contract: u32,
        },
        /// The rest of this day.
        Day(Day),
        /// The rest of this goal.
        Goal(u32),
        /// As long as this process runs.
        Session(u64),
    }

    /// A route that is not simply open.
    pub struct RouteState {
        /// Whether it takes dispatches.
        pub gate: Gate,
        /// Tasks it refused since it last took a dispatch, at most 10.
        pub refused: Vec<Subject>,
    }

    /// Whether a route takes dispatches.
    pub enum Gate {
        /// It does.
        Open,
        /// Not before this moment.
        ClosedUntil {
            /// When to try again.
            at: WallMs,
            /// Why, in the provider's words, bounded.
            why: String,
        },
        /// Not before a person opens it; the hold lies under the route.
        Closed,
    }

    /// The clock's anchor: what was read when it was last recorded.
    #[derive(Default)]
    pub struct Clock {
        /// Wall time.
        pub wall: WallMs,
        /// Awake time of the machine.
        pub awake: AwakeMs,
        /// Awake time of the loop at that reading.
        pub active: ActiveMs,
        /// The UTC day that money is booked on.
        pub day: Day,
        /// A day seen once after a step of the clock, and when: it counts when seen again 60 s later.
        pub pending_day: Option<PendingDay>,
    }

    /// A day seen once.
    #[derive(Copy)]
    pub struct PendingDay {
        /// The day.
        pub day: Day,
        /// When it was seen.
        pub seen_at: ActiveMs,
    }

    /// One answer given.
    pub struct AnswerRecord {
        /// The hold it answered.
        pub key: HoldKey,
        /// The answer.
        pub answer: crate::answer::Answer,
        /// Who.
        pub by: String,
        /// When.
        pub at: WallMs,
    }
}

impl GrantScope {
    /// Whether it is over when a permission for `next` is given: another day came, another process runs.
    pub(crate) fn is_over(&self, next: &GrantScope) -> bool {
        match (self, next) {
            (GrantScope::Day(old), GrantScope::Day(new)) => old != new,
            (GrantScope::Session(old), GrantScope::Session(new)) => old != new,
            _ => false,
        }
    }
}

impl Default for Goal {
    fn default() -> Self {
        Goal { number: 0, digest: None, pending: None, epoch: 0, started_at: WallMs(0) }
    }
}

/// How many answers are remembered.
pub const MAX_ANSWERS: usize = 20;

impl Default for LoopState {
    /// A project before its first goal.
    fn default() -> Self {
        LoopState {
            revision: 0,
            goal: Goal::default(),
            phase: Phase::Active,
            target: Target { branch: None, verified: None, known_red: Vec::new(), last_merge: None },
            planning: Planning::Idle,
            plan_counters: PlanCounters::default(),
            tasks: Tasks::default(),
            leases: Map::new(),
            holds: Vec::new(),
            grants: Vec::new(),
            routes: Map::new(),
            ledger: Ledger::default(),
            clock: Clock::default(),
            policy: None,
            next_dispatch: 1,
            progress_at: ActiveMs(0),
            answers: Vec::new(),
        }
    }
}

impl Op {
    /// The operations that run a model, in the order of a task's life.
    pub const MODEL: [Op; 3] = [Op::Plan, Op::Work, Op::Review];

    /// Runs a model: costs money, takes a worker slot and is never started twice.
    #[must_use]
    pub fn is_model(self) -> bool {
        Self::MODEL.contains(&self)
    }
    /// The word in journals.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Op::Plan => "plan",
            Op::Work => "work",
            Op::Commit => "commit",
            Op::Check => "check",
            Op::Review => "review",
            Op::Refresh => "refresh",
            Op::Merge => "merge",
            Op::Verify => "verify",
            Op::Revert => "revert",
        }
    }
}

impl LoopState {
    /// The open hold of that name.
    #[must_use]
    pub fn hold(&self, key: &HoldKey) -> Option<&Hold> {
        let found = match &key.subject {
            Subject::Task(id) => self.tasks.get(id).and_then(Task::hold),
            subject => {
                self.holds.iter().find(|h| h.subject == *subject && h.hold.kind == key.kind).map(|h| &h.hold)
            }
        };
        found.filter(|hold| hold.kind == key.kind)
    }

    /// Whether any hold of the loop itself keeps the subject.
    #[must_use]
    pub fn is_held(&self, subject: &Subject) -> bool {
        self.holds.iter().any(|h| h.subject == *subject)
    }

    /// Whether the loop's hold of that subject and kind is open.
    #[must_use]
    pub fn has_hold(&self, subject: &Subject, kind: HoldKind) -> bool {
        self.holds.iter().any(|h| h.subject == *subject && h.hold.kind == kind)
    }

    /// Every open hold: the loop's first, then the tasks' in plan order; acknowledged ones last.
    #[must_use]
    pub fn open_holds(&self) -> Vec<(Subject, &Hold)> {
        let own = self.holds.iter().map(|h| (h.subject.clone(), &h.hold));
        let tasks = self.tasks.open().filter_map(|t| t.hold().map(|h| (Subject::Task(t.id.clone()), h)));
        let mut all: Vec<_> = own.chain(tasks).collect();
        all.sort_by_key(|(_, hold)| hold.acknowledged.is_some());
        all
    }

    /// The supervisor that dispatched last; `fallback` before the first dispatch. A session's money belongs
    /// to it.
    #[must_use]
    pub fn last_instance(&self, fallback: u64) -> u64 {
        self.ledger.entries.values().next_back().map_or(fallback, |entry| entry.instance)
    }

    /// Whether the user's checkout matters to the next decision: only a merge that is ready, or a question
    /// about the checkout, looks at it.
    #[must_use]
    pub fn looks_at_checkout(&self) -> bool {
        let ready = |task: &Task| matches!(task.stage, crate::task::Stage::MergeReady(_));
        self.has_hold(&Subject::Target, HoldKind::NoProgress) || self.tasks.open().any(ready)
    }

    /// Model dispatches under lease: what takes worker slots.
    #[must_use]
    pub fn slots_used(&self) -> u32 {
        u32::try_from(self.leases.values().filter(|l| l.op.is_model()).count()).unwrap_or(u32::MAX)
    }

    /// Whether the route takes dispatches at `now`.
    #[must_use]
    pub fn gate(&self, route: &RouteKey) -> Gate {
        self.routes.get(route).map_or(Gate::Open, |r| r.gate.clone())
    }
}
