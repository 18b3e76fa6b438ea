//! Bends every field of every state of version 1: wrong type, missing, out of range, unknown word, extra. It
//! owns the table of what the earlier plugin allowed, which the migration must agree with.

use devloop_wire::fault::Fault;
use devloop_wire::migrate::OldFiles;
use serde_json::{Value, json};

use super::{Case, cases, migrated};

/// What a field may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Object,
    NullOrObject,
    Texts,
    Tasks,
    Counts,
    Numbers,
    Flag,
    Text,
    NullOrText,
    FullText,
    Count,
    /// Zero or more, with decimals.
    Number,
    Word(&'static [&'static str]),
    TaskId,
    Glob,
    Sha,
    Identity,
    Branch,
    GoalNumber,
    Version,
    /// Read by nobody, or dropped where it is malformed: it can be anything.
    Anything,
}
use Kind::*;

/// Path, with `[]` for an index and `*` for a key; whether it must be there; what it may hold.
const FIELDS: &[(&str, bool, Kind)] = &[
    ("version", true, Version),
    ("revision", false, Count),
    ("goalCompleted", true, Flag),
    ("killSwitch", true, Flag),
    ("supervisor", true, NullOrObject),
    ("supervisor.taskId", true, NullOrText),
    ("supervisor.reason", true, FullText),
    ("tasks", true, Tasks),
    ("tasks[]", false, Object),
    ("tasks[].id", true, TaskId),
    ("tasks[].title", true, Text),
    ("tasks[].tier", true, Word(&["T0", "T1", "T2", "T3"])),
    (
        "tasks[].status",
        true,
        Word(&["ready", "running", "review_pending", "merge_ready", "rework", "blocked", "done", "failed"]),
    ),
    ("tasks[].risk", true, Word(&["low", "medium", "high"])),
    ("tasks[].attempts", true, Count),
    ("tasks[].reviewCycles", true, Count),
    ("tasks[].allowedPaths", true, Texts),
    ("tasks[].allowedPaths[]", false, Glob),
    ("tasks[].acceptance", true, Texts),
    ("tasks[].acceptance[]", false, Text),
    ("tasks[].lastReviewVerdict", false, Word(&["PASS", "PASS_WITH_NOTES", "REWORK", "REPLAN", "BLOCKED"])),
    ("tasks[].baseSha", false, Sha),
    ("tasks[].implementationSha", false, Sha),
    ("tasks[].implementer", false, Identity),
    ("tasks[].reviewer", false, Identity),
    ("tasks[].reviewNotes", false, NullOrText),
    ("usage", true, Object),
    ("usage.taskAttempts", true, Counts),
    ("usage.taskAttempts.*", false, Count),
    ("usage.refusedDispatches", false, Counts),
    ("usage.refusedDispatches.*", false, Count),
    ("usage.reviewCycles", true, Counts),
    ("usage.reviewCycles.*", false, Count),
    ("usage.taskStartedAt", true, Counts),
    ("usage.taskStartedAt.*", false, Count),
    ("usage.tokens", false, Numbers),
    ("usage.tokens.*", false, Number),
    ("usage.costUsdSession", true, Number),
    ("usage.costUsdDay", true, Number),
    ("usage.lastProgressAt", true, Count),
    ("workBranch", false, Branch),
    ("goal", false, NullOrObject),
    ("goal.number", true, GoalNumber),
    ("goal.startedAt", true, Text),
    ("updatedAt", true, FullText),
    ("lastAction", false, Anything),
    ("lastDispatchStatus", false, Anything),
    ("acknowledged", false, Anything),
    ("paused", false, Anything),
    ("release", false, Anything),
    ("tasks[].planner", false, Anything),
    ("tasks[].pullRequest", false, Anything),
    ("tasks[].overBudget", false, Anything),
    ("tasks[].estimate", false, Anything),
    ("usage.lastActions", false, Anything),
    ("usage.parallelWorkers", false, Anything),
];

/// What a field is bent to.
fn bends() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(0.5),
        json!(0),
        json!(1),
        json!(3),
        json!(9_007_199_254_740_992_u64),
        json!(1e300),
        json!(""),
        json!("PASSED"),
        json!("../x"),
        json!("-x"),
        json!("a\u{0}b"),
        json!("x".repeat(9_000)),
        json!([]),
        json!([1]),
        json!({}),
        json!({ "x": "y" }),
    ]
}

/// Whether a value is one that the field may hold.
fn fits(kind: Kind, value: &Value, required: bool) -> bool {
    let text = value.as_str();
    let map_of = |fits: fn(&Value) -> bool| value.as_object().is_some_and(|map| map.values().all(fits));
    let count = |value: &Value| value.as_u64().is_some_and(|n| n <= 9_007_199_254_740_991);
    let number = |value: &Value| value.as_f64().is_some_and(|n| (0.0..9e9).contains(&n));
    if value.is_null() && !required && kind != Anything {
        return !matches!(kind, Count | Tasks | Counts | Numbers | Number | Glob | Text | Object);
    }
    match kind {
        Anything => true,
        // Bent objects lack their fields.
        Object => false,
        NullOrObject => value.is_null(),
        Texts => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
        Tasks => value.as_array().is_some_and(Vec::is_empty),
        Counts => map_of(|value| value.as_u64().is_some()),
        Numbers => map_of(|value| value.as_f64().is_some_and(|n| n >= 0.0)),
        Flag => value.is_boolean(),
        Text => text.is_some(),
        NullOrText => value.is_null() || text.is_some(),
        FullText => text.is_some_and(|text| !text.is_empty()),
        Count => count(value),
        Number => number(value),
        Word(words) => text.is_some_and(|text| words.contains(&text)),
        TaskId => text == Some("PASSED") || text == Some("-x"),
        Glob => text.is_some_and(|text| text == "PASSED" || text == "-x"),
        Sha => false,
        Identity => ["PASSED", "../x", "-x"].map(Some).contains(&text),
        Branch => text == Some("PASSED"),
        GoalNumber => value == &json!(3),
        Version => value == &json!(1),
    }
}

/// Every path of a document, with its pattern.
fn paths(value: &Value, path: &str, pattern: &str, out: &mut Vec<(String, String)>) {
    let inside = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let free = pattern.starts_with("usage.") && pattern.matches('.').count() == 1;
                let name = if free { "*" } else { key };
                let pattern = if pattern.is_empty() { name.to_owned() } else { format!("{pattern}.{name}") };
                out.push((inside(key), pattern.clone()));
                paths(inner, &inside(key), &pattern, out);
            }
        }
        Value::Array(list) => {
            for (i, inner) in list.iter().enumerate() {
                out.push((format!("{path}[{i}]"), format!("{pattern}[]")));
                paths(inner, &format!("{path}[{i}]"), &format!("{pattern}[]"), out);
            }
        }
        _ => {}
    }
}

/// The value at a path of [`paths`].
fn at<'a>(document: &'a mut Value, path: &str) -> &'a mut Value {
    let pointer = format!("/{}", path.replace('.', "/").replace('[', "/").replace(']', ""));
    document.pointer_mut(&pointer).expect("a path of this document")
}

/// The field of a path without the fields inside what can be anything.
fn field(pattern: &str) -> Option<&'static (&'static str, bool, Kind)> {
    FIELDS.iter().find(|(known, _, _)| *known == pattern)
}

fn inside_of_anything(pattern: &str) -> bool {
    FIELDS.iter().any(|(known, _, kind)| {
        let rest = pattern.strip_prefix(known).unwrap_or_default();
        *kind == Anything && rest.starts_with(['.', '['])
    })
}

/// Refused by path or by the name of the field, whichever the document can say.
fn refused(case: &Case, state: &Value, path: &str, what: &str) {
    let text = state.to_string();
    let files = OldFiles { state: Some(text.as_bytes()), events: None, ..case.files() };
    let Err(error) = migrated(&files) else { panic!("{}: {path} {what} was taken", case.name) };
    assert_ne!(error.fault, Fault::Torn, "{}: {path} {what}: {error}", case.name);
    let said = error.to_string();
    assert!(said.starts_with("STATE.json (version 1): "), "{}: {path} {what}: {said}", case.name);
    let parent = path.rsplit_once(['.', '[']).map_or("", |(parent, _)| parent);
    let name = path.rsplit('.').next().unwrap_or(path);
    let named = error.path == path
        || error.path.starts_with(&format!("{path}."))
        || error.path.starts_with(&format!("{path}["))
        || (error.path == parent && error.what.contains(&format!("`{name}`")));
    assert!(named, "{}: {path} {what}: {said}", case.name);
}

#[test]
fn every_field_bent_in_every_way_is_refused_by_its_path() {
    let (mut tried, mut taken) = (0_u32, 0_u32);
    for case in cases().iter().filter(|case| case.state.is_some() && case.events.is_none()) {
        let whole: Value =
            serde_json::from_slice(case.state.as_deref().unwrap_or_default()).expect("a state");
        let mut found = Vec::new();
        paths(&whole, "", "", &mut found);
        for (path, pattern) in found {
            if inside_of_anything(&pattern) {
                continue;
            }
            let (_, required, kind) = *field(&pattern).unwrap_or_else(|| panic!("{pattern} is in no table"));
            for value in bends() {
                let mut bent = whole.clone();
                *at(&mut bent, &path) = value.clone();
                tried += 1;
                if fits(kind, &value, required) {
                    taken += 1;
                    harmless(case, &bent, &path);
                } else {
                    refused(case, &bent, &path, &format!("as {value:.60}"));
                }
            }
            if let (true, Some((parent, name))) = (required, split(&path)) {
                let mut bent = whole.clone();
                let holder = if parent.is_empty() { &mut bent } else { at(&mut bent, parent) };
                holder.as_object_mut().expect("an object").remove(name);
                tried += 1;
                refused(case, &bent, &path, "left out");
            }
        }
    }
    assert!(tried > 5_000 && taken > 500, "{tried} tried, {taken} of them taken");
}

fn split(path: &str) -> Option<(&str, &str)> {
    if path.ends_with(']') {
        return None;
    }
    Some(path.rsplit_once('.').unwrap_or(("", path)))
}

/// A value that the field may hold is taken, or refused for what it then contradicts.
fn harmless(case: &Case, state: &Value, path: &str) {
    let text = state.to_string();
    let files = OldFiles { state: Some(text.as_bytes()), events: None, ..case.files() };
    match migrated(&files) {
        Ok(state) => assert_eq!(devloop_core::invariant::check(&state), Ok(())),
        Err(error) => assert!(!error.path.is_empty(), "{}: {path}: {error}", case.name),
    }
}

#[test]
fn fields_that_no_release_had_change_nothing() {
    for case in cases().iter().filter(|case| case.events.is_none()) {
        let whole: Value =
            serde_json::from_slice(case.state.as_deref().unwrap_or_default()).expect("a state");
        let expect = migrated(&case.files());
        let mut found = vec![(String::new(), String::new())];
        paths(&whole, "", "", &mut found);
        for (path, pattern) in found.into_iter().filter(|(_, pattern)| !pattern.starts_with("usage.")) {
            let mut more = whole.clone();
            let holder = if path.is_empty() { &mut more } else { at(&mut more, &path) };
            let Some(map) = holder.as_object_mut() else { continue };
            map.insert("of a release to come".into(), json!([{ "deep": null }]));
            let text = more.to_string();
            let files = OldFiles { state: Some(text.as_bytes()), ..case.files() };
            assert_eq!(migrated(&files), expect, "{}: {path} ({pattern})", case.name);
        }
    }
}
