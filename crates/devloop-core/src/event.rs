//! Recorded facts, past tense. A journal is a list of these; `apply` folds them into the state.

use alloc::string::String;
use alloc::vec::Vec;

use crate::command::TaskEdit;
use crate::finding::Finding;
use crate::hold::{Hold, HoldKey, HoldKind, Subject};
use crate::ids::{Branch, Digest, DispatchId, Identity, Oid, RouteKey, TaskId};
use crate::ledger::Certainty;
use crate::report::CheckOutcome;
use crate::state::{AnswerRecord, Ending, Gate, Grant, Lease, Owner};
use crate::task::{ResumeTo, Task};
use crate::units::{ActiveMs, AwakeMs, Day, Tokens, UsdMicros, WallMs};

data! {
    /// Something that happened.
    pub enum Event {
        /// The clock was read for the first time, or after a reboot.
        ClockAnchored {
            /// Wall time.
            wall: WallMs,
            /// Awake time of the machine.
            awake: AwakeMs,
            /// Awake time of the loop.
            active: ActiveMs,
        },
        /// Wall time moved by more than awake time explains: a suspend or a set clock.
        ClockStepped {
            /// Wall time after it.
            wall: WallMs,
            /// Awake time of the machine.
            awake: AwakeMs,
            /// Awake time of the loop.
            active: ActiveMs,
        },
        /// The day that money is booked on moved; when back, later entries are re-dated to it.
        DayRolled {
            /// The day.
            day: Day,
        },
        /// Decisions are made under another policy from here on.
        PolicyChanged {
            /// Its digest.
            digest: Digest,
        },
        /// A goal was started.
        GoalStarted {
            /// Its number.
            number: u32,
            /// Digest of its text.
            digest: Digest,
            /// When.
            at: WallMs,
            /// The branch the checkout was on.
            branch: Option<Branch>,
        },
        /// Another goal text was seen once.
        GoalEditSeen {
            /// Its digest.
            digest: Digest,
            /// When.
            at: ActiveMs,
        },
        /// The goal text is again the one that the plan was made for.
        GoalTextReturned,
        /// The plan is kept for the new text.
        GoalContinued {
            /// Its digest.
            digest: Digest,
        },
        /// Everything not done is to be planned anew.
        GoalReplanned {
            /// The digest of the text to plan for.
            digest: Digest,
        },
        /// The goal is reached.
        GoalCompleted {
            /// When.
            at: WallMs,
        },
        /// The finished goal was put away; the next one may start.
        GoalArchived,
        /// The target is good at this commit.
        TargetVerified {
            /// The commit.
            commit: Oid,
            /// Checks that were red before any work and accepted by a person.
            known_red: Vec<String>,
        },
        /// The checks of the target are to run again.
        TargetUnverified,
        /// Merges go to another branch.
        TargetChosen {
            /// The branch.
            branch: Branch,
        },
        /// A lost merge was accepted as lost.
        LastMergeForgotten,
        /// An operation started. It reserves money when it runs a model.
        LeaseTaken {
            /// Its id.
            dispatch: DispatchId,
            /// Its lease.
            lease: Lease,
        },
        /// An operation was asked to end.
        LeaseEnding {
            /// Its id.
            dispatch: DispatchId,
            /// Why.
            why: Ending,
        },
        /// An operation of a dead owner was taken over to be performed again.
        LeaseAdopted {
            /// Its id.
            dispatch: DispatchId,
            /// The new owner.
            owner: Owner,
            /// Its new deadline.
            deadline: ActiveMs,
        },
        /// An operation is over.
        LeaseEnded {
            /// Its id.
            dispatch: DispatchId,
            /// When.
            at: ActiveMs,
        },
        /// No provider saw the dispatch: its attempt and its reserve were returned. Before `LeaseEnded`.
        DispatchRefused {
            /// Its id.
            dispatch: DispatchId,
        },
        /// A provider fault, or a review without a verdict, is not the task's: its attempt was returned, its
        /// money is kept. Before `LeaseEnded`.
        AttemptReturned {
            /// Its id.
            dispatch: DispatchId,
        },
        /// The dispatch's owner died before it started anything: its attempt and its reserve were returned.
        /// Before `LeaseEnded`.
        DispatchOrphaned {
            /// Its id.
            dispatch: DispatchId,
        },
        /// What a dispatch cost became more certain.
        UsageSettled {
            /// Its id.
            dispatch: DispatchId,
            /// The amount.
            amount: UsdMicros,
            /// How sure.
            certainty: Certainty,
            /// Tokens.
            tokens: Tokens,
        },
        /// Usage was reported for an id that this project does not know.
        UsageUnattributed {
            /// The id.
            dispatch: String,
            /// The day.
            day: Day,
            /// The amount.
            amount: UsdMicros,
        },
        /// A plan is wanted.
        PlanWanted {
            /// The task to be replaced; none for a whole plan.
            replaces: Option<TaskId>,
        },
        /// A plan was accepted.
        PlanAccepted {
            /// Its tasks.
            tasks: Vec<Task>,
            /// The task it replaces.
            replaces: Option<TaskId>,
        },
        /// A planner returned no acceptable plan.
        PlanRefused {
            /// The fault, bounded.
            detail: String,
        },
        /// The planning circuits start anew.
        PlanCountersReset,
        /// The host committed a worker's change.
        WorkCommitted {
            /// The task.
            task: TaskId,
            /// The commit.
            head: Oid,
            /// Who worked.
            implementer: Identity,
        },
        /// The task's branch now contains the target.
        Refreshed {
            /// The task.
            task: TaskId,
            /// The branch's new head.
            head: Oid,
            /// The target commit it starts from.
            base: Oid,
        },
        /// The checks ran on the task's commit, or could not.
        Checked {
            /// The task.
            task: TaskId,
            /// What they said.
            outcome: CheckOutcome,
        },
        /// A reviewer gave a verdict; these are its findings from here on.
        FindingsNamed {
            /// The task.
            task: TaskId,
            /// What was found, by name.
            findings: Vec<Finding>,
        },
        /// A reviewer passed exactly this head.
        ReviewPassed {
            /// The task.
            task: TaskId,
            /// The head.
            head: Oid,
            /// The base.
            base: Oid,
            /// The reviewer.
            reviewer: Identity,
        },
        /// The target contains the task's head.
        Merged {
            /// The task.
            task: TaskId,
            /// The merge commit.
            commit: Oid,
        },
        /// Somebody else had brought the head into the target.
        MergedElsewhere {
            /// The task.
            task: TaskId,
            /// The target's tip.
            tip: Oid,
        },
        /// A red merge was taken back; the change stands again on top of the revert, on the task's branch.
        MergeReverted {
            /// The task.
            task: TaskId,
            /// The revert commit.
            commit: Oid,
            /// The branch's new head.
            reapplied: Oid,
        },
        /// A task went (back) to a resting stage.
        TaskMoved {
            /// The task.
            task: TaskId,
            /// Where.
            to: ResumeTo,
        },
        /// Something happened to a task that a circuit counts.
        Counted {
            /// The task.
            task: TaskId,
            /// What.
            counter: Counter,
        },
        /// A person named the task: its circuits start anew.
        CountersReset {
            /// The task.
            task: TaskId,
        },
        /// What was done on a task was set aside.
        StartedAfresh {
            /// The task.
            task: TaskId,
        },
        /// A task is to be replaced by a plan of its own.
        ReplanRequested {
            /// The task.
            task: TaskId,
        },
        /// A person agreed that a task is done without a merge.
        TaskAccepted {
            /// The task.
            task: TaskId,
        },
        /// A task was given up.
        TaskDropped {
            /// The task.
            task: TaskId,
        },
        /// A task no longer waits for another.
        DependencyRemoved {
            /// The task.
            task: TaskId,
            /// The other.
            dependency: TaskId,
        },
        /// A person changed a task.
        TaskEdited {
            /// The task.
            task: TaskId,
            /// What changed.
            edit: TaskEdit,
        },
        /// A person is needed.
        HoldOpened {
            /// What it keeps.
            subject: Subject,
            /// Why.
            hold: Hold,
            /// Where a held task continues; none for other subjects.
            resume_to: Option<ResumeTo>,
        },
        /// A person is no longer needed. A held task goes where its hold says; events that follow may move it
        /// on.
        HoldLifted {
            /// Which.
            key: HoldKey,
            /// When.
            at: ActiveMs,
        },
        /// A person said that a hold may stay.
        HoldAcknowledged {
            /// Which.
            key: HoldKey,
            /// Who.
            by: String,
            /// When.
            at: WallMs,
        },
        /// An answer was given.
        AnswerGiven {
            /// Which, to what, by whom.
            record: AnswerRecord,
        },
        /// A permission was given.
        GrantGiven {
            /// The permission.
            grant: Grant,
        },
        /// A permission was used up.
        GrantConsumed {
            /// What had been asked.
            kind: HoldKind,
            /// About what.
            subject: Subject,
        },
        /// A route closed or opened.
        RouteGated {
            /// The route.
            route: RouteKey,
            /// How it stands now.
            gate: Gate,
        },
        /// A route refused a dispatch.
        RouteRefused {
            /// The route.
            route: RouteKey,
            /// What it was for.
            subject: Subject,
        },
        /// A person stopped the loop.
        Paused {
            /// Who.
            by: String,
            /// When.
            at: WallMs,
        },
        /// A person let the loop go on.
        Resumed {
            /// Who.
            by: String,
            /// When.
            at: WallMs,
        },
    }

    /// What a circuit counts besides the operations themselves.
    #[derive(Copy)]
    pub enum Counter {
        /// A merge conflict answered by an automatic rework.
        Conflict,
        /// A merge that lost the swap of the target.
        LostSwap,
        /// A dispatch whose owner died while it ran: its attempt was returned, its money is kept.
        Orphan,
        /// A review without a verdict: its attempt was returned, its money is kept.
        Refusal,
    }
}
