//! A wish from any process: committed under LOCK alone, with what it would lead to. It performs nothing; the
//! loop wakes.

use std::path::Path;

use devloop_core::command::Command;
use devloop_core::cost::By;
use devloop_core::decide::Input;
use devloop_core::diagnose::{Outlook, outlook};
use devloop_core::observation::{GoalSeen, Observation, Others};
use devloop_core::reason::{Reason, Refusal};
use devloop_wire::config_doc::Config;
use serde::Serialize;

use crate::clock::SystemClock;
use crate::cost::{self, CostReport};
use crate::doctor;
use crate::error::{ErrorKind, HostError};
use crate::git::{Git, Repo};
use crate::observe::{Observer, open_repo};
use crate::session::Session;
use crate::settings;
use crate::store::ledger::Ledger;
use crate::store::{Armed, Disk, Identity, LockGuard, Locks, OwnerRecord, UserFolder, Wait};
use crate::view::{self, Budgets, OwnerView, View};

/// How long a command waits for a commit of the loop, in milliseconds.
const LOCK_WAIT_MS: u64 = 10_000;

/// What came of a wish.
#[derive(Clone, Debug, Serialize)]
pub struct CommandReport {
    /// Whether it was accepted and recorded.
    pub accepted: bool,
    /// One sentence.
    pub sentence: String,
    /// The revision after it.
    pub revision: u64,
    /// Holds it cleared.
    pub cleared: Vec<String>,
    /// Holds that are still open, or open again.
    pub open: Vec<String>,
    /// Whether the loop will move.
    pub helps: bool,
    /// What the loop will answer at the end of its next beat.
    pub next: String,
    /// Why it was not accepted.
    #[serde(skip)]
    pub refused: Option<Refusal>,
}

/// A project as a command sees it, without being its supervisor.
#[derive(Debug)]
pub struct Desk {
    locks: Locks,
    disk: Disk,
    repo: Repo,
    clock: SystemClock,
    session: Session,
    config: Config,
    budgets: Budgets,
}

impl Desk {
    /// Opens a project for commands and views. Nothing is written.
    ///
    /// # Errors
    /// Config when the project is not armed or not workable, with what to do.
    pub fn open(root: &Path, user: UserFolder) -> Result<Desk, HostError> {
        let armed = doctor::check_project(root)?;
        let git = Git::discover()?;
        let repo = open_repo(&git, &armed)?;
        let disk = Disk::default();
        let locks = Locks::new(armed.clone(), user, disk.clone(), Identity::new_instance());
        let (config, budgets) = match settings::for_command(&disk, &armed) {
            // What a loop may do is the loop's matter; a typing error must not keep anybody from stopping it.
            Err(error) if living(&locks)?.is_some() => settings::beside_a_loop(&disk, &armed, &error),
            other => other?,
        };
        let mut session = Session::new(armed, disk.clone(), config.policy())?;
        let clock = SystemClock::new();
        session.set_present(observer(&locks, &disk, &repo, &clock, locks.me()).present()?);
        Ok(Desk { locks, disk, repo, clock, session, config, budgets })
    }

    /// The project.
    #[must_use]
    pub fn armed(&self) -> &Armed {
        self.locks.armed()
    }

    /// The repository.
    #[must_use]
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The supervisor that holds or last held the project.
    ///
    /// # Errors
    /// When OWNER cannot be read.
    pub fn owner(&self) -> Result<Option<OwnerRecord>, HostError> {
        Ok(self.locks.owner_record()?)
    }

    /// Reads the files without a lock and makes the view.
    ///
    /// # Errors
    /// Integrity when the state cannot be believed.
    pub fn view(&mut self) -> Result<View, HostError> {
        self.session.look()?;
        let state = self.session.state();
        let seen = self.observe()?;
        let instance = state.last_instance(seen.stamp.owner.instance);
        let next = outlook(&state, self.session.policy(), &seen, None);
        let sentence = match &seen.goal {
            // No loop may have looked at it yet.
            GoalSeen::Unusable(why) => format!("{why}; nothing new starts until it is a text file again"),
            _ => next.reason.sentence(),
        };
        let root = self.locks.armed().root();
        // A ledger that cannot be read is `cost`'s and doctor's to name; here nothing is known then.
        let ledger = Ledger::look(self.locks.user(), &self.disk);
        let history = ledger.map(|ledger| cost::history(root, &state, &ledger)).unwrap_or_default();
        Ok(view::make(&view::Source {
            root,
            state: &state,
            policy: self.session.policy(),
            seen: Some(&seen),
            instance,
            last: Some((next.reason.key(), sentence.as_str())),
            budgets: self.budgets,
            owner: OwnerView::of(self.locks.owner_record()?.as_ref()),
            history: &history,
        }))
    }

    /// What the project cost and what the next runs will probably cost.
    ///
    /// # Errors
    /// Integrity when the state cannot be believed; when the user's ledger cannot be read.
    pub fn cost(&mut self, by: By) -> Result<CostReport, HostError> {
        self.session.look()?;
        let ledger = Ledger::look(self.locks.user(), &self.disk)?;
        let (state, policy) = (self.session.state(), self.session.policy());
        Ok(cost::report(self.locks.armed().root(), &state, policy, &ledger, by))
    }

    /// What the loop would do next, with a wish or without; nothing is recorded.
    ///
    /// # Errors
    /// Integrity when the state cannot be believed.
    pub fn outlook(&mut self, wish: Option<&Command>) -> Result<Outlook, HostError> {
        self.session.look()?;
        let seen = self.observe()?;
        Ok(outlook(&self.session.state(), self.session.policy(), &seen, wish))
    }

    /// Commits a wish.
    ///
    /// # Errors
    /// Busy when a commit of the loop takes too long; Integrity when the state cannot be believed.
    pub fn wish(&mut self, wish: Command) -> Result<CommandReport, HostError> {
        let lock = self.locks.lock(Wait::up_to_ms(LOCK_WAIT_MS))?;
        self.session.sync(&lock)?;
        let seen = self.observe()?;
        commit(&mut self.session, &lock, &seen, wish)
    }

    /// The world as the loop sees it: while one lives, its dispatches are its own and no orphans.
    fn observe(&self) -> Result<Observation, HostError> {
        let living = living(&self.locks)?;
        let me = living.as_ref().unwrap_or(self.locks.me());
        observer(&self.locks, &self.disk, &self.repo, &self.clock, me)
            .observe(&self.session.state(), Others::default())
    }
}

/// The loop that runs now. One that cannot be seen from here (another machine, another container) is presumed
/// to run, as long as it did not leave in order.
fn living(locks: &Locks) -> Result<Option<Identity>, HostError> {
    let owner = locks.owner_record()?.filter(|record| !record.released);
    Ok(owner.map(|record| record.identity()).filter(|who| who.is_alive() != Some(false)))
}

fn observer<'a>(
    locks: &'a Locks,
    disk: &'a Disk,
    repo: &'a Repo,
    clock: &'a SystemClock,
    me: &'a Identity,
) -> Observer<'a> {
    Observer { armed: locks.armed(), disk, repo, clock, me }
}

/// Commits a wish on a session that is in step, and looks at what follows.
///
/// # Errors
/// When the core or the disk fails.
pub fn commit(
    session: &mut Session,
    lock: &LockGuard<'_>,
    seen: &Observation,
    wish: Command,
) -> Result<CommandReport, HostError> {
    let foreseen = outlook(&session.state(), session.policy(), seen, Some(&wish));
    let by = wish.by.clone();
    let input = Input::Command { stamp: seen.stamp.clone(), command: wish };
    let decided = session.run(lock, &input, &by)?;
    let Some(last) = decided.decisions.last() else {
        return Err(HostError::new(ErrorKind::Internal, "the core did not decide on a command"));
    };
    let refused = match &last.reason {
        Reason::Refused(refusal) => Some(refusal.clone()),
        _ => None,
    };
    let names = |keys: &[devloop_core::hold::HoldKey]| keys.iter().map(ToString::to_string).collect();
    Ok(CommandReport {
        accepted: refused.is_none(),
        sentence: last.reason.sentence(),
        revision: session.state().revision,
        cleared: names(&foreseen.cleared),
        open: names(&foreseen.open),
        helps: foreseen.helps(),
        next: foreseen.reason.sentence(),
        refused,
    })
}
