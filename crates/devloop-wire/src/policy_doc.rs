//! The policy as a document: what the host hands to the component and what `replay --with` reads.
//! It must not know the configuration it was made from.

use devloop_core::ids::Digest;
use devloop_core::policy::Policy;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::fault::DocError;
use crate::json;

/// The name in refusals.
pub const DOCUMENT: &str = "policy.json";
/// The version that is written, and the newest that is read.
pub const VERSION: u64 = 2;

const NO_DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[derive(Serialize)]
struct Out<'a> {
    version: u64,
    policy: &'a Policy,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct In<'a> {
    #[serde(rename = "version")]
    _version: u64,
    #[serde(borrow)]
    policy: &'a RawValue,
}

/// The policy with the digest of its content: SHA-256 of the canonical document in which the digest is 64
/// zeros.
#[must_use]
pub fn seal(mut policy: Policy) -> Policy {
    policy.digest = Digest::parse(NO_DIGEST).expect("64 zeros are a digest");
    policy.digest = json::digest_bytes(&policy_bytes(&policy));
    policy
}

/// The canonical document `{"version":2,"policy":{...}}`.
#[must_use]
pub fn policy_bytes(policy: &Policy) -> Vec<u8> {
    json::canonical(&Out { version: VERSION, policy })
}

/// Reads the document. The digest in it is taken as it stands: it names the policy, it does not guard it.
///
/// # Errors
/// [`DocError`]; of a newer version before anything else.
pub fn parse_policy(bytes: &[u8]) -> Result<Policy, DocError> {
    json::require_version(DOCUMENT, bytes, VERSION)?;
    let envelope: In<'_> = json::read_frame(DOCUMENT, "", bytes)?;
    let policy: Policy = json::read(DOCUMENT, "policy", envelope.policy.get().as_bytes())?;
    let unknown = [("planner", &policy.planner), ("reviewer", &policy.reviewer)]
        .into_iter()
        .find(|(_, key)| !policy.routes.contains_key(*key))
        .map(|(field, key)| (format!("policy.{field}"), key))
        .or_else(|| {
            let found = policy.routing.iter().find(|(_, key)| !policy.routes.contains_key(*key));
            found.map(|(tier, key)| (format!("policy.routing.{tier:?}").to_lowercase(), key))
        });
    match unknown {
        Some((path, key)) => Err(DocError::defect(DOCUMENT, path, format!("there is no route {key}"))),
        None => Ok(policy),
    }
}
