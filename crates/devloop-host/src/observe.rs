//! One look at the world as the core asks for it: goal, repository, disk, other projects, reports, orphans.
//! It only reads.

use devloop_core::ids::{Branch, DispatchId, Oid};
use devloop_core::observation::{
    Checkout, GoalSeen, Observation, OrphanSeen, Others, ProcessTree, RepoSeen, Stamp,
};
use devloop_core::report::Report;
use devloop_core::state::{LoopState, Op, Owner};
use devloop_core::task::clip;
use devloop_wire::json;
use devloop_wire::migrate::Present;

use crate::clock::{Clock, boot_number};
use crate::effects::run_record;
use crate::error::{ErrorKind, HostError};
use crate::files;
use crate::git::{GitError, Repo, inspect, status};
use crate::process::tree;
use crate::store::{self, Armed, Disk, Identity, small};

/// How many changed paths of the checkout are named.
const DIRTY_NAMES: usize = 10;

/// What an observation is made with.
#[derive(Debug)]
pub struct Observer<'a> {
    /// The project.
    pub armed: &'a Armed,
    /// Its files.
    pub disk: &'a Disk,
    /// Its repository.
    pub repo: &'a Repo,
    /// The clocks.
    pub clock: &'a dyn Clock,
    /// Who looks.
    pub me: &'a Identity,
}

/// The identity of a process in the words of the core.
#[must_use]
pub fn owner(me: &Identity) -> Owner {
    let instance = u64::from_str_radix(&me.instance, 16).unwrap_or(0) & devloop_core::units::MAX_NUMBER;
    Owner {
        host: me.host.clone(),
        boot: boot_number(&me.boot),
        pid: me.pid,
        started: me.started & devloop_core::units::MAX_NUMBER,
        instance,
    }
}

impl Observer<'_> {
    /// Who looks and when.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp { wall: self.clock.wall(), awake: self.clock.awake(), owner: owner(self.me) }
    }

    /// Looks at everything once.
    ///
    /// # Errors
    /// When the repository or a file cannot be read at all.
    pub fn observe(&self, state: &LoopState, others: Others) -> Result<Observation, HostError> {
        let reports = self.reports()?;
        Ok(Observation {
            stamp: self.stamp(),
            goal: self.goal()?,
            repo: self.repo(state, &reports)?,
            free_disk_bytes: store::reserve::free_bytes(self.armed.folder())?
                .unwrap_or(devloop_core::units::MAX_NUMBER)
                .min(devloop_core::units::MAX_NUMBER),
            others,
            reports,
            orphans: self.orphans(state)?,
        })
    }

    /// What stands under the goal's name. A disk that fails is no fault of the file: the look is made again.
    fn goal(&self) -> Result<GoalSeen, HostError> {
        let strange = |why: String| Ok(GoalSeen::Unusable(clip(&why)));
        match self.armed.read_goal(self.disk) {
            Ok(Some(bytes)) => match std::str::from_utf8(&bytes) {
                Ok(_) => Ok(GoalSeen::Present(json::digest_bytes(&bytes))),
                Err(bad) => {
                    let (path, at) = (self.armed.goal(), bad.valid_up_to());
                    strange(format!("{} is not valid UTF-8 (first bad byte at offset {at})", path.display()))
                }
            },
            Ok(None) => Ok(GoalSeen::Absent),
            Err(error) if error.is_about_the_file() => strange(error.to_string()),
            Err(other) => Err(other.into()),
        }
    }

    fn repo(&self, state: &LoopState, reports: &[Report]) -> Result<RepoSeen, HostError> {
        let branch = inspect::current_branch(self.repo)?.and_then(|full| short(&full));
        let target = state.target.branch.as_ref();
        let tip = match target {
            Some(target) => inspect::tip(self.repo, &full_ref(target))?,
            None => self.repo.resolve("HEAD")?,
        };
        let contains_last_merge = match (&tip, &state.target.last_merge) {
            (Some(tip), Some(merge)) => tip == merge || self.contains(tip, merge)?,
            _ => true,
        };
        // A status of a large checkout is the dearest part of a look, and only a merge asks for it: one that
        // is ready, or one that these reports make ready in the same beat.
        let leads_to_merge = |report: &Report| {
            let lease = state.leases.get(&report.dispatch);
            lease.is_some_and(|lease| matches!(lease.op, Op::Review | Op::Merge | Op::Refresh))
        };
        let asked = state.looks_at_checkout() || reports.iter().any(leads_to_merge);
        let checkout = if asked { self.checkout(target)? } else { Checkout::Free };
        Ok(RepoSeen { remote_default: self.remote_default()?, checkout, branch, tip, contains_last_merge })
    }

    /// What a state of the earlier plugin is completed with.
    ///
    /// # Errors
    /// When the repository or GOAL.md cannot be read.
    pub fn present(&self) -> Result<Present, HostError> {
        let goal = match self.goal()? {
            GoalSeen::Present(digest) => Some(digest),
            GoalSeen::Absent | GoalSeen::Unusable(_) => None,
        };
        Ok(Present { goal, branch: inspect::current_branch(self.repo)?.and_then(|full| short(&full)) })
    }

    fn contains(&self, tip: &Oid, merge: &Oid) -> Result<bool, HostError> {
        Ok(self.repo.contains(tip, merge)?)
    }

    fn remote_default(&self) -> Result<Option<Branch>, HostError> {
        let line = inspect::origin_head(self.repo)?;
        Ok(line.and_then(|full| Branch::parse(full.strip_prefix("refs/remotes/origin/")?).ok()))
    }

    /// The first work tree that has the target checked out and cannot follow a merge now.
    fn checkout(&self, target: Option<&Branch>) -> Result<Checkout, HostError> {
        let wanted = match target {
            Some(target) => Some(full_ref(target)),
            None => inspect::current_branch(self.repo)?,
        };
        for registered in inspect::worktrees(self.repo)? {
            let on_it = wanted.is_some() && registered.branch == wanted;
            let there = files::stamp(&registered.path).is_some_and(|s| s.folder && !s.symlink);
            if let Some(admin) = registered.admin.filter(|_| on_it && there) {
                let seen = checkout(&self.repo.pinned(registered.path, admin))?;
                if seen != Checkout::Free {
                    return Ok(seen);
                }
            }
        }
        Ok(Checkout::Free)
    }

    fn reports(&self) -> Result<Vec<Report>, HostError> {
        let parked = small::parked_reports(self.disk, self.armed)?;
        // A report that cannot be read is left where it is: its dispatch ends as an orphan, and doctor names
        // the file.
        Ok(parked.into_iter().filter_map(|(_, bytes)| serde_json::from_slice(&bytes).ok()).collect())
    }

    /// Leases of other owners that run a model, and what is known of their processes.
    fn orphans(&self, state: &LoopState) -> Result<Vec<OrphanSeen>, HostError> {
        let me = owner(self.me);
        let foreign = state.leases.iter().filter(|(_, lease)| lease.owner != me && lease.op.is_model());
        foreign.map(|(dispatch, lease)| self.orphan(*dispatch, &lease.owner)).collect()
    }

    fn orphan(&self, dispatch: DispatchId, was: &Owner) -> Result<OrphanSeen, HostError> {
        // A damaged record still says that something was started: it is never taken for "nothing ran".
        let record = run_record::read(self.disk, self.armed, dispatch);
        let started = !matches!(record, Ok(None));
        let living = record.is_ok_and(|r| r.is_some_and(|r| !tree::alive(&r.tree()).is_empty()));
        // Another machine's processes cannot be seen from here; only their own loop may call them dead.
        let foreign = was.host != self.me.host;
        let tree = if living || foreign { ProcessTree::Alive } else { ProcessTree::Dead };
        Ok(OrphanSeen { dispatch, tree, run_record: started, saved: None })
    }
}

/// What is in the way in one work tree.
fn checkout(tree: &Repo) -> Result<Checkout, HostError> {
    if let Some(operation) = inspect::operation(tree) {
        return Ok(Checkout::Busy { what: operation.to_string() });
    }
    // An editor's git takes this lock for a moment; a merge that meets it would count as a lost one.
    if files::stamp(&tree.git_dir().join("index.lock")).is_some() {
        return Ok(Checkout::Busy { what: "command of another git".into() });
    }
    let (paths, total) = match status::dirty(tree, DIRTY_NAMES) {
        Ok(found) => found,
        // A filter that fails, an index that is torn: somebody has to look, and the loop waits for that.
        Err(GitError::Failed { stderr, .. }) => {
            return Ok(Checkout::Busy { what: clip(&format!("git status fails: {stderr}")) });
        }
        Err(other) => return Err(other.into()),
    };
    if total == 0 {
        return Ok(Checkout::Free);
    }
    Ok(Checkout::Dirty { paths: paths.iter().map(ToString::to_string).collect() })
}

/// The full ref of a branch.
#[must_use]
pub fn full_ref(branch: &Branch) -> String {
    format!("refs/heads/{branch}")
}

fn short(full: &str) -> Option<Branch> {
    Branch::parse(full.strip_prefix("refs/heads/")?).ok()
}

/// The project's repository, or the one sentence that says why there is none the loop can work in.
///
/// # Errors
/// Config, with every problem named.
pub fn open_repo(git: &crate::git::Git, armed: &Armed) -> Result<Repo, HostError> {
    let found = inspect::preflight(git, armed.root())?;
    let fatal = found.problems.iter().find(|problem| is_fatal(problem));
    match (found.repo, fatal) {
        (Some(repo), None) => Ok(repo),
        (_, problem) => {
            let what = problem.map_or_else(|| "it is no git repository".to_string(), ToString::to_string);
            let root = armed.root().to_string_lossy().into_owned();
            Err(HostError::new(ErrorKind::Config, what).at(armed.root()).hint([
                "devloop".to_owned(),
                "doctor".to_owned(),
                root,
            ]))
        }
    }
}

/// What the loop cannot work with. A dirty checkout, a detached HEAD or somebody's merge only keeps merges
/// waiting.
fn is_fatal(problem: &inspect::ArmProblem) -> bool {
    use inspect::ArmProblem as P;
    matches!(problem, P::Root(_) | P::NoCommit | P::DevloopIsSymlink | P::DevloopIsNotAFolder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::demo;
    use crate::clock::SystemClock;
    use crate::git::Git;
    use crate::store::layout;

    #[test]
    fn every_checkout_of_the_target_is_looked_at_and_a_lock_is_somebody_at_work() {
        let dir = tempfile::tempdir().unwrap();
        let root = demo::sample_repo(&dir.path().join("project")).unwrap();
        let repo = Repo::open(&Git::discover().unwrap(), &root).unwrap().unwrap();
        let (armed, disk) = (layout::require_armed(&root).unwrap(), Disk::default());
        let (clock, me) = (SystemClock::new(), Identity::new_instance());
        let observer = Observer { armed: &armed, disk: &disk, repo: &repo, clock: &clock, me: &me };
        let target = Branch::parse(demo::BRANCH).unwrap();
        let look = || observer.checkout(Some(&target)).unwrap();
        assert_eq!(look(), Checkout::Free);
        let lock = repo.git_dir().join("index.lock");
        std::fs::write(&lock, "").unwrap();
        assert!(matches!(look(), Checkout::Busy { .. }));
        std::fs::remove_file(&lock).unwrap();
        // A merge of a person that stopped at a conflict.
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        let call = |args: &[&str]| {
            let who = ["-c", "user.name=Ada", "-c", "user.email=ada@localhost"];
            repo.call(who.into_iter().chain(args.iter().copied())).run().unwrap()
        };
        let whole = std::fs::read(root.join("README.md")).unwrap();
        call(&["checkout", "--quiet", "-b", "theirs"]);
        write("README.md", "theirs\n");
        call(&["commit", "--quiet", "-am", "theirs"]);
        call(&["checkout", "--quiet", demo::BRANCH]);
        write("README.md", "ours\n");
        call(&["commit", "--quiet", "-am", "ours"]);
        assert_ne!(call(&["merge", "theirs"]).code, Some(0));
        assert_eq!(look(), Checkout::Busy { what: "merge".into() });
        call(&["merge", "--abort"]);
        assert_eq!(look(), Checkout::Free);
        std::fs::write(root.join("README.md"), whole).unwrap();
        call(&["commit", "--quiet", "-am", "as it was"]);
        // The target moves to another work tree; what stands in the first one is in nobody's way then.
        repo.call(["checkout", "--quiet", "-b", "mine"]).ok().unwrap();
        let other = dir.path().join("other");
        let add = ["worktree", "add", "--quiet", other.to_str().unwrap(), demo::BRANCH];
        repo.call(add).ok().unwrap();
        std::fs::write(root.join("README.md"), "mine").unwrap();
        assert_eq!(look(), Checkout::Free);
        std::fs::write(other.join("README.md"), "mine too").unwrap();
        assert_eq!(look(), Checkout::Dirty { paths: vec!["README.md".into()] });
    }
}
