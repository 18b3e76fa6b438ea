//! Quantities with their unit in the type: time, money, tokens. Integers only; sums saturate.

use alloc::collections::BTreeMap;

/// The largest number a document may hold: 2^53 - 1, exact in every JSON reader.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

/// Milliseconds in one UTC day.
pub const DAY_MS: u64 = 86_400_000;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(transparent))]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name(pub u64);

        impl $name {
            /// Adds and saturates at [`MAX_NUMBER`].
            #[must_use]
            pub fn plus(self, more: u64) -> Self {
                Self(self.0.saturating_add(more).min(MAX_NUMBER))
            }
            /// The distance from an earlier value; zero when `earlier` is later.
            #[must_use]
            pub fn since(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }
        }
    };
}

number!(
    /// Wall time in milliseconds since 1970-01-01 UTC. May step back and forward.
    WallMs
);
number!(
    /// Awake time of this loop in milliseconds: grows only while a machine that runs it is awake. All
    /// deadlines use it.
    ActiveMs
);
number!(
    /// Money in millionths of a US dollar.
    UsdMicros
);
number!(
    /// A UTC day: days since 1970-01-01.
    Day
);

impl WallMs {
    /// The UTC day this moment lies in.
    #[must_use]
    pub fn day(self) -> Day {
        Day(self.0 / DAY_MS)
    }
}

impl Day {
    /// The moment the next UTC day starts.
    #[must_use]
    pub fn next_midnight(self) -> WallMs {
        WallMs(self.0.saturating_add(1).saturating_mul(DAY_MS).min(MAX_NUMBER))
    }
}

impl UsdMicros {
    /// One US dollar.
    pub const DOLLAR: UsdMicros = UsdMicros(1_000_000);
    /// True when the sum ran into its ceiling; such a sum fits no cap.
    #[must_use]
    pub fn is_saturated(self) -> bool {
        self.0 >= MAX_NUMBER
    }
}

/// The clock that stands still in suspend, together with the boot it belongs to. Values of two boots do not
/// compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AwakeMs {
    /// The boot, as a number of at most 53 bits made from the boot id.
    pub boot: u64,
    /// Milliseconds awake since that boot.
    pub ms: u64,
}

data! {
    /// Tokens of one dispatch, in one form whatever the backend calls them.
    #[derive(Copy, Default)]
    pub struct Tokens {
        /// Input tokens that no cache served.
        pub input_uncached: u64,
        /// Input tokens read from a cache.
        pub cache_read: u64,
        /// Input tokens written to a cache.
        pub cache_write: u64,
        /// Output tokens, reasoning included when the provider bills it so.
        pub output: u64,
        /// The part of `output` that was reasoning; never added again.
        pub reasoning: u64,
    }

    /// Prices in millionths of a dollar for one million tokens.
    #[derive(Copy)]
    pub struct Price {
        /// Per million uncached input tokens.
        pub input_uncached: u64,
        /// Per million tokens read from a cache.
        pub cache_read: u64,
        /// Per million tokens written to a cache.
        pub cache_write: u64,
        /// Per million output tokens.
        pub output: u64,
    }
}

impl Tokens {
    /// All billed tokens, saturating.
    #[must_use]
    pub fn total(&self) -> u64 {
        [self.cache_read, self.cache_write, self.output]
            .iter()
            .fold(self.input_uncached, |sum, n| sum.saturating_add(*n))
            .min(MAX_NUMBER)
    }
}

impl Price {
    /// Cost of `tokens`: every kind rounded up on its own, in 128 bits, saturating.
    #[must_use]
    pub fn cost(&self, tokens: &Tokens) -> UsdMicros {
        let kinds = [
            (tokens.input_uncached, self.input_uncached),
            (tokens.cache_read, self.cache_read),
            (tokens.cache_write, self.cache_write),
            (tokens.output, self.output),
        ];
        let sum = kinds.iter().fold(0u128, |sum, (n, price)| {
            sum.saturating_add((u128::from(*n) * u128::from(*price)).div_ceil(1_000_000))
        });
        UsdMicros(u64::try_from(sum).unwrap_or(MAX_NUMBER).min(MAX_NUMBER))
    }

    /// The dearer of both, kind by kind.
    #[must_use]
    pub fn dearest(&self, other: &Price) -> Price {
        Price {
            input_uncached: self.input_uncached.max(other.input_uncached),
            cache_read: self.cache_read.max(other.cache_read),
            cache_write: self.cache_write.max(other.cache_write),
            output: self.output.max(other.output),
        }
    }

    /// The most that `max_tokens` output tokens can cost: what a reservation without a figure of its own
    /// assumes.
    #[must_use]
    pub fn ceiling(&self, max_tokens: u64) -> UsdMicros {
        let dearest = self.output.max(self.input_uncached).max(self.cache_write);
        let cost = (u128::from(max_tokens) * u128::from(dearest)).div_ceil(1_000_000);
        UsdMicros(u64::try_from(cost).unwrap_or(MAX_NUMBER).min(MAX_NUMBER))
    }
}

/// A saturating sum of money.
#[must_use]
pub fn total(amounts: impl Iterator<Item = UsdMicros>) -> UsdMicros {
    amounts.fold(UsdMicros(0), |sum, one| sum.plus(one.0))
}

/// An ordered map, so that every walk over it is the same walk on every machine.
pub type Map<K, V> = BTreeMap<K, V>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_rounds_up_once_per_kind_and_saturates() {
        let price = Price { input_uncached: 1, cache_read: 1, cache_write: 1, output: 1 };
        let one_each = Tokens { input_uncached: 1, cache_read: 1, cache_write: 1, output: 1, reasoning: 9 };
        assert_eq!(price.cost(&one_each), UsdMicros(4));
        let dear = Price { output: u64::MAX, ..price };
        assert!(dear.cost(&Tokens { output: u64::MAX, ..one_each }).is_saturated());
        assert_eq!(total([UsdMicros(MAX_NUMBER), UsdMicros(5)].into_iter()), UsdMicros(MAX_NUMBER));
    }

    #[test]
    fn a_day_ends_at_utc_midnight() {
        assert_eq!(WallMs(DAY_MS - 1).day(), Day(0));
        assert_eq!(WallMs(DAY_MS).day(), Day(1));
        assert_eq!(Day(0).next_midnight(), WallMs(DAY_MS));
    }
}
