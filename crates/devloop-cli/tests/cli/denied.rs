//! Files that the operator's own rights close: the real program as a user who is not root. Nothing is decided
//! or written, and what is in the way is named.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{Bench, PROGRAM, Ran, everything, ran};

/// A user who owns nothing.
const NOBODY: &str = "65534";

/// Runs the program as that user; none where this process may not become it.
fn as_nobody(bench: &Bench, args: &[&str]) -> Option<Ran> {
    let mut command = bench.command("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", PROGRAM]).args(args);
    let ran = command.output().ok().map(ran)?;
    // 126 and 127: it could not start the program, which lies where that user may not look.
    (!matches!(ran.code, 126 | 127)).then_some(ran)
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_may_not_be_read_or_written_is_named_and_nothing_changes() {
    let bench = Bench::new();
    let root = bench.recorded("sample");
    let text = root.to_str().unwrap();
    let all = bench.path("");
    let given = bench.command("chown").args(["-R", NOBODY]).arg(&all).output().unwrap();
    if !given.status.success() || as_nobody(&bench, &["status", text]).is_none() {
        eprintln!("skipped: only root can become a user without rights");
        return;
    }
    let folder = root.join(".devloop");
    let kept = || {
        let mut all = everything(&folder);
        // Their text only says who looked last.
        all.retain(|path, _| !path.ends_with("LOCK") && !path.ends_with("OWNER"));
        all
    };
    for (name, closed) in [("STATE.json", 0), ("EVENTS.jsonl", 0), ("EVENTS.jsonl", 0o400)] {
        let path = folder.join(name);
        let open = fs::metadata(&path).unwrap().permissions().mode();
        mode(&path, closed);
        let before = kept();
        let paused = as_nobody(&bench, &["pause", text]).unwrap();
        assert_eq!(paused.code, 1, "{name} {closed:o}: {paused:?}");
        assert!(paused.err.contains(name) && paused.err.contains("Permission denied"), "{paused:?}");
        assert_eq!(before, kept(), "{name} {closed:o}");
        mode(&path, open);
        assert_eq!(as_nobody(&bench, &["status", text]).unwrap().code, 0, "{name}: nothing is paused");
    }
    // In a folder that takes no new file the journal is still written, and it is what counts.
    let before = fs::read(folder.join("STATE.json")).unwrap();
    mode(&folder, 0o500);
    let paused = as_nobody(&bench, &["pause", text]).unwrap();
    assert_eq!((paused.code, fs::read(folder.join("STATE.json")).unwrap()), (0, before), "{paused:?}");
    mode(&folder, 0o700);
    assert_eq!(as_nobody(&bench, &["status", text]).unwrap().code, 1, "it is paused");
    assert_eq!(as_nobody(&bench, &["replay", text]).unwrap().code, 0);
}
