//! Whose turn it is, by cases, and over simulated nights of several projects that all want more.

use std::collections::BTreeMap;

use devloop_testkit::random::Random;

use super::*;

const NOW: u64 = 1_000_000;

fn claim(slots: u32, since_ms: u64) -> Option<Claim> {
    Some(Claim { slots, since_ms, said_ms: NOW })
}

/// What is others' for a project `/m`: all slots, those it keeps, its claim, and the others by path.
fn theirs(all: u32, kept: u32, own: Option<Claim>, others: &[(&str, u32, Option<Claim>)]) -> u32 {
    let share = |(path, slots, claim): &(&str, u32, Option<Claim>)| {
        ((*path).to_owned(), Share { slots: *slots, claim: *claim })
    };
    let others: BTreeMap<String, Share> = others.iter().map(share).collect();
    left_to_others(Looker { all, kept, now_ms: NOW }, "/m", own, &others)
}

#[test]
fn a_free_slot_goes_to_the_fewest_then_to_the_longest_waiting() {
    let old = Some(Claim { slots: 1, since_ms: 1, said_ms: NOW - CLAIM_HOLDS_MS });
    let older = Some(Claim { slots: 1, since_ms: 1, said_ms: NOW - CLAIM_HOLDS_MS - 1 });
    let tomorrow = Some(Claim { slots: 1, since_ms: 1, said_ms: NOW + CLAIM_HOLDS_MS + 1 });
    type Case<'a> = (&'a str, u32, u32, Option<Claim>, &'a [(&'a str, u32, Option<Claim>)], u32);
    let table: &[Case<'_>] = &[
        ("nobody else", 5, 0, None, &[], 0),
        ("others that want nothing more keep what they have", 5, 1, None, &[("/a", 2, None)], 2),
        ("nothing is free", 4, 2, claim(9, 1), &[("/a", 2, claim(9, 5))], 2),
        ("the other one has none", 2, 1, claim(9, 1), &[("/a", 0, claim(1, 5))], 1),
        ("the other one has fewer", 4, 2, claim(9, 1), &[("/a", 1, claim(9, 5))], 2),
        ("this one has fewer", 4, 1, claim(9, 5), &[("/a", 2, claim(9, 1))], 2),
        ("as few: the other one waits longer", 3, 1, claim(9, 5), &[("/a", 1, claim(9, 1))], 2),
        ("as few: this one waits longer", 3, 1, claim(9, 1), &[("/a", 1, claim(9, 5))], 1),
        ("as few and as long: the first by path", 3, 1, claim(9, 1), &[("/a", 1, claim(9, 1))], 2),
        ("as few and as long: the first by path", 3, 1, claim(9, 1), &[("/z", 1, claim(9, 1))], 1),
        ("who has not said yet that it waits is behind", 3, 1, None, &[("/a", 1, claim(9, NOW))], 2),
        ("no more is left to them than they want", 8, 0, claim(9, 5), &[("/a", 0, claim(2, 1))], 2),
        (
            "all want more: even shares",
            9,
            0,
            claim(9, 2),
            &[("/a", 0, claim(9, 1)), ("/b", 0, claim(9, 3))],
            6,
        ),
        ("a claim at its limit of age", 2, 1, None, &[("/a", 0, old)], 1),
        ("a claim beyond it", 2, 1, None, &[("/a", 0, older)], 0),
        ("a claim of another clock", 2, 1, None, &[("/a", 0, tomorrow)], 0),
        ("others hold more than there are here", 1, 0, claim(1, 1), &[("/a", 3, None)], 3),
        ("no slot at all counts as one", 0, 0, None, &[], 0),
    ];
    for (why, all, kept, own, others, expect) in table {
        assert_eq!(theirs(*all, *kept, *own, others), *expect, "{why}: {own:?} {others:?}");
    }
}

#[test]
fn a_claim_keeps_its_age_until_it_is_served_and_is_not_said_twice() {
    let first = renewed(None, 2, false, 100);
    assert_eq!(first, Some(Claim { slots: 2, since_ms: 100, said_ms: 100 }));
    assert_eq!(renewed(first, 2, false, 100 + SAY_AGAIN_MS - 1), first, "nothing new");
    let again = Some(Claim { slots: 2, since_ms: 100, said_ms: 100 + SAY_AGAIN_MS });
    assert_eq!(renewed(first, 2, false, 100 + SAY_AGAIN_MS), again);
    assert_eq!(renewed(first, 1, false, 200), Some(Claim { slots: 1, since_ms: 100, said_ms: 200 }));
    assert_eq!(renewed(first, 1, true, 200), Some(Claim { slots: 1, since_ms: 200, said_ms: 200 }));
    assert_eq!(renewed(first, 2, false, 50).map(|claim| claim.since_ms), Some(50), "the clock was set back");
    assert_eq!(renewed(first, 0, true, 200), None);
}

/// The longest and the shortest that a simulated worker takes, in milliseconds.
const WORK_MS: (u64, u64) = (30, 500);
/// A project looks at least so often.
const BEAT_MS: u64 = 100;
const STEP_MS: u64 = 10;

/// One project that always has more to do.
struct Project {
    path: String,
    /// When it comes, and when each of its workers ends.
    comes: u64,
    ends: Vec<u64>,
    beat: u64,
    /// When it was last given a slot.
    served: u64,
}

impl Project {
    /// A beat as the supervisor makes it, with the core's rule about slots.
    fn beat(&mut self, ledger: &mut BTreeMap<String, Share>, all: u32, now: u64, random: &mut Random) {
        self.ends.retain(|end| *end > now);
        let kept = self.ends.len() as u32;
        let before = ledger.remove(&self.path).and_then(|share| share.claim);
        let looker = Looker { all, kept, now_ms: now };
        let theirs = left_to_others(looker, &self.path, before, ledger);
        while self.ends.len() as u32 + theirs < all {
            self.ends.push(now + WORK_MS.0 + random.below(WORK_MS.1 - WORK_MS.0));
            self.served = now;
        }
        let slots = self.ends.len() as u32;
        let claim = renewed(before, all - slots, slots > kept, now);
        ledger.insert(self.path.clone(), Share { slots, claim });
        self.beat = now + BEAT_MS;
    }
}

fn night(seed: u64, count: usize, all: u32) {
    let mut random = Random::new(seed);
    let mut projects: Vec<Project> = (0..count)
        .map(|at| {
            let comes = random.below(1_000);
            Project { path: format!("/{at}"), comes, ends: Vec::new(), beat: comes, served: comes }
        })
        .collect();
    let mut ledger = BTreeMap::new();
    // Everybody is there, and nothing runs any more that was started when somebody was not.
    let even = 1_000 + WORK_MS.1 + 2 * BEAT_MS;
    for now in (0..20_000).step_by(STEP_MS as usize) {
        let start = random.below(count as u64) as usize;
        for at in 0..count {
            let project = &mut projects[(start + at) % count];
            let due = now >= project.beat || project.ends.iter().any(|end| *end <= now);
            if now >= project.comes && due {
                project.beat(&mut ledger, all, now, &mut random);
            }
        }
        let held: Vec<u32> = ledger.values().map(|share| share.slots).collect();
        let said = format!("seed {seed}, {count} projects on {all} slots, {now} ms: {held:?}");
        assert!(held.iter().sum::<u32>() <= all, "{said}");
        if now >= even {
            let (most, least) = (held.iter().max().unwrap(), held.iter().min().unwrap());
            assert!(most - least <= 1, "{said}");
            // No slot lies idle longer than its next owner needs to look.
            assert!(held.iter().sum::<u32>() + count as u32 >= all, "{said}");
            for project in &projects {
                let turn = (count as u64).div_ceil(u64::from(all)) * (WORK_MS.1 + 2 * BEAT_MS);
                assert!(now - project.served <= turn + WORK_MS.1, "{} starves: {said}", project.path);
            }
        }
    }
}

#[test]
fn of_two_three_and_five_projects_none_starves_and_shares_differ_by_one_at_most() {
    for count in [2, 3, 5] {
        for all in [1, 2, 3, 5, 8] {
            (0..20).for_each(|seed| night(seed, count, all));
        }
    }
}
