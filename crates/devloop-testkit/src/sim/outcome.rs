//! Owns what flights say: the good word, or one of everything that workers, reviewers, planners, checks and
//! git have ever said instead. Host operations act on the modelled repository; nothing here decides.

use devloop_core::effect::{Effect, Job};
use devloop_core::ids::{Branch, DispatchId, Oid, TaskId};
use devloop_core::plan::PlannedTask;
use devloop_core::report::{CheckOutcome, CommitFault, FailureClass, MergeFault, Outcome};
use devloop_core::review::{Review, Verdict};
use devloop_core::tier::{Risk, Tier};

use super::World;
use super::repo::Look;

fn text(words: &str) -> String {
    words.to_string()
}

fn not_merged(why: MergeFault) -> Outcome {
    Outcome::NotMerged { why, detail: text("as it was found"), paths: vec![text("src/lib.rs")] }
}

impl World {
    /// What the effect comes to now.
    pub(super) fn outcome(&mut self, dispatch: DispatchId, effect: &Effect) -> Outcome {
        match effect {
            Effect::Dispatch { job, .. } => self.model(dispatch, effect, job),
            Effect::Commit { work, contract, .. } => self.committed(dispatch, *work, effect, contract),
            Effect::Check { contract: None, .. } => self.checked(25),
            Effect::Check { .. } | Effect::Verify { .. } => self.checked(150),
            Effect::Merge { contract, head, base, target, .. } => {
                self.merged(dispatch, &contract.task, head, base, target)
            }
            Effect::Refresh { head, target, .. } => self.refreshed(dispatch, head, target),
            Effect::Revert { commit, target, .. } => self.reverted(dispatch, commit, target),
            Effect::RemoveWorktree { .. }
            | Effect::Cancel { .. }
            | Effect::CreateTarget { .. }
            | Effect::Wake
            | Effect::Notify { .. } => Outcome::NoResult { detail: text("no lease") },
        }
    }

    fn model(&mut self, dispatch: DispatchId, effect: &Effect, job: &Job) -> Outcome {
        if self.faulty(250) {
            return self.model_fault();
        }
        match job {
            Job::Plan { replaces, .. } => self.planned(replaces.is_some()),
            Job::Work { .. } => self.worked(),
            Job::Review { head, .. } => {
                let review = self.reviewed(head);
                if matches!(review.verdict, Verdict::Pass | Verdict::PassWithNotes) {
                    let who = self.audit.identity_of(dispatch).or_else(|| self.identity(effect));
                    self.audit.passed(&review.head, who);
                }
                Outcome::Reviewed(review)
            }
        }
    }

    fn model_fault(&mut self) -> Outcome {
        let detail = text("it went wrong");
        let reset = self.time.wall().plus(self.draw.pick(&[600_000, 0, 40_000_000, 200_000_000]));
        let class = match self.draw.below(16) {
            0 => FailureClass::Task,
            1 => return Outcome::Refused { detail },
            2 => return Outcome::NoResult { detail },
            3 => return Outcome::InvalidResult { detail },
            4 => FailureClass::Deadline,
            5 => FailureClass::Cancelled,
            6 => FailureClass::OutOfCredit,
            7 => FailureClass::RateLimited { until: Some(reset) },
            8 => FailureClass::RateLimited { until: None },
            9 => FailureClass::LoginExpired,
            10 => FailureClass::Overloaded,
            11 => FailureClass::NetworkDown,
            12 => FailureClass::ContextTooLong,
            13 => FailureClass::OutputLimit,
            14 => FailureClass::ContentRefusal,
            _ => FailureClass::Machine,
        };
        Outcome::Failed { class, detail }
    }

    fn worked(&mut self) -> Outcome {
        let summary = text("done");
        if !self.faulty(150) {
            return Outcome::Worked { summary };
        }
        match self.draw.below(4) {
            0 => Outcome::WorkBlocked { summary },
            1 => Outcome::WorkFailed { summary },
            2 => Outcome::Planned { tasks: Vec::new() },
            _ => Outcome::Reviewed(Review { verdict: Verdict::Pass, head: self.some_oid(), notes: summary }),
        }
    }

    fn reviewed(&mut self, head: &Oid) -> Review {
        let good = Review { verdict: Verdict::Pass, head: head.clone(), notes: text("looked at it") };
        if !self.faulty(350) {
            return good;
        }
        let verdict = match self.draw.below(6) {
            0 => Verdict::Rework,
            1 => Verdict::PassWithNotes,
            2 => Verdict::Replan,
            3 => Verdict::Blocked,
            _ => return Review { head: self.some_oid(), ..good },
        };
        Review { verdict, ..good }
    }

    fn some_oid(&mut self) -> Oid {
        let n = self.draw.below(60);
        Oid::parse(&format!("{n:040x}")).expect("40 hex digits")
    }

    fn planned(&mut self, replaces: bool) -> Outcome {
        let count = if self.faulty(60) { 0 } else { 1 + self.draw.pick(&[1, 0, 2, 3]) };
        let mut names: Vec<String> = Vec::new();
        let mut tasks = Vec::new();
        for _ in 0..count {
            self.next_name += 1;
            names.push(format!("t{}", self.next_name));
            let id = names.last().cloned().unwrap_or_default();
            let mut depends_on = Vec::new();
            if self.draw.odd(400) {
                let at = self.draw.below(names.len() as u64);
                depends_on.extend(names.get(usize::try_from(at).unwrap_or(0)).filter(|n| **n != id).cloned());
            }
            let place = self.draw.pick(&["a/**", "b/**", "c/**", "src/**", "**"]);
            tasks.push(PlannedTask {
                title: format!("do {id}"),
                id,
                tier: self.draw.pick(&[Tier::T1, Tier::T0, Tier::T2, Tier::T3]),
                risk: self.draw.pick(&[Risk::Low, Risk::Medium, Risk::High]),
                depends_on,
                allowed_paths: vec![text(place)],
                criteria: vec![text("it works")],
                estimate: None,
            });
        }
        if self.faulty(80) {
            self.spoil_plan(&mut tasks, replaces);
        }
        Outcome::Planned { tasks }
    }

    fn spoil_plan(&mut self, tasks: &mut [PlannedTask], replaces: bool) {
        let known = self.audit.shadow.tasks.iter().next().map(|task| task.id.to_string());
        let Some(first) = tasks.first_mut() else { return };
        match self.draw.below(4) {
            0 => first.depends_on = vec![first.id.clone()],
            1 => first.allowed_paths = vec![text("../out")],
            2 => first.id = known.unwrap_or_else(|| text("__proto__")),
            _ if replaces => first.depends_on = known.into_iter().collect(),
            _ => first.depends_on = vec![text("nobody")],
        }
    }

    fn committed(
        &mut self,
        dispatch: DispatchId,
        work: DispatchId,
        effect: &Effect,
        contract: &devloop_core::effect::Contract,
    ) -> Outcome {
        if !self.repo.worktrees.contains(&work) {
            self.audit.fault("I15", format!("{dispatch} commits from the removed worktree of {work}"));
        }
        if self.faulty(150) {
            let detail = text("found");
            let why = self.draw.pick(&[
                CommitFault::Scope,
                CommitFault::ScopeUnknown,
                CommitFault::Secret,
                CommitFault::Escaped,
                CommitFault::Late,
                CommitFault::BranchTaken,
                CommitFault::Git,
            ]);
            return match self.draw.below(4) {
                0 => Outcome::CommitRefused { why, detail, paths: vec![text("x")] },
                1 => Outcome::CommitEmpty,
                2 => Outcome::Failed { class: FailureClass::Machine, detail },
                _ => Outcome::CommitRefused { why, detail, paths: Vec::new() },
            };
        }
        let head = self.repo.commit(dispatch);
        let who = self.audit.identity_of(work).or_else(|| self.identity(effect));
        self.audit.wrote(&head, &contract.task, work, who);
        Outcome::Committed { head }
    }

    fn checked(&mut self, permille: u64) -> Outcome {
        if !self.faulty(permille) {
            return Outcome::Checked(CheckOutcome::Green);
        }
        let commands = vec![self.draw.pick(&[text("npm test"), text("make lint")])];
        Outcome::Checked(match self.draw.below(3) {
            0 => CheckOutcome::Red { commands, output: text("1 failed") },
            1 => CheckOutcome::Unavailable { detail: text("no such program") },
            _ => return Outcome::Failed { class: FailureClass::Machine, detail: text("no descriptors") },
        })
    }

    fn merged(
        &mut self,
        dispatch: DispatchId,
        task: &TaskId,
        head: &Oid,
        base: &Oid,
        target: &Branch,
    ) -> Outcome {
        let moved = match self.repo.look(dispatch, target, head, base) {
            Look::NoTarget => return not_merged(MergeFault::UnknownCommit),
            Look::Published(commit) => return Outcome::Merged { commit },
            Look::Contained(tip) => return Outcome::AlreadyMerged { tip },
            Look::Rewound => return not_merged(MergeFault::Rewound),
            Look::InTheWay => return not_merged(MergeFault::Checkout),
            Look::Clear { moved } => moved,
        };
        let seldom = if moved { 600 } else { 150 };
        if self.faulty(seldom) {
            return match self.draw.below(7) {
                0 => not_merged(MergeFault::Overlap),
                1 => not_merged(MergeFault::Conflict),
                2 => not_merged(MergeFault::LostSwap),
                3 => not_merged(MergeFault::CandidateRed),
                4 => not_merged(MergeFault::ChecksUnavailable),
                5 => not_merged(MergeFault::UnknownCommit),
                _ => not_merged(MergeFault::Git),
            };
        }
        let commit = self.repo.merge(dispatch, target, head);
        if self.repo.times_merged(target, head) > 1 {
            self.audit.fault("I6", format!("{head} of task {task} was merged twice"));
        }
        self.audit.published(&commit, head);
        Outcome::Merged { commit }
    }

    fn refreshed(&mut self, dispatch: DispatchId, old: &Oid, target: &Branch) -> Outcome {
        if self.faulty(200) {
            return match self.draw.below(4) {
                0 => not_merged(MergeFault::Conflict),
                1 => not_merged(MergeFault::Git),
                2 => not_merged(MergeFault::LostSwap),
                _ => not_merged(MergeFault::UnknownCommit),
            };
        }
        match self.repo.refresh(dispatch, target) {
            Some((head, base)) => {
                self.audit.derived(&head, old);
                Outcome::Refreshed { head, base }
            }
            None => not_merged(MergeFault::UnknownCommit),
        }
    }

    fn reverted(&mut self, dispatch: DispatchId, merge: &Oid, target: &Branch) -> Outcome {
        if self.faulty(80) {
            return not_merged(self.draw.pick(&[MergeFault::Git, MergeFault::LostSwap]));
        }
        match self.repo.revert(dispatch, target, merge) {
            Some((commit, reapplied)) => {
                self.audit.reapplied(&reapplied, merge);
                Outcome::Reverted { commit, reapplied }
            }
            None => not_merged(MergeFault::BuriedMerge),
        }
    }
}
