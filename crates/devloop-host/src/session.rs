//! The core and its journal in step: opened from what is believed, folded forward, decided on, committed as
//! one group. It must not observe the world and must not perform effects.

use std::sync::Arc;

use devloop_component::CORE_DIGEST;
use devloop_core::apply::apply_line;
use devloop_core::decide::{Decision, Input};
use devloop_core::diagnose::max_decisions;
use devloop_core::ids::Digest;
use devloop_core::policy::Policy;
use devloop_core::state::LoopState;
use devloop_core::untrusted::Untrusted;
use devloop_wire::event_line::{self, Entry, JournalLine};
use devloop_wire::migrate::{self, OldFiles, Present};
use devloop_wire::trace_line::{self, TraceEntry};
use devloop_wire::{policy_doc, state_doc};

use crate::error::{ErrorKind, HostError};
use crate::machine::{Component, Machine};
use crate::store::recover;
use crate::store::trace::Trace;
use crate::store::wire_format::{WireLines, WireStates};
use crate::store::{Armed, Base, Changes, Disk, Line, Loaded, LockGuard, Recovered, Store, Tip};

/// Decisions of one tick, at most: a longer tick goes on at the next beat.
const MAX_GROUP: usize = 200;

/// The core of one project with its journal.
pub struct Session {
    machine: Box<dyn Machine>,
    store: Store,
    trace: Trace,
    disk: Disk,
    policy: Policy,
    policy_bytes: Vec<u8>,
    core: Digest,
    tip: Option<Tip>,
    state: Arc<LoopState>,
    notes: Vec<String>,
    /// What a state of the earlier plugin never recorded, read from the world before it is taken over.
    present: Present,
    /// The policy that the trace's last head names.
    traced: Option<Digest>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("tip", &self.tip).finish_non_exhaustive()
    }
}

/// What one input led to.
#[derive(Debug)]
pub struct Decided {
    /// The decisions in order; the last one has the final reason unless the group was cut.
    pub decisions: Vec<Decision>,
    /// Whether anything was recorded.
    pub changed: bool,
}

fn core_digest() -> Result<Digest, HostError> {
    Digest::parse(CORE_DIGEST).map_err(|bad| HostError::new(ErrorKind::Internal, bad.to_string()))
}

impl Session {
    /// A session over the embedded component; nothing is read yet.
    ///
    /// # Errors
    /// When the component does not load.
    pub fn new(armed: Armed, disk: Disk, policy: Policy) -> Result<Session, HostError> {
        Session::with_machine(armed, disk, policy, Box::new(Component::embedded()?))
    }

    /// A session over any machine.
    ///
    /// # Errors
    /// When the built component has no digest.
    pub fn with_machine(
        armed: Armed,
        disk: Disk,
        policy: Policy,
        machine: Box<dyn Machine>,
    ) -> Result<Session, HostError> {
        let (lines, states) = (Arc::new(WireLines), Arc::new(WireStates));
        let store = Store::new(armed.clone(), disk.clone(), lines, states);
        Ok(Session {
            machine,
            store,
            trace: Trace::new(armed, disk.clone()),
            disk,
            policy_bytes: policy_doc::policy_bytes(&policy),
            policy,
            core: core_digest()?,
            tip: None,
            state: Arc::new(LoopState::default()),
            notes: Vec::new(),
            present: Present::default(),
            traced: None,
        })
    }

    /// The state as last committed or folded.
    #[must_use]
    pub fn state(&self) -> Arc<LoopState> {
        Arc::clone(&self.state)
    }

    /// The policy that decisions are made under.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Tells what a state of the earlier plugin is completed with; only used when one is found.
    pub fn set_present(&mut self, present: Present) {
        self.present = present;
    }

    /// Adds remarks for the operator, told with the next beat.
    pub fn note(&mut self, remarks: impl IntoIterator<Item = String>) {
        self.notes.extend(remarks);
    }

    /// What an operator should be told about how the state was found.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Decides under another policy from here on; recorded by the next decision.
    ///
    /// # Errors
    /// When the component refuses the document.
    pub fn set_policy(&mut self, policy: Policy) -> Result<(), HostError> {
        let bytes = policy_doc::policy_bytes(&policy);
        if self.machine.is_open() {
            self.machine.set_policy(&bytes)?;
        }
        (self.policy, self.policy_bytes) = (policy, bytes);
        Ok(())
    }

    /// Brings the core to where the journal stands: nothing, a few folded lines, or a fresh start from the
    /// files.
    ///
    /// # Errors
    /// Integrity when the files cannot be believed; nothing is written then.
    pub fn sync(&mut self, lock: &LockGuard<'_>) -> Result<(), HostError> {
        if let Some(tip) = self.tip.clone().filter(|_| self.machine.is_open()) {
            match self.store.poll_changes(&tip)? {
                Changes::Equal => return Ok(()),
                Changes::Ahead(lines) => {
                    if self.fold(&lines).is_ok() {
                        self.tip = self.store.journal().tip().cloned();
                        return self.refresh();
                    }
                }
                Changes::Diverged(_) => {}
            }
        }
        self.reopen(Some(lock))
    }

    /// Reads the files without a lock, for a view.
    ///
    /// # Errors
    /// As [`Session::sync`]; also when a version 1 project was never opened by a loop.
    pub fn look(&mut self) -> Result<(), HostError> {
        self.reopen(None)
    }

    fn reopen(&mut self, lock: Option<&LockGuard<'_>>) -> Result<(), HostError> {
        self.machine.close();
        self.tip = None;
        match self.store.load()? {
            Loaded::Fresh => self.open(&LoopState::default())?,
            Loaded::Legacy(legacy) => {
                let old = OldFiles {
                    state: legacy.state.as_deref(),
                    events: legacy.events.as_deref(),
                    commit_hold: legacy.commit_hold.as_deref(),
                    pending_hold: legacy.pending_hold.as_deref(),
                };
                let state = migrate::migrate(&old, &self.present)
                    .map_err(|error| refused_files(self.store.journal().armed(), &error))?;
                self.open(&state)?;
                if let Some(lock) = lock {
                    recover::keep_legacy(&self.disk, lock, self.store.journal().armed(), &legacy)?;
                    self.notes.push("the state of the earlier plugin was taken over".into());
                }
            }
            Loaded::Ready(found) => self.open_recovered(&found)?,
        }
        self.refresh()
    }

    fn open(&mut self, state: &LoopState) -> Result<(), HostError> {
        self.machine.open(&state_doc::write(state), &self.policy_bytes)?;
        Ok(())
    }

    fn open_recovered(&mut self, found: &Recovered) -> Result<(), HostError> {
        match &found.base {
            Base::State(bytes) => self.machine.open(bytes, &self.policy_bytes)?,
            Base::Snapshot(line) => {
                let head = event_line::parse_head(&line.bytes).map_err(integrity)?;
                event_line::check_snapshot(&head, &self.core).map_err(integrity)?;
                self.open(&head.state)?;
            }
        }
        self.fold(&found.lines)?;
        self.notes.extend(found.notes.iter().cloned());
        self.tip = Some(found.tip.clone());
        Ok(())
    }

    fn fold(&mut self, lines: &[Line]) -> Result<(), HostError> {
        for line in lines {
            match event_line::parse(&line.bytes).map_err(integrity)? {
                JournalLine::Events(line) => self.machine.fold(&line.events)?,
                JournalLine::Head(_) => {}
            }
        }
        Ok(())
    }

    /// Takes the adopted state out of the core.
    fn refresh(&mut self) -> Result<(), HostError> {
        self.state = Arc::new(state_doc::parse(&self.machine.save()?).map_err(integrity)?);
        Ok(())
    }

    /// Decides on one input until the reason is final, then commits everything as one group.
    ///
    /// # Errors
    /// When the core or the disk fails. The core is then dropped; the next [`Session::sync`] starts from the
    /// files.
    pub fn run(&mut self, lock: &LockGuard<'_>, input: &Input, by: &str) -> Result<Decided, HostError> {
        let done = self.decide_all(input).and_then(|decisions| self.commit(lock, input, by, decisions));
        if done.is_err() {
            self.machine.close();
            self.tip = None;
        }
        done
    }

    fn decide_all(&mut self, input: &Input) -> Result<Vec<Decision>, HostError> {
        let bound = max_decisions(&self.state, &self.policy).min(MAX_GROUP);
        let mut decisions = Vec::new();
        for _ in 0..bound {
            let decision = self.machine.decide(input)?;
            let once = matches!(input, Input::Command { .. });
            let last = decision.reason.is_final() || once;
            decisions.push(decision);
            if last {
                break;
            }
        }
        Ok(decisions)
    }

    fn commit(
        &mut self,
        lock: &LockGuard<'_>,
        input: &Input,
        by: &str,
        decisions: Vec<Decision>,
    ) -> Result<Decided, HostError> {
        let recorded = decisions.iter().filter(|d| !d.events.is_empty()).count();
        if recorded == 0 {
            self.machine.discard()?;
            return Ok(Decided { decisions, changed: false });
        }
        if self.tip.is_none() || self.store.journal().room() < recorded {
            self.start_segment(lock)?;
        }
        let group = self.group(input, by, &decisions);
        // A head of the trace holds the policy, so that another policy needs another head; only a head needs
        // the state as it was, and without one the copy is changed in place.
        let another = self.trace.wants_head() || self.traced.as_ref() != Some(&self.policy.digest);
        let before = another.then(|| self.state());
        self.machine.commit()?;
        self.follow(&decisions)?;
        let chain = group.last().map(|line| line.chain.as_str()).and_then(|c| Digest::parse(c).ok());
        let (document, digest) = state_doc::file_and_digest(&self.state, chain.as_ref());
        let halted = decisions.last().is_some_and(|d| d.reason == devloop_core::reason::Reason::Halted);
        let committed = self.store.commit(lock, &group, &document, halted)?;
        self.tip = Some(committed.tip);
        if let Some(error) = committed.state_error {
            self.notes.push(format!("STATE.json was not renewed: {error}"));
        }
        self.write_trace(before.as_deref(), input, &decisions, &digest);
        Ok(Decided { decisions, changed: true })
    }

    /// Folds what was decided into this side's copy of the state. Taking the whole state out of the core
    /// instead costs several times the commit itself, and grows with the state.
    fn follow(&mut self, decisions: &[Decision]) -> Result<(), HostError> {
        let state = Arc::make_mut(&mut self.state);
        for decision in decisions.iter().filter(|d| !d.events.is_empty()) {
            apply_line(state, &decision.events)
                .map_err(|misfit| HostError::new(ErrorKind::Internal, misfit.to_string()))?;
        }
        Ok(())
    }

    /// A snapshot is taken out of the core itself: this is where the copy that followed it is proved.
    fn prove_copy(&mut self) -> Result<(), HostError> {
        let copy = self.state();
        self.refresh()?;
        if *copy == *self.state {
            return Ok(());
        }
        let text = "the state in the core and the one folded from its events differ; nothing was written";
        Err(HostError::new(ErrorKind::Internal, text))
    }

    /// The adopted state becomes the first line of a new segment.
    fn start_segment(&mut self, lock: &LockGuard<'_>) -> Result<(), HostError> {
        self.prove_copy()?;
        let previous = self.tip.as_ref().and_then(|tip| Digest::parse(&tip.chain).ok());
        let head =
            event_line::write_head(&self.state, &self.core, self.state.policy.as_ref(), previous.as_ref());
        let line =
            Line { revision: self.state.revision, chain: head.chain.clone().into(), bytes: head.bytes };
        let document = state_doc::write_file(&self.state, Some(&head.chain));
        let committed = self.store.start_segment(lock, &line, &document)?;
        self.tip = Some(committed.tip);
        Ok(())
    }

    fn group(&self, input: &Input, by: &str, decisions: &[Decision]) -> Vec<Line> {
        let stamp = match input {
            Input::Observation(seen) => &seen.stamp,
            Input::Command { stamp, .. } => stamp,
        };
        let mut previous = self.tip.as_ref().and_then(|tip| Digest::parse(&tip.chain).ok());
        let mut revision = self.state.revision;
        let mut lines = Vec::new();
        for decision in decisions.iter().filter(|d| !d.events.is_empty()) {
            revision += 1;
            let entry =
                Entry { revision, at: stamp.wall, by, reason: &decision.reason, events: &decision.events };
            let written = event_line::write_line(&entry, previous.as_ref());
            lines.push(Line { revision, chain: written.chain.clone().into(), bytes: written.bytes });
            previous = Some(written.chain);
        }
        lines
    }

    /// The trace serves replays; a loop without one goes on, and says so.
    fn write_trace(
        &mut self,
        before: Option<&LoopState>,
        input: &Input,
        decisions: &[Decision],
        state_digest: &Digest,
    ) {
        let entry = TraceEntry { revision: self.state.revision, input, decisions, state_digest };
        let line = trace_line::write(&entry);
        let begun = match before {
            Some(before) => {
                self.traced = Some(self.policy.digest.clone());
                self.trace.begin(&trace_line::write_head(before, &self.core, &self.policy))
            }
            None => Ok(()),
        };
        if let Err(error) = begun.and_then(|()| self.trace.append(&[&line])) {
            self.notes.push(format!("TRACE.jsonl was not continued: {error}"));
        }
    }
}

/// Files of version 1 that cannot be carried over: which, where in it, and that nothing was lost.
fn refused_files(armed: &Armed, error: &devloop_wire::fault::DocError) -> HostError {
    let name = error.document.split(' ').next().unwrap_or(error.document);
    let path = armed.folder().join(name);
    let shown = path.to_string_lossy().into_owned();
    let root = armed.root().to_string_lossy().into_owned();
    let what = format!("{error}; the files of the earlier plugin were left as they are");
    HostError::new(ErrorKind::Integrity, what)
        .as_untrusted(Untrusted::InvalidState)
        .at(path)
        .hint(["devloop".to_owned(), "doctor".to_owned(), root])
        // Without the file the journal is asked, and without both the goal starts anew.
        .hint(["mv".to_owned(), "-n".to_owned(), shown.clone(), format!("{shown}.refused")])
}

fn integrity(error: devloop_wire::fault::DocError) -> HostError {
    HostError::new(ErrorKind::Integrity, error.to_string()).as_untrusted(Untrusted::InvalidState)
}
