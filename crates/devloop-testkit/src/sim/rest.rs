//! Owns what must be true when a tick is over: what the loop waits for is there and will end, a halt has a
//! question that moves it, and exactly the offered answers are accepted. It changes nothing.

use devloop_core::answer::Answer;
use devloop_core::apply::apply_line;
use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Input, decide};
use devloop_core::diagnose::max_decisions;
use devloop_core::hold::{HoldKey, HoldKind};
use devloop_core::invariant;
use devloop_core::observation::{Checkout, GoalSeen, Observation};
use devloop_core::policy::Backend;
use devloop_core::question::{Question, open_questions};
use devloop_core::reason::{Reason, Refusal, WaitWhy};
use devloop_core::state::{LoopState, Phase};

use super::World;
use super::audit::{Broken, Kept};

/// A question may come back this often before its answer counts as one that leads nowhere: a cap is widened
/// one limit at a time.
const MAX_ASKED: u32 = 60;

impl World {
    /// Checks the end of a tick.
    ///
    /// # Errors
    /// A broken promise.
    pub(super) fn at_rest(&self, reason: &Reason) -> Kept {
        let (Some(_), Some(seen)) = (&self.me, &self.last_seen) else { return Ok(()) };
        let state = &self.audit.shadow;
        if self.offered_at == Some(state.revision) && *reason == Reason::Halted {
            return Ok(());
        }
        match reason {
            Reason::Halted => self.halt(state, seen),
            Reason::Wait { why, until } => self.wait(state, seen, why, until.map(|at| at.0)),
            Reason::StillPaused => ensure(matches!(state.phase, Phase::Paused { .. }), "rest", "not paused"),
            Reason::StillComplete => {
                ensure(matches!(state.phase, Phase::Complete { .. }), "rest", "not complete")
            }
            Reason::Unarmed => {
                ensure(!matches!(seen.goal, GoalSeen::Present(_)), "rest", "unarmed with a goal")
            }
            _ => Ok(()),
        }
    }

    fn wait(&self, state: &LoopState, seen: &Observation, why: &WaitWhy, until: Option<u64>) -> Kept {
        match why {
            WaitWhy::Lease => {
                ensure(!state.leases.is_empty(), "liveness", "waits for a lease that is not there")?;
                // A lease of this life whose flight is gone and whose report is not here never ends.
                let mine = state.leases.iter().filter(|(_, lease)| lease.owner == seen.stamp.owner);
                let gone = mine.into_iter().find(|(dispatch, _)| {
                    !self.flights.contains_key(dispatch)
                        && !self.inbox.iter().any(|report| report.dispatch == **dispatch)
                });
                match gone {
                    Some((dispatch, _)) => {
                        let what = format!("waits for {dispatch}, which was never performed");
                        Err(Broken::new("liveness", what))
                    }
                    None => Ok(()),
                }
            }
            WaitWhy::Time => {
                let ahead = until.is_some_and(|at| at > seen.stamp.wall.0);
                ensure(ahead, "liveness", "waits for a moment that is over")
            }
            WaitWhy::Shared => {
                let limits = &self.policy.limits;
                let cause = seen.others.slots > 0
                    || seen.others.committed_today.0 > 0
                    || seen.free_disk_bytes < limits.disk_low_bytes
                    || seen.repo.checkout != Checkout::Free
                    || seen.repo.tip.is_none();
                ensure(cause, "liveness", "waits for something outside that is not there")
            }
            WaitWhy::NoopBackend { route, .. } => {
                let noop = self.policy.routes.get(route).is_some_and(|r| r.backend == Backend::Noop);
                ensure(noop, "liveness", "waits for a noop route that is none")
            }
        }
    }

    /// Only a person can move the loop: then a question is open, and an answer to one of them moves it.
    fn halt(&self, state: &LoopState, seen: &Observation) -> Kept {
        ensure(state.leases.is_empty(), "liveness", "halts while something runs")?;
        let questions = open_questions(state, &self.policy, seen.stamp.owner.instance);
        ensure(!questions.is_empty(), "liveness", "halts without a question")?;
        let moves = questions.iter().any(|question| self.has_a_way_on(state, seen, question));
        if moves {
            return Ok(());
        }
        let keys: Vec<String> = questions.iter().map(|question| question.key.to_string()).collect();
        Err(Broken::new("liveness", format!("halts, and no answer moves {}", keys.join(", "))))
    }

    fn has_a_way_on(&self, state: &LoopState, seen: &Observation, question: &Question) -> bool {
        let words = question.answers.iter().map(|offer| offer.answer);
        let mut moving = words.filter(|answer| *answer != Answer::Stop).peekable();
        // A hold that offers nothing but to stop is answered in the configuration, and what is wrong with a
        // file only in that file.
        if moving.peek().is_none() || question.key.kind == HoldKind::GoalUnusable {
            return !question.by_hand.is_empty();
        }
        moving.any(|answer| self.leads_on(state, seen, &question.key, answer))
    }

    /// Whether the answer, given as often as it is asked for, lifts the hold for good or moves the loop.
    fn leads_on(&self, state: &LoopState, seen: &Observation, key: &HoldKey, answer: Answer) -> bool {
        let mut copy = state.clone();
        for _ in 0..MAX_ASKED {
            let wish = Wish::Answer { answer, hold: Some(key.clone()), revision: None };
            let command = Command { by: "page".into(), wish };
            let input = Input::Command { stamp: seen.stamp.clone(), command };
            let decision = decide(&copy, &self.policy, &input);
            if matches!(decision.reason, Reason::Refused(_))
                || apply_line(&mut copy, &decision.events).is_err()
            {
                return false;
            }
            let input = Input::Observation(seen.clone());
            let mut reason = Reason::Halted;
            for _ in 0..max_decisions(&copy, &self.policy) {
                let decision = decide(&copy, &self.policy, &input);
                reason = decision.reason;
                if reason.is_final() || apply_line(&mut copy, &decision.events).is_err() {
                    break;
                }
            }
            if reason != Reason::Halted || copy.hold(key).is_none() {
                return true;
            }
        }
        false
    }

    /// I9: in this very state exactly the offered answers are accepted, and what they lead to is sound.
    pub(super) fn offers(&mut self) -> Kept {
        let stamp = self.stamp_of_command();
        let state = &self.audit.shadow;
        let instance = state.last_instance(stamp.owner.instance);
        for question in open_questions(state, &self.policy, instance) {
            for answer in Answer::ALL {
                let offered = question.answers.iter().any(|offer| offer.answer == answer);
                let hold = Some(question.key.clone());
                let wish = Wish::Answer { answer, hold, revision: Some(question.revision) };
                let command = Command { by: "page".into(), wish };
                let input = Input::Command { stamp: stamp.clone(), command };
                let decision = decide(state, &self.policy, &input);
                let what = || format!("{} to {}", answer.word(), question.key);
                match &decision.reason {
                    Reason::Answered { .. } if offered => {
                        let mut after = state.clone();
                        apply_line(&mut after, &decision.events)
                            .map_err(|e| Broken::new("I9", format!("{}: {e}", what())))?;
                        invariant::check(&after)
                            .map_err(|broken| Broken::new("I9", format!("{}: {broken}", what())))?;
                    }
                    Reason::Refused(Refusal::NotOffered { .. }) if !offered => {}
                    // Who stops what was stopped is told of the first stop.
                    Reason::Refused(Refusal::Stale { .. }) if !offered && question.acknowledged => {}
                    other => return Err(Broken::new("I9", format!("{}: {}", what(), other.sentence()))),
                }
            }
        }
        Ok(())
    }
}

fn ensure(holds: bool, rule: &'static str, what: &str) -> Kept {
    if holds { Ok(()) } else { Err(Broken::new(rule, what)) }
}
