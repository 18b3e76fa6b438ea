//! A state, an event and an effect in a few words each, for tables that are read in review. It must not
//! judge: what it leaves out (times, revisions, texts of prompts) is left out everywhere.

mod words;

use std::collections::BTreeMap;

use devloop_core::hold::HoldKey;
use devloop_core::ids::{Digest, Oid};
use devloop_core::render::usd;
use devloop_core::state::{Gate, GrantScope, Lease, LoopState, Phase, Planning};
use devloop_core::task::{Done, ResumeTo, ReviewRun, Stage, Task};

pub use words::{effect, event};

/// The facets of a state by name; what is as at the start is left out.
#[must_use]
pub fn facets(state: &LoopState) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut put = |name: String, text: String| drop(out.insert(name, text));
    put("goal".into(), goal(state));
    match &state.phase {
        Phase::Active => {}
        Phase::Paused { by, .. } => put("phase".into(), format!("paused by {by}")),
        Phase::Complete { .. } => put("phase".into(), "complete".into()),
    }
    put("target".into(), target(state));
    planning(state).into_iter().for_each(|text| put("planning".into(), text));
    state.tasks.iter().for_each(|task| put(format!("task {}", task.id), of_task(task)));
    state.leases.iter().for_each(|(d, lease)| put(format!("lease {d}"), of_lease(lease)));
    for (subject, hold) in state.open_holds() {
        let key = HoldKey { subject, kind: hold.kind };
        let left = if hold.acknowledged.is_some() { "acknowledged" } else { "open" };
        put(format!("hold {key}"), format!("{left}{}", list(&hold.items)));
    }
    for grant in &state.grants {
        let scope = match &grant.scope {
            GrantScope::Head { head, .. } => format!("head {}", short(head)),
            GrantScope::Day(_) => "the day".into(),
            GrantScope::Goal(n) => format!("goal {n}"),
            GrantScope::Session(n) => format!("session {n}"),
        };
        put(format!("grant {} {}", grant.subject, grant.kind), scope);
    }
    for (key, route) in &state.routes {
        let gate = match &route.gate {
            Gate::Open => "open".into(),
            Gate::ClosedUntil { at, .. } => {
                format!("closed for {} min", at.since(state.clock.wall) / 60_000)
            }
            Gate::Closed => "closed".to_string(),
        };
        put(format!("route {key}"), format!("{gate}, refused {}", route.refused.len()));
    }
    let day = state.ledger.day(state.clock.day);
    put("money".into(), format!("{} spent, {} set aside", usd(day.spent()), usd(day.reserved)));
    let pending = state.clock.pending_day.map_or(String::new(), |p| format!(", perhaps {}", p.day.0));
    put("day".into(), format!("{}{pending}", state.clock.day.0));
    out
}

/// What differs: the facets of `after` that `before` had not, and the names of those that are gone. Leases
/// are left out: the events tell of them.
#[must_use]
pub fn difference(before: &LoopState, after: &LoopState) -> Vec<String> {
    let (before, after) = (facets(before), facets(after));
    let tells = |name: &&String| !name.starts_with("lease ");
    let new = after.iter().filter(|(name, text)| before.get(*name) != Some(*text) && tells(name));
    let mut lines: Vec<String> = new.map(|(name, text)| format!("{name}: {text}")).collect();
    let gone = before.keys().filter(|name| !after.contains_key(*name)).filter(tells);
    lines.extend(gone.map(|name| format!("{name}: gone")));
    lines
}

/// A commit or digest without its leading zeros.
pub(crate) fn short(oid: &Oid) -> String {
    format!("#{}", oid.as_str().trim_start_matches('0'))
}

pub(crate) fn digest(digest: &Digest) -> String {
    format!("text {}", digest.as_str().trim_start_matches('0'))
}

pub(crate) fn list(items: &[String]) -> String {
    if items.is_empty() { String::new() } else { format!(" [{}]", items.join(", ")) }
}

fn goal(state: &LoopState) -> String {
    let goal = &state.goal;
    let own = goal.digest.as_ref().map_or("none".into(), digest);
    let pending = goal.pending.as_ref().map_or(String::new(), |p| format!(", seen {}", digest(&p.digest)));
    format!("{} {own}, epoch {}{pending}", goal.number, goal.epoch)
}

fn target(state: &LoopState) -> String {
    let target = &state.target;
    let mut text = target.branch.as_ref().map_or("none".into(), ToString::to_string);
    target.verified.iter().for_each(|oid| text += &format!(", verified {}", short(oid)));
    target.last_merge.iter().for_each(|oid| text += &format!(", merged {}", short(oid)));
    if !target.known_red.is_empty() {
        text += &format!(", known red{}", list(&target.known_red));
    }
    text
}

fn planning(state: &LoopState) -> Option<String> {
    let of = |replaces: &Option<_>| replaces.as_ref().map_or(String::new(), |id| format!(" for {id}"));
    let text = match &state.planning {
        Planning::Idle => "idle".into(),
        Planning::Wanted { replaces } => format!("wanted{}", of(replaces)),
        Planning::Working { dispatch, replaces } => format!("working {dispatch}{}", of(replaces)),
        Planning::Held { replaces } => format!("held{}", of(replaces)),
    };
    let seen = &state.plan_counters;
    let counted = (seen.attempts, seen.refusals) != (0, 0);
    let counts =
        if counted { format!(", {} attempts, {} refusals", seen.attempts, seen.refusals) } else { "".into() };
    (text != "idle" || counted).then(|| format!("{text}{counts}"))
}

fn of_task(task: &Task) -> String {
    let mut text = stage(&task.stage);
    task.base.iter().for_each(|oid| text += &format!(", base {}", short(oid)));
    task.tip.iter().for_each(|oid| text += &format!(", tip {}", short(oid)));
    if !task.depends_on.is_empty() {
        let names: Vec<String> = task.depends_on.iter().map(ToString::to_string).collect();
        text += &format!(", after {}", names.join(" "));
    }
    let seen = &task.counters;
    let counts = [
        ("attempts", seen.attempts),
        ("refusals", seen.refusals),
        ("reviews", seen.review_cycles),
        ("refreshes", seen.refreshes),
        ("replans", seen.replans),
        ("orphans", seen.orphans),
        ("conflicts", seen.conflicts),
        ("lost swaps", seen.lost_swaps),
        ("repeats", seen.repeats.as_ref().map_or(0, |r| r.count)),
    ];
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        text += &format!(", {name} {count}");
    }
    text
}

pub(crate) fn stage(stage: &Stage) -> String {
    match stage {
        Stage::Ready => "ready".into(),
        Stage::Working(d) => format!("working {d}"),
        Stage::Committing(d) => format!("committing {d}"),
        Stage::Committed { head } => format!("committed {}", short(head)),
        Stage::Checking(d) => format!("checking {d}"),
        Stage::AwaitingReview { head } => format!("awaiting review of {}", short(head)),
        Stage::InReview(ReviewRun::Dispatch(d)) => format!("in review {d}"),
        Stage::InReview(ReviewRun::Forge { pr, .. }) => format!("in review at pull request {pr}"),
        Stage::Rework { notes } => format!("rework{}", quoted(notes)),
        Stage::MergeReady(reviewed) => format!("ready to merge {}", short(reviewed.head())),
        Stage::Merging(d, reviewed) => format!("merging {d} {}", short(reviewed.head())),
        Stage::Refreshing(d) => format!("refreshing {d}"),
        Stage::Verifying(d) => format!("verifying {d}"),
        Stage::Reverting(d) => format!("reverting {d}"),
        Stage::Replanning => "replanning".into(),
        Stage::Held { resume_to, hold } => format!("held by {}, then {}", hold.kind, place(resume_to)),
        Stage::Done(Done::Merged { commit }) => format!("done, merged as {}", short(commit)),
        Stage::Done(Done::Accepted) => "done, accepted".into(),
        Stage::Done(Done::MergedElsewhere) => "done, merged elsewhere".into(),
        Stage::Dropped { replaced_by } => {
            let names: Vec<String> = replaced_by.iter().map(ToString::to_string).collect();
            format!("dropped{}", list(&names))
        }
    }
}

pub(crate) fn place(to: &ResumeTo) -> String {
    stage(&Stage::from(to.clone()))
}

fn quoted(notes: &str) -> String {
    let line = notes.lines().collect::<Vec<_>>().join(" / ");
    let cut: String = line.chars().take(60).collect();
    if cut.is_empty() { String::new() } else { format!(" \"{cut}\"") }
}

fn of_lease(lease: &Lease) -> String {
    let route = lease.route.as_ref().map_or(String::new(), |key| format!(" by {key}"));
    let ending = lease.ending.map_or(String::new(), |why| format!(", ending: {why:?}").to_lowercase());
    format!("{} of {}{route}{ending}", lease.op.key(), lease.subject)
}
