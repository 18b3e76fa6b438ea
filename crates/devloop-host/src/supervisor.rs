//! The one loop of a project: owns OWNER, beats, and performs what was decided after it is durable. It
//! decides nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use devloop_core::command::Command;
use devloop_core::cost::Forecast;
use devloop_core::decide::{Decision, Input};
use devloop_core::effect::Effect;
use devloop_core::event::Event;
use devloop_core::ids::{Branch, DispatchId, TaskId};
use devloop_core::observation::{MAX_REPORTS, Observation, Others, ProcessTree};
use devloop_core::policy::Backend;
use devloop_core::reason::Reason;
use devloop_core::report::Report;
use devloop_core::state::{Lease, LoopState, Op};
use devloop_core::units::WallMs;
use devloop_wire::config_doc::Config;
use serde::Serialize;

use crate::backend::{self, AgentPort, Surroundings};
use crate::clock::{Clock, SystemClock};
use crate::command::{self, CommandReport};
use crate::cost;
use crate::doctor::{check_goal, edit_command};
use crate::effects::{EffectConfig, Performer, Setting};
use crate::error::{ErrorKind, HostError};
use crate::files;
use crate::git::{Git, Repo};
use crate::lost::Lost;
use crate::observe::{self, Observer, open_repo};
use crate::scratch;
use crate::session::Session;
use crate::settings;
use crate::shared;
use crate::store::ledger::Ledger;
use crate::store::points::{self, Point};
use crate::store::{self, Armed, Disk, Identity, LedgerGuard, Locks, OwnerGuard, UserFolder, Wait, small};
use crate::told::Told;
use crate::view::{self, OwnerView, View};
use crate::watch::Watch;
use crate::worktree::Worktrees;

/// How long a beat waits for a commit of another process, in milliseconds.
const LOCK_WAIT_MS: u64 = 2_000;
/// How long closing waits for cancelled dispatches, in milliseconds.
const CLOSE_GRACE_MS: u64 = 5_000;

/// How a supervisor is opened.
#[derive(Clone)]
pub struct Options {
    /// The project's root.
    pub root: PathBuf,
    /// The user's devloop folder's parent: `$DSH_HOME`.
    pub devloop_home: PathBuf,
    /// The profile's configuration as JSON; `null` or an empty object for none.
    pub config_json: String,
    /// Called when something finished or another process committed: beat at once.
    pub wake: Arc<dyn Fn() + Send + Sync>,
    /// Agents of the process that opens it; none where it has none, and routes that ask for them are refused.
    pub agents: Option<Arc<AgentPort>>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("root", &self.root).finish_non_exhaustive()
    }
}

/// One beat, for people and tests.
#[derive(Clone, Debug, Serialize)]
pub struct TickReport {
    /// The revision after it.
    pub revision: u64,
    /// Whether anything was recorded.
    pub changed: bool,
    /// What was decided, as sentences.
    pub decided: Vec<String>,
    /// The key of the reason it ended with.
    pub reason: &'static str,
    /// That reason as a sentence.
    pub sentence: String,
    /// When to look again at the latest, in milliseconds since 1970.
    pub until: Option<WallMs>,
    /// Whether it waits for a worker slot that another project of the user holds, which goes by itself.
    pub waits_for_slot: bool,
    /// New questions and remarks for the operator.
    pub notices: Vec<String>,
}

/// The one loop of a project.
pub struct Supervisor {
    armed: Armed,
    disk: Disk,
    repo: Repo,
    clock: Arc<dyn Clock>,
    owner: Arc<OwnerGuard>,
    session: Session,
    performer: Performer,
    told: Arc<Told>,
    config: Config,
    seen: Option<Observation>,
    last: Option<TickReport>,
    /// How many tasks were done when branches were last cleared away.
    merged: usize,
    /// Effects that are recorded and were not performed yet, because the disk failed in between.
    pending: Vec<Effect>,
    /// Leases of this process that nobody works on.
    lost: Lost,
    /// What measured runs let expect of the next ones, as of the last change.
    history: Vec<Forecast>,
    /// The ledger misses what an earlier beat recorded.
    ledger_behind: bool,
    /// It would take more slots than the other projects leave it.
    waits_for_slot: bool,
    _watch: Watch,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("root", &self.armed.root()).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// Becomes the one supervisor of the project. Nothing is written to an unarmed folder.
    ///
    /// # Errors
    /// Busy when another one lives; Config or Integrity when the project cannot be worked on, with what to
    /// do.
    pub fn open(options: Options) -> Result<Supervisor, HostError> {
        let armed = check_goal(&options.root)?;
        let git = Git::discover()?;
        let repo = open_repo(&git, &armed)?;
        let disk = Disk::default();
        let (config, remarks) = settings::load(&disk, &armed, &options.config_json)?;
        if let (None, Some(why)) = (&options.agents, backend::agents_missed(&config)) {
            let edit = edit_command(&armed.config());
            return Err(HostError::new(ErrorKind::Config, why).at(armed.config()).hint(edit));
        }
        let user = UserFolder::at(options.devloop_home.join("devloop"));
        let me = Identity::new_instance();
        let owner = Arc::new(Locks::new(armed.clone(), user, disk.clone(), me).own(Wait::ONCE)?);
        let mut session = Session::new(armed.clone(), disk.clone(), config.policy())?;
        let clock = Arc::new(SystemClock::new());
        let me = owner.locks().me();
        let observer = Observer { armed: &armed, disk: &disk, repo: &repo, clock: &*clock, me };
        session.set_present(observer.present()?);
        session.note(remarks.into_iter().chain(backend::problems(&config, &Surroundings::of_process())));
        take_over(&owner, &disk, &mut session, acts(&config))?;
        let fence = Arc::clone(&owner);
        let setting = Setting {
            repo: repo.clone(),
            armed: armed.clone(),
            disk: disk.clone(),
            config: EffectConfig { agents: options.agents, ..EffectConfig::from(&config) },
            fence: Arc::new(move || fence.verify().map_err(HostError::from)),
        };
        let (wake, told) = (Arc::clone(&options.wake), Arc::new(Told::default()));
        let hear = Arc::clone(&told);
        let on_report = move |report| {
            hear.add(report);
            wake();
        };
        let performer = Performer::new(Arc::new(setting), Arc::new(on_report));
        scratch::sweep_settings();
        let over = leftovers(&Worktrees::new(&repo), &armed, &session.state())?;
        let (tasks, target) = merged_tasks(&session.state());
        let merged = tasks.len();
        performer.clear_leftovers(over, tasks, target.filter(|_| acts(&config)));
        small::write_budget(&disk, &armed, &settings::budget(&config))?;
        if acts(&config) {
            Worktrees::new(&repo).exclude_devloop()?;
        }
        let watch = Watch::start(&armed, options.wake);
        // A ledger that cannot be read is named where it is needed; here nothing is known then.
        let ledger = Ledger::look(owner.locks().user(), &disk);
        session.note(ledger.as_ref().ok().and_then(Ledger::doubt));
        let history = ledger.map(|ledger| cost::history(armed.root(), &session.state(), &ledger));
        Ok(Supervisor {
            armed,
            disk,
            repo,
            clock,
            owner,
            session,
            performer,
            told,
            config,
            seen: None,
            last: None,
            merged,
            pending: Vec::new(),
            lost: Lost::default(),
            history: history.unwrap_or_default(),
            ledger_behind: false,
            waits_for_slot: false,
            _watch: watch,
        })
    }

    /// One beat: look, decide until it waits or halts, record, then perform.
    ///
    /// # Errors
    /// When the state cannot be trusted or the disk fails. The next beat starts from the files.
    pub fn tick(&mut self) -> Result<TickReport, HostError> {
        let decisions = self.decide()?;
        self.pending.extend(decisions.iter().flat_map(|d| d.effects.iter().cloned()));
        let mut report = self.report(&decisions);
        self.forecast(&decisions, &mut report);
        self.owner.verify()?;
        for effect in std::mem::take(&mut self.pending) {
            match effect {
                Effect::Notify { text, .. } => report.notices.push(text),
                Effect::Wake => {}
                other => self.performer.perform(other),
            }
        }
        self.drop_settled_reports()?;
        self.drop_merged_branches();
        if report.changed || self.last.is_none() {
            self.write_progress(&mut report);
        }
        self.last = Some(report.clone());
        Ok(report)
    }

    fn decide(&mut self) -> Result<Vec<Decision>, HostError> {
        let lock = self.owner.lock(Wait::up_to_ms(LOCK_WAIT_MS))?;
        self.session.sync(&lock)?;
        // Under noop nothing is reserved, and nothing outside `.devloop/` is written, the user's ledger
        // included.
        let spends = acts(&self.config);
        let guard = spends.then(|| lock.ledger(Wait::up_to_ms(LOCK_WAIT_MS))).transpose()?;
        let mut ledger = guard.as_ref().map(|guard| Ledger::read(guard, &self.disk)).transpose()?;
        // Before the look: what ends in between is in the inbox by then.
        let flying = self.performer.in_flight();
        let mut seen = self.observer().observe(&self.session.state(), Others::default())?;
        self.told.complete(&mut seen.reports);
        let state = self.session.state();
        let me = observe::owner(self.owner.locks().me());
        for orphan in seen.orphans.iter_mut().filter(|orphan| orphan.tree == ProcessTree::Dead) {
            let works = state.leases.get(&orphan.dispatch).is_some_and(|lease| lease.op == Op::Work);
            orphan.saved = works.then(|| self.performer.save_orphan(orphan.dispatch)).flatten();
        }
        let known = |dispatch: &DispatchId| {
            flying.contains(dispatch)
                || self.pending.iter().any(|e| e.lease().is_some_and(|l| l.0 == *dispatch))
        };
        seen.reports.extend(self.lost.reports(&state, &me, &seen.reports, known));
        // The rest stays where it is until the next look.
        seen.reports.truncate(MAX_REPORTS);
        if let Some(ledger) = &ledger {
            let looker = shared::Looker {
                all: self.session.policy().limits.parallel_process,
                kept: shared::kept(&state, &seen.reports, &seen.orphans),
                now_ms: seen.stamp.wall.0,
            };
            seen.others = shared::others(ledger, &self.armed, self.days(), looker);
        }
        let by = format!("loop/{}", self.owner.locks().me().instance);
        let input = Input::Observation(seen.clone());
        let decided = self.session.run(&lock, &input, &by)?;
        if let (true, Some(ledger), Some(guard)) =
            (decided.changed || self.ledger_behind, &mut ledger, &guard)
        {
            let state = self.session.state();
            let me = self.owner.locks().me();
            // What is committed is performed, whatever the ledger says: it is completed at a later beat.
            let noted = match self.ledger_behind {
                false => shared::record(ledger, guard, &self.armed, me, &state, &decided.decisions),
                true => shared::complete(ledger, guard, &self.armed, me, &state),
            };
            self.ledger_behind = noted.is_err();
            self.history = cost::history(self.armed.root(), &state, ledger);
            if let Err(error) = noted {
                self.session.note(vec![format!("the ledger of all projects was not continued: {error}")]);
            }
        }
        if let (Some(ledger), Some(guard)) = (&mut ledger, &guard) {
            self.waits_for_slot = self.claim(ledger, guard, &seen, &decided.decisions);
        }
        self.seen = Some(seen);
        Ok(decided.decisions)
    }

    /// Tells the other projects how many more slots this one would take; whether it would take any. A ledger
    /// that cannot be written keeps nobody from working; it is told at the next beat.
    fn claim(
        &self,
        ledger: &mut Ledger,
        guard: &LedgerGuard<'_>,
        seen: &Observation,
        decisions: &[Decision],
    ) -> bool {
        let takes = |event: &Event| matches!(event, Event::LeaseTaken { lease, .. } if lease.op.is_model());
        let took = decisions.iter().flat_map(|decision| &decision.events).any(takes);
        let wants = shared::wanted(&self.session.state(), self.session.policy(), seen);
        let me = self.owner.locks().me();
        drop(shared::claim(ledger, guard, &self.armed, me, seen, (wants, took)));
        wants > 0
    }

    /// The day that money is booked on, and the one that the clock shows: a new project has booked nothing
    /// yet, and one that rested is days behind until it decides.
    fn days(&self) -> [u64; 2] {
        [self.session.state().clock.day.0, self.clock.wall().day().0]
    }

    fn observer(&self) -> Observer<'_> {
        Observer {
            armed: &self.armed,
            disk: &self.disk,
            repo: &self.repo,
            clock: &*self.clock,
            me: self.owner.locks().me(),
        }
    }

    /// Says what a goal will probably cost when it starts, and again when its plan is there.
    fn forecast(&self, decisions: &[Decision], report: &mut TickReport) {
        let starts = |event: &Event| matches!(event, Event::GoalStarted { .. } | Event::PlanAccepted { .. });
        if decisions.iter().flat_map(|decision| &decision.events).any(starts) {
            let sum =
                devloop_core::expected::expected(&self.session.state(), self.session.policy(), &self.history);
            report.notices.push(sum.sentence());
        }
    }

    fn report(&mut self, decisions: &[Decision]) -> TickReport {
        let last = decisions.last().map_or(Reason::Halted, |d| d.reason.clone());
        let until = match &last {
            Reason::Wait { until, .. } => *until,
            _ => None,
        };
        let told = decisions.iter().filter(|d| !d.events.is_empty());
        TickReport {
            revision: self.session.state().revision,
            changed: decisions.iter().any(|d| !d.events.is_empty()),
            decided: told.map(|d| d.reason.sentence()).collect(),
            reason: last.key(),
            sentence: last.sentence(),
            until,
            waits_for_slot: self.waits_for_slot,
            notices: [self.session.take_notes(), self.performer.left().take_remarks()].concat(),
        }
    }

    /// A report whose lease is over is settled: its parked file has done its work.
    fn drop_settled_reports(&self) -> Result<(), HostError> {
        let Some(seen) = &self.seen else { return Ok(()) };
        let state = self.session.state();
        let is_open =
            |report: &Report| state.leases.get(&report.dispatch).is_some_and(|l| l.epoch == report.epoch);
        for report in seen.reports.iter().filter(|report| !is_open(report)) {
            points::reach(Point::ReportRemove, report.dispatch);
            small::unpark_report(&self.armed, &report.dispatch.to_string())?;
        }
        // One that came after this look was not settled by it, and is looked at next.
        self.told.forget(|report| seen.reports.contains(report) && !is_open(report));
        Ok(())
    }

    /// The branch of a merged task goes once its end is recorded, never before.
    fn drop_merged_branches(&mut self) {
        let (merged, target) = merged_tasks(&self.session.state());
        if merged.len() > self.merged {
            self.performer.clear_leftovers(Vec::new(), merged.clone(), target);
        }
        self.merged = merged.len();
    }

    fn write_progress(&self, report: &mut TickReport) {
        let state = self.session.state();
        let instance = crate::observe::owner(self.owner.locks().me()).instance;
        let mut text = devloop_core::render::progress(&state, self.session.policy(), instance);
        text.push_str(&self.performer.left().section());
        if let Err(error) = small::write_progress(&self.disk, &self.armed, &text) {
            report.notices.push(format!("PROGRESS.md was not renewed: {error}"));
        }
    }

    /// Everything a surface shows.
    #[must_use]
    pub fn view(&self) -> View {
        let instance = crate::observe::owner(self.owner.locks().me()).instance;
        let state = self.session.state();
        let last = self.last.as_ref().map(|report| (report.reason, report.sentence.as_str()));
        view::make(&view::Source {
            root: self.armed.root(),
            state: &state,
            policy: self.session.policy(),
            seen: self.seen.as_ref(),
            instance,
            last,
            budgets: view::Budgets::Profile,
            owner: OwnerView::runs(self.owner.locks().me().pid),
            history: &self.history,
        })
    }

    /// An operator's wish as JSON: `{"by": "...", "wish": {...}}`.
    ///
    /// # Errors
    /// User when the JSON is no command; otherwise as [`Supervisor::tick`].
    pub fn command(&mut self, json: &str) -> Result<CommandReport, HostError> {
        let wish: Command = serde_json::from_str(json)
            .map_err(|error| HostError::new(ErrorKind::User, format!("this is no command: {error}")))?;
        self.wish(wish)
    }

    /// An operator's wish.
    ///
    /// # Errors
    /// As [`Supervisor::tick`].
    pub fn wish(&mut self, wish: Command) -> Result<CommandReport, HostError> {
        let lock = self.owner.lock(Wait::up_to_ms(LOCK_WAIT_MS))?;
        self.session.sync(&lock)?;
        let seen = self.observer().observe(&self.session.state(), Others::default())?;
        let report = command::commit(&mut self.session, &lock, &seen, wish)?;
        Ok(report)
    }

    /// Whether any dispatch or host operation still runs.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.performer.in_flight().is_empty()
    }

    /// The project's root.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.armed.root()
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Cancels what runs, waits a little, and gives the project back. Leases stay in the journal: the next
    /// owner settles them.
    ///
    /// # Errors
    /// None at present; the signature leaves room for a store that cannot let go.
    pub fn close(self) -> Result<(), HostError> {
        self.performer.shutdown(CLOSE_GRACE_MS);
        // Threads that are just ending still hold the fence; OWNER is given back when the last one is gone.
        let until = Instant::now() + Duration::from_millis(CLOSE_GRACE_MS);
        while Arc::strong_count(&self.owner) > 1 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// The dispatches that are over and of which something is left: an earlier loop died between the commit and
/// the removal.
fn leftovers(worktrees: &Worktrees, armed: &Armed, state: &LoopState) -> Result<Vec<DispatchId>, HostError> {
    let needed = |dispatch: &DispatchId| {
        let uses = |lease: &Lease| lease.worktree == Some(*dispatch);
        state.leases.contains_key(dispatch) || state.leases.values().any(uses)
    };
    let owners = worktrees.list()?.into_iter().filter_map(|listed| listed.owner);
    let runs = files::list_names(&armed.runs()).unwrap_or_default();
    let runs = runs.iter().filter_map(|name| DispatchId::parse(name.to_str()?.strip_suffix(".json")?).ok());
    let over: BTreeSet<DispatchId> =
        owners.chain(runs).chain(scratch::left(armed)).filter(|dispatch| !needed(dispatch)).collect();
    Ok(over.into_iter().collect())
}

/// Finished tasks, whose branches an earlier loop may have had no time to delete, and the target.
fn merged_tasks(state: &LoopState) -> (Vec<TaskId>, Option<Branch>) {
    let done = state.tasks.iter().filter(|task| task.is_done());
    (done.map(|task| task.id.clone()).collect(), state.target.branch.clone())
}

/// Whether any route would touch more than `.devloop/`.
fn acts(config: &Config) -> bool {
    config.policy().routes.values().any(|route| route.backend != Backend::Noop)
}

/// First look at the files as owner: temporary files go, the state is read, the user's ledger is completed.
fn take_over(owner: &OwnerGuard, disk: &Disk, session: &mut Session, spends: bool) -> Result<(), HostError> {
    let lock = owner.lock(Wait::up_to_ms(LOCK_WAIT_MS))?;
    owner.sweep(&lock)?;
    session.sync(&lock)?;
    store::reserve::fill(disk, owner.locks().armed())?;
    if !spends {
        return Ok(());
    }
    let guard = lock.ledger(Wait::up_to_ms(LOCK_WAIT_MS))?;
    let mut ledger = Ledger::read(&guard, disk)?;
    let locks = owner.locks();
    shared::complete(&mut ledger, &guard, locks.armed(), locks.me(), &session.state())
}
