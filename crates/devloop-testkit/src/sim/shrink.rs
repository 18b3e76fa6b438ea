//! Makes a failing night small: fewer steps, then fewer choices that are not dull, as long as the same
//! promise is broken. It must not know what a choice means.

use super::draw::Script;
use super::night::of_script;

/// Nights that are tried at most.
const MAX_TRIES: u32 = 6_000;

struct Shrinker<F> {
    fails: F,
    best: Script,
    tries: u32,
}

/// The smallest script found that breaks a promise in the same way, see [`super::Broken::kind`]; the script
/// itself when it does not.
#[must_use]
pub fn shrink(script: &Script, kind: &str) -> Script {
    smallest(script, |script| of_script(script, false).broken.is_some_and(|broken| broken.kind() == kind))
}

fn smallest(script: &Script, fails: impl FnMut(&Script) -> bool) -> Script {
    let mut shrinker = Shrinker { fails, best: script.clone(), tries: 0 };
    loop {
        let before = shrinker.best.clone();
        shrinker.steps();
        shrinker.dull_steps();
        shrinker.choices();
        if shrinker.best == before || shrinker.tries >= MAX_TRIES {
            return shrinker.best;
        }
    }
}

impl<F: FnMut(&Script) -> bool> Shrinker<F> {
    fn try_out(&mut self, script: Script) -> bool {
        if self.tries >= MAX_TRIES || script == self.best {
            return false;
        }
        self.tries += 1;
        let same = (self.fails)(&script);
        if same {
            self.best = script;
        }
        same
    }

    /// Takes runs of steps out, long ones first. The setting stays.
    fn steps(&mut self) {
        let mut size = self.best.steps.len().saturating_sub(1);
        while size > 0 {
            let mut at = 1;
            while at < self.best.steps.len() {
                let mut fewer = self.best.clone();
                let end = (at + size).min(fewer.steps.len());
                fewer.steps.drain(at..end);
                if !self.try_out(fewer) {
                    at += size;
                }
            }
            size /= 2;
        }
    }

    /// Makes whole steps dull.
    fn dull_steps(&mut self) {
        for at in 0..self.best.steps.len() {
            let mut duller = self.best.clone();
            if let Some(step) = duller.steps.get_mut(at) {
                step.clear();
            }
            self.try_out(duller);
        }
    }

    /// Makes single choices dull, then smaller; what is dull at the end of a step need not be written.
    fn choices(&mut self) {
        for step in 0..self.best.steps.len() {
            let mut at = 0;
            while let Some(choice) = self.best.steps.get(step).and_then(|list| list.get(at)).copied() {
                for smaller in [0, choice / 2, choice.saturating_sub(1)] {
                    let mut other = self.best.clone();
                    other.steps[step][at] = smaller;
                    if smaller < choice && self.try_out(other) {
                        break;
                    }
                }
                at += 1;
            }
            let mut shorter = self.best.clone();
            while shorter.steps[step].last() == Some(&0) {
                shorter.steps[step].pop();
            }
            self.best = shorter;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_makes_it_fail_is_left() {
        let steps = (0..40u16).map(|n| vec![n % 7, 3, n % 5, 9]).collect();
        let needs = |script: &Script| {
            let second = |step: &Vec<u16>| step.get(3).is_some_and(|n| *n >= 4);
            script.steps.iter().skip(1).filter(|step| second(step)).count() >= 2
        };
        let small = smallest(&Script { steps }, needs);
        assert_eq!(small.steps, [vec![], vec![0, 0, 0, 4], vec![0, 0, 0, 4]]);
    }
}
