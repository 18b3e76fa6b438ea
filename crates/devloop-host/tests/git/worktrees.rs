//! The work trees of dispatches, replaying what went wrong with those of others.

use crate::fixture::{D1, D2, Fixture, MAIN, git_in, oid, read, task, write};
use devloop_core::ids::DispatchId;
use devloop_host::git::publish::{Published, publish};
use devloop_host::git::status::snapshot;
use devloop_host::worktree::{BranchEnd, Removal, Start, WorktreeError, write_contract};
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn hazard_01_a_stray_folder_is_moved_aside_and_the_branch_left_behind_is_used() {
    let f = Fixture::new();
    let base = f.head();
    write(f.pool().path_of(D1).join("apps/unseen.txt"), "unseen\n");
    f.git(&["branch", "devloop/t1"]); // what a failed `worktree add -b` leaves
    let made = f.pool().add_for_task(D1, &task("t1"), Start::New { base: &base }).unwrap();
    let aside = made.moved_aside.clone().unwrap();
    assert!(aside.starts_with(f.root.join(".devloop/aside")));
    assert_eq!(read(aside.join("apps/unseen.txt")), "unseen\n");
    assert_eq!(made.branch.as_deref(), Some("refs/heads/devloop/t1"));
    let again = f.pool().add_for_task(D1, &task("t1"), Start::New { base: &base }).unwrap();
    assert_eq!((again.head, again.moved_aside), (base, None));
}

#[test]
fn hazard_02_a_stale_registration_is_dropped_and_a_live_holder_is_named() {
    let f = Fixture::new();
    let (first, base) = f.work(D1, "t1");
    let at = Start::At { head: &base };
    match f.pool().add_for_task(D2, &task("t1"), at) {
        Err(WorktreeError::BranchHeld { by, .. }) => assert_eq!(by, first.tree.root()),
        other => panic!("{other:?}"),
    }
    fs::remove_dir_all(first.tree.root()).unwrap();
    let second = f.pool().add_for_task(D2, &task("t1"), at).unwrap();
    assert_eq!(second.tree.root(), f.pool().path_of(D2));
}

#[test]
fn hazard_03_a_failing_add_uses_no_other_tree() {
    let f = Fixture::new();
    let base = f.head();
    f.git(&["branch", "devloop"]); // `devloop` blocks `devloop/t1`
    let made = f.pool().add_for_task(D1, &task("t1"), Start::New { base: &base });
    assert!(matches!(made, Err(WorktreeError::BranchNameBlocked { .. })), "{made:?}");
    assert!(!f.pool().path_of(D1).exists());
    let gone = oid(&"1".repeat(40));
    assert!(matches!(f.pool().add_detached(D2, &gone), Err(WorktreeError::AddFailed { .. })));
    assert!(f.pool().list().unwrap().is_empty());
    for name in [".devloop/worktrees", ".devloop"] {
        fs::remove_dir_all(f.root.join(name)).unwrap();
        symlink("/tmp", f.root.join(name)).unwrap();
        assert!(matches!(f.pool().add_detached(D2, &base), Err(WorktreeError::Symlink { .. })));
        fs::remove_file(f.root.join(name)).unwrap();
    }
}

#[test]
fn hazard_04_a_worktree_with_a_submodule_is_removed_unless_it_holds_work() {
    let f = Fixture::new();
    let lib = f.root.parent().unwrap().join("lib");
    git_in(f.root.parent().unwrap(), &["init", "--quiet", "lib"]);
    git_in(&lib, &["commit", "--quiet", "--allow-empty", "-m", "lib"]);
    f.git(&["submodule", "--quiet", "add", lib.to_str().unwrap(), "lib"]);
    f.git(&["commit", "--quiet", "-m", "lib"]);
    let (worktree, _) = f.work(D1, "t1");
    let inside = worktree.tree.root().join("lib");
    git_in(worktree.tree.root(), &["submodule", "--quiet", "update", "--init"]);
    write(inside.join("work.txt"), "unsaved\n");
    assert!(matches!(f.pool().remove(D1, Removal::Clean), Err(WorktreeError::Unclean { .. })));
    let save = f.pool().remove(D1, Removal::SaveOrphan);
    assert!(matches!(save, Err(WorktreeError::InnerRepositories { .. })), "{save:?}");
    assert!(inside.join("work.txt").exists());
    fs::remove_file(inside.join("work.txt")).unwrap();
    assert!(f.pool().remove(D1, Removal::Clean).unwrap().existed);
    assert!(!worktree.tree.root().exists() && f.pool().list().unwrap().is_empty());
}

#[test]
fn hazard_05_removal_does_not_follow_links_and_copes_with_read_only_folders() {
    use std::os::unix::fs::PermissionsExt;
    let f = Fixture::new();
    write(f.root.join("node_modules/x/index.js"), "kept\n");
    let (worktree, _) = f.work(D1, "t1");
    let root = worktree.tree.root().to_path_buf();
    symlink(f.root.join("node_modules"), root.join("node_modules")).unwrap();
    write(root.join("build/cache/file"), "x");
    fs::set_permissions(root.join("build/cache"), fs::Permissions::from_mode(0o500)).unwrap();
    assert!(f.pool().remove(D1, Removal::Throwaway).unwrap().existed);
    assert!(!root.exists());
    assert_eq!(read(f.root.join("node_modules/x/index.js")), "kept\n");
    assert!(!f.pool().remove(D1, Removal::Throwaway).unwrap().existed, "removing twice is fine");
}

#[test]
fn hazard_06_untracked_work_of_an_orphan_is_saved_and_its_commits_stay() {
    let f = Fixture::new();
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root().to_path_buf();
    git_in(&root, &["commit", "--quiet", "--allow-empty", "-m", "by the run"]);
    write(root.join("new.txt"), "new\n");
    write(root.join("src/a.txt"), "edited\n");
    write(root.join("noise.log"), "ignored\n");
    match f.pool().remove(D1, Removal::Clean) {
        Err(WorktreeError::Unclean { total, .. }) => assert_eq!(total, 2),
        other => panic!("{other:?}"),
    }
    let saved = f.pool().remove(D1, Removal::SaveOrphan).unwrap().saved.unwrap();
    assert_eq!(oid(&f.git(&["rev-parse", "refs/devloop/orphan/d1"])), saved);
    assert_eq!(f.git(&["show", &format!("{saved}:new.txt")]), "new");
    assert_eq!(f.git(&["diff", "--name-only", base.as_str(), saved.as_str()]), "new.txt\nsrc/a.txt");
    let tip = f.git(&["rev-parse", "devloop/t1"]);
    assert_eq!(f.git(&["rev-parse", &format!("{saved}^")]), tip);
    assert_ne!(tip, base.as_str());
}

#[test]
fn a_repository_made_inside_a_worktree_is_not_lost() {
    let f = Fixture::new();
    let (worktree, _) = f.work(D1, "t1");
    let inner = worktree.tree.root().join("deep/inner");
    fs::create_dir_all(&inner).unwrap();
    git_in(&inner, &["init", "--quiet"]);
    write(inner.join("x"), "x");
    assert!(matches!(f.pool().remove(D1, Removal::SaveOrphan), Err(WorktreeError::InnerRepositories { .. })));
    assert!(inner.join("x").exists());
}

#[test]
fn hazard_08_a_write_into_the_primary_checkout_is_seen() {
    let f = Fixture::new();
    write(f.root.join("src/a.txt"), "already dirty\n");
    let before = snapshot(&f.repo).unwrap();
    assert_eq!(snapshot(&f.repo).unwrap().changed_since(&before), []);
    write(f.root.join("src/a.txt"), "dirty in another way\n");
    write(f.root.join("src/new.txt"), "escaped\n");
    let after = snapshot(&f.repo).unwrap();
    let names: Vec<_> = after.changed_since(&before).iter().map(ToString::to_string).collect();
    assert_eq!(names, ["src/a.txt", "src/new.txt"]);
    assert!(!after.head_moved_since(&before));
    f.git(&["commit", "--quiet", "--allow-empty", "-m", "x"]);
    assert!(snapshot(&f.repo).unwrap().head_moved_since(&before));
}

#[test]
fn what_the_operators_next_git_command_would_obey_is_watched() {
    let f = Fixture::new();
    let before = snapshot(&f.repo).unwrap();
    let changed = || {
        let now = snapshot(&f.repo).unwrap().changed_since(&before);
        now.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    f.git(&["config", "branch.main.remote", "origin"]);
    assert_eq!(changed(), [""; 0], "everyday commands write there");
    f.git(&["config", "core.hooksPath", "/tmp/evil"]);
    assert_eq!(changed(), [".git/config"]);
    f.git(&["config", "--unset", "core.hooksPath"]);
    write(f.root.join(".git/hooks/post-checkout"), "#!/bin/sh\n");
    assert_eq!(changed(), [".git/hooks/post-checkout"]);
}

#[test]
fn hazard_20_a_late_commit_is_noticed_before_the_next_attempt() {
    let f = Fixture::new();
    let (worktree, base) = f.work(D1, "t1");
    git_in(worktree.tree.root(), &["commit", "--quiet", "--allow-empty", "-m", "late"]);
    f.pool().remove(D1, Removal::SaveOrphan).unwrap();
    match f.pool().add_for_task(D2, &task("t1"), Start::At { head: &base }) {
        Err(WorktreeError::BranchMoved { found, .. }) => assert_ne!(found, Some(base.clone())),
        other => panic!("{other:?}"),
    }
    let fresh = f.pool().add_for_task(D2, &task("t1"), Start::New { base: &base });
    assert!(matches!(fresh, Err(WorktreeError::BranchTaken { .. })), "{fresh:?}");
    let (name, tip) = f.pool().retire_branch(&task("t1")).unwrap().unwrap();
    assert_eq!(name, "refs/devloop/retired/t1");
    assert_ne!(tip, base);
    assert!(f.pool().add_for_task(D2, &task("t1"), Start::New { base: &base }).is_ok());
    assert_eq!(f.pool().retire_branch(&task("none")).unwrap(), None);
}

#[test]
fn a_locked_worktree_is_not_removed() {
    let f = Fixture::new();
    let (worktree, _) = f.work(D1, "t1");
    f.git(&["worktree", "lock", "--reason", "mine", worktree.tree.root().to_str().unwrap()]);
    match f.pool().remove(D1, Removal::Throwaway) {
        Err(WorktreeError::Locked { reason, .. }) => assert_eq!(reason, "mine"),
        other => panic!("{other:?}"),
    }
    assert!(worktree.tree.root().exists());
}

#[test]
fn a_branch_is_deleted_only_when_the_target_contains_it() {
    let f = Fixture::new();
    let (base, head) = f.done(D1, "t1", &[("new.txt", "x\n")]);
    let gone = |f: &Fixture| f.pool().delete_branch_if_contained(&task("t1"), MAIN);
    assert_eq!(gone(&f).unwrap(), BranchEnd::NotContained { tip: head.clone() });
    let merged = f.merged(&base, &head, D2, "t1");
    assert_eq!(publish(&f.repo, MAIN, &merged, &base, "test").unwrap(), Published::Done);
    assert!(matches!(gone(&f), Err(WorktreeError::BranchHeld { .. })));
    f.pool().remove(D1, Removal::Clean).unwrap();
    assert_eq!(gone(&f).unwrap(), BranchEnd::Deleted { tip: head });
    assert_eq!(gone(&f).unwrap(), BranchEnd::Absent);
}

#[test]
fn the_list_names_owners_and_strays_and_the_exclude_line_is_written_once() {
    let f = Fixture::new();
    f.work(D1, "t1");
    write(f.root.join(".devloop/worktrees/stray/x"), "x");
    let listed = f.pool().list().unwrap();
    let rows: Vec<_> = listed.iter().map(|l| (l.name.as_str(), l.owner, l.registered.is_some())).collect();
    assert_eq!(rows, [("d1", Some(D1), true), ("stray", None, false)]);
    assert!(!f.pool().exclude_devloop().unwrap());
    assert_eq!(f.git(&["status", "--porcelain"]), "");
    write(f.root.join(".git/info/exclude"), "mine");
    assert!(f.pool().exclude_devloop().unwrap());
    assert_eq!(read(f.root.join(".git/info/exclude")), "mine\n.devloop/\n");
}

#[test]
fn a_detached_commit_that_nothing_leads_to_is_kept_unless_it_is_meant_to_go() {
    let f = Fixture::new();
    let base = f.head();
    let (kept, thrown) = (D1, D2);
    for dispatch in [kept, thrown] {
        let tree = f.pool().add_detached(dispatch, &base).unwrap();
        assert_eq!((tree.branch, &tree.head), (None, &base));
        git_in(tree.tree.root(), &["commit", "--quiet", "--allow-empty", "-m", "loose"]);
    }
    let refused = f.pool().remove(kept, Removal::Clean);
    assert!(matches!(refused, Err(WorktreeError::Unreachable { .. })), "{refused:?}");
    assert!(f.pool().remove(kept, Removal::SaveOrphan).unwrap().saved.is_some());
    assert_eq!(f.git(&["for-each-ref", "--format=%(refname)", "refs/devloop"]), "refs/devloop/orphan/d1");
    assert_eq!(f.pool().remove(thrown, Removal::Throwaway).unwrap().saved, None);
    let clean = f.pool().add_detached(thrown, &base).unwrap();
    assert!(clean.tree.root().join("README.md").exists());
    assert_eq!(f.pool().remove(thrown, Removal::SaveOrphan).unwrap().saved, None);
}

#[test]
fn a_planted_link_is_not_written_through() {
    let f = Fixture::new();
    let (worktree, _) = f.work(D1, "t1");
    let victim = f.root.parent().unwrap().join("victim");
    write(&victim, "kept\n");
    let planted = worktree.tree.root().join(".devloop/CONTRACT.json");
    symlink(&victim, &planted).unwrap();
    write_contract(&worktree, b"{}").unwrap();
    fs::remove_file(&planted).unwrap();
    fs::hard_link(&victim, &planted).unwrap();
    assert_eq!(write_contract(&worktree, b"{\"a\":1}").unwrap(), planted);
    assert_eq!((read(&victim).as_str(), read(&planted).as_str()), ("kept\n", "{\"a\":1}"));
    fs::remove_dir_all(worktree.tree.root().join(".devloop")).unwrap();
    symlink(f.root.parent().unwrap(), worktree.tree.root().join(".devloop")).unwrap();
    assert!(matches!(write_contract(&worktree, b"{}"), Err(WorktreeError::Symlink { .. })));
}

#[test]
fn a_worktree_whose_making_died_is_made_again() {
    let f = Fixture::new();
    for folder_is_there in [true, false] {
        let (worktree, base) = f.work(D1, "t1");
        write(worktree.tree.git_dir().join("locked"), "initializing");
        if !folder_is_there {
            fs::remove_dir_all(worktree.tree.root()).unwrap();
        }
        let again = f.pool().add_for_task(D1, &task("t1"), Start::New { base: &base }).unwrap();
        assert_eq!(again.moved_aside.is_some(), folder_is_there);
        assert!(again.tree.root().join("src/a.txt").exists());
    }
}

#[test]
fn a_stray_is_set_aside_and_a_tree_in_use_is_not() {
    let f = Fixture::new();
    f.work(D1, "t1");
    write(f.pool().path_of(D2).join("x"), "unseen\n");
    assert_eq!(f.pool().set_aside(D1).unwrap(), None);
    assert!(matches!(f.pool().remove(D2, Removal::Throwaway), Err(WorktreeError::NotRegistered { .. })));
    let aside = f.pool().set_aside(D2).unwrap().unwrap();
    assert_eq!(read(aside.join("x")), "unseen\n");
    write(f.pool().path_of(D2).join("y"), "again\n");
    assert_ne!(f.pool().set_aside(D2).unwrap().unwrap(), aside);
    assert_eq!(f.pool().set_aside(D2).unwrap(), None);
}

#[test]
fn several_worktrees_can_be_made_at_once() {
    let f = Fixture::new();
    let (base, pool) = (f.head(), f.pool());
    std::thread::scope(|scope| {
        let make = |n: u64| {
            let (pool, base) = (&pool, &base);
            scope
                .spawn(move || pool.add_for_task(DispatchId(n), &task(&format!("t{n}")), Start::New { base }))
        };
        let made: Vec<_> = (1..=4).map(make).collect();
        for made in made {
            made.join().unwrap().unwrap();
        }
    });
    assert_eq!(pool.list().unwrap().len(), 4);
}
