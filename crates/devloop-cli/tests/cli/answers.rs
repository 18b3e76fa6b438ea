//! Questions of a real night: every command that `status` prints is accepted when it is pasted, in the very
//! state it was printed in, and nothing else is.

use std::path::Path;

use crate::support::{Bench, PROGRAM, copy_over};

/// Every command printed for the open questions, pasted into a copy of that state.
fn paste_each(bench: &Bench, root: &Path, expect: &[&str]) {
    let kept = bench.path("kept");
    copy_over(bench, root, &kept);
    let (code, view) = bench.status(root);
    assert_eq!(code, 1, "halted: {view:#}");
    let printed = bench.verb("status", root).out;
    let mut answers = Vec::new();
    for question in view["questions"].as_array().unwrap() {
        assert!(!question["evidence"].as_array().unwrap().is_empty(), "a question has evidence");
        for offer in question["answers"].as_array().unwrap() {
            let command = offer["command"].as_str().unwrap();
            assert!(command.starts_with(PROGRAM), "absolute: {command}");
            assert!(printed.contains(command), "status prints it: {command}");
            let pasted = bench.sh(&format!("{command} --json"));
            let report: serde_json::Value = serde_json::from_str(&pasted.out).unwrap();
            assert_eq!(report["accepted"], true, "{command}: {pasted:?}");
            assert_eq!(report["revision"].as_u64(), view["revision"].as_u64().map(|r| r + 1), "{command}");
            let again = bench.sh(command);
            let stop = offer["answer"] == "stop";
            assert!(stop || again.code == 1, "a second answer changes nothing: {command}: {again:?}");
            answers.push(offer["answer"].as_str().unwrap().to_owned());
            copy_over(bench, &kept, root);
        }
    }
    assert_eq!(answers, expect);
    for word in ["approve", "branch", "open", "review"] {
        let ran = bench.devloop(&["answer", word, root.to_str().unwrap()]);
        assert_eq!(ran.code, 1, "{word} was not offered");
        assert!(ran.err.contains("it takes:"), "{}", ran.err);
    }
    copy_over(bench, &kept, root);
}

fn run(bench: &Bench, root: &Path) -> crate::support::Ran {
    bench.devloop(&["run", root.to_str().unwrap(), "--until-idle"])
}

#[test]
fn every_printed_command_is_accepted_through_a_whole_night() {
    let bench = Bench::new();
    let root = bench.sample("sample", 0);
    let shown = root.to_str().unwrap();

    let first = run(&bench, &root);
    assert_eq!(first.code, 1, "the budget stops it: {first:?}");
    assert!(first.out.contains("asks      loop:goal_cost_cap"), "{}", first.out);
    paste_each(&bench, &root, &["allow", "stop"]);
    assert_eq!(bench.devloop(&["answer", "allow", shown]).code, 0, "one question needs no --hold");

    let second = run(&bench, &root);
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.out.contains("asks      task/language:acceptance_failed"), "{}", second.out);
    paste_each(&bench, &root, &["retry", "retry --fresh", "drop", "stop"]);

    let edited =
        bench.devloop(&["task", "edit", "language", shown, "--risk", "high", "--paths", "bin/**,tests/**"]);
    assert_eq!(edited.code, 0, "{edited:?}");
    let stale = bench.devloop(&[
        "answer",
        "drop",
        shown,
        "--hold",
        "task/language:acceptance_failed",
        "--revision",
        "1",
    ]);
    assert_eq!(stale.code, 1, "another question was meant: {stale:?}");
    assert_eq!(bench.devloop(&["answer", "drop", shown]).code, 0);

    let third = run(&bench, &root);
    assert_eq!(third.code, 0, "{third:?}");
    let (code, view) = bench.status(&root);
    assert_eq!((code, view["phase"].as_str()), (1, Some("complete")), "{view:#}");
    let replayed = bench.devloop(&["replay", shown]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    assert!(replayed.out.contains("no difference"), "{}", replayed.out);
    what_if_is_the_night_itself_until_something_differs(&bench, &root);
    a_page_is_written_whole_and_over_nothing_but_a_page(&bench, &root);
    assert_eq!(bench.verb("doctor", &root).code, 0);
    change_the_trace(&bench, &root);

    let next = bench.verb("next", &root);
    assert_eq!(next.code, 0, "{next:?}");
    assert_ne!(bench.status(&root).1["phase"].as_str(), Some("complete"));
}

/// The real night, its commands by other processes included, comes out of the drawing line by line; under a
/// lower cap it stops earlier.
fn what_if_is_the_night_itself_until_something_differs(bench: &Bench, root: &Path) {
    let ask = |overlay: &str| {
        let policy = bench.path("policy.json");
        std::fs::write(&policy, overlay).unwrap();
        bench.devloop(&["replay", root.to_str().unwrap(), "--with", policy.to_str().unwrap(), "--json"])
    };
    let json = |overlay: &str| -> serde_json::Value {
        let ran = ask(overlay);
        assert_eq!(ran.code, 0, "{ran:?}");
        serde_json::from_str(&ran.out).unwrap()
    };
    let same = json("{}");
    assert_eq!(same["control"], serde_json::Value::Null, "{same:#}");
    assert_eq!(same["parting"], serde_json::Value::Null, "{same:#}");
    assert_eq!(same["what_if"], same["recorded"]);
    assert_eq!(same["drawn"]["unknown"], serde_json::json!([]));
    let less = json(r#"{"budget":{"maxCostUsdPerGoal":0.1}}"#);
    assert!(less["what_if"]["attempts"].as_u64() < less["recorded"]["attempts"].as_u64(), "{less:#}");
    assert!(less["parting"]["revision"].as_u64() > Some(0), "{less:#}");
    let refused = ask(r#"{"budget":{"maxCostUsdPerGaol":1}}"#);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.out.contains("did you mean maxCostUsdPerGoal?"), "{}", refused.out);
}

/// The document for a browser is complete in itself; what a browser makes of it is tested with one.
fn a_page_is_written_whole_and_over_nothing_but_a_page(bench: &Bench, root: &Path) {
    let (page, other) = (bench.path("night.html"), bench.path("notes.html"));
    let ask = |to: &Path| {
        bench.devloop(&["replay", root.to_str().unwrap(), "--page", to.to_str().unwrap(), "--json"])
    };
    // Twice: an earlier page may be replaced.
    for _ in 0..2 {
        let ran = ask(&page);
        assert_eq!(ran.code, 0, "{ran:?}");
        let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let written = std::fs::read_to_string(&page).unwrap();
        assert_eq!(said["bytes"].as_u64(), Some(written.len() as u64));
        assert!(written.starts_with("<!doctype html>") && written.ends_with("</html>\n"));
        assert!(!written.contains(" src=") && !written.contains("://"), "it loads something");
    }
    std::fs::write(&other, "<!doctype html>\nmine").unwrap();
    let link = bench.path("link.html");
    std::os::unix::fs::symlink(&page, &link).unwrap();
    for (taken, why) in [
        (&other, "another kind"),
        (&link, "this is none"),
        (&page.parent().unwrap().to_path_buf(), "this is none"),
    ] {
        let refused = ask(taken);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.out.contains(why), "{refused:?}");
    }
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "<!doctype html>\nmine");
}

/// A decision that was recorded otherwise is found and named, field by field.
fn change_the_trace(bench: &Bench, root: &Path) {
    let file = root.join(".devloop/TRACE.jsonl");
    let good = std::fs::read_to_string(&file).unwrap();
    let (before, after) = (r#""reason":"goal_reached""#, r#""reason":"goal_started""#);
    assert!(good.contains(before));
    std::fs::write(&file, good.replacen(before, after, 1)).unwrap();
    let bad = bench.verb("replay", root);
    assert_eq!(bad.code, 1, "{bad:?}");
    for part in ["first difference at revision", "].reason", "goal_started", "goal_reached"] {
        assert!(bad.out.contains(part), "no {part:?} in {}", bad.out);
    }
    std::fs::write(&file, good).unwrap();
    assert_eq!(bench.verb("replay", root).code, 0);
}
