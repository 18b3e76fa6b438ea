//! The crash matrix: the real program dies by SIGKILL at the first and the last pass of every numbered point
//! of a night, and meets a failing disk at every point where it uses one; then it is started again and its
//! end compared with the model. The table in docs/RECOVERY.md is what came out; `DEVLOOP_BLESS=1` writes it
//! anew.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

use devloop_host::store::Point;
use devloop_host::store::points::{Kind, Phase};

use crate::crash_night::{Life, Template};

/// How many nights run at once; most of a night is waiting.
const SIDE_BY_SIDE: usize = 4;
const BEGIN: &str = "<!-- crash matrix: begin -->\n";
const END: &str = "<!-- crash matrix: end -->";

/// The columns of the table.
const FATES: [&str; 2] = ["killed", "disk errors"];
const KILLED: usize = 0;
const ERRORS: usize = 1;
/// What a failing disk says, one after the other: EIO, ENOSPC, EMFILE, EACCES.
const ERRNOS: [&str; 4] = ["fail 5", "fail 28", "fail 24", "fail 13"];
/// Seven bytes are written, then the disk is full.
const SHORT: &str = "short 7 28";

struct Case {
    point: Point,
    fate: usize,
    plan: String,
}

/// Which cases there are, from one undisturbed night: deaths, and a night of errors.
fn cases(counts: &BTreeMap<String, u32>) -> Vec<Case> {
    let mut cases = Vec::new();
    for point in Point::ALL.iter().copied() {
        let count = counts.get(point.name()).copied().unwrap_or(0);
        let plan = |pass: u32, fate: &str| format!("{} {pass} {fate}", point.name());
        let deaths = BTreeSet::from([1, count]);
        let deaths = deaths.into_iter().filter(|pass| (1..=count).contains(pass));
        cases.extend(deaths.map(|pass| Case { point, fate: KILLED, plan: plan(pass, "kill") }));
        let fates = ERRNOS.iter().chain((point.kind() == Kind::Write).then_some(&SHORT));
        let several = |first: u32| {
            let step = (count / 5).max(1);
            let plans = fates.clone().zip(0_u32..).map(|(fate, nth)| plan(first + nth * step, fate));
            plans.collect::<Vec<_>>().join(";")
        };
        match point {
            // A group is cut off only behind a failure.
            Point::JournalCut => {
                let torn = format!("JournalWrite 3 {SHORT};{}", plan(1, "kill"));
                cases.push(Case { point, fate: KILLED, plan: torn });
                // A group whose sync fails and that cannot be cut off either is in the journal all the same.
                let stays = format!("JournalSync 3 {};{}", ERRNOS[0], plan(1, ERRNOS[0]));
                cases.push(Case { point, fate: ERRORS, plan: stays });
            }
            _ if point.kind() == Kind::Moment => {}
            // The first lock is OWNER: without it there is no night to disturb.
            Point::Lock => cases.push(Case { point, fate: ERRORS, plan: several(2) }),
            _ => cases.push(Case { point, fate: ERRORS, plan: several(1) }),
        }
    }
    cases
}

/// Runs a case to the end of its night; a few words for the table.
fn outcome(template: &Template, case: &Case) -> String {
    let mut night = template.night();
    let life = night.live(&case.plan);
    if case.fate == KILLED && life != Life::Killed {
        // Threads take turns: a pass that was the last in one night may not come in another.
        assert_eq!(life, Life::Ended(0), "{}", case.plan);
    }
    night.finish();
    match night.asked.is_empty() {
        true => "completes".to_owned(),
        false => format!("asks {}", night.asked.iter().cloned().collect::<Vec<_>>().join(", ")),
    }
}

fn table(results: &BTreeMap<(Point, usize), (usize, BTreeSet<String>)>) -> String {
    let mut text = format!("| # | point | the process dies or the disk fails … | {} |\n", FATES.join(" | "));
    text.push_str(&format!("|---|---|---|{}\n", "---|".repeat(FATES.len())));
    let mut phase = None;
    for point in Point::ALL {
        if phase != Some(point.phase()) {
            phase = Some(point.phase());
            let word = match point.phase() {
                Phase::Commit => "commit",
                Phase::Perform => "perform",
                Phase::Settle => "settle",
            };
            text.push_str(&format!("| | **{word}** | |{}\n", " |".repeat(FATES.len())));
        }
        let cell = |fate: usize| match results.get(&(*point, fate)) {
            Some((_, words)) => words.iter().cloned().collect::<Vec<_>>().join("; "),
            None => "-".to_owned(),
        };
        let cells: Vec<String> = (0..FATES.len()).map(cell).collect();
        let (number, name, when) = (point.number(), point.name(), point.sentence());
        text.push_str(&format!("| {number} | {name} | {when} | {} |\n", cells.join(" | ")));
    }
    text
}

#[test]
fn a_night_survives_death_and_a_failing_disk_at_every_numbered_point() {
    let template = Template::new();
    let mut first = template.night();
    assert_eq!(first.live(""), Life::Ended(0));
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for (point, _) in first.passes() {
        *counts.entry(point).or_default() += 1;
    }
    first.finish();
    let reached = |point: &&Point| **point != Point::JournalCut && !counts.contains_key(point.name());
    assert_eq!(Point::ALL.iter().filter(reached).collect::<Vec<_>>(), [&Point::Lock; 0], "never reached");

    let cases = cases(&counts);
    println!("{counts:?}\n{} nights", cases.len());
    let queue = Mutex::new(cases);
    let failures = Mutex::new(Vec::new());
    let results: Mutex<BTreeMap<(Point, usize), (usize, BTreeSet<String>)>> = Mutex::default();
    std::thread::scope(|scope| {
        let work = || {
            while let Some(case) = { queue.lock().unwrap().pop() } {
                let ended = catch_unwind(AssertUnwindSafe(|| outcome(&template, &case)));
                let words = ended.unwrap_or_else(|panic| {
                    let said = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                    failures.lock().unwrap().push(format!("{}: {said}", case.plan));
                    "FAILS".to_owned()
                });
                let mut results = results.lock().unwrap();
                let cell = results.entry((case.point, case.fate)).or_default();
                cell.0 += 1;
                cell.1.insert(words);
            }
        };
        (0..SIDE_BY_SIDE).for_each(|_| drop(scope.spawn(work)));
    });
    let results = results.into_inner().unwrap();
    let nights: usize = results.values().map(|(nights, _)| nights).sum();
    let table = table(&results);
    println!("{table}");
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {nights} nights:\n{}", failures.len(), failures.join("\n"));
    compare(&table);
}

/// The table in the document is the one that came out.
fn compare(table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/RECOVERY.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (kept, after) = rest.split_once(END).unwrap();
    if std::env::var_os("DEVLOOP_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(kept, table, "docs/RECOVERY.md differs; DEVLOOP_BLESS=1 writes it");
}
