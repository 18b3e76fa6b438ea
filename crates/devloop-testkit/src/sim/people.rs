//! Owns the operators of the world: answers in time, late, twice, stale or wrong, pauses, edits, resumes,
//! each from a process of its own that commits to the same journal; and the one who only wants the goal done.

use devloop_core::answer::Answer;
use devloop_core::command::{Command, TaskEdit, Wish};
use devloop_core::decide::{Input, decide};
use devloop_core::hold::HoldKey;
use devloop_core::ids::TaskId;
use devloop_core::question::{Question, open_questions};
use devloop_core::reason::Reason;
use devloop_core::state::Phase;
use devloop_core::tier::{Risk, Tier};

use super::World;
use super::audit::{Broken, Kept};

impl World {
    /// An operator says something.
    ///
    /// # Errors
    /// A broken promise.
    pub(super) fn operate(&mut self) -> Kept {
        let wish = self.wish();
        self.say(wish)
    }

    /// A wish is decided and committed by a process of its own.
    ///
    /// # Errors
    /// A broken promise.
    pub(super) fn say(&mut self, wish: Wish) -> Kept {
        let command = Command { by: "cli".into(), wish: wish.clone() };
        let stamp = self.stamp_of_command();
        let wall = stamp.wall;
        let input = Input::Command { stamp, command };
        let state = self.audit.shadow.clone();
        let decision = decide(&state, &self.policy, &input);
        self.seen.decided(&decision);
        if let Reason::Refused(_) = decision.reason {
            let silent = decision.events.is_empty() && decision.effects.is_empty();
            return if silent { Ok(()) } else { Err(Broken::new("refusal", "a refused wish did something")) };
        }
        decision.effects.iter().for_each(|effect| self.seen.performed(effect));
        let tip = self.disk.tip().clone();
        let group = [decision];
        // A command that dies before its fsync was never given.
        let keep = self.draw.odd(self.danger / 2).then_some(0);
        self.disk
            .append(&tip, &state, wall, "cli", &group, keep)
            .map_err(|_| Broken::new("I4", "a command that held the lock was refused as stale"))?;
        self.record(&state, &input, &group, keep);
        if keep.is_none() {
            self.last_wish = Some(wish);
        }
        self.absorb(None)
    }

    fn wish(&mut self) -> Wish {
        let phase = self.audit.shadow.phase.clone();
        let at_rest = match phase {
            Phase::Paused { .. } => Some(Wish::Resume { task: None, reset_cost: false }),
            Phase::Complete { .. } => Some(Wish::NextGoal),
            Phase::Active => None,
        };
        if let Some(wish) = at_rest
            && !self.draw.odd(200)
        {
            return wish;
        }
        match self.draw.below(16) {
            0..=8 => self.fitting_answer(),
            9 => self.any_answer(),
            10 => match self.last_wish.clone() {
                Some(wish) => wish,
                None => self.any_answer(),
            },
            11 => {
                let task = if self.draw.odd(600) { self.some_task() } else { None };
                Wish::Resume { task, reset_cost: self.draw.odd(300) }
            }
            12 => Wish::Pause { now: self.draw.odd(500) },
            13 => self.edit(),
            14 => Wish::NextGoal,
            _ => Wish::Answer { answer: self.draw.pick(&Answer::ALL), hold: None, revision: None },
        }
    }

    pub(super) fn questions(&self) -> Vec<Question> {
        let state = &self.audit.shadow;
        let own = self.me.as_ref().map_or(0, |me| me.owner.instance);
        open_questions(state, &self.policy, state.last_instance(own))
    }

    /// One of the offered answers to one of the open questions.
    fn fitting_answer(&mut self) -> Wish {
        let mut open = self.questions();
        open.retain(|question| !question.answers.is_empty());
        if open.is_empty() {
            return Wish::Resume { task: None, reset_cost: false };
        }
        let question = self.draw.pick(&open);
        let words: Vec<Answer> = question.answers.iter().map(|offer| offer.answer).collect();
        let answer = self.draw.pick(&words);
        let hold = (!self.draw.odd(100)).then_some(question.key);
        Wish::Answer { answer, hold, revision: Some(question.revision) }
    }

    /// Any word to any question that is open or was.
    fn any_answer(&mut self) -> Wish {
        let answered = self.audit.shadow.answers.iter().map(|record| record.key.clone());
        let mut keys: Vec<HoldKey> = answered.collect();
        keys.extend(self.questions().into_iter().map(|question| question.key));
        keys.extend(HoldKey::parse("task/nobody:no_review_pass"));
        let hold = Some(self.draw.pick(&keys));
        let revision = self.draw.odd(400).then(|| self.draw.below(90));
        Wish::Answer { answer: self.draw.pick(&Answer::ALL), hold, revision }
    }

    fn some_task(&mut self) -> Option<TaskId> {
        let mut ids: Vec<TaskId> = self.audit.shadow.tasks.iter().map(|task| task.id.clone()).collect();
        ids.extend(TaskId::parse("nobody"));
        Some(self.draw.pick(&ids))
    }

    fn edit(&mut self) -> Wish {
        let Some(task) = self.some_task() else { return Wish::NextGoal };
        let path = self.draw.pick(&["z/**", "a/**", "../x"]).to_string();
        let edit = TaskEdit {
            allowed_paths: self.draw.odd(400).then(|| vec![path]),
            criteria: self.draw.odd(300).then(|| vec!["it still works".into()]),
            tier: self.draw.odd(300).then(|| self.draw.pick(&[Tier::T1, Tier::T2])),
            risk: self.draw.odd(300).then(|| self.draw.pick(&[Risk::Low, Risk::High])),
        };
        Wish::Edit { task, edit }
    }

    /// The operator who wants the goal done answers one question; false when none can be, but by hand.
    ///
    /// # Errors
    /// A broken promise.
    pub(super) fn help(&mut self) -> Result<bool, Broken> {
        for question in self.questions() {
            let key = question.key.to_string();
            let times = self.helped.get(&key).copied().unwrap_or(0);
            let Some(answer) = choose(&question, times) else { continue };
            self.helped.insert(key, times + 1);
            self.say(Wish::Answer { answer, hold: Some(question.key), revision: Some(question.revision) })?;
            return Ok(true);
        }
        Ok(false)
    }
}

/// The recommended answer twice, then anything that gives more, then the end of the task.
fn choose(question: &Question, times: u32) -> Option<Answer> {
    let offers = question.answers.iter();
    let moving: Vec<_> = offers.filter(|offer| offer.answer != Answer::Stop).collect();
    let has = |answer: Answer| moving.iter().any(|offer| offer.answer == answer).then_some(answer);
    let first = || moving.iter().find(|offer| offer.recommended).map(|offer| offer.answer);
    let other = || moving.iter().map(|offer| offer.answer).find(|answer| *answer != Answer::Drop);
    match times {
        0 | 1 => first().or_else(other).or_else(|| has(Answer::Drop)),
        2 => has(Answer::RetryFresh).or_else(|| has(Answer::Allow)).or_else(first).or_else(other),
        _ => has(Answer::Drop).or_else(|| has(Answer::Accept)).or_else(other),
    }
}
