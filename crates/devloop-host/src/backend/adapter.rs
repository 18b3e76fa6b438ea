//! What is known about one command line, as data: its words, variables, folders, prompt channel, login, how
//! it is stopped, and who reads what it printed. It runs nothing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use devloop_core::report::Usage;
use devloop_core::units::WallMs;

use super::fault::Found;
use super::login::Login;
use crate::effects::run_record::Role;
use crate::process::{CancelToken, Captured, StopPlan, Talk};

/// One command line.
pub(super) struct Adapter {
    /// Its name in sentences, and its program unless the operator names another.
    pub name: &'static str,
    /// Its words behind the program, in order.
    pub words: &'static [Words],
    /// Variables it is given.
    pub env: &'static [Var],
    /// Variables that it takes over from the loop when they are set there; no logins.
    pub inherit: &'static [&'static str],
    /// Where its own login comes from.
    pub login: Login,
    /// How the prompt reaches it.
    pub prompt: Channel,
    /// The most bytes of its output that are read; more is no result.
    pub output_max_bytes: usize,
    /// How it is asked to end.
    pub stop: StopPlan,
    /// Files it needs besides the prompt, written before it starts.
    pub lay_out: fn(&Layout<'_>) -> Result<(), String>,
    /// Talks to it instead, where it is not simply asked and read; see [`Channel::Talk`].
    pub talk: Option<fn(Talk, &Talking<'_>) -> Answer>,
    /// Reads what it printed.
    pub read: fn(&Seen<'_>) -> Answer,
    /// What its own records say that it used.
    pub recorded: fn(&Places) -> Option<Usage>,
    /// Words of the operator that make it go on with an older session: its totals then cover that too.
    pub resumes: &'static [&'static str],
    /// Whether a result that misses the form is asked for once more, read-only.
    pub repairs: bool,
}

/// When a word or a variable is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Always.
    Always,
    /// To a worker.
    Works,
    /// To whoever may only read: planner, reviewer, and a repair of a result.
    Reads,
}

impl When {
    fn holds(self, reads: bool) -> bool {
        match self {
            When::Always => true,
            When::Works => !reads,
            When::Reads => reads,
        }
    }
}

/// Words that belong together. `{name}` stands for a value of the run; where one has none, all are left out.
/// The word `{args}` stands for the operator's own words.
pub(super) struct Words(pub When, pub &'static [&'static str]);

/// A variable with its value, which may hold `{name}` too.
pub(super) struct Var(pub When, pub &'static str, pub &'static str);

/// How a prompt reaches a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// On its standard input, which is then closed.
    Stdin,
    /// As `{prompt}` among its words; one that is too long for that is named by its file.
    Word,
    /// On its standard input, unless its words name `{prompt_file}`.
    StdinOrFile,
    /// In a conversation over both streams.
    Talk,
}

/// What a conversation is about.
pub(super) struct Talking<'a> {
    /// The folder of the work.
    pub cwd: &'a Path,
    pub prompt: &'a str,
    pub reads: bool,
    /// Cancelled when the run should end.
    pub cancel: &'a CancelToken,
    pub now: WallMs,
}

/// What a run is about, for generated files.
pub(super) struct Layout<'a> {
    pub places: &'a Places,
    pub model: Option<&'a str>,
    pub provider: &'a str,
    /// The output ceiling of the dispatch, in tokens.
    pub max_tokens: Option<u64>,
    pub reads: bool,
    /// The user's own DSH folder.
    pub dsh_home: Option<PathBuf>,
}

/// The private files of one attempt.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// Its config home.
    pub config: PathBuf,
    /// The prompt.
    pub prompt: PathBuf,
    /// The form of its result.
    pub schema: PathBuf,
    /// Its last words, where a program writes them to a file.
    pub last: PathBuf,
    /// A patch of its configuration.
    pub patch: PathBuf,
    /// A plugin of its, mounted by the patch.
    pub plugin: PathBuf,
    /// What that plugin notes.
    pub report: PathBuf,
}

impl Places {
    /// Below the folder of one attempt.
    pub fn below(dir: &Path) -> Places {
        Places {
            config: dir.join("config"),
            prompt: dir.join("prompt.md"),
            schema: dir.join("schema.json"),
            last: dir.join("last.txt"),
            patch: dir.join("patch.yml"),
            plugin: dir.join("plugin.mjs"),
            report: dir.join("report.jsonl"),
        }
    }
}

/// What a program printed and how it ended.
pub(super) struct Seen<'a> {
    /// Standard output; never cut, see [`Adapter::output_max_bytes`].
    pub stdout: &'a Captured,
    /// The end of standard error.
    pub stderr: &'a str,
    /// Exit code, when it exited by itself.
    pub code: Option<i32>,
    /// What it wrote to [`Places::last`].
    pub last: Option<&'a str>,
    /// Now, for resets that are told relative to it.
    pub now: WallMs,
}

/// What a program's output means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// What it said.
    pub said: Said,
    /// What it says that it used.
    pub usage: Option<Usage>,
}

/// What a program said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// Its last words, to be looked through for the result.
    Text(String),
    /// It failed.
    Fault(Found),
    /// It ended before any provider was asked.
    Refused(String),
    /// Nothing that can be read.
    Unreadable(String),
}

impl Said {
    /// With what it used.
    pub fn with(self, usage: Option<Usage>) -> Answer {
        Answer { said: self, usage }
    }
}

/// Values of `{name}` places.
pub(super) type Values = Vec<(&'static str, OsString)>;

/// Puts the words together.
pub(super) fn argv(words: &[Words], values: &Values, args: &[String], reads: bool) -> Vec<OsString> {
    let mut out = Vec::new();
    for Words(when, group) in words {
        if !when.holds(reads) {
            continue;
        }
        if *group == ["{args}"] {
            out.extend(args.iter().map(OsString::from));
        } else if let Some(filled) =
            group.iter().map(|word| fill(word, values)).collect::<Option<Vec<OsString>>>()
        {
            out.extend(filled);
        }
    }
    out
}

/// The variables that hold for this run.
pub(super) fn variables(env: &[Var], values: &Values, reads: bool) -> Vec<(&'static str, OsString)> {
    let held = env.iter().filter(|Var(when, ..)| when.holds(reads));
    held.filter_map(|Var(_, name, value)| Some((*name, fill(value, values)?))).collect()
}

/// A word with its places filled in one pass: what a value holds is never looked at. `None` when one has no
/// value.
pub(super) fn fill(word: &str, values: &Values) -> Option<OsString> {
    let mut out = OsString::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        let inner = &rest[at + 1..];
        let Some(end) = inner.find('}').filter(|end| is_name(&inner[..*end])) else {
            out.push(&rest[..=at]);
            rest = inner;
            continue;
        };
        out.push(&rest[..at]);
        let name = &inner[..end];
        out.push(values.iter().find(|(known, _)| *known == name).map(|(_, value)| value)?);
        rest = &inner[end + 1..];
    }
    out.push(OsStr::new(rest));
    Some(out)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// Whether this role may only read.
pub(super) fn reads(role: Role) -> bool {
    match role {
        Role::Plan | Role::Review => true,
        Role::Work => false,
    }
}

/// What a recorded output means, in a short line, for the tables of the adapters.
#[cfg(test)]
pub(super) fn replayed(adapter: &Adapter, output: &str, code: i32) -> String {
    meaning(adapter, output, "words", code)
}

/// The same with what it wrote to standard error.
#[cfg(test)]
pub(super) fn meaning(adapter: &Adapter, output: &str, stderr: &str, code: i32) -> String {
    let stdout = Captured { bytes: output.as_bytes().to_vec(), ..Captured::default() };
    // 2026-01-01.
    let now = WallMs(1_767_225_600_000);
    let Answer { said, usage } =
        (adapter.read)(&Seen { stdout: &stdout, stderr, code: Some(code), last: None, now });
    let used = |free: bool| match usage {
        Some(Usage { tokens: t, cost, .. }) => {
            let cost = cost.map_or("-".to_owned(), |cost| cost.0.to_string());
            format!("{} {} {} {} {cost}", t.input_uncached, t.cache_read, t.cache_write, t.output)
        }
        None if free => "free".to_owned(),
        None => "unknown".to_owned(),
    };
    match said {
        Said::Text(text) => format!("text {text}; {}", used(false)),
        Said::Refused(_) => "refused".to_owned(),
        Said::Unreadable(_) => format!("unreadable; {}", used(false)),
        Said::Fault(found) => {
            let reset = if found.until.is_some() { " with its reset" } else { "" };
            format!("{:?}{reset}; {}", found.fault, used(found.is_free()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_filled_once_and_a_group_without_its_value_is_left_out() {
        let words = [
            Words(When::Always, &["run"]),
            Words(When::Always, &["--model", "{model}"]),
            Words(When::Works, &["--write"]),
            Words(When::Reads, &["--schema", "{schema}"]),
            Words(When::Always, &["{args}"]),
            Words(When::Always, &["-c", "a={tmp}/x {\"j\":1}", "{prompt}"]),
        ];
        let values: Values = vec![("tmp", "/t".into()), ("prompt", "say {model}".into())];
        let args = ["--own".to_owned()];
        let got = argv(&words, &values, &args, false);
        assert_eq!(got, ["run", "--write", "--own", "-c", "a=/t/x {\"j\":1}", "say {model}"]);
        let more: Values =
            values.into_iter().chain([("schema", "{}".into()), ("model", "m".into())]).collect();
        let got = argv(&words[..4], &more, &[], true);
        assert_eq!(got, ["run", "--model", "m", "--schema", "{}"]);
    }
}
