//! The journal: groups, segments, what a late reader sees, and damage named by line.

use std::fs;

use devloop_host::error::ErrorKind;
use devloop_host::store::journal::{GROUP_LINES, SEGMENT_LINES};
use devloop_host::store::*;

use super::support::{Project, TestLines, group, snapshot, start, step, tip};

#[test]
fn a_group_is_appended_and_read_back() {
    let project = Project::new();
    let mut journal = project.started(&Disk::default());
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let lines = group(&tip(&journal), 3, "a");
    journal.append(&lock, &lines).unwrap();
    journal.append(&lock, &[]).unwrap();
    assert_eq!(tip(&journal), lines[2].tip());
    assert_eq!(journal.room(), SEGMENT_LINES - 4);
    let recovered = project.ready();
    assert_eq!(recovered.lines, lines);
    assert!(matches!(&recovered.base, Base::Snapshot(head) if head.revision == 0));
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(project.armed.events()).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn lines_that_do_not_continue_the_journal_are_not_written() {
    let project = Project::new();
    let mut journal = project.started(&Disk::default());
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let before = project.event_bytes();
    let good = step(&tip(&journal), "a");
    let gap = Line { revision: 7, ..good.clone() };
    let other_chain = Line { chain: "ab".repeat(32), ..good.clone() };
    let newline = Line { bytes: [good.bytes.clone(), b"\n".to_vec()].concat(), ..good.clone() };
    for bad in [gap, other_chain, newline] {
        assert!(matches!(journal.append(&lock, &[bad]), Err(StoreError::Misuse(_))));
    }
    let (full, over) = (group(&tip(&journal), GROUP_LINES, "a"), group(&tip(&journal), GROUP_LINES + 1, "a"));
    assert!(matches!(journal.append(&lock, &over), Err(StoreError::Misuse(_))));
    assert_eq!(project.event_bytes(), before);
    journal.append(&lock, &full).unwrap();
    assert_eq!(journal.room(), 0);
}

#[test]
fn a_full_segment_is_archived_and_the_history_stays_whole() {
    let project = Project::new();
    let mut journal = project.started(&Disk::default());
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    for _ in 0..3 {
        journal.append(&lock, &group(&tip(&journal), GROUP_LINES, "a")).unwrap();
        journal.start_segment(&lock, &snapshot(&tip(&journal), "s")).unwrap();
    }
    journal.append(&lock, &group(&tip(&journal), 2, "b")).unwrap();
    let mut names: Vec<String> = fs::read_dir(project.armed.journal())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["0-255.jsonl.gz", "255-510.jsonl.gz", "510-765.jsonl.gz"]);
    assert_eq!(project.event_bytes().iter().filter(|b| **b == b'\n').count(), 3);
    let report = history::verify(&project.armed, &TestLines).unwrap().unwrap();
    assert_eq!(report.segments, 4);
    assert_eq!((report.first_revision, report.last_revision, report.complete), (0, 767, true));
    assert_eq!(report.lines, 4 + 767);
    let recovered = project.ready();
    assert_eq!((recovered.lines.len(), recovered.notes.len()), (2, 0));

    fs::remove_file(project.armed.journal().join("0-255.jsonl.gz")).unwrap();
    assert!(!history::verify(&project.armed, &TestLines).unwrap().unwrap().complete);
    fs::remove_file(project.armed.journal().join("510-765.jsonl.gz")).unwrap();
    let note = &project.ready().notes[0];
    assert!(note.contains("the segment that ends at revision 765 is missing"), "{note}");
    let said = history::verify(&project.armed, &TestLines).unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Integrity);
}

#[test]
fn two_snapshots_of_one_revision_are_both_kept() {
    let project = Project::new();
    let mut journal = project.started(&Disk::default());
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    for text in ["second core", "third core"] {
        journal.start_segment(&lock, &snapshot(&tip(&journal), text)).unwrap();
    }
    journal.append(&lock, &group(&tip(&journal), 1, "a")).unwrap();
    let report = history::verify(&project.armed, &TestLines).unwrap().unwrap();
    assert_eq!((report.segments, report.lines, report.complete), (3, 4, true));
}

#[test]
fn a_late_reader_sees_equal_ahead_or_diverged() {
    let project = Project::new();
    let disk = Disk::default();
    let mut writer = project.started(&disk);
    let mut reader = project.journal(&disk);
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let first = tip(&writer);
    assert_eq!(reader.poll_changes(&first).unwrap(), Changes::Equal);

    let lines = group(&first, 2, "a");
    writer.append(&lock, &lines).unwrap();
    assert_eq!(reader.poll_changes(&first).unwrap(), Changes::Ahead(lines.clone()));
    assert_eq!(reader.poll_changes(&lines[1].tip()).unwrap(), Changes::Equal);
    assert_eq!(
        reader.poll_changes(&first).unwrap(),
        Changes::Ahead(lines.clone()),
        "asked again from before"
    );
    reader.append(&lock, &group(&tip(&reader), 1, "by the reader")).unwrap();
    assert!(matches!(writer.append(&lock, &group(&tip(&writer), 1, "late")), Err(StoreError::Stale { .. })));

    let from = tip(&reader);
    let Changes::Ahead(seen) = writer.poll_changes(&lines[1].tip()).unwrap() else { panic!("not ahead") };
    assert_eq!(seen.last().unwrap().tip(), from);
    // Two segments further, with everything in between in archives.
    for _ in 0..2 {
        writer.start_segment(&lock, &snapshot(&tip(&writer), "s")).unwrap();
        writer.append(&lock, &group(&tip(&writer), 4, "c")).unwrap();
    }
    let Changes::Ahead(seen) = reader.poll_changes(&from).unwrap() else { panic!("not ahead") };
    assert_eq!(seen.iter().map(|l| l.revision).collect::<Vec<_>>(), (4..=11).collect::<Vec<_>>());
    assert_eq!(reader.tip(), writer.tip());

    // Only a segment was started: no lines, another chain.
    let from = tip(&reader);
    writer.start_segment(&lock, &snapshot(&from, "s")).unwrap();
    assert_eq!(reader.poll_changes(&from).unwrap(), Changes::Ahead(Vec::new()));
    assert_ne!(tip(&reader).chain, from.chain);

    let stranger = Tip { revision: 5, chain: "00".repeat(32) };
    assert!(matches!(reader.poll_changes(&stranger).unwrap(), Changes::Diverged(_)));
    fs::remove_file(project.armed.events()).unwrap();
    assert!(matches!(reader.poll_changes(&from).unwrap(), Changes::Diverged(_)));
}

#[test]
fn an_edit_in_place_is_noticed_by_the_next_poll() {
    let project = Project::new();
    let mut journal = project.started(&Disk::default());
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    journal.append(&lock, &group(&tip(&journal), 2, "abc")).unwrap();
    let text = String::from_utf8(project.event_bytes()).unwrap();
    fs::write(project.armed.events(), text.replacen("abc", "xyz", 1)).unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
    fs::File::options().append(true).open(project.armed.events()).unwrap().set_modified(later).unwrap();
    let said = journal.poll_changes(&tip(&journal)).unwrap_err();
    assert!(matches!(said, StoreError::Integrity { line: Some(2), .. }), "{said}");
}

#[test]
fn a_torn_last_line_is_dropped_and_cut_off_by_the_next_group() {
    let project = Project::new();
    let mut journal = project.started(&Disk::default());
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let lines = group(&tip(&journal), 3, "abc");
    journal.append(&lock, &lines).unwrap();
    let whole = project.event_bytes();
    let start_of_steps = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
    for cut in start_of_steps..=whole.len() {
        fs::write(project.armed.events(), &whole[..cut]).unwrap();
        let kept = whole[..cut].iter().filter(|b| **b == b'\n').count() - 1;
        let recovered = project.ready();
        assert_eq!(recovered.lines, lines[..kept], "cut at byte {cut}");
        let mut after = project.journal(&Disk::default());
        assert_eq!(after.poll_changes(&recovered.tip).unwrap(), Changes::Equal);
        after.append(&lock, &[step(&recovered.tip, "next")]).unwrap();
        assert_eq!(project.ready().lines.len(), kept + 1, "cut at byte {cut}");
    }
}

#[test]
fn any_other_damage_is_named_with_its_line_and_nothing_is_written_over() {
    let project = Project::new();
    let mut journal = project.started(&Disk::default());
    let locks = project.locks();
    journal.append(&locks.lock(Wait::ONCE).unwrap(), &group(&start_of(&journal), 3, "abc")).unwrap();
    let text = String::from_utf8(project.event_bytes()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let check = |damaged: String, line: usize, expect: &str| {
        fs::write(project.armed.events(), &damaged).unwrap();
        let said = project.load().unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Integrity, "{said}");
        assert!(said.to_string().contains(&format!("EVENTS.jsonl line {line} cannot be trusted")), "{said}");
        assert!(said.to_string().contains(expect), "{said}");
        assert_eq!(project.event_bytes(), damaged.as_bytes());
    };
    check(text.replacen("abc", "abd", 1), 2, "does not follow from the line before it");
    check(format!("{}\n{}\n{}\n", lines[0], lines[1], lines[3]), 3, "revision 3 behind revision 1");
    check(format!("{}\n{}\n{}\n", lines[0], lines[1], lines[1]), 3, "revision 1 behind revision 1");
    check(format!("{}\nnot json\n{}\n", lines[0], lines[1]), 2, "it is not JSON");
    check(format!("{}\n{}\n{{\"half\":\n", lines[0], lines[1]), 3, "it is not JSON");
    check(format!("{}\n{}\n", lines[1], lines[2]), 1, "a snapshot stands only at the start");
    check(format!("{}\n\n{}\n", lines[0], lines[1]), 2, "it is not JSON");
}

fn start_of(journal: &Journal) -> Tip {
    let tip = tip(journal);
    assert_ne!(tip, start());
    tip
}

#[test]
fn appenders_that_take_turns_lose_nothing() {
    const EACH: usize = 40;
    let project = Project::new();
    drop(project.started(&Disk::default()));
    std::thread::scope(|scope| {
        for name in ["one", "two", "three", "four"] {
            let project = &project;
            scope.spawn(move || {
                let locks = project.locks();
                let mut journal = project.journal(&Disk::default());
                let mut known = None::<Tip>;
                for _ in 0..EACH {
                    let lock = locks.lock(Wait::up_to_ms(120_000)).unwrap();
                    let from = known.clone().unwrap_or_else(|| project.ready().tip);
                    assert!(!matches!(journal.poll_changes(&from).unwrap(), Changes::Diverged(_)));
                    let lines = group(&tip(&journal), 2, name);
                    if journal.room() < lines.len() {
                        journal.start_segment(&lock, &snapshot(&tip(&journal), name)).unwrap();
                    }
                    journal.append(&lock, &group(&tip(&journal), 2, name)).unwrap();
                    known = Some(tip(&journal));
                }
            });
        }
    });
    let report = history::verify(&project.armed, &TestLines).unwrap().unwrap();
    assert_eq!(report.last_revision, (4 * EACH * 2) as u64);
    assert!(report.complete);
    let parts = project.journal(&Disk::default()).history(0).unwrap();
    let text: String = parts
        .iter()
        .flat_map(|part| &part.segment.steps)
        .map(|line| String::from_utf8_lossy(&line.bytes).into_owned())
        .collect();
    for name in ["one", "two", "three", "four"] {
        assert_eq!(text.matches(&format!("\"body\":\"{name}\"")).count(), EACH * 2);
    }
}
