//! The demonstration runs a whole night by itself and leaves one question with commands that work.

use crate::support::{Bench, PROGRAM};

#[test]
fn the_demo_runs_a_night_and_proves_it() {
    let bench = Bench::new();
    let ran = bench.devloop(&["demo"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    for part in [
        "planned   4 tasks",
        "rework    words",
        "finding   f1 lib/words.txt:1: German is asked for and missing.",
        "the demo pastes an answer to loop:goal_cost_cap",
        "loop:goal_cost_cap was answered with allow",
        "merged    words",
        "merged    usage",
        "merged    farewell",
        "left to you: task/language:acceptance_failed",
        "commits on work",
        "measured",
        "assumed",
        "reserved",
        "journal verified by replay in the component",
    ] {
        assert!(ran.out.contains(part), "no {part:?} in {}", ran.out);
    }
    let commands: Vec<&str> =
        ran.out.lines().map(str::trim).filter(|line| line.starts_with(PROGRAM)).collect();
    let what_if = bench.sh(commands.iter().find(|line| line.contains(" replay ")).unwrap());
    assert_eq!(what_if.code, 0, "{what_if:?}");
    for part in ["First difference: revision", "questions asked", "comes out, line by line", "The rule:"] {
        assert!(what_if.out.contains(part), "no {part:?} in {}", what_if.out);
    }
    let drop = commands.iter().find(|line| line.contains(" answer drop ")).unwrap();
    assert_eq!(bench.sh(drop).code, 0, "the question that is left can be answered by pasting");
    let run = ran.out.lines().map(str::trim).find(|line| line.starts_with("env ")).unwrap();
    let done = bench.sh(run);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("The goal is complete."), "{}", done.out);
    assert!(!bench.path("dsh/devloop").exists(), "invented money is not booked with the operator's");
}

#[test]
fn a_repository_of_yours_is_armed_and_nothing_else_is_touched() {
    let bench = Bench::new();
    let root = bench.repo("mine");
    let ran = bench.verb("demo", &root);
    assert_eq!(ran.code, 0, "{ran:?}");
    for part in ["Armed", "is noop; it would plan the goal", "journal verified by replay in the component"] {
        assert!(ran.out.contains(part), "no {part:?} in {}", ran.out);
    }
    let dirty = bench.sh(&format!("git -C {} status --porcelain", root.display()));
    assert_eq!(dirty.out, "?? .devloop/\n");
    assert_eq!(bench.verb("demo", &root).code, 0, "again: it is armed already");
    assert_eq!(bench.verb("demo", &bench.path("nowhere")).code, 1);
}
