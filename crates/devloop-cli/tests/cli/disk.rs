//! A real disk that is nearly full, and one that is full: a small file system of its own in memory.

use std::path::Path;

use crate::support::{Bench, PROGRAM};

/// Runs a script with `$ROOT` on a file system of 24 MiB that holds a copy of the project, and gives what it
/// printed. `None`: this machine lets nobody mount one.
fn on_a_small_disk(bench: &Bench, root: &Path, script: &str) -> Option<String> {
    let possible = bench.sh("unshare --user --map-root-user --mount true");
    if possible.code != 0 {
        eprintln!("skipped: this machine gives no namespaces: {}", possible.err.trim());
        return None;
    }
    let small = bench.path("small");
    std::fs::create_dir(&small).unwrap();
    let file = bench.path("script.sh");
    let head = format!(
        "set -e\nmount -t tmpfs -o size=24m none {0}\ncp -a {1} {0}/r\nROOT={0}/r\nDEVLOOP={PROGRAM}\n",
        small.display(),
        root.display(),
    );
    std::fs::write(&file, format!("{head}{script}")).unwrap();
    let ran = bench.sh(&format!("unshare --user --map-root-user --mount sh {}", file.display()));
    assert_eq!(ran.code, 0, "{ran:?}");
    Some(ran.out)
}

/// Below `diskLowBytes` nothing new starts, and it is no task's fault.
#[test]
fn a_disk_that_is_nearly_full_is_waited_for_and_nothing_is_spent() {
    let bench = Bench::new();
    let root = bench.sample("sample", 0);
    let script =
        "$DEVLOOP tick $ROOT >/dev/null\n$DEVLOOP tick $ROOT >/dev/null\n$DEVLOOP status $ROOT --json\n";
    let Some(said) = on_a_small_disk(&bench, &root, script) else { return };
    let view: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(view["running"].as_array().unwrap().len(), 0, "{view:#}");
    assert_eq!(view["tasks"].as_array().unwrap().len(), 0, "nothing was planned");
    assert_eq!(view["money"]["goal"]["reserved"], 0, "{view:#}");
    let sentence = view["sentence"].as_str().unwrap();
    assert!(sentence.ends_with("Planning waits for free disk space."), "{sentence}");
}

/// Nothing is left: what was recorded stays whole, the error names the disk, and with room again it goes on.
#[test]
fn a_full_disk_tears_nothing_and_the_loop_goes_on_when_there_is_room() {
    let bench = Bench::new();
    let root = bench.recorded("r");
    let script = "
dd if=/dev/zero of=$ROOT/../fill bs=64k >/dev/null 2>&1 || true
dd if=/dev/zero of=$ROOT/../fill2 bs=1 >/dev/null 2>&1 || true
for i in 1 2 3; do
  $DEVLOOP pause $ROOT >/dev/null 2>&1 || true
  $DEVLOOP resume $ROOT >/dev/null 2>&1 || true
done
$DEVLOOP status $ROOT >/dev/null || true
$DEVLOOP replay $ROOT >/dev/null && echo whole
rm $ROOT/../fill $ROOT/../fill2
$DEVLOOP pause $ROOT >/dev/null || $DEVLOOP resume $ROOT >/dev/null
$DEVLOOP replay $ROOT >/dev/null && echo whole again
";
    let Some(said) = on_a_small_disk(&bench, &root, script) else { return };
    assert_eq!(said, "whole\nwhole again\n");
}
