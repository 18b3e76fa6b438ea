//! Owns the comparison of bytes that every name and digest goes through: eight at a time. It must not be
//! called by hand.
//!
//! The compiler's own one for this target goes byte by byte, and was an eighth of a batch
//! (docs/adr/0009-speed.md). The linker takes this one instead, because that one is weak.

/// Bytes looked at together.
const WORD: usize = size_of::<u64>();

/// Below, at or above zero as the first of the two is smaller, equal or larger.
///
/// # Safety
/// Both must point to `length` bytes that can be read.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, length: usize) -> i32 {
    let mut at = 0;
    while at + WORD <= length {
        // SAFETY: a whole word lies before the end of both; reading does not need its alignment.
        let (x, y) = unsafe {
            (one.add(at).cast::<u64>().read_unaligned(), other.add(at).cast::<u64>().read_unaligned())
        };
        if x != y {
            // The first byte in memory decides.
            return if x.swap_bytes() < y.swap_bytes() { -1 } else { 1 };
        }
        at += WORD;
    }
    while at < length {
        // SAFETY: `at` lies before the end of both.
        let (x, y) = unsafe { (*one.add(at), *other.add(at)) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
        at += 1;
    }
    0
}

/// Zero when equal. The compiler asks for this where only that matters.
///
/// # Safety
/// As [`memcmp`].
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, length: usize) -> i32 {
    // SAFETY: the caller promises the same.
    unsafe { memcmp(one, other, length) }
}
