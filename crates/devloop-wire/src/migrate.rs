//! Version 1 state to version 2: what the earlier plugin knew, in the new words. What it cannot carry over
//! it refuses with a field path; whoever calls it writes nothing then.

use devloop_core::apply::apply;
use devloop_core::event::Event;
use devloop_core::hold::{Acknowledged, Hold, HoldKind, Subject};
use devloop_core::ids::{Branch, Digest, DispatchId, RouteKey, TaskId};
use devloop_core::invariant;
use devloop_core::ledger::{Certainty, Entry, Unattributed};
use devloop_core::state::{Clock, Goal, LoopState, Op, Phase};
use devloop_core::units::{Day, MAX_NUMBER, Tokens, UsdMicros, WallMs};

use crate::fault::DocError;
use crate::json;
pub use crate::legacy_doc::OldFiles;
use crate::legacy_doc::{self, DOCUMENT, Legacy, LegacyHold};
use crate::migrate_task::{self, Times};
use crate::money::parse_usd;

/// Who did what the earlier plugin did.
const BY: &str = "version 1";

/// What the old files do not say and the host sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Digest of the goal's text as it is now; without it the loop asks whether the goal is still the one
    /// planned for.
    pub goal: Option<Digest>,
    /// The branch that the checkout is on, for states that never recorded theirs; without either the loop
    /// asks.
    pub branch: Option<Branch>,
}

/// Translates the files: the state, or the last snapshot of the journal where the state is missing, torn or
/// behind it. Neither is a state before the first goal.
///
/// # Errors
/// [`DocError`] with the field that cannot be carried over.
pub fn migrate(files: &OldFiles<'_>, present: &Present) -> Result<LoopState, DocError> {
    match legacy_doc::read(files)? {
        Some(legacy) => translate(&legacy, present),
        None => Ok(LoopState::default()),
    }
}

fn translate(legacy: &Legacy, present: &Present) -> Result<LoopState, DocError> {
    let anchor = WallMs(legacy.usage.last_progress_at);
    let updated = wall(&legacy.updated_at).unwrap_or(anchor);
    let mut state = LoopState { revision: legacy.revision, ..LoopState::default() };
    state.clock = Clock { wall: anchor, day: anchor.day(), ..Clock::default() };
    state.tasks = migrate_task::tasks(legacy, Times { updated })?;
    spending(&mut state, legacy, anchor.day())?;
    goal(&mut state, legacy, present, updated)?;
    if let Some(hold) = &legacy.supervisor {
        carry_hold(&mut state, legacy, hold, updated)?;
    }
    phase(&mut state, legacy, updated);
    match invariant::check(&state) {
        Ok(()) => Ok(state),
        Err(violation) => Err(DocError::defect(DOCUMENT, "", violation.to_string())),
    }
}

/// Old money of the day counts for the day; old tokens count for their task.
fn spending(state: &mut LoopState, legacy: &Legacy, day: Day) -> Result<(), DocError> {
    let usage = &legacy.usage;
    let amount = parse_usd(&usage.cost_usd_day.to_string())
        .map_err(|rule| DocError::defect(DOCUMENT, "usage.costUsdDay", rule))?;
    if amount.0 > 0 {
        let dispatch = "version-1".to_owned();
        state
            .ledger
            .unattributed
            .insert(dispatch.clone(), Unattributed { dispatch, day, revision: state.revision, amount });
    }
    let route = RouteKey::parse("version-1").expect("a valid name");
    for (task, tokens) in &usage.tokens {
        let path = format!("usage.tokens.{task}");
        let input_uncached = whole(&tokens.to_string())
            .ok_or_else(|| DocError::defect(DOCUMENT, path, "must be a number of tokens, zero or more"))?;
        let Some(id) = TaskId::parse(task).ok().filter(|id| state.tasks.get(id).is_some()) else { continue };
        let entry = Entry {
            op: Op::Work,
            lineage: Some(id),
            route: route.clone(),
            goal: legacy.goal.as_ref().map_or(1, |goal| goal.number),
            day,
            instance: 0,
            amount: UsdMicros(0),
            certainty: Certainty::Measured,
            tokens: Tokens { input_uncached, ..Tokens::default() },
        };
        state.ledger.entries.insert(DispatchId(state.next_dispatch), entry);
        state.next_dispatch += 1;
    }
    Ok(())
}

/// A number of tokens, rounded up where the plugin kept a fraction.
fn whole(text: &str) -> Option<u64> {
    let micros = parse_usd(text).ok()?;
    Some(micros.0.div_ceil(1_000_000).min(MAX_NUMBER))
}

fn goal(state: &mut LoopState, legacy: &Legacy, present: &Present, updated: WallMs) -> Result<(), DocError> {
    let number = legacy.goal.as_ref().map_or(1, |goal| goal.number);
    if number == 0 || legacy.goal.is_some() && number < 2 {
        return Err(DocError::defect(DOCUMENT, "goal.number", "must be at least 2"));
    }
    let branch = match &legacy.work_branch {
        Some(name) => Some(
            Branch::parse(name)
                .map_err(|bad| DocError::defect(DOCUMENT, "workBranch", format!("must be {}", bad.rule)))?,
        ),
        None => present.branch.clone(),
    };
    state.target.branch = branch;
    if state.tasks.is_empty() && !legacy.goal_completed {
        // Nothing was planned: the goal starts anew, with its text and branch as they are then.
        state.goal.number = number - 1;
        return Ok(());
    }
    let unknown = || json::digest_bytes(b"");
    state.goal = Goal {
        number,
        digest: Some(present.goal.clone().unwrap_or_else(unknown)),
        pending: None,
        epoch: 1,
        started_at: legacy.goal.as_ref().and_then(|goal| wall(&goal.started_at)).unwrap_or(updated),
    };
    Ok(())
}

/// Holds that the new loop opens by itself where their cause is still there.
const RECOMPUTED: &[&str] = &[
    "merge_onto_trunk",
    "merge_detached_head",
    "security_high_risk",
    "daily_cost_cap",
    "session_cost_cap",
    "no_progress",
];

/// The kind that asks what the old reason asked: its namesake, which every known reason has.
fn kind_of(base: &str) -> HoldKind {
    let known = HoldKind::ALL.iter().copied().find(|kind| kind.key() == base);
    known.unwrap_or(HoldKind::ResultTransitionFailed)
}

fn carry_hold(
    state: &mut LoopState,
    legacy: &Legacy,
    old: &LegacyHold,
    updated: WallMs,
) -> Result<(), DocError> {
    let base = old.reason.split(':').next().unwrap_or(&old.reason);
    let stopped = acknowledged(legacy, old, updated);
    if RECOMPUTED.contains(&base) && stopped.is_none() {
        return Ok(());
    }
    let hold = Hold {
        kind: kind_of(base),
        revision: legacy.revision,
        opened_at: updated,
        detail: clip(&old.reason),
        items: Vec::new(),
        acknowledged: stopped,
    };
    let named = old.task_id.as_ref().filter(|_| !RECOMPUTED.contains(&base));
    let Some(name) = named else {
        // About no task: the loop stays stopped until a person resumes it.
        state.phase = Phase::Paused { by: clip(&format!("{BY}: {}", hold.detail)), at: updated };
        return Ok(());
    };
    let id = TaskId::parse(name).ok().filter(|id| state.tasks.get(id).is_some());
    let Some(id) = id else {
        return Err(DocError::defect(DOCUMENT, "supervisor.taskId", format!("there is no task {name:?}")));
    };
    let done = state.tasks.get(&id).is_some_and(devloop_core::task::Task::is_done);
    let opened = Event::HoldOpened { subject: Subject::Task(id), hold, resume_to: None };
    if !done {
        apply(state, &opened).map_err(|error| DocError::defect(DOCUMENT, "supervisor", error.to_string()))?;
    }
    Ok(())
}

/// The answer `stop` of old, when it is about this very hold.
fn acknowledged(legacy: &Legacy, old: &LegacyHold, updated: WallMs) -> Option<Acknowledged> {
    let said = legacy.acknowledged.as_ref()?;
    let same = said.get("reason")?.as_str() == Some(&old.reason)
        && said.get("taskId").and_then(serde_json::Value::as_str) == old.task_id.as_deref();
    let at = said.get("at").and_then(serde_json::Value::as_str).and_then(wall).unwrap_or(updated);
    same.then(|| Acknowledged { by: BY.to_owned(), at })
}

fn phase(state: &mut LoopState, legacy: &Legacy, updated: WallMs) {
    let open = state.tasks.iter().any(|task| task.is_live() && !task.is_done());
    if legacy.goal_completed && !open {
        state.phase = Phase::Complete { at: updated };
        return;
    }
    let text = |key: &str| legacy.paused.as_ref()?.get(key)?.as_str();
    if let (Some(at), Some(via)) = (text("at"), text("via")) {
        let at = wall(at).unwrap_or(updated);
        state.phase = Phase::Paused { by: clip(via), at };
    } else if legacy.kill_switch && legacy.supervisor.is_none() && state.phase == Phase::Active {
        // Stopped, and nothing says why: it stays stopped.
        state.phase = Phase::Paused { by: BY.to_owned(), at: updated };
    }
}

fn clip(text: &str) -> String {
    text.chars().take(200).collect()
}

/// A moment as the plugin wrote it: `2026-01-31T12:34:56.789Z`, fraction optional.
pub(crate) fn wall(text: &str) -> Option<WallMs> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let numbers = |text: &str, by: char| -> Option<Vec<u64>> {
        text.split(by).map(|part| part.parse::<u64>().ok()).collect()
    };
    let [year, month, day] = numbers(date, '-')?.try_into().ok()?;
    let [hour, minute, second] = numbers(time, ':')?.try_into().ok()?;
    let in_range = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !in_range || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let milli: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    // Days since 1970 with years that start in March, so that the leap day is the last of its year.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some(WallMs((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + milli))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_the_plugin_wrote_them() {
        let table = [
            ("1970-01-01T00:00:00.000Z", Some(0)),
            ("1970-01-01T00:00:01Z", Some(1_000)),
            ("2000-02-29T00:00:00.5Z", Some(951_782_400_500)),
            ("2026-09-10T04:00:00.000Z", Some(1_789_012_800_000)),
            ("2026-13-01T00:00:00Z", None),
            ("2026-01-01", None),
            ("yesterday", None),
            ("2026-01-01T00:00:00+02:00", None),
        ];
        for (text, expect) in table {
            assert_eq!(wall(text).map(|at| at.0), expect, "{text}");
        }
    }
}
