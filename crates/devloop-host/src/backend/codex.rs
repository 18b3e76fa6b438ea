//! Codex, `codex exec --json`. It does not check its own structured output and reports no usage of a turn
//! that failed, so both are looked up elsewhere: in the host, and in its session records.

use devloop_core::report::{Usage, UsageSource};
use devloop_core::units::Tokens;
use serde::Deserialize;

use super::adapter::{Adapter, Answer, Channel, Places, Said, Seen, Var, When, Words};
use super::fault::{Fault, Found};
use super::login::{Login, LoginFile};
use super::runner::{files_below, nothing_to_lay_out, quoted, read_text};
use crate::process::StopPlan;

/// The largest session record that is read, in bytes.
const RECORD_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The adapter. It commits nothing: its sandbox keeps the repository's own files from it.
pub(super) const ADAPTER: Adapter = Adapter {
    name: "codex",
    words: &[
        Words(When::Always, &["exec", "--json"]),
        Words(When::Works, &["-s", "workspace-write"]),
        Words(When::Reads, &["-s", "read-only", "--output-schema", "{schema_file}"]),
        Words(When::Always, &["-m", "{model}"]),
        Words(When::Always, &["-o", "{last}"]),
        // What it starts must not see the key.
        Words(When::Always, &["-c", "shell_environment_policy.ignore_default_excludes=false"]),
        // Its own folder for temporary files stays open to it, everybody's does not.
        Words(When::Always, &["-c", "sandbox_workspace_write.exclude_slash_tmp=true"]),
        // Instructions and skills of the worktree: a reviewer would be told by the change what to say of it.
        Words(When::Always, &["-c", "project_doc_max_bytes=0"]),
        Words(When::Always, &["-c", "skills.include_instructions=false"]),
        Words(When::Always, &["{args}"]),
        Words(When::Always, &["--", "-"]),
    ],
    env: &[Var(When::Always, "CODEX_HOME", "{config}")],
    inherit: &[],
    login: Login {
        vars: &[("CODEX_API_KEY", "CODEX_API_KEY"), ("OPENAI_API_KEY", "CODEX_API_KEY")],
        file: Some(LoginFile { folder_var: "CODEX_HOME", folder: ".codex", name: "auth.json" }),
    },
    prompt: Channel::Stdin,
    output_max_bytes: 32 * 1024 * 1024,
    stop: StopPlan { interrupt_ms: 3_000, terminate_ms: 2_000 },
    lay_out: nothing_to_lay_out,
    talk: None,
    read,
    recorded,
    resumes: &["resume", "fork", "--last"],
    repairs: true,
};

/// One line of its output.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    item: Option<Item>,
    usage: Option<TurnUsage>,
    error: Option<Failure>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Failure {
    message: Option<String>,
}

/// Input includes what a cache served, output includes reasoning.
#[derive(Clone, Copy, Deserialize)]
struct TurnUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    cached_input_tokens: u64,
    #[serde(default)]
    cache_write_input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    reasoning_output_tokens: u64,
}

impl TurnUsage {
    fn tokens(self) -> Tokens {
        let cached = self.cached_input_tokens.saturating_add(self.cache_write_input_tokens);
        Tokens {
            input_uncached: self.input_tokens.saturating_sub(cached),
            cache_read: self.cached_input_tokens,
            cache_write: self.cache_write_input_tokens,
            output: self.output_tokens,
            reasoning: self.reasoning_output_tokens.min(self.output_tokens),
        }
    }
}

fn read(seen: &Seen<'_>) -> Answer {
    let text = seen.stdout.text();
    let (mut done, mut failed, mut said, mut used) = (false, None, None, None);
    for event in text.lines().filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
        match event.kind.as_str() {
            "turn.completed" => {
                (done, failed) = (true, None);
                used = event.usage.or(used);
            }
            "turn.failed" => failed = event.error.and_then(|error| error.message).or(failed),
            "error" => failed = event.message.or(failed),
            // What it tried again worked in the end.
            "item.started" => failed = None,
            "item.completed" => {
                failed = None;
                let message = event.item.filter(|item| item.kind == "agent_message");
                said = message.and_then(|item| item.text).or(said);
            }
            _ => {}
        }
    }
    // Its total is that of the thread, which is as old as the run.
    let usage = used.map(|used| Usage::per_dispatch(UsageSource::Result, used.tokens(), None));
    if done && failed.is_none() {
        let last = seen.last.filter(|text| !text.trim().is_empty()).map(str::to_owned);
        return Said::Text(last.or(said).unwrap_or_default()).with(usage);
    }
    match failed {
        Some(words) if words.starts_with("Missing environment variable") => Said::Refused(words),
        Some(words) => Said::Fault(Found::of(&words, status_of(&words), seen.now)),
        // A wrong word or folder: it ends before it asks anybody.
        None if text.trim().is_empty() && matches!(seen.code, Some(1 | 2 | 126 | 127)) => {
            Said::Refused(quoted(seen.stderr))
        }
        None => {
            let words = format!("it ended with {:?} in the middle: {}", seen.code, quoted(seen.stderr));
            Said::Fault(Found::known(Fault::Unknown, words))
        }
    }
    .with(usage)
}

/// The status in `unexpected status 401 Unauthorized` and `last status: 429 Too Many Requests`.
fn status_of(words: &str) -> Option<u16> {
    let (_, rest) = words.split_once("status")?;
    let digits = rest.trim_start_matches([':', ' ']).get(..3)?;
    digits.parse().ok().filter(|status| (400..600).contains(status))
}

/// One line of a session record.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    payload: Option<Payload>,
}

#[derive(Deserialize)]
struct Payload {
    usage: Option<TurnUsage>,
}

/// One record for every finished call, whatever became of its turn.
fn recorded(places: &Places) -> Option<Usage> {
    let mut calls: Vec<Tokens> = Vec::new();
    for path in files_below(&places.config.join("sessions"), ".jsonl") {
        let Some(text) = read_text(&path, RECORD_MAX_BYTES) else { continue };
        for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
            if line.kind == "token_usage_record" {
                calls.extend(line.payload.and_then(|payload| payload.usage).map(TurnUsage::tokens));
            }
        }
    }
    if calls.is_empty() {
        return None;
    }
    let add = |sum: u64, more: u64| sum.saturating_add(more);
    let tokens = calls.iter().fold(Tokens::default(), |sum, call| Tokens {
        input_uncached: add(sum.input_uncached, call.input_uncached),
        cache_read: add(sum.cache_read, call.cache_read),
        cache_write: add(sum.cache_write, call.cache_write),
        output: add(sum.output, call.output),
        reasoning: add(sum.reasoning, call.reasoning),
    });
    Some(Usage::per_dispatch(UsageSource::SessionRecords, tokens, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::adapter::replayed;

    const OUTPUTS: &[(&str, i32, &str)] = &[
        (include_str!("../../../../tests/recorded/codex/ok.jsonl"), 0, "text done; 2000 400 0 80 -"),
        (include_str!("../../../../tests/recorded/codex/401.jsonl"), 1, "LoginExpired; free"),
        (include_str!("../../../../tests/recorded/codex/quota.jsonl"), 1, "OutOfCredit; free"),
        (include_str!("../../../../tests/recorded/codex/429.jsonl"), 1, "RateLimited; free"),
        (include_str!("../../../../tests/recorded/codex/500.jsonl"), 1, "Overloaded; free"),
        (include_str!("../../../../tests/recorded/codex/503.jsonl"), 1, "Overloaded; free"),
        (include_str!("../../../../tests/recorded/codex/down.jsonl"), 1, "NetworkDown; free"),
        (include_str!("../../../../tests/recorded/codex/long.jsonl"), 1, "ContextTooLong; unknown"),
        (include_str!("../../../../tests/recorded/codex/incomplete.jsonl"), 1, "OutputLimit; unknown"),
        (include_str!("../../../../tests/recorded/codex/filter.jsonl"), 1, "ContentRefused; unknown"),
        (include_str!("../../../../tests/recorded/codex/nokey.jsonl"), 1, "refused"),
        (include_str!("../../../../tests/recorded/codex/int.jsonl"), 1, "Unknown; unknown"),
        ("", 1, "refused"),
        ("", 0, "Unknown; unknown"),
        ("{\"type\":\"turn.comp", 0, "Unknown; unknown"),
        ("not json at all", 1, "Unknown; unknown"),
    ];

    #[test]
    fn recorded_outputs_have_their_meaning() {
        for (output, code, expect) in OUTPUTS {
            assert_eq!(replayed(&ADAPTER, output, *code), *expect, "{output}");
        }
    }

    #[test]
    fn a_limit_with_its_reset_is_told_apart_from_one_without() {
        // The clock of the replay stands before the reset that was recorded.
        let output = include_str!("../../../../tests/recorded/codex/usage.jsonl");
        assert_eq!(replayed(&ADAPTER, output, 1), "RateLimited with its reset; free");
    }

    #[test]
    fn what_a_turn_does_not_report_stands_in_the_session_record() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(recorded(&Places::below(dir.path())), None);
        let folder = dir.path().join("config/sessions/2026/11/30");
        std::fs::create_dir_all(&folder).unwrap();
        let failed = include_str!("../../../../tests/recorded/codex/incomplete.session.jsonl");
        let killed = include_str!("../../../../tests/recorded/codex/int.session.jsonl");
        std::fs::write(folder.join("rollout-1.jsonl"), failed).unwrap();
        let one = Tokens { input_uncached: 1000, cache_read: 200, output: 40, ..Tokens::default() };
        assert_eq!(
            recorded(&Places::below(dir.path())),
            Some(Usage::per_dispatch(UsageSource::SessionRecords, one, None))
        );
        std::fs::write(folder.join("rollout-2.jsonl"), format!("{killed}{{\"type\":\"token_us")).unwrap();
        let two = Tokens { input_uncached: 2000, cache_read: 400, output: 80, ..Tokens::default() };
        assert_eq!(
            recorded(&Places::below(dir.path())),
            Some(Usage::per_dispatch(UsageSource::SessionRecords, two, None))
        );
    }
}
