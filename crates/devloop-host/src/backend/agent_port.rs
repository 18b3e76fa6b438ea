//! Agents of the process that embeds the loop: what a dispatch asks of one goes out as JSON, what it used and
//! how it ended comes back the same way. It starts nothing, and of DSH it knows only the words it answers in.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use devloop_core::policy::Backend as Kind;
use devloop_core::report::{FailureClass, Outcome, Usage, UsageBasis, UsageSource};
use devloop_core::task::clip;
use devloop_core::units::{Tokens, WallMs};
use devloop_wire::config_doc::RouteConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::adapter::Said;
use super::dsh::{self, CallUsage};
use super::fault::{Fault, Found};
use super::runner::{Attempt, Ended, come_to, judged, quoted};
use super::{Backend, BackendResult, Run, stopped};
use crate::clock::system_wall_ms;
use crate::effects::prompt;
use crate::process::Deadline;
use crate::process::tree::{TreeRecord, boot_id, kill_tree};

/// How often a waiting dispatch looks at its cancel token.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// How long an agent has to end after it was asked to, in awake milliseconds.
const STOP_MS: u64 = 20_000;
/// How long what its shells left behind has to end, in awake milliseconds.
const KILL_MS: u64 = 2_000;
/// The largest answer that is read, in bytes.
const ANSWER_MAX_BYTES: usize = 8 * 1024 * 1024;
/// The provider of subagents that every DSH has.
const OWN_SUBAGENTS: &str = "spawn";

/// Hands a message to the embedding process without waiting; false when nobody hears it any more.
pub type Hand = Box<dyn Fn(String) -> bool + Send + Sync>;

/// The one way to agents of the embedding process, shared by all dispatches of a loop.
pub struct AgentPort {
    hand: Hand,
    asked: Mutex<BTreeMap<String, Asked>>,
    changed: Condvar,
}

impl fmt::Debug for AgentPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentPort").finish_non_exhaustive()
    }
}

/// What came back so far of one that was asked.
#[derive(Default)]
struct Asked {
    used: Option<Tokens>,
    /// A call ended without a word about its use: what is known is a part.
    cut: bool,
    end: Option<End>,
}

impl Asked {
    fn usage(&self) -> Option<Usage> {
        let whole = Usage::per_dispatch(UsageSource::AgentPort, self.used?, None);
        Some(if self.cut { Usage { basis: UsageBasis::Partial, ..whole } } else { whole })
    }
}

/// What goes out.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum Message<'a> {
    /// Start one. The first answer with an end is its last.
    Agent {
        dispatch: &'a str,
        label: String,
        /// Which kind of subagent.
        provider: &'a str,
        /// Whose model; none: DSH's default provider.
        llm: Option<&'a str>,
        /// Which; none: DSH's default model.
        model: Option<&'a str>,
        /// Output tokens of all its calls together.
        max_tokens: Option<u64>,
        cwd: &'a Path,
        prompt: &'a str,
        /// The form of its result, a JSON schema.
        schema: Value,
        /// Nothing may be written.
        reads: bool,
        /// For the environment of its shells, so that what they leave behind is found.
        marker: &'a str,
    },
    /// End it.
    Stop { dispatch: &'a str },
}

/// What comes back: the use of one model call, or that it did not say it, or the end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    dispatch: String,
    usage: Option<CallUsage>,
    #[serde(default)]
    cut: bool,
    end: Option<End>,
}

/// How an agent ended, in DSH's words for the end of a turn.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum End {
    /// No model was asked.
    Refused { why: String },
    /// With a result in its form, else with words.
    Completed {
        structured: Option<Value>,
        #[serde(default)]
        text: String,
    },
    /// Somebody ended it.
    Aborted,
    /// It ran into its output limit.
    MaxTokens,
    /// With more than is read; nobody says so but this side.
    #[serde(skip)]
    TooLong { bytes: usize },
    /// By a failure of the model's provider or of DSH.
    Error { code: String, message: String, status: Option<u16>, retry_after_ms: Option<u64> },
}

impl AgentPort {
    /// A port that hands its messages to `hand`.
    pub fn new(hand: Hand) -> AgentPort {
        AgentPort { hand, asked: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes an answer as JSON, at any time and from any thread. One of a dispatch that nobody waits for any
    /// more is dropped.
    ///
    /// # Errors
    /// The text is no answer, in one sentence.
    pub fn tell(&self, json: &str) -> Result<(), String> {
        let answer: Answer =
            serde_json::from_str(json).map_err(|error| format!("this is no answer of an agent: {error}"))?;
        if let Some(asked) = self.asked().get_mut(&answer.dispatch) {
            if let Some(call) = answer.usage {
                asked.used = Some(call.added_to(asked.used.unwrap_or_default()));
            }
            asked.cut |= answer.cut;
            if asked.end.is_none() {
                let too_long = json.len() > ANSWER_MAX_BYTES;
                let cut = |end| if too_long { End::TooLong { bytes: json.len() } } else { end };
                asked.end = answer.end.map(cut);
            }
        }
        self.changed.notify_all();
        Ok(())
    }

    fn asked(&self) -> MutexGuard<'_, BTreeMap<String, Asked>> {
        // Every change is one insert, remove or assignment: a panic between them leaves the table valid.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, message: &Message<'_>) -> bool {
        serde_json::to_string(message).is_ok_and(&self.hand)
    }

    /// Waits until it has ended or may not go on, and at most `STOP_MS` longer.
    fn wait(&self, dispatch: &str, run: &Run<'_>) -> Asked {
        let mut stop: Option<Deadline> = None;
        let mut table = self.asked();
        loop {
            let ended = table.get(dispatch).is_none_or(|asked| asked.end.is_some());
            if ended || stop.is_some_and(|stop| stop.passed()) {
                return table.remove(dispatch).unwrap_or_default();
            }
            if stop.is_none() && run.ended().is_some() {
                stop = Some(Deadline::after(Some(STOP_MS)));
                drop(table);
                self.send(&Message::Stop { dispatch });
                table = self.asked();
            } else {
                table =
                    self.changed.wait_timeout(table, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// A route through the port.
#[derive(Debug)]
pub(super) struct Agents {
    port: Arc<AgentPort>,
    route: RouteConfig,
}

impl Agents {
    pub(super) fn new(port: Arc<AgentPort>, route: RouteConfig) -> Agents {
        Agents { port, route }
    }

    /// The kind of subagent, and whose model it runs. A route names one of both: a subagent's provider is
    /// the kind, and its model comes from DSH's default provider.
    fn providers(&self) -> (&str, Option<&str>) {
        match (self.route.backend, self.route.provider.as_str()) {
            (Kind::Subagent, kind) => (kind, None),
            (_, "dsh_agent" | "dsh" | "deepseek") => (OWN_SUBAGENTS, None),
            (_, llm) => (OWN_SUBAGENTS, Some(llm)),
        }
    }

    fn attempt(&self, run: &Run<'_>, attempt: &Attempt<'_>) -> (Ended, Option<Usage>) {
        let dispatch = format!("{}.{}", run.dispatch, attempt.number);
        let (provider, llm) = self.providers();
        let task = run.contract().map_or(String::new(), |contract| format!(" {}", contract.task));
        let schema = serde_json::from_str(prompt::schema(run.job)).unwrap_or_default();
        self.port.asked().insert(dispatch.clone(), Asked::default());
        let heard = self.port.send(&Message::Agent {
            dispatch: &dispatch,
            label: format!("DevLoop: {}{task}", run.role().word()),
            provider,
            llm,
            model: self.route.model.as_deref(),
            max_tokens: self.route.max_tokens,
            cwd: run.worktree.root(),
            prompt: attempt.prompt,
            schema,
            reads: attempt.reads,
            marker: run.marker,
        });
        if !heard {
            self.port.asked().remove(&dispatch);
            let why = "the plugin is being unloaded and starts no agent any more".to_owned();
            return come_to(Said::Refused(why), None);
        }
        let ended = self.port.wait(&dispatch, run);
        let usage = ended.usage();
        let tree = TreeRecord { boot: boot_id(), leader: None, marker: run.marker.to_owned() };
        let (_, left) = kill_tree(&tree, KILL_MS);
        let machine = |detail: String| {
            (Ended::For(Outcome::Failed { class: FailureClass::Machine, detail: clip(&detail) }), usage)
        };
        match ended.end {
            None => machine("the agent was asked to end and did not".to_owned()),
            Some(_) if !left.is_empty() => {
                machine(format!("{} processes of the agent could not be ended", left.len()))
            }
            // A stop of ours goes before anything that it said.
            Some(end) => match run.ended() {
                Some(BackendResult { outcome, .. }) => (Ended::For(outcome), usage),
                None => meaning(end, usage),
            },
        }
    }
}

impl Backend for Agents {
    fn run(&self, run: &Run<'_>) -> BackendResult {
        judged(run, true, |attempt| self.attempt(run, attempt))
    }
}

/// What an end that nobody here asked for comes to.
fn meaning(end: End, usage: Option<Usage>) -> (Ended, Option<Usage>) {
    let now = WallMs(system_wall_ms());
    let said = match end {
        End::Refused { why } => Said::Refused(quoted(&why)),
        End::Completed { structured: Some(value), .. } => Said::Text(value.to_string()),
        End::Completed { text, .. } => Said::Text(text),
        End::TooLong { bytes } => Said::Unreadable(format!(
            "it answered with {bytes} bytes, more than the {ANSWER_MAX_BYTES} that are read"
        )),
        End::Aborted => return (Ended::For(stopped(FailureClass::Cancelled)), usage),
        End::MaxTokens => Said::Fault(Found::known(Fault::OutputLimit, "max-tokens")),
        End::Error { code, message, status, retry_after_ms } => {
            let after = retry_after_ms.map(|ms| WallMs(now.0.saturating_add(ms)));
            match dsh::failure(&code, &message, status, now) {
                Said::Fault(found) if found.fault == Fault::RateLimited => {
                    Said::Fault(Found { until: found.until.or(after), ..found })
                }
                said => said,
            }
        }
    };
    come_to(said, usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an answer means, in a short line.
    fn told(json: &str) -> String {
        let port = AgentPort::new(Box::new(|_| true));
        port.asked().insert("d".to_owned(), Asked::default());
        let whole = format!(r#"{{"dispatch":"d",{json}}}"#);
        if let Err(why) = port.tell(&whole) {
            return why;
        }
        let asked = port.asked().remove("d").unwrap();
        let usage = asked.usage();
        let Some(end) = asked.end else { return format!("{usage:?}") };
        match meaning(end, usage) {
            (Ended::Said(text), _) => format!("said {text}"),
            (Ended::For(Outcome::Failed { class, .. }), usage) => {
                let free = usage.is_some_and(|used| used.cost.is_some_and(|cost| cost.0 == 0));
                let class = match class {
                    FailureClass::RateLimited { until } => format!("RateLimited {}", until.is_some()),
                    other => format!("{other:?}"),
                };
                format!("{class}{}", if free { " free" } else { "" })
            }
            (Ended::For(Outcome::Refused { .. }), None) => "refused".to_owned(),
            (Ended::For(other), _) => format!("{other:?}"),
        }
    }

    #[test]
    fn every_end_has_its_meaning() {
        let error = |code: &str, message: &str, more: &str| {
            told(&format!(r#""end":{{"kind":"error","code":"{code}","message":"{message}"{more}}}"#))
        };
        assert_eq!(error("AUTH", "Authentication Fails", ""), "LoginExpired free");
        assert_eq!(error("QUOTA", "Insufficient Balance", ""), "OutOfCredit free");
        assert_eq!(error("RATE_LIMIT", "slow down", ""), "RateLimited false free");
        assert_eq!(
            error("RATE_LIMIT", "slow down", r#","status":429,"retryAfterMs":9"#),
            "RateLimited true free"
        );
        assert_eq!(error("SERVER", "busy", ""), "Overloaded free");
        assert_eq!(error("UNKNOWN", "odd", r#","status":503"#), "Overloaded free");
        assert_eq!(error("TRANSPORT", "no route", ""), "NetworkDown free");
        assert_eq!(error("CONTEXT_WINDOW_EXCEEDED", "too long", ""), "ContextTooLong");
        assert_eq!(error("UNKNOWN", "max-tokens: the output budget is spent", ""), "OutputLimit");
        assert_eq!(error("UNKNOWN", "odd", ""), "Machine");
        assert_eq!(error("NO_ADAPTER", "no adapter", ""), "refused");
        assert_eq!(told(r#""end":{"kind":"refused","why":"no services"}"#), "refused");
        assert_eq!(told(r#""end":{"kind":"aborted"}"#), "Cancelled");
        assert_eq!(told(r#""end":{"kind":"max-tokens"}"#), "OutputLimit");
        assert_eq!(told(r#""end":{"kind":"completed","text":"words"}"#), "said words");
        let structured = r#""end":{"kind":"completed","structured":{"kind":"plan"},"text":"words"}"#;
        assert_eq!(told(structured), r#"said {"kind":"plan"}"#);
    }

    #[test]
    fn what_was_used_before_a_failure_is_never_free_and_nonsense_is_refused() {
        let used = r#""usage":{"inputTokens":1000,"outputTokens":40,"cacheReadTokens":200}"#;
        let failed = r#""end":{"kind":"error","code":"AUTH","message":"no"}"#;
        assert_eq!(told(&format!("{used},{failed}")), "LoginExpired");
        let refused = r#""end":{"kind":"refused","why":"late"}"#;
        assert_eq!(told(&format!("{used},{refused}")), "Machine");
        let (whole, part) = (told(used), told(&format!(r#"{used},"cut":true"#)));
        assert!(whole.contains("input_uncached: 1000, cache_read: 200"), "{whole}");
        assert!(whole.contains("PerDispatch") && part.contains("Partial"), "{part}");
        assert_eq!(told(r#""cut":true"#), "None");
        assert!(told(r#""end":{"kind":"slept"}"#).starts_with("this is no answer of an agent"));
        assert!(told(r#""usage":{"inputTokens":-1}"#).starts_with("this is no answer of an agent"));
        let port = AgentPort::new(Box::new(|_| true));
        // The whole answer counts, with what `told` puts around it.
        let around = r#"{"dispatch":"d","end":{"kind":"completed","text":""}}"#.len();
        let of = |length: usize| {
            let text = "x".repeat(length - around);
            told(&format!(r#""end":{{"kind":"completed","text":"{text}"}}"#))
        };
        assert!(of(ANSWER_MAX_BYTES).starts_with("said xx"), "at its limit it is read");
        let long = of(ANSWER_MAX_BYTES + 1);
        assert!(long.starts_with("InvalidResult") && long.contains("more than the 8388608"), "{long}");
        assert_eq!(port.tell(r#"{"dispatch":"nobody's","end":{"kind":"aborted"}}"#), Ok(()));
    }
}
