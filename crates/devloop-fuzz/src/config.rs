//! Any bytes as the documents that an operator writes or the host keeps: configuration, limits, policy and
//! contract.

use devloop_core::policy::Backend;
use devloop_wire::config_doc::{self, ConfigFault, Weight};
use devloop_wire::{budget_doc, contract, policy_doc};

use crate::refusal;

pub fn run(data: &[u8]) {
    configuration(data);
    match budget_doc::parse(data) {
        Ok(limits) => {
            let text = budget_doc::write(&limits);
            assert_eq!(budget_doc::parse(&text).as_ref(), Ok(&limits), "{}", String::from_utf8_lossy(&text));
        }
        Err(faults) => named(&faults),
    }
    match policy_doc::parse_policy(data) {
        Ok(policy) => {
            let bytes = policy_doc::policy_bytes(&policy);
            assert_eq!(policy_doc::parse_policy(&bytes).as_ref(), Ok(&policy));
            let sealed = policy_doc::seal(policy);
            assert_eq!(policy_doc::seal(sealed.clone()), sealed, "sealing twice is sealing once");
        }
        Err(error) => refusal::judge(&error, data),
    }
    match contract::parse(data) {
        Ok(terms) => assert_eq!(contract::parse(&contract::write(&terms)).as_ref(), Ok(&terms)),
        Err(error) => refusal::judge(&error, data),
    }
}

fn configuration(data: &[u8]) {
    let (repaired, faults) = config_doc::repair_text(data);
    match config_doc::parse(data) {
        Ok(config) => {
            assert_eq!(config, repaired, "a good configuration needs no repair");
            let policy = config.policy();
            let bytes = policy_doc::policy_bytes(&policy);
            assert_eq!(policy_doc::parse_policy(&bytes).as_ref(), Ok(&policy));
        }
        Err(strict) => {
            named(&strict);
            assert_eq!(strict.len(), faults.len(), "a repair reports what the strict reading refuses");
            // Whatever is wrong, the repaired one can be run, and a closing fault closes every route.
            let policy = repaired.policy();
            assert!(policy_doc::parse_policy(&policy_doc::policy_bytes(&policy)).is_ok());
            if faults.iter().any(|fault| fault.weight == Weight::Closing) {
                assert!(policy.routes.values().all(|route| route.backend == Backend::Noop));
            }
        }
    }
}

/// Refused means at least one fault that is more than a warning, each with its sentence.
fn named(faults: &[ConfigFault]) {
    assert!(faults.iter().any(|fault| fault.weight > Weight::Warning));
    for fault in faults {
        assert!(!fault.what.trim().is_empty());
        let whole = fault.path.is_empty() && fault.weight != Weight::Closing;
        assert!(!whole, "a fault that names no field: {fault:?}");
    }
}
