//! What the operator allows: limits, routes, checks and rules. An input of every decision, never part of the
//! state.

use alloc::vec::Vec;

use crate::ids::{Branch, Digest, Identity, RouteKey};
use crate::price::Peak;
use crate::tier::Tier;
use crate::units::{Map, Price, UsdMicros};

data! {
    /// The whole policy. Its digest is recorded as an event when it changes.
    pub struct Policy {
        /// Digest of the document it was read from.
        pub digest: Digest,
        /// Numbers of the circuits.
        pub limits: Limits,
        /// Where work may go.
        pub routes: Map<RouteKey, Route>,
        /// The route that plans.
        pub planner: RouteKey,
        /// The route that reviews.
        pub reviewer: RouteKey,
        /// The route of each tier's work.
        pub routing: Map<Tier, RouteKey>,
        /// The operator's checks, by digest; the argv lists stay with the host.
        pub acceptance: Acceptance,
        /// Who may review whom.
        pub review: ReviewPolicy,
        /// When a person approves high risk.
        pub high_risk: HighRisk,
        /// Whether a merge is verified after it too.
        pub post_merge: PostMerge,
        /// Branches that count as trunks besides main, master and the remote's default; compared case-folded.
        pub trunks: Vec<Branch>,
    }

    /// The operator's checks.
    pub enum Acceptance {
        /// None are configured.
        Absent,
        /// The digest of the argv lists and their time limit.
        Digest(Digest),
    }

    /// Who may review whom.
    #[derive(Copy)]
    pub struct ReviewPolicy {
        /// How different a reviewer must be.
        pub independence: Independence,
        /// Whether the reviewer's tier may not be below the task's.
        pub not_lower: bool,
    }

    /// How different a reviewer must be from every implementer.
    #[derive(Copy)]
    pub enum Independence {
        /// Another `provider/model`.
        Model,
        /// Another provider.
        Vendor,
    }

    /// When a person approves a high-risk task.
    #[derive(Copy)]
    pub enum HighRisk {
        /// After the review, before the merge.
        HoldBeforeMerge,
        /// Before the first work.
        HoldBeforeWork,
    }

    /// Whether the checks run again after a merge.
    #[derive(Copy)]
    pub enum PostMerge {
        /// The candidate was checked; that is enough.
        Never,
        /// Verify every merge, revert a red one.
        Always,
    }

    /// The adapter behind a route.
    #[derive(Copy, PartialOrd, Ord)]
    pub enum Backend {
        /// Closed by choice: shows what would be dispatched and waits.
        Noop,
        /// Embedded workers that follow a script file.
        Scripted,
        /// Any argv that reads a prompt and prints an envelope.
        Command,
        /// The claude command line.
        Claude,
        /// The codex command line.
        Codex,
        /// The dsh command line, headless.
        Dsh,
        /// A subagent in the plugin's process.
        Subagent,
        /// An agent in the plugin's process.
        DshAgent,
        /// An agent that speaks the agent client protocol.
        Acp,
    }

    /// One place where work may go.
    pub struct Route {
        /// The tier it is trusted with.
        pub tier: Tier,
        /// Its adapter.
        pub backend: Backend,
        /// `provider/model`.
        pub identity: Identity,
        /// Routes that take over while this one is closed, in order.
        pub fallback: Vec<RouteKey>,
        /// Its price, when known.
        pub price: Option<Price>,
        /// The hours in which it costs something else, if there are any.
        pub peak: Option<Peak>,
        /// What a dispatch reserves, when the operator says so.
        pub reserve: Option<UsdMicros>,
        /// The output ceiling of one dispatch, in tokens.
        pub max_tokens: Option<u64>,
        /// How many dispatches at a time; none for no limit of its own.
        pub max_parallel: Option<u32>,
    }

    /// Numbers of the circuits. Counts are at least 1; zero money means zero.
    pub struct Limits {
        /// Work dispatches per task that reached a model.
        pub task_attempts: u32,
        /// Refusals per task.
        pub refusals: u32,
        /// Reviews per task.
        pub review_cycles: u32,
        /// One dispatch, in minutes awake.
        pub dispatch_minutes: u32,
        /// A task's whole life, in minutes awake; never below dispatch time times attempts.
        pub lifetime_minutes: u32,
        /// How long nothing may move while a person's checkout is in the way, in minutes awake.
        pub no_progress_minutes: u32,
        /// Tokens per lineage.
        pub tokens_per_task: u64,
        /// Money since this process started.
        pub cost_session: UsdMicros,
        /// Money per UTC day in this project.
        pub cost_day: UsdMicros,
        /// Money per UTC day over all projects of this user.
        pub cost_day_all_projects: UsdMicros,
        /// Money per goal.
        pub cost_goal: Option<UsdMicros>,
        /// Money per lineage.
        pub cost_task: Option<UsdMicros>,
        /// The same operation with the same basis in a row.
        pub same_action: u32,
        /// Workers of all projects of this process.
        pub parallel_process: u32,
        /// Workers of this project.
        pub parallel_project: u32,
        /// Refreshes per task.
        pub refreshes: u32,
        /// Replans per lineage.
        pub replans: u32,
        /// Orphans per task.
        pub orphans: u32,
        /// Plans that reached a model and were not accepted.
        pub plan_attempts: u32,
        /// Plan dispatches that no provider saw.
        pub plan_refusals: u32,
        /// Free bytes below which nothing new starts.
        pub disk_low_bytes: u64,
    }
}

/// What a dispatch reserves when nothing says what it could cost: 0.50 US dollars.
pub const DEFAULT_RESERVE: UsdMicros = UsdMicros(500_000);

impl Default for Limits {
    fn default() -> Self {
        Limits {
            task_attempts: 3,
            refusals: 2,
            review_cycles: 2,
            dispatch_minutes: 45,
            lifetime_minutes: 135,
            no_progress_minutes: 15,
            tokens_per_task: 500_000,
            cost_session: UsdMicros(2_000_000),
            cost_day: UsdMicros(20_000_000),
            cost_day_all_projects: UsdMicros(20_000_000),
            cost_goal: None,
            cost_task: None,
            same_action: 3,
            parallel_process: 5,
            parallel_project: 3,
            refreshes: 3,
            replans: 2,
            orphans: 3,
            plan_attempts: 3,
            plan_refusals: 2,
            disk_low_bytes: 1 << 30,
        }
    }
}

impl Limits {
    /// One dispatch, in milliseconds awake.
    #[must_use]
    pub fn dispatch_ms(&self) -> u64 {
        u64::from(self.dispatch_minutes) * 60_000
    }

    /// A task's whole life, in milliseconds awake.
    #[must_use]
    pub fn lifetime_ms(&self) -> u64 {
        let attempts = self.dispatch_ms().saturating_mul(u64::from(self.task_attempts));
        (u64::from(self.lifetime_minutes) * 60_000).max(attempts)
    }
}

impl Policy {
    /// The routes of a tier in the order they are tried: the named one, then its fallbacks.
    #[must_use]
    pub fn work_routes(&self, tier: Tier) -> Vec<&RouteKey> {
        self.routing.get(&tier).map(|key| self.with_fallbacks(key)).unwrap_or_default()
    }

    /// The reviewer's route and its fallbacks.
    #[must_use]
    pub fn review_routes(&self) -> Vec<&RouteKey> {
        self.with_fallbacks(&self.reviewer)
    }

    /// The planner's route and its fallbacks.
    #[must_use]
    pub fn plan_routes(&self) -> Vec<&RouteKey> {
        self.with_fallbacks(&self.planner)
    }

    fn with_fallbacks<'a>(&'a self, key: &'a RouteKey) -> Vec<&'a RouteKey> {
        let fallback = self.routes.get(key).map(|route| route.fallback.as_slice()).unwrap_or_default();
        core::iter::once(key).chain(fallback).filter(|key| self.routes.contains_key(*key)).collect()
    }

    /// Whether the branch is one that merges need leave for; `remote_default` is the remote's default branch.
    #[must_use]
    pub fn is_trunk(&self, branch: &Branch, remote_default: Option<&Branch>) -> bool {
        let name = branch.as_str();
        let mut configured = self.trunks.iter().chain(remote_default).map(Branch::as_str);
        configured.any(|trunk| is_same_folded(trunk, name))
            || ["main", "master"].iter().any(|trunk| is_same_folded(trunk, name))
    }
}

/// Whether two names are the same with case folded. Every decision asks: names in ASCII are not copied.
fn is_same_folded(a: &str, b: &str) -> bool {
    if a.is_ascii() && b.is_ascii() {
        a.eq_ignore_ascii_case(b)
    } else {
        a.to_lowercase() == b.to_lowercase()
    }
}
