//! What a route costs: its own `price`, else the dated list of known prices beside the sources. It must not
//! know who spends.

use std::sync::LazyLock;

use devloop_core::price::{Peak, PeakHours};
use devloop_core::units::{MAX_NUMBER, Price, UsdMicros};
use serde::Deserialize;

use crate::config_doc::Weight;
use crate::config_fields::{Faults, Fields, nearest_within};
use crate::money::parse_usd;
use crate::tree::Node;

/// What a route costs, and who says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tariff {
    /// The price outside the peak hours; none when it is not known.
    pub price: Option<Price>,
    /// The hours in which it differs.
    pub peak: Option<Peak>,
    /// Who says so.
    pub from: PriceFrom,
}

/// Who says what a route costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PriceFrom {
    /// Nobody.
    #[default]
    Nobody,
    /// The configuration.
    Own,
    /// The list of known prices.
    Listed(&'static Row),
    /// The list, in a currency whose rate the configuration does not name.
    NoRate(&'static Row),
}

/// One price of the list.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Row {
    /// Whose models.
    pub providers: Vec<String>,
    /// Names of the model.
    pub models: Vec<String>,
    /// The day it was read, as `2026-03-01`.
    pub as_of: String,
    /// Where it was read.
    pub source: String,
    /// What it is in.
    pub currency: Currency,
    rates: Rates,
    peak: Option<PeakRow>,
}

/// A currency of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Currency {
    /// US dollars.
    #[serde(rename = "USD")]
    Usd,
    /// Chinese yuan; `usdPerCny` turns them into dollars.
    #[serde(rename = "CNY")]
    Cny,
}

/// Amounts of the currency for a million tokens; those of a cache are as the input's when left out.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Rates {
    input: String,
    cache_read: Option<String>,
    cache_write: Option<String>,
    output: String,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PeakRow {
    rates: Rates,
    hours: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(rename = "version")]
    _version: u64,
    prices: Vec<Row>,
}

static LIST: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let text = include_str!("../prices.json");
    serde_json::from_str::<List>(text).expect("a test reads this very file").prices
});

/// Every known price.
#[must_use]
pub fn list() -> &'static [Row] {
    &LIST
}

/// The known price of a model.
#[must_use]
pub fn listed(provider: &str, model: &str) -> Option<&'static Row> {
    let named = |names: &[String], name: &str| names.iter().any(|known| known == name);
    LIST.iter().find(|row| named(&row.providers, provider) && named(&row.models, model))
}

/// Models that people name and whose price is not listed.
const UNPRICED: [(&str, &[&str]); 3] = [
    ("claude", &["opus", "haiku"]),
    ("codex", &["gpt-5.4", "gpt-5.5"]),
    ("dsh", &["deepseek-pro", "deepseek-chat", "deepseek-reasoner"]),
];

/// The known model that this name is a slip of the pen for, if it looks like one. Another number is another
/// model, newer than these lists; nobody is told that it is wrong.
pub(crate) fn meant(provider: &str, model: &str) -> Option<&'static str> {
    let rows = LIST.iter().filter(|row| row.providers.iter().any(|known| known == provider));
    let listed = rows.flat_map(|row| row.models.iter().map(String::as_str));
    let others = UNPRICED.iter().filter(|(known, _)| *known == provider).flat_map(|(_, models)| *models);
    let known: Vec<&str> = listed.chain(others.copied()).collect();
    let letters = |name: &str| name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    if known.iter().any(|name| letters(name) == letters(model)) {
        return None;
    }
    nearest_within(2, model, known)
}

impl Row {
    /// In millionths of a dollar; `rate` is the worth of one unit of the currency. None when an amount or an
    /// hour cannot be read.
    fn tariff(&'static self, rate: UsdMicros) -> Option<Tariff> {
        let peak = match &self.peak {
            Some(peak) => Some(Peak {
                price: peak.rates.price(rate)?,
                hours: peak.hours.iter().map(|text| parse_hours(text)).collect::<Option<_>>()?,
            }),
            None => None,
        };
        Some(Tariff { price: Some(self.rates.price(rate)?), peak, from: PriceFrom::Listed(self) })
    }
}

impl Rates {
    fn price(&self, rate: UsdMicros) -> Option<Price> {
        let one = |text: &str| -> Option<u64> {
            let amount = u128::from(parse_usd(text).ok()?.0);
            let micros = (amount * u128::from(rate.0)).div_ceil(1_000_000);
            Some(u64::try_from(micros).unwrap_or(MAX_NUMBER).min(MAX_NUMBER))
        };
        let input = one(&self.input)?;
        let cache = |text: &Option<String>| text.as_deref().map_or(Some(input), one);
        Some(Price {
            input_uncached: input,
            cache_read: cache(&self.cache_read)?,
            cache_write: cache(&self.cache_write)?,
            output: one(&self.output)?,
        })
    }
}

/// What one yuan is worth, as the operator says: above zero, or a list price would look free.
pub(crate) fn usd_per_cny(faults: &mut Faults, top: &Fields<'_>) -> Option<UsdMicros> {
    let read = match top.get("usdPerCny")? {
        Node::Number(text) | Node::Text(text) => parse_usd(text).ok().filter(|rate| rate.0 > 0),
        _ => None,
    };
    if read.is_none() {
        let what = "must be the US dollars that one yuan is worth, above zero, for example 0.14";
        faults.add(Weight::Closing, "usdPerCny", what);
    }
    read
}

/// The price of a route. Its own goes before the list's; `null` says that there is none.
pub(crate) fn read(
    faults: &mut Faults,
    f: &Fields<'_>,
    provider: &str,
    model: Option<&str>,
    usd_per_cny: Option<UsdMicros>,
) -> Tariff {
    if f.iter().any(|(key, node)| key == "price" && *node == Node::Null) {
        return Tariff::default();
    }
    let Some(node) = f.get("price") else {
        return model.and_then(|model| listed(provider, model)).map_or_else(Tariff::default, |row| {
            let rate = match row.currency {
                Currency::Usd => Some(UsdMicros::DOLLAR),
                Currency::Cny => usd_per_cny,
            };
            let unpriced = || Tariff { from: PriceFrom::NoRate(row), ..Tariff::default() };
            rate.and_then(|rate| row.tariff(rate)).unwrap_or_else(unpriced)
        });
    };
    let keys = &["unit", "input", "cacheRead", "cacheWrite", "output", "peak"];
    let p = faults.fields(node, &f.at("price"), keys);
    let micros = faults.word(&p, "unit", &[("usd", false), ("usd_micros", true)]).unwrap_or(false);
    let price = amounts(faults, &p, micros);
    let peak = p.get("peak").and_then(|node| {
        let keys = &["input", "cacheRead", "cacheWrite", "output", "hours"];
        let q = faults.fields(node, &p.at("peak"), keys);
        let price = amounts(faults, &q, micros);
        Some(Peak { price: price?, hours: hours(faults, &q) })
    });
    Tariff { peak: peak.filter(|_| price.is_some()), price, from: PriceFrom::Own }
}

/// Dollars per million tokens, or millionths of a dollar. Cache prices default to the input's.
fn amounts(faults: &mut Faults, p: &Fields<'_>, micros: bool) -> Option<Price> {
    let mut one = |key: &str| -> Option<u64> {
        let read = match p.get(key)? {
            Node::Number(text) if micros => {
                let whole = text.parse::<u64>().ok().filter(|n| *n <= MAX_NUMBER);
                whole.ok_or("must be a whole number of micro-dollars per million tokens")
            }
            Node::Number(text) | Node::Text(text) if !micros => parse_usd(text).map(|usd| usd.0),
            _ => Err("must be an amount per million tokens, zero or more"),
        };
        // A price taken for zero would make a route look free.
        read.map_err(|rule| faults.add(Weight::Closing, p.at(key), rule)).ok()
    };
    let (input, output) = (one("input"), one("output"));
    let (read, write) = (one("cacheRead"), one("cacheWrite"));
    match (input, output) {
        (Some(input), Some(output)) => Some(Price {
            input_uncached: input,
            cache_read: read.unwrap_or(input),
            cache_write: write.unwrap_or(input),
            output,
        }),
        _ => {
            let missing = if p.get("input").is_none() { "input" } else { "output" };
            if p.get(missing).is_none() {
                faults.add(Weight::Closing, p.at(missing), "a price needs input and output");
            }
            None
        }
    }
}

fn hours(faults: &mut Faults, q: &Fields<'_>) -> Vec<PeakHours> {
    let rule = "must be days and hours in UTC, for example \"mon-fri 01:00-04:00\" or \"sun 22:00-24:00\"";
    let texts = faults.texts(q, "hours", |text| parse_hours(text).is_none().then(|| rule.to_owned()));
    if q.get("hours").is_none() {
        faults.add(Weight::Closing, q.at("hours"), "must be named: a peak needs its hours");
    }
    texts.iter().filter_map(|text| parse_hours(text)).collect()
}

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Reads `mon-fri 01:00-04:00`. Hours that go over midnight are written as two.
fn parse_hours(text: &str) -> Option<PeakHours> {
    let (days, span) = text.split_once(' ')?;
    let day = |word: &str| DAYS.iter().position(|known| *known == word).and_then(|at| u8::try_from(at).ok());
    let (first, last) = days.split_once('-').unwrap_or((days, days));
    let minute = |text: &str| -> Option<u16> {
        let (hour, minute) =
            text.split_once(':').filter(|(hour, minute)| hour.len() == 2 && minute.len() == 2)?;
        let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok().filter(|m| *m < 60)?);
        Some(hour.checked_mul(60)? + minute).filter(|minutes| *minutes <= 1_440)
    };
    let (from, to) = span.split_once('-')?;
    let hours = PeakHours {
        first_day: day(first)?,
        last_day: day(last)?,
        from_minute: minute(from)?,
        to_minute: minute(to)?,
    };
    (hours.first_day <= hours.last_day && hours.from_minute < hours.to_minute).then_some(hours)
}

/// The hours as they are read.
pub(crate) fn hours_text(hours: &PeakHours) -> String {
    let day = |at: u8| DAYS.get(usize::from(at)).copied().unwrap_or("sun");
    let (first, last) = (day(hours.first_day), day(hours.last_day));
    let days = if first == last { first.to_owned() } else { format!("{first}-{last}") };
    let time = |minutes: u16| format!("{:02}:{:02}", minutes / 60, minutes % 60);
    format!("{days} {}-{}", time(hours.from_minute), time(hours.to_minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is wrong with the embedded file is found here and not at the start of a loop.
    #[test]
    fn every_row_of_the_list_is_dated_sourced_and_read_and_names_a_model_once() {
        let mut named = Vec::new();
        for row in list() {
            let tariff = row.tariff(UsdMicros::DOLLAR).expect("amounts and hours that are read");
            let Price { input_uncached, cache_read, cache_write, output } = tariff.price.expect("a price");
            assert!(output >= input_uncached && cache_write >= input_uncached, "{row:?}");
            assert!(0 < cache_read && cache_read < input_uncached, "{row:?}");
            let digits = row.as_of.split('-').map(str::len).collect::<Vec<_>>();
            assert!(digits == [4, 2, 2] && !row.source.is_empty(), "{row:?}");
            assert!(tariff.peak.is_none_or(|peak| !peak.hours.is_empty()), "{row:?}");
            for provider in &row.providers {
                named.extend(row.models.iter().map(|model| (provider, model)));
            }
        }
        let count = named.len();
        named.sort();
        named.dedup();
        assert_eq!((named.len(), list().len()), (count, 6));
    }

    #[test]
    fn yuan_become_dollars_in_whole_millionths_and_round_up() {
        let row = listed("dsh", "deepseek-v4-pro").expect("a row");
        let tariff = row.tariff(UsdMicros(140_001)).expect("read");
        let price =
            Price { input_uncached: 140_001, cache_read: 2_801, cache_write: 140_001, output: 560_004 };
        assert_eq!(tariff.price, Some(price));
        let peak = tariff.peak.expect("a peak");
        assert_eq!(peak.price.output, 1_120_008);
        let shown: Vec<String> = peak.hours.iter().map(hours_text).collect();
        assert_eq!(shown, ["mon-fri 01:00-04:00", "mon-fri 06:00-10:00"]);
        assert_eq!(listed("dsh", "claude-opus-5-5"), None);
    }

    #[test]
    fn hours_are_read_exactly() {
        for text in ["mon-fri 01:00-04:00", "sun 22:00-24:00", "sat-sun 00:00-00:01"] {
            assert_eq!(parse_hours(text).map(|hours| hours_text(&hours)).as_deref(), Some(text));
        }
        for text in [
            "",
            "mon",
            "fri-mon 01:00-02:00",
            "mon 02:00-02:00",
            "mon 23:00-01:00",
            "mon 1:00-2:00",
            "mon 00:60-02:00",
            "mon 00:00-24:01",
            "Mon 00:00-01:00",
            "mon 65535:00-65535:30",
        ] {
            assert_eq!(parse_hours(text), None, "{text}");
        }
    }
}
