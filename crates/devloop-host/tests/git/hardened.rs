//! How the host calls git: with nothing of the tester's settings, no prompt, no pager, and a limit on time.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::fixture::{Fixture, git_in, read, write};
use devloop_host::git::status::dirty;
use devloop_host::git::{Git, GitError, Repo};

/// A git that does what `before` says for the sub-command `status`, and is the real one otherwise.
fn wrapped(f: &Fixture, before: &str) -> Repo {
    let program: PathBuf = f.root.parent().unwrap().join("wrapped-git");
    let script = format!("#!/bin/sh\ncase \" $* \" in *' status '*) {before} ;; esac\nexec git \"$@\"\n");
    write(&program, &script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    Repo::open(&Git::with_program(&program).unwrap(), &f.root).unwrap().unwrap()
}

/// Rule 115: a git that waits for somebody is ended with what it started.
#[test]
fn a_git_that_hangs_is_ended_at_its_limit() {
    let f = Fixture::new();
    let pid = f.root.parent().unwrap().join("pid");
    let repo = wrapped(&f, &format!("sleep 600 & echo $! > '{}'; wait", pid.display()));
    let ended = repo.call(["status"]).limit_ms(300).ok();
    assert!(matches!(ended, Err(GitError::TimedOut { .. })), "{ended:?}");
    if let Ok(pid) = fs::read_to_string(&pid) {
        // It may wait for whoever collects the dead of this machine.
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "what it started is gone too: {stat}");
    }
}

/// Each filter that is switched off costs room in the environment of git, so their number has an end.
#[test]
fn as_many_filters_as_a_repository_can_have_are_off_and_one_more_is_refused() {
    let f = Fixture::new();
    let config = f.root.join(".git/config");
    let plain = read(&config);
    let with = |count: usize| {
        let filters: String = (0..count).map(|n| format!("[filter \"f{n}\"]\n\tclean = false\n")).collect();
        write(&config, &format!("{plain}{filters}"));
        f.repo.refused_filters()
    };
    assert_eq!(with(200).unwrap().len(), 200);
    let said = with(201).unwrap_err();
    assert!(said.to_string().contains("more content filters than a repository can have"), "{said}");
}

#[test]
fn git_asks_nobody_and_pages_nothing() {
    let f = Fixture::new();
    let seen = f.root.parent().unwrap().join("seen");
    let repo = wrapped(&f, &format!("{{ env; echo \"$@\"; }} > '{}'", seen.display()));
    repo.call(["status"]).ok().unwrap();
    let seen = fs::read_to_string(&seen).unwrap();
    let wanted = [
        "GIT_TERMINAL_PROMPT=0",
        "GIT_ASKPASS=false",
        "GIT_EDITOR=false",
        "GIT_SEQUENCE_EDITOR=false",
        "GIT_PAGER=cat",
        "GIT_CONFIG_NOSYSTEM=1",
        "GIT_NO_LAZY_FETCH=1",
        "GIT_ALLOW_PROTOCOL=none",
        "GCM_INTERACTIVE=never",
        "GIT_OPTIONAL_LOCKS=0",
    ];
    for line in wanted {
        assert!(seen.lines().any(|found| found == line), "no {line} in {seen}");
    }
    assert!(!seen.contains("SSH_AUTH_SOCK="), "{seen}");
}

/// Line ends that git writes otherwise are no change, so they keep no merge waiting (hazard 114).
#[test]
fn a_file_that_differs_in_nothing_but_line_ends_is_no_change() {
    let f = Fixture::new();
    write(f.root.join("dos.txt"), "one\r\ntwo\r\n");
    f.git(&["-c", "core.autocrlf=false", "add", "."]);
    f.git(&["commit", "--quiet", "-m", "dos"]);
    f.git(&["config", "core.autocrlf", "true"]);
    // Touched by an editor that changed nothing.
    write(f.root.join("dos.txt"), "one\r\ntwo\r\n");
    assert_eq!(dirty(&f.repo, 10).unwrap().1, 0, "nothing to commit");
    write(f.root.join("dos.txt"), "one\r\nthree\r\n");
    assert_eq!(dirty(&f.repo, 10).unwrap().1, 1, "a change is one all the same");
}

/// Shallow, sparse and partial clones are worked in as they are: nothing is fetched, nothing is widened.
#[test]
fn shallow_and_sparse_clones_are_worked_in_as_they_are() {
    use crate::fixture::{D1, commit_work, task};
    use devloop_host::git::commit::CommitOutcome;
    use devloop_host::worktree::{Start, Worktrees};
    let f = Fixture::new();
    f.commit_file("src/second.txt", "two\n");
    f.commit_file("docs/third.txt", "three\n");
    let place = f.root.parent().unwrap();
    let url = format!("file://{}", f.root.display().to_string().replace(' ', "%20"));
    git_in(place, &["clone", "--quiet", "--depth", "1", &url, "shallow"]);
    git_in(place, &["clone", "--quiet", f.root.to_str().unwrap(), "sparse"]);
    git_in(&place.join("sparse"), &["sparse-checkout", "set", "src"]);
    for name in ["shallow", "sparse"] {
        let root = place.join(name).canonicalize().unwrap();
        let repo = Repo::open(&Git::discover().unwrap(), &root).unwrap().unwrap();
        let base = repo.resolve("HEAD").unwrap().unwrap();
        let start = Start::New { base: &base };
        let worktree = Worktrees::new(&repo).add_for_task(D1, &task("t1"), start).unwrap();
        write(worktree.tree.root().join("src/new.txt"), "new\n");
        let made = commit_work(&worktree, "t1", D1, &base, &["src/**"]);
        let CommitOutcome::Committed { head, entries, .. } = made else { panic!("{name}: {made:?}") };
        let changed: Vec<String> = entries.iter().map(|entry| entry.path.to_string()).collect();
        assert_eq!(changed, ["src/new.txt"], "{name}: what is not checked out is not deleted");
        let docs = git_in(&root, &["cat-file", "-e", &format!("{head}:docs/third.txt")]);
        assert_eq!(docs, "");
    }
}
