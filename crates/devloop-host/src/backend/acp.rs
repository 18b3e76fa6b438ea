//! Any agent that speaks the agent client protocol, version 1: JSON-RPC lines over its standard streams. It
//! gives the agent no files and no terminal and answers its questions about permissions.

use std::time::Duration;

use devloop_core::report::{Usage, UsageBasis, UsageSource};
use devloop_core::units::{Tokens, UsdMicros};
use serde_json::{Value, json};

use super::adapter::{Adapter, Answer, Channel, Said, Seen, Talking, Var, When};
use super::fault::{Fault, Found};
use super::login::Login;
use super::runner::{gave_up, no_records, nothing_to_lay_out, quoted};
use crate::process::{Heard, StopPlan, Talk};

/// The adapter. Its argv is the operator's, and so is the agent's login, by the names under `acp.env`.
pub(super) const ADAPTER: Adapter = Adapter {
    name: "acp",
    words: &[],
    env: &[Var(When::Always, "DEVLOOP_MODEL", "{model}"), Var(When::Always, "DEVLOOP_ROLE", "{role}")],
    inherit: &[],
    login: Login { vars: &[], file: None },
    prompt: Channel::Talk,
    output_max_bytes: 4 * 1024 * 1024,
    stop: StopPlan { interrupt_ms: 2_000, terminate_ms: 2_000 },
    lay_out: nothing_to_lay_out,
    talk: Some(converse),
    read: |seen: &Seen<'_>| Said::Unreadable(quoted(seen.stderr)).with(None),
    recorded: no_records,
    resumes: &[],
    repairs: false,
};

/// How often a silent agent is thought of: for the cancel token.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The most that an agent may print, and the longest line of it, in bytes.
const HEARD_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Modes in which an agent only reads, by the ids that agents give them.
const READING_MODES: &[&str] = &["plan", "read-only", "readonly", "ask"];
/// Agents that report the use of a whole turn at its end; others report a part of it.
const WHOLE_TURN: &[&str] = &["claude", "codex", "copilot"];

/// Why a call brought no result.
enum Trouble {
    /// The agent's own words for it, and its code.
    Error(i64, String),
    /// It ended, or said more than is read, or was to be ended.
    Over(&'static str),
}

struct Peer<'a, 'b> {
    talk: Talk,
    about: &'a Talking<'b>,
    pending: Vec<u8>,
    heard_bytes: usize,
    next_id: u64,
    /// What the agent said in this turn.
    text: String,
    /// Use that it noted beside its messages, call by call.
    noted: Option<Tokens>,
    /// What it says that the session cost so far.
    cost: Option<UsdMicros>,
}

fn converse(talk: Talk, about: &Talking<'_>) -> Answer {
    let mut peer = Peer {
        talk,
        about,
        pending: Vec::new(),
        heard_bytes: 0,
        next_id: 0,
        text: String::new(),
        noted: None,
        cost: None,
    };
    let (session, agent) = match peer.open() {
        Ok(opened) => opened,
        Err(Trouble::Error(_, words)) => {
            let found = Found::of(&words, None, about.now);
            return match found.fault {
                Fault::LoginExpired => Said::Fault(found),
                _ => Said::Refused(words),
            }
            .with(None);
        }
        Err(Trouble::Over(why)) => {
            return Said::Refused(format!("before a prompt was sent, {why}")).with(None);
        }
    };
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": about.prompt }] });
    let ended = peer.call("session/prompt", &prompt, Some(&session));
    let usage = peer.usage(ended.as_ref().ok(), &agent);
    peer.said(ended).with(usage)
}

impl Peer<'_, '_> {
    /// Greets the agent and opens a session in the worktree; returns its id and the agent's name.
    fn open(&mut self) -> Result<(String, String), Trouble> {
        let files = json!({ "readTextFile": false, "writeTextFile": false });
        let hello = json!({
            "protocolVersion": 1,
            "clientCapabilities": { "fs": files, "terminal": false },
            "clientInfo": { "name": "devloop", "version": env!("CARGO_PKG_VERSION") },
        });
        let greeted = self.call("initialize", &hello, None)?;
        let agent = greeted["agentInfo"]["name"].as_str().unwrap_or_default().to_lowercase();
        let folder = json!({ "cwd": self.about.cwd, "mcpServers": [] });
        let opened = self.call("session/new", &folder, None)?;
        let Some(session) = opened["sessionId"].as_str().map(str::to_owned) else {
            return Err(Trouble::Error(0, "the agent opened a session without an id".to_owned()));
        };
        let modes = opened["modes"]["availableModes"].as_array();
        let ids: Vec<&str> = modes.into_iter().flatten().filter_map(|mode| mode["id"].as_str()).collect();
        let reading = READING_MODES.iter().find(|known| ids.contains(*known));
        if let (true, Some(mode)) = (self.about.reads, reading) {
            let set = json!({ "sessionId": session, "modeId": mode });
            self.call("session/set_mode", &set, None)?;
        }
        Ok((session, agent))
    }

    /// Sends a request and answers the agent's own until its result is there. A cancelled run is told to the
    /// session first.
    fn call(&mut self, method: &str, params: &Value, session: Option<&str>) -> Result<Value, Trouble> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                // What is no JSON is noise of the program, not of the protocol.
                let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
                if message["id"] == id && message.get("method").is_none() {
                    return result_of(&message);
                }
                self.take(&message)?;
            }
            if self.about.cancel.is_cancelled() {
                if let Some(session) = session {
                    let params = json!({ "sessionId": session });
                    self.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }))?;
                }
                return Err(Trouble::Over("the run was to be ended"));
            }
            match self.talk.hear(LOOK_EVERY) {
                Heard::Bytes(bytes) => {
                    self.heard_bytes += bytes.len();
                    self.pending.extend(bytes);
                    if self.heard_bytes > HEARD_MAX_BYTES {
                        return Err(Trouble::Over("it printed more than is read"));
                    }
                }
                Heard::Silence => {}
                Heard::End => return Err(Trouble::Over("it ended")),
            }
        }
    }

    fn send(&mut self, message: &Value) -> Result<(), Trouble> {
        let line = format!("{message}\n");
        self.talk.say(line.as_bytes()).map_err(|_| Trouble::Over("it reads nothing more"))
    }

    /// A request or a notice of the agent.
    fn take(&mut self, message: &Value) -> Result<(), Trouble> {
        let method = message["method"].as_str().unwrap_or_default();
        match (method, message.get("id")) {
            ("session/update", _) => {
                self.note(&message["params"]["update"]);
                Ok(())
            }
            ("session/request_permission", Some(id)) => {
                let outcome = permission(&message["params"]["options"], self.about.reads);
                let result = json!({ "outcome": outcome });
                self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
            }
            ("", _) | (_, None) => Ok(()),
            (_, Some(id)) => {
                let error = json!({ "code": -32601, "message": "not offered" });
                self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))
            }
        }
    }

    fn note(&mut self, update: &Value) {
        match update["sessionUpdate"].as_str() {
            Some("agent_message_chunk") => {
                self.text.push_str(update["content"]["text"].as_str().unwrap_or_default());
                if let Some(used) = tokens(&update["_meta"]["usage"]) {
                    let sum = self.noted.unwrap_or_default();
                    self.noted = Some(Tokens {
                        input_uncached: sum.input_uncached.saturating_add(used.input_uncached),
                        cache_read: sum.cache_read.saturating_add(used.cache_read),
                        cache_write: sum.cache_write.saturating_add(used.cache_write),
                        output: sum.output.saturating_add(used.output),
                        reasoning: sum.reasoning.saturating_add(used.reasoning),
                    });
                }
            }
            Some("usage_update") => {
                let cost = &update["cost"];
                let usd = cost["amount"].as_f64().filter(|usd| (0.0..1e9).contains(usd));
                let is_usd = cost["currency"].as_str().is_none_or(|word| word.eq_ignore_ascii_case("usd"));
                let micros = |usd: f64| UsdMicros(((usd * 1e9).round() as u64).div_ceil(1_000));
                self.cost = usd.filter(|_| is_usd).map(micros).or(self.cost);
            }
            // What came before a tool was used is not its last word.
            Some("tool_call") => self.text.clear(),
            _ => {}
        }
    }

    /// The session is as old as the run, so what it cost so far is what the run cost.
    fn usage(&self, ended: Option<&Value>, agent: &str) -> Option<Usage> {
        let told = ended.and_then(|result| tokens(&result["usage"]));
        let whole = WHOLE_TURN.iter().any(|name| agent.contains(name));
        let basis = if self.noted.is_some() || self.cost.is_some() || whole {
            UsageBasis::PerDispatch
        } else {
            UsageBasis::Partial
        };
        let tokens = self.noted.or(told);
        let used = Usage::per_dispatch(UsageSource::Result, tokens.unwrap_or_default(), self.cost);
        (tokens.is_some() || self.cost.is_some()).then_some(Usage { basis, ..used })
    }

    fn said(self, ended: Result<Value, Trouble>) -> Said {
        let result = match ended {
            Ok(result) => result,
            Err(Trouble::Error(code, words)) => {
                // The protocol's own code for a login that is needed.
                let fault =
                    (code == -32_000 && words.to_lowercase().contains("auth")).then_some(Fault::LoginExpired);
                let told = || Found::of(&words, None, self.about.now);
                return Said::Fault(fault.map_or_else(told, |fault| Found::known(fault, &*words)));
            }
            Err(Trouble::Over(why)) => {
                return Said::Fault(Found::known(
                    Fault::Unknown,
                    format!("in the middle of its turn, {why}"),
                ));
            }
        };
        match result["stopReason"].as_str() {
            Some("end_turn") => Said::Text(self.text),
            Some("max_tokens") => Said::Fault(Found::known(Fault::OutputLimit, quoted(&self.text))),
            Some("refusal") => Said::Fault(Found::known(Fault::ContentRefused, quoted(&self.text))),
            other => gave_up(format!("its turn ended with {}", other.unwrap_or("no reason"))),
        }
    }
}

fn result_of(message: &Value) -> Result<Value, Trouble> {
    match message.get("error") {
        None | Some(Value::Null) => Ok(message["result"].clone()),
        Some(error) => {
            let words = error["message"].as_str().unwrap_or("an error without words");
            let details = match &error["data"] {
                Value::Null => String::new(),
                data => format!(": {data}"),
            };
            Err(Trouble::Error(error["code"].as_i64().unwrap_or(0), format!("{words}{details}")))
        }
    }
}

/// A worker may do what it asks for, once; a reader may not.
fn permission(options: &Value, reads: bool) -> Value {
    let wanted: &[&str] =
        if reads { &["reject_once", "reject_always"] } else { &["allow_once", "allow_always"] };
    let offered = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let of_kind = |kind: &&str| offered.iter().find(|option| option["kind"].as_str() == Some(kind));
    match wanted.iter().find_map(of_kind) {
        Some(option) => json!({ "outcome": "selected", "optionId": option["optionId"] }),
        None => json!({ "outcome": "cancelled" }),
    }
}

/// Input does not include what a cache served, as the protocol has it.
fn tokens(usage: &Value) -> Option<Tokens> {
    let number = |name: &str| usage[name].as_u64();
    Some(Tokens {
        input_uncached: number("inputTokens")?,
        cache_read: number("cachedReadTokens").unwrap_or(0),
        cache_write: number("cachedWriteTokens").unwrap_or(0),
        output: number("outputTokens")?,
        reasoning: number("thoughtTokens").unwrap_or(0),
    })
}
