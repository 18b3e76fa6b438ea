//! The global ledger: sums of the others, idempotent completion, torn and unknown lines.

use std::fs;

use devloop_host::store::ledger::{Certainty, Claim, Entry, Ledger, Share, Sums};
use devloop_host::store::*;

use super::support::{EIO, Faults, Project};

fn entry(project: &str, dispatch: &str, certainty: Certainty, usd_micros: u64) -> Entry {
    Entry {
        project: project.to_owned(),
        dispatch: dispatch.to_owned(),
        certainty,
        usd_micros,
        day: 20_000,
        slot: certainty == Certainty::Reserved,
        claim: None,
        owner: Some(Identity::new_instance()),
        route: None,
        op: None,
        other: serde_json::Map::new(),
    }
}

fn with_ledger<T>(
    project: &Project,
    disk: &Disk,
    work: impl FnOnce(&LedgerGuard<'_>, &mut Ledger) -> T,
) -> T {
    let locks = project.locks();
    let lock = locks.lock(Wait::ONCE).unwrap();
    let guard = lock.ledger(Wait::ONCE).unwrap();
    let mut ledger = Ledger::read(&guard, disk).unwrap();
    work(&guard, &mut ledger)
}

#[test]
fn others_spend_and_reserve_by_the_day() {
    let project = Project::new();
    let disk = Disk::default();
    let dead = entry("/b", "d3", Certainty::Reserved, 40);
    let yesterday = Entry { day: 19_999, ..entry("/b", "d4", Certainty::Measured, 1000) };
    let entries = [
        entry("/a", "d1", Certainty::Measured, 1),
        entry("/b", "d1", Certainty::Measured, 10),
        entry("/b", "d2", Certainty::Assumed, 20),
        dead,
        yesterday,
        entry("/c", "d1", Certainty::Reserved, 100),
    ];
    with_ledger(&project, &disk, |guard, ledger| assert_eq!(ledger.record(guard, &entries).unwrap(), 6));
    with_ledger(&project, &disk, |_, ledger| {
        let expect = Sums { spent_usd_micros: 30, reserved_usd_micros: 140 };
        assert_eq!(ledger.sums(20_000, Some("/a")), expect);
        assert_eq!(ledger.sums(20_000, None).spent_usd_micros, 31);
        assert_eq!(ledger.sums(19_999, Some("/a")).spent_usd_micros, 1000);
    });
}

#[test]
fn slots_count_while_somebody_holds_them_and_claims_while_their_loop_lives() {
    let project = Project::new();
    let disk = Disk::default();
    let me = Identity::new_instance();
    if me.is_alive().is_none() {
        return;
    }
    let gone = |entry: Entry| {
        let owner = entry.owner.map(|owner| Identity { boot: "an earlier boot".into(), ..owner });
        Entry { owner, ..entry }
    };
    let said = Claim { slots: 2, since_ms: 5, said_ms: 6 };
    let waits = |project: &str| Entry { claim: Some(said), ..entry(project, "slot", Certainty::Void, 0) };
    let entries = [
        entry("/a", "d1", Certainty::Measured, 1),
        entry("/b", "d1", Certainty::Reserved, 10),
        Entry { day: 19_000, ..entry("/b", "d2", Certainty::Reserved, 10) },
        gone(entry("/b", "d3", Certainty::Reserved, 10)),
        waits("/b"),
        gone(entry("/c", "d1", Certainty::Reserved, 100)),
        gone(waits("/c")),
        Entry { slot: true, ..entry("/d", "d1", Certainty::Void, 0) },
    ];
    with_ledger(&project, &disk, |guard, ledger| assert_eq!(ledger.record(guard, &entries).unwrap(), 8));
    with_ledger(&project, &disk, |_, ledger| {
        let share = |slots, claim| Share { slots, claim };
        let named = |rows: &[(&str, Share)]| {
            rows.iter()
                .map(|(path, share)| ((*path).to_owned(), *share))
                .collect::<std::collections::BTreeMap<_, _>>()
        };
        let dead = named(&[("/b", share(2, Some(said))), ("/c", share(0, None))]);
        assert_eq!(ledger.shares(|_| false), dead);
        // What a dead loop started may work on.
        let all = named(&[("/b", share(3, Some(said))), ("/c", share(1, None))]);
        assert_eq!(ledger.shares(|_| true), all);
        assert_eq!(ledger.shares(|entry| entry.dispatch == "d3")["/b"].slots, 3);
    });
}

#[test]
fn an_entry_only_goes_forward_and_the_same_news_is_written_once() {
    let project = Project::new();
    let disk = Disk::default();
    let reserved = entry("/a", "d1", Certainty::Reserved, 500_000);
    let measured = entry("/a", "d1", Certainty::Measured, 70_000);
    with_ledger(&project, &disk, |guard, ledger| {
        assert_eq!(ledger.record(guard, &[reserved.clone(), reserved.clone()]).unwrap(), 1);
        assert_eq!(ledger.record(guard, std::slice::from_ref(&measured)).unwrap(), 1);
        assert_eq!(ledger.record(guard, &[reserved.clone(), measured.clone()]).unwrap(), 0);
    });
    with_ledger(&project, &disk, |guard, ledger| {
        assert_eq!(ledger.entries().collect::<Vec<_>>(), [&measured]);
        let re_dated = Entry { day: 19_999, ..measured.clone() };
        assert_eq!(ledger.record(guard, &[re_dated]).unwrap(), 1, "a clock that was wrong");
        assert_eq!(ledger.sums(20_000, None), Sums::default());
    });
}

#[test]
fn completing_from_the_journal_is_idempotent_and_voids_what_was_never_committed() {
    let project = Project::new();
    let disk = Disk::default();
    let journal = [entry("/a", "d1", Certainty::Measured, 7), entry("/a", "d2", Certainty::Reserved, 9)];
    let strangers =
        [entry("/a", "lost", Certainty::Reserved, 50), entry("/b", "d1", Certainty::Reserved, 60)];
    with_ledger(&project, &disk, |guard, ledger| {
        ledger.record(guard, &strangers).unwrap();
        assert_eq!(ledger.complete(guard, "/a", &journal).unwrap(), 3);
        assert_eq!(ledger.complete(guard, "/a", &journal).unwrap(), 0);
        assert!(matches!(ledger.complete(guard, "/a", &strangers), Err(StoreError::Misuse(_))));
    });
    with_ledger(&project, &disk, |guard, ledger| {
        assert_eq!(ledger.complete(guard, "/a", &journal).unwrap(), 0);
        let sums = ledger.sums(20_000, None);
        assert_eq!((sums.spent_usd_micros, sums.reserved_usd_micros), (7, 69));
        let slots = ledger.shares(|_| false).values().map(|share| share.slots).sum::<u32>();
        assert_eq!(slots, 2, "the void one gave its slot back");
    });
}

#[test]
fn torn_and_strange_lines_do_not_stop_the_ledger_and_are_kept() {
    let project = Project::new();
    let disk = Disk::default();
    with_ledger(&project, &disk, |guard, ledger| {
        ledger.record(guard, &[entry("/a", "d1", Certainty::Measured, 7)]).unwrap();
    });
    let path = project.user.ledger();
    let mut text = fs::read_to_string(&path).unwrap();
    text = text.replace("\"dispatch\":\"d1\"", "\"dispatch\":\"d1\",\"invoice\":{\"n\":[1]}");
    text.push_str("{\"certainty\":\"billed\",\"project\":\"/z\"}\n{\"project\":\"/a\",\"disp");
    fs::write(&path, &text).unwrap();
    with_ledger(&project, &disk, |guard, ledger| {
        let doubt = ledger.doubt().unwrap();
        assert!(doubt.contains("cannot be read: 1;"), "{doubt}");
        assert_eq!(ledger.entries().next().unwrap().other["invoice"]["n"][0], 1);
        ledger.record(guard, &[entry("/a", "d2", Certainty::Measured, 8)]).unwrap();
        assert_eq!(ledger.sums(20_000, None).spent_usd_micros, 15);
        assert!(ledger.shorten(guard, 20_000, 0).unwrap());
    });
    let after = fs::read_to_string(&path).unwrap();
    assert_eq!(after.lines().count(), 3, "{after}");
    assert!(
        after.contains("\"invoice\":{\"n\":[1]}")
            && after.contains("\"billed\"")
            && !after.contains("disp\n")
    );
}

#[test]
fn shortening_drops_what_is_settled_and_old_and_keeps_a_copy() {
    let project = Project::new();
    let disk = Disk::default();
    with_ledger(&project, &disk, |guard, ledger| {
        let old = Entry { day: 19_992, ..entry("/a", "old", Certainty::Measured, 1) };
        let week = Entry { day: 19_993, ..entry("/a", "week", Certainty::Measured, 1) };
        let open = Entry { day: 19_000, ..entry("/a", "open", Certainty::Reserved, 1) };
        let today = entry("/a", "today", Certainty::Reserved, 1);
        ledger.record(guard, &[old, week, open, today]).unwrap();
        ledger.record(guard, &[entry("/a", "today", Certainty::Measured, 2)]).unwrap();
        let len = fs::metadata(project.user.ledger()).unwrap().len();
        assert!(!ledger.shorten(guard, 20_000, len).unwrap());
        assert!(ledger.shorten(guard, 20_000, len - 1).unwrap());
        let names: Vec<_> = ledger.entries().map(|e| e.dispatch.as_str()).collect();
        assert_eq!(names, ["open", "today", "week"]);
        ledger.record(guard, &[entry("/a", "next", Certainty::Measured, 2)]).unwrap();
    });
    assert_eq!(fs::read_to_string(project.user.ledger()).unwrap().lines().count(), 4);
    assert_eq!(fs::read_to_string(project.user.ledger_before()).unwrap().lines().count(), 5);
}

#[test]
fn a_failed_append_leaves_the_ledger_as_it_was() {
    let project = Project::new();
    let (faults, disk) = Faults::disk();
    with_ledger(&project, &disk, |guard, ledger| {
        ledger.record(guard, &[entry("/a", "d1", Certainty::Measured, 7)]).unwrap();
        let before = fs::read(project.user.ledger()).unwrap();
        for verdict in [Verdict::Short { bytes: 9, errno: EIO }, Verdict::Short { bytes: 9999, errno: EIO }] {
            faults.next(Point::LedgerWrite, verdict);
            ledger.record(guard, &[entry("/a", "d2", Certainty::Measured, 8)]).unwrap_err();
            assert_eq!(fs::read(project.user.ledger()).unwrap(), before);
            assert_eq!(ledger.sums(20_000, None).spent_usd_micros, 7);
        }
        assert_eq!(ledger.record(guard, &[entry("/a", "d2", Certainty::Measured, 8)]).unwrap(), 1);
    });
}

#[test]
fn sums_saturate() {
    let project = Project::new();
    with_ledger(&project, &Disk::default(), |guard, ledger| {
        let huge = (1 << 53) - 1;
        let entries =
            [entry("/a", "d1", Certainty::Measured, huge), entry("/a", "d2", Certainty::Measured, 1)];
        ledger.record(guard, &entries).unwrap();
        assert_eq!(ledger.sums(20_000, None).spent_usd_micros, huge);
    });
}
