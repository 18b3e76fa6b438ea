//! Owns what must be true of every decision, tick, question and report, whatever led there. It must not know
//! which decision is the right one.

use devloop_core::answer::Answer;
use devloop_core::apply::apply_line;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Decision, Input, decide};
use devloop_core::diagnose::max_decisions;
use devloop_core::effect::Effect;
use devloop_core::event::Event;
use devloop_core::hold::{HoldKey, Subject};
use devloop_core::ids::DispatchId;
use devloop_core::invariant::check;
use devloop_core::ledger::{Certainty, Entry};
use devloop_core::obstacle::{Obstacle, Waker};
use devloop_core::policy::Policy;
use devloop_core::question::{offered, open_questions};
use devloop_core::reason::{Reason, Refusal};
use devloop_core::report::{Report, Usage, UsageBasis};
use devloop_core::state::{LoopState, Planning};
use devloop_core::units::MAX_NUMBER;
use devloop_core::wait::{obstacles, wakers};

use super::every;
use super::scene::Scene;

/// Says which combination it was when a test panics on it.
pub struct Naming<F: Fn() -> String>(pub F);

impl<F: Fn() -> String> Drop for Naming<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the combination: {}", (self.0)());
        }
    }
}

/// One decision, and the state it leads to.
pub fn step(state: &LoopState, policy: &Policy, input: &Input) -> (LoopState, Decision) {
    let decision = decide(state, policy, input);
    let (reason, events) = (&decision.reason, &decision.events);
    assert!(reason.is_final() || !events.is_empty(), "nothing is decided: {reason:?}");
    assert!(reason.sentence().ends_with('.'), "{reason:?}: {}", reason.sentence());
    let mut after = state.clone();
    if !events.is_empty() {
        apply_line(&mut after, events).expect("what is decided fits the state");
        assert_eq!(after.revision, state.revision + 1);
        assert_eq!(check(&after), Ok(()), "after {reason:?}");
    }
    every_lease_has_its_effect(&after, &decision);
    money_moves_forward(state, &after, events);
    (after, decision)
}

/// What takes a lease asks for its effect, once, under the epoch the report must name; a model is asked for
/// only when its lease is taken.
fn every_lease_has_its_effect(after: &LoopState, decision: &Decision) {
    let taken = |id| {
        decision.events.iter().any(|e| matches!(e, Event::LeaseTaken { dispatch, .. } if *dispatch == id))
    };
    let mut asked = Vec::new();
    for effect in &decision.effects {
        let Some((dispatch, epoch)) = effect.lease() else { continue };
        assert_eq!(after.leases.get(&dispatch).map(|lease| lease.epoch), Some(epoch), "{effect:?}");
        assert!(!asked.contains(&dispatch), "{dispatch} is asked for twice");
        assert!(taken(dispatch) || !matches!(effect, Effect::Dispatch { .. }), "a model is started again");
        asked.push(dispatch);
    }
    for event in &decision.events {
        if let Event::LeaseTaken { dispatch, .. } | Event::LeaseAdopted { dispatch, .. } = event {
            assert!(asked.contains(dispatch), "nothing performs {dispatch}: {event:?}");
        }
    }
}

/// Money only becomes more certain, and nothing that was spent disappears.
pub fn money_moves_forward(before: &LoopState, after: &LoopState, events: &[Event]) {
    let archived = events.contains(&Event::GoalArchived);
    let gives_back = |event: &Event, id: DispatchId| match event {
        Event::DispatchRefused { dispatch } | Event::DispatchOrphaned { dispatch } => *dispatch == id,
        _ => false,
    };
    let returned = |id: DispatchId| events.iter().any(|event| gives_back(event, id));
    for (id, old) in &before.ledger.entries {
        match after.ledger.entries.get(id) {
            Some(new) => entry_moves_forward(old, new),
            None => {
                let free = old.certainty == Certainty::Reserved && returned(*id);
                assert!(free || archived, "{id} disappears with {:?}", old.certainty);
            }
        }
    }
    let all = |state: &LoopState| {
        let entries = state.ledger.entries.values().filter(|e| e.certainty != Certainty::Reserved);
        let entries = entries.map(|e| u128::from(e.amount.0)).sum::<u128>();
        let foreign = state.ledger.unattributed.values().map(|u| u128::from(u.amount.0)).sum::<u128>();
        (entries + foreign + u128::from(state.ledger.archived.spent().0)).min(u128::from(MAX_NUMBER))
    };
    if archived {
        assert_eq!(all(before), all(after), "an archived goal keeps its sums");
    }
    for (name, old) in &before.ledger.unattributed {
        let new = after.ledger.unattributed.get(name);
        assert!(archived || new.is_some_and(|new| new.amount >= old.amount), "{name} is forgotten");
    }
}

fn entry_moves_forward(old: &Entry, new: &Entry) {
    let same = (new.op, &new.lineage, &new.route, new.goal, new.instance);
    assert_eq!(same, (old.op, &old.lineage, &old.route, old.goal, old.instance));
    assert!(new.certainty >= old.certainty, "{old:?} becomes {new:?}");
    let measured = old.certainty == Certainty::Measured;
    assert!(!measured || (new.amount, new.tokens) == (old.amount, old.tokens), "measured twice: {new:?}");
    assert!(old.tokens.total() == 0 || new.tokens.total() > 0, "tokens are forgotten: {new:?}");
}

/// Decides on the scene's look at the world until the tick is over.
pub fn tick(scene: &Scene) -> (LoopState, Reason) {
    let input = Input::Observation(scene.seen.clone());
    let mut state = scene.state.clone();
    for _ in 0..max_decisions(&scene.state, &scene.policy) {
        let (after, decision) = step(&state, &scene.policy, &input);
        state = after;
        if decision.reason.is_final() {
            rests(&state, scene, &decision);
            return (state, decision.reason);
        }
    }
    panic!("a tick takes more decisions than its bound");
}

/// When a tick is over everything that is to move has exactly one obstacle, every obstacle its waker, and the
/// loop halts only for a person who is asked something that helps.
pub fn rests(state: &LoopState, scene: &Scene, decision: &Decision) {
    let reason = &decision.reason;
    if !matches!(reason, Reason::Wait { .. } | Reason::Halted) {
        return;
    }
    let (policy, seen) = (&scene.policy, &scene.seen);
    if let Reason::Wait { until: Some(until), .. } = reason {
        let ahead = *until > seen.stamp.wall || seen.stamp.wall.0 == MAX_NUMBER;
        assert!(ahead, "waits for a moment that is over: {until:?}");
    }
    let found = obstacles(state, policy, seen);
    let ends = wakers(state, policy, &seen.stamp, seen);
    assert_eq!(found.len(), ends.len());
    for task in state.tasks.iter() {
        let subject = Subject::Task(task.id.clone());
        let own: Vec<&Obstacle> = found.iter().filter(|(s, _)| *s == subject).map(|(_, o)| o).collect();
        let moves = task.is_live() && !task.is_done() && task.dispatch().is_none();
        assert_eq!(own.len(), usize::from(moves), "{} in {:?}: {own:?}", task.id, task.stage);
    }
    let planned = found.iter().filter(|(s, _)| *s == Subject::Planning).count();
    let wanted = matches!(state.planning, Planning::Wanted { .. } | Planning::Held { .. });
    assert_eq!(planned, usize::from(wanted), "planning is {:?}", state.planning);
    for (waker, (subject, obstacle)) in ends.iter().zip(&found) {
        match waker {
            Waker::Lease(d) => assert!(state.leases.contains_key(d), "{subject} waits for {d}: {obstacle:?}"),
            Waker::At(_) | Waker::Shared | Waker::Person => {}
        }
    }
    // Making the target is asked for at every beat until it is seen; then everything is judged anew.
    let making = decision.effects.iter().any(|effect| matches!(effect, Effect::CreateTarget { .. }));
    let alone = state.leases.is_empty() && !making && ends.iter().all(|waker| *waker == Waker::Person);
    assert_eq!(*reason == Reason::Halted, alone, "{reason:?} with {ends:?}");
    if alone {
        let open = open_questions(state, policy, seen.stamp.owner.instance);
        let helps = |answer: Answer| answer != Answer::Stop;
        let asked = open.iter().any(|q| q.answers.iter().any(|offer| helps(offer.answer)));
        assert!(asked, "halted and nothing is asked: {found:?}");
    }
}

/// Every offered answer is accepted and changes something; every other one is refused and changes nothing.
/// Returns how many answers were tried.
pub fn answers(scene: &Scene) -> usize {
    let Scene { state, policy, seen } = scene;
    let instance = state.last_instance(seen.stamp.owner.instance);
    let mut tried = 0;
    for (subject, hold) in state.open_holds() {
        let key = HoldKey { subject: subject.clone(), kind: hold.kind };
        let offered = offered(state, policy, instance, &subject, hold);
        assert!(offered.contains(&Answer::Stop), "{key} cannot be left");
        for answer in every::answers() {
            tried += 1;
            let wish = Wish::Answer { answer, hold: Some(key.clone()), revision: Some(hold.revision) };
            let command = Command { by: "cli".into(), wish };
            let input = Input::Command { stamp: seen.stamp.clone(), command };
            let (after, decision) = step(state, policy, &input);
            if offered.contains(&answer) {
                assert_eq!(decision.reason, Reason::Answered { key: key.clone(), answer });
                assert_ne!(after, *state, "{key}: {answer:?} changes nothing");
                assert_eq!(after.hold(&key).is_some(), answer == Answer::Stop, "{key}: {answer:?}");
            } else {
                let refused = matches!(decision.reason, Reason::Refused(Refusal::NotOffered { .. }));
                assert!(refused && decision.events.is_empty(), "{key} takes {answer:?}");
            }
        }
    }
    tried
}

/// What a report says of its use is in the ledger afterwards, whatever became of the rest of it.
pub fn usage_is_kept(before: &LoopState, after: &LoopState, report: &Report) {
    let Some(usage) = report.usage.map(Usage::bounded) else { return };
    let id = &report.dispatch;
    if matches!(usage.basis, UsageBasis::Cumulative | UsageBasis::Unknown) {
        let amount =
            |state: &LoopState| state.ledger.entries.get(id).map(|entry| (entry.amount, entry.tokens));
        let refunded = after.ledger.entries.get(id).is_none();
        assert!(refunded || amount(after) == amount(before), "{id} is booked from what may cover others");
        assert_eq!(before.ledger.unattributed, after.ledger.unattributed, "{id}");
        return;
    }
    let Some(old) = before.ledger.entries.get(id) else {
        let foreign = after.ledger.unattributed.get(&id.to_string());
        let cost = usage.cost.unwrap_or_default();
        assert!(foreign.is_some_and(|kept| kept.amount >= cost), "{id} is not booked: {usage:?}");
        return;
    };
    let new = after.ledger.entries.get(id).expect("a used dispatch stays in the ledger");
    if old.certainty == Certainty::Measured {
        assert_eq!((new.amount, new.tokens), (old.amount, old.tokens));
        return;
    }
    match (usage.basis, usage.cost) {
        (UsageBasis::Partial, cost) => {
            assert!(new.certainty == Certainty::Assumed && new.amount >= cost.unwrap_or_default(), "{new:?}");
            assert!(new.amount >= old.amount, "a part takes nothing off the reserve: {new:?}");
        }
        (_, Some(cost)) => assert_eq!((new.certainty, new.amount), (Certainty::Measured, cost)),
        (_, None) => {}
    }
    assert!(new.certainty > Certainty::Reserved);
    assert!(usage.tokens.total() == 0 || new.tokens == usage.tokens, "tokens are lost: {new:?}");
}
