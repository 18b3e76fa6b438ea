//! Random nights on the core alone: after every decision the invariants of docs/INVARIANTS.md that the core
//! can break are checked by what was recorded before and after, not by what the core says of itself.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use devloop_core::circuit::grants;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Decision, Input};
use devloop_core::diagnose::{max_decisions, outlook};
use devloop_core::effect::{Effect, Job};
use devloop_core::event::Event;
use devloop_core::hold::{HoldKey, HoldKind, Subject};
use devloop_core::ids::{DispatchId, Oid};
use devloop_core::ledger::Entry;
use devloop_core::observation::{GoalSeen, OrphanSeen, ProcessTree};
use devloop_core::question::offered;
use devloop_core::reason::{Reason, Refusal};
use devloop_core::report::{CheckOutcome, Outcome, Report};
use devloop_core::review::{Review, Verdict, is_independent};
use devloop_core::state::{Lease, LoopState, Op};
use devloop_core::task::{Done, Stage, Task};
use devloop_core::tier::Risk;
use devloop_core::units::{UsdMicros, WallMs};
use devloop_testkit::world::{digest, oid, planned};
use proptest::sample::select;
use proptest::test_runner::TestRunner;

use super::moves::{Move, night};
use super::scene::{self, Place, Scene, Temper, tempers};
use super::{every, judge};

/// A loop with a memory of everything it ever asked for.
struct Night {
    scene: Scene,
    /// The highest epoch under which each dispatch was asked for.
    asked: BTreeMap<DispatchId, u32>,
    models: BTreeSet<DispatchId>,
    commits: u64,
    /// Every reason there was.
    reasons: BTreeSet<&'static str>,
}

impl Night {
    /// A goal whose plan is wanted, under tight limits.
    fn new(temper: Temper) -> Night {
        let place = Place::Planning(devloop_core::state::Planning::Wanted { replaces: None });
        let mut scene = scene::scene(&place, &devloop_core::state::Phase::Active, temper).expect("a scene");
        let limits = &mut scene.policy.limits;
        limits.cost_session = UsdMicros(1_500_000);
        limits.cost_goal = Some(UsdMicros(1_000_000));
        limits.cost_task = Some(UsdMicros(400_000));
        Night {
            scene,
            asked: BTreeMap::new(),
            models: BTreeSet::new(),
            commits: 1_000,
            reasons: BTreeSet::new(),
        }
    }

    fn fresh(&mut self) -> Oid {
        self.commits += 1;
        oid(self.commits)
    }

    fn step(&mut self, input: &Input) -> Decision {
        let before = self.scene.state.clone();
        let (after, decision) = judge::step(&before, &self.scene.policy, input);
        self.reasons.insert(decision.reason.key());
        self.nothing_starts_twice(&decision);
        done_only_by_a_merge_or_an_accept(&before, &after, &decision);
        reviewers_differ(&self.scene, &before, &decision);
        caps_hold(&self.scene, &after, &decision);
        assert_eq!(super::fold::opened_anew(&after), after, "what is kept beside tasks and entries");
        overlaps_wait(&after, &decision);
        self.scene.state = after;
        decision
    }

    /// A tick on the scene as it is seen now; reports are seen once.
    fn tick(&mut self) -> Reason {
        let input = Input::Observation(self.scene.seen.clone());
        let before = self.scene.clone();
        for _ in 0..max_decisions(&before.state, &before.policy) {
            let decision = self.step(&input);
            if decision.reason.is_final() {
                judge::rests(&self.scene.state, &self.scene, &decision);
                for report in &before.seen.reports {
                    judge::usage_is_kept(&before.state, &self.scene.state, report);
                }
                self.scene.seen.reports.clear();
                return decision.reason;
            }
        }
        panic!("a tick takes more decisions than its bound");
    }

    /// I6: a model is asked for once; the host's own work again only under a higher epoch.
    fn nothing_starts_twice(&mut self, decision: &Decision) {
        for effect in &decision.effects {
            let Some((dispatch, epoch)) = effect.lease() else { continue };
            let last = self.asked.insert(dispatch, epoch);
            assert!(last.is_none_or(|last| last < epoch), "{dispatch} again under epoch {epoch}");
            if let Effect::Dispatch { .. } = effect {
                assert!(self.models.insert(dispatch), "{dispatch} is started twice");
            }
        }
    }

    /// I9: what a wish would lead to is what it leads to.
    fn say(&mut self, wish: Wish) -> Decision {
        let command = Command { by: "cli".into(), wish };
        let quiet = Scene { seen: self.scene.seen.clone(), ..self.scene.clone() };
        let foreseen = outlook(&quiet.state, &quiet.policy, &quiet.seen, Some(&command));
        let input = Input::Command { stamp: self.scene.seen.stamp.clone(), command };
        let decision = self.step(&input);
        let refused = match &decision.reason {
            Reason::Refused(refusal) => Some(refusal.clone()),
            _ => None,
        };
        let reason = self.tick();
        let open = self.scene.state.open_holds().into_iter();
        let open: Vec<HoldKey> = open.map(|(subject, hold)| HoldKey { subject, kind: hold.kind }).collect();
        assert_eq!((foreseen.refused, foreseen.reason, foreseen.open), (refused, reason, open));
        decision
    }

    fn lease(&self, at: usize) -> Option<(DispatchId, Lease)> {
        let leases = &self.scene.state.leases;
        let found = leases.iter().nth(at % leases.len().max(1));
        found.map(|(dispatch, lease)| (*dispatch, lease.clone()))
    }

    fn ends(&mut self, dispatch: DispatchId, epoch: u32, usage: usize, outcome: Outcome) {
        let usages = every::usages();
        let usage = usages[usage % usages.len()];
        self.scene.seen.reports = vec![Report { dispatch, epoch, usage, outcome }];
    }

    fn take(&mut self, what: &Move) {
        match what {
            Move::Pass { ms } => self.pass(*ms),
            Move::Jump { ms } => {
                let wall = self.scene.seen.stamp.wall.0.saturating_add_signed(*ms);
                self.scene.seen.stamp.wall = WallMs(wall);
            }
            Move::Restart { boot } => self.restart(*boot),
            Move::EndWell { lease, usage } => {
                if let Some((dispatch, lease)) = self.lease(*lease) {
                    let outcome = self.good(&lease);
                    self.ends(dispatch, lease.epoch, *usage, outcome);
                }
            }
            Move::End { lease, outcome, usage, stale } => {
                if let Some((dispatch, lease)) = self.lease(*lease) {
                    let outcome = self.any(&lease, *outcome);
                    self.ends(dispatch, lease.epoch - u32::from(*stale), *usage, outcome);
                }
            }
            Move::Stray { dispatch, outcome, usage } => {
                let outcomes = every::outcomes(&oid(2), &oid(5), scene::KNOWN_RED);
                let outcome = outcomes[outcome % outcomes.len()].clone();
                self.ends(DispatchId(*dispatch), 1, *usage, outcome);
            }
            Move::Answer { question, answer, offered } => self.answer(*question, *answer, *offered),
            Move::Say { wish } => {
                self.say(wish.clone());
            }
            Move::Goal { text } => {
                let goals = [digest(7), digest(8), digest(9)].map(GoalSeen::Present);
                let absent = GoalSeen::Absent;
                self.scene.seen.goal = goals.get(usize::from(*text)).cloned().unwrap_or(absent);
            }
            Move::World { checkout, tip, lost, slots, spent } => {
                let repo = &mut self.scene.seen.repo;
                repo.checkout = every::checkouts()[*checkout].clone();
                repo.tip = (*tip > 0).then(|| oid(*tip));
                repo.contains_last_merge = !*lost;
                self.scene.seen.others.slots = *slots;
                self.scene.seen.others.committed_today = UsdMicros(*spent);
            }
        }
        self.tick();
    }

    fn pass(&mut self, ms: u64) {
        let stamp = &mut self.scene.seen.stamp;
        stamp.wall = stamp.wall.plus(ms);
        stamp.awake.ms += ms;
    }

    fn restart(&mut self, boot: bool) {
        let stamp = &mut self.scene.seen.stamp;
        stamp.owner.instance += 1;
        if boot {
            stamp.awake.boot += 1;
            stamp.owner.boot += 1;
            stamp.awake.ms = 1_000;
        }
        let leases = self.scene.state.leases.keys();
        let dead = |dispatch: &DispatchId| OrphanSeen {
            dispatch: *dispatch,
            tree: if dispatch.0 % 4 == 0 { ProcessTree::Alive } else { ProcessTree::Dead },
            run_record: dispatch.0 % 2 == 0,
            saved: None,
        };
        self.scene.seen.orphans = leases.map(dead).collect();
    }

    /// What the operation would return on a good day.
    fn good(&mut self, lease: &Lease) -> Outcome {
        let (head, fresh, number) = (lease.basis.head.clone(), self.fresh(), self.commits);
        match lease.op {
            Op::Plan => {
                let (one, two) = (format!("p{number}"), format!("q{number}"));
                let risk = if number % 3 == 0 { Risk::High } else { Risk::Low };
                let tasks = vec![planned(&one, &[], "a/**", risk), planned(&two, &[&one], "b/**", Risk::Low)];
                Outcome::Planned { tasks }
            }
            Op::Work => Outcome::Worked { summary: "done".into() },
            Op::Commit => Outcome::Committed { head: fresh },
            Op::Check | Op::Verify => Outcome::Checked(CheckOutcome::Green),
            Op::Review => {
                let head = head.unwrap_or(fresh);
                Outcome::Reviewed(Review::bare(Verdict::Pass, head))
            }
            Op::Refresh => Outcome::Refreshed { head: fresh, base: oid(3) },
            Op::Merge => {
                self.scene.seen.repo.tip = Some(fresh.clone());
                Outcome::Merged { commit: fresh }
            }
            Op::Revert => Outcome::Reverted { commit: fresh.clone(), reapplied: fresh },
        }
    }

    fn any(&mut self, lease: &Lease, at: usize) -> Outcome {
        let (head, fresh) = (lease.basis.head.clone(), self.fresh());
        let outcomes = every::outcomes(&head.unwrap_or_else(|| oid(2)), &fresh, scene::KNOWN_RED);
        outcomes[at % outcomes.len()].clone()
    }

    /// I9: an offered answer is accepted, another is refused and changes nothing.
    fn answer(&mut self, question: usize, answer: usize, from_the_offer: bool) {
        let state = &self.scene.state;
        let open = state.open_holds();
        let Some((subject, hold)) = open.get(question % open.len().max(1)) else { return };
        let instance = state.last_instance(self.scene.seen.stamp.owner.instance);
        let offer = offered(state, &self.scene.policy, instance, subject, hold);
        let all = every::answers();
        let answer = if from_the_offer { offer[answer % offer.len()] } else { all[answer % all.len()] };
        let key = HoldKey { subject: subject.clone(), kind: hold.kind };
        let revision = Some(hold.revision);
        let decision = self.say(Wish::Answer { answer, hold: Some(key.clone()), revision });
        match decision.reason {
            Reason::Answered { .. } => assert!(offer.contains(&answer), "{key} took {answer:?}"),
            Reason::Refused(Refusal::NotOffered { .. }) => assert!(!offer.contains(&answer), "{key}"),
            other => panic!("{key}: {other:?}"),
        }
    }
}

/// I7: from one state to the next a task is done only out of a merge or its verification, or by an accept.
fn done_only_by_a_merge_or_an_accept(before: &LoopState, after: &LoopState, decision: &Decision) {
    for task in after.tasks.iter() {
        let Some(old) = before.tasks.get(&task.id).filter(|old| !old.is_done()) else { continue };
        match &task.stage {
            Stage::Done(Done::Merged { .. }) => {
                assert!(matches!(old.stage, Stage::Merging(..) | Stage::Verifying(_)), "{:?}", old.stage);
            }
            Stage::Done(Done::MergedElsewhere) => assert!(matches!(old.stage, Stage::Merging(..))),
            Stage::Done(Done::Accepted) => {
                let accept = devloop_core::answer::Answer::Accept;
                assert!(matches!(&decision.reason, Reason::Answered { answer, .. } if *answer == accept));
            }
            Stage::Merging(_, proof) if !matches!(old.stage, Stage::Merging(..)) => {
                assert_eq!(old.stage, Stage::MergeReady(proof.clone()), "only what passed is merged");
            }
            Stage::Verifying(_) if old.stage != task.stage => {
                assert!(matches!(old.stage, Stage::Merging(..)), "{:?}", old.stage);
            }
            _ => {}
        }
    }
}

/// I8: whoever reviews has no commit between base and head.
fn reviewers_differ(scene: &Scene, before: &LoopState, decision: &Decision) {
    for effect in &decision.effects {
        let Effect::Dispatch { route, job: Job::Review { contract, .. }, .. } = effect else { continue };
        let task = before.tasks.get(&contract.task).expect("a task is reviewed");
        let reviewer = &scene.policy.routes[route].identity;
        let rule = scene.policy.review.independence;
        assert!(is_independent(reviewer, &task.implementers, rule), "{reviewer} reviews its own work");
    }
}

/// Work starts on a task only while no other one occupies a path of its: by names, not by the core's own
/// rule.
fn overlaps_wait(after: &LoopState, decision: &Decision) {
    for event in &decision.events {
        let Event::LeaseTaken { lease, .. } = event else { continue };
        let Subject::Task(id) = &lease.subject else { continue };
        if lease.op != Op::Work {
            continue;
        }
        let folder = |task: &Task| -> Vec<String> {
            task.allowed_paths.iter().map(|glob| glob.trim_end_matches("/**").to_lowercase()).collect()
        };
        let own = folder(after.tasks.get(id).expect("a task is worked on"));
        for other in after.tasks.iter().filter(|other| other.id != *id && works(&other.stage)) {
            let meets = folder(other).iter().any(|path| own.contains(path));
            assert!(!meets, "{id} and {} work on {own:?} at once", other.id);
        }
    }
}

fn works(stage: &Stage) -> bool {
    matches!(stage, Stage::Working(_) | Stage::Committing(_))
}

/// I11: whatever sets money aside fits below every cap with everything spent and set aside, summed by hand.
fn caps_hold(scene: &Scene, after: &LoopState, decision: &Decision) {
    let model = |event: &Event| matches!(event, Event::LeaseTaken { lease, .. } if lease.op.is_model());
    if !decision.events.iter().any(model) {
        return;
    }
    let (limits, instance) = (&scene.policy.limits, scene.seen.stamp.owner.instance);
    let sum = |keep: &dyn Fn(&Entry) -> bool| {
        after.ledger.entries.values().filter(|e| keep(e)).map(|e| u128::from(e.amount.0)).sum::<u128>()
    };
    let today = after.clock.day;
    let foreign = after.ledger.unattributed.values().filter(|u| u.day == today);
    let day = sum(&|e| e.day == today) + foreign.map(|u| u128::from(u.amount.0)).sum::<u128>();
    let more = |kind| 1 + u128::from(grants(after, kind, instance));
    let goal = sum(&|e| e.goal == after.goal.number);
    let rows = [
        (HoldKind::DailyCostCap, day, Some(limits.cost_day)),
        (HoldKind::SessionCostCap, sum(&|e| e.instance == instance), Some(limits.cost_session)),
        (HoldKind::GoalCostCap, goal, limits.cost_goal),
        (
            HoldKind::AllProjectsDailyCap,
            day + u128::from(scene.seen.others.committed_today.0),
            Some(limits.cost_day_all_projects),
        ),
    ];
    for (kind, committed, limit) in rows {
        let Some(limit) = limit else { continue };
        assert!(committed <= u128::from(limit.0) * more(kind), "{kind}: {committed} above {limit:?}");
    }
}

/// The nights are worth something only if they get somewhere.
const REACHED: [&str; 12] = [
    "answered",
    "deadline_passed",
    "goal_archived",
    "goal_reached",
    "halted",
    "held",
    "hold_withdrawn",
    "lease_adopted",
    "orphan_settled",
    "resumed",
    "usage_settled_late",
    "wait_lease",
];

#[test]
fn random_nights_of_commands_and_observations() {
    let reached: RefCell<BTreeSet<&'static str>> = RefCell::default();
    let done = TestRunner::new(super::cases(384)).run(&(select(tempers()), night(70)), |(temper, moves)| {
        let mut night = Night::new(temper);
        night.tick();
        moves.iter().for_each(|what| night.take(what));
        reached.borrow_mut().extend(night.reasons);
        Ok(())
    });
    if let Err(failed) = done {
        panic!("{failed}");
    }
    let reached = reached.into_inner();
    assert!(REACHED.iter().all(|key| reached.contains(key)), "only these came up: {reached:?}");
}
