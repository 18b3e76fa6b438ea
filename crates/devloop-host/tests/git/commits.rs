//! The host's commit: scope, names, hooks, redirected folders.

use crate::arming::problems;
use crate::fixture::{D1, D2, Fixture, MAIN, commit_work, git_in, offences, read, task, try_commit, write};
use devloop_core::ids::DispatchId;
use devloop_host::git::commit::{CommitOutcome, CommitRequest, Trailers, commit, made_between, probe};
use devloop_host::git::inspect;
use devloop_host::git::publish::{Published, publish};
use devloop_host::git::restore::restore_protected;
use devloop_host::git::scope::Offence;
use devloop_host::git::{Git, GitError, Identity, Repo, RepoPath, Scope};
use devloop_host::worktree::{Removal, Start, write_contract};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

#[test]
fn a_commit_has_its_title_trailers_and_author_and_is_made_once() {
    let f = Fixture::new();
    let (worktree, base) = f.work(D1, "t1");
    write_contract(&worktree, b"{}").unwrap();
    write(worktree.tree.root().join("src/b.txt"), "b\n");
    let first = commit_work(&worktree, "t1", D1, &base, &["src/**"]);
    let CommitOutcome::Committed { head, entries, .. } = first else { panic!("{first:?}") };
    assert_eq!(entries.iter().map(|e| e.path.to_string()).collect::<Vec<_>>(), ["src/b.txt"]);
    let want = "t1: Write the file\n\nDevloop-Task: t1\nDevloop-Dispatch: d1\nDevloop-Route: claude\n\
                Devloop-Contract: abc\nDevLoop <devloop@localhost>";
    assert_eq!(
        f.git(&["log", "-1", "--format=%B%an <%ae>", head.as_str()]).replace("abc\n\n", "abc\n"),
        want
    );
    assert_eq!(git_in(worktree.tree.root(), &["status", "--porcelain"]), "");
    let second = commit_work(&worktree, "t1", D1, &base, &["src/**"]);
    assert!(matches!(&second, CommitOutcome::AlreadyThere { head: h, .. } if *h == head), "{second:?}");
    assert_eq!(probe(&f.repo, "refs/heads/devloop/t1", &base, D1).unwrap(), Some(head));
    assert_eq!(probe(&f.repo, "refs/heads/devloop/t1", &base, D2).unwrap(), None);
}

#[test]
fn nothing_written_is_empty_and_nothing_new_is_unchanged() {
    let f = Fixture::new();
    let (worktree, base) = f.work(D1, "t1");
    assert_eq!(
        commit_work(&worktree, "t1", D1, &base, &["**"]),
        CommitOutcome::Empty { head: base.clone(), ignored: Vec::new() }
    );
    write(worktree.tree.root().join("x"), "x");
    let CommitOutcome::Committed { head, .. } = commit_work(&worktree, "t1", D1, &base, &["**"]) else {
        panic!()
    };
    let task = task("t1");
    let request = CommitRequest {
        title: "again",
        base: &base,
        before: &head,
        trailers: Trailers { task: &task, dispatch: D2, route: None, contract: None },
        scope: &Scope::new(&["**"], &[] as &[&str]).unwrap(),
        binary_max_bytes: 1024,
        identity: &f.repo.identity().unwrap(),
    };
    assert_eq!(
        commit(&worktree.tree, &request).unwrap(),
        CommitOutcome::Unchanged { head, ignored: Vec::new() }
    );
}

#[test]
fn a_run_that_committed_by_itself_is_judged_and_gets_a_host_commit_on_top() {
    let f = Fixture::new();
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root().to_path_buf();
    write(root.join("src/b.txt"), "b\n");
    git_in(&root, &["add", "."]);
    git_in(&root, &["commit", "--quiet", "-m", "forged\n\nDevloop-Dispatch: d1"]);
    assert_eq!(offences(commit_work(&worktree, "t1", D1, &base, &["docs/**"])).len(), 1);
    git_in(&root, &["commit", "--quiet", "--amend", "-m", "by the run"]);
    let by_run = git_in(&root, &["rev-parse", "HEAD"]);
    let outcome = commit_work(&worktree, "t1", D1, &base, &["src/**"]);
    let CommitOutcome::Committed { head, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(f.git(&["rev-parse", &format!("{head}^")]), by_run);
}

#[test]
fn paths_outside_the_contract_stop_the_commit_and_stay_where_they_are() {
    let f = Fixture::new();
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root().to_path_buf();
    fs::remove_file(root.join("README.md")).unwrap(); // a deletion counts
    fs::rename(root.join("src/a.txt"), root.join("src/moved.txt")).unwrap(); // both sides count
    write(root.join("new.txt"), "untracked counts\n");
    symlink("/etc", root.join("src/link")).unwrap();
    let found = offences(commit_work(&worktree, "t1", D1, &base, &["src/*"]));
    let want = [
        ("README.md", Offence::NotAllowed),
        ("new.txt", Offence::NotAllowed),
        ("src/link", Offence::Symlink),
    ];
    assert_eq!(found, want.map(|(p, o)| (p.to_owned(), o)));
    assert_eq!(f.git(&["rev-parse", "devloop/t1"]), base.as_str());
    assert_eq!(read(root.join("new.txt")), "untracked counts\n");
}

#[test]
fn a_commit_needs_the_task_branch_and_its_base() {
    let f = Fixture::new();
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root().to_path_buf();
    let lost = f.commit_file("later.txt", "x");
    assert!(matches!(try_commit(&worktree, "t1", D1, &lost, &["**"]), Err(GitError::BaseLost { .. })));
    git_in(&root, &["checkout", "--quiet", "-b", "elsewhere"]);
    assert!(matches!(try_commit(&worktree, "t1", D1, &base, &["**"]), Err(GitError::WrongHead { .. })));
    git_in(&root, &["checkout", "--quiet", "--detach"]);
    assert!(matches!(try_commit(&worktree, "t1", D1, &base, &["**"]), Err(GitError::WrongHead { .. })));
}

#[test]
fn hazard_13_and_14_no_hook_of_the_repository_runs() {
    let f = Fixture::new();
    let ran = f.root.join("hook-ran");
    let script = format!("#!/bin/sh\n: > '{}'\nexit 1\n", ran.display());
    let hooks =
        ["pre-commit", "commit-msg", "post-commit", "post-checkout", "reference-transaction", "post-merge"];
    for folder in [".git/hooks", ".hk"] {
        for hook in hooks {
            use std::os::unix::fs::PermissionsExt;
            write(f.root.join(folder).join(hook), &script);
            fs::set_permissions(f.root.join(folder).join(hook), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    for path in ["", ".hk", f.root.join(".hk").to_str().unwrap()] {
        if !path.is_empty() {
            write(
                f.root.join(".git/config"),
                &format!("{}[core]\n\thooksPath = {path}\n", read(f.root.join(".git/config"))),
            );
        }
        let name = format!("t{}", path.len());
        let dispatch = DispatchId(10 + path.len() as u64);
        let base = f.repo.resolve("HEAD").unwrap().unwrap();
        let worktree = f.pool().add_for_task(dispatch, &task(&name), Start::New { base: &base }).unwrap();
        write(worktree.tree.root().join(format!("{name}.txt")), "x");
        let outcome = commit_work(&worktree, &name, dispatch, &base, &["**"]);
        let CommitOutcome::Committed { head, .. } = outcome else { panic!("{outcome:?}") };
        let merged = f.merged(&base, &head, DispatchId(99), &name);
        assert_eq!(publish(&f.repo, MAIN, &merged, &base, "test").unwrap(), Published::Done);
    }
    assert!(!ran.exists());
}

#[test]
fn hazard_15_a_redirected_run_does_not_redirect_the_host() {
    // Rule 114: the run rewrites the files by which git finds its folders.
    let f = Fixture::new();
    let evil = f.root.parent().unwrap().join("evil");
    git_in(f.root.parent().unwrap(), &["init", "--quiet", "evil"]);
    let ran = evil.join("ran");
    git_in(&evil, &["config", "core.fsmonitor", &format!("sh -c ': > {}'", ran.display())]);
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root().to_path_buf();
    write(root.join("x.txt"), "x");
    fs::write(root.join(".git"), format!("gitdir: {}\n", evil.join(".git").display())).unwrap();
    let outcome = commit_work(&worktree, "t1", D1, &base, &["**"]);
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
    assert!(!ran.exists());
    assert!(f.pool().remove(D1, Removal::SaveOrphan).unwrap().existed);
}

#[test]
fn hazard_15_inherited_git_variables_reach_no_call() {
    // The test process cannot set its own environment safely, so a child of it does: see `child_of_a_hook`.
    let f = Fixture::new();
    let other = f.root.parent().unwrap().join("other");
    git_in(f.root.parent().unwrap(), &["init", "--quiet", "other"]);
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "commits::child_of_a_hook", "--nocapture"])
        .env("GIT_DIR", other.join(".git"))
        .env("GIT_INDEX_FILE", other.join(".git/index"))
        .env("GIT_WORK_TREE", &other)
        .env("DEVLOOP_TEST_ROOT", &f.root)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains(&format!("root={}", f.root.display())), "{said}");
}

#[test]
fn child_of_a_hook() {
    let Some(root) = std::env::var_os("DEVLOOP_TEST_ROOT") else { return };
    let repo = Repo::open(&Git::discover().unwrap(), Path::new(&root)).unwrap().unwrap();
    assert_eq!(inspect::current_branch(&repo).unwrap().as_deref(), Some(MAIN));
    assert!(repo.resolve("HEAD").unwrap().is_some());
    println!("root={}", repo.root().display());
}

#[test]
fn hazard_16_names_are_bytes() {
    let f = Fixture::new();
    let names = [
        "docs/设计/overview.md",
        "ä b.txt",
        "tab\there",
        "quote\"it",
        "a -> b",
        "x b/y",
        "new\nline",
        " lead",
    ];
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root().to_path_buf();
    for name in names {
        write(root.join(name), "x\n");
    }
    let raw = std::ffi::OsStr::from_bytes(b"not-utf8-\xff");
    fs::write(root.join(raw), "x\n").unwrap();
    fs::rename(root.join("src/a.txt"), root.join("src/ä -> b.txt")).unwrap();
    let changes = inspect::worktree_changes(&worktree.tree, &base).unwrap();
    assert_eq!((changes.tracked.len(), changes.untracked.len()), (1, names.len() + 2));
    let outcome = commit_work(&worktree, "t1", D1, &base, &["**"]);
    let CommitOutcome::Committed { head, entries, .. } = outcome else { panic!("{outcome:?}") };
    let got: Vec<&RepoPath> = entries.iter().map(|e| &e.path).collect();
    for name in
        names.iter().map(|n| n.as_bytes()).chain([raw.as_bytes(), b"src/a.txt", "src/ä -> b.txt".as_bytes()])
    {
        assert!(got.contains(&&RepoPath::new(name)), "{name:?}");
    }
    assert_eq!(got.len(), names.len() + 3);
    assert_eq!(inspect::numstat(&f.repo, &base, &head).unwrap().len(), names.len() + 3);
    let found = offences(commit_work(&worktree, "t1", D1, &base, &["docs/设计/*", "src/*"]));
    assert_eq!(found.len(), names.len());
}

#[test]
fn a_worker_that_leaves_a_lock_or_hides_files_does_not_stop_the_commit() {
    let f = Fixture::new();
    let (worktree, base) = f.work(D1, "t1");
    write(worktree.tree.git_dir().join("index.lock"), "");
    write(worktree.tree.root().join("x.txt"), "x");
    let outcome = commit_work(&worktree, "t1", D1, &base, &["**"]);
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
}

#[test]
fn a_change_within_one_clock_tick_and_of_the_same_size_is_seen() {
    let f = Fixture::new();
    for n in 1..=10 {
        let (worktree, base) = f.work(DispatchId(n), &format!("t{n}"));
        fs::write(worktree.tree.root().join("src/a.txt"), "two\n").unwrap();
        let outcome = commit_work(&worktree, &format!("t{n}"), DispatchId(n), &base, &["**"]);
        assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
    }
}

#[test]
fn a_repository_without_a_commit_inside_the_worktree_is_the_runs_fault_and_named() {
    let f = Fixture::new();
    let (worktree, base) = f.work(D1, "t1");
    for name in ["sub/empty", "whole"] {
        fs::create_dir_all(worktree.tree.root().join(name)).unwrap();
        git_in(&worktree.tree.root().join(name), &["init", "--quiet"]);
    }
    let found = offences(commit_work(&worktree, "t1", D1, &base, &["**"]));
    assert_eq!(found, ["sub/empty", "whole"].map(|p| (p.to_owned(), Offence::Submodule)));
}

#[test]
fn the_routes_behind_a_head_are_listed_and_a_commit_of_nobody_is_seen() {
    let f = Fixture::new();
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root().to_path_buf();
    git_in(&root, &["commit", "--quiet", "--allow-empty", "-m", "by the run"]);
    write(root.join("x"), "x");
    let CommitOutcome::Committed { head, .. } = commit_work(&worktree, "t1", D1, &base, &["**"]) else {
        panic!()
    };
    let made = made_between(&f.repo, &base, &head).unwrap();
    assert_eq!(made.iter().map(|m| m.route.as_deref()).collect::<Vec<_>>(), [Some("claude"), None]);
    assert_eq!(made[0].commit, head);
}

#[test]
fn a_program_named_as_file_system_monitor_does_not_run_and_the_repositorys_identity_is_used() {
    use std::os::unix::fs::PermissionsExt;
    let f = Fixture::new();
    let (script, ran) = (f.root.join(".git/monitor"), f.root.join(".git/ran"));
    write(&script, &format!("#!/bin/sh\n: > '{}'\n", ran.display()));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for (key, value) in
        [("core.fsmonitor", script.to_str().unwrap()), ("user.name", "Bo"), ("user.email", "b@o")]
    {
        f.git(&["config", key, value]);
    }
    let (worktree, base) = f.work(D1, "t1");
    inspect::worktree_changes(&worktree.tree, &base).unwrap();
    assert!(problems(&f.root).is_empty());
    assert_eq!(f.repo.identity().unwrap(), Identity { name: "Bo".into(), email: "b@o".into() });
    let _ = fs::remove_file(&ran);
    commit_work(&worktree, "t1", D1, &base, &["**"]);
    assert!(problems(&f.root).is_empty() && !ran.exists());
}

#[test]
fn protected_tests_outside_the_contract_are_put_back_and_the_others_are_named() {
    let f = Fixture::new();
    f.commit_file("tests/old.t", "strict\n");
    f.commit_file("tests/gone.t", "strict\n");
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root().to_path_buf();
    write(root.join("tests/old.t"), "weak\n");
    write(root.join("tests/new [1].t"), "new\n");
    write(root.join("src/own.t"), "own\n");
    fs::remove_file(root.join("tests/gone.t")).unwrap();
    let CommitOutcome::Committed { head, .. } = commit_work(&worktree, "t1", D1, &base, &["**"]) else {
        panic!()
    };
    let checkout = f.pool().add_detached(D2, &head).unwrap();
    let scope = |globs: &[&str]| Scope::new(globs, &[] as &[&str]).unwrap();
    for _ in 0..2 {
        let got = restore_protected(&checkout.tree, &base, &head, &scope(&["**/*.t"]), &scope(&["src/**"]))
            .unwrap();
        let restored: Vec<_> = got.restored.iter().map(ToString::to_string).collect();
        assert_eq!(restored, ["tests/gone.t", "tests/new [1].t", "tests/old.t"]);
        assert_eq!(got.changed, [RepoPath::new("src/own.t")]);
        let at = checkout.tree.root();
        assert_eq!(
            (read(at.join("tests/old.t")), read(at.join("src/own.t"))),
            ("strict\n".into(), "own\n".into())
        );
        assert!(at.join("tests/gone.t").exists() && !at.join("tests/new [1].t").exists());
    }
}
