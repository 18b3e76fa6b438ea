//! The fuzzing program: libFuzzer around the one target that DEVLOOP_FUZZ names. `cargo xtask fuzz` builds it
//! with coverage and starts it; it owns nothing but the wiring.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use devloop_fuzz::{TARGETS, Target, mutate, seeds, target};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

/// The target, before anything is tried. `list` prints their names; DEVLOOP_FUZZ_SEEDS has a folder filled.
fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("DEVLOOP_FUZZ").unwrap_or_default();
        let Some(target) = target(&name) else {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            println!("{}", names.join("\n"));
            std::process::exit(if name == "list" { 0 } else { 2 });
        };
        if let Some(folder) = std::env::var_os("DEVLOOP_FUZZ_SEEDS") {
            write_seeds(target.name, Path::new(&folder));
            std::process::exit(0);
        }
        target
    })
}

fn write_seeds(target: &str, folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder for the seeds");
    for (name, bytes) in seeds::of(target) {
        std::fs::write(folder.join(name), bytes).expect("a seed is written");
    }
}

fuzz_target!(init: { chosen(); }, |data: &[u8]| (chosen().run)(data));

// One change in four is the engine's own: it splices, repeats and takes words from the comparisons it saw.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if chosen().is_json && !seed.is_multiple_of(4) {
        if let Some(changed) = mutate::json(&data[..size], max_size, u64::from(seed)) {
            data[..changed.len()].copy_from_slice(&changed);
            return changed.len();
        }
    }
    fuzzer_mutate(data, size, max_size)
});
