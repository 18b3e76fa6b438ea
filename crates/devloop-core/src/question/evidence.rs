//! What speaks for a question: counters against limits, money against caps, commits, routes. No decisions.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Facts;
use super::offer::circuit;
use crate::circuit::{Circuit, grants, lineage_grants, loop_caps, task_cap};
use crate::hold::{HoldKind, Subject};
use crate::ids::RouteKey;
use crate::render::{one_line, short, spend_line, usd, utc};
use crate::state::Gate;
use crate::task::{ResumeTo, Task};
use crate::units::UsdMicros;

/// The most paths or commands that are listed; the rest is counted.
const MAX_LISTED: usize = 20;
/// The longest line of a list, in characters.
const MAX_LINE: usize = 200;

/// Every line of evidence, the most telling first.
pub(super) fn list(f: &Facts<'_>) -> Vec<String> {
    let mut out = Vec::new();
    detail(f, &mut out);
    money(f, &mut out);
    match f.subject {
        Subject::Task(_) => {
            if let Some(task) = f.task {
                of_task(f, task, &mut out);
            }
        }
        Subject::Planning => planning(f, &mut out),
        Subject::Route(key) => out.push(route(f, key)),
        Subject::Goal => goal(f, &mut out),
        Subject::Target => target(f, &mut out),
        Subject::Loop => {}
    }
    out.push(format!("Opened at {}, revision {}.", utc(f.hold.opened_at), f.hold.revision));
    if let Some(said) = &f.hold.acknowledged {
        out.push(format!("Left as it is by {} at {}.", one_line(&said.by, MAX_LINE), utc(said.at)));
    }
    out
}

/// What was seen when it opened. For caps the detail is the amount that did not fit.
fn detail(f: &Facts<'_>, out: &mut Vec<String>) {
    let is_cap = f.hold.kind.is_about_money();
    // The goal's own lines name both texts.
    if !f.hold.detail.is_empty() && f.hold.kind != HoldKind::GoalChanged {
        let what = if is_cap { "The next dispatch would set aside" } else { "Seen" };
        out.push(format!("{what}: {}", f.hold.detail));
    }
    let items = &f.hold.items;
    if items.is_empty() || is_cap {
        return;
    }
    let listed: Vec<String> = items.iter().take(MAX_LISTED).map(|item| one_line(item, MAX_LINE)).collect();
    let more = items.len().saturating_sub(MAX_LISTED);
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    out.push(format!("Named: {}{rest}", listed.join(", ")));
}

fn money(f: &Facts<'_>, out: &mut Vec<String>) {
    if !f.hold.kind.is_about_money() {
        return;
    }
    let Some(wanted) = circuit(f) else { return };
    let limits = &f.policy.limits;
    if wanted == Circuit::AllProjectsDailyCap {
        let widened = 1 + grants(f.state, HoldKind::AllProjectsDailyCap, f.instance);
        let limit = UsdMicros(limits.cost_day_all_projects.0.saturating_mul(widened));
        out.push(format!("all_projects_daily_cap: limit {} over all projects of a day.", usd(limit)));
        out.push(format!("This project, today: {}.", spend_line(&f.state.ledger.day(f.state.clock.day))));
        return;
    }
    let of_task = f.task.and_then(|task| task_cap(f.state, limits, task));
    let caps = loop_caps(f.state, limits, f.instance);
    let Some(cap) = caps.iter().chain(&of_task).find(|cap| cap.circuit == wanted) else {
        out.push(format!("{}: no longer configured.", wanted.row().key));
        return;
    };
    out.push(format!(
        "{}: {} of {} spent or set aside.",
        wanted.row().key,
        usd(cap.spend.committed()),
        usd(cap.limit)
    ));
    out.push(format!("That is {}.", spend_line(&cap.spend)));
}

fn of_task(f: &Facts<'_>, task: &Task, out: &mut Vec<String>) {
    commits(f, task, out);
    let findings = task.findings.open.iter();
    out.extend(findings.map(|one| format!("Finding {}", one.line(MAX_LINE))));
    counters(f, task, out);
    spent(f, task, out);
    match f.hold.kind {
        HoldKind::ScopeViolation | HoldKind::ScopeCheckFailed => {
            let allowed: Vec<String> = task.allowed_paths.iter().map(|p| one_line(p, MAX_LINE)).collect();
            out.push(format!("Allowed paths: {}.", allowed.join(", ")));
        }
        HoldKind::DispatchRefused | HoldKind::NoIndependentReviewer => {
            let work = f.policy.work_routes(task.tier).into_iter();
            out.extend(work.map(|key| format!("Work: {}", route(f, key))));
            let review = f.policy.review_routes().into_iter();
            out.extend(review.map(|key| format!("Review: {}", route(f, key))));
        }
        HoldKind::ReviewerIdentityConflict => {
            let who: Vec<String> = task.implementers.iter().map(ToString::to_string).collect();
            out.push(format!("Worked on by: {}.", who.join(", ")));
        }
        _ => {}
    }
}

fn commits(f: &Facts<'_>, task: &Task, out: &mut Vec<String>) {
    match (&task.tip, &task.base) {
        (Some(tip), Some(base)) => {
            out.push(format!("Last host commit: {}, on base {}.", short(tip), short(base)));
        }
        (Some(tip), None) => out.push(format!("Last host commit: {}.", short(tip))),
        (None, Some(base)) => out.push(format!("Nothing is committed on base {}.", short(base))),
        (None, None) => out.push("No work was started or kept.".to_string()),
    }
    match f.resume_to() {
        Some(ResumeTo::MergeReady(reviewed)) => {
            out.push(format!("{} passed {}.", reviewed.reviewer(), short(reviewed.head())));
        }
        Some(ResumeTo::Rework { notes }) if !notes.trim().is_empty() && notes != f.hold.detail => {
            out.push(format!("To be mended: {notes}"));
        }
        _ => {}
    }
}

fn counters(f: &Facts<'_>, task: &Task, out: &mut Vec<String>) {
    let (limits, seen) = (&f.policy.limits, &task.counters);
    let rows = [
        ("attempts", seen.attempts, Some(limits.task_attempts)),
        ("refusals", seen.refusals, Some(limits.refusals)),
        ("reviews", seen.review_cycles, Some(limits.review_cycles)),
        ("refreshes", seen.refreshes, Some(limits.refreshes)),
        ("replans", seen.replans, Some(limits.replans)),
        ("orphans", seen.orphans, Some(limits.orphans)),
        ("merge conflicts", seen.conflicts, None),
        ("lost swaps", seen.lost_swaps, None),
    ];
    let words = rows.into_iter().filter(|(_, count, _)| *count > 0).map(|(name, count, limit)| match limit {
        Some(limit) => format!("{name} {count} of {limit}"),
        None => format!("{name} {count}"),
    });
    let words: Vec<String> = words.collect();
    if !words.is_empty() {
        out.push(format!("Counted: {}.", words.join(", ")));
    }
    let repeats = seen.repeats.as_ref().filter(|_| f.hold.kind == HoldKind::DuplicateAction);
    out.extend(repeats.map(|r| format!("{} started {} times on the same basis.", r.op.key(), r.count)));
    if f.hold.kind == HoldKind::TaskTimeout {
        let minutes = |ms: u64| ms / 60_000;
        out.push(format!(
            "It was busy for {} minutes of its lifetime of {}; waits do not count.",
            minutes(seen.busy_ms),
            minutes(limits.lifetime_ms())
        ));
    }
}

fn spent(f: &Facts<'_>, task: &Task, out: &mut Vec<String>) {
    let spend = f.state.ledger.lineage(&task.lineage);
    let tokens = f.state.ledger.lineage_tokens(&task.lineage);
    if f.hold.kind == HoldKind::MaxTokensPerTask {
        let granted = 1 + lineage_grants(f.state, HoldKind::MaxTokensPerTask, &task.lineage);
        let limit = f.policy.limits.tokens_per_task.saturating_mul(granted);
        out.push(format!("Tokens: {tokens} of {limit}."));
    }
    if spend.committed().0 > 0 && f.hold.kind != HoldKind::TaskCostCap {
        out.push(format!("Money so far: {}; {tokens} tokens.", spend_line(&spend)));
    }
}

fn planning(f: &Facts<'_>, out: &mut Vec<String>) {
    let (seen, limits) = (&f.state.plan_counters, &f.policy.limits);
    out.push(format!(
        "Plans that were not accepted: {} of {}; refusals: {} of {}.",
        seen.attempts, limits.plan_attempts, seen.refusals, limits.plan_refusals
    ));
    if !seen.notes.is_empty() && seen.notes != f.hold.detail {
        out.push(format!("The last plan: {}", seen.notes));
    }
    out.extend(f.policy.plan_routes().into_iter().map(|key| route(f, key)));
}

fn route(f: &Facts<'_>, key: &RouteKey) -> String {
    let who = match f.policy.routes.get(key) {
        Some(route) => format!("route {key} is {}", route.identity),
        None => format!("route {key} is no longer configured"),
    };
    let gate = match f.state.gate(key) {
        Gate::Open => "open".to_string(),
        Gate::ClosedUntil { at, why } => format!("closed until {}: {}", utc(at), one_line(&why, MAX_LINE)),
        Gate::Closed => "closed".to_string(),
    };
    let refused = f.state.routes.get(key).map_or(0, |route| route.refused.len());
    let refusals = if refused > 0 { format!("; it refused {refused} in a row") } else { String::new() };
    format!("{who}, {gate}{refusals}.")
}

fn goal(f: &Facts<'_>, out: &mut Vec<String>) {
    let head = |digest: Option<&crate::ids::Digest>| {
        digest.map_or("none".to_string(), |d| d.as_str().get(..10).unwrap_or_default().to_string())
    };
    let goal = &f.state.goal;
    let asked = crate::ids::Digest::parse(&f.hold.detail).ok();
    let seen = asked.as_ref().or(goal.pending.as_ref().map(|pending| &pending.digest));
    let asked_for = match f.hold.kind {
        HoldKind::GoalUnusable => String::new(),
        _ => format!("; asked for: {}", head(seen)),
    };
    out.push(format!("The plan was made for text {}{asked_for}.", head(goal.digest.as_ref())));
    let open = f.state.tasks.iter().filter(|task| task.is_live() && !task.is_done()).count();
    out.push(format!("Tasks not done: {open} of {}.", f.state.tasks.len()));
}

fn target(f: &Facts<'_>, out: &mut Vec<String>) {
    let target = &f.state.target;
    let branch = target.branch.as_ref().map_or("none".to_string(), ToString::to_string);
    out.push(format!("Target branch: {branch}."));
    out.extend(target.verified.as_ref().map(|oid| format!("Last seen good or merged: {}.", short(oid))));
    out.extend(target.last_merge.as_ref().map(|oid| format!("The loop's last merge: {}.", short(oid))));
}
