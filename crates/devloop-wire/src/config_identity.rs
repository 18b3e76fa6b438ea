//! Who works behind a route: one identity for one model, whichever backend and name of its provider lead to
//! it. It must not know routes or their limits.

use devloop_core::ids::{BadId, Identity};
use devloop_core::policy::Backend;

use crate::config_routes::word_of;

/// Names of one and the same vendor; the first of each is the one in identities. It is the name of the
/// command line, because states of every version have that.
const VENDORS: &[&[&str]] = &[
    &["claude", "anthropic"],
    &["codex", "openai"],
    &["dsh", "dsh_agent", "dsh-agent", "deepseek", "deepseek-official"],
];

/// The model's name in an identity when the adapter chooses it.
const ANY_MODEL: &str = "default";

/// The vendor whose model a route reaches. `provider` is what its configuration says, or the adapter's name.
pub(crate) fn vendor(backend: Backend, provider: &str) -> String {
    let name = provider.to_lowercase();
    let known = VENDORS.iter().find(|names| names.contains(&name.as_str())).map(|names| names[0].to_owned());
    match backend {
        // A subagent's provider is its kind; every kind runs models of the DSH around it.
        Backend::Subagent => known.unwrap_or_else(|| word_of(Backend::Dsh).to_owned()),
        _ => known.unwrap_or(name),
    }
}

/// The identity of a model of this vendor; upper and lower case make no second one.
pub(crate) fn identity(vendor: &str, model: Option<&str>) -> Result<Identity, BadId> {
    Identity::parse(&format!("{vendor}/{}", model.unwrap_or(ANY_MODEL).to_lowercase()))
}

/// An identity of the earlier plugin, which wrote its backend's name, or `subagent:<kind>`.
pub(crate) fn same_person(written: &Identity) -> Identity {
    let (provider, model) = written.as_str().split_once('/').unwrap_or((written.as_str(), ANY_MODEL));
    let (backend, provider) = match provider.strip_prefix("subagent:") {
        Some(kind) => (Backend::Subagent, kind),
        None => (Backend::Noop, provider),
    };
    identity(&vendor(backend, provider), Some(model)).unwrap_or_else(|_| written.clone())
}

/// Whether two that differ by name may well be one model: the same name at two providers, or one of a vendor
/// whose adapter chooses the model beside one that is named.
pub(crate) fn may_be_one(a: &Identity, b: &Identity) -> bool {
    let parts = |who: &Identity| {
        let (vendor, model) = who.as_str().split_once('/').unwrap_or((who.as_str(), ANY_MODEL));
        (vendor.to_owned(), model.to_owned())
    };
    let ((one, first), (other, second)) = (parts(a), parts(b));
    let chosen = |model: &str| model == ANY_MODEL;
    (one == other && chosen(&first) != chosen(&second))
        || (one != other && first == second && !chosen(&first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_of_the_earlier_plugin_are_those_of_the_routes() {
        let table = [
            ("dsh/deepseek-flash", "dsh/deepseek-flash"),
            ("subagent:deepseek/deepseek-flash", "dsh/deepseek-flash"),
            ("subagent:spawn/x", "dsh/x"),
            ("anthropic/Opus", "claude/opus"),
            ("codex/gpt-5.4", "codex/gpt-5.4"),
            ("acme/x/y", "acme/x/y"),
        ];
        for (written, expect) in table {
            let read = same_person(&Identity::parse(written).expect(written));
            assert_eq!(read.as_str(), expect, "{written}");
        }
    }
}
