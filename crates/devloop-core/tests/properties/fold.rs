//! The fold on anything: whatever the event and whatever the state, it folds or refuses, and never panics.

use devloop_core::answer::Answer;
use devloop_core::apply::{apply, apply_line};
use devloop_core::command::TaskEdit;
use devloop_core::event::{Counter, Event};
use devloop_core::finding::{Finding, Severity};
use devloop_core::hold::{HoldKey, HoldKind, Subject};
use devloop_core::ids::{Branch, DispatchId, FindingId, Identity, Oid, RouteKey, TaskId};
use devloop_core::ledger::Certainty;
use devloop_core::report::CheckOutcome;
use devloop_core::state::{AnswerRecord, Ending, Gate, Grant, GrantScope, Lease, LoopState, Op};
use devloop_core::task::{Counters, ResumeTo, Stage, Task};
use devloop_core::tier::{Risk, Tier};
use devloop_core::units::{ActiveMs, AwakeMs, Day, MAX_NUMBER, Tokens, UsdMicros, WallMs};
use devloop_testkit::random::Random;
use devloop_testkit::world::{digest, key, oid};
use proptest::prelude::*;

use super::every::{every, units};
use super::scene::{self, CALM, RUNNING, phases, places};

/// Values that may fit the state and may not, drawn from a seed.
struct Draw(Random);

impl Draw {
    fn number(&mut self) -> u64 {
        self.0.pick(&[0, 1, 2, 1_000_000, scene::WALL, scene::ACTIVE, MAX_NUMBER, u64::MAX])
    }
    fn wall(&mut self) -> WallMs {
        WallMs(self.number())
    }
    fn active(&mut self) -> ActiveMs {
        ActiveMs(self.number())
    }
    fn awake(&mut self) -> AwakeMs {
        AwakeMs { boot: self.number(), ms: self.number() }
    }
    fn dispatch(&mut self) -> DispatchId {
        self.0.pick(&[
            RUNNING,
            scene::SILENT,
            scene::MEASURED,
            DispatchId(10),
            DispatchId(0),
            DispatchId(u64::MAX),
        ])
    }
    fn task(&mut self) -> TaskId {
        scene::id(self.0.pick(&["a", "b", "__proto__"]))
    }
    fn head(&mut self) -> Oid {
        oid(self.0.below(4))
    }
    fn route(&mut self) -> RouteKey {
        key(self.0.pick(&["work", "review", "__proto__"]))
    }
    fn who(&mut self) -> Identity {
        Identity::parse(self.0.pick(&["cheap/work", "lead/review"])).expect("an identity")
    }
    fn text(&mut self) -> String {
        self.0.pick(&["", "cli", "__proto__", "\u{1f600}\u{0}"]).into()
    }
    fn subject(&mut self) -> Subject {
        let (task, route) = (self.task(), self.route());
        let all = every!(Subject {
            Subject::Planning => [Subject::Planning],
            Subject::Route(_) => [Subject::Route(route.clone())],
            Subject::Goal => [Subject::Goal],
            Subject::Target => [Subject::Target],
            Subject::Loop => [Subject::Loop],
            Subject::Task(_) => [Subject::Task(task.clone())],
        });
        self.0.pick(&all)
    }
    fn kind(&mut self) -> HoldKind {
        self.0.pick(HoldKind::ALL)
    }
    fn hold_key(&mut self) -> HoldKey {
        HoldKey { subject: self.subject(), kind: self.kind() }
    }
    fn resume_to(&mut self) -> ResumeTo {
        self.0.pick(&scene::resume_points())
    }
    fn maybe<T>(&mut self, one: impl Fn(&mut Self) -> T) -> Option<T> {
        if self.0.chance(50) { Some(one(self)) } else { None }
    }
    fn tokens(&mut self) -> Tokens {
        Tokens { input_uncached: self.number(), output: self.number(), ..Tokens::default() }
    }
    fn gate(&mut self) -> Gate {
        let at = self.wall();
        let all = every!(Gate {
            Gate::Open => [Gate::Open],
            Gate::ClosedUntil { .. } => [Gate::ClosedUntil { at, why: String::new() }],
            Gate::Closed => [Gate::Closed],
        });
        self.0.pick(&all)
    }
    fn grant(&mut self) -> Grant {
        let (head, number) = (self.head(), self.number());
        let scopes = every!(GrantScope {
            GrantScope::Head { .. } => [GrantScope::Head { head: head.clone(), contract: u32::MAX }],
            GrantScope::Day(_) => [GrantScope::Day(Day(number))],
            GrantScope::Goal(_) => [GrantScope::Goal(1)],
            GrantScope::Session(_) => [GrantScope::Session(number)],
        });
        let (kind, subject) = (self.kind(), self.subject());
        Grant { kind, subject, scope: self.0.pick(&scopes), by: self.text(), at: self.wall() }
    }
    fn lease(&mut self) -> Lease {
        let ops = units!(Op: Plan, Work, Commit, Check, Review, Refresh, Merge, Verify, Revert);
        let running = scene::scene(&places()[1], &phases()[0], CALM)
            .and_then(|s| s.state.leases.get(&RUNNING).cloned());
        Lease {
            op: self.0.pick(&ops),
            subject: self.subject(),
            route: self.maybe(Draw::route),
            deadline: self.active(),
            reserve: UsdMicros(self.number()),
            worktree: self.maybe(Draw::dispatch),
            resume_to: self.maybe(Draw::resume_to),
            ..running.expect("the second place is a working task")
        }
    }
    fn edit(&mut self) -> TaskEdit {
        TaskEdit {
            allowed_paths: self.maybe(|d| vec![d.text()]),
            criteria: self.maybe(|d| vec![d.text()]),
            tier: self.maybe(|d| d.0.pick(&[Tier::T0, Tier::T3])),
            risk: self.maybe(|d| d.0.pick(&[Risk::Low, Risk::High])),
        }
    }
    fn findings(&mut self) -> Vec<Finding> {
        let (id, text) = (FindingId(self.0.pick(&[0, 1, u32::MAX])), self.text());
        let one = Finding { id, severity: Severity::Blocking, path: None, line: None, text };
        vec![one; self.0.pick(&[0, 1, 2])]
    }
    fn new_task(&mut self) -> Task {
        let name = self.0.pick(&["a", "n", "m"]);
        Task { depends_on: vec![self.task()], ..scene::task(name, Stage::Ready) }
    }
}

/// One event of every variant.
fn events(seed: u64) -> Vec<Event> {
    let d = &mut Draw(Random::new(seed));
    let mut all = loop_events(d);
    all.extend(task_events(d));
    // Complete by compilation: a new variant must be put into one of the two lists.
    let kinds: std::collections::BTreeSet<usize> = all.iter().map(place_of).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), (0..VARIANTS).collect::<Vec<_>>());
    all
}

macro_rules! numbered {
    ($($variant:ident),+ $(,)?) => {
        /// How many variants there are.
        const VARIANTS: usize = [$(stringify!($variant)),+].len();
        /// The place of the event's variant in the list.
        fn place_of(event: &Event) -> usize {
            let name = match event { $(Event::$variant { .. } => stringify!($variant)),+ };
            [$(stringify!($variant)),+].iter().position(|known| *known == name).expect("it is listed")
        }
    };
}

numbered! {
    ClockAnchored, ClockStepped, DayRolled, PolicyChanged, GoalStarted, GoalEditSeen, GoalTextReturned,
    GoalContinued, GoalReplanned, GoalCompleted, GoalArchived, TargetVerified, TargetUnverified,
    TargetChosen, LastMergeForgotten, LeaseTaken, LeaseEnding, LeaseAdopted, LeaseEnded,
    DispatchRefused, AttemptReturned, DispatchOrphaned, UsageSettled, UsageUnattributed, PlanWanted,
    PlanAccepted, PlanRefused, PlanCountersReset, WorkCommitted, Refreshed, Checked, FindingsNamed,
    ReviewPassed, Merged,
    MergedElsewhere, MergeReverted, TaskMoved, Counted, CountersReset, StartedAfresh, ReplanRequested,
    TaskAccepted, TaskDropped, DependencyRemoved, TaskEdited, HoldOpened, HoldLifted, HoldAcknowledged,
    AnswerGiven, GrantGiven, GrantConsumed, RouteGated, RouteRefused, Paused, Resumed,
}

fn loop_events(d: &mut Draw) -> Vec<Event> {
    let endings = units!(Ending: Deadline, Operator, Orphan);
    let certainties = units!(Certainty: Reserved, Assumed, Priced, Measured);
    let branch = Branch::parse("main").ok();
    vec![
        Event::ClockAnchored { wall: d.wall(), awake: d.awake(), active: d.active() },
        Event::ClockStepped { wall: d.wall(), awake: d.awake(), active: d.active() },
        Event::DayRolled { day: Day(d.number()) },
        Event::PolicyChanged { digest: digest(2) },
        Event::GoalStarted { number: u32::MAX, digest: digest(2), at: d.wall(), branch: branch.clone() },
        Event::GoalEditSeen { digest: digest(2), at: d.active() },
        Event::GoalTextReturned,
        Event::GoalContinued { digest: digest(2) },
        Event::GoalReplanned { digest: digest(2) },
        Event::GoalCompleted { at: d.wall() },
        Event::GoalArchived,
        Event::TargetVerified { commit: d.head(), known_red: vec![d.text()] },
        Event::TargetUnverified,
        Event::TargetChosen { branch: branch.expect("a branch") },
        Event::LastMergeForgotten,
        Event::LeaseTaken { dispatch: d.dispatch(), lease: d.lease() },
        Event::LeaseEnding { dispatch: d.dispatch(), why: d.0.pick(&endings) },
        Event::LeaseAdopted { dispatch: d.dispatch(), owner: scene::owner(), deadline: d.active() },
        Event::LeaseEnded { dispatch: d.dispatch(), at: d.active() },
        Event::DispatchRefused { dispatch: d.dispatch() },
        Event::AttemptReturned { dispatch: d.dispatch() },
        Event::DispatchOrphaned { dispatch: d.dispatch() },
        Event::UsageSettled {
            dispatch: d.dispatch(),
            amount: UsdMicros(d.number()),
            certainty: d.0.pick(&certainties),
            tokens: d.tokens(),
        },
        Event::UsageUnattributed { dispatch: d.text(), day: Day(d.number()), amount: UsdMicros(d.number()) },
        Event::AnswerGiven {
            record: AnswerRecord { key: d.hold_key(), answer: Answer::Retry, by: d.text(), at: d.wall() },
        },
        Event::GrantGiven { grant: d.grant() },
        Event::GrantConsumed { kind: d.kind(), subject: d.subject() },
        Event::RouteGated { route: d.route(), gate: d.gate() },
        Event::RouteRefused { route: d.route(), subject: d.subject() },
        Event::Paused { by: d.text(), at: d.wall() },
        Event::Resumed { by: d.text(), at: d.wall() },
    ]
}

fn task_events(d: &mut Draw) -> Vec<Event> {
    let counters = units!(Counter: Conflict, LostSwap, Orphan, Refusal);
    vec![
        Event::PlanWanted { replaces: d.maybe(Draw::task) },
        Event::PlanAccepted { tasks: vec![d.new_task(), d.new_task()], replaces: d.maybe(Draw::task) },
        Event::PlanRefused { detail: d.text() },
        Event::PlanCountersReset,
        Event::WorkCommitted { task: d.task(), head: d.head(), implementer: d.who() },
        Event::Refreshed { task: d.task(), head: d.head(), base: d.head() },
        Event::Checked { task: d.task(), outcome: CheckOutcome::Unavailable { detail: d.text() } },
        Event::FindingsNamed { task: d.task(), findings: d.findings() },
        Event::ReviewPassed { task: d.task(), head: d.head(), base: d.head(), reviewer: d.who() },
        Event::Merged { task: d.task(), commit: d.head() },
        Event::MergedElsewhere { task: d.task(), tip: d.head() },
        Event::MergeReverted { task: d.task(), commit: d.head(), reapplied: d.head() },
        Event::TaskMoved { task: d.task(), to: d.resume_to() },
        Event::Counted { task: d.task(), counter: d.0.pick(&counters) },
        Event::CountersReset { task: d.task() },
        Event::StartedAfresh { task: d.task() },
        Event::ReplanRequested { task: d.task() },
        Event::TaskAccepted { task: d.task() },
        Event::TaskDropped { task: d.task() },
        Event::DependencyRemoved { task: d.task(), dependency: d.task() },
        Event::TaskEdited { task: d.task(), edit: d.edit() },
        Event::HoldOpened {
            subject: d.subject(),
            hold: scene::hold(d.kind()),
            resume_to: d.maybe(Draw::resume_to),
        },
        Event::HoldLifted { key: d.hold_key(), at: d.active() },
        Event::HoldAcknowledged { key: d.hold_key(), by: d.text(), at: d.wall() },
    ]
}

/// Every number of the state that counts something, at its highest.
fn at_the_top(mut state: LoopState) -> LoopState {
    let top = u32::MAX;
    for mut task in state.tasks.clone().iter().cloned() {
        let Counters { busy_ms, repeats, .. } = task.counters;
        let repeats = repeats.map(|repeats| devloop_core::task::Repeats { count: top, ..repeats });
        task.counters = Counters {
            attempts: top,
            refusals: top,
            review_cycles: top,
            refreshes: top,
            replans: top,
            orphans: top,
            conflicts: top,
            lost_swaps: top,
            busy_ms,
            repeats,
        };
        task.edition = top;
        task.findings.named = top;
        scene::replace(&mut state, task);
    }
    let plan = &mut state.plan_counters;
    (plan.attempts, plan.refusals) = (top, top);
    (state.goal.number, state.goal.epoch, state.revision) = (top, top, MAX_NUMBER);
    state.next_dispatch = MAX_NUMBER;
    state.leases.values_mut().for_each(|lease| lease.epoch = top);
    state.ledger.entries.change_all(|entry| {
        entry.amount = UsdMicros(MAX_NUMBER);
        entry.tokens.output = MAX_NUMBER;
    });
    state
}

/// The same state as a document would give it.
pub fn opened_anew(state: &LoopState) -> LoopState {
    let mut anew = state.clone();
    anew.tasks = Vec::from(anew.tasks).try_into().expect("ids are used once");
    anew.ledger.entries = anew.ledger.entries.into_iter().collect();
    anew
}

proptest! {
    #![proptest_config(super::cases(768))]

    #[test]
    fn the_fold_takes_or_refuses_any_event_in_any_state(
        place in prop::sample::select(places()),
        phase in prop::sample::select(phases()),
        top in any::<bool>(),
        drawn in proptest::collection::vec((0..VARIANTS, any::<u64>()), 1..12),
    ) {
        let Some(scene) = scene::scene(&place, &phase, CALM) else { return Ok(()) };
        let mut state = if top { at_the_top(scene.state) } else { scene.state };
        for (at, seed) in drawn {
            let all = events(seed);
            let event = all.iter().find(|event| place_of(event) == at).expect("one of every variant");
            let mut tried = state.clone();
            let folded = apply(&mut tried, event);
            // What is kept beside tasks and entries is what they would be opened with, on a misfit too.
            prop_assert_eq!(&opened_anew(&tried), &tried);
            match folded {
                Ok(()) => state = tried,
                Err(refused) => prop_assert!(!refused.what.is_empty()),
            }
        }
        let revision = state.revision;
        let _ = apply_line(&mut state, &[]);
        prop_assert_eq!(state.revision, (revision + 1).min(MAX_NUMBER), "one line, one revision");
    }
}
