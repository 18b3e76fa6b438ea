//! Owns every choice of a night: drawn from a seed once, kept as a list of numbers per step, and read back
//! from that list. Zero is always the dullest choice, so that a list full of zeros is a night in which
//! nothing goes wrong. It must not know what is chosen.

use crate::random::Random;

/// The choices of one night, one list per step; the first list is the setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Per step the choices in the order they were asked for.
    pub steps: Vec<Vec<u16>>,
}

impl Script {
    /// How many choices are not the dullest one.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.steps.iter().flatten().filter(|choice| **choice != 0).count()
    }

    /// One line per step; an empty line is a dull step.
    #[must_use]
    pub fn write(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            let words: Vec<String> = step.iter().map(ToString::to_string).collect();
            text.push_str(&words.join(" "));
            text.push('\n');
        }
        text
    }

    /// Reads what [`Script::write`] wrote.
    ///
    /// # Errors
    /// The first line, from 1, that is not a list of numbers below 65,536.
    pub fn read(text: &str) -> Result<Script, String> {
        let line = |(i, line): (usize, &str)| {
            let numbers: Result<Vec<u16>, _> = line.split_whitespace().map(str::parse).collect();
            numbers.map_err(|_| format!("line {} must be numbers from 0 to 65535", i + 1))
        };
        Ok(Script { steps: text.lines().enumerate().map(line).collect::<Result<_, _>>()? })
    }
}

#[derive(Clone, Debug)]
enum Source {
    Seed(Random),
    Script,
}

/// Where choices come from.
#[derive(Clone, Debug)]
pub struct Draw {
    source: Source,
    script: Script,
    step: usize,
    at: usize,
    calm: bool,
}

impl Draw {
    /// Draws from a seed and remembers what it drew.
    #[must_use]
    pub fn of_seed(seed: u64) -> Draw {
        Draw::new(Source::Seed(Random::new(seed)), Script { steps: vec![Vec::new()] })
    }

    /// Reads back; what the script does not name is zero.
    #[must_use]
    pub fn of_script(script: Script) -> Draw {
        Draw::new(Source::Script, script)
    }

    fn new(source: Source, script: Script) -> Draw {
        Draw { source, script, step: 0, at: 0, calm: false }
    }

    /// Goes on to the next step.
    pub fn next_step(&mut self) {
        (self.step, self.at) = (self.step + 1, 0);
        if matches!(self.source, Source::Seed(_)) {
            self.script.steps.push(Vec::new());
        }
    }

    /// The step that is drawn for; zero is the setting.
    #[must_use]
    pub fn step(&self) -> usize {
        self.step
    }

    /// From here on every choice is zero and none is remembered.
    pub fn calm_down(&mut self) {
        self.calm = true;
    }

    /// What was chosen so far, or the script that is read.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.script
    }

    fn choose(&mut self, end: u64, fresh: impl FnOnce(&mut Random) -> u64) -> u64 {
        if self.calm || end < 2 {
            return 0;
        }
        let choice = match &mut self.source {
            Source::Seed(random) => {
                let choice = fresh(random).min(end - 1);
                if let Some(step) = self.script.steps.last_mut() {
                    step.push(u16::try_from(choice).unwrap_or(u16::MAX));
                }
                choice
            }
            Source::Script => {
                let step = self.script.steps.get(self.step);
                let choice = step.and_then(|step| step.get(self.at)).copied().unwrap_or(0);
                u64::from(choice).min(end - 1)
            }
        };
        self.at += 1;
        choice
    }

    /// A number below `end`, which is at most 65,536.
    pub fn below(&mut self, end: u64) -> u64 {
        self.choose(end, |random| random.below(end))
    }

    /// True in `permille` of a thousand cases.
    pub fn odd(&mut self, permille: u64) -> bool {
        self.choose(2, |random| u64::from(random.below(1_000) < permille)) == 1
    }

    /// One of `choices`, the first of which is the dullest.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        let at = usize::try_from(self.below(choices.len() as u64)).expect("an index of a slice fits");
        choices[at].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_back_what_a_seed_drew() {
        let run = |draw: &mut Draw| -> Vec<u64> {
            (0..4)
                .flat_map(|_| {
                    draw.next_step();
                    [draw.below(10), u64::from(draw.odd(500)), draw.pick(&[5, 6, 7])]
                })
                .collect()
        };
        let mut fresh = Draw::of_seed(3);
        let drawn = run(&mut fresh);
        let text = fresh.script().write();
        let script = Script::read(&text).expect("a script");
        assert_eq!(script, *fresh.script());
        assert_eq!(run(&mut Draw::of_script(script)), drawn);
        let dull = run(&mut Draw::of_script(Script::default()));
        assert_eq!(dull, [0, 0, 5].repeat(4));
        assert_eq!(Script::read("1 2\nx"), Err("line 2 must be numbers from 0 to 65535".to_string()));
    }
}
