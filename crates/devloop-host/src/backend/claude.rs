//! Claude Code, `claude -p`. Success is told by the fields of its one JSON object, never by its exit code: it
//! exits with 0 after refused edits and after an interrupt.

use std::collections::BTreeMap;

use devloop_core::report::{Usage, UsageSource};
use devloop_core::units::{MAX_NUMBER, Tokens, UsdMicros};
use serde::Deserialize;
use serde_json::Value;

use super::adapter::{Adapter, Answer, Channel, Places, Said, Seen, Var, When, Words};
use super::fault::{Fault, Found};
use super::login::{Login, LoginFile};
use super::runner::{files_below, gave_up, nothing_to_lay_out, quoted, read_text};
use crate::process::StopPlan;

/// The largest session record that is read, in bytes.
const RECORD_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The adapter. Settings, hooks and servers of the worktree are never loaded: without `--setting-sources ''`
/// a project could even send the key elsewhere.
pub(super) const ADAPTER: Adapter = Adapter {
    name: "claude",
    words: &[
        Words(When::Always, &["-p", "--output-format", "json"]),
        Words(When::Always, &["--model", "{model}"]),
        Words(When::Always, &["--setting-sources", "", "--strict-mcp-config"]),
        Words(When::Works, &["--permission-mode", "acceptEdits", "--permission-prompts", "none"]),
        Words(When::Works, &["--tools", "Read,Edit,Write,Glob,Grep,Bash"]),
        Words(When::Reads, &["--permission-mode", "dontAsk", "--tools", "Read,Glob,Grep"]),
        Words(When::Reads, &["--json-schema", "{schema}"]),
        Words(When::Always, &["{args}"]),
    ],
    env: &[
        Var(When::Always, "CLAUDE_CONFIG_DIR", "{config}"),
        Var(When::Always, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        Var(When::Always, "CLAUDE_CODE_MAX_RETRIES", "2"),
        // A command that it leaves running would keep it alive without end.
        Var(When::Always, "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
    ],
    inherit: &["ANTHROPIC_BASE_URL"],
    login: Login {
        vars: &[
            ("ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"),
            ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
            ("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        ],
        file: Some(LoginFile {
            folder_var: "CLAUDE_CONFIG_DIR",
            folder: ".claude",
            name: ".credentials.json",
        }),
    },
    prompt: Channel::Stdin,
    output_max_bytes: 16 * 1024 * 1024,
    // After an interrupt it prints its result with what it used.
    stop: StopPlan { interrupt_ms: 5_000, terminate_ms: 3_000 },
    lay_out: nothing_to_lay_out,
    talk: None,
    read,
    recorded,
    resumes: &["--resume", "-r", "--continue", "-c", "--fork-session"],
    repairs: true,
};

/// What is read of the one object that it prints.
#[derive(Deserialize)]
struct Printed {
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    subtype: String,
    #[serde(default)]
    terminal_reason: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    result: Option<String>,
    #[serde(default)]
    structured_output: Option<Value>,
    #[serde(default)]
    api_error_status: Option<u16>,
    #[serde(default)]
    api_error: Option<String>,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    total_cost_usd: Option<f64>,
    #[serde(default, rename = "modelUsage")]
    model_usage: Option<BTreeMap<String, ModelUsage>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    cache_read_input_tokens: u64,
    #[serde(default)]
    cache_creation_input_tokens: u64,
    #[serde(default)]
    thinking_tokens: u64,
    #[serde(default)]
    cost_basis: Option<String>,
}

fn read(seen: &Seen<'_>) -> Answer {
    let text = seen.stdout.text();
    if text.trim().is_empty() {
        let words = if seen.stderr.is_empty() { "it printed nothing".into() } else { quoted(seen.stderr) };
        // A wrong word or a missing binary: it ends before it asks anybody.
        return match seen.code {
            Some(1 | 2 | 126 | 127) => Said::Refused(words),
            _ => Said::Fault(Found::known(Fault::Unknown, words)),
        }
        .with(None);
    }
    let Ok(printed) = serde_json::from_str::<Printed>(text.trim()) else {
        return Said::Unreadable("its output is not the one JSON object that was asked for".into())
            .with(None);
    };
    let usage = printed.usage();
    printed.said(seen).with(usage)
}

impl Printed {
    fn said(self, seen: &Seen<'_>) -> Said {
        let words = self.result.clone().filter(|text| !text.is_empty());
        let words = words.unwrap_or_else(|| format!("{} {}", self.subtype, self.errors.join("; ")));
        match (self.terminal_reason.as_deref(), self.is_error) {
            (Some("completed") | None, false) => match self.structured_output {
                Some(value) => Said::Text(value.to_string()),
                None => Said::Text(self.result.unwrap_or_default()),
            },
            (Some("prompt_too_long"), _) => Said::Fault(Found::known(Fault::ContextTooLong, words)),
            (Some("max_turns" | "budget_exhausted"), _) => gave_up(words),
            _ if self.stop_reason.as_deref() == Some("refusal") => {
                Said::Fault(Found::known(Fault::ContentRefused, words))
            }
            _ => {
                let known = match self.api_error.as_deref() {
                    Some("max_output_tokens") => Some(Fault::OutputLimit),
                    Some("connection_failed") => Some(Fault::NetworkDown),
                    _ => None,
                };
                let told = || Found::of(&words, self.api_error_status, seen.now);
                Said::Fault(known.map_or_else(told, |fault| Found::known(fault, &*words)))
            }
        }
    }

    /// The whole run, every model of it. Its own price counts only where it knows the model.
    fn usage(&self) -> Option<Usage> {
        let models = self.model_usage.as_ref()?;
        let mut tokens = Tokens::default();
        for used in models.values() {
            tokens.input_uncached = tokens.input_uncached.saturating_add(used.input_tokens);
            tokens.cache_read = tokens.cache_read.saturating_add(used.cache_read_input_tokens);
            tokens.cache_write = tokens.cache_write.saturating_add(used.cache_creation_input_tokens);
            tokens.output = tokens.output.saturating_add(used.output_tokens);
            tokens.reasoning = tokens.reasoning.saturating_add(used.thinking_tokens);
        }
        let is_listed = models.values().all(|used| used.cost_basis.as_deref() == Some("list"));
        let cost = self.total_cost_usd.filter(|usd| is_listed && (0.0..1e9).contains(usd));
        // Rounded up, but not for the last digit of a binary fraction.
        let micros = |usd: f64| UsdMicros(((usd * 1e9).round() as u64).div_ceil(1_000).min(MAX_NUMBER));
        Some(Usage::per_dispatch(UsageSource::Result, tokens, cost.map(micros)))
    }
}

/// One line of a session record.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    usage: Option<CallUsage>,
}

#[derive(Deserialize)]
struct CallUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    cache_read_input_tokens: u64,
    #[serde(default)]
    cache_creation_input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

/// The finished calls in its session records, which survive every signal. A message that stands in several
/// lines is one call.
fn recorded(places: &Places) -> Option<Usage> {
    let mut calls: BTreeMap<String, CallUsage> = BTreeMap::new();
    for path in files_below(&places.config.join("projects"), ".jsonl") {
        let Some(text) = read_text(&path, RECORD_MAX_BYTES) else { continue };
        // The line that was being written when it died is not whole.
        for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
            if let ("assistant", Some(message)) = (line.kind.as_str(), line.message)
                && let Some(used) = message.usage
                // A message that it made up itself, to say that a call failed.
                && message.model != "<synthetic>"
            {
                calls.insert(message.id, used);
            }
        }
    }
    if calls.is_empty() {
        return None;
    }
    let add = |sum: u64, more: u64| sum.saturating_add(more);
    let tokens = calls.values().fold(Tokens::default(), |sum, used| Tokens {
        input_uncached: add(sum.input_uncached, used.input_tokens),
        cache_read: add(sum.cache_read, used.cache_read_input_tokens),
        cache_write: add(sum.cache_write, used.cache_creation_input_tokens),
        output: add(sum.output, used.output_tokens),
        reasoning: 0,
    });
    Some(Usage::per_dispatch(UsageSource::SessionRecords, tokens, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::adapter::replayed;

    const OUTPUTS: &[(&str, i32, &str)] = &[
        (include_str!("../../../../tests/recorded/claude/ok.json"), 0, "text done; 1000 200 0 40 2420"),
        (
            include_str!("../../../../tests/recorded/claude/schema.json"),
            0,
            "text {\"kind\":\"plan\",\"version\":1}; 1000 200 0 40 2420",
        ),
        (include_str!("../../../../tests/recorded/claude/401.json"), 1, "LoginExpired; 0 0 0 0 0"),
        (include_str!("../../../../tests/recorded/claude/nologin.json"), 1, "LoginExpired; 0 0 0 0 0"),
        (include_str!("../../../../tests/recorded/claude/credit.json"), 1, "OutOfCredit; 0 0 0 0 0"),
        (include_str!("../../../../tests/recorded/claude/429.json"), 1, "RateLimited; 0 0 0 0 0"),
        (include_str!("../../../../tests/recorded/claude/500.json"), 1, "Overloaded; 0 0 0 0 0"),
        (include_str!("../../../../tests/recorded/claude/529.json"), 1, "Overloaded; 0 0 0 0 0"),
        (include_str!("../../../../tests/recorded/claude/down.json"), 1, "NetworkDown; 0 0 0 0 0"),
        (include_str!("../../../../tests/recorded/claude/long.json"), 1, "ContextTooLong; 0 0 0 0 0"),
        (
            include_str!("../../../../tests/recorded/claude/maxtok.json"),
            1,
            "OutputLimit; 4000 800 0 160 9680",
        ),
        (
            include_str!("../../../../tests/recorded/claude/refusal.json"),
            1,
            "ContentRefused; 2000 400 0 80 4840",
        ),
        // It exits with 0 after an interrupt.
        (include_str!("../../../../tests/recorded/claude/int.json"), 0, "Unknown; 1000 200 0 40 2420"),
        ("", 1, "refused"),
        ("", 0, "Unknown; unknown"),
        ("{\"type\":\"resu", 0, "unreadable; unknown"),
        ("Execution error", 1, "unreadable; unknown"),
    ];

    #[test]
    fn recorded_outputs_have_their_meaning() {
        for (output, code, expect) in OUTPUTS {
            assert_eq!(replayed(&ADAPTER, output, *code), *expect, "{output}");
        }
    }

    #[test]
    fn turns_and_budget_are_the_tasks_and_a_price_that_was_guessed_is_none() {
        let output = r#"{"type":"result","subtype":"error_max_turns","is_error":true,
            "terminal_reason":"max_turns","total_cost_usd":0.5,"modelUsage":{"a":{"inputTokens":3,
            "outputTokens":1,"costUSD":0.4,"costBasis":"list"},"gateway":{"cacheReadInputTokens":7,
            "cacheCreationInputTokens":2,"costBasis":"unknown"}}}"#;
        assert_eq!(replayed(&ADAPTER, output, 1), "GaveUp; 3 7 2 1 -");
    }

    #[test]
    fn what_a_killed_run_used_stands_in_its_session_record() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(recorded(&Places::below(dir.path())), None);
        let folder = dir.path().join("config/projects/-w");
        std::fs::create_dir_all(&folder).unwrap();
        let text = include_str!("../../../../tests/recorded/claude/kill.session.jsonl");
        // The same message in a second line is the same call, one of its own making is none.
        let last = text.lines().find(|line| line.contains("msg_1")).unwrap();
        let own = last.replace("msg_1", "x").replace("claude-sonnet-5-5", "<synthetic>");
        let other = last.replace("msg_1", "msg_2");
        std::fs::write(folder.join("s.jsonl"), format!("{text}{last}\n{own}\n{other}\n{{\"type\":\"as"))
            .unwrap();
        let tokens = Tokens { input_uncached: 2000, cache_read: 400, output: 80, ..Tokens::default() };
        assert_eq!(
            recorded(&Places::below(dir.path())),
            Some(Usage::per_dispatch(UsageSource::SessionRecords, tokens, None))
        );
    }
}
