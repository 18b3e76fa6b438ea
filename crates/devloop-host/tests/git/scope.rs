//! What a contract does not cover although its paths do: modes, binary files, links, repositories inside,
//! names that collide, and files that a change hides from git.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::fixture::{D1, Fixture, commit_work, git_in, offences, task, try_commit, write};
use devloop_host::git::commit::{CommitOutcome, CommitRequest, Trailers, commit};
use devloop_host::git::scope::Offence;
use devloop_host::git::{Identity, Scope};

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn named<const N: usize>(rows: [(&str, Offence); N]) -> Vec<(String, Offence)> {
    rows.map(|(path, offence)| (path.to_owned(), offence)).into()
}

#[test]
fn an_executable_bit_changes_only_by_leave_of_the_operator() {
    let f = Fixture::new();
    write(f.root.join("bin/run"), "#!/bin/sh\n");
    set_mode(f.root.join("bin/run"), 0o755);
    f.git(&["add", "."]);
    f.git(&["commit", "--quiet", "-m", "run"]);
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root();
    set_mode(root.join("src/a.txt"), 0o755);
    set_mode(root.join("bin/run"), 0o644);
    write(root.join("bin/new"), "#!/bin/sh\n");
    set_mode(root.join("bin/new"), 0o755);
    let found = offences(commit_work(&worktree, "t1", D1, &base, &["**"]));
    assert_eq!(found, named([("bin/run", Offence::Mode), ("src/a.txt", Offence::Mode)]));
    assert_eq!(f.git(&["rev-parse", "devloop/t1"]), base.as_str(), "nothing was committed");

    let task = task("t1");
    let scope = Scope::new(&["**"], &[] as &[&str]).unwrap().with_modes(&["bin/*", "src/a.txt"]).unwrap();
    let request = CommitRequest {
        title: "Modes",
        base: &base,
        before: &base,
        trailers: Trailers { task: &task, dispatch: D1, route: None, contract: None },
        scope: &scope,
        binary_max_bytes: 0,
        identity: &Identity::devloop(),
    };
    let CommitOutcome::Committed { head, .. } = commit(&worktree.tree, &request).unwrap() else { panic!() };
    let listed = f.git(&["ls-tree", "-r", "--format=%(objectmode) %(path)", head.as_str(), "bin", "src"]);
    assert_eq!(listed, "100755 bin/new\n100644 bin/run\n100755 src/a.txt");
}

/// The fixture's limit is 1,024 bytes.
#[test]
fn a_binary_file_above_the_limit_is_named_whatever_the_attributes_say() {
    let f = Fixture::new();
    f.commit_file("old.bin", "\0old");
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root();
    let zeros = |length: usize| vec![0u8; length];
    fs::write(root.join("at limit"), zeros(1024)).unwrap();
    fs::write(root.join("above\nit"), zeros(1025)).unwrap();
    let mut late = vec![b'x'; 100_000];
    late.push(0);
    fs::write(root.join("late"), late).unwrap();
    fs::write(root.join("long.txt"), vec![b'x'; 200_000]).unwrap();
    fs::write(root.join("old.bin"), zeros(5000)).unwrap();
    write(root.join(".gitattributes"), "* text diff\n*.bin diff\n");
    let found = offences(commit_work(&worktree, "t1", D1, &base, &["**"]));
    let binary = Offence::Binary;
    assert_eq!(found, named([("above\\nit", binary), ("late", binary), ("old.bin", binary)]));
    for name in ["above\nit", "late", "old.bin"] {
        fs::remove_file(root.join(name)).unwrap();
    }
    let outcome = commit_work(&worktree, "t1", D1, &base, &["**"]);
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
}

#[test]
fn files_that_a_change_hides_by_an_ignore_file_are_named() {
    let f = Fixture::new();
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root();
    // What the project itself ignores is its own affair.
    write(root.join("noise.log"), "x");
    write(root.join("build/out"), "x");
    write(root.join(".gitignore"), "*.log\nbuild/\nhidden/\n*.env\n");
    write(root.join("hidden/deep/x"), "x");
    write(root.join("ä \"quoted\".env"), "x");
    write(root.join("src/own.env"), "inside the contract");
    write(root.join("src/sub/.gitignore"), "*\n!.gitignore\n");
    write(root.join("src/sub/own"), "inside the contract");
    let allowed = [".gitignore", "src/**"];
    let found = offences(commit_work(&worktree, "t1", D1, &base, &allowed));
    let hidden = Offence::Hidden;
    assert_eq!(found, named([("hidden/", hidden), ("ä \"quoted\".env", hidden)]));
    fs::remove_dir_all(root.join("hidden")).unwrap();
    fs::remove_file(root.join("ä \"quoted\".env")).unwrap();
    let outcome = commit_work(&worktree, "t1", D1, &base, &allowed);
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
}

/// Under the project's own rules: what builds and tests leave stops no night, what lies beside sources is a
/// question, and all of it is listed.
#[test]
fn ignored_files_of_a_run_are_listed_and_asked_about_outside_the_contract() {
    let f = Fixture::new();
    f.commit_file(".gitignore", "*.log\nnode_modules/\n.env\n*.local\n__pycache__/\n*.pyc\n");
    f.commit_file("lib/x.py", "x\n");
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root();
    let build = ["node_modules/a/b", "lib/__pycache__/x.pyc", "logs/only/ignored.log", "noise.log"];
    for name in build.iter().chain(&["src/own.local", "src/new.txt"]) {
        write(root.join(name), "x");
    }
    // As test runners and virtual environments do.
    write(root.join(".cache/.gitignore"), "*\n");
    write(root.join(".cache/data"), "x");
    write(root.join(".env"), "KEY=1");
    write(root.join("other.local"), "x");
    let found = offences(commit_work(&worktree, "t1", D1, &base, &["src/**"]));
    assert_eq!(found, named([(".env", Offence::Ignored), ("other.local", Offence::Ignored)]));
    fs::remove_file(root.join(".env")).unwrap();
    let task = task("t1");
    let scope = Scope::new(&["src/**"], &[] as &[&str]).unwrap().with_ignored(&["*.local"]).unwrap();
    let request = CommitRequest {
        title: "Ignored",
        base: &base,
        before: &base,
        trailers: Trailers { task: &task, dispatch: D1, route: None, contract: None },
        scope: &scope,
        binary_max_bytes: 0,
        identity: &Identity::devloop(),
    };
    let outcome = commit(&worktree.tree, &request).unwrap();
    let listed: Vec<String> = outcome.ignored().iter().map(ToString::to_string).collect();
    let folders = [".cache/", "lib/__pycache__/", "logs/", "node_modules/"];
    assert_eq!(listed, [&folders[..], &["noise.log", "other.local", "src/own.local"]].concat());
    let CommitOutcome::Committed { head, .. } = outcome else { panic!("{outcome:?}") };
    let tree = f.git(&["ls-tree", "-r", "--name-only", head.as_str(), "src"]);
    assert!(tree.contains("src/new.txt") && !tree.contains("own.local"), "{tree}");
}

/// An ignore file that hides itself in a folder with other files is no folder of its own.
#[test]
fn an_ignore_file_that_ignores_itself_hides_nothing_outside_the_contract() {
    let f = Fixture::new();
    f.commit_file("docs/a.md", "x\n");
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root();
    write(root.join("docs/.gitignore"), "*\n");
    write(root.join("docs/hidden.txt"), "x");
    let found = offences(commit_work(&worktree, "t1", D1, &base, &["src/**"]));
    let expect = ["docs/.gitignore", "docs/hidden.txt"].map(|name| (name, Offence::Ignored));
    assert_eq!(found, named(expect));
}

#[test]
fn names_that_differ_only_in_case_are_named_unless_they_were_there() {
    let f = Fixture::new();
    f.commit_file("old.h", "x\n");
    f.commit_file("OLD.h", "y\n");
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root();
    write(root.join("readme.md"), "x\n");
    write(root.join("SRC/b.txt"), "x\n");
    write(root.join("Ärger.txt"), "x\n");
    write(root.join("ärger.txt"), "x\n");
    write(root.join("old.h"), "changed\n");
    let found = offences(commit_work(&worktree, "t1", D1, &base, &["**"]));
    let collides = Offence::Collides;
    let want =
        [("SRC/b.txt", collides), ("readme.md", collides), ("Ärger.txt", collides), ("ärger.txt", collides)];
    assert_eq!(found, named(want));
    // A rename that only changes the case leaves one name.
    for name in ["readme.md", "SRC/b.txt", "Ärger.txt", "ärger.txt"] {
        fs::remove_file(root.join(name)).unwrap();
    }
    fs::rename(root.join("README.md"), root.join("ReadMe.md")).unwrap();
    let outcome = commit_work(&worktree, "t1", D1, &base, &["**"]);
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
}

/// Links, pointers of submodules, and a file that becomes one of them.
#[test]
fn links_and_pointers_of_submodules_are_named() {
    let f = Fixture::new();
    let lib = f.root.parent().unwrap().join("lib");
    git_in(f.root.parent().unwrap(), &["init", "--quiet", "lib"]);
    git_in(&lib, &["commit", "--quiet", "--allow-empty", "-m", "lib"]);
    f.git(&["submodule", "--quiet", "add", lib.to_str().unwrap(), "lib"]);
    symlink("README.md", f.root.join("link")).unwrap();
    f.git(&["add", "."]);
    f.git(&["commit", "--quiet", "-m", "lib"]);
    let (worktree, base) = f.work(D1, "t1");
    let root = worktree.tree.root();
    git_in(root, &["submodule", "--quiet", "update", "--init"]);
    git_in(&root.join("lib"), &["commit", "--quiet", "--allow-empty", "-m", "moved"]);
    fs::remove_file(root.join("link")).unwrap();
    symlink("/etc/passwd", root.join("link")).unwrap();
    fs::remove_file(root.join("src/a.txt")).unwrap();
    symlink("../README.md", root.join("src/a.txt")).unwrap();
    let found = offences(commit_work(&worktree, "t1", D1, &base, &["**"]));
    let (link, pointer) = (Offence::Symlink, Offence::Submodule);
    assert_eq!(found, named([("lib", pointer), ("link", link), ("src/a.txt", link)]));
    assert!(try_commit(&worktree, "t1", D1, &base, &["**"]).is_ok(), "asked twice, answered twice");
}
