//! Plans: what a planner may propose, and the one judge of it. A refused plan names its first fault.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::finding::Findings;
use crate::ids::TaskId;
use crate::paths::pattern_fault;
use crate::state::LoopState;
use crate::task::{Counters, Estimate, MAX_TEXT, Stage, Task};
use crate::tier::{Risk, Tier};

/// The most tasks one plan may have.
pub const MAX_TASKS: usize = 50;
/// The most path globs of one task.
pub const MAX_PATHS: usize = 64;
/// The most criteria of one task.
pub const MAX_CRITERIA: usize = 32;

data! {
    /// One task as a planner proposes it. The id is checked by [`judge`], so that a bad one is a fault with a
    /// name.
    pub struct PlannedTask {
        /// Proposed id.
        pub id: String,
        /// One line for people.
        pub title: String,
        /// Tier.
        pub tier: Tier,
        /// Risk.
        pub risk: Risk,
        /// Ids of this plan or of the tasks that stay.
        pub depends_on: Vec<String>,
        /// Globs of paths the worker may change.
        pub allowed_paths: Vec<String>,
        /// What a reviewer checks.
        pub criteria: Vec<String>,
        /// Size guess.
        pub estimate: Option<Estimate>,
    }
}

/// Why a plan is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanFault {
    /// No task at all: a question of its own.
    Empty,
    /// More tasks than [`MAX_TASKS`].
    TooMany(usize),
    /// A field of a task breaks its rule.
    Field {
        /// Which, for example `tasks[2].id`.
        path: String,
        /// The rule.
        rule: String,
    },
    /// An id stands twice, or belongs to a task that stays.
    ReusedId(String),
    /// A dependency names nobody.
    UnknownDependency {
        /// The task.
        task: String,
        /// The name.
        names: String,
    },
    /// Dependencies run in a circle; the circle is named, its first task again at its end.
    Cycle(Vec<String>),
}

impl fmt::Display for PlanFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanFault::Empty => f.write_str("the plan has no task"),
            PlanFault::TooMany(n) => write!(f, "the plan has {n} tasks; at most {MAX_TASKS} are allowed"),
            PlanFault::Field { path, rule } => write!(f, "{path} must be {rule}"),
            PlanFault::ReusedId(id) => write!(f, "task id {id} is used already"),
            PlanFault::UnknownDependency { task, names } => {
                write!(f, "task {task} depends on {names}, which is no task of this plan")
            }
            PlanFault::Cycle(ids) => {
                write!(f, "the tasks depend on each other in a circle: {}", ids.join(" -> "))
            }
        }
    }
}

/// Judges a plan: all of it is accepted, as tasks in plan order, or nothing is.
/// `replaces` names the task that a replan replaces; its dependants are rewritten when the plan is applied.
///
/// # Errors
/// The first [`PlanFault`].
pub fn judge(
    state: &LoopState,
    planned: &[PlannedTask],
    replaces: Option<&TaskId>,
) -> Result<Vec<Task>, PlanFault> {
    if planned.is_empty() {
        return Err(PlanFault::Empty);
    }
    if planned.len() > MAX_TASKS {
        return Err(PlanFault::TooMany(planned.len()));
    }
    let prefix = if state.goal.number > 1 { format!("g{}-", state.goal.number) } else { String::new() };
    let replaced = replaces.and_then(|id| state.tasks.get(id));
    let mut names: BTreeMap<&str, TaskId> = BTreeMap::new();
    for (i, task) in planned.iter().enumerate() {
        let id = plan_id(i, &task.id, &prefix)?;
        if state.tasks.get(&id).is_some() || names.insert(&task.id, id).is_some() {
            return Err(PlanFault::ReusedId(task.id.clone()));
        }
    }
    let tasks: Vec<Task> = planned
        .iter()
        .enumerate()
        .map(|(i, task)| {
            check_fields(i, task)?;
            let depends_on = resolve(state, &names, task, replaces)?;
            let id = names[task.id.as_str()].clone();
            let lineage = replaced.map_or_else(|| id.clone(), |old| old.lineage.clone());
            let replans = replaced.map_or(0, |old| old.counters.replans);
            Ok(new_task(task, id, lineage, depends_on, replans))
        })
        .collect::<Result<_, PlanFault>>()?;
    match find_cycle(&tasks, state, replaces) {
        Some(cycle) => Err(PlanFault::Cycle(cycle)),
        None => Ok(tasks),
    }
}

fn plan_id(i: usize, id: &str, prefix: &str) -> Result<TaskId, PlanFault> {
    let field = |rule: String| PlanFault::Field { path: format!("tasks[{i}].id"), rule };
    if id.starts_with('_') {
        return Err(field("a name that starts with a letter or digit".to_string()));
    }
    TaskId::parse(&format!("{prefix}{id}")).map_err(|bad| field(bad.rule.to_string()))
}

fn new_task(
    planned: &PlannedTask,
    id: TaskId,
    lineage: TaskId,
    depends_on: Vec<TaskId>,
    replans: u32,
) -> Task {
    Task {
        id,
        lineage,
        title: planned.title.clone(),
        tier: planned.tier,
        risk: planned.risk,
        depends_on,
        allowed_paths: planned.allowed_paths.clone(),
        criteria: planned.criteria.clone(),
        estimate: planned.estimate,
        edition: 1,
        stage: Stage::Ready,
        counters: Counters { replans, ..Counters::default() },
        implementers: BTreeSet::new(),
        base: None,
        tip: None,
        checked: None,
        findings: Findings::default(),
    }
}

fn check_fields(i: usize, task: &PlannedTask) -> Result<(), PlanFault> {
    let field = |name: &str, rule: &str| PlanFault::Field {
        path: format!("tasks[{i}].{name}"),
        rule: rule.to_string(),
    };
    if !is_text(&task.title) {
        return Err(field("title", TEXT_RULE));
    }
    check_paths(&task.allowed_paths).map_err(|(at, rule)| field(&list_path("allowed_paths", at), rule))?;
    check_criteria(&task.criteria).map_err(|(at, rule)| field(&list_path("criteria", at), rule))
}

fn list_path(name: &str, at: Option<usize>) -> String {
    at.map_or_else(|| name.to_string(), |i| format!("{name}[{i}]"))
}

const TEXT_RULE: &str = "a text of 1 to 8192 characters without NUL";

fn is_text(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= MAX_TEXT && !text.contains('\0')
}

/// Judges a list of allowed paths: the place in the list, if one entry is at fault, and the rule.
///
/// # Errors
/// The first fault.
pub fn check_paths(paths: &[String]) -> Result<(), (Option<usize>, &'static str)> {
    if paths.is_empty() || paths.len() > MAX_PATHS {
        return Err((None, "a list of 1 to 64 globs"));
    }
    paths.iter().enumerate().try_for_each(|(i, glob)| match pattern_fault(glob) {
        Some(rule) => Err((Some(i), rule)),
        None => Ok(()),
    })
}

/// Judges a list of criteria.
///
/// # Errors
/// The first fault.
pub fn check_criteria(criteria: &[String]) -> Result<(), (Option<usize>, &'static str)> {
    if criteria.is_empty() || criteria.len() > MAX_CRITERIA {
        return Err((None, "a list of 1 to 32 texts"));
    }
    match criteria.iter().position(|text| !is_text(text)) {
        Some(i) => Err((Some(i), TEXT_RULE)),
        None => Ok(()),
    }
}

/// Finds the tasks a planned task depends on: in its own plan, or, in a replan, among those that stay.
fn resolve(
    state: &LoopState,
    names: &BTreeMap<&str, TaskId>,
    task: &PlannedTask,
    replaces: Option<&TaskId>,
) -> Result<Vec<TaskId>, PlanFault> {
    let unknown = |name: &String| PlanFault::UnknownDependency { task: task.id.clone(), names: name.clone() };
    let mut found = Vec::new();
    for name in &task.depends_on {
        let own = names.get(name.as_str()).cloned();
        let kept = || {
            let id = TaskId::parse(name).ok()?;
            let stays = state.tasks.get(&id).is_some_and(Task::is_live) && Some(&id) != replaces;
            stays.then_some(id)
        };
        let id = own.or_else(kept).ok_or_else(|| unknown(name))?;
        if !found.contains(&id) {
            found.push(id);
        }
    }
    Ok(found)
}

/// Walks dependencies depth first, without recursion, over the new tasks and those that stay.
fn find_cycle(new: &[Task], state: &LoopState, replaces: Option<&TaskId>) -> Option<Vec<String>> {
    let new_ids: Vec<TaskId> = new.iter().map(|t| t.id.clone()).collect();
    let mut edges: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
    for task in state.tasks.iter().filter(|t| Some(&t.id) != replaces) {
        let rewritten = task.depends_on.iter().flat_map(|dep| match replaces {
            Some(old) if dep == old => new_ids.clone(),
            _ => vec![dep.clone()],
        });
        edges.insert(task.id.clone(), rewritten.collect());
    }
    edges.extend(new.iter().map(|task| (task.id.clone(), task.depends_on.clone())));
    let mut finished: BTreeSet<TaskId> = BTreeSet::new();
    for start in edges.keys() {
        let mut path: Vec<(TaskId, usize)> = vec![(start.clone(), 0)];
        let mut on_path: BTreeSet<TaskId> = BTreeSet::from([start.clone()]);
        while let Some((at, next)) = path.last_mut() {
            match edges.get(at).and_then(|deps| deps.get(*next)) {
                Some(dep) if on_path.contains(dep) => {
                    let from = path.iter().position(|(id, _)| id == dep).unwrap_or(0);
                    let ids = path[from..].iter().map(|(id, _)| id).chain([dep]);
                    return Some(ids.map(ToString::to_string).collect());
                }
                Some(dep) => {
                    *next += 1;
                    if !finished.contains(dep) {
                        on_path.insert(dep.clone());
                        path.push((dep.clone(), 0));
                    }
                }
                None => {
                    on_path.remove(at);
                    finished.insert(at.clone());
                    path.pop();
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(id: &str, deps: &[&str]) -> PlannedTask {
        PlannedTask {
            id: id.into(),
            title: format!("do {id}"),
            tier: Tier::T1,
            risk: Risk::Low,
            depends_on: deps.iter().map(|d| d.to_string()).collect(),
            allowed_paths: vec![format!("{id}/**")],
            criteria: vec!["works".into()],
            estimate: None,
        }
    }

    fn check(plan: &[PlannedTask], expect: &str) {
        let said = match judge(&LoopState::default(), plan, None) {
            Ok(tasks) => format!("{} tasks", tasks.len()),
            Err(fault) => fault.to_string(),
        };
        assert_eq!(said, expect);
    }

    #[test]
    fn plans_are_judged_as_a_whole() {
        check(&[planned("a", &[]), planned("b", &["a"])], "2 tasks");
        check(&[], "the plan has no task");
        check(&[planned("a", &[]), planned("a", &[])], "task id a is used already");
        check(&[planned("a", &["z"])], "task a depends on z, which is no task of this plan");
        check(
            &[planned("a", &["c"]), planned("b", &["a"]), planned("c", &["b"])],
            "the tasks depend on each other in a circle: a -> c -> b -> a",
        );
        check(&[planned("a", &["a"])], "the tasks depend on each other in a circle: a -> a");
        check(&[planned("_x", &[])], "tasks[0].id must be a name that starts with a letter or digit");
        let many: Vec<_> = (0..=MAX_TASKS).map(|i| planned(&format!("t{i}"), &[])).collect();
        check(&many[..MAX_TASKS], "50 tasks");
        check(&many, "the plan has 51 tasks; at most 50 are allowed");
    }

    #[test]
    fn texts_are_accepted_up_to_their_limit() {
        let mut task = planned("a", &[]);
        task.title = "é".repeat(MAX_TEXT);
        check(core::slice::from_ref(&task), "1 tasks");
        task.title.push('é');
        check(
            core::slice::from_ref(&task),
            "tasks[0].title must be a text of 1 to 8192 characters without NUL",
        );
        let mut wide = planned("a", &[]);
        wide.allowed_paths = vec!["src/../x".into()];
        check(
            core::slice::from_ref(&wide),
            "tasks[0].allowed_paths[0] must be a relative glob without '..', a leading '!' or '/'",
        );
    }
}
