//! Is a folder fit for the loop: every problem by its name.

use crate::fixture::{Fixture, MAIN, git_in, write};
use devloop_host::git::Git;
use devloop_host::git::inspect::{self, preflight};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

pub fn problems(root: &Path) -> Vec<&'static str> {
    preflight(&Git::discover().unwrap(), root).unwrap().problems.iter().map(|p| p.key()).collect()
}

#[test]
fn a_clean_checkout_is_fit_and_each_problem_is_named() {
    let f = Fixture::new();
    assert_eq!(problems(&f.root), Vec::<&str>::new());
    assert_eq!(problems(&f.root.join("src")), ["not_top_level"]);
    assert_eq!(problems(&f.root.join("nothing")), ["not_a_folder"]);
    assert_eq!(problems(f.root.parent().unwrap()), ["not_a_repository"]);
    symlink(&f.root, f.root.parent().unwrap().join("link")).unwrap();
    assert_eq!(problems(&f.root.parent().unwrap().join("link")), ["root_is_symlink"]);
    let bare = f.root.parent().unwrap().join("bare");
    git_in(f.root.parent().unwrap(), &["init", "--quiet", "--bare", "bare"]);
    assert_eq!(problems(&bare), ["bare_repository"]);
    let empty = f.root.parent().unwrap().join("empty");
    git_in(f.root.parent().unwrap(), &["init", "--quiet", "empty"]);
    assert_eq!(problems(&empty), ["no_commit"]);
    symlink("/tmp", f.root.join(".devloop")).unwrap();
    write(f.root.join("README.md"), "changed\n");
    f.git(&["checkout", "--quiet", "--detach"]);
    assert_eq!(problems(&f.root), ["devloop_is_symlink", "detached_head", "dirty_checkout"]);
}

#[test]
fn what_a_person_has_under_way_is_named() {
    let f = Fixture::new();
    let base = f.head();
    f.commit_file("src/a.txt", "two\n");
    f.git(&["checkout", "--quiet", "-b", "other", base.as_str()]);
    f.commit_file("src/a.txt", "three\n");
    for (command, key) in
        [("merge", "mid_merge"), ("rebase", "mid_rebase"), ("cherry-pick", "mid_cherry_pick")]
    {
        let started = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=a@b", command, "main"])
            .current_dir(&f.root)
            .output()
            .unwrap();
        assert!(!started.status.success());
        assert!(problems(&f.root).contains(&key), "{key}: {:?}", problems(&f.root));
        f.git(&[command, "--abort"]);
    }
}

#[test]
fn trunks_come_from_names_and_remotes() {
    let f = Fixture::new();
    f.git(&["update-ref", "refs/remotes/origin/Release/1", "HEAD"]);
    f.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/Release/1"]);
    let trunks = inspect::trunks(&f.repo, &["prod".into()]).unwrap();
    let want = ["refs/heads/Release/1", "refs/heads/main", "refs/heads/master", "refs/heads/prod"];
    assert_eq!(trunks, want);
    assert!(inspect::is_trunk("refs/heads/RELEASE/1", &trunks));
    assert_eq!(inspect::current_branch(&f.repo).unwrap().as_deref(), Some(MAIN));
}
