//! Two thousand simulated nights: every promise is kept in each, the goal is reached at the end of each, and
//! together they reach every reason, hold, circuit, answer, refusal and effect. More nights: `cargo xtask
//! sim`.

use std::num::NonZero;
use std::time::Instant;

use devloop_testkit::sim;

const NIGHTS: u64 = 2_000;

#[test]
fn simulated_nights_keep_every_promise_and_reach_every_reason() {
    let begun = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let many = sim::many(0..NIGHTS, threads, false);
    if let Some((seed, broken)) = many.broken.first_key_value() {
        panic!(
            "seed {seed} breaks {}: {}\nmake it small: cargo xtask sim --seed {seed}",
            broken.rule, broken.what
        );
    }
    print!("{}", many.seen.table());
    println!("{:.1} s on {threads} threads", begun.elapsed().as_secs_f64());
    assert_eq!(many.seen.nights, NIGHTS);
    assert_eq!(many.seen.missing(), [], "what no night reached");
}

#[test]
fn a_seed_and_its_script_are_the_same_night() {
    for seed in [3, 14, 159] {
        let night = sim::of_seed(seed);
        let again = sim::of_script(&night.script, true);
        assert_eq!((&again.seen, &again.broken), (&night.seen, &night.broken), "seed {seed}");
        let parsed = again.trace.iter().filter(|line| devloop_wire::trace_line::parse(line).is_ok()).count();
        assert_eq!(parsed, again.trace.len(), "every line is one of a trace");
        assert!(again.story.lines().count() > 10, "{}", again.story);
    }
}
