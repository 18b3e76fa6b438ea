//! Path globs as far as the core needs them: whether one is acceptable, and whether two can meet.
//! Matching real paths is the host's.

use alloc::string::String;

/// The rule a glob breaks, if any.
#[must_use]
pub fn pattern_fault(glob: &str) -> Option<&'static str> {
    let relative = !glob.starts_with(['!', '/']) && !glob.split('/').any(|part| part == "..");
    let sane = !glob.trim().is_empty() && glob.chars().count() <= 1024 && !glob.contains(['\0', '\\']);
    if !relative || !sane {
        return Some("a relative glob without '..', a leading '!' or '/'");
    }
    if !braces_close(glob) {
        return Some("a glob whose braces close");
    }
    // Nothing in these is ever committed, so that the work would be paid for in vain.
    let first = glob.split('/').next().unwrap_or(glob).to_lowercase();
    matches!(first.as_str(), ".git" | ".devloop").then_some("a glob outside .git and .devloop")
}

/// Whether every brace is closed and none closes what was not opened.
fn braces_close(glob: &str) -> bool {
    let depth = glob.chars().try_fold(0u32, |depth, c| match c {
        '{' => depth.checked_add(1),
        '}' => depth.checked_sub(1),
        _ => Some(depth),
    });
    depth == Some(0)
}

/// The part of a glob before its first wildcard.
fn literal_prefix(glob: &str) -> &str {
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    let end = glob.bytes().position(is_wild).unwrap_or(glob.len());
    &glob[..end]
}

/// Whether two globs could name the same path: unless their literal prefixes diverge, they could. Case is
/// folded: file systems that fold it exist.
#[must_use]
pub fn overlap(a: &str, b: &str) -> bool {
    // Every ready task is held against every occupied one, and nearly all of them part within a few bytes:
    // what comes after is not looked at. Letters outside ASCII are folded in copies.
    let of_glob = |glob: &str| glob.strip_prefix("./").map_or(0, |_| 2);
    let rest = a.as_bytes()[of_glob(a)..].iter().zip(&b.as_bytes()[of_glob(b)..]);
    for (x, y) in rest {
        if !x.is_ascii() || !y.is_ascii() {
            let (a, b) = (literal_prefix(a).to_lowercase(), literal_prefix(b).to_lowercase());
            return a.starts_with(&b) || b.starts_with(&a);
        }
        if is_wild(*x) || is_wild(*y) {
            return true;
        }
        if !x.eq_ignore_ascii_case(y) {
            return false;
        }
    }
    true
}

fn is_wild(b: u8) -> bool {
    matches!(b, b'*' | b'?' | b'[' | b'{')
}

/// Whether any glob of one list could meet any of the other.
#[must_use]
pub fn lists_overlap(a: &[String], b: &[String]) -> bool {
    a.iter().any(|x| b.iter().any(|y| overlap(x, y)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_overlap_unless_their_literal_prefixes_diverge() {
        for (a, b) in [
            ("src/**", "src/a.rs"),
            ("**", "x"),
            ("SRC/a", "src/A*"),
            ("a", "ab"),
            ("./a", "a"),
            ("Ü/*", "ü/x"),
        ] {
            assert!(overlap(a, b) && overlap(b, a), "{a} {b}");
        }
        for (a, b) in [("src/a/**", "src/b/**"), ("docs/x", "src/x"), ("ö/x", "ü/x"), ("ü", "a")] {
            assert!(!overlap(a, b), "{a} {b}");
        }
    }

    #[test]
    fn patterns_that_could_widen_a_scope_are_refused() {
        for bad in
            ["", " ", "!a", "/a", "..", "a/../b", "a\0b", "a\\b", "src/{", "a}", ".git/**", ".Devloop/x"]
        {
            assert!(pattern_fault(bad).is_some(), "{bad:?}");
        }
        for good in ["**", "src/*.rs", "a..b", "...", "src/{a,b}/**", ".github/**", ".gitignore"] {
            assert!(pattern_fault(good).is_none(), "{good:?}");
        }
    }
}
