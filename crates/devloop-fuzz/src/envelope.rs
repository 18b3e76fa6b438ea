//! Any text as the output of a model: what is read is written and read again to the same, twice is once, and
//! the parts keep their limits.

use devloop_core::finding::{Found, MAX_FINDINGS};
use devloop_core::ids::TaskId;
use devloop_core::plan::PlannedTask;
use devloop_core::report::Outcome;
use devloop_core::review::{Review, Verdict};
use devloop_wire::envelope::{Envelope, Expected, NoEnvelope, WorkEnd, outcome, parse, prose};
use serde_json::{Value, json};

use crate::refusal;

/// Longest text of a result, in characters.
const MAX_TEXT: usize = 8_192;

pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let said = prose(&text);
    assert!(said.len() <= text.len());
    match parse(&text) {
        Ok(envelope) => again(&envelope),
        Err(NoEnvelope::Refused(error)) => refusal::judge(&error, b""),
        Err(NoEnvelope::Several(n)) => assert!(n > 1, "several are more than one"),
        Err(NoEnvelope::Absent | NoEnvelope::Unreadable) => {}
    }
    outcomes(&text);
}

/// Written anew, in each of the forms that count, it is the same envelope.
fn again(envelope: &Envelope) {
    limits(envelope);
    let body = written(envelope).to_string();
    let tagged = format!("<devloop_result>{body}</devloop_result>");
    let forms = [
        body.clone(),
        format!("words before\n{tagged}\nand after"),
        format!("{tagged}\n{tagged}"),
        format!("for example `{{}}`\n\n<devloop_result>\n```json\n{body}\n```\n</devloop_result>\n"),
    ];
    for form in forms {
        assert_eq!(parse(&form).as_ref(), Ok(envelope), "{form}");
    }
    let other = format!("{tagged}\n<devloop_result>{{\"version\":1,\"kind\":\"plan\"}}</devloop_result>");
    assert!(parse(&other).is_err(), "two different envelopes are none");
}

fn limits(envelope: &Envelope) {
    let text = match envelope {
        Envelope::Plan { .. } => return,
        Envelope::Implementation { summary, .. } => summary,
        Envelope::Review { review, .. } => {
            findings(review);
            &review.notes
        }
    };
    assert!(text.chars().count() <= MAX_TEXT, "a text of {} characters", text.chars().count());
    assert!(!text.contains('\0'));
}

/// A review that is read agrees with itself and keeps its findings within their limits.
fn findings(review: &Review) {
    assert_eq!(review.contradiction(), None);
    assert!(review.findings.len() <= MAX_FINDINGS);
    for found in &review.findings {
        assert_eq!(found.bounded(), *found);
        assert!(!found.text.trim().is_empty() && !found.text.contains('\0'));
        assert!(found.line != Some(0) && found.path.as_deref() != Some(""));
    }
}

fn outcomes(text: &str) {
    let task = TaskId::parse("a").expect("a valid id");
    for expected in [Expected::Plan, Expected::Implementation(&task), Expected::Review(&task)] {
        let fits = match outcome(text, expected) {
            Outcome::Planned { .. } => matches!(expected, Expected::Plan),
            Outcome::Worked { .. } | Outcome::WorkBlocked { .. } | Outcome::WorkFailed { .. } => {
                matches!(expected, Expected::Implementation(_))
            }
            Outcome::Reviewed(_) => matches!(expected, Expected::Review(_)),
            Outcome::NoResult { detail } | Outcome::InvalidResult { detail } => {
                !detail.is_empty() && detail.chars().count() <= MAX_TEXT
            }
            other => panic!("an output ends a dispatch as {other:?}"),
        };
        assert!(fits, "an outcome of another kind than {expected:?}");
    }
}

fn written(envelope: &Envelope) -> Value {
    match envelope {
        Envelope::Plan { tasks } => {
            let tasks: Vec<Value> = tasks.iter().map(task).collect();
            json!({ "version": 1, "kind": "plan", "tasks": tasks })
        }
        Envelope::Implementation { task, ended, summary } => {
            let outcome = match ended {
                WorkEnd::Completed => "completed",
                WorkEnd::Blocked => "blocked",
                WorkEnd::Failed => "failed",
            };
            json!({
                "version": 1, "kind": "implementation", "taskId": task, "outcome": outcome, "summary": summary
            })
        }
        Envelope::Review { task, review } => {
            let verdict = match review.verdict {
                Verdict::Pass => "PASS",
                Verdict::PassWithNotes => "PASS_WITH_NOTES",
                Verdict::Rework => "REWORK",
                Verdict::Replan => "REPLAN",
                Verdict::Blocked => "BLOCKED",
            };
            json!({
                "version": 1, "kind": "review", "taskId": task, "reviewedSha": review.head.as_str(),
                "verdict": verdict, "notes": review.notes,
                "findings": review.findings.iter().map(finding).collect::<Vec<_>>(),
            })
        }
    }
}

fn finding(found: &Found) -> Value {
    json!({
        "id": found.id, "severity": found.severity, "path": found.path, "line": found.line,
        "text": found.text,
    })
}

fn task(task: &PlannedTask) -> Value {
    json!({
        "id": task.id, "title": task.title, "tier": task.tier, "risk": task.risk,
        "dependsOn": task.depends_on, "allowedPaths": task.allowed_paths, "criteria": task.criteria,
        "estimate": task.estimate,
    })
}
