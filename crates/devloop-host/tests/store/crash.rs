//! A process killed at every numbered point of a commit, and at random moments: what it had acknowledged is
//! there.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use devloop_host::store::*;

use super::support::{Project, TestLines, TestStates, group, snapshot, start, state, tree};

const CHILD: &str = "DEVLOOP_TEST_CRASH_CHILD";

/// Kills its own process when the nth point is reached, and says which point that was.
#[derive(Debug)]
struct Deadly {
    left: AtomicUsize,
}

impl Medium for Deadly {
    fn at(&self, point: Point) -> Verdict {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            let mut out = std::io::stdout().lock();
            writeln!(out, "killed at {point:?}").and_then(|()| out.flush()).unwrap();
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
            loop {
                std::thread::park();
            }
        }
        Verdict::Go
    }
}

/// Entry of the child: commits groups, a new segment every fourth time, until it dies.
#[test]
fn child_that_commits_until_it_is_killed() {
    let Ok(text) = std::env::var(CHILD) else { return };
    let mut words = text.lines();
    let armed = layout::require_armed(words.next().unwrap().as_ref()).unwrap();
    let user = UserFolder::at(words.next().unwrap());
    let left = AtomicUsize::new(words.next().unwrap().parse().unwrap());
    let disk = Disk::new(Arc::new(Deadly { left }));
    let locks = Locks::new(armed.clone(), user, disk.clone(), Identity::new_instance());
    let owner = locks.own(Wait::up_to_ms(60_000)).unwrap();
    let mut store = Store::new(armed, disk, Arc::new(TestLines), Arc::new(TestStates));
    let mut tip = match store.load().unwrap() {
        Loaded::Fresh => start(),
        Loaded::Ready(recovered) => recovered.tip,
        Loaded::Legacy(_) => panic!("not of version 1"),
    };
    for round in 0.. {
        let lock = owner.lock(Wait::up_to_ms(60_000)).unwrap();
        if store.journal().tip().is_none() || round % 4 == 3 || store.journal().room() < 3 {
            let head = snapshot(&tip, "s");
            tip = store.start_segment(&lock, &head, &state(&head.tip(), "s")).unwrap().tip;
        }
        let lines = group(&tip, 1 + round % 3, &"x".repeat(2000));
        let document = state(&lines[lines.len() - 1].tip(), "s");
        tip = store.commit(&lock, &lines, &document, round % 5 == 0).unwrap().tip;
        println!("committed {}", tip.revision);
        std::io::stdout().flush().unwrap();
    }
}

fn spawn(project: &Project, after_points: usize) -> Child {
    let text =
        format!("{}\n{}\n{after_points}", project.armed.root().display(), project.user.folder().display());
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child_that_commits_until_it_is_killed", "--nocapture", "--test-threads=1"])
        .env(CHILD, text)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Checks everything that must hold behind any death; the revision that was found.
fn check_after_death(project: &Project, acknowledged: u64, how: &str) -> u64 {
    let revision = match project.load().unwrap() {
        Loaded::Fresh => 0,
        Loaded::Ready(recovered) => recovered.tip.revision,
        Loaded::Legacy(_) => panic!("not of version 1"),
    };
    assert!(revision >= acknowledged, "{how}: {revision} found, {acknowledged} acknowledged");
    if let Some(report) = history::verify(&project.armed, &TestLines).unwrap() {
        assert!(report.complete, "{how}");
        assert_eq!((report.first_revision, report.last_revision), (0, revision), "{how}");
    }
    let owner = project.locks().own(Wait::ONCE).unwrap();
    let lock = owner.lock(Wait::ONCE).unwrap();
    owner.sweep(&lock).unwrap();
    let left = tree(project.armed.folder());
    assert!(!left.iter().any(|(p, _)| p.to_string_lossy().ends_with("devloop-tmp")), "{how}");
    revision
}

fn committed(line: &str) -> Option<u64> {
    line.split_once("committed ")?.1.trim().parse().ok()
}

#[test]
fn killed_at_every_point_of_commits_and_segment_starts() {
    let project = Project::new();
    let mut points = BTreeSet::new();
    let mut acknowledged = 0;
    for after in 1..=42 {
        let out = spawn(&project, after).wait_with_output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let at = text.lines().find_map(|l| l.split_once("killed at ")).map(|(_, p)| p.to_owned());
        let at = at.unwrap_or_else(|| panic!("the child ended otherwise: {text}"));
        acknowledged = text.lines().filter_map(committed).next_back().unwrap_or(acknowledged);
        acknowledged = check_after_death(&project, acknowledged, &at);
        points.insert(at);
    }
    let expect = "ArchiveRename ArchiveWrite FolderSync JournalSync JournalSynced JournalWrite Lock \
                  LockRelease SegmentRename SegmentSync SegmentWrite StateRename StateRenamed StateSync \
                  StateWrite";
    assert_eq!(points.into_iter().collect::<Vec<_>>().join(" "), expect);
    assert!(acknowledged > 100);
}

#[test]
fn killed_from_outside_at_random_moments() {
    let project = Project::new();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut acknowledged = 0;
    for round in 0..24 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let groups = random % 9;
        let mut child = spawn(&project, 0);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let seen =
            lines.by_ref().map_while(Result::ok).filter_map(|l| committed(&l)).take(1 + groups as usize);
        acknowledged = seen.last().unwrap_or(acknowledged);
        // The child goes on meanwhile, so it dies wherever it happens to be.
        child.kill().unwrap();
        let rest = lines.map_while(Result::ok).filter_map(|l| committed(&l)).last();
        child.wait().unwrap();
        acknowledged = rest.unwrap_or(acknowledged).max(acknowledged);
        acknowledged = check_after_death(&project, acknowledged, &format!("round {round}"));
    }
    assert!(acknowledged > 0);
}
