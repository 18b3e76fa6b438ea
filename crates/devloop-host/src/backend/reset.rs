//! When a provider's limit resets, read from its sentence. A moment that cannot be told for certain is none:
//! then the core pauses the route and tries again.

use devloop_core::units::WallMs;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

/// Added to every moment: the clocks of a provider and of this machine differ.
const MARGIN_MS: u64 = 10_000;
/// What stands in front of a moment.
const ANCHORS: &[&str] =
    &["limit reached|", "limit reached ∙", "resets", "reset", "try again", "retry after", "retry-after"];
/// How many words behind an anchor are looked at.
const WORDS: usize = 14;

/// The moment a sentence names, as wall time with a margin; `None` when it names none, or one that has
/// passed.
pub(super) fn moment(text: &str, now: WallMs) -> Option<WallMs> {
    let now = Timestamp::from_millisecond(i64::try_from(now.0).ok()?).ok()?;
    let found = ANCHORS.iter().find_map(|anchor| {
        let at = find(text, anchor)?;
        read(&text[at..], now)
    })?;
    let ms = u64::try_from(found.as_millisecond()).ok().filter(|_| found > now)?;
    Some(WallMs(ms).plus(MARGIN_MS))
}

/// The place behind the words, upper and lower case alike.
fn find(text: &str, words: &str) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    lower.find(words).map(|at| at + words.len())
}

fn read(rest: &str, now: Timestamp) -> Option<Timestamp> {
    let zone = zone_of(rest);
    let plain: String = rest.chars().map(|c| if matches!(c, ',' | '(' | ')') { ' ' } else { c }).collect();
    let words: Vec<String> = plain.split_whitespace().take(WORDS).map(str::to_lowercase).collect();
    epoch(&words).or_else(|| instant(rest)).or_else(|| span(&words, now)).or_else(|| {
        let zone = match zone {
            Named::None => TimeZone::system(),
            Named::Known(zone) => zone,
            // Another zone would be hours off.
            Named::Unknown => return None,
        };
        clock(&words, &now.to_zoned(zone))
    })
}

enum Named {
    None,
    Known(TimeZone),
    Unknown,
}

/// The zone in brackets. A bracket without a letter is no zone.
fn zone_of(rest: &str) -> Named {
    let Some(open) = rest.find('(') else { return Named::None };
    let Some(end) = rest[open..].find(')') else { return Named::None };
    let name = rest[open + 1..open + end].trim();
    let is_zone = name == "UTC" || name.contains('/');
    match is_zone.then(|| TimeZone::get(name)) {
        None => Named::None,
        Some(Ok(zone)) => Named::Known(zone),
        Some(Err(_)) => Named::Unknown,
    }
}

/// Seconds or milliseconds since 1970.
fn epoch(words: &[String]) -> Option<Timestamp> {
    let digits =
        words.iter().take(2).find(|word| word.len() >= 10 && word.bytes().all(|b| b.is_ascii_digit()))?;
    let number: i64 = digits.parse().ok()?;
    if digits.len() >= 13 {
        Timestamp::from_millisecond(number).ok()
    } else {
        Timestamp::from_second(number).ok()
    }
}

/// An instant as RFC 3339 writes it.
fn instant(rest: &str) -> Option<Timestamp> {
    let word = |word: &&str| word.len() >= 19 && word.as_bytes()[4] == b'-' && word.as_bytes()[10] == b'T';
    let found = rest.split_whitespace().take(WORDS).find(word)?;
    found.trim_end_matches(['.', ',', ')']).parse().ok()
}

/// `in 2 hours 5 minutes`, `in 20s`, `after 3600`.
fn span(words: &[String], now: Timestamp) -> Option<Timestamp> {
    let from = match words.first().map(String::as_str) {
        Some("in" | "after" | ":") => 1,
        Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) && is_span(word) => 0,
        _ => return None,
    };
    let (mut total, mut any) = (0.0_f64, false);
    let mut rest = words[from..].iter().map(|word| word.trim_end_matches(['.', ';'])).peekable();
    while let Some(word) = rest.next() {
        if word == "and" {
            continue;
        }
        let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let Ok(number) = word[..digits].parse::<f64>() else { break };
        let unit = match &word[digits..] {
            "" => match rest.peek().and_then(|next| unit_seconds(next)) {
                Some(unit) => {
                    rest.next();
                    unit
                }
                None if !any => 1.0,
                None => break,
            },
            unit => unit_seconds(unit)?,
        };
        total += number * unit;
        any = true;
    }
    let span = SignedDuration::try_from_secs_f64(total.ceil()).ok().filter(|_| any)?;
    now.checked_add(span).ok()
}

fn is_span(word: &str) -> bool {
    let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    word[digits..].is_empty() || unit_seconds(&word[digits..]).is_some()
}

fn unit_seconds(unit: &str) -> Option<f64> {
    match unit {
        "ms" => Some(0.001),
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1.0),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60.0),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(3_600.0),
        "d" | "day" | "days" => Some(86_400.0),
        _ => None,
    }
}

/// A time of day, with a month and a day when they stand in front of it: the next one of the kind.
fn clock(words: &[String], now: &Zoned) -> Option<Timestamp> {
    let (mut month, mut day, mut year) = (None, None, None);
    for (i, word) in words.iter().enumerate() {
        let word = word.trim_end_matches('.');
        if let Some(time) = time_of(word, words.get(i + 1).map(String::as_str)) {
            return next(now, month.zip(day), year, time);
        }
        if let Some(found) = month_of(word) {
            month = Some(found);
        } else if month.is_some()
            && let Ok(number) = word.trim_end_matches(['s', 't', 'n', 'd', 'r', 'h']).parse::<i16>()
        {
            match i8::try_from(number).ok().filter(|n| (1..=31).contains(n)) {
                Some(number) if day.is_none() => day = Some(number),
                _ => year = Some(number),
            }
        }
    }
    None
}

/// `2pm`, `10:59am`, `8:26 pm`, `14:30`.
fn time_of(word: &str, next: Option<&str>) -> Option<Time> {
    let (digits, half) =
        match word.strip_suffix("am").map(|d| (d, 0)).or(word.strip_suffix("pm").map(|d| (d, 12))) {
            Some((digits, half)) => (digits, Some(half)),
            None => match next.map(|next| next.trim_end_matches('.')) {
                Some("am" | "a.m") => (word, Some(0)),
                Some("pm" | "p.m") => (word, Some(12)),
                _ => (word, None),
            },
        };
    let (hour, minute) = match digits.split_once(':') {
        Some((hour, minute)) => (hour, minute.get(..2)?),
        None => (digits, "0"),
    };
    let (hour, minute): (i8, i8) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match half {
        Some(half) => (1..=12).contains(&hour).then_some(hour % 12 + half)?,
        // A bare number is no time of day.
        None if digits.contains(':') => hour,
        None => return None,
    };
    Time::new(hour, minute, 0, 0).ok()
}

fn month_of(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let at = MONTHS.iter().position(|month| word.starts_with(month))?;
    word.bytes().all(|b| b.is_ascii_alphabetic()).then_some(at as i8 + 1)
}

fn next(now: &Zoned, date: Option<(i8, i8)>, year: Option<i16>, time: Time) -> Option<Timestamp> {
    let at = |date: Date| Some(date.to_datetime(time).to_zoned(now.time_zone().clone()).ok()?.timestamp());
    let Some((month, day)) = date else {
        let today = at(now.date()).filter(|at| *at > now.timestamp());
        return today.or_else(|| at(now.date().tomorrow().ok()?));
    };
    let in_year = |year: i16| at(Date::new(year, month, day).ok()?);
    match year {
        Some(year) => in_year(year),
        None => in_year(now.year()).filter(|at| *at > now.timestamp()).or_else(|| in_year(now.year() + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, now: &str, expect: &str) {
        let ms = |text: &str| WallMs(text.parse::<Timestamp>().unwrap().as_millisecond() as u64);
        let want = (!expect.is_empty()).then(|| ms(expect).plus(MARGIN_MS));
        assert_eq!(moment(text, ms(now)), want, "{text}");
    }

    /// Hazard 26: the forms that were seen, with their zones.
    #[test]
    fn every_form_of_a_reset_is_read_with_its_zone() {
        let june = "2025-06-14T12:00:00Z";
        check("Claude AI usage limit reached|1749924000", june, "2025-06-14T18:00:00Z");
        check("limit reached|1749924000000", june, "2025-06-14T18:00:00Z");
        check("5-hour limit reached ∙ resets 2pm (America/Toronto)", june, "2025-06-14T18:00:00Z");
        let winter = "2026-01-10T09:00:00Z";
        check("Resets Jan 12, 10:59am (America/New_York)", winter, "2026-01-12T15:59:00Z");
        check("Your limit will reset at 1pm (Etc/GMT+5)", winter, "2026-01-10T18:00:00Z");
        check("resets 2:30pm (UTC)", winter, "2026-01-10T14:30:00Z");
        check("resets 8am (UTC)", winter, "2026-01-11T08:00:00Z");
        check("Resets Jan 2, 10am (UTC)", winter, "2027-01-02T10:00:00Z");
        check("try again at May 28th, 2026 8:26 PM (UTC).", winter, "2026-05-28T20:26:00Z");
        check("resets at 2026-01-12T10:59:00Z.", winter, "2026-01-12T10:59:00Z");
    }

    #[test]
    fn spans_count_from_now() {
        let now = "2026-01-10T09:00:00Z";
        check("Rate limit reached. Please try again in 20s.", now, "2026-01-10T09:00:20Z");
        check("try again in 1.2s", now, "2026-01-10T09:00:02Z");
        check("try again in 2 hours 5 minutes.", now, "2026-01-10T11:05:00Z");
        check("try again in 1 day and 3 hours", now, "2026-01-11T12:00:00Z");
        check("retry-after: 3600", now, "2026-01-10T10:00:00Z");
        check("Retry after 90 seconds", now, "2026-01-10T09:01:30Z");
    }

    /// Melbourne went from 2:00 to 3:00 on 2025-10-05: half past two did not exist, and a day had 23 hours.
    #[test]
    fn a_clock_that_is_set_forward_moves_no_reset() {
        let eve = "2025-10-04T10:00:00Z";
        check("resets 2:30am (Australia/Melbourne)", eve, "2025-10-04T16:30:00Z");
        check("resets 9am (Australia/Melbourne)", eve, "2025-10-04T22:00:00Z");
        check("Resets Oct 4, 9pm (Australia/Melbourne)", eve, "2025-10-04T11:00:00Z");
    }

    #[test]
    fn what_is_not_certain_is_no_moment() {
        let now = "2026-01-10T09:00:00Z";
        for text in [
            "usage limit exceeded (2056)",
            "limit reached|1749924000",
            "resets 2pm (Mars/Olympus)",
            "try again later",
            "resets soon",
            "Resets Feb 30, 10am (UTC)",
            "resets 13pm (UTC)",
            "retry in a while",
            "",
        ] {
            check(text, now, "");
        }
    }
}
