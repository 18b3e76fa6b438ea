//! Any bytes as STATE.json: what is read is written and read again to the same bytes and digests, and a
//! decision on it does not fail.

use devloop_core::ids::Digest;
use devloop_core::state::LoopState;
use devloop_wire::{digest_bytes, state_doc};

use crate::refusal;

pub fn run(data: &[u8]) {
    let head = state_doc::read_head(data);
    match state_doc::parse_doc(data) {
        Ok(doc) => {
            let head = head.expect("what is read whole can be read in part");
            assert_eq!((head.revision, &head.chain), (doc.state.revision, &doc.chain));
            again(&doc.state, doc.chain.as_ref());
        }
        Err(error) => refusal::judge(&error, data),
    }
}

/// Both forms of a state, written and read.
pub fn again(state: &LoopState, chain: Option<&Digest>) {
    let saved = state_doc::write(state);
    let digest = state_doc::digest(state);
    assert_eq!(digest, digest_bytes(&saved), "a digest is that of the saved form");
    let read = state_doc::parse(&saved).expect("a saved state is read");
    assert_eq!(&read, state);
    assert_eq!(state_doc::write(&read), saved);

    let (file, told) = state_doc::file_and_digest(state, chain);
    assert_eq!(told, digest);
    let doc = state_doc::parse_doc(&file).expect("a written file is read");
    assert_eq!((&doc.state, doc.chain.as_ref(), doc.digest.as_ref()), (state, chain, Some(&digest)));
}
