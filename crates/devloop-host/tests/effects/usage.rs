//! Where a run's use is read from when the run itself says nothing any more: session records of a killed
//! program, and what covers more than the run. The programs are shell scripts that print what the real ones
//! did.

use devloop_core::effect::{Job, Start};
use devloop_core::policy::Backend;
use devloop_core::report::{FailureClass, Outcome, Report, Usage, UsageBasis, UsageSource};
use devloop_core::units::{Tokens, UsdMicros};
use devloop_host::backend::Surroundings;
use devloop_wire::config_doc::AdapterConfig;
use serde_json::json;

use crate::ground::{Ground, key, route};

const OK: &str = include_str!("../../../../tests/recorded/claude/ok.json");
const CLAUDE_SESSION: &str = include_str!("../../../../tests/recorded/claude/kill.session.jsonl");
const CODEX_SESSION: &str = include_str!("../../../../tests/recorded/codex/int.session.jsonl");

/// Runs a shell script as this backend, with the text of a file at `$RECORDED` and more words of the
/// operator.
fn run(backend: Backend, script: &str, recorded: &str, args: &[&str]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recorded");
    std::fs::write(&file, recorded).unwrap();
    let script = script.replace("$RECORDED", &file.to_string_lossy());
    let ground = Ground::with(&json!([]), |config| {
        config.routes.insert(key("own"), route(backend, "vendor/model-1"));
        let argv = ["/bin/sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
        let args = args.iter().map(ToString::to_string).collect();
        config.adapters.insert(backend, AdapterConfig { argv, args, env: vec!["WANTED".to_owned()] });
        let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
        config.around = Surroundings::of(path);
    });
    let contract = ground.contract("t", &["src/**"]);
    let job = Job::Work { contract, start: Start::Fresh, notes: String::new(), findings: Vec::new() };
    ground.report(ground.dispatch("own", 60_000, job))
}

fn killed(report: &Report) -> Option<Usage> {
    match &report.outcome {
        Outcome::Failed { class: FailureClass::Machine, detail } if detail.contains("signal 9") => {
            report.usage
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_program_used_before_it_was_killed_stands_in_its_records() {
    let one = Tokens { input_uncached: 1_000, cache_read: 200, output: 40, ..Tokens::default() };
    let recorded = Some(Usage::per_dispatch(UsageSource::SessionRecords, one, None));
    let claude = "mkdir -p \"$CLAUDE_CONFIG_DIR/projects/w\"; \
                  cp \"$RECORDED\" \"$CLAUDE_CONFIG_DIR/projects/w/s.jsonl\"; kill -KILL $$";
    assert_eq!(killed(&run(Backend::Claude, claude, CLAUDE_SESSION, &[])), recorded);
    let codex = "mkdir -p \"$CODEX_HOME/sessions/2026/11/30\"; \
                 cp \"$RECORDED\" \"$CODEX_HOME/sessions/2026/11/30/rollout-1.jsonl\"; kill -KILL $$";
    assert_eq!(killed(&run(Backend::Codex, codex, CODEX_SESSION, &[])), recorded);
    // Without records it is not known, and the reserve is kept.
    assert_eq!(killed(&run(Backend::Claude, "kill -KILL $$", "", &[])), None);
}

#[test]
fn the_total_of_a_resumed_session_is_told_as_one() {
    let said = "cat >/dev/null; cat \"$RECORDED\"";
    let basis =
        |args: &[&str]| run(Backend::Claude, said, OK, args).usage.map(|used| (used.basis, used.cost));
    let cost = Some(UsdMicros(2_420));
    assert_eq!(basis(&[]), Some((UsageBasis::PerDispatch, cost)));
    assert_eq!(basis(&["--add-dir", "x"]), Some((UsageBasis::PerDispatch, cost)));
    for resumes in [&["--resume", "id"][..], &["--resume=id"], &["-c"], &["--fork-session"]] {
        assert_eq!(basis(resumes), Some((UsageBasis::Cumulative, cost)), "{resumes:?}");
    }
}
