//! Real child processes: bounded output, deadlines, staged stop and trees that try to survive.

#![allow(clippy::unwrap_used, reason = "a test that fails by unwrapping says where")]

use std::ffi::OsString;
use std::path::Path;
use std::thread;

use devloop_host::process::{
    CancelToken, ChildEnv, Confinement, Exit, Held, Limits, Running, Sink, SpawnError, Spec, StopPlan,
    confine, run_short, spawn, tree,
};

fn spec(dir: &Path, script: &str) -> Spec {
    Spec {
        argv: ["sh", "-c", script].map(OsString::from).to_vec(),
        cwd: dir.canonicalize().unwrap(),
        env: ChildEnv::check(),
        stdin: None,
        stdout: Sink::Memory { head_bytes: 1 << 20, tail_bytes: 0 },
        stderr: Sink::Memory { head_bytes: 1 << 20, tail_bytes: 0 },
        deadline_ms: Some(60_000),
        stop: StopPlan { interrupt_ms: 100, terminate_ms: 100 },
        confine: None,
        held: Some(Held {
            marker: format!("test-{}-{}", std::process::id(), dir.file_name().unwrap().to_string_lossy()),
            limits: Limits::default(),
        }),
    }
}

fn run(dir: &Path, script: &str) -> Exit {
    spawn(&spec(dir, script)).unwrap().wait(&CancelToken::new())
}

/// Cancels once the script has made the file `ready`.
fn cancel_when_ready(dir: &Path, running: Running) -> Exit {
    let (token, path) = (CancelToken::new(), dir.join("ready"));
    let other = token.clone();
    let watcher = thread::spawn(move || {
        while !path.exists() {
            thread::yield_now();
        }
        other.cancel();
    });
    let exit = running.wait(&token);
    watcher.join().unwrap();
    exit
}

fn read_pid(path: &Path) -> i32 {
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[test]
fn code_signal_output_and_input_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut with_input = spec(dir.path(), "cat; echo oops >&2; exit 3");
    with_input.stdin = Some(b"hello".to_vec());
    let exit = spawn(&with_input).unwrap().wait(&CancelToken::new());
    assert_eq!((exit.code, exit.signal, exit.success()), (Some(3), None, false));
    assert_eq!((exit.stdout.text(), exit.stderr.text()), ("hello".into(), "oops\n".into()));
    let exit = run(dir.path(), "kill -9 $$");
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
    assert!(run(dir.path(), "read x; test -z \"$x\"").success(), "standard input is the null device");
}

/// Hazard 23: more than the usual 1 MiB is neither an error nor read as the whole.
#[test]
fn big_output_keeps_both_ends_in_the_file_and_says_what_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.log");
    let mut big = spec(dir.path(), "echo first; head -c 3000000 /dev/zero; echo last");
    big.stdout = Sink::file(&path, 1000);
    let exit = spawn(&big).unwrap().wait(&CancelToken::new());
    assert!(exit.success());
    assert_eq!((exit.stdout.total_bytes, exit.stdout.omitted_bytes), (3_000_011, 2_999_011));
    let kept = std::fs::read(&path).unwrap();
    assert!(kept.starts_with(b"first\n") && kept.ends_with(b"last\n"));
    assert!(String::from_utf8_lossy(&kept).contains("[devloop: 2999011 bytes omitted]"));
}

#[test]
fn nothing_starts_without_a_program_or_a_real_folder() {
    let dir = tempfile::tempdir().unwrap();
    let mut missing = spec(dir.path(), "");
    missing.argv = vec!["devloop-no-such-program".into()];
    assert!(matches!(spawn(&missing), Err(SpawnError::NotFound { .. })));
    missing.argv = Vec::new();
    assert!(matches!(spawn(&missing), Err(SpawnError::NoProgram)));
    // Hazard 3: never another folder instead.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    for cwd in [link, dir.path().join("gone"), "relative".into()] {
        let mut elsewhere = spec(dir.path(), "true");
        elsewhere.cwd = cwd;
        assert!(matches!(spawn(&elsewhere), Err(SpawnError::WorkingFolder { .. })));
    }
}

#[test]
fn a_deadline_stops_a_child_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut slow = spec(dir.path(), "exec sleep 1000");
    slow.deadline_ms = Some(20);
    let exit = spawn(&slow).unwrap().wait(&CancelToken::new());
    assert!(exit.timed_out && !exit.cancelled && !exit.success() && exit.survivors.is_empty());
    assert_eq!(exit.code, None);
    let probe =
        run_short(&["sleep", "1000"], &dir.path().canonicalize().unwrap(), ChildEnv::check(), 20).unwrap();
    assert!(probe.timed_out && probe.signal == Some(15), "{probe:?}");
}

#[test]
fn a_stop_interrupts_first_so_that_an_agent_can_report() {
    let dir = tempfile::tempdir().unwrap();
    let mut slow =
        spec(dir.path(), "trap 'echo spent=7; exit 0' INT; : >ready; while :; do sleep 0.01; done");
    slow.stop = StopPlan { interrupt_ms: 60_000, terminate_ms: 0 };
    let exit = cancel_when_ready(dir.path(), spawn(&slow).unwrap());
    assert!(exit.cancelled && !exit.timed_out && !exit.success());
    assert_eq!((exit.code, exit.stdout.text().as_str()), (Some(0), "spent=7\n"));
}

/// Hazard 20: the worker ignores every polite signal, and so does a grandchild in a session of its own.
#[test]
fn a_stubborn_tree_with_a_session_of_its_own_is_proven_dead() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap '' INT TERM; setsid sh -c 'trap \"\" INT TERM; echo $$ >far; : >ready; \
                  while :; do sleep 0.01; done' & while :; do sleep 0.01; done";
    let exit = cancel_when_ready(dir.path(), spawn(&spec(dir.path(), script)).unwrap());
    assert!(exit.cancelled && exit.survivors.is_empty());
    assert_eq!(exit.signal, Some(9));
    let far = read_pid(&dir.path().join("far"));
    assert!(tree::identify(far).is_none_or(|id| !tree::is_alive(id)), "the late committer must be gone");
}

/// Hazard 21: a background job that holds the pipe neither delays the end nor survives it.
#[test]
fn a_background_job_of_a_finished_check_is_killed_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let exit = run(dir.path(), "setsid sleep 1000 & sleep 1000 & echo $! >near; echo done");
    assert_eq!((exit.code, exit.stdout.text().as_str()), (Some(0), "done\n"));
    assert!(exit.leftovers_killed >= 2, "killed {}", exit.leftovers_killed);
    assert!(exit.survivors.is_empty());
    let near = read_pid(&dir.path().join("near"));
    assert!(tree::identify(near).is_none_or(|id| !tree::is_alive(id)));
}

#[test]
fn the_tree_of_a_lost_host_is_found_by_its_record_and_killed() {
    let dir = tempfile::tempdir().unwrap();
    let script = "setsid sleep 1000 & sleep 1000; :";
    let running = spawn(&spec(dir.path(), script)).unwrap();
    let mut record = running.record().clone();
    let waiting = thread::spawn(move || running.wait(&CancelToken::new()));
    while tree::alive(&record).len() < 3 {
        thread::yield_now();
    }
    record.leader = None; // the host died before it noted the child: the marker alone must do
    let (killed, left) = tree::kill_tree(&record, 20_000);
    assert!(killed.len() >= 3 && left.is_empty());
    assert_eq!(waiting.join().unwrap().signal, Some(9));
    assert_eq!(tree::alive(&record), []);
}

#[test]
fn a_shell_of_an_agent_is_found_by_the_mark_that_its_host_hands_on() {
    let marker = format!("test-{}-agent", std::process::id());
    let mut shell =
        std::process::Command::new("sleep").arg("1000").env("DSH_DEVLOOP_DISPATCH", &marker).spawn().unwrap();
    let record = tree::TreeRecord { boot: tree::boot_id(), leader: None, marker };
    while tree::alive(&record).is_empty() {
        thread::yield_now();
    }
    let (killed, left) = tree::kill_tree(&record, 20_000);
    assert!(killed.len() == 1 && left.is_empty());
    assert!(!shell.wait().unwrap().success());
}

#[test]
fn a_child_that_never_reads_its_input_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let mut deaf = spec(dir.path(), "exit 0");
    deaf.stdin = Some(vec![b'x'; 1 << 20]);
    assert!(spawn(&deaf).unwrap().wait(&CancelToken::new()).success());
}

/// A worker that reaches for a key and for other people's files: the kernel refuses, whatever it is told.
#[test]
fn a_confined_child_touches_its_own_folders_and_nothing_else() {
    if !confine::is_available() {
        eprintln!("skipped: this kernel has no Landlock of version 3");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().canonicalize().unwrap().join(name);
    for name in ["work", "own", "tools", "home"] {
        std::fs::create_dir(place(name)).unwrap();
    }
    std::fs::write(place("home/id_ed25519"), "secret").unwrap();
    std::fs::write(place("tools/data"), "data").unwrap();
    std::fs::hard_link(place("home/id_ed25519"), place("own/linked")).unwrap();
    let script = "
        echo in > file && mkdir sub && mv file sub/file && echo own > ../own/note || echo 'own folders fail'
        cat ../tools/data || echo 'tools fail'
        ls / >/dev/null 2>&1 && echo 'listed the root'
        cat ../home/id_ed25519 2>/dev/null && echo 'read the key'
        ln -s ../home/id_ed25519 key && cat key 2>/dev/null && echo 'read the key by a link'
        seen=$(tr -d '\\0' 2>/dev/null </proc/$PPID/environ)
        [ \"$(id -u)\" = 0 ] || [ -z \"$seen\" ] || echo 'read the environment of the loop'
        (: > ../home/id_ed25519) 2>/dev/null && echo 'emptied the key'
        echo x 2>/dev/null > ../tools/data && echo 'wrote to the tools'
        echo x 2>/dev/null > ../home/new && echo 'made a file'
        mv sub/file ../home/moved 2>/dev/null && echo 'moved a file out'
        rm -f ../home/id_ed25519 2>/dev/null; rmdir ../tools 2>/dev/null
        (setsid sh -c 'cat ../home/id_ed25519') 2>/dev/null && echo 'a session of its own got out'
        kill -0 $PPID 2>/dev/null && echo 'may signal the loop'
        echo end";
    let mut confined = spec(&place("work"), script);
    confined.confine =
        Some(Confinement { read: vec![place("tools")], write: vec![place("work"), place("own")] });
    let exit = spawn(&confined).unwrap().wait(&CancelToken::new());
    let said = exit.stdout.text().replace("may signal the loop\n", "");
    // A kernel before version 6 of Landlock lets signals out.
    assert_eq!(said, "dataend\n", "{}", exit.stderr.text());
    assert_eq!(std::fs::read_to_string(place("home/id_ed25519")).unwrap(), "secret");
    assert!(!place("home/new").exists() && !place("home/moved").exists() && place("tools").exists());
    // This process itself is as free as before.
    std::fs::write(place("home/new"), "free").unwrap();
}

/// A worker has no terminal: what it prints there would reach the operator's, whatever it is.
#[test]
fn a_held_child_leads_a_session_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let script = "read -r _ _ _ _ group session _ < /proc/self/stat
        [ \"$group $session\" = \"$$ $$\" ] || echo \"$$: $group $session\"
        (: > /dev/tty) 2>/dev/null && echo 'has a terminal'
        echo end";
    let exit = spawn(&spec(dir.path(), script)).unwrap().wait(&CancelToken::new());
    assert_eq!(exit.stdout.text(), "end\n", "{}", exit.stderr.text());
}

/// What a child does with its limits: at the limit, and one above it.
#[test]
fn a_child_keeps_the_limits_and_what_ended_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let limited = |limits: Limits, script: &str| {
        let mut spec = spec(dir.path(), script);
        spec.held.as_mut().unwrap().limits = limits;
        spawn(&spec).unwrap().wait(&CancelToken::new())
    };
    let file = Limits { file_bytes: Some(4096), ..Limits::default() };
    let exit = limited(file, "head -c 4096 /dev/zero > file");
    assert!(exit.success() && exit.over.is_none(), "{exit:?}");
    for script in ["exec head -c 4097 /dev/zero > file", "head -c 4097 /dev/zero > file; exit $?"] {
        let exit = limited(file, script);
        let said = exit.over.as_deref();
        assert_eq!(said, Some("it wrote a file above processLimits.fileBytes, 4096 bytes"), "{exit:?}");
        assert_eq!(std::fs::metadata(dir.path().join("file")).unwrap().len(), 4096);
    }
    let cpu = Limits { cpu_seconds: Some(1), ..Limits::default() };
    let exit = limited(cpu, "while :; do :; done");
    assert_eq!(exit.over.as_deref(), Some("it used more than processLimits.cpuSeconds, 1 s"), "{exit:?}");
    let stubborn = limited(cpu, "trap '' XCPU; while :; do :; done");
    assert_eq!((stubborn.signal, stubborn.timed_out), (Some(9), false), "the hard limit ends it");
    let open = Limits { open_files: Some(64), ..Limits::default() };
    assert_eq!(limited(open, "ulimit -n; ulimit -c").stdout.text(), "64\n0\n");
    let memory = Limits { memory_bytes: Some(64 << 20), ..Limits::default() };
    let hungry = "head -c 200000000 /dev/zero | tail -c 150000000 | wc -c";
    assert_eq!(limited(memory, hungry).stdout.text().trim(), "0");
    assert_eq!(limited(Limits::default(), hungry).stdout.text().trim(), "150000000");
}

/// A limit is for the child, and no wider than the one in force: the kernel refuses to raise that.
#[test]
fn limits_of_a_child_are_not_those_of_the_loop() {
    let dir = tempfile::tempdir().unwrap();
    let core = || rustix::process::getrlimit(rustix::process::Resource::Core);
    let before = core();
    let mut wide = spec(dir.path(), "ulimit -Hn");
    wide.held.as_mut().unwrap().limits.open_files = Some(1 << 20);
    let exit = spawn(&wide).unwrap().wait(&CancelToken::new());
    let given: u64 = exit.stdout.text().trim().parse().unwrap();
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    assert_eq!(given, own.min(1 << 20));
    assert_eq!(core(), before, "the loop itself is as it was");
}

/// A crash of a child writes no core file, confined or not.
#[test]
fn no_child_leaves_the_memory_of_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let crash = spec(dir.path(), "ulimit -c; kill -SEGV $$");
    let exit = spawn(&crash).unwrap().wait(&CancelToken::new());
    assert_eq!((exit.stdout.text().as_str(), exit.signal), ("0\n", Some(11)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
