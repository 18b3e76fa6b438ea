//! A task's name as the key of an index: compared by a number first, so that a search among ten thousand
//! names reads numbers that lie side by side and one text. It must not be part of a document.

use crate::ids::TaskId;

/// A name behind its hash; two names are equal only when their texts are. The order is any fixed one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HashedId {
    hash: u64,
    id: TaskId,
}

impl From<&TaskId> for HashedId {
    fn from(id: &TaskId) -> HashedId {
        HashedId { hash: fnv1a(id.as_str().as_bytes()), id: id.clone() }
    }
}

/// FNV-1a with 64 bits: the same number on every machine, and no table to carry.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        // The published values of the empty text and of "foobar".
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn names_with_one_hash_are_still_two_names() {
        let id = |text: &str| TaskId::parse(text).expect("id");
        let (a, b) = (HashedId { hash: 7, id: id("a") }, HashedId { hash: 7, id: id("b") });
        assert!(a < b && a != b);
        assert!(HashedId { hash: 6, id: id("z") } < a);
    }
}
