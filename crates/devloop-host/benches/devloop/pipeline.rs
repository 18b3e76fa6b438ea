//! Three tasks by instant workers: through the supervisor, and the same git commands by a shell script.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::figures::{self, Samples, against, shown};
use crate::project::{Project, instant, scripted};

const TASKS: [&str; 3] = ["one", "two", "three"];
const SCRIPT: &str = include_str!("pipeline.sh");
/// Of the goal of the whole pipeline.
const GOAL: f64 = 1.5;

fn project() -> Outcome<Project> {
    Project::new(&scripted(), &instant(&TASKS))
}

/// The script in a fresh repository, in seconds.
fn by_script(whole: &str) -> Outcome<f64> {
    let project = project()?;
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "pipeline"]).arg(&project.root).arg(whole);
    let mut ended = false;
    let seconds = figures::timed(|| ended = command.status().is_ok_and(|status| status.success()));
    if ended { Ok(seconds) } else { Err("the shell script of the pipeline failed".into()) }
}

/// What a run through the supervisor took.
struct Run {
    open: f64,
    finish: f64,
    close: f64,
    beats: u32,
}

fn by_supervisor() -> Outcome<Run> {
    let project = project()?;
    let mut opened = None;
    let open = figures::timed(|| opened = Some(project.open()));
    let mut supervisor = opened.ok_or("not opened")??;
    let mut beats = Ok(0);
    let finish = figures::timed(|| beats = project.finish(&mut supervisor));
    let beats = beats?;
    let mut closed = Ok(());
    let close = figures::timed(|| closed = supervisor.close());
    closed?;
    Ok(Run { open, finish, close, beats })
}

/// Measures both in turns and prints the table.
pub fn report(rounds: usize) -> Outcome<()> {
    let (mut five, mut whole, mut beats) = (Samples::default(), Samples::default(), Samples::default());
    let (mut finish, mut open, mut close) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..rounds {
        five.push(by_script("")?);
        let run = by_supervisor()?;
        finish.push(run.finish);
        open.push(run.open);
        close.push(run.close);
        beats.push(f64::from(run.beats));
        whole.push(by_script("whole")?);
    }
    let row =
        |what: &str, samples: &Samples, ratio: String| vec![what.into(), shown(samples.median()), ratio];
    let rows = [
        row(
            "shell: worktree add, add, commit, diff, merge-tree, commit-tree, update-ref",
            &five,
            String::new(),
        ),
        row("shell: the same, trees of planner and reviewers, checkout follows", &whole, String::new()),
        row(
            "supervisor, first beat to goal complete",
            &finish,
            format!(
                "{} of the first, {} of the second",
                against(finish.median_ratio(&five), GOAL),
                against(finish.median_ratio(&whole), GOAL)
            ),
        ),
        row("supervisor, open", &open, String::new()),
        row("supervisor, close (waits for trees still being removed)", &close, String::new()),
    ];
    let text = format!(
        "Fresh repository each time, {rounds} rounds in turns; a run took {:.0} beats (median).",
        beats.median()
    );
    figures::print("Three tasks, instant workers", &text, &["what", "median", "ratio"], &rows);
    count()
}

/// Runs one pipeline in a process whose git is counted, and prints how often git was started.
fn count() -> Outcome<()> {
    let folder = crate::project::folder()?;
    let git = which("git").ok_or("there is no git on the search path")?;
    let log = folder.path().join("log");
    let wrapper = folder.path().join("git");
    let text = format!("#!/bin/sh\necho \"$*\" >>'{}'\nexec '{}' \"$@\"\n", log.display(), git.display());
    std::fs::write(&wrapper, text)?;
    std::fs::set_permissions(&wrapper, Permissions::from_mode(0o755))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut search = vec![folder.path().to_path_buf()];
    search.extend(std::env::split_paths(&path));
    let search = std::env::join_paths(search)?;
    let status = Command::new(std::env::current_exe()?).arg("one-pipeline").env("PATH", search).status()?;
    if !status.success() {
        return Err("the counted run failed".into());
    }
    print_counts(&log)
}

fn which(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn print_counts(log: &Path) -> Outcome<()> {
    let text = std::fs::read_to_string(log)?;
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(' ').filter(|word| *word != "--no-pager");
        let verb = words.next().unwrap_or_default();
        let verb = if verb == "worktree" {
            format!("worktree {}", words.next().unwrap_or_default())
        } else {
            verb.to_owned()
        };
        *counts.entry(verb).or_default() += 1;
    }
    let mut rows: Vec<(String, u32)> = counts.into_iter().collect();
    rows.sort_by_key(|(verb, count)| (std::cmp::Reverse(*count), verb.clone()));
    let all: u32 = rows.iter().map(|(_, count)| count).sum();
    let text = format!("{all} processes of git in one run through the supervisor, open and close included.");
    let rows: Vec<_> = rows.into_iter().map(|(verb, count)| vec![verb, count.to_string()]).collect();
    figures::print("Git processes of that pipeline", &text, &["git", "started"], &rows);
    Ok(())
}

/// One run and nothing else, for counting.
pub fn once() -> Outcome<()> {
    let run = by_supervisor()?;
    eprintln!("{} beats, {}", run.beats, shown(run.finish));
    Ok(())
}
