//! Runs many nights on plain threads and adds up what they reached. It shows nothing and writes nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Broken, Coverage, of_seed};

/// What came of many nights.
#[derive(Clone, Debug, Default)]
pub struct Many {
    /// What they reached.
    pub seen: Coverage,
    /// The broken promises by seed.
    pub broken: BTreeMap<u64, Broken>,
}

/// Runs the nights of the seeds on that many threads; stops after the first broken promise unless it is to go
/// on.
#[must_use]
pub fn many(seeds: Range<u64>, threads: usize, go_on: bool) -> Many {
    let next = AtomicU64::new(seeds.start);
    let total: Mutex<Many> = Mutex::new(Many::default());
    let work = || {
        let mut mine = Many::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let night = of_seed(seed);
            mine.seen.add(&night.seen);
            if let Some(broken) = night.broken {
                mine.broken.insert(seed, broken);
                if !go_on {
                    next.store(seeds.end, Ordering::Relaxed);
                }
            }
        }
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        total.seen.add(&mine.seen);
        total.broken.extend(mine.broken);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}
