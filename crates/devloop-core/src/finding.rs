//! Findings: what reviewers say is wrong with a change, each under a name that it keeps, and the rule that
//! ends a rework which comes no closer to a pass. It opens no hold.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::ids::FindingId;
use crate::render::one_line;
use crate::task::clip_to;

/// At most this many findings are kept of one review.
pub const MAX_FINDINGS: usize = 20;
/// The longest text, and the longest path, of a finding, in characters.
pub const MAX_FINDING_TEXT: usize = 1_000;

data! {
    /// Whether a finding keeps a change from being merged.
    #[derive(Copy)]
    pub enum Severity {
        /// It does.
        Blocking,
        /// It is for later.
        Note,
    }

    /// A finding as a reviewer wrote it.
    pub struct Found {
        /// The name of the earlier finding that this is again; none for a new one.
        pub id: Option<FindingId>,
        /// Whether it keeps the change from being merged.
        pub severity: Severity,
        /// The file it is about, if it is about one.
        pub path: Option<String>,
        /// The line in that file, from 1.
        pub line: Option<u32>,
        /// What is wrong, at most [`MAX_FINDING_TEXT`] characters.
        pub text: String,
    }

    /// A finding under its name.
    pub struct Finding {
        /// Its name, unique within its task.
        pub id: FindingId,
        /// Whether it keeps the change from being merged.
        pub severity: Severity,
        /// The file it is about, if it is about one.
        pub path: Option<String>,
        /// The line in that file, from 1.
        pub line: Option<u32>,
        /// What is wrong, at most [`MAX_FINDING_TEXT`] characters.
        pub text: String,
    }

    /// What the last review of a task found.
    #[derive(Default)]
    pub struct Findings {
        /// Its findings, at most [`MAX_FINDINGS`].
        pub open: Vec<Finding>,
        /// The highest name that was ever given: a new finding gets the next one.
        pub named: u32,
    }
}

/// Why one more rework would come no closer to a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// Blocking findings that the review before had as well.
    pub again: Vec<FindingId>,
    /// Blocking findings now.
    pub now: usize,
    /// Blocking findings of the review before.
    pub before: usize,
}

impl Found {
    /// The same within its bounds.
    #[must_use]
    pub fn bounded(&self) -> Found {
        Found {
            path: self.path.as_ref().map(|path| clip_to(path, MAX_FINDING_TEXT)),
            text: clip_to(&self.text, MAX_FINDING_TEXT),
            ..self.clone()
        }
    }

    /// Whether it says what an earlier one says, but for spaces and the line, which moves.
    fn repeats(&self, earlier: &Finding) -> bool {
        self.path == earlier.path && self.text.split_whitespace().eq(earlier.text.split_whitespace())
    }
}

impl Finding {
    /// It keeps the change from being merged.
    #[must_use]
    pub fn is_blocking(&self) -> bool {
        self.severity == Severity::Blocking
    }

    /// It on one line of at most `max` characters of its text, for people.
    #[must_use]
    pub fn line(&self, max: usize) -> String {
        let place = match (&self.path, self.line) {
            (Some(path), Some(line)) => alloc::format!(" {}:{line}", one_line(path, max)),
            (Some(path), None) => alloc::format!(" {}", one_line(path, max)),
            (None, _) => String::new(),
        };
        let note = if self.is_blocking() { "" } else { ", for later" };
        alloc::format!("{}{note}{place}: {}", self.id, one_line(&self.text, max))
    }
}

impl Findings {
    /// No review found anything yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.named == 0
    }

    /// Every open finding has a name of its own, and one that was given.
    #[must_use]
    pub fn names_are_own(&self) -> bool {
        let mut names: Vec<u32> = self.open.iter().map(|one| one.id.0).collect();
        names.sort_unstable();
        let given = names.last().is_none_or(|highest| *highest <= self.named);
        given && names.windows(2).all(|two| two[0] != two[1])
    }

    /// Gives names: an earlier finding keeps its own, by the name the reviewer repeats or by its words; a new
    /// one gets the next. No name is given twice.
    #[must_use]
    pub fn name(&self, found: &[Found]) -> Vec<Finding> {
        let mut named: Vec<Finding> = Vec::new();
        let mut last = self.named;
        for one in found.iter().take(MAX_FINDINGS).map(Found::bounded) {
            let free = |id: &FindingId| named.iter().all(|other| other.id != *id);
            let known = |id: &FindingId| self.open.iter().any(|earlier| earlier.id == *id);
            let alike = || self.open.iter().filter(|earlier| one.repeats(earlier)).map(|e| e.id).find(&free);
            let id = one.id.filter(|id| known(id) && free(id)).or_else(alike).unwrap_or_else(|| {
                last = last.saturating_add(1);
                // At the end of all numbers the highest that nothing open has.
                let taken = |n: &u32| !known(&FindingId(*n)) && free(&FindingId(*n));
                FindingId((0..=last).rev().find(taken).unwrap_or(last))
            });
            let Found { severity, path, line, text, .. } = one;
            named.push(Finding { id, severity, path, line, text });
        }
        named
    }

    /// The rule of convergence: a rework is worth another one only when no blocking finding of the review
    /// before came again and there are fewer of them. None before the first rework.
    #[must_use]
    pub fn standstill(&self, now: &[Finding]) -> Option<Standstill> {
        let before = self.open.iter().filter(|earlier| earlier.is_blocking()).count();
        let blocking: Vec<FindingId> = now.iter().filter(|one| one.is_blocking()).map(|one| one.id).collect();
        let earlier = |id: &FindingId| self.open.iter().any(|e| e.is_blocking() && e.id == *id);
        let again: Vec<FindingId> = blocking.iter().copied().filter(earlier).collect();
        let stands = before > 0 && (!again.is_empty() || blocking.len() >= before);
        stands.then_some(Standstill { again, now: blocking.len(), before })
    }
}

impl Standstill {
    /// Which findings came again, and how many there are.
    #[must_use]
    pub fn sentence(&self) -> String {
        let names: Vec<String> = self.again.iter().map(ToString::to_string).collect();
        let again = match names.as_slice() {
            [] => "no finding came again".to_string(),
            [one] => alloc::format!("{one} came again"),
            several => alloc::format!("{} came again", several.join(", ")),
        };
        alloc::format!("{again}; blocking findings: {} now, {} in the review before", self.now, self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn found(id: Option<u32>, path: Option<&str>, text: &str) -> Found {
        let (id, path) = (id.map(FindingId), path.map(ToString::to_string));
        Found { id, severity: Severity::Blocking, path, line: Some(3), text: text.into() }
    }

    fn after(found: &[Found]) -> Findings {
        let open = Findings::default().name(found);
        Findings { named: open.iter().map(|one| one.id.0).max().unwrap_or(0), open }
    }

    fn ids(named: &[Finding]) -> Vec<u32> {
        named.iter().map(|one| one.id.0).collect()
    }

    #[test]
    fn a_finding_keeps_its_name_and_a_new_one_gets_the_next() {
        let last =
            after(&[found(None, None, "a"), found(None, Some("x.rs"), "b  c"), found(None, None, "d")]);
        assert_eq!(ids(&last.open), [1, 2, 3]);
        let rows: [(&[Found], &[u32]); 8] = [
            // By the name that is repeated, whatever the words.
            (&[found(Some(2), None, "other words")], &[2]),
            // By its words, when the reviewer forgets the name or invents one.
            (&[found(None, Some("x.rs"), "b\nc ")], &[2]),
            (&[found(Some(9), None, "a")], &[1]),
            // The words in another file are another finding.
            (&[found(None, Some("y.rs"), "b c")], &[4]),
            // New ones, also one that names what never was.
            (&[found(None, None, "new"), found(Some(77), None, "newer")], &[4, 5]),
            // A name that is used twice belongs to the first.
            (&[found(Some(1), None, "p"), found(Some(1), None, "q")], &[1, 4]),
            (&[found(Some(1), None, "p"), found(None, None, "a")], &[1, 4]),
            (&[], &[]),
        ];
        for (now, expect) in rows {
            assert_eq!(ids(&last.name(now)), expect, "{now:?}");
        }
    }

    #[test]
    fn names_stay_different_at_the_end_of_all_numbers() {
        let mut last = after(&[found(None, None, "a")]);
        last.named = u32::MAX;
        let named = last.name(&[found(None, None, "b"), found(None, None, "c"), found(Some(1), None, "a")]);
        assert_eq!(ids(&named), [u32::MAX, u32::MAX - 1, 1]);
    }

    #[test]
    fn a_review_keeps_its_bounds_at_the_limit_and_one_above() {
        let many = |n: usize| vec![found(None, None, "x"); n];
        assert_eq!(after(&many(MAX_FINDINGS)).open.len(), MAX_FINDINGS);
        assert_eq!(after(&many(MAX_FINDINGS + 1)).open.len(), MAX_FINDINGS);
        let long = |n: usize| after(&[found(None, Some(&"p".repeat(n)), &"é".repeat(n))]).open.remove(0);
        let whole = long(MAX_FINDING_TEXT);
        assert_eq!((whole.path.as_deref(), whole.text), (Some(&*"p".repeat(1_000)), "é".repeat(1_000)));
        let cut = long(MAX_FINDING_TEXT + 1);
        assert!(cut.text.ends_with("[cut]") && cut.text.chars().count() == MAX_FINDING_TEXT);
        assert_eq!(cut.path.map(|path| path.len()), Some(MAX_FINDING_TEXT));
    }

    #[test]
    fn a_rework_converges_only_with_fewer_and_other_findings() {
        let last = after(&[found(None, None, "a"), found(None, None, "b")]);
        let note = |text: &str| Found { severity: Severity::Note, ..found(None, None, text) };
        let rows: [(&Findings, &[Found], Option<(&[u32], usize, usize)>); 7] = [
            (&Findings::default(), &[found(None, None, "a")], None),
            (&last, &[found(None, None, "c")], None),
            (&last, &[found(None, None, "a")], Some((&[1], 1, 2))),
            (&last, &[found(None, None, "c"), found(None, None, "d")], Some((&[], 2, 2))),
            (
                &last,
                &[found(None, None, "c"), found(Some(2), None, "d"), found(Some(1), None, "")],
                Some((&[2, 1], 3, 2)),
            ),
            // What is for later does not count, on either side.
            (&last, &[found(None, None, "c"), note("a"), note("d")], None),
            (&after(&[note("a")]), &[found(None, None, "a")], None),
        ];
        for (last, now, expect) in rows {
            let said = last.standstill(&last.name(now));
            let said = said.as_ref().map(|s| (s.again.iter().map(|id| id.0).collect(), s.now, s.before));
            assert_eq!(said, expect.map(|(again, n, b)| (again.to_vec(), n, b)), "{now:?}");
        }
    }

    #[test]
    fn a_standstill_says_what_came_again_and_how_many_there_are() {
        let said = |again: &[u32]| {
            let again = again.iter().map(|n| FindingId(*n)).collect();
            Standstill { again, now: 2, before: 1 }.sentence()
        };
        assert_eq!(said(&[]), "no finding came again; blocking findings: 2 now, 1 in the review before");
        assert_eq!(said(&[4, 5]), "f4, f5 came again; blocking findings: 2 now, 1 in the review before");
    }

    #[test]
    fn a_finding_on_one_line_names_its_place() {
        let one = after(&[found(None, Some("src/a.rs"), "no\ntest")]).open.remove(0);
        assert_eq!(one.line(80), "f1 src/a.rs:3: no test");
        let later = Finding { severity: Severity::Note, path: None, ..one };
        assert_eq!(later.line(80), "f1, for later: no test");
    }
}
