//! Owns what flights say: the good word, or one of everything that workers, reviewers, planners, checks and
//! git have ever said instead. Host operations act on the modelled repository; nothing here decides.

use devloop_core::effect::{Effect, Job};
use devloop_core::finding::{Finding, Found, Severity};
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
            Effect::Check { .. } if self.faulty(20) => not_merged(MergeFault::UnknownCommit),
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
            Job::Review { .. } if self.faulty(25) => not_merged(MergeFault::UnknownCommit),
            Job::Review { head, contract, earlier, .. } => {
                let review = self.reviewed(head, &contract.base, earlier);
                if review.verdict.is_pass() && review.contradiction().is_none() {
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
            _ => Outcome::Reviewed(Review::bare(Verdict::Pass, self.some_oid())),
        }
    }

    fn reviewed(&mut self, head: &Oid, base: &Oid, earlier: &[Finding]) -> Review {
        let notes = text("looked at it");
        let good = Review { notes, ..Review::bare(Verdict::Pass, head.clone()) };
        if !self.faulty(350) {
            return good;
        }
        let verdict = match self.fault(6) {
            0 => Verdict::Rework,
            1 => Verdict::PassWithNotes,
            2 => Verdict::Replan,
            3 => Verdict::Blocked,
            // It looked at what the change starts from.
            4 => return Review { head: base.clone(), ..good },
            // A model makes one up.
            _ => return Review { head: Oid::parse(&"f".repeat(40)).expect("40 hex digits"), ..good },
        };
        let findings = self.found(verdict, earlier);
        Review { verdict, findings, ..good }
    }

    /// What a reviewer names: a new flaw or two, some of those it named before, all of them, or nothing.
    fn found(&mut self, verdict: Verdict, earlier: &[Finding]) -> Vec<Found> {
        let severity = if verdict == Verdict::Rework { Severity::Blocking } else { Severity::Note };
        let mut again = |one: &Finding| Found {
            id: self.draw.odd(500).then_some(one.id),
            severity: one.severity,
            path: one.path.clone(),
            line: one.line,
            text: one.text.clone(),
        };
        let mut all: Vec<Found> = earlier.iter().map(&mut again).collect();
        let keep = self.draw.pick(&[0, 1, all.len()]);
        all.truncate(keep);
        for _ in 0..self.draw.pick(&[1, 0, 2, 3]) {
            let text = format!("flaw {}", self.draw.below(1_000));
            all.push(Found { id: None, severity, path: Some("src/lib.rs".to_string()), line: Some(1), text });
        }
        all
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
            let why = match self.fault(8) {
                0 => CommitFault::Scope,
                1 => CommitFault::ScopeUnknown,
                2 => CommitFault::Secret,
                3 => CommitFault::Escaped,
                4 => CommitFault::Late,
                5 => CommitFault::BranchTaken,
                6 => CommitFault::Git,
                _ => CommitFault::TooLarge,
            };
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
        // In half of the nights merging is what goes wrong, also where nothing else does.
        let stubborn = self.habit >= 12;
        let usual = if moved { 600 } else { 150 };
        let fails = if stubborn { self.draw.odd(700) } else { self.faulty(usual) };
        if fails {
            let same = stubborn && !self.draw.odd(100);
            return match if same { self.habit % 7 } else { self.fault(7) } {
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
