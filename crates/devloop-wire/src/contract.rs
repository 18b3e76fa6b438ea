//! CONTRACT.json: a task's frozen terms as they lie beside its work, and their digest. It must not freeze
//! them.

use devloop_core::effect::Contract;
use devloop_core::ids::{Digest, Identity, Oid, TaskId};
use devloop_core::task::Estimate;
use devloop_core::tier::{Risk, Tier};
use serde::{Deserialize, Serialize};

use crate::fault::DocError;
use crate::json;

/// The name in refusals.
pub const DOCUMENT: &str = "CONTRACT.json";
/// The version that is written, and the newest that is read.
pub const VERSION: u64 = 2;

/// The document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContractDoc {
    /// Always 2.
    pub version: u64,
    /// The task.
    pub task_id: TaskId,
    /// Its edition: grows with every edit of its terms.
    pub edition: u32,
    /// Its title.
    pub title: String,
    /// Its tier.
    pub tier: TierWord,
    /// Its risk.
    pub risk: Risk,
    /// Globs of what may be changed.
    pub allowed_paths: Vec<String>,
    /// What is promised.
    pub criteria: Vec<String>,
    /// Size guess.
    pub estimate: Option<Estimate>,
    /// The commit it starts from.
    pub base_sha: Oid,
    /// Who worked on it so far.
    pub implementers: Vec<Identity>,
    /// SHA-256 of the canonical document without this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// A tier as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum TierWord {
    /// Mechanical work.
    T0,
    /// Ordinary work.
    T1,
    /// Work that needs experience.
    T2,
    /// Planning and review.
    T3,
}

impl From<Tier> for TierWord {
    fn from(tier: Tier) -> TierWord {
        match tier {
            Tier::T0 => TierWord::T0,
            Tier::T1 => TierWord::T1,
            Tier::T2 => TierWord::T2,
            Tier::T3 => TierWord::T3,
        }
    }
}

impl From<TierWord> for Tier {
    fn from(word: TierWord) -> Tier {
        match word {
            TierWord::T0 => Tier::T0,
            TierWord::T1 => Tier::T1,
            TierWord::T2 => Tier::T2,
            TierWord::T3 => Tier::T3,
        }
    }
}

/// The document of a contract, with its digest.
#[must_use]
pub fn document(contract: &Contract) -> ContractDoc {
    let mut doc = ContractDoc {
        version: VERSION,
        task_id: contract.task.clone(),
        edition: contract.edition,
        title: contract.title.clone(),
        tier: contract.tier.into(),
        risk: contract.risk,
        allowed_paths: contract.allowed_paths.clone(),
        criteria: contract.criteria.clone(),
        estimate: contract.estimate,
        base_sha: contract.base.clone(),
        implementers: contract.implementers.clone(),
        digest: None,
    };
    doc.digest = Some(json::digest_bytes(&json::canonical(&doc)));
    doc
}

/// The digest of a contract, as commits name it.
#[must_use]
pub fn digest(contract: &Contract) -> Digest {
    let doc = ContractDoc { digest: None, ..document(contract) };
    json::digest_bytes(&json::canonical(&doc))
}

/// The file's bytes: canonical, with a newline at the end.
#[must_use]
pub fn write(contract: &Contract) -> Vec<u8> {
    let mut bytes = json::canonical(&document(contract));
    bytes.push(b'\n');
    bytes
}

/// Reads the file and checks it against its digest.
///
/// # Errors
/// [`DocError`]: legacy, newer, torn or a defect.
pub fn parse(bytes: &[u8]) -> Result<Contract, DocError> {
    json::require_version(DOCUMENT, bytes, VERSION)?;
    let doc: ContractDoc = json::read(DOCUMENT, "", bytes)?;
    let written = doc.digest.clone();
    let contract = Contract {
        task: doc.task_id,
        edition: doc.edition,
        title: doc.title,
        tier: doc.tier.into(),
        risk: doc.risk,
        allowed_paths: doc.allowed_paths,
        criteria: doc.criteria,
        estimate: doc.estimate,
        base: doc.base_sha,
        implementers: doc.implementers,
    };
    if written != Some(digest(&contract)) {
        return Err(DocError::defect(DOCUMENT, "digest", "the terms do not have this digest"));
    }
    Ok(contract)
}
