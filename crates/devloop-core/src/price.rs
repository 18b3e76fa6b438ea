//! What tokens of a route cost at which hour. It must not know who used them.

use alloc::vec::Vec;

use crate::policy::Route;
use crate::units::{DAY_MS, Price, WallMs};

data! {
    /// Hours of the week in which a route costs something else.
    pub struct Peak {
        /// What it costs then.
        pub price: Price,
        /// When that is.
        pub hours: Vec<PeakHours>,
    }

    /// The same hours of several days, in UTC.
    #[derive(Copy)]
    pub struct PeakHours {
        /// The first day, 0 for Monday to 6 for Sunday.
        pub first_day: u8,
        /// The last day; it is part of them.
        pub last_day: u8,
        /// From this minute of the day.
        pub from_minute: u16,
        /// To this minute of the day, which is not part of them; 1440 is its end.
        pub to_minute: u16,
    }
}

/// Milliseconds of one minute.
const MINUTE_MS: u64 = 60_000;
/// 1970-01-01 was a Thursday.
const FIRST_WEEKDAY: u64 = 3;

impl PeakHours {
    /// Whether one of its minutes lies between two moments, both included.
    fn touches(&self, from: WallMs, to: WallMs) -> bool {
        let on = |day: u64| {
            let weekday = day.saturating_add(FIRST_WEEKDAY) % 7;
            let start = day.saturating_mul(DAY_MS);
            let at = |minute: u16| start.saturating_add(u64::from(minute) * MINUTE_MS);
            let within = u64::from(self.first_day) <= weekday && weekday <= u64::from(self.last_day);
            within && at(self.from_minute) <= to.0 && at(self.to_minute) > from.0
        };
        let (first, last) = (from.day().0, to.day().0);
        // A span of more days than a week has touches what one of a week touches.
        (first..=last.min(first.saturating_add(7))).any(on)
    }
}

impl Route {
    /// What tokens cost that were used between two moments: where the price changed meanwhile, the dearest
    /// that held. None when it is not known.
    #[must_use]
    pub fn price_between(&self, from: WallMs, to: WallMs) -> Option<Price> {
        let (price, from) = (self.price?, from.min(to));
        let peak = self.peak.as_ref().filter(|peak| peak.hours.iter().any(|hours| hours.touches(from, to)));
        Some(peak.map_or(price, |peak| price.dearest(&peak.price)))
    }

    /// The dearest price of all hours: what a reservation counts with.
    #[must_use]
    pub fn dearest_price(&self) -> Option<Price> {
        let price = self.price?;
        Some(self.peak.as_ref().map_or(price, |peak| price.dearest(&peak.price)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Monday to Friday 01:00 to 04:00 and 06:00 to 10:00 UTC.
    fn hours() -> [PeakHours; 2] {
        let of = |from: u16, to: u16| PeakHours {
            first_day: 0,
            last_day: 4,
            from_minute: from * 60,
            to_minute: to * 60,
        };
        [of(1, 4), of(6, 10)]
    }

    /// Days since Monday, 1970-01-05, and minutes.
    fn at(days: u64, minutes: u64) -> WallMs {
        WallMs((4 + days) * DAY_MS + minutes * MINUTE_MS)
    }

    #[test]
    fn hours_are_half_open_and_know_the_days_of_the_week() {
        let rows = [
            (at(0, 59), at(0, 59), false),
            (at(0, 60), at(0, 60), true),
            (at(0, 239), at(0, 239), true),
            (at(0, 240), at(0, 240), false),
            (at(0, 240), at(0, 359), false),
            (at(0, 240), at(0, 360), true),
            (at(0, 0), at(0, 1_439), true),
            (at(4, 120), at(4, 120), true),
            (at(5, 120), at(5, 120), false),
            (at(5, 0), at(6, 1_439), false),
            (at(4, 600), at(7, 59), false),
            (at(4, 600), at(7, 60), true),
            (at(5, 0), at(400, 0), true),
        ];
        for (from, to, expect) in rows {
            assert_eq!(hours().iter().any(|hours| hours.touches(from, to)), expect, "{from:?} {to:?}");
        }
        assert!(!hours()[0].touches(WallMs(u64::MAX), WallMs(u64::MAX)));
    }

    #[test]
    fn the_dearest_price_that_held_counts() {
        let price = |output| Price { input_uncached: 7, cache_read: 1, cache_write: 7, output };
        let mut route = crate::question::samples::route("acme/worker");
        assert_eq!(route.price_between(at(0, 60), at(0, 60)), None);
        route.price = Some(price(4));
        route.peak = Some(Peak { price: Price { cache_read: 0, ..price(8) }, hours: hours().to_vec() });
        assert_eq!(route.price_between(at(0, 0), at(0, 10)), Some(price(4)));
        // Kind by kind, so that no kind is ever taken for cheaper than it may have been.
        assert_eq!(route.price_between(at(0, 0), at(0, 60)), Some(price(8)));
        // A clock that was set back names the end before the start.
        assert_eq!(route.price_between(at(0, 70), at(0, 60)), Some(price(8)));
        assert_eq!(route.dearest_price(), Some(price(8)));
    }
}
