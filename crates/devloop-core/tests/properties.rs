//! Properties over random sequences, which shrink to the shortest that fails: whole nights of commands and
//! observations, the fold on any event, the basis, the ledger, caps and prices.

#[allow(dead_code, reason = "the lists are complete; not every one is drawn from here")]
#[path = "exhaustive/every.rs"]
mod every;
#[allow(dead_code, reason = "shared with the exhaustive test")]
#[path = "exhaustive/judge.rs"]
mod judge;
#[allow(dead_code, reason = "shared with the exhaustive test")]
#[path = "exhaustive/scene.rs"]
mod scene;

#[path = "properties/amounts.rs"]
mod amounts;
#[path = "properties/fold.rs"]
mod fold;
#[path = "properties/moves.rs"]
mod moves;
#[path = "properties/night.rs"]
mod night;

use proptest::test_runner::{Config, RngSeed};

/// The same cases at every run; `PROPTEST_RNG_SEED` draws others, `PROPTEST_CASES` more.
fn cases(usual: u32) -> Config {
    let found = Config::default();
    let seed = if found.rng_seed == RngSeed::Random { RngSeed::Fixed(1) } else { found.rng_seed };
    let named = std::env::var_os("PROPTEST_CASES").is_some();
    let cases = if named { found.cases } else { usual };
    Config { cases, rng_seed: seed, failure_persistence: None, ..found }
}
