//! One task of version 1 in the new words. Its status becomes a stage that needs no running operation.

use std::collections::BTreeSet;

use devloop_core::finding::Findings;
use devloop_core::hold::{Hold, HoldKind};
use devloop_core::ids::{Identity, Oid, TaskId};
use devloop_core::paths::pattern_fault;
use devloop_core::policy::Independence;
use devloop_core::review::{Review, ReviewedHead, Verdict};
use devloop_core::state::Tasks;
use devloop_core::task::{Counters, Done, Estimate, ResumeTo, Stage, Task, clip};
use devloop_core::tier::{Risk, Tier};
use devloop_core::units::WallMs;

use crate::config_identity::same_person;
use crate::fault::DocError;
use crate::legacy_doc::{DOCUMENT, Legacy, LegacyRisk, LegacyStatus, LegacyTask, LegacyTier, LegacyVerdict};

/// Moments that the state names.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// When the state was last written.
    pub updated: WallMs,
}

/// All tasks. The plugin worked in the order of the list, one at a time, so a task that was not started
/// waits for the unfinished one before it.
pub(crate) fn tasks(legacy: &Legacy, times: Times) -> Result<Tasks, DocError> {
    let mut tasks = Tasks::default();
    let mut before: Option<TaskId> = None;
    for (i, old) in legacy.tasks.iter().enumerate() {
        let mut task = one(legacy, i, old, times)?;
        if !task.is_done() {
            if task.tip.is_none() {
                task.depends_on.extend(before.replace(task.id.clone()));
            } else {
                before = Some(task.id.clone());
            }
        }
        tasks
            .push(task)
            .map_err(|twice| DocError::defect(DOCUMENT, format!("tasks[{i}].id"), twice.to_string()))?;
    }
    Ok(tasks)
}

fn one(legacy: &Legacy, i: usize, old: &LegacyTask, times: Times) -> Result<Task, DocError> {
    let at = |field: &str| format!("tasks[{i}].{field}");
    let id = TaskId::parse(&old.id)
        .map_err(|bad| DocError::defect(DOCUMENT, at("id"), format!("must be {}", bad.rule)))?;
    let oid = |field: &str, text: &Option<String>| match text {
        Some(text) => Oid::parse(text)
            .map(Some)
            .map_err(|bad| DocError::defect(DOCUMENT, at(field), format!("must be {}", bad.rule))),
        None => Ok(None),
    };
    let identity = |field: &str, text: &Option<String>| match text {
        Some(text) => Identity::parse(text)
            .map(|who| Some(same_person(&who)))
            .map_err(|bad| DocError::defect(DOCUMENT, at(field), format!("must be {}", bad.rule))),
        None => Ok(None),
    };
    for (n, glob) in old.allowed_paths.iter().enumerate() {
        if let Some(rule) = pattern_fault(glob) {
            return Err(DocError::defect(
                DOCUMENT,
                at(&format!("allowedPaths[{n}]")),
                format!("must be {rule}"),
            ));
        }
    }
    let tip = oid("implementationSha", &old.implementation_sha)?;
    // Without a commit of its own the work starts from the target as it is now.
    let base = oid("baseSha", &old.base_sha)?.filter(|_| tip.is_some());
    let implementer = identity("implementer", &old.implementer)?;
    let reviewer = identity("reviewer", &old.reviewer)?;
    let usage = &legacy.usage;
    let counters = Counters {
        attempts: usage.task_attempts.get(&old.id).copied().unwrap_or(old.attempts),
        refusals: usage.refused_dispatches.get(&old.id).copied().unwrap_or(0),
        review_cycles: usage.review_cycles.get(&old.id).copied().unwrap_or(old.review_cycles),
        // The plugin counted wall time, waits and nights included: the time under leases starts now.
        ..Counters::default()
    };
    let mut task = Task {
        lineage: id.clone(),
        id,
        title: clip(&old.title),
        tier: tier(old.tier),
        risk: risk(old.risk),
        depends_on: Vec::new(),
        allowed_paths: old.allowed_paths.clone(),
        criteria: old.acceptance.iter().map(|text| clip(text)).collect(),
        estimate: old.estimate.as_ref().and_then(estimate),
        edition: 1,
        stage: Stage::Ready,
        counters,
        implementers: implementer.into_iter().collect::<BTreeSet<Identity>>(),
        base,
        tip,
        checked: None,
        findings: Findings::default(),
    };
    task.stage = stage(legacy, old, &task, reviewer.as_ref(), times);
    Ok(task)
}

fn estimate(value: &serde_json::Value) -> Option<Estimate> {
    let number = |key: &str| u32::try_from(value.get(key)?.as_u64()?).ok();
    Some(Estimate { lines: number("lines")?, files: number("files")? })
}

fn tier(old: LegacyTier) -> Tier {
    match old {
        LegacyTier::T0 => Tier::T0,
        LegacyTier::T1 => Tier::T1,
        LegacyTier::T2 => Tier::T2,
        LegacyTier::T3 => Tier::T3,
    }
}

fn risk(old: LegacyRisk) -> Risk {
    match old {
        LegacyRisk::Low => Risk::Low,
        LegacyRisk::Medium => Risk::Medium,
        LegacyRisk::High => Risk::High,
    }
}

fn stage(legacy: &Legacy, old: &LegacyTask, task: &Task, reviewer: Option<&Identity>, times: Times) -> Stage {
    let held = |kind: HoldKind, resume_to: ResumeTo| {
        let detail = clip(old.review_notes.as_deref().unwrap_or_default());
        let hold = Hold {
            kind,
            revision: legacy.revision,
            opened_at: times.updated,
            detail,
            items: Vec::new(),
            acknowledged: None,
        };
        Stage::Held { resume_to, hold }
    };
    let notes = || clip(old.review_notes.as_deref().unwrap_or_default());
    match old.status {
        LegacyStatus::Ready => task.restart_point().into(),
        // Nobody knows how far the worker came; what it did not commit stays in its old worktree.
        LegacyStatus::Running => task.restart_point().into(),
        LegacyStatus::Rework => Stage::Rework { notes: notes() },
        LegacyStatus::Blocked if old.last_review_verdict == Some(LegacyVerdict::Replan) => {
            held(HoldKind::ReviewRequestedReplan, task.restart_point())
        }
        LegacyStatus::Blocked => held(HoldKind::BlockedTask, task.restart_point()),
        LegacyStatus::Failed => held(HoldKind::RepeatedTestFailure, task.restart_point()),
        // An accepted task lost its verdict; a merged one kept it, but not its merge commit.
        LegacyStatus::Done if old.last_review_verdict.is_some() => Stage::Done(Done::MergedElsewhere),
        LegacyStatus::Done => Stage::Done(Done::Accepted),
        LegacyStatus::ReviewPending | LegacyStatus::MergeReady => match (&task.tip, &task.base) {
            (None, _) => held(HoldKind::MissingReviewWorktree, ResumeTo::Ready),
            (Some(_), None) => held(HoldKind::UnknownBase, ResumeTo::Ready),
            (Some(head), Some(base)) => match proof(old, task, head, base, reviewer) {
                Some(reviewed) => Stage::MergeReady(reviewed),
                None => Stage::AwaitingReview { head: head.clone() },
            },
        },
    }
}

/// A pass is carried over only when everything that makes it one was recorded; else the commit is reviewed
/// again.
fn proof(
    old: &LegacyTask,
    task: &Task,
    head: &Oid,
    base: &Oid,
    reviewer: Option<&Identity>,
) -> Option<ReviewedHead> {
    if old.status != LegacyStatus::MergeReady || task.implementers.is_empty() {
        return None;
    }
    let verdict = match old.last_review_verdict? {
        LegacyVerdict::Pass => Verdict::Pass,
        LegacyVerdict::PassWithNotes => Verdict::PassWithNotes,
        LegacyVerdict::Rework | LegacyVerdict::Replan | LegacyVerdict::Blocked => return None,
    };
    let review = Review::bare(verdict, head.clone());
    ReviewedHead::prove(&review, head, base, reviewer?, &task.implementers, Independence::Model).ok()
}
