//! The operator's checks on a commit: green, red, unavailable, cancelled, and protected tests put back.

use devloop_core::effect::{Effect, Start};
use devloop_core::report::{CheckOutcome, FailureClass, Outcome};
use serde_json::json;

use crate::ground::{Ground, writes};

fn shell(line: &str) -> Vec<String> {
    ["sh", "-c", line].map(str::to_owned).to_vec()
}

fn with_checks(checks: Vec<Vec<String>>, limit_ms: u64) -> Ground {
    Ground::with(&json!([writes("t", &[("src/b", "x\n"), ("tests/a_test.txt", "weakened\n")])]), |config| {
        config.acceptance = checks;
        config.check_timeout_ms = limit_ms;
        config.protected_tests = vec!["tests/**".into()];
    })
}

fn checked(outcome: Outcome) -> CheckOutcome {
    match outcome {
        Outcome::Checked(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn checks_see_exactly_the_commit_and_leave_nothing() {
    let line = "test -f src/a.txt && test ! -e stray && echo made > by-the-check";
    let ground = with_checks(vec![shell(line)], 20_000);
    crate::ground::write(ground.root.join("stray"), "not committed");
    assert_eq!(checked(ground.check(&ground.head(), None)), CheckOutcome::Green);
    assert!(ground.worktrees().is_empty() && !ground.root.join("by-the-check").exists());
}

/// A check that runs into a limit is red, and says which.
#[test]
fn a_check_above_a_limit_says_so() {
    let ground = Ground::with(&json!([]), |config| {
        config.acceptance = vec![shell("head -c 4097 /dev/zero > made")];
        config.limits.file_bytes = Some(4096);
    });
    match checked(ground.check(&ground.head(), None)) {
        CheckOutcome::Red { output, .. } => {
            assert!(output.contains("it wrote a file above processLimits.fileBytes, 4096 bytes"), "{output}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_red_check_is_named_with_the_end_of_its_output() {
    let long = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; exit 3";
    let checks = vec![shell("echo first; exit 1"), shell("true"), shell(long)];
    let ground = with_checks(checks, 20_000);
    match checked(ground.check(&ground.head(), None)) {
        CheckOutcome::Red { commands, output } => {
            assert_eq!(commands.len(), 2);
            assert_eq!(commands[0], "sh -c 'echo first; exit 1'");
            assert!(output.ends_with("line 2999\nexit code 3\n"), "{output}");
            assert_eq!(output.chars().count(), 8_000);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_check_that_cannot_start_or_end_is_unavailable_unless_another_is_red() {
    let said = |checks, limit_ms| {
        let ground = with_checks(checks, limit_ms);
        let head = ground.head();
        match checked(ground.check(&head, None)) {
            CheckOutcome::Unavailable { detail } => detail,
            CheckOutcome::Red { commands, .. } => format!("red: {commands:?}"),
            CheckOutcome::Green => "green".to_owned(),
        }
    };
    let missing = vec!["no-such-program-here".to_owned()];
    assert!(said(vec![missing.clone()], 20_000).contains("was not found"));
    assert!(said(vec![shell("sleep 60")], 200).contains("within 200 ms"));
    assert_eq!(said(vec![missing, shell("exit 1")], 20_000), "red: [\"sh -c 'exit 1'\"]");
}

#[test]
fn the_first_failure_ends_the_checks_of_a_task_but_not_those_of_the_base() {
    let missing = || vec!["no-such-program-here".to_owned()];
    let said = |checks: Vec<Vec<String>>, of_task: bool, known: &[&str]| {
        let ground = with_checks(checks, 20_000);
        let (head, contract) = (ground.head(), ground.contract("t", &["src"]));
        match checked(ground.check_with(&head, of_task.then_some(&contract), known)) {
            CheckOutcome::Red { commands, .. } => commands.join(", "),
            CheckOutcome::Unavailable { detail } => format!("unavailable: {}", &detail[..20]),
            CheckOutcome::Green => "green".to_owned(),
        }
    };
    let (one, two) = ("sh -c 'exit 1'", "sh -c 'exit 2'");
    let reds = || vec![shell("exit 1"), shell("true"), shell("exit 2")];
    assert_eq!(said(reds(), false, &[]), format!("{one}, {two}"));
    assert_eq!(said(reds(), true, &[]), one);
    // What was red before the goal ends nothing, and does not hide what is red now.
    assert_eq!(said(reds(), true, &[one]), format!("{one}, {two}"));
    assert_eq!(said(reds(), true, &[two]), one);
    assert_eq!(said(reds(), true, &[one, two]), format!("{one}, {two}"));
    // One that cannot start ends them too, and a known red one before it does not hide that.
    assert_eq!(said(vec![missing(), shell("exit 1")], true, &[]), "unavailable: no-such-program-here");
    assert_eq!(said(vec![shell("exit 1"), missing()], true, &[one]), "unavailable: no-such-program-here");
    assert_eq!(said(vec![shell("exit 1"), missing()], false, &[]), one);
}

#[test]
fn every_check_has_the_whole_time_limit_for_itself() {
    // Together they take longer than one may.
    let ground = with_checks(vec![shell("sleep 2.5"), shell("sleep 2.5")], 4_500);
    assert_eq!(checked(ground.check(&ground.head(), None)), CheckOutcome::Green);
}

#[test]
fn a_check_ends_on_request() {
    let ground = with_checks(vec![shell("while :; do sleep 1; done")], 60_000);
    let (dispatch, commit) = (ground.next(), ground.head());
    ground.performer.perform(Effect::Check {
        dispatch,
        epoch: 1,
        commit,
        contract: None,
        known_red: Vec::new(),
    });
    ground.performer.perform(Effect::Cancel { dispatch });
    let outcome = ground.report(dispatch).outcome;
    assert!(matches!(outcome, Outcome::Failed { class: FailureClass::Cancelled, .. }), "{outcome:?}");
}

#[test]
fn a_protected_test_is_put_back_unless_the_contract_allows_it() {
    let ground = with_checks(vec![shell("grep -q 'must stay' tests/a_test.txt")], 20_000);
    let wide = ground.contract("t", &["src", "tests"]);
    let head = ground.done(&wide, Start::Fresh);
    assert_eq!(ground.show(&head, "tests/a_test.txt"), "weakened");
    let narrow = ground.contract("t", &["src"]);
    assert_eq!(checked(ground.check(&head, Some(&narrow))), CheckOutcome::Green);
    assert!(matches!(checked(ground.check(&head, Some(&wide))), CheckOutcome::Red { .. }));
    assert!(matches!(checked(ground.check(&head, None)), CheckOutcome::Red { .. }));
}
