//! TRACE.jsonl and CONTRACT.json: exact inputs and frozen terms read back.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use devloop_core::command::{Command, Wish};
use devloop_core::decide::{Decision, Input};
use devloop_core::effect::{Contract, Effect};
use devloop_core::observation::Stamp;
use devloop_core::reason::Reason;
use devloop_core::state::Owner;
use devloop_core::task::Estimate;
use devloop_core::tier::{Risk, Tier};
use devloop_core::units::{AwakeMs, WallMs};
use devloop_wire::config_doc::Config;
use devloop_wire::fault::Fault;
use devloop_wire::trace_line::{self, TraceEntry, TraceRecord};
use devloop_wire::{contract, state_doc};
use support::{digest, oid, state, story, task_id};

fn input() -> Input {
    let owner = Owner { host: "h".into(), boot: 1, pid: 2, started: 3, instance: 4 };
    let stamp = Stamp { wall: WallMs(5), awake: AwakeMs { boot: 1, ms: 6 }, owner };
    let command = Command { by: "cli".into(), wish: Wish::Pause { now: true } };
    Input::Command { stamp, command }
}

fn line() -> Vec<u8> {
    let decisions =
        [Decision { events: story()[2].clone(), effects: vec![Effect::Wake], reason: Reason::Paused }];
    let input = input();
    let state_digest = &digest('d');
    trace_line::write(&TraceEntry { revision: 6, input: &input, decisions: &decisions, state_digest })
}

#[test]
fn a_trace_line_holds_exact_inputs_and_decisions() {
    let TraceRecord::Line(line) = trace_line::parse(&line()).unwrap() else { panic!("no line") };
    assert_eq!((line.revision, line.input, line.state_digest), (6, input(), digest('d')));
    assert_eq!(line.decisions[0].events, story()[2]);
}

#[test]
fn the_head_of_a_trace_holds_what_a_replay_starts_from() {
    let policy = Config::default().policy();
    let bytes = trace_line::write_head(&state(), &digest('c'), &policy);
    let TraceRecord::Head(head) = trace_line::parse(&bytes).unwrap() else { panic!("no head") };
    assert_eq!((head.core, head.policy, head.revision), (digest('c'), policy, 5));
    assert_eq!((state_doc::digest(&head.state), head.state), (head.state_digest, state()));
}

#[test]
fn trace_lines_are_refused_with_their_field() {
    let text = String::from_utf8(line()).unwrap();
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} is not in {text}");
        trace_line::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err()
    };
    assert_eq!(refused(r#""v":2"#, r#""v":3"#).fault, Fault::Newer { version: 3 });
    assert_eq!(refused(r#""now":true"#, r#""now":1"#).path, "input.command.command.wish.pause.now");
    assert_eq!(refused(r#""ms":6"#, r#""ms":9007199254740992"#).path, "input.command.stamp.awake.ms");
    assert_eq!(trace_line::parse(&line()[..40]).unwrap_err().fault, Fault::Torn);
}

fn terms() -> Contract {
    Contract {
        task: task_id("a"),
        edition: 2,
        title: "do it".into(),
        tier: Tier::T2,
        risk: Risk::High,
        allowed_paths: vec!["a/**".into()],
        criteria: vec!["works".into()],
        estimate: Some(Estimate { lines: 3, files: 1 }),
        base: oid('a'),
        implementers: Vec::new(),
    }
}

#[test]
fn a_contract_reads_back_and_its_digest_covers_every_term() {
    let bytes = contract::write(&terms());
    assert_eq!(contract::parse(&bytes).unwrap(), terms());
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.ends_with("}\n") && text.contains(r#""tier":"T2""#), "{text}");
    for (from, to) in [
        (r#""edition":2"#, r#""edition":3"#),
        (r#""allowedPaths":["a/**"]"#, r#""allowedPaths":["**"]"#),
        (r#""risk":"high""#, r#""risk":"low""#),
        (r#""implementers":[]"#, r#""implementers":["x/y"]"#),
        (r#""lines":3"#, r#""lines":4"#),
    ] {
        assert!(text.contains(from), "{from} is not in {text}");
        let error = contract::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "CONTRACT.json: digest: the terms do not have this digest", "{from}");
    }
    let error = contract::parse(text.replacen("taskId", "task", 1).as_bytes()).unwrap_err();
    assert_eq!(error.path, "task");
    let old = br#"{"version":1,"taskId":"a"}"#;
    assert_eq!(contract::parse(old).unwrap_err().fault, Fault::Legacy);
}
