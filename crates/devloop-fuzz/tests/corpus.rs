//! Every seed of every target, as an ordinary test, and a few hundred changes of each by fixed dice: what a
//! fuzzing run found once stays found.

use devloop_fuzz::{TARGETS, Target, mutate, seeds};
use devloop_testkit::random::Random;

/// Changes of each seed.
const CHANGES: u64 = 12;
const MAX_LEN: usize = 65_536;

/// Says which seed it was when a property does not hold.
struct Named<'a>(&'a str, &'a str, &'a [u8]);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Named(target, seed, bytes) = self;
            eprintln!("target {target}, {seed}: {:?}", String::from_utf8_lossy(bytes));
        }
    }
}

fn run(target: &Target, seed: &str, bytes: &[u8]) {
    let _named = Named(target.name, seed, bytes);
    (target.run)(bytes);
}

/// One byte changed, taken out or doubled.
fn bent(bytes: &[u8], dice: u64) -> Vec<u8> {
    let mut random = Random::new(dice);
    let mut bent = bytes.to_vec();
    if let Some(at) = usize::try_from(random.below(bytes.len() as u64)).ok().filter(|at| *at < bytes.len()) {
        match random.below(3) {
            0 => bent[at] ^= 1 << random.below(8),
            1 => drop(bent.remove(at)),
            _ => bent.insert(at, bytes[at]),
        }
    }
    bent
}

fn replay(name: &str) {
    let target = devloop_fuzz::target(name).expect("a target");
    let seeds = seeds::of(name);
    assert!(seeds.len() > 2, "{name} has {} seeds", seeds.len());
    for (seed, bytes) in &seeds {
        run(target, seed, bytes);
        for dice in 0..CHANGES {
            let changed = match target.is_json.then(|| mutate::json(bytes, MAX_LEN, dice)).flatten() {
                Some(changed) => changed,
                None => bent(bytes, dice),
            };
            run(target, &format!("{seed} changed by {dice}"), &changed);
        }
    }
}

macro_rules! replayed {
    ($($name:ident),+) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })+

        #[test]
        fn no_target_is_left_out_and_kept_seeds_are_small() {
            let replayed = [$(stringify!($name)),+];
            assert_eq!(replayed.to_vec(), TARGETS.iter().map(|target| target.name).collect::<Vec<_>>());
            for target in TARGETS {
                for entry in std::fs::read_dir(seeds::folder(target.name)).into_iter().flatten() {
                    let entry = entry.expect("an entry");
                    let bytes = entry.metadata().expect("a size").len();
                    assert!(bytes <= 16_384, "{:?} has {bytes} bytes", entry.path());
                }
            }
        }
    };
}

replayed!(envelope, journal, state, migration, config, machine, boundary, nights);
