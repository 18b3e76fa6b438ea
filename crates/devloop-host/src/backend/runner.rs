//! Runs one command line for one dispatch, as its adapter says: private folders, exactly one login, a bounded
//! output, staged stop, and at most one more run that asks for nothing but the form of the result. It knows
//! no program by name.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

use devloop_core::report::{FailureClass, Outcome, Usage, UsageBasis, UsageSource};
use devloop_core::task::clip;
use devloop_core::units::{Tokens, UsdMicros, WallMs};
use devloop_wire::envelope::{self, Expected};

use super::adapter::{self, Adapter, Answer, Channel, Layout, Places, Said, Seen, Talking, Values};
use super::fault::{Fault, Found};
use super::login::{self, Key};
use super::redact::Secrets;
use super::{Backend, BackendResult, Ground, Run, expected, installed, stop_of};
use crate::clock::system_wall_ms;
use crate::effects::prompt;
use crate::files::{self, FileProblem};
use crate::process::{
    self, CancelToken, ChildEnv, Confinement, Exit, Held, Running, Sink, SpawnError, Spec, Talk,
};

/// What is kept of standard error, its end.
const STDERR_BYTES: usize = 64 * 1024;
/// What a sentence quotes of it.
const QUOTED_CHARS: usize = 600;
/// The longest prompt that is given as a word: one word of a program is at most 128 KiB.
const WORD_MAX_BYTES: usize = 96 * 1024;
/// The largest file of the user's that is copied.
const COPY_MAX_BYTES: u64 = 1024 * 1024;
/// Below this, no second run is started.
const REPAIR_MIN_MS: u64 = 5_000;

/// A command line as a backend.
pub(super) struct CommandLine {
    adapter: &'static Adapter,
    ground: Ground,
}

impl std::fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandLine").field("name", &self.adapter.name).finish_non_exhaustive()
    }
}

/// One start of the program within a dispatch.
pub(super) struct Attempt<'a> {
    pub number: u32,
    pub prompt: &'a str,
    pub reads: bool,
    pub limit_ms: u64,
}

/// How an attempt ended.
pub(super) enum Ended {
    /// With this outcome, whatever it said.
    For(Outcome),
    /// By itself, with these words.
    Said(String),
}

impl CommandLine {
    pub(super) fn new(adapter: &'static Adapter, ground: Ground) -> CommandLine {
        CommandLine { adapter, ground }
    }

    /// The program that the operator names, else the adapter's own name, with words that always stand first.
    fn program(&self) -> Vec<OsString> {
        match self.ground.adapter.argv.as_slice() {
            [] => vec![self.adapter.name.into()],
            argv => argv.iter().map(OsString::from).collect(),
        }
    }

    fn attempt(&self, run: &Run<'_>, key: Option<&Key>, attempt: &Attempt<'_>) -> (Ended, Option<Usage>) {
        let refused = |why: String| (Ended::For(Outcome::Refused { detail: clip(&why) }), None);
        let root = run.folders.home.parent().unwrap_or(&run.folders.home);
        let places = Places::below(&root.join(format!("run-{}", attempt.number)));
        let spec = match self.spec(run, key, attempt, &places) {
            Ok(spec) => spec,
            Err(why) => return refused(why),
        };
        let started = match self.adapter.talk {
            Some(_) => process::spawn_talking(&spec).map(|(running, talk)| (running, Some(talk))),
            None => process::spawn(&spec).map(|running| (running, None)),
        };
        let (running, talk) = match started {
            Ok(started) => started,
            Err(error @ SpawnError::NotFound { .. }) => {
                return refused(format!("{error}; install it or name it under {}.argv", self.adapter.name));
            }
            Err(error) => return refused(error.to_string()),
        };
        (run.started)(running.record());
        let (exit, heard) = match talk {
            None => (running.wait(run.cancel), None),
            Some(talk) => self.converse(run, attempt, running, talk),
        };
        let last = read_text(&places.last, self.adapter.output_max_bytes as u64);
        let recorded = || (self.adapter.recorded)(&places);
        self.judge(&exit, heard, last.as_deref(), recorded)
    }

    /// Talks to a program until both are done with each other. One that stays after its answer is ended; that
    /// is no fault of its answer.
    fn converse(
        &self,
        run: &Run<'_>,
        attempt: &Attempt<'_>,
        running: Running,
        talk: Talk,
    ) -> (Exit, Option<Answer>) {
        let (Some(converse), done) = (self.adapter.talk, CancelToken::new()) else {
            return (running.wait(run.cancel), None);
        };
        let talking = Talking {
            cwd: run.worktree.root(),
            prompt: attempt.prompt,
            reads: attempt.reads,
            cancel: run.cancel,
            now: WallMs(system_wall_ms()),
        };
        thread::scope(|scope| {
            let speaker = scope.spawn(|| {
                let answer = converse(talk, &talking);
                done.cancel();
                answer
            });
            let mut exit = running.wait(&done);
            let answer = speaker.join().ok();
            exit.cancelled &= run.cancel.is_cancelled();
            if answer.is_some() && !exit.cancelled {
                // It was ended because its work was done, whichever signal that took.
                exit.signal = None;
            }
            (exit, answer)
        })
    }

    /// What a finished process comes to. A stop of ours goes before anything that it said.
    fn judge(
        &self,
        exit: &Exit,
        heard: Option<Answer>,
        last: Option<&str>,
        recorded: impl Fn() -> Option<Usage>,
    ) -> (Ended, Option<Usage>) {
        let stderr = exit.stderr.text();
        let seen = Seen {
            stdout: &exit.stdout,
            stderr: stderr.trim(),
            code: exit.code,
            last,
            now: WallMs(system_wall_ms()),
        };
        let Answer { said, usage } = match (heard, exit.stdout.omitted_bytes) {
            (Some(answer), _) => answer,
            (None, 0) => (self.adapter.read)(&seen),
            (None, _) => Said::Unreadable(format!(
                "it printed {} bytes, more than the {} that are read",
                exit.stdout.total_bytes, self.adapter.output_max_bytes
            ))
            .with(None),
        };
        let usage = usage.or_else(recorded).map(|used| self.covers(used));
        if !exit.survivors.is_empty() {
            let detail = format!("{} processes of the run could not be ended", exit.survivors.len());
            return (Ended::For(Outcome::Failed { class: FailureClass::Machine, detail }), usage);
        }
        if let Some(stop) = stop_of(exit) {
            // One that waited for a network until its time was up did not use it up.
            let offline = |found: &&Found| exit.timed_out && found.fault == Fault::NetworkDown;
            let stop = match &said {
                Said::Fault(found) => Some(found).filter(offline).map_or(stop, Found::outcome),
                _ => stop,
            };
            return (Ended::For(stop), usage);
        }
        come_to(said, usage)
    }

    /// The same use, and what it covers where the operator's words go on with an older session.
    fn covers(&self, used: Usage) -> Usage {
        let resumes = |word: &String| {
            let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
            self.adapter.resumes.contains(&name)
        };
        let own = &self.ground.adapter;
        // Short words before the program's own may be those of a shell.
        let first = own.argv.iter().skip(1).filter(|word| word.len() > 2);
        match first.chain(&own.args).any(resumes) {
            true => Usage { basis: UsageBasis::Cumulative, ..used },
            false => used,
        }
    }

    fn spec(
        &self,
        run: &Run<'_>,
        key: Option<&Key>,
        attempt: &Attempt<'_>,
        places: &Places,
    ) -> Result<Spec, String> {
        let adapter = self.adapter;
        let route = &self.ground.route;
        let layout = Layout {
            places,
            model: route.model.as_deref(),
            provider: &route.provider,
            max_tokens: route.max_tokens,
            reads: attempt.reads,
            dsh_home: self.ground.around.dsh_home(),
        };
        let schema = prompt::schema(run.job);
        make_folder(&places.config)?;
        write(&places.prompt, attempt.prompt.as_bytes())?;
        write(&places.schema, schema.as_bytes())?;
        if let Some(Key::File(name, bytes)) = key {
            write(&places.config.join(name), bytes)?;
        }
        (adapter.lay_out)(&layout)?;
        let values = values(&layout, run, attempt.prompt, schema);
        let mut argv = Vec::new();
        let mut in_words = matches!(adapter.prompt, Channel::Word | Channel::Talk);
        for word in self.program() {
            in_words |=
                adapter.prompt == Channel::StdinOrFile && word.to_string_lossy().contains("{prompt_file}");
            let filled = word.to_str().and_then(|word| adapter::fill(word, &values));
            argv.push(filled.unwrap_or(word));
        }
        argv.extend(adapter::argv(adapter.words, &values, &self.ground.adapter.args, attempt.reads));
        let half = adapter.output_max_bytes / 2;
        Ok(Spec {
            argv,
            cwd: run.worktree.root().to_path_buf(),
            env: self.env(run, key, &values, attempt.reads),
            stdin: (!in_words).then(|| attempt.prompt.as_bytes().to_vec()),
            stdout: Sink::Memory { head_bytes: half, tail_bytes: adapter.output_max_bytes - half },
            stderr: Sink::Memory { head_bytes: 0, tail_bytes: STDERR_BYTES },
            deadline_ms: Some(attempt.limit_ms),
            stop: adapter.stop,
            confine: run.confine.map(|confine| self.with_program(confine)),
            held: Some(Held { marker: run.marker.to_owned(), limits: run.limits }),
        })
    }

    /// A program may read what is installed beside it.
    fn with_program(&self, confine: &Confinement) -> Confinement {
        let mut confine = confine.clone();
        let around = &self.ground.around;
        let named = self.program().into_iter().next().map(PathBuf::from);
        let found = named.and_then(|name| installed::find(&name, around));
        confine.read.extend(found.iter().flat_map(|path| installed::with_program(path, around)));
        confine
    }

    fn env(&self, run: &Run<'_>, key: Option<&Key>, values: &Values, reads: bool) -> ChildEnv {
        let own = self.ground.adapter.env.iter().map(String::as_str);
        let names: Vec<&str> = self.adapter.inherit.iter().copied().chain(own).collect();
        let mut env = ChildEnv::worker_from(self.ground.around.iter(), &names);
        env.use_folders(run.folders, true);
        for name in &self.ground.adapter.env {
            if let (None, Some(value)) = (env.get(name), login::listed(name, &self.ground.around)) {
                env.set(name, value);
            }
        }
        for (name, value) in adapter::variables(self.adapter.env, values, reads) {
            env.set(name, value);
        }
        if let Some(Key::Var(name, value)) = key {
            env.set(*name, value);
        }
        env
    }

    /// What the program is given and must not say.
    fn secrets(&self, key: Option<&Key>) -> Secrets {
        let around = &self.ground.around;
        let value = |name: &String| {
            around.get(name).map(OsString::from).or_else(|| login::listed(name, around).map(OsString::from))
        };
        let named: Vec<OsString> = self.ground.adapter.env.iter().filter_map(value).collect();
        Secrets::new(key, named.iter().map(OsString::as_os_str))
    }

    /// The one login that is handed on. A program that the operator gives variables of its own needs none.
    fn key(&self) -> Result<Option<Key>, String> {
        let login = &self.adapter.login;
        let found = login::find(login, &self.ground.around)?;
        if found.is_none() && !login.vars.is_empty() && self.ground.adapter.env.is_empty() {
            let (name, places) = (self.adapter.name, login::places(login));
            return Err(format!("there is no login for {name}; looked for {places}"));
        }
        Ok(found)
    }
}

/// What its words come to, when it ended by itself.
pub(super) fn come_to(said: Said, usage: Option<Usage>) -> (Ended, Option<Usage>) {
    match said {
        Said::Text(text) => (Ended::Said(text), usage),
        // Whatever it says, somebody was asked.
        Said::Refused(why) if usage.is_some_and(|used| used.tokens.total() > 0) => {
            (Ended::For(Found::known(Fault::Unknown, why).outcome()), usage)
        }
        Said::Refused(why) => (Ended::For(Outcome::Refused { detail: clip(&why) }), None),
        Said::Unreadable(why) => (Ended::For(Outcome::InvalidResult { detail: clip(&why) }), usage),
        Said::Fault(found) => {
            // A provider that refused before it worked bills nothing.
            let free = found.is_free() && usage.is_none_or(|used| used.tokens.total() == 0);
            let nothing = Usage::per_dispatch(UsageSource::Result, Tokens::default(), Some(UsdMicros(0)));
            (Ended::For(found.outcome()), if free { Some(nothing) } else { usage })
        }
    }
}

impl Backend for CommandLine {
    fn run(&self, run: &Run<'_>) -> BackendResult {
        let key = match self.key() {
            Ok(key) => key,
            Err(why) => return BackendResult::refused(why),
        };
        let BackendResult { outcome, usage } =
            judged(run, self.adapter.repairs, |attempt| self.attempt(run, key.as_ref(), attempt));
        BackendResult { outcome: self.secrets(key.as_ref()).hide(outcome), usage }
    }
}

/// One run, and where its result misses the form and `repairs` is set one more that only mends that.
pub(super) fn judged(
    run: &Run<'_>,
    repairs: bool,
    attempt: impl Fn(&Attempt<'_>) -> (Ended, Option<Usage>),
) -> BackendResult {
    let reads = adapter::reads(run.role());
    let (ended, usage) = attempt(&Attempt { number: 1, prompt: run.prompt, reads, limit_ms: run.limit_ms });
    let text = match ended {
        Ended::For(outcome) => return BackendResult { outcome, usage },
        Ended::Said(text) => text,
    };
    let expected = expected(run);
    let fault = envelope::parse(&text).err().filter(|_| repairs);
    let left_ms =
        run.deadline.wait_at_most(std::time::Duration::from_millis(run.limit_ms)).as_millis() as u64;
    let Some(fault) = fault.filter(|fault| fault.is_repairable() && left_ms > REPAIR_MIN_MS) else {
        return BackendResult { outcome: envelope::outcome(&text, expected), usage };
    };
    if let Some(stop) = run.ended() {
        return BackendResult { usage, ..stop };
    }
    let again = prompt::repair(run.job, &text, &fault.to_string());
    let (ended, more) = attempt(&Attempt { number: 2, prompt: &again, reads: true, limit_ms: left_ms });
    let outcome = match ended {
        Ended::For(
            stop @ Outcome::Failed { class: FailureClass::Cancelled | FailureClass::Deadline, .. },
        ) => stop,
        // The first run worked; that its form could not be mended is not a refusal and no route's fault.
        Ended::For(_) => Outcome::InvalidResult { detail: clip(&fault.to_string()) },
        Ended::Said(text) => mended(&text, expected),
    };
    BackendResult { outcome, usage: sum(usage, more) }
}

/// The outcome of a repair: whatever is wrong with it now, a result was there and is not valid.
fn mended(text: &str, expected: Expected<'_>) -> Outcome {
    match envelope::outcome(text, expected) {
        Outcome::NoResult { detail } => Outcome::InvalidResult { detail },
        other => other,
    }
}

/// Both runs are billed. What is known of one is never lost because the other said nothing, but it is a part.
fn sum(first: Option<Usage>, second: Option<Usage>) -> Option<Usage> {
    let (Some(a), Some(b)) = (first, second) else {
        return first.or(second).map(|one| Usage { basis: UsageBasis::Partial, ..one });
    };
    let (s, t) = (a.tokens, b.tokens);
    let tokens = Tokens {
        input_uncached: s.input_uncached.saturating_add(t.input_uncached),
        cache_read: s.cache_read.saturating_add(t.cache_read),
        cache_write: s.cache_write.saturating_add(t.cache_write),
        output: s.output.saturating_add(t.output),
        reasoning: s.reasoning.saturating_add(t.reasoning),
    };
    let cost = a.cost.zip(b.cost).map(|(a, b)| a.plus(b.0));
    // Money of one run alone is no sum; the tokens of both are, and have a price or none.
    let basis = if a.basis == UsageBasis::PerDispatch { b.basis } else { a.basis };
    Some(Usage { tokens, cost, source: b.source, basis })
}

/// The end of a text that a sentence can quote.
pub(super) fn quoted(text: &str) -> String {
    let skip = text.chars().count().saturating_sub(QUOTED_CHARS);
    text.chars().skip(skip).collect::<String>().trim().to_owned()
}

fn values(layout: &Layout<'_>, run: &Run<'_>, prompt: &str, schema: &str) -> Values {
    let places = layout.places;
    let word: OsString = if prompt.len() <= WORD_MAX_BYTES {
        prompt.into()
    } else {
        format!("Read the file {} completely and do what it says.", places.prompt.display()).into()
    };
    let mut values: Values = vec![
        ("config", places.config.clone().into()),
        ("prompt_file", places.prompt.clone().into()),
        ("schema_file", places.schema.clone().into()),
        ("last", places.last.clone().into()),
        ("patch", places.patch.clone().into()),
        ("schema", schema.into()),
        ("prompt", word),
        ("role", run.role().word().into()),
        ("identity", run.identity.as_str().into()),
    ];
    values.extend(layout.model.map(|model| ("model", OsString::from(model))));
    values.extend(run.contract().map(|contract| ("task", OsString::from(contract.task.as_str()))));
    values
}

/// Copies a file of the user's; a missing one is left missing.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let Ok(from) = files::canonical(from) else { return Ok(()) };
    let bytes = files::read_bytes(&from, COPY_MAX_BYTES).map_err(|problem| problem.to_string())?;
    write(to, &bytes)
}

fn make_folder(path: &Path) -> Result<(), String> {
    files::ensure_private_dir(path).map_err(|error| format!("cannot make {}: {error}", path.display()))
}

/// Writes a private file of a run.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let write = || files::create_private(path)?.write_all(bytes);
    write().map_err(|error: std::io::Error| format!("cannot write {}: {error}", path.display()))
}

/// Reads a file that a program may have written; none when it did not, or wrote something else.
pub(super) fn read_text(path: &Path, max_bytes: u64) -> Option<String> {
    match files::read_bytes(path, max_bytes) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(FileProblem::Missing { .. }) => None,
        Err(_) => None,
    }
}

/// Every file below a folder whose name ends so, at most four folders deep, in order.
pub(super) fn files_below(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    fn walk(dir: &Path, suffix: &str, depth: u32, found: &mut Vec<PathBuf>) {
        let Ok(mut names) = files::list_names(dir) else { return };
        names.sort();
        for name in names {
            let path = dir.join(&name);
            match files::stamp(&path) {
                Some(stamp) if stamp.symlink => {}
                Some(stamp) if stamp.folder && depth > 0 => walk(&path, suffix, depth - 1, found),
                Some(stamp) if !stamp.folder && name.to_string_lossy().ends_with(suffix) => found.push(path),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(dir, suffix, 4, &mut found);
    found
}

/// Nothing besides the prompt is needed.
pub(super) fn nothing_to_lay_out(_: &Layout<'_>) -> Result<(), String> {
    Ok(())
}

/// A program without session records.
pub(super) fn no_records(_: &Places) -> Option<Usage> {
    None
}

/// The outcome of a run that ended before its time; kept here so that adapters need no other place.
pub(super) fn gave_up(text: impl Into<String>) -> Said {
    Said::Fault(Found::known(Fault::GaveUp, text))
}
