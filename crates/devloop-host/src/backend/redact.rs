//! Takes what a run was given in secret out of everything that it says, before anybody keeps it. It knows no
//! secret by its looks; the scan of a diff does.

use std::ffi::OsStr;

use devloop_core::report::Outcome;
use serde_json::Value;

use super::login::Key;

/// Shorter values are words, and would be found everywhere.
const SHORTEST: usize = 8;
/// What of a login file counts as a secret: runs of at least so many characters without a space or a quote.
const SHORTEST_IN_FILE: usize = 20;

/// What must not come back out of a run.
#[derive(Default)]
pub(super) struct Secrets(Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// The login, and the values of the variables that the operator hands on by name.
    pub(super) fn new<'a>(key: Option<&Key>, named: impl IntoIterator<Item = &'a OsStr>) -> Secrets {
        let mut found: Vec<String> = named.into_iter().map(|v| v.to_string_lossy().into_owned()).collect();
        match key {
            Some(Key::Var(_, value)) => found.push(value.to_string_lossy().into_owned()),
            Some(Key::File(_, bytes)) => {
                let text = String::from_utf8_lossy(bytes);
                let is_part = |c: char| c.is_ascii_alphanumeric() || "._~+/=-".contains(c);
                let runs = text.split(|c| !is_part(c)).filter(|run| run.len() >= SHORTEST_IN_FILE);
                found.extend(runs.map(str::to_owned));
            }
            None => {}
        }
        found.retain(|secret| secret.len() >= SHORTEST);
        // One that holds another goes first.
        found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Secrets(found)
    }

    /// The outcome without them, in whatever text of it they stand.
    pub(super) fn hide(&self, outcome: Outcome) -> Outcome {
        if self.0.is_empty() {
            return outcome;
        }
        let Ok(mut value) = serde_json::to_value(&outcome) else { return outcome };
        if !self.hide_in(&mut value) {
            return outcome;
        }
        // A text that had to be a name is none any more: then the whole is what cannot be kept.
        serde_json::from_value(value).unwrap_or_else(|_| Outcome::InvalidResult {
            detail: "the result held a secret where only a name can stand".into(),
        })
    }

    /// Whether anything was taken out.
    fn hide_in(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => {
                let found = self.0.iter().any(|secret| text.contains(secret.as_str()));
                if found {
                    *text = self.0.iter().fold(text.clone(), |text, secret| text.replace(secret, "***"));
                }
                found
            }
            Value::Array(items) => items.iter_mut().fold(false, |any, item| self.hide_in(item) | any),
            Value::Object(fields) => fields.values_mut().fold(false, |any, item| self.hide_in(item) | any),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_leave_every_text_and_short_words_stay() {
        let var = Key::Var("X", "sk-live-0123456789".into());
        let secrets = Secrets::new(Some(&var), [OsStr::new("short"), OsStr::new("sk-live-0123456789-long")]);
        let text = "short sk-live-0123456789-long, sk-live-0123456789!".to_owned();
        let worked = secrets.hide(Outcome::Worked { summary: text.clone() });
        assert_eq!(worked, Outcome::Worked { summary: "short ***, ***!".into() });
        let none = secrets.hide(Outcome::NoResult { detail: text });
        assert_eq!(none, Outcome::NoResult { detail: "short ***, ***!".into() });
        let plain = Outcome::Worked { summary: "nothing".into() };
        assert_eq!(secrets.hide(plain.clone()), plain);

        let file = Key::File("auth", br#"{"access":"eyJhbGciOiJIUzI1NiJ9.payload","type":"oauth"}"#.to_vec());
        let secrets = Secrets::new(Some(&file), []);
        let said = Outcome::NoResult { detail: "oauth: eyJhbGciOiJIUzI1NiJ9.payload refused".into() };
        assert_eq!(secrets.hide(said), Outcome::NoResult { detail: "oauth: *** refused".into() });
        assert_eq!(format!("{secrets:?}"), "Secrets(1)");
    }
}
