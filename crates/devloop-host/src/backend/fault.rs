//! Whose fault a failed run is, from a provider's own words and its HTTP status. One table for every command
//! line, since they pass on what their providers say. What a class leads to is the core's.

use devloop_core::report::{FailureClass, Outcome};
use devloop_core::task::clip;
use devloop_core::units::WallMs;

use super::reset;

/// How a run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    OutOfCredit,
    RateLimited,
    LoginExpired,
    Overloaded,
    NetworkDown,
    /// The connection broke in the middle of an answer, part of which may be billed.
    CutOff,
    ContextTooLong,
    OutputLimit,
    ContentRefused,
    /// The command line ended in a way that is known and not the provider's: turns or budget used up.
    GaveUp,
    /// None of the above.
    Unknown,
}

/// A fault with the words it was told in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub fault: Fault,
    pub text: String,
    pub until: Option<WallMs>,
}

/// Words in lower case and what they mean; the first that is found counts. A limit of use comes before
/// credit, because its sentences offer credit; credit comes before other limits, because it is called one.
const WORDS: &[(&str, Fault)] = &[
    ("spending limit", Fault::OutOfCredit),
    ("spending-limit", Fault::OutOfCredit),
    ("usage limit", Fault::RateLimited),
    ("usage_limit", Fault::RateLimited),
    ("credit balance", Fault::OutOfCredit),
    ("insufficient balance", Fault::OutOfCredit),
    ("insufficient_quota", Fault::OutOfCredit),
    ("insufficient credit", Fault::OutOfCredit),
    ("out of credit", Fault::OutOfCredit),
    ("billing details", Fault::OutOfCredit),
    ("current quota", Fault::OutOfCredit),
    ("payment required", Fault::OutOfCredit),
    ("rate limit", Fault::RateLimited),
    ("rate_limit", Fault::RateLimited),
    ("limit reached", Fault::RateLimited),
    ("hit your limit", Fault::RateLimited),
    ("too many requests", Fault::RateLimited),
    ("prompt is too long", Fault::ContextTooLong),
    ("context window", Fault::ContextTooLong),
    ("context length", Fault::ContextTooLong),
    ("context_length", Fault::ContextTooLong),
    ("max_output_tokens", Fault::OutputLimit),
    ("output token maximum", Fault::OutputLimit),
    ("max-tokens", Fault::OutputLimit),
    ("content_filter", Fault::ContentRefused),
    ("safeguards flagged", Fault::ContentRefused),
    ("usage policy", Fault::ContentRefused),
    ("content policy", Fault::ContentRefused),
    ("api key", Fault::LoginExpired),
    ("x-api-key", Fault::LoginExpired),
    ("api_key", Fault::LoginExpired),
    ("not logged in", Fault::LoginExpired),
    ("please run /login", Fault::LoginExpired),
    ("authentication", Fault::LoginExpired),
    ("unauthorized", Fault::LoginExpired),
    ("oauth token", Fault::LoginExpired),
    ("token has expired", Fault::LoginExpired),
    ("refresh token", Fault::LoginExpired),
    ("overloaded", Fault::Overloaded),
    ("high demand", Fault::Overloaded),
    ("service unavailable", Fault::Overloaded),
    ("internal server error", Fault::Overloaded),
    ("bad gateway", Fault::Overloaded),
    ("stream disconnected", Fault::CutOff),
    ("connection closed", Fault::CutOff),
    ("socket hang up", Fault::CutOff),
    ("connection refused", Fault::NetworkDown),
    ("econnrefused", Fault::NetworkDown),
    ("econnreset", Fault::CutOff),
    ("enotfound", Fault::NetworkDown),
    ("etimedout", Fault::NetworkDown),
    ("unable to connect", Fault::NetworkDown),
    ("could not resolve", Fault::NetworkDown),
    ("network", Fault::NetworkDown),
    ("fetch failed", Fault::NetworkDown),
];

impl Found {
    /// From words, and the status when it is known. Words go first: providers send the same trouble under
    /// many a status.
    pub fn of(text: &str, status: Option<u16>, now: WallMs) -> Found {
        let lower = text.to_lowercase();
        let told = WORDS.iter().find(|(word, _)| lower.contains(word)).map(|(_, fault)| *fault);
        Found::told(told.or_else(|| status.map(of_status)).unwrap_or(Fault::Unknown), text, now)
    }

    /// A fault that is known for certain, with the reset that its words name.
    pub fn told(fault: Fault, text: &str, now: WallMs) -> Found {
        let until = (fault == Fault::RateLimited).then(|| reset::moment(text, now)).flatten();
        Found { fault, text: text.trim().to_owned(), until }
    }

    /// A fault that is known for certain.
    pub fn known(fault: Fault, text: impl Into<String>) -> Found {
        Found { fault, text: text.into(), until: None }
    }

    /// Whether the provider refused before it worked, so that nothing can be billed.
    pub fn is_free(&self) -> bool {
        match self.fault {
            Fault::OutOfCredit
            | Fault::RateLimited
            | Fault::LoginExpired
            | Fault::Overloaded
            | Fault::NetworkDown => true,
            Fault::CutOff
            | Fault::ContextTooLong
            | Fault::OutputLimit
            | Fault::ContentRefused
            | Fault::GaveUp
            | Fault::Unknown => false,
        }
    }

    /// As the core takes it.
    pub fn outcome(&self) -> Outcome {
        let (class, what) = match self.fault {
            Fault::OutOfCredit => (FailureClass::OutOfCredit, "the account has no credit"),
            Fault::RateLimited => (FailureClass::RateLimited { until: self.until }, "the limit is reached"),
            Fault::LoginExpired => (FailureClass::LoginExpired, "the login is not accepted"),
            Fault::Overloaded => (FailureClass::Overloaded, "the provider is overloaded"),
            Fault::NetworkDown => (FailureClass::NetworkDown, "the provider cannot be reached"),
            Fault::CutOff => (FailureClass::NetworkDown, "the connection broke"),
            Fault::ContextTooLong => {
                (FailureClass::ContextTooLong, "the task does not fit into the model's context window")
            }
            Fault::OutputLimit => (FailureClass::OutputLimit, "the model ran into its output limit"),
            Fault::ContentRefused => (FailureClass::ContentRefusal, "the provider refused the content"),
            Fault::GaveUp => (FailureClass::Task, "the run used up what it was given"),
            Fault::Unknown => (FailureClass::Machine, "the command line failed"),
        };
        let text = if self.text.is_empty() { "it said nothing" } else { &self.text };
        Outcome::Failed { class, detail: clip(&format!("{what}: {text}")) }
    }
}

fn of_status(status: u16) -> Fault {
    match status {
        401 | 403 => Fault::LoginExpired,
        402 => Fault::OutOfCredit,
        413 => Fault::ContextTooLong,
        429 => Fault::RateLimited,
        408 | 500.. => Fault::Overloaded,
        _ => Fault::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, status: Option<u16>, expect: Fault) {
        assert_eq!(Found::of(text, status, WallMs(1_700_000_000_000)).fault, expect, "{status:?} {text}");
    }

    /// Hazard 27: the same trouble comes under many a status.
    #[test]
    fn billing_errors_are_told_by_their_words() {
        check("Credit balance is too low", Some(400), Fault::OutOfCredit);
        check("Insufficient balance or no resource package", Some(429), Fault::OutOfCredit);
        check("usage limit exceeded (2056)", Some(503), Fault::RateLimited);
        check("", Some(402), Fault::OutOfCredit);
        check("personal-team-blocked:spending-limit", Some(403), Fault::OutOfCredit);
        check("You exceeded your current quota, please check your plan", Some(429), Fault::OutOfCredit);
        check("hit your usage limit, purchase more credits or try again", None, Fault::RateLimited);
    }

    #[test]
    fn every_status_and_word_has_its_fault() {
        check("", Some(401), Fault::LoginExpired);
        check("", Some(529), Fault::Overloaded);
        check("", Some(429), Fault::RateLimited);
        check("", Some(413), Fault::ContextTooLong);
        check("", Some(418), Fault::Unknown);
        check("Invalid API key", None, Fault::LoginExpired);
        check("connect ECONNREFUSED 127.0.0.1:9", None, Fault::NetworkDown);
        check("stream disconnected before completion: reason: content_filter", None, Fault::ContentRefused);
        check("stream disconnected before completion", None, Fault::CutOff);
        check("something odd", None, Fault::Unknown);
    }

    #[test]
    fn every_fault_has_its_class() {
        let class = |fault| match Found::known(fault, "it").outcome() {
            Outcome::Failed { class, detail } if detail.ends_with(": it") => class,
            other => panic!("{other:?}"),
        };
        let rows = [
            (Fault::OutOfCredit, FailureClass::OutOfCredit),
            (Fault::RateLimited, FailureClass::RateLimited { until: None }),
            (Fault::LoginExpired, FailureClass::LoginExpired),
            (Fault::Overloaded, FailureClass::Overloaded),
            (Fault::NetworkDown, FailureClass::NetworkDown),
            (Fault::CutOff, FailureClass::NetworkDown),
            (Fault::ContextTooLong, FailureClass::ContextTooLong),
            (Fault::OutputLimit, FailureClass::OutputLimit),
            (Fault::ContentRefused, FailureClass::ContentRefusal),
            (Fault::GaveUp, FailureClass::Task),
            (Fault::Unknown, FailureClass::Machine),
        ];
        for (fault, expect) in rows {
            assert_eq!(class(fault), expect, "{fault:?}");
        }
    }

    #[test]
    fn only_what_was_refused_before_the_work_is_free() {
        let free = |text| Found::of(text, None, WallMs(0)).is_free();
        assert!(free("overloaded") && free("unauthorized") && free("rate limit"));
        assert!(!free("stream disconnected") && !free("prompt is too long") && !free("odd"));
    }
}
