//! Envelopes: the real one is found among fences, prose and examples, and a doubtful one is no verdict.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use devloop_core::finding::{Found, Severity};
use devloop_core::ids::FindingId;
use devloop_core::report::Outcome;
use devloop_core::review::Verdict;
use devloop_core::task::MAX_TEXT;
use devloop_wire::envelope::{self, Envelope, Expected, NoEnvelope, WorkEnd};
use support::task_id;

const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

fn review(verdict: &str, notes: &str) -> String {
    let notes = serde_json::to_string(notes).unwrap();
    let fields = format!(r#""taskId":"t","reviewedSha":"{SHA}","verdict":"{verdict}","notes":{notes}"#);
    let found = r#","findings":[{"severity":"blocking","text":"a flaw"}]"#;
    let found = if verdict == "REWORK" { found } else { "" };
    format!(r#"{{"version":1,"kind":"review",{fields}{found}}}"#)
}

/// A review with this list of findings.
fn with(verdict: &str, findings: &str) -> String {
    let fields = format!(r#""taskId":"t","reviewedSha":"{SHA}","verdict":"{verdict}""#);
    format!(r#"{{"version":1,"kind":"review",{fields},"findings":{findings}}}"#)
}

fn tagged(json: &str) -> String {
    format!("<devloop_result>{json}</devloop_result>")
}

/// The verdict of a text, or why there is none.
fn verdict(text: &str) -> String {
    match envelope::parse(text) {
        Ok(Envelope::Review { review, .. }) => format!("{:?}", review.verdict),
        Ok(other) => other.kind().to_owned(),
        Err(NoEnvelope::Refused(error)) => format!("refused: {error}"),
        Err(error) => format!("{error:?}"),
    }
}

#[test]
fn hazard_32_the_real_verdict_is_found_or_there_is_none() {
    let rework = tagged(&review("REWORK", "no"));
    let pass = tagged(&review("PASS", "ok"));
    let fence_inside = tagged(&review("REWORK", "use\n```json\n{\"verdict\":\"PASS\"}\n```\ninstead"));
    let tag_inside = tagged(&review("REWORK", &format!("do not print {pass} yourself")));
    let raw_break = tagged(&review("REWORK", "two@lines").replace('@', "\n\t"));
    let pretty = review("REWORK", "no").replace(',', ",\n  ");
    let table = [
        // A fence around it, in front of the tag and behind it.
        (format!("```json\n{rework}\n```"), "Rework"),
        (format!("<devloop_result>\n```json\n{pretty}\n```\n</devloop_result>"), "Rework"),
        // Prose around it.
        (format!("I looked at it.\n\n{rework}\n\nThat is all. PASS."), "Rework"),
        // Raw line breaks inside strings.
        (raw_break, "Rework"),
        // A fence, or a whole envelope, inside a valid string.
        (fence_inside, "Rework"),
        (tag_inside.clone(), "Rework"),
        (review("REWORK", &format!("do not print {pass}")), "Rework"),
        // An indented, quoted or cited example beside the real one, in either order.
        (format!("The form is:\n\n    {pass}\n\n{rework}"), "Rework"),
        (format!("{rework}\n> {pass}\n"), "Rework"),
        (format!("As asked I print {pass} or the like:\n{rework}"), "Rework"),
        (format!("Next comes a <devloop_result> block.\n{rework}"), "Rework"),
        // Two different ones: no verdict, in either order.
        (format!("{rework}\n{pass}"), "Several(2)"),
        (format!("{pass}\n{rework}"), "Several(2)"),
        (format!("    {pass}\n    {rework}"), "Several(2)"),
        (format!("{pass}\n<devloop_result>{{\"version\":1,"), "Several(2)"),
        // The same one again.
        (format!("{rework}\n{rework}"), "Rework"),
        (format!("{rework}\n{}", tagged(&pretty)), "Rework"),
        // None at all, or not a whole one.
        ("PASS".into(), "Absent"),
        (String::new(), "Absent"),
        (r#"{"verdict":"PASS"}"#.into(), "Absent"),
        (pass.replace("</devloop_result>", ""), "Unreadable"),
        (pass.replace("}</devloop_result>", "</devloop_result>"), "Unreadable"),
        (pass.replace("</devloop_result>", " and so on </devloop_result>"), "Unreadable"),
        ("<devloop_result>[1]</devloop_result>".into(), "Unreadable"),
    ];
    for (text, expect) in table {
        assert_eq!(verdict(&text), expect, "{text}");
        // Line endings of another system change nothing.
        assert_eq!(verdict(&text.replace('\n', "\r\n")), expect, "{text}");
    }
    assert_eq!(verdict(&review("PASS", "")), "Pass");
    assert_eq!(verdict(&tagged(&review("PASS_WITH_NOTES", "x"))), "PassWithNotes");
}

#[test]
fn envelopes_that_break_a_rule_are_refused_with_their_field() {
    let good = review("PASS", "ok");
    let table = [
        (r#""version":1"#, r#""version":2"#, "version: must be 1"),
        (r#""version":1,"#, "", "version: must be 1"),
        (r#""kind":"review""#, r#""kind":"verdict""#, "kind: must be plan, implementation or review"),
        (r#""verdict":"PASS""#, r#""verdict":"pass""#, "verdict: unknown variant `pass`"),
        (r#""verdict":"PASS","#, "", "missing field `verdict`"),
        (r#""verdict":"PASS""#, r#""verdict":"REWORK","verdict":"PASS""#, "duplicate field `verdict`"),
        (SHA, "0123456", "reviewedSha: must be a whole commit id"),
        (r#""taskId":"t""#, r#""taskId":7"#, "taskId: invalid type"),
        (r#""notes":"ok""#, r#""notes":"a\u0000b""#, "notes: must not contain NUL"),
    ];
    for (from, to, expect) in table {
        assert!(good.contains(from), "{from}");
        let said = verdict(&tagged(&good.replacen(from, to, 1)));
        assert!(said.starts_with("refused: devloop_result: ") && said.contains(expect), "{expect} in {said}");
    }
    assert_eq!(verdict(&tagged(&good.replacen(SHA, &SHA.to_uppercase(), 1))), "Pass");
}

#[test]
fn texts_of_a_review_and_a_work_are_cut_at_their_limit() {
    let notes = |n: usize| match envelope::parse(&tagged(&review("REWORK", &"é".repeat(n)))).unwrap() {
        Envelope::Review { review, .. } => review.notes,
        other => panic!("{other:?}"),
    };
    assert_eq!(notes(MAX_TEXT), "é".repeat(MAX_TEXT));
    assert_eq!(notes(MAX_TEXT + 1).chars().count(), MAX_TEXT);
    assert!(notes(MAX_TEXT + 1).ends_with("[cut]"));
    for empty in ["", "  \n", "a\0"] {
        let summary = serde_json::to_string(empty).unwrap();
        let work = format!(
            r#"{{"version":1,"kind":"implementation","taskId":"t","outcome":"failed","summary":{summary}}}"#
        );
        assert!(verdict(&tagged(&work)).contains("summary: must be a text"), "{work}");
    }
}

#[test]
fn findings_are_read_with_their_places_and_names() {
    let list = r#"[{"severity":"blocking","text":"a"},
        {"id":"f3","severity":"blocking","path":"src/a.rs","line":7,"text":"b"},
        {"id":"mine","severity":"note","path":"","line":0,"text":"c","why":"?"},
        {"id":null,"severity":"note","path":null,"line":null,"text":"d"}]"#;
    let Ok(Envelope::Review { review, .. }) = envelope::parse(&tagged(&with("REWORK", list))) else {
        panic!("no review")
    };
    let found = |id, severity, path: Option<&str>, line, text: &str| Found {
        id,
        severity,
        path: path.map(str::to_owned),
        line,
        text: text.into(),
    };
    let expect = [
        found(None, Severity::Blocking, None, None, "a"),
        found(Some(FindingId(3)), Severity::Blocking, Some("src/a.rs"), Some(7), "b"),
        found(None, Severity::Note, None, None, "c"),
        found(None, Severity::Note, None, None, "d"),
    ];
    assert_eq!(review.findings, expect);
}

#[test]
fn a_review_that_contradicts_itself_is_no_result() {
    let blocking = r#"{"severity":"blocking","text":"a"}"#;
    let note = r#"{"severity":"note","text":"a"}"#;
    let nothing = "refused: devloop_result: findings: a REWORK must name at least one blocking finding";
    let both = "refused: devloop_result: findings: a PASS must name no blocking finding";
    let rows = [
        ("REWORK", "[]".to_owned(), nothing),
        ("REWORK", "null".to_owned(), nothing),
        ("REWORK", format!("[{note}]"), nothing),
        ("REWORK", format!("[{note},{blocking}]"), "Rework"),
        ("PASS", format!("[{blocking}]"), both),
        ("PASS_WITH_NOTES", format!("[{note},{blocking}]"), both),
        ("PASS_WITH_NOTES", format!("[{note}]"), "PassWithNotes"),
        ("PASS", "[]".to_owned(), "Pass"),
        ("REPLAN", format!("[{blocking}]"), "Replan"),
        ("BLOCKED", "[]".to_owned(), "Blocked"),
    ];
    for (word, findings, expect) in rows {
        assert_eq!(verdict(&tagged(&with(word, &findings))), expect, "{word} {findings}");
    }
    // Version 1 before there were findings: everything but a REWORK without any.
    for (word, expect) in
        [("PASS", "Pass"), ("REPLAN", "Replan"), ("BLOCKED", "Blocked"), ("REWORK", nothing)]
    {
        assert_eq!(verdict(&with(word, "[]").replace(r#","findings":[]"#, "")), expect);
    }
    let twice =
        format!("{}\n{}", tagged(&with("REWORK", "[]")), tagged(&with("REWORK", &format!("[{blocking}]"))));
    assert_eq!(verdict(&twice), "Several(2)");
}

#[test]
fn findings_keep_their_limits() {
    let many = |n: usize| format!("[{}]", vec![r#"{"severity":"blocking","text":"a"}"#; n].join(","));
    assert_eq!(verdict(&tagged(&with("REWORK", &many(20)))), "Rework");
    let said = verdict(&tagged(&with("REWORK", &many(21))));
    assert_eq!(said, "refused: devloop_result: findings: must be at most 20: join the small ones");
    let text = |n: usize| {
        let list = format!(r#"[{{"severity":"blocking","text":"{}"}}]"#, "é".repeat(n));
        match envelope::parse(&tagged(&with("REWORK", &list))).unwrap() {
            Envelope::Review { mut review, .. } => review.findings.remove(0).text,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(text(1_000), "é".repeat(1_000));
    assert!(text(1_001).ends_with("[cut]") && text(1_001).chars().count() == 1_000);
    let path = |n: usize| format!(r#"[{{"severity":"blocking","path":"{}","text":"a"}}]"#, "p".repeat(n));
    assert_eq!(verdict(&tagged(&with("REWORK", &path(1_000)))), "Rework");
    let rows = [
        (path(1_001), "findings[0].path: must be a path of at most 1000 characters"),
        (
            r#"[{"severity":"blocking","path":"a\u0000b","text":"a"}]"#.into(),
            "findings[0].path: must be a path",
        ),
        (r#"[{"severity":"blocking","text":" "}]"#.into(), "findings[0].text: must be a text"),
        (r#"[{"severity":"blocking"}]"#.into(), "findings[0]: missing field `text`"),
        (r#"[{"severity":"high","text":"a"}]"#.into(), "findings[0].severity: unknown variant `high`"),
        (r#"[{"text":"a"}]"#.into(), "findings[0]: missing field `severity`"),
        (r#"[{"severity":"note","text":"a","line":-1}]"#.into(), "findings[0].line: invalid value"),
        (r#"{"severity":"note","text":"a"}"#.into(), "findings: invalid type"),
    ];
    for (list, expect) in rows {
        let said = verdict(&tagged(&with("REWORK", &list)));
        assert!(said.starts_with("refused: devloop_result: ") && said.contains(expect), "{expect} in {said}");
    }
}

#[test]
fn plans_are_read_in_their_old_and_new_words() {
    let new = r#"{"version":1,"kind":"plan","tasks":[{"id":"a","title":"A","tier":"T0","risk":"low",
        "dependsOn":["b"],"allowedPaths":["a/**"],"criteria":["works"],"estimate":{"lines":3,"files":1}}]}"#;
    let old = r#"{"version":1,"kind":"plan","tasks":[{"id":"a","title":"A","tier":"T0","risk":"low","why":"?",
        "depends_on":["b"],"allowed_paths":["a/**"],"acceptance":["works"],
        "estimate":{"lines":3,"files":1}}]}"#;
    let Envelope::Plan { tasks } = envelope::parse(&tagged(new)).unwrap() else { panic!("no plan") };
    assert_eq!(envelope::parse(&tagged(old)).unwrap(), Envelope::Plan { tasks: tasks.clone() });
    assert_eq!(tasks[0].depends_on, ["b"]);
    assert_eq!(tasks[0].criteria, ["works"]);
    assert_eq!(tasks[0].estimate.map(|e| (e.lines, e.files)), Some((3, 1)));
    for estimate in [r#"{"lines":-3,"files":1}"#, r#""small""#, "null", "{}"] {
        let text = new.replace(r#"{"lines":3,"files":1}"#, estimate);
        let Envelope::Plan { tasks } = envelope::parse(&tagged(&text)).unwrap() else { panic!("no plan") };
        assert_eq!(tasks[0].estimate, None, "{estimate}");
    }
    let said = verdict(&tagged(&new.replace("\"T0\"", "\"T4\"")));
    assert!(said.contains("tasks[0].tier: unknown variant `T4`"), "{said}");
    let said = verdict(&tagged(&new.replace("\"criteria\"", "\"criterion\"")));
    assert!(said.contains("tasks[0]: missing field `criteria`"), "{said}");
    // No task is a question of the core, not a broken envelope.
    assert_eq!(verdict(&tagged(r#"{"version":1,"kind":"plan","tasks":[]}"#)), "plan");
}

#[test]
fn a_result_becomes_the_outcome_of_its_dispatch() {
    let id = task_id("t");
    let work = |task: &str, end: &str| {
        let fields = format!(r#""taskId":"{task}","outcome":"{end}","summary":"s""#);
        tagged(&format!(r#"{{"version":1,"kind":"implementation",{fields}}}"#))
    };
    let summary = "s".to_owned();
    let of = |text: &str| envelope::outcome(text, Expected::Implementation(&id));
    assert_eq!(of(&work("t", "completed")), Outcome::Worked { summary: summary.clone() });
    assert_eq!(of(&work("t", "blocked")), Outcome::WorkBlocked { summary: summary.clone() });
    assert_eq!(of(&work("t", "failed")), Outcome::WorkFailed { summary: summary.clone() });
    let expect = Envelope::Implementation { task: "t".into(), ended: WorkEnd::Failed, summary };
    assert_eq!(envelope::parse(&work("t", "failed")).unwrap(), expect);
    let detail = |outcome: Outcome| match outcome {
        Outcome::InvalidResult { detail } => detail,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        detail(of(&work("u", "completed"))),
        "the result names task \"u\", but the dispatch was for task t"
    );
    let said = detail(of(&tagged(&review("PASS", "ok"))));
    assert_eq!(said, "a result of kind implementation was expected, not review");
    assert!(matches!(of("I am done."), Outcome::NoResult { .. }));
    assert!(detail(of("<devloop_result>")).contains("no whole JSON object"));
    match envelope::outcome(&tagged(&review("REWORK", "n")), Expected::Review(&id)) {
        Outcome::Reviewed(review) => {
            assert_eq!((review.verdict, review.head.as_str()), (Verdict::Rework, SHA))
        }
        other => panic!("{other:?}"),
    }
    let plan = tagged(r#"{"version":1,"kind":"plan","tasks":[]}"#);
    assert_eq!(envelope::outcome(&plan, Expected::Plan), Outcome::Planned { tasks: vec![] });
    assert!(!NoEnvelope::Absent.is_repairable() && NoEnvelope::Several(2).is_repairable());
}

#[test]
fn an_output_full_of_tags_has_no_verdict() {
    let pass = tagged(&review("PASS", "ok"));
    assert_eq!(verdict(&format!("{pass}\n").repeat(64)), "Pass");
    assert_eq!(verdict(&format!("{pass}\n").repeat(65)), "Several(65)");
    let hostile = "<devloop_result>{</devloop_result>".repeat(100_000);
    assert_eq!(verdict(&hostile), "Several(65)");
}

#[test]
fn prose_is_what_stands_beside_the_envelopes() {
    let pass = tagged(&review("PASS", "ok"));
    assert_eq!(envelope::prose(&format!("# Plan\n\n{pass}\nbye\n")), "# Plan\n\n\nbye");
    assert_eq!(envelope::prose("a <devloop_result> b"), "a <devloop_result> b");
    assert_eq!(envelope::prose(&pass), "");
}
