//! Owns the modelled repository: branches as lists of commits, the operator's checkout, worktrees, and what
//! the host's own operations do to them, each probed by its dispatch first. People move things under it. It
//! must not decide anything.

use std::collections::{BTreeMap, BTreeSet};

use devloop_core::ids::{Branch, DispatchId, Oid};
use devloop_core::observation::Checkout;

/// The branch people start on.
pub const HOME: &str = "work";

/// What a commit on the target is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Commit {
    by: Option<DispatchId>,
    brings: Option<Oid>,
}

/// The repository.
#[derive(Clone, Debug)]
pub struct Repo {
    next: u64,
    branches: BTreeMap<String, Vec<Oid>>,
    commits: BTreeMap<Oid, Commit>,
    /// What dispatches left beside the target: a host commit, a refreshed head with its base, a reapplied
    /// change.
    made: BTreeMap<DispatchId, (Oid, Oid)>,
    /// The branch the checkout is on; none when its HEAD is detached.
    pub head: Option<String>,
    /// What is in the way in the checkout.
    pub checkout: Checkout,
    /// The remote's default branch.
    pub remote_default: Option<Branch>,
    /// Worktrees of dispatches.
    pub worktrees: BTreeSet<DispatchId>,
}

/// What stands in the way of a merge in the repository itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// The target is not there.
    NoTarget,
    /// This dispatch has published already.
    Published(Oid),
    /// The target contains the head.
    Contained(Oid),
    /// The target does not contain the base any more.
    Rewound,
    /// The checkout of the target is in the way.
    InTheWay,
    /// The target stands on the base, or has moved on from it.
    Clear {
        /// Whether it moved.
        moved: bool,
    },
}

impl Repo {
    /// One commit on one branch.
    #[must_use]
    pub fn new() -> Repo {
        let mut repo = Repo {
            next: 0,
            branches: BTreeMap::new(),
            commits: BTreeMap::new(),
            made: BTreeMap::new(),
            head: Some(HOME.to_string()),
            checkout: Checkout::Free,
            remote_default: None,
            worktrees: BTreeSet::new(),
        };
        let first = repo.fresh(None, None);
        repo.branches.insert(HOME.to_string(), vec![first]);
        repo
    }

    fn fresh(&mut self, by: Option<DispatchId>, brings: Option<Oid>) -> Oid {
        self.next += 1;
        let oid = Oid::parse(&format!("{:040x}", self.next)).expect("40 hex digits");
        self.commits.insert(oid.clone(), Commit { by, brings });
        oid
    }

    /// Names the only branch anew, before anything happened.
    pub fn start_on(&mut self, name: &str) {
        let line = self.branches.remove(HOME).unwrap_or_default();
        self.branches.insert(name.to_string(), line);
        self.head = Some(name.to_string());
    }

    /// The tip of the target, or of the checkout while there is no target.
    #[must_use]
    pub fn tip(&self, target: Option<&Branch>) -> Option<Oid> {
        match target {
            Some(target) => self.branches.get(target.as_str())?.last().cloned(),
            None => {
                let own = self.head.as_ref().and_then(|name| self.branches.get(name)?.last());
                own.or_else(|| self.branches.values().next()?.last()).cloned()
            }
        }
    }

    /// Whether the target contains the commit, itself or by a merge.
    #[must_use]
    pub fn contains(&self, target: Option<&Branch>, commit: &Oid) -> bool {
        let name = target.map(Branch::as_str).or(self.head.as_deref());
        let line = name.and_then(|name| self.branches.get(name));
        line.is_some_and(|line| {
            line.iter().any(|at| at == commit || self.commits[at].brings.as_ref() == Some(commit))
        })
    }

    /// A commit of the host on a task's branch, the same one when asked again.
    pub fn commit(&mut self, by: DispatchId) -> Oid {
        self.made_by(by, None).0
    }

    /// A refreshed head and the base it starts from; none without a target.
    pub fn refresh(&mut self, by: DispatchId, target: &Branch) -> Option<(Oid, Oid)> {
        let tip = self.tip(Some(target))?;
        Some(self.made_by(by, Some(tip)))
    }

    fn made_by(&mut self, by: DispatchId, base: Option<Oid>) -> (Oid, Oid) {
        if let Some(made) = self.made.get(&by) {
            return made.clone();
        }
        let head = self.fresh(None, None);
        let made = (head.clone(), base.unwrap_or(head));
        self.made.insert(by, made.clone());
        made
    }

    /// Looks before a merge, in the order of the host.
    #[must_use]
    pub fn look(&self, by: DispatchId, target: &Branch, head: &Oid, base: &Oid) -> Look {
        let Some(line) = self.branches.get(target.as_str()) else { return Look::NoTarget };
        let Some(tip) = line.last() else { return Look::NoTarget };
        if let Some(done) = line.iter().find(|at| self.commits[*at].by == Some(by)) {
            return Look::Published(done.clone());
        }
        if self.contains(Some(target), head) {
            return Look::Contained(tip.clone());
        }
        if !self.contains(Some(target), base) {
            return Look::Rewound;
        }
        if self.checkout != Checkout::Free && self.head.as_deref() == Some(target.as_str()) {
            return Look::InTheWay;
        }
        Look::Clear { moved: tip != base }
    }

    /// Publishes a merge of the head; the caller has looked.
    pub fn merge(&mut self, by: DispatchId, target: &Branch, head: &Oid) -> Oid {
        let merge = self.fresh(Some(by), Some(head.clone()));
        self.branches.entry(target.as_str().to_string()).or_default().push(merge.clone());
        merge
    }

    /// How many commits of the target brought this head.
    #[must_use]
    pub fn times_merged(&self, target: &Branch, head: &Oid) -> usize {
        let line = self.branches.get(target.as_str()).map(Vec::as_slice).unwrap_or_default();
        line.iter().filter(|at| self.commits[*at].brings.as_ref() == Some(head)).count()
    }

    /// Takes a merge back: the revert commit and the reapplied head; none when somebody committed on top.
    pub fn revert(&mut self, by: DispatchId, target: &Branch, merge: &Oid) -> Option<(Oid, Oid)> {
        let line = self.branches.get(target.as_str())?;
        let done = line.iter().find(|at| self.commits[*at].by == Some(by)).cloned();
        let revert = match done {
            Some(done) => done,
            None if line.last() == Some(merge) => {
                let revert = self.fresh(Some(by), None);
                self.branches.get_mut(target.as_str())?.push(revert.clone());
                revert
            }
            None => return None,
        };
        let (reapplied, _) = self.made_by(by, None);
        Some((revert, reapplied))
    }

    /// Makes a branch at the checkout's commit, if it is not there.
    pub fn create(&mut self, branch: &Branch) {
        let Some(at) = self.tip(None) else { return };
        let name = self.head.as_ref().filter(|name| self.branches.contains_key(*name));
        let line = name.and_then(|name| self.branches.get(name)).cloned().unwrap_or_else(|| vec![at]);
        self.branches.entry(branch.as_str().to_string()).or_insert(line);
    }

    /// A person commits, with or without a task's head.
    pub fn person_commits(&mut self, target: &Branch, brings: Option<Oid>) {
        let commit = self.fresh(None, brings);
        if let Some(line) = self.branches.get_mut(target.as_str()) {
            line.push(commit);
        }
    }

    /// A person throws the last commits away; the first one stays.
    pub fn person_rewinds(&mut self, target: &Branch, by: usize) {
        if let Some(line) = self.branches.get_mut(target.as_str()) {
            let keep = line.len().saturating_sub(by).max(1);
            line.truncate(keep);
        }
    }

    /// A person deletes the branch.
    pub fn person_deletes(&mut self, target: &Branch) {
        if self.branches.len() > 1 {
            self.branches.remove(target.as_str());
        }
    }

    /// A person checks out a branch, made at the target's tip where it is new.
    pub fn person_switches(&mut self, name: &str) {
        if !self.branches.contains_key(name) {
            let line = self.head.as_ref().and_then(|head| self.branches.get(head)).cloned();
            let line = line.or_else(|| self.branches.values().next().cloned()).unwrap_or_default();
            self.branches.insert(name.to_string(), line);
        }
        self.head = Some(name.to_string());
    }
}

impl Default for Repo {
    fn default() -> Self {
        Repo::new()
    }
}
