//! Any bytes as lines of EVENTS.jsonl and TRACE.jsonl: each line that is read is written and read again to
//! the same, and the lines that are read make a segment whose chain holds and breaks where it is touched.

use devloop_core::ids::Digest;
use devloop_wire::event_line::{self, Entry, JournalLine, Written};
use devloop_wire::trace_line::{self, TraceEntry, TraceRecord};
use devloop_wire::{digest_bytes, state_doc};

use crate::{refusal, state};

pub fn run(data: &[u8]) {
    let mut written: Vec<Written> = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        match event_line::parse(line) {
            Ok(read) => written.push(again(&read, line, written.last().map(|before| &before.chain))),
            Err(error) => refusal::judge(&error, line),
        }
        match trace_line::parse(line) {
            Ok(read) => trace_again(&read),
            Err(error) => refusal::judge(&error, line),
        }
    }
    segment(&written);
}

fn again(line: &JournalLine, bytes: &[u8], previous: Option<&Digest>) -> Written {
    let head = event_line::read_head(bytes).expect("a line that is read whole can be read in part");
    let written = match line {
        JournalLine::Head(head) => {
            state::again(&head.state, Some(&head.chain));
            event_line::write_head(&head.state, &head.core, head.policy.as_ref(), previous)
        }
        JournalLine::Events(line) => {
            let entry = Entry {
                revision: line.revision,
                at: line.at,
                by: &line.by,
                reason: &line.reason,
                events: &line.events,
            };
            event_line::write_line(&entry, previous)
        }
    };
    let mut read = event_line::parse(&written.bytes).expect("a written line is read");
    // Where it stands may be new; what it says may not.
    match (&mut read, line) {
        (JournalLine::Head(read), JournalLine::Head(line)) => {
            assert!(
                event_line::check_snapshot(read, &read.core).is_ok(),
                "a written snapshot has its digest"
            );
            read.chain = line.chain.clone();
            read.state_digest = line.state_digest.clone();
        }
        (JournalLine::Events(read), JournalLine::Events(line)) => read.chain = line.chain.clone(),
        _ => {}
    }
    assert_eq!(&read, line);
    let told = event_line::read_head(&written.bytes).expect("a written line has a head");
    assert_eq!((told.revision, told.is_head, &told.chain), (head.revision, head.is_head, &written.chain));
    written
}

/// Lines written one behind the other hold together, and one changed byte of any of them is found.
fn segment(lines: &[Written]) {
    for (i, line) in lines.iter().enumerate() {
        let previous = i.checked_sub(1).map_or("", |before| lines[before].chain.as_str());
        assert_eq!(event_line::verify(previous, &line.bytes).as_ref(), Ok(&line.chain));
        let mut touched = line.bytes.clone();
        touched[i % 7 + 1] ^= 1;
        assert!(event_line::verify(previous, &touched).is_err(), "a changed line keeps its chain");
        let other = digest_bytes(&line.bytes);
        assert!(event_line::verify(other.as_str(), &line.bytes).is_err(), "a line follows two lines");
    }
    if let Err((number, error)) = event_line::verify_chain("", lines.iter().map(|line| &line.bytes[..])) {
        // Lines from anywhere need not count up; nothing else may be wrong with them.
        assert_eq!((error.path.as_str(), number > 1), ("revision", true), "{error}");
    }
}

fn trace_again(record: &TraceRecord) {
    let bytes = match record {
        TraceRecord::Head(head) => {
            state::again(&head.state, None);
            trace_line::write_head(&head.state, &head.core, &head.policy)
        }
        TraceRecord::Line(line) => trace_line::write(&TraceEntry {
            revision: line.revision,
            input: &line.input,
            decisions: &line.decisions,
            state_digest: &line.state_digest,
        }),
    };
    let mut read = trace_line::parse(&bytes).expect("a written line of a trace is read");
    if let (TraceRecord::Head(read), TraceRecord::Head(head)) = (&mut read, record) {
        assert_eq!(
            (read.revision, &read.state_digest),
            (head.state.revision, &state_doc::digest(&head.state))
        );
        read.revision = head.revision;
        read.state_digest = head.state_digest.clone();
    }
    assert_eq!(&read, record);
}
