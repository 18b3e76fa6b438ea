//! Reviews: what a reviewer finds comes back with its places, and a pass counts only for a change that was
//! shown whole.

use devloop_core::effect::Start;
use devloop_core::finding::{Found, Severity};
use devloop_core::ids::FindingId;
use devloop_core::report::{CommitFault, Outcome};
use devloop_core::review::Verdict;
use serde_json::{Value, json};

use crate::ground::{Ground, review_job, writes};

/// The outcomes of reviews that follow these results, in order, of a change of two files.
fn reviews(big: usize, results: &[Value]) -> Vec<Outcome> {
    let text = "0123456789abcde\n".repeat(big / 16);
    let mut rules = vec![writes("t", &[("src/small", "x\n"), ("src/big", &text)])];
    let rule = |(i, result)| json!({ "role": "review", "attempt": i + 1, "result": result });
    rules.extend(results.iter().enumerate().map(rule));
    let ground = Ground::new(&json!(rules));
    let contract = ground.contract("t", &["src"]);
    let head = ground.done(&contract, Start::Fresh);
    let review = |_| ground.report(ground.dispatch("reviewer", 60_000, review_job(&contract, &head))).outcome;
    results.iter().map(review).collect()
}

#[test]
fn findings_come_back_with_their_ids_and_places() {
    let list = json!([
        { "id": "f2", "severity": "blocking", "path": "src/small", "line": 1, "text": "still wrong" },
        { "severity": "note", "text": "later" },
    ]);
    let results = [
        json!({ "review": "rework", "notes": "see there", "findings": list }),
        json!({ "review": "rework", "notes": "greet louder" }),
    ];
    let found: Vec<Vec<Found>> = reviews(16, &results)
        .into_iter()
        .map(|outcome| match outcome {
            Outcome::Reviewed(review) => review.findings,
            other => panic!("{other:?}"),
        })
        .collect();
    let found_with = |id, severity, path: Option<&str>, line, text: &str| Found {
        id,
        severity,
        path: path.map(str::to_owned),
        line,
        text: text.into(),
    };
    let again = found_with(Some(FindingId(2)), Severity::Blocking, Some("src/small"), Some(1), "still wrong");
    assert_eq!(found[0], [again, found_with(None, Severity::Note, None, None, "later")]);
    assert_eq!(found[1], [found_with(None, Severity::Blocking, None, None, "greet louder")]);
}

#[test]
fn a_review_that_contradicts_itself_is_no_result() {
    let blocking = json!([{ "severity": "blocking", "text": "a flaw" }]);
    let results = [
        json!({ "review": "rework", "notes": "mend it", "findings": [] }),
        json!({ "review": "pass", "findings": blocking }),
        json!({ "review": "pass_with_notes", "findings": blocking }),
    ];
    let expect = [
        "devloop_result: findings: a REWORK must name at least one blocking finding",
        "devloop_result: findings: a PASS must name no blocking finding",
        "devloop_result: findings: a PASS must name no blocking finding",
    ];
    for (outcome, expect) in reviews(16, &results).into_iter().zip(expect) {
        assert_eq!(outcome, Outcome::InvalidResult { detail: expect.into() });
    }
}

#[test]
fn a_pass_counts_only_for_a_change_that_was_shown_whole() {
    let results = ["pass", "pass_with_notes", "rework", "replan"]
        .map(|word| json!({ "review": word, "notes": "it is as it is" }));
    let limit = 200 * 1024;
    for (big, counts) in [(limit / 2, true), (limit, false)] {
        let outcomes = reviews(big, &results);
        for outcome in &outcomes[..2] {
            match outcome {
                Outcome::Reviewed(review) => assert!(counts && review.verdict.is_pass(), "{review:?}"),
                Outcome::CommitRefused { why: CommitFault::TooLarge, detail, paths } => {
                    assert!(!counts && detail.contains("the pass of it does not count"), "{detail}");
                    assert_eq!(paths, &["src/big"], "the small file was shown");
                }
                other => panic!("{other:?}"),
            }
        }
        // Whoever saw a part may still say what is wrong with it.
        let words: Vec<Verdict> = outcomes[2..]
            .iter()
            .map(|outcome| match outcome {
                Outcome::Reviewed(review) => review.verdict,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(words, [Verdict::Rework, Verdict::Replan]);
    }
}
