//! The script of the embedded workers: its document, read strictly with a field path. It runs nothing.
//!
//! ```json
//! { "version": 1, "rules": [
//!   { "role": "plan", "delayMs": 300, "result": { "plan": [ TASK, ... ] },
//!     "usage": { "tokens": { "input": 1200, "output": 300 }, "costUsd": 0.02 } },
//!   { "role": "work", "task": "parser", "attempt": 1,
//!     "edits": [ { "path": "src/a.txt", "content": "..." }, { "path": "b", "append": "..." },
//!                { "path": "c", "delete": true }, { "path": "d", "renameTo": "e" } ],
//!     "escape": [ { "path": "README.md", "append": "..." } ], "commit": true, "process": true,
//!     "result": { "work": "completed", "summary": "..." } },
//!   { "role": "review", "task": "parser", "result": { "review": "rework", "notes": "...", "head": "lie" } }
//! ] }
//! ```
//!
//! The first rule that matches role, task (left out: any) and attempt (left out: any; counted from 1 per role
//! and task over the life of the project) is followed. Tasks of a plan are those of the `<devloop_result>`
//! envelope. `result` is one of: `{"plan": [...]}`, `{"work": "completed"|"blocked"|"failed", "summary"?}`,
//! `{"review": "pass"|"pass_with_notes"|"rework"|"replan"|"blocked", "notes"?, "findings"?, "head"?}`,
//! `{"text": "..."}` (any output, parsed as a model's), or `{"end": ...}` with `none`, `invalid`, `crash`,
//! `hang`, `refuse`, `out_of_credit`, `login_expired`, `overloaded`, `network_down`, or `{"rateLimited":
//! {"resetInMs": 1000}}`. `edits` happen in the worktree, `escape` in the operator's checkout. `process` does
//! all of it in a child process.

use devloop_core::report::{Usage, UsageSource};
use devloop_core::units::{MAX_NUMBER, Tokens, UsdMicros};
use devloop_wire::DocError;
use serde::Deserialize;

use crate::effects::run_record::Role;

const DOCUMENT: &str = "script";
/// The version that is read.
pub const VERSION: u32 = 1;
/// Largest script that is read, in bytes.
pub const LIMIT_BYTES: u64 = 1024 * 1024;

/// A whole script.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    version: u32,
    /// Looked through in order.
    pub rules: Vec<Rule>,
}

/// What one dispatch does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// Which role it is for.
    pub role: Role,
    /// Which task; none: any.
    pub task: Option<String>,
    /// Which attempt of that role and task, from 1; none: any.
    pub attempt: Option<u64>,
    /// Milliseconds before anything happens; a cancel cuts it short.
    #[serde(default)]
    pub delay_ms: u64,
    /// Do it in a child process instead of this one.
    #[serde(default)]
    pub process: bool,
    /// Changes in the worktree.
    #[serde(default)]
    pub edits: Vec<Edit>,
    /// Changes in the operator's checkout, which no worker may make.
    #[serde(default)]
    pub escape: Vec<Edit>,
    /// Commit by itself, which a worker is told not to do.
    #[serde(default)]
    pub commit: bool,
    /// How it ends.
    pub result: Ending,
    /// What it says that it used; none: it says nothing.
    pub usage: Option<Used>,
}

/// One change of one file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Edit {
    /// The file has this content then.
    Write(WriteEdit),
    /// The text is put at its end.
    Append(AppendEdit),
    /// It is gone.
    Delete(DeleteEdit),
    /// It has another name.
    Rename(RenameEdit),
}

/// `{"path", "content"}`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteEdit {
    /// Relative to the tree.
    pub path: String,
    /// The whole new content.
    pub content: String,
}

/// `{"path", "append"}`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppendEdit {
    /// Relative to the tree.
    pub path: String,
    /// Text for the end.
    pub append: String,
}

/// `{"path", "delete": true}`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteEdit {
    /// Relative to the tree.
    pub path: String,
    /// Always true.
    pub delete: bool,
}

/// `{"path", "renameTo"}`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RenameEdit {
    /// Relative to the tree.
    pub path: String,
    /// The new name.
    pub rename_to: String,
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Ending {
    /// With a plan.
    Plan(PlanEnding),
    /// With a worker's word.
    Work(WorkEnding),
    /// With a verdict.
    Review(ReviewEnding),
    /// With this output.
    Text(TextEnding),
    /// In another way.
    End(OtherEnding),
    /// At the provider's limit.
    RateLimited(LimitEnding),
}

/// `{"plan": [...]}`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanEnding {
    /// Tasks as in the envelope.
    pub plan: Vec<serde_json::Value>,
}

/// `{"work": ..., "summary"?}`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkEnding {
    /// How it ended.
    pub work: WorkWord,
    /// In the worker's words.
    #[serde(default)]
    pub summary: String,
}

/// A worker's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkWord {
    /// Done.
    Completed,
    /// Cannot go on.
    Blocked,
    /// Failed.
    Failed,
}

/// `{"review": ..., "notes"?, "findings"?, "head"?}`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewEnding {
    /// The verdict.
    pub review: ReviewWord,
    /// What is to be mended.
    #[serde(default)]
    pub notes: String,
    /// Findings as in the envelope; left out of a rework, its notes are its one blocking finding.
    pub findings: Option<Vec<serde_json::Value>>,
    /// Names this commit instead of the one under review; `base` stands for the base.
    pub head: Option<String>,
}

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewWord {
    /// Merge it.
    Pass,
    /// Merge it, with notes.
    PassWithNotes,
    /// Mend it.
    Rework,
    /// The task is wrong.
    Replan,
    /// Cannot be judged.
    Blocked,
}

/// `{"text": ...}`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextEnding {
    /// The whole output.
    pub text: String,
}

/// `{"end": ...}`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherEnding {
    /// Which.
    pub end: EndWord,
}

/// An end without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndWord {
    /// It says nothing.
    None,
    /// It says something that is no result.
    Invalid,
    /// It dies.
    Crash,
    /// It never ends by itself.
    Hang,
    /// No provider is reached.
    Refuse,
    /// No credit.
    OutOfCredit,
    /// The login is over.
    LoginExpired,
    /// The provider is overloaded.
    Overloaded,
    /// No network.
    NetworkDown,
    /// The prompt does not fit.
    ContextTooLong,
    /// The answer does not fit.
    OutputLimit,
    /// The provider will not have the content.
    ContentRefusal,
}

/// `{"rateLimited": {"resetInMs"?}}`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LimitEnding {
    /// The limit.
    pub rate_limited: Limit,
}

/// A provider's limit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Limit {
    /// Milliseconds until it resets; none: not said.
    pub reset_in_ms: Option<u64>,
}

/// What a run says that it used.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Used {
    /// Tokens.
    #[serde(default)]
    pub tokens: UsedTokens,
    /// Money in US dollars.
    pub cost_usd: Option<f64>,
}

/// Tokens by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct UsedTokens {
    /// Input that no cache served.
    pub input: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache.
    pub cache_write: u64,
    /// Output.
    pub output: u64,
}

impl Used {
    /// In the words of a report.
    pub fn usage(&self) -> Usage {
        let t = self.tokens;
        let tokens = Tokens {
            input_uncached: t.input,
            cache_read: t.cache_read,
            cache_write: t.cache_write,
            output: t.output,
            reasoning: 0,
        };
        // Checked when the script was read: a finite number from zero to a billion.
        let micros = |usd: f64| UsdMicros(((usd * 1e6).round() as u64).min(MAX_NUMBER));
        Usage::per_dispatch(UsageSource::Result, tokens, self.cost_usd.map(micros))
    }
}

/// Reads a script.
///
/// # Errors
/// The first thing that is wrong with it, with its field path.
pub fn parse(bytes: &[u8]) -> Result<Script, DocError> {
    let script: Script = devloop_wire::json::read(DOCUMENT, "", bytes)?;
    let defect = |path: String, what: String| Err(DocError::defect(DOCUMENT, path, what));
    if script.version != VERSION {
        return defect("version".into(), format!("the version must be {VERSION}"));
    }
    for (i, rule) in script.rules.iter().enumerate() {
        if rule.attempt == Some(0) {
            return defect(format!("rules[{i}].attempt"), "attempts count from 1".into());
        }
        let usd = rule.usage.as_ref().and_then(|u| u.cost_usd).unwrap_or(0.0);
        if !(0.0..=1e9).contains(&usd) {
            return defect(
                format!("rules[{i}].usage.costUsd"),
                "a sum from 0 to 1000000000 is needed".into(),
            );
        }
        for (list, name) in [(&rule.edits, "edits"), (&rule.escape, "escape")] {
            if let Some(j) = list.iter().position(|edit| !edit.is_inside()) {
                let path = format!("rules[{i}].{name}[{j}]");
                return defect(path, "a path must be relative and stay inside its tree".into());
            }
        }
    }
    Ok(script)
}

impl Script {
    /// The first rule for this dispatch.
    pub fn rule(&self, role: Role, task: Option<&str>, attempt: u64) -> Option<&Rule> {
        self.rules.iter().find(|rule| {
            rule.role == role
                && (rule.task.is_none() || rule.task.as_deref() == task)
                && rule.attempt.is_none_or(|wanted| wanted == attempt)
        })
    }
}

impl Edit {
    fn is_inside(&self) -> bool {
        let plain = |path: &str| {
            !path.is_empty()
                && !path.starts_with('/')
                && path.split('/').all(|p| !matches!(p, "" | "." | ".."))
        };
        match self {
            Edit::Write(e) => plain(&e.path),
            Edit::Append(e) => plain(&e.path),
            Edit::Delete(e) => plain(&e.path) && e.delete,
            Edit::Rename(e) => plain(&e.path) && plain(&e.rename_to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: &str, expect: &str) {
        let text = format!(r#"{{"version":1,"rules":[{rule}]}}"#);
        match parse(text.as_bytes()) {
            Ok(_) => assert_eq!(expect, "", "{rule}"),
            Err(error) => {
                assert!(!expect.is_empty() && error.to_string().contains(expect), "{rule}: {error}")
            }
        }
    }

    #[test]
    fn a_script_is_refused_with_its_field() {
        check(r#"{"role":"plan","result":{"plan":[]}}"#, "");
        check(r#"{"role":"work","result":{"end":"hang"},"process":true}"#, "");
        check(r#"{"role":"work","result":{"rateLimited":{"resetInMs":5}}}"#, "");
        check(r#"{"role":"work","result":{"end":"nap"}}"#, "rules[0].result");
        check(r#"{"role":"cook","result":{"end":"none"}}"#, "rules[0].role");
        check(r#"{"role":"work","result":{"end":"none"},"delay":3}"#, "delay");
        check(r#"{"role":"work","result":{"end":"none"},"attempt":0}"#, "rules[0].attempt");
        let edit = |edit: &str| format!(r#"{{"role":"work","result":{{"end":"none"}},"edits":[{edit}]}}"#);
        check(&edit(r#"{"path":"a/b","content":""}"#), "");
        check(&edit(r#"{"path":"../b","content":""}"#), "rules[0].edits[0]");
        check(&edit(r#"{"path":"/b","append":"x"}"#), "rules[0].edits[0]");
        check(&edit(r#"{"path":"b","delete":false}"#), "rules[0].edits[0]");
        check(&edit(r#"{"path":"b","content":"x","mode":1}"#), "rules[0].edits[0]");
        let usage = r#"{"role":"work","result":{"end":"none"},"usage":{"costUsd":-1}}"#;
        check(usage, "rules[0].usage.costUsd");
    }

    #[test]
    fn the_first_rule_that_matches_is_followed() {
        let text = r#"{"version":1,"rules":[
            {"role":"work","task":"a","attempt":2,"result":{"end":"none"}},
            {"role":"work","task":"a","result":{"end":"hang"}},
            {"role":"work","result":{"end":"refuse"}}]}"#;
        let script = parse(text.as_bytes()).unwrap();
        let end = |task, n| match &script.rule(Role::Work, Some(task), n).unwrap().result {
            Ending::End(other) => other.end,
            other => panic!("{other:?}"),
        };
        assert_eq!((end("a", 1), end("a", 2), end("b", 2)), (EndWord::Hang, EndWord::None, EndWord::Refuse));
        assert!(script.rule(Role::Plan, None, 1).is_none());
    }

    #[test]
    fn money_is_read_to_the_millionth() {
        let used = Used { tokens: UsedTokens::default(), cost_usd: Some(0.1 + 0.2) };
        assert_eq!(used.usage().cost, Some(UsdMicros(300_000)));
    }
}
