//! Money and tokens by dispatch: reserved before, settled after, never forgotten and only ever made more
//! certain.

use alloc::string::String;

use crate::entries::Entries;
use crate::ids::{RouteKey, TaskId};
use crate::state::Op;
use crate::units::{Day, Map, Tokens, UsdMicros, total};

data! {
    /// How sure an amount is. Settlement only moves forward in this order.
    #[derive(Copy, PartialOrd, Ord)]
    pub enum Certainty {
        /// Set aside for a dispatch that runs.
        Reserved,
        /// Kept because the dispatch ended and reported nothing.
        Assumed,
        /// Reported tokens times a known price.
        Priced,
        /// Reported money.
        Measured,
    }

    /// What one dispatch cost.
    pub struct Entry {
        /// What it did.
        pub op: Op,
        /// Whose lineage it belongs to; none for planning.
        pub lineage: Option<TaskId>,
        /// The route.
        pub route: RouteKey,
        /// The goal it belongs to.
        pub goal: u32,
        /// The UTC day of the dispatch.
        pub day: Day,
        /// The supervisor that dispatched it.
        pub instance: u64,
        /// The amount.
        pub amount: UsdMicros,
        /// How sure it is.
        pub certainty: Certainty,
        /// Reported tokens.
        pub tokens: Tokens,
    }

    /// Usage that names no dispatch of this project; it counts all the same.
    pub struct Unattributed {
        /// The id it named.
        pub dispatch: String,
        /// The day it was seen.
        pub day: Day,
        /// The revision at which it was last told: the longest untold name is the first to go.
        pub revision: u64,
        /// The amount.
        pub amount: UsdMicros,
    }

    /// Money of finished goals, kept as sums.
    #[derive(Copy, Default)]
    pub struct Archived {
        /// Reported money of all finished goals.
        #[cfg_attr(feature = "serde", serde(default))]
        pub measured: UsdMicros,
        /// Their tokens times price.
        #[cfg_attr(feature = "serde", serde(default))]
        pub priced: UsdMicros,
        /// Kept for their silent dispatches; and all money that was put away before the three were kept
        /// apart.
        #[cfg_attr(feature = "serde", serde(alias = "spent"))]
        pub assumed: UsdMicros,
        /// Tokens over all finished goals.
        pub tokens: u64,
    }

    /// The project's book.
    #[derive(Default)]
    pub struct Ledger {
        /// By dispatch: this goal's entries and those of the current day.
        #[cfg_attr(feature = "schema", schemars(with = "Map<crate::ids::DispatchId, Entry>"))]
        pub entries: Entries,
        /// By the foreign id they named, at most 1,000.
        pub unattributed: Map<String, Unattributed>,
        /// Older goals.
        pub archived: Archived,
    }

    /// What a lineage cost.
    #[derive(Copy, Default)]
    pub struct LineageSum {
        /// Money.
        pub spend: Spend,
        /// Tokens, saturating.
        pub tokens: u64,
    }

    /// Sums of one scope.
    #[derive(Copy, Default)]
    pub struct Spend {
        /// Reported money.
        pub measured: UsdMicros,
        /// Tokens times price.
        pub priced: UsdMicros,
        /// Kept for silent dispatches.
        pub assumed: UsdMicros,
        /// Set aside for running dispatches.
        pub reserved: UsdMicros,
    }
}

impl Spend {
    /// What is gone: everything but reservations.
    #[must_use]
    pub fn spent(&self) -> UsdMicros {
        total([self.measured, self.priced, self.assumed].into_iter())
    }

    /// What a cap compares: spent and set aside.
    #[must_use]
    pub fn committed(&self) -> UsdMicros {
        self.spent().plus(self.reserved.0)
    }

    /// Both sums together, saturating.
    #[must_use]
    pub fn plus(&self, more: &Spend) -> Spend {
        Spend {
            measured: self.measured.plus(more.measured.0),
            priced: self.priced.plus(more.priced.0),
            assumed: self.assumed.plus(more.assumed.0),
            reserved: self.reserved.plus(more.reserved.0),
        }
    }

    pub(crate) fn add(&mut self, certainty: Certainty, amount: UsdMicros) {
        let slot = match certainty {
            Certainty::Reserved => &mut self.reserved,
            Certainty::Assumed => &mut self.assumed,
            Certainty::Priced => &mut self.priced,
            Certainty::Measured => &mut self.measured,
        };
        *slot = slot.plus(amount.0);
    }
}

impl Archived {
    /// Adds what was spent; reservations are nothing that was.
    pub(crate) fn add(&mut self, certainty: Certainty, amount: UsdMicros) {
        let slot = match certainty {
            Certainty::Reserved | Certainty::Assumed => &mut self.assumed,
            Certainty::Priced => &mut self.priced,
            Certainty::Measured => &mut self.measured,
        };
        *slot = slot.plus(amount.0);
    }

    /// All of it.
    #[must_use]
    pub fn spent(&self) -> UsdMicros {
        total([self.measured, self.priced, self.assumed].into_iter())
    }
}

impl Ledger {
    /// Sums over the entries that `keep` accepts. Unattributed usage is not part of it.
    #[must_use]
    pub fn spend(&self, keep: impl Fn(&Entry) -> bool) -> Spend {
        let mut sum = Spend::default();
        self.entries.values().filter(|e| keep(e)).for_each(|e| sum.add(e.certainty, e.amount));
        sum
    }

    /// The day's sums, unattributed usage included.
    #[must_use]
    pub fn day(&self, day: Day) -> Spend {
        let mut sum = self.spend(|e| e.day == day);
        let foreign = self.unattributed.values().filter(|u| u.day == day).map(|u| u.amount);
        sum.measured = sum.measured.plus(total(foreign).0);
        sum
    }

    /// A goal's sums.
    #[must_use]
    pub fn goal(&self, goal: u32) -> Spend {
        self.spend(|e| e.goal == goal)
    }

    /// The sums since a supervisor started.
    #[must_use]
    pub fn session(&self, instance: u64) -> Spend {
        self.spend(|e| e.instance == instance)
    }

    /// A lineage's sums.
    #[must_use]
    pub fn lineage(&self, lineage: &TaskId) -> Spend {
        self.entries.of_lineage(lineage).spend
    }

    /// A lineage's tokens, saturating.
    #[must_use]
    pub fn lineage_tokens(&self, lineage: &TaskId) -> u64 {
        self.entries.of_lineage(lineage).tokens
    }

    /// The 90th percentile of what a route's dispatches were measured at; none before five of them.
    #[must_use]
    pub fn measured_p90(&self, route: &RouteKey) -> Option<UsdMicros> {
        let measured =
            self.entries.values().filter(|e| e.route == *route && e.certainty >= Certainty::Priced);
        let mut amounts: alloc::vec::Vec<UsdMicros> = measured.map(|e| e.amount).collect();
        if amounts.len() < 5 {
            return None;
        }
        amounts.sort_unstable();
        crate::cost::percentile(&amounts, 90)
    }
}
