//! Looks at everything around a loop and says what is wrong, whose it is and what to do next; also the
//! checks before arming. Looking changes nothing; arming writes GOAL.md and config.json and nothing else.

mod arming;
mod leftovers;
mod repair;

use std::path::{Path, PathBuf};

use devloop_core::ids::RouteKey;
use devloop_core::policy::Backend;
use devloop_core::state::LoopState;
use devloop_wire::config_doc::{self, Config, RouteConfig, SandboxMode};
use devloop_wire::config_price::PriceFrom;
use serde::Serialize;

use crate::backend::{self, Surroundings};
use crate::error::HostError;
use crate::files;
use crate::git::{Git, Repo};
use crate::process::confine;
use crate::session::Session;
use crate::settings;
use crate::store::ledger::Ledger;
use crate::store::wire_format::WireLines;
use crate::store::{Armed, Disk, Identity, Locks, UserFolder, history, layout};

pub use arming::{GOAL_FORM, arm, check_folder, check_goal, check_project, remedy};

pub use repair::repair;

pub(crate) use arming::edit_command;
use arming::{preflight, problem_error};

/// What a finding means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// As it should be.
    Well,
    /// Worth knowing.
    Note,
    /// Something to do.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it means.
    pub weight: Weight,
    /// What was looked at, one word.
    pub about: &'static str,
    /// One sentence.
    pub text: String,
    /// The file or folder.
    pub path: Option<PathBuf>,
    /// A command that would help, as an argv list.
    pub next: Option<Vec<String>>,
}

impl Finding {
    fn new(weight: Weight, about: &'static str, text: impl Into<String>) -> Finding {
        Finding { weight, about, text: text.into(), path: None, next: None }
    }

    fn well(about: &'static str, text: impl Into<String>) -> Finding {
        Finding::new(Weight::Well, about, text)
    }

    fn note(about: &'static str, text: impl Into<String>) -> Finding {
        Finding::new(Weight::Note, about, text)
    }

    fn problem(about: &'static str, text: impl Into<String>) -> Finding {
        Finding::new(Weight::Problem, about, text)
    }

    fn at(mut self, path: impl Into<PathBuf>) -> Finding {
        self.path = Some(path.into());
        self
    }

    fn try_next(mut self, argv: impl IntoIterator<Item = String>) -> Finding {
        self.next = Some(argv.into_iter().collect());
        self
    }

    /// An error as a finding; a hint that only leads back here is left out.
    fn from_error(about: &'static str, error: &HostError) -> Finding {
        let mut finding = Finding::problem(about, error.to_string());
        finding.path = error.path().map(Path::to_path_buf);
        finding.next =
            error.hints().iter().find(|hint| hint.get(1).is_none_or(|verb| verb != "doctor")).cloned();
        finding
    }
}

/// The commits of a branch, the newest first, one line each; at most 50.
///
/// # Errors
/// When the repository gives no answer.
pub fn log(root: &Path, branch: &str) -> Result<Vec<String>, HostError> {
    let git = Git::discover()?;
    let repo = Repo::open(&git, root)?.map_err(|problem| problem_error(&problem.into(), root))?;
    let full = format!("refs/heads/{branch}");
    let bytes = repo.call(["log", "--max-count=50", "--format=%h %s", &full, "--"]).ok()?;
    Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}

/// Looks at a project. What cannot be looked at is a finding too.
#[must_use]
pub fn examine(root: &Path, user: Option<&UserFolder>) -> Vec<Finding> {
    let mut found = Vec::new();
    let repo = look_at_repository(root, &mut found);
    let armed = look_at_arming(root, user, &mut found);
    let (Some(repo), Some(armed)) = (repo, armed) else { return found };
    let config = look_at_config(&armed, user, &mut found);
    let state = look_at_state(&armed, config.as_ref(), &mut found);
    look_at_owner(&armed, user, &mut found);
    look_at_ledger(user, &mut found);
    leftovers::look(&repo, &armed, state.as_deref(), &mut found);
    found
}

fn look_at_repository(root: &Path, found: &mut Vec<Finding>) -> Option<Repo> {
    let git = match Git::discover() {
        Ok(git) => git,
        Err(error) => {
            found.push(Finding::from_error("git", &error.into()));
            return None;
        }
    };
    found.push(Finding::well("git", format!("git {}", git.version())));
    let looked = match preflight(root) {
        Ok(looked) => looked,
        Err(error) => {
            found.push(Finding::from_error("repository", &error));
            return None;
        }
    };
    for problem in &looked.problems {
        let finding = Finding::problem("repository", problem.to_string()).at(root);
        found.push(finding.try_next(remedy(problem, root)));
    }
    found.extend(looked.repo.iter().flat_map(filters));
    if looked.problems.is_empty() {
        let branch = looked.branch.as_deref().unwrap_or("no branch");
        let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        found.push(Finding::well("repository", format!("clean, on {branch}")).at(root));
    }
    looked.repo
}

/// Content filters that the host does not run.
fn filters(repo: &Repo) -> Vec<Finding> {
    let refused = match repo.refused_filters() {
        Ok(refused) => refused,
        Err(error) => return vec![Finding::from_error("filter", &error.into())],
    };
    let finding = |name: std::ffi::OsString| {
        let name = name.to_string_lossy().into_owned();
        let allow = ["git", "config", "--global", "--add", "devloop.filter", &name].map(str::to_owned);
        let text =
            format!("the repository's content filter {name:?} is not run; allow it only if you know it");
        Finding::note("filter", text).at(repo.root()).try_next(allow)
    };
    refused.into_iter().map(finding).collect()
}

fn look_at_arming(root: &Path, user: Option<&UserFolder>, found: &mut Vec<Finding>) -> Option<Armed> {
    if user.is_none() {
        found.push(Finding::problem(
            "home",
            "there is no home folder for the ledger of spend: set DSH_HOME or HOME",
        ));
    }
    match check_goal(root) {
        Ok(armed) => {
            found.push(Finding::well("goal", "GOAL.md can be read").at(armed.goal()));
            Some(armed)
        }
        Err(error) => {
            found.push(Finding::from_error("goal", &error));
            layout::begun(root).ok().flatten().or_else(|| layout::require_armed(root).ok())
        }
    }
}

/// Whether a loop lives here. One that does was given agents if its routes ask for them.
fn is_run(armed: &Armed, user: Option<&UserFolder>) -> bool {
    let owner = user.and_then(|user| {
        let me = Identity::new_instance();
        Locks::new(armed.clone(), user.clone(), Disk::default(), me).owner_record().ok().flatten()
    });
    owner.is_some_and(|owner| !owner.released && owner.identity().is_alive() == Some(true))
}

/// Whether what a worker touches is held by the kernel.
fn look_at_sandbox(mode: SandboxMode) -> Finding {
    let free = "workers can read and write whatever you can";
    match (mode, confine::is_available()) {
        (SandboxMode::Off, _) => Finding::note("sandbox", format!("sandbox is off: {free}")),
        (_, true) => {
            Finding::well("sandbox", "Landlock holds every worker to its worktree and its own folders")
        }
        (SandboxMode::Auto, false) => {
            Finding::note("sandbox", format!("this kernel has no Landlock (version 3): {free}"))
        }
        (SandboxMode::Landlock, false) => Finding::problem(
            "sandbox",
            "sandbox is landlock, and this kernel has none (version 3): no worker is started",
        ),
    }
}

fn look_at_config(armed: &Armed, user: Option<&UserFolder>, found: &mut Vec<Finding>) -> Option<Config> {
    let path = armed.config();
    if files::stamp(&path).is_none() {
        found.push(Finding::note(
            "config",
            "there is no config.json: the backend is noop, limits are the defaults",
        ));
        return settings::for_command(&Disk::default(), armed).ok().map(|(config, _)| config);
    }
    let bytes = match files::read_bytes(&path, 1024 * 1024) {
        Ok(bytes) => bytes,
        Err(problem) => {
            found.push(Finding::from_error("config", &problem.into()));
            return None;
        }
    };
    let config = match config_doc::parse(&bytes) {
        Ok(config) => config,
        Err(faults) => {
            let edit = edit_command(&path);
            let faults = faults.iter().map(|fault| Finding::problem("config", fault.to_string()).at(&path));
            found.extend(faults.map(|finding| finding.try_next(edit.clone())));
            return None;
        }
    };
    for warning in &config.warnings {
        found.push(Finding::note("config", warning.to_string()).at(&path));
    }
    let problems = backend::problems(&config, &Surroundings::of_process());
    found.extend(problems.iter().map(|text| Finding::problem("backend", text.clone()).at(&path)));
    found.push(look_at_sandbox(config.sandbox.mode));
    found.extend(prices(&config).into_iter().map(|text| Finding::note("price", text).at(&path)));
    let missed = backend::agents_missed(&config).filter(|_| !is_run(armed, user));
    let well = config.warnings.is_empty() && problems.is_empty() && missed.is_none();
    let missed = missed.map(|text| Finding::problem("backend", text).at(&path));
    found.extend(missed.map(|finding| finding.try_next(edit_command(&path))));
    if well {
        found.push(Finding::well("config", "every field is understood").at(path));
    }
    Some(config)
}

/// What is known of the price of every route that does work, one sentence each.
fn prices(config: &Config) -> Vec<String> {
    let sentence = |(key, route): (&RouteKey, &RouteConfig)| {
        let who = format!("route {key} ({})", route.identity);
        // Claude Code tells its own money; what is priced is a run that was killed.
        let told = route.backend == Backend::Claude;
        match (route.backend, &route.price_from) {
            (Backend::Noop | Backend::Scripted, _) | (_, PriceFrom::Own) => None,
            (_, PriceFrom::Listed(row)) => {
                Some(format!("{who} is priced by the list of {}: {}", row.as_of, row.source))
            }
            (_, PriceFrom::NoRate(row)) => Some(format!(
                "{who} has a list price of {} in yuan; set usdPerCny, or its runs count with what they set \
                 aside",
                row.as_of
            )),
            (_, PriceFrom::Nobody) if told => None,
            (_, PriceFrom::Nobody) => Some(format!(
                "{who} has no known price: set its price, or its runs count with what they set aside"
            )),
        }
    };
    config.routes.iter().filter_map(sentence).collect()
}

fn look_at_state(
    armed: &Armed,
    config: Option<&Config>,
    found: &mut Vec<Finding>,
) -> Option<std::sync::Arc<LoopState>> {
    match files::stamp(&armed.events()).map(|_| history::verify(armed, &WireLines)) {
        None => found.push(Finding::note("journal", "nothing was recorded yet")),
        Some(Ok(None)) => found.push(Finding::note("journal", "nothing was recorded yet")),
        Some(Ok(Some(report))) => {
            let whole = if report.complete { "" } else { "; older segments are gone" };
            let text = format!("{} lines up to revision {}{whole}", report.lines, report.last_revision);
            found.push(Finding::well("journal", text).at(armed.events()));
        }
        Some(Err(error)) => found.push(Finding::from_error("journal", &error.into()).at(armed.events())),
    }
    let policy = config.map_or_else(|| Config::default().policy(), Config::policy);
    let looked = Session::new(armed.clone(), Disk::default(), policy).and_then(|mut session| {
        session.look()?;
        Ok(session)
    });
    match looked {
        Ok(mut session) => {
            let notes = session.take_notes();
            found.extend(notes.into_iter().map(|text| Finding::note("state", text).at(armed.state())));
            found.push(
                Finding::well("state", format!("revision {}", session.state().revision)).at(armed.state()),
            );
            Some(session.state())
        }
        Err(error) => {
            let mut finding = Finding::from_error("state", &error);
            if finding.next.is_none() {
                let root = armed.root().to_string_lossy().into_owned();
                finding = finding.try_next(["devloop".to_owned(), "replay".to_owned(), root]);
            }
            found.push(finding);
            None
        }
    }
}

/// What cannot be read of the ledger is missing from the sums that caps are compared with.
fn look_at_ledger(user: Option<&UserFolder>, found: &mut Vec<Finding>) {
    let Some(user) = user else { return };
    match Ledger::look(user, &Disk::default()) {
        Ok(ledger) => found.extend(ledger.doubt().map(|text| Finding::problem("ledger", text))),
        Err(error) => found.push(Finding::from_error("ledger", &error.into()).at(user.ledger())),
    }
}

fn look_at_owner(armed: &Armed, user: Option<&UserFolder>, found: &mut Vec<Finding>) {
    let Some(user) = user else { return };
    let locks = Locks::new(armed.clone(), user.clone(), Disk::default(), Identity::new_instance());
    match locks.owner_record() {
        Err(error) => found.push(Finding::from_error("owner", &error.into())),
        Ok(None) => found.push(Finding::note("owner", "no loop ever ran here")),
        Ok(Some(owner)) => {
            let (pid, host) = (owner.pid, &owner.host);
            let finding = match (owner.released, owner.identity().is_alive()) {
                (true, _) => {
                    Finding::well("owner", format!("the last loop (process {pid}) ended in an orderly way"))
                }
                (false, Some(true)) => Finding::well("owner", format!("process {pid} runs the loop")),
                (false, Some(false)) => Finding::note(
                    "owner",
                    format!("the last loop (process {pid}) died; the next one settles its work"),
                ),
                (false, None) => {
                    Finding::note("owner", format!("process {pid} on {host} holds the project or died there"))
                }
            };
            found.push(finding.at(armed.owner()));
        }
    }
}
