//! EVENTS.jsonl: lines chain, read back, and show every change.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use devloop_core::apply::apply_line;
use devloop_core::reason::Reason;
use devloop_core::state::LoopState;
use devloop_core::units::WallMs;
use devloop_wire::event_line::{self, Entry, JournalLine, Written};
use devloop_wire::fault::Fault;
use devloop_wire::state_doc;
use support::{digest, story};

/// The story as a segment: a snapshot of nothing, then its lines.
fn segment() -> Vec<Vec<u8>> {
    let head = event_line::write_head(&LoopState::default(), &digest('c'), Some(&digest('d')), None);
    let mut lines: Vec<Written> = vec![head];
    for (i, events) in story().iter().enumerate() {
        let reason = Reason::GoalStarted;
        let by = "loop/4";
        let entry = Entry { revision: i as u64 + 1, at: WallMs(7), by, reason: &reason, events };
        lines.push(event_line::write_line(&entry, lines.last().map(|line| &line.chain)));
    }
    lines.into_iter().map(|line| line.bytes).collect()
}

fn slices(lines: &[Vec<u8>]) -> Vec<&[u8]> {
    lines.iter().map(Vec::as_slice).collect()
}

#[test]
fn a_segment_reads_back_and_folds_to_the_same_state() {
    let lines = segment();
    let last = event_line::verify_chain("", slices(&lines)).unwrap().unwrap();
    assert_eq!((last.revision, last.is_head), (5, false));
    let mut state = None;
    for line in &lines {
        match event_line::parse(line).unwrap() {
            JournalLine::Head(head) => {
                event_line::check_snapshot(&head, &digest('c')).unwrap();
                state = Some(head.state);
            }
            JournalLine::Events(line) => apply_line(state.as_mut().unwrap(), &line.events).unwrap(),
        }
    }
    assert_eq!(state.unwrap(), support::state());
}

#[test]
fn a_second_segment_chains_from_the_first_and_repeats_its_revision() {
    let mut lines = segment();
    let last = event_line::read_head(lines.last().unwrap()).unwrap();
    let head = event_line::write_head(&support::state(), &digest('c'), None, Some(&last.chain));
    lines.push(head.bytes);
    let end = event_line::verify_chain("", slices(&lines)).unwrap().unwrap();
    assert_eq!((end.revision, end.is_head), (5, true));
}

#[test]
fn every_change_of_a_byte_and_every_lost_line_is_seen() {
    let whole = segment();
    for i in 0..whole.len() {
        let mut lines = whole.clone();
        let text = String::from_utf8(lines[i].clone()).unwrap();
        lines[i] = text.replacen(r#""v":2"#, r#""v": 2"#, 1).into_bytes();
        assert_eq!(event_line::verify_chain("", slices(&lines)).unwrap_err().0, i + 1);
        if i + 1 < whole.len() {
            let mut lines = whole.clone();
            lines.remove(i);
            assert_eq!(event_line::verify_chain("", slices(&lines)).unwrap_err().0, i + 1, "without {i}");
        }
    }
}

#[test]
fn revisions_grow_by_one() {
    let mut lines = segment();
    let last = event_line::read_head(lines.last().unwrap()).unwrap();
    let reason = Reason::Resumed;
    let events = &story()[4][..1];
    let entry = Entry { revision: 7, at: WallMs(8), by: "cli", reason: &reason, events };
    lines.push(event_line::write_line(&entry, Some(&last.chain)).bytes);
    let (line, error) = event_line::verify_chain("", slices(&lines)).unwrap_err();
    assert_eq!(
        (line, error.to_string().as_str()),
        (7, "EVENTS.jsonl: revision: revision 7 where 6 was expected")
    );
}

#[test]
fn lines_are_refused_with_their_field() {
    let lines = segment();
    let refused = |i: usize, from: &str, to: &str| {
        let text = String::from_utf8(lines[i].clone()).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        event_line::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string()
    };
    let table = [
        (1, r#""by":"loop/4""#, r#""by":"""#, "by: must be 1 to 200 characters"),
        (1, r#""at":7"#, r#""at":9007199254740992"#, "at: the number is above 9007199254740991"),
        (1, r#""number":1"#, r#""numbr":1"#, "events[0].goal_started.numbr: unknown field"),
        (1, r#""chain":""#, r#""chain":"x"#, "chain: "),
        (1, r#""v":2"#, r#""v":9"#, "it has version 9, written by a newer DevLoop"),
        (0, r#""revision":0,"core""#, r#""revision":4,"core""#, "revision: the snapshot is of revision 0"),
        (0, r#""next_dispatch":1"#, r#""next_dispatch":-1"#, "state.next_dispatch: invalid value"),
    ];
    for (i, from, to, expect) in table {
        let said = refused(i, from, to);
        assert!(said.contains(expect), "expected {expect}, said {said}");
    }
    let v1 = br#"{"version":1,"revision":1,"at":"2026-01-01T00:00:00Z","action":"tick:plan","state":{}}"#;
    assert_eq!(event_line::read_head(v1).unwrap_err().fault, Fault::Legacy);
    assert_eq!(event_line::read_head(b"{\"v\":2,").unwrap_err().fault, Fault::Torn);
    assert_eq!(event_line::read_head(b"{\"v\":2,\"revision\":1}").unwrap_err().path, "chain");
}

#[test]
fn a_snapshot_is_compared_only_by_the_core_that_wrote_it() {
    let text = String::from_utf8(segment()[0].clone()).unwrap();
    let wrong = state_doc::digest(&support::state());
    let right = state_doc::digest(&LoopState::default());
    let head = event_line::parse_head(text.replace(right.as_str(), wrong.as_str()).as_bytes()).unwrap();
    assert_eq!(event_line::check_snapshot(&head, &digest('c')).unwrap_err().path, "state_digest");
    event_line::check_snapshot(&head, &digest('e')).unwrap();
}

#[test]
fn the_name_of_who_did_it_is_bounded() {
    let reason = Reason::Paused;
    let events = &story()[4];
    let write = |by: &str| {
        let entry = Entry { revision: 1, at: WallMs(1), by, reason: &reason, events };
        event_line::parse_line(&event_line::write_line(&entry, None).bytes).unwrap().by
    };
    assert_eq!(write(&"é".repeat(200)).chars().count(), 200);
    assert_eq!(write(&"é".repeat(201)).chars().count(), 200);
    assert_eq!(write(""), "unknown");
}
