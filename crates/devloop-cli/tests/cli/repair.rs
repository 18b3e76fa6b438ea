//! `doctor --repair`: what is proven ours and merged goes, everything else stays and is named.

use std::fs;
use std::process::{Child, Stdio};

use crate::support::{Bench, ran};

/// A child that is ended with the test.
struct Stray(Child);

impl Drop for Stray {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn only_what_is_proven_ours_and_merged_is_removed() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let text = root.to_str().unwrap();
    let git = |args: &[&str]| bench.git(&root, args);
    let pool = root.join(".devloop/worktrees");
    let tree = |name: &str| pool.join(name).to_str().unwrap().to_owned();
    git(&["worktree", "add", "--quiet", "--detach", &tree("d71")]);
    git(&["worktree", "add", "--quiet", "--detach", &tree("d72")]);
    fs::write(pool.join("d72/unseen.txt"), "unseen\n").unwrap();
    git(&["worktree", "add", "--quiet", "-b", "devloop/open", &tree("d73")]);
    fs::write(pool.join("d73/a.txt"), "a\n").unwrap();
    bench.git(&pool.join("d73"), &["add", "a.txt"]);
    bench.git(&pool.join("d73"), &["commit", "--quiet", "-m", "open"]);
    fs::create_dir_all(pool.join("d74/stray")).unwrap();
    git(&["branch", "devloop/merged"]);
    git(&["branch", "mine"]);
    fs::create_dir_all(root.join(".devloop/runs")).unwrap();
    fs::write(root.join(".devloop/runs/d71.json"), "torn").unwrap();
    // A process of a dispatch that is over, and one of another project.
    let digest = devloop_wire::digest_bytes(text.as_bytes());
    let marker = format!("{}-d71", &digest.as_str()[..16]);
    let start = |marker: &str| {
        let mut sleep = bench.command("sleep");
        sleep.arg("600").env("DEVLOOP_DISPATCH", marker).stdout(Stdio::null());
        Stray(sleep.spawn().unwrap())
    };
    let (mut ours, mut other) = (start(&marker), start("0123456789abcdef-d71"));
    let folder = bench.path("tmp").join(format!("devloop-{marker}-abc"));
    fs::create_dir(&folder).unwrap();

    fs::write(root.join(".git/index.lock"), "").unwrap();
    let looked = bench.verb("doctor", &root);
    fs::remove_file(root.join(".git/index.lock")).unwrap();
    assert!(pool.join("d71").exists() && folder.exists(), "looking changes nothing: {}", looked.out);
    let named = ["1 processes carry the mark of d71", "a temporary folder of d71", "index.lock"];
    assert!(named.iter().all(|said| looked.out.contains(said)), "{}", looked.out);
    let repaired = bench.devloop(&["doctor", text, "--repair"]);
    for said in [
        "removed: d71 is over, clean and merged",
        "d72 holds work that is not committed",
        "which the target does not contain",
        "d74 is not known to git",
        "removed: devloop/merged at",
        "removed: 1 processes of d71",
        "removed: the record of d71",
        "removed: the folders of d71",
    ] {
        assert!(repaired.out.contains(said), "no {said:?} in {}", repaired.out);
    }
    assert!(!pool.join("d71").exists() && !folder.exists());
    assert!(!root.join(".devloop/runs/d71.json").exists());
    assert_eq!(fs::read_to_string(pool.join("d72/unseen.txt")).unwrap(), "unseen\n");
    assert!(pool.join("d73/a.txt").exists() && pool.join("d74/stray").exists());
    let branches =
        ran(bench.command("git").args(["-C", text, "branch", "--format=%(refname:short)"]).output().unwrap());
    assert_eq!(branches.out.lines().collect::<Vec<_>>(), ["devloop/open", "mine", "work"]);
    assert!(ours.0.wait().unwrap().code().is_none(), "it was killed");
    assert!(other.0.try_wait().unwrap().is_none(), "another project's process runs on");
}

#[test]
fn nothing_is_repaired_beside_a_running_loop() {
    let bench = Bench::new();
    let root = bench.armed("r");
    let text = root.to_str().unwrap();
    let mut command = bench.command(crate::support::PROGRAM);
    let running = command.args(["run", text]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _running = Stray(running);
    let mut tries = 0;
    while bench.status(&root).1["owner"]["key"] != "runs" {
        tries += 1;
        assert!(tries < 1_000, "the loop never came up");
    }
    let refused = bench.devloop(&["doctor", text, "--repair"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("another supervisor runs this project"), "{}", refused.err);
}
