//! Dollars as people type them, turned into whole micro-dollars exactly, by their digits. No float anywhere.

use devloop_core::units::{MAX_NUMBER, UsdMicros};

/// Reads an amount of US dollars: a decimal number, with an exponent if need be. Digits behind the sixth
/// decimal round up, so that a cap or a price is never taken for less than what was typed.
///
/// # Errors
/// The rule that the text breaks.
pub fn parse_usd(text: &str) -> Result<UsdMicros, &'static str> {
    const RULE: &str = "must be an amount of US dollars, zero or more, for example 2.50";
    const LIMIT: &str = "must be at most 9007199254.740991 US dollars";
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| RULE)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let dot_alone = mantissa.contains('.') && fraction.is_empty();
    if whole.is_empty() || dot_alone || !digits(whole) || !digits(fraction) || text.len() > 400 {
        return Err(RULE);
    }
    let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
    if all.iter().all(|digit| *digit == 0) {
        return Ok(UsdMicros(0));
    }
    // How many of the digits stand before the point once the unit is a micro-dollar.
    let keep = i64::try_from(whole.len()).unwrap_or(i64::MAX) + i64::from(exponent) + 6;
    let mut micros: u64 = 0;
    let mut rest = false;
    for (i, digit) in all.iter().enumerate() {
        if i64::try_from(i).unwrap_or(i64::MAX) < keep {
            micros = micros.checked_mul(10).and_then(|m| m.checked_add(u64::from(*digit))).ok_or(LIMIT)?;
        } else {
            rest |= *digit != 0;
        }
    }
    let missing = keep - i64::try_from(all.len()).unwrap_or(i64::MAX);
    for _ in 0..missing.clamp(0, 400) {
        micros = micros.checked_mul(10).ok_or(LIMIT)?;
    }
    micros += u64::from(rest);
    if micros > MAX_NUMBER { Err(LIMIT) } else { Ok(UsdMicros(micros)) }
}

/// The amount as a decimal number of US dollars, shortest form.
#[must_use]
pub fn usd_text(amount: UsdMicros) -> String {
    let (dollars, rest) = (amount.0 / 1_000_000, amount.0 % 1_000_000);
    if rest == 0 {
        return dollars.to_string();
    }
    format!("{dollars}.{rest:06}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_become_micro_dollars_by_their_digits() {
        let table = [
            ("0", 0),
            ("0.0", 0),
            ("0e9", 0),
            ("2", 2_000_000),
            ("2.50", 2_500_000),
            ("0.1", 100_000),
            ("0.000001", 1),
            ("0.0000001", 1),
            ("0.10000000000000000001", 100_001),
            ("1e3", 1_000_000_000),
            ("1.5E-3", 1_500),
            ("1e-7", 1),
            ("1e-300", 1),
            ("12.345678", 12_345_678),
            ("12.3456781", 12_345_679),
            ("9007199254.740991", MAX_NUMBER),
            ("9007199254740991e-6", MAX_NUMBER),
        ];
        for (text, micros) in table {
            assert_eq!(parse_usd(text), Ok(UsdMicros(micros)), "{text}");
        }
        for bad in ["", "-1", "+1", ".5", "5.", "1,5", "$2", "NaN", "Infinity", "1e", "1e1.5", "0x10", "1 "] {
            assert!(parse_usd(bad).is_err_and(|rule| rule.contains("zero or more")), "{bad}");
        }
        for big in ["9007199254.740992", "1e10", "1e300", "99999999999999999999"] {
            assert!(parse_usd(big).is_err_and(|rule| rule.contains("at most")), "{big}");
        }
    }

    #[test]
    fn amounts_read_back_what_they_print() {
        for micros in [0, 1, 10, 999_999, 1_000_000, 2_500_000, 20_000_001, MAX_NUMBER] {
            assert_eq!(parse_usd(&usd_text(UsdMicros(micros))), Ok(UsdMicros(micros)));
        }
        assert_eq!(usd_text(UsdMicros(2_500_000)), "2.5");
    }
}
