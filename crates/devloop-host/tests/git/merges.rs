//! Trial, candidate, publishing, refresh and revert.

use crate::fixture::{D1, D2, Fixture, MAIN, commit_work, git_in, read, task, write};
use devloop_core::ids::{DispatchId, Oid};
use devloop_host::git::commit::{CommitOutcome, Trailers, probe};
use devloop_host::git::inspect::{self, Operation};
use devloop_host::git::merge::{self, Reapplied, Refreshed, Trial, trial};
use devloop_host::git::publish::{NotReady, Published, publish, ready};
use devloop_host::git::{GitError, Identity, RepoPath};
use std::fs;

#[test]
fn hazard_09_a_merge_lands_on_its_target_whatever_is_checked_out() {
    let f = Fixture::new();
    let (base, head) = f.done(D1, "t1", &[("new.txt", "x\n")]);
    f.git(&["checkout", "--quiet", "-b", "feature"]);
    write(f.root.join("README.md"), "dirty, and not on the target\n");
    let merged = f.merged(&base, &head, D2, "t1");
    assert_eq!(publish(&f.repo, MAIN, &merged, &base, "devloop: merge").unwrap(), Published::Done);
    assert_eq!(f.git(&["rev-parse", "main"]), merged.as_str());
    assert_eq!(f.git(&["rev-parse", "feature"]), base.as_str());
    assert!(!f.root.join("new.txt").exists());
    assert_eq!(f.git(&["log", "-1", "--format=%s", "main"]), "devloop: merge t1");
    assert_eq!(f.git(&["log", "-1", "--format=%P", "main"]), format!("{base} {head}"));
}

#[test]
fn a_clean_checkout_of_the_target_follows_and_publishing_twice_ends_the_same() {
    let f = Fixture::new();
    let (base, head) = f.done(D1, "t1", &[("new.txt", "x\n"), ("src/a.txt", "two\n")]);
    write(f.root.join("untracked.txt"), "stays\n");
    let merged = f.merged(&base, &head, D2, "t1");
    for _ in 0..2 {
        assert_eq!(publish(&f.repo, MAIN, &merged, &base, "test").unwrap(), Published::Done);
        assert_eq!(f.git(&["status", "--porcelain"]), "?? untracked.txt");
        assert_eq!(read(f.root.join("src/a.txt")), "two\n");
    }
    let found = merge::probe_published(&f.repo, MAIN, &base, D2, &head).unwrap();
    assert_eq!(found, Some(merged.clone()));
    assert_eq!(merge::probe_published(&f.repo, MAIN, &base, D1, &head).unwrap(), None);
    assert_eq!(merge::probe_published(&f.repo, MAIN, &base, D2, &base).unwrap(), None);
    // The process died between the swap and the checkout.
    f.git(&["reset", "--quiet", "--hard", base.as_str()]);
    f.git(&["update-ref", MAIN, merged.as_str()]);
    assert_eq!(f.git(&["status", "--porcelain", "-uno"]).lines().count(), 2);
    assert_eq!(publish(&f.repo, MAIN, &merged, &base, "test").unwrap(), Published::Done);
    assert_eq!(f.git(&["status", "--porcelain"]), "?? untracked.txt");
}

#[test]
fn a_checkout_that_was_touched_but_not_changed_follows() {
    let f = Fixture::new();
    let (base, head) = f.done(D1, "t1", &[("src/a.txt", "two\n")]);
    let merged = f.merged(&base, &head, D2, "t1");
    // The same content in a new file: git's index remembers another inode and time.
    let path = f.root.join("src/a.txt");
    let copy = f.root.join("src/copy.txt");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    assert_eq!(publish(&f.repo, MAIN, &merged, &base, "test").unwrap(), Published::Done);
    assert_eq!(read(&path), "two\n");
}

#[test]
fn a_checkout_that_is_not_clean_keeps_the_branch_where_it_is() {
    let f = Fixture::new();
    let (base, head) = f.done(D1, "t1", &[("new.txt", "x\n"), ("build.log", ""), ("src/a.txt", "two\n")]);
    let merged = f.merged(&base, &head, D2, "t1");
    let refused = |f: &Fixture| match publish(&f.repo, MAIN, &merged, &base, "test").unwrap() {
        Published::NotReady(why) => why,
        other => panic!("{other:?}"),
    };
    write(f.root.join("README.md"), "dirty\n");
    assert!(matches!(refused(&f), NotReady::Dirty { total: 1, .. }));
    assert!(matches!(ready(&f.repo, MAIN, &merged, &base).unwrap(), Some(NotReady::Dirty { .. })));
    f.git(&["checkout", "--quiet", "README.md"]);
    write(f.root.join("new.txt"), "precious\n");
    match refused(&f) {
        NotReady::InTheWay { paths, .. } => assert_eq!(paths, [RepoPath::new("new.txt")]),
        other => panic!("{other:?}"),
    }
    assert_eq!(read(f.root.join("new.txt")), "precious\n");
    fs::remove_file(f.root.join("new.txt")).unwrap();
    write(f.root.join(".git/index.lock"), "");
    assert!(matches!(refused(&f), NotReady::Locked { .. }));
    fs::remove_file(f.root.join(".git/index.lock")).unwrap();
    write(f.root.join(".git/MERGE_HEAD"), head.as_str());
    assert!(matches!(refused(&f), NotReady::InProgress { .. }));
    fs::remove_file(f.root.join(".git/MERGE_HEAD")).unwrap();
    assert_eq!(f.git(&["rev-parse", "main"]), base.as_str());
    assert_eq!(ready(&f.repo, MAIN, &merged, &base).unwrap(), None);
}

#[test]
fn an_ignored_file_in_the_way_is_not_overwritten() {
    let f = Fixture::new();
    let (worktree, base) = f.work(D1, "t1");
    write(worktree.tree.root().join("secret.log"), "from the task\n");
    write(worktree.tree.root().join("dir/file"), "x\n");
    git_in(worktree.tree.root(), &["add", "--force", "secret.log"]);
    let outcome = commit_work(&worktree, "t1", D1, &base, &["**"]);
    let CommitOutcome::Committed { head, .. } = outcome else { panic!("{outcome:?}") };
    write(f.root.join("secret.log"), "the operator's\n");
    write(f.root.join("dir"), "a file where the task has a folder\n");
    let merged = f.merged(&base, &head, D2, "t1");
    match publish(&f.repo, MAIN, &merged, &base, "test").unwrap() {
        Published::NotReady(NotReady::InTheWay { paths, .. }) => {
            assert_eq!(paths, [RepoPath::new("dir"), RepoPath::new("secret.log")]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(read(f.root.join("secret.log")), "the operator's\n");
}

#[test]
fn a_target_checked_out_in_another_worktree_follows_or_is_named() {
    let f = Fixture::new();
    let (base, head) = f.done(D1, "t1", &[("src/a.txt", "two\n")]);
    f.git(&["checkout", "--quiet", "-b", "feature"]);
    let other = f.root.parent().unwrap().join("other tree");
    f.git(&["worktree", "add", "--quiet", other.to_str().unwrap(), "main"]);
    write(other.join("README.md"), "dirty\n");
    let merged = f.merged(&base, &head, D2, "t1");
    match publish(&f.repo, MAIN, &merged, &base, "test").unwrap() {
        Published::NotReady(NotReady::Dirty { checkout, .. }) => assert_eq!(checkout, other),
        why => panic!("{why:?}"),
    }
    git_in(&other, &["checkout", "--quiet", "README.md"]);
    assert_eq!(publish(&f.repo, MAIN, &merged, &base, "test").unwrap(), Published::Done);
    assert_eq!(git_in(&other, &["status", "--porcelain"]), "");
    assert_eq!(read(other.join("src/a.txt")), "two\n");
}

#[test]
fn a_lost_swap_moves_nothing() {
    let f = Fixture::new();
    let (base, head) = f.done(D1, "t1", &[("new.txt", "x\n")]);
    let merged = f.merged(&base, &head, D2, "t1");
    let moved = f.commit_file("by-hand.txt", "x\n");
    let lost = publish(&f.repo, MAIN, &merged, &base, "test").unwrap();
    assert_eq!(lost, Published::Lost { now: Some(moved.clone()) });
    assert_eq!(f.head(), moved);
    assert!(!f.repo.swap_ref(MAIN, &merged, Some(&base), "x").unwrap());
}

#[test]
fn hazard_12_no_merge_driver_of_the_repository_runs() {
    let f = Fixture::new();
    f.commit_file(".gitattributes", "*.txt merge=mine\n");
    let ran = f.root.join("driver-ran");
    f.git(&["config", "merge.mine.driver", &format!(": > '{}'; git add -A; true", ran.display())]);
    let (base, head) = f.done(D1, "t1", &[("src/a.txt", "theirs\n")]);
    let target = f.commit_file("src/a.txt", "ours\n");
    let got = trial(&f.repo, &target, &head).unwrap();
    assert_eq!(got, Trial::Conflict { paths: vec![RepoPath::new("src/a.txt")] });
    assert!(!ran.exists());
    assert_eq!(merge::overlap(&f.repo, &base, &target, &head).unwrap(), [RepoPath::new("src/a.txt")]);
}

/// A name that is no text is a name.
#[test]
fn hazard_12_no_merge_driver_with_a_name_of_other_bytes_runs() {
    use std::os::unix::ffi::OsStrExt;
    let f = Fixture::new();
    let attributes = f.root.join(".gitattributes");
    std::fs::write(&attributes, b"*.txt merge=ev\xff\n").unwrap();
    f.git(&["add", "."]);
    f.git(&["commit", "-qm", "attributes"]);
    let ran = f.root.join("driver-ran");
    let driver = format!(": > '{}'; true", ran.display());
    let mut set = std::process::Command::new("git");
    set.current_dir(&f.root)
        .arg("config")
        .arg(std::ffi::OsStr::from_bytes(b"merge.ev\xff.driver"))
        .arg(driver);
    assert!(set.status().unwrap().success());
    let (_, head) = f.done(D1, "t1", &[("src/a.txt", "theirs\n")]);
    let target = f.commit_file("src/a.txt", "ours\n");
    let got = trial(&f.repo, &target, &head).unwrap();
    assert_eq!(got, Trial::Conflict { paths: vec![RepoPath::new("src/a.txt")] });
    assert!(!ran.exists());
}

#[test]
fn hazard_18_the_review_sees_what_the_branch_adds_and_nothing_of_the_target() {
    let f = Fixture::new();
    let (_, head) = f.done(D1, "t1", &[("new.txt", "mine\n")]);
    let target = f.commit_file("others.txt", "theirs\n");
    let diff = inspect::diff_text(&f.repo, &target, &head, 1 << 20).unwrap();
    let patch = String::from_utf8(diff.patch).unwrap();
    assert!(patch.contains("+mine") && !patch.contains("others.txt"), "{patch}");
    assert!(matches!(trial(&f.repo, &target, &head).unwrap(), Trial::Clean { .. }));
}

#[test]
fn hazard_19_disjoint_changes_do_not_overlap_and_folders_and_case_do() {
    let f = Fixture::new();
    let (base, head) = f.done(D1, "t1", &[("lib/x.txt", "x\n"), ("Doc", "x\n"), ("src/a.txt", "two\n")]);
    let disjoint = f.commit_file("other/y.txt", "y\n");
    assert_eq!(merge::overlap(&f.repo, &base, &disjoint, &head).unwrap(), []);
    f.commit_file("doc/z.txt", "z\n");
    f.git(&["mv", "src/a.txt", "src/b.txt"]); // the old name of a rename counts
    f.git(&["commit", "--quiet", "-m", "rename"]);
    let got = merge::overlap(&f.repo, &base, &f.head(), &head).unwrap();
    assert_eq!(got, [RepoPath::new("Doc"), RepoPath::new("src/a.txt")]);
}

#[test]
fn hazard_23_a_big_diff_is_whole_or_says_what_is_missing() {
    let f = Fixture::new();
    let big: String = (0..150_000).map(|n| format!("line {n}\n")).collect();
    let (base, head) = f.done(D1, "t1", &[("a-generated.txt", &big), ("written.txt", "by hand\n")]);
    let whole = inspect::diff_text(&f.repo, &base, &head, 64 << 20).unwrap();
    assert!(whole.patch.len() > 1_500_000 && whole.omitted.is_empty());
    let cut = inspect::diff_text(&f.repo, &base, &head, 100_000).unwrap();
    assert_eq!(cut.omitted, [RepoPath::new("a-generated.txt")]);
    assert!(String::from_utf8(cut.patch).unwrap().contains("+by hand"));
    let length = whole.patch.len();
    for (limit, omitted) in [(length, 0), (length - 1, 1)] {
        assert_eq!(inspect::diff_text(&f.repo, &base, &head, limit).unwrap().omitted.len(), omitted);
    }
    let blob = format!("{head}:a-generated.txt");
    let read = |limit| f.repo.call(["cat-file", "blob", &blob]).max_bytes(limit).ok();
    assert_eq!(read(big.len()).unwrap().len(), big.len());
    assert!(matches!(read(big.len() - 1), Err(GitError::TooMuch { .. })));
}

#[test]
fn a_revert_takes_back_exactly_the_merge() {
    let f = Fixture::new();
    let (base, head) = f.done(D1, "t1", &[("new.txt", "x\n")]);
    let merged = f.merged(&base, &head, D2, "t1");
    publish(&f.repo, MAIN, &merged, &base, "test").unwrap();
    let t1 = task("t1");
    let trailers = Trailers { task: &t1, dispatch: DispatchId(3), route: None, contract: None };
    let reverted = merge::revert(&f.repo, &merged, &trailers, &Identity::devloop()).unwrap();
    assert_eq!(publish(&f.repo, MAIN, &reverted, &merged, "test").unwrap(), Published::Done);
    assert!(!f.root.join("new.txt").exists());
    assert_eq!(f.git(&["status", "--porcelain"]), "");
    assert_eq!(f.git(&["diff", "--name-only", base.as_str(), "main"]), "");
}

#[test]
fn a_refresh_brings_the_target_into_the_branch_and_its_worktree() {
    let f = Fixture::new();
    let (_, head) = f.done(D1, "t1", &[("src/a.txt", "mine\n")]);
    let t1 = task("t1");
    let trailers = Trailers { task: &t1, dispatch: D2, route: None, contract: None };
    let refresh =
        |head: &Oid, target: &Oid| merge::refresh(&f.repo, head, target, &trailers, &Identity::devloop());
    let target = f.commit_file("others.txt", "theirs\n");
    let Refreshed::Done { head: fresh } = refresh(&head, &target).unwrap() else { panic!() };
    assert_eq!(f.git(&["rev-parse", "devloop/t1"]), fresh.as_str());
    assert_eq!(read(f.pool().path_of(D1).join("others.txt")), "theirs\n");
    assert_eq!(git_in(&f.pool().path_of(D1), &["status", "--porcelain"]), "");
    assert_eq!(refresh(&fresh, &target).unwrap(), Refreshed::UpToDate { head: fresh.clone() });
    assert_eq!(probe(&f.repo, "refs/heads/devloop/t1", &head, D2).unwrap(), Some(fresh.clone()));
    let conflicting = f.commit_file("src/a.txt", "theirs\n");
    let got = refresh(&fresh, &conflicting).unwrap();
    assert_eq!(got, Refreshed::Conflict { paths: vec![RepoPath::new("src/a.txt")] });
}

#[test]
fn a_reverted_change_is_applied_again_on_what_came_after() {
    let f = Fixture::new();
    let (base, head) = f.done(D1, "t1", &[("new.txt", "x\n")]);
    let merged = f.merged(&base, &head, D2, "t1");
    publish(&f.repo, MAIN, &merged, &base, "test").unwrap();
    let t1 = task("t1");
    let trailers = Trailers { task: &t1, dispatch: DispatchId(3), route: None, contract: None };
    let reverted = merge::revert(&f.repo, &merged, &trailers, &Identity::devloop()).unwrap();
    publish(&f.repo, MAIN, &reverted, &merged, "test").unwrap();
    let onto = f.commit_file("later.txt", "later\n");
    let again = |onto: &Oid| merge::reapply(&f.repo, onto, &merged, &trailers, &Identity::devloop()).unwrap();
    let Reapplied::Done { head: again_head } = again(&onto) else { panic!() };
    assert_eq!(f.git(&["diff", "--name-status", onto.as_str(), again_head.as_str()]), "A\tnew.txt");
    assert_eq!(f.git(&["rev-parse", &format!("{again_head}^")]), onto.as_str());
    let clash = f.commit_file("new.txt", "another\n");
    assert_eq!(again(&clash), Reapplied::Conflict { paths: vec![RepoPath::new("new.txt")] });
}

#[test]
fn a_target_that_a_person_is_rebasing_is_left_alone() {
    let f = Fixture::new();
    let start = f.head();
    f.git(&["checkout", "--quiet", "-b", "upstream"]);
    f.commit_file("README.md", "upstream\n");
    f.git(&["checkout", "--quiet", "main"]);
    f.commit_file("README.md", "main\n");
    let (base, head) = f.done(D1, "t1", &[("new.txt", "x\n")]);
    let rebase =
        std::process::Command::new("git").args(["rebase", "upstream"]).current_dir(&f.root).output().unwrap();
    assert!(!rebase.status.success() && base != start);
    assert_eq!(f.git(&["branch", "--show-current"]), "");
    let merged = f.merged(&base, &head, D2, "t1");
    match publish(&f.repo, MAIN, &merged, &base, "test").unwrap() {
        Published::NotReady(NotReady::InProgress { operation, .. }) => {
            assert_eq!(operation, Operation::Rebase)
        }
        other => panic!("{other:?}"),
    }
    f.git(&["rebase", "--abort"]);
    assert_eq!(publish(&f.repo, MAIN, &merged, &base, "test").unwrap(), Published::Done);
}
