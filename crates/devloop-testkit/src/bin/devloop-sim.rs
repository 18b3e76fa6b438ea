//! `devloop-sim`: runs nights of the simulator on the cores given, prints what they reached, and makes the
//! first one that fails small. `cargo xtask sim` builds and starts it. It judges nothing itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use devloop_testkit::sim::{self, Broken, Script};

const USAGE: &str =
    "usage: cargo xtask sim [--seeds N] [--from S] [--threads T] [--cover] [--go-on] [--out FOLDER]
       cargo xtask sim --seed X [--out FOLDER]
       cargo xtask sim --script FILE [--out FOLDER]
  --seeds    how many nights (2000)
  --from     the first seed (0)
  --threads  how many at a time (all cores)
  --cover    also fail when a reason was never reached
  --go-on    run all nights and count the broken promises, the first seed of each named
  --seed     one night; with its trace, and made small when it fails
  --script   the night of a script that an earlier run wrote
  --out      where scripts and traces go (target/sim)";

struct Wish {
    seeds: u64,
    from: u64,
    threads: usize,
    cover: bool,
    go_on: bool,
    one: Option<u64>,
    script: Option<PathBuf>,
    out: PathBuf,
}

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match parse(&args).and_then(|wish| run(&wish)) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("{sentence}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn parse(args: &[String]) -> Result<Wish, String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let out = PathBuf::from("target/sim");
    let mut wish = Wish {
        seeds: 2_000,
        from: 0,
        threads: cores,
        cover: false,
        go_on: false,
        one: None,
        script: None,
        out,
    };
    let mut words = args.iter().filter(|word| *word != "--");
    while let Some(word) = words.next() {
        if word == "--cover" {
            wish.cover = true;
            continue;
        }
        if word == "--go-on" {
            wish.go_on = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word} must be a number, not {value}"));
        match word.as_str() {
            "--seeds" => wish.seeds = number()?,
            "--from" => wish.from = number()?,
            "--threads" => wish.threads = usize::try_from(number()?.clamp(1, 256)).unwrap_or(1),
            "--seed" => wish.one = Some(number()?),
            "--script" => wish.script = Some(PathBuf::from(value)),
            "--out" => wish.out = PathBuf::from(value),
            other => return Err(format!("unknown argument {other}\n{USAGE}")),
        }
    }
    Ok(wish)
}

fn run(wish: &Wish) -> Result<(), String> {
    if let Some(path) = &wish.script {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let script = Script::read(&text).map_err(|what| format!("{}: {what}", path.display()))?;
        return one(&wish.out, "script", &script);
    }
    if let Some(seed) = wish.one {
        return one(&wish.out, &format!("seed-{seed}"), &sim::of_seed(seed).script);
    }
    many(wish)
}

/// All nights of the range, until one fails.
fn many(wish: &Wish) -> Result<(), String> {
    let begun = Instant::now();
    let end = wish.from.saturating_add(wish.seeds);
    let sim::Many { seen, broken } = sim::many(wish.from..end, wish.threads, wish.go_on);
    print!("{}", seen.table());
    println!("seeds {} to {}, {:.1} s", wish.from, end.saturating_sub(1), begun.elapsed().as_secs_f64());
    if wish.go_on {
        kinds(&broken);
    }
    if let Some(seed) = broken.keys().next() {
        return one(&wish.out, &format!("seed-{seed}"), &sim::of_seed(*seed).script);
    }
    let unreached = seen.missing().into_iter().find(|(kind, _)| *kind == "reason");
    match unreached.filter(|_| wish.cover) {
        Some((_, names)) => Err(format!("no night reached: {}", names.join(", "))),
        None => Ok(()),
    }
}

/// Broken promises by kind: how many, and the first seed.
fn kinds(failed: &BTreeMap<u64, Broken>) {
    let mut kinds: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (seed, broken) in failed {
        kinds.entry(broken.kind()).or_insert((*seed, 0)).1 += 1;
    }
    for (kind, (seed, count)) in kinds {
        println!("{count} nights, first seed {seed}: {kind}");
    }
}

/// One night: shown, made small when it fails, and written with its trace.
fn one(out: &Path, name: &str, script: &Script) -> Result<(), String> {
    let night = sim::of_script(script, false);
    let Some(broken) = night.broken else {
        let trace = write(out, name, script)?;
        println!("{name} keeps every promise: {} decisions; {trace}", night.seen.decisions);
        return Ok(());
    };
    println!("{name} breaks {}: {}", broken.rule, broken.what);
    let small = sim::shrink(script, &broken.kind());
    let steps = |script: &Script| script.steps.len().saturating_sub(1);
    let trace = write(out, name, &small)?;
    println!(
        "{} steps and {} choices left of {} and {}",
        steps(&small),
        small.weight(),
        steps(script),
        script.weight()
    );
    let again = sim::of_script(&small, false).broken.unwrap_or(broken);
    println!("it breaks {}: {}", again.rule, again.what);
    let file = out.join(format!("{name}.script"));
    Err(format!("{trace}; again: cargo xtask sim --script {}", file.display()))
}

/// Writes the script and the trace; names them.
fn write(out: &Path, name: &str, script: &Script) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", out.display());
    std::fs::create_dir_all(out).map_err(failed)?;
    let file = out.join(format!("{name}.script"));
    std::fs::write(&file, script.write()).map_err(failed)?;
    let trace = out.join(format!("{name}.trace.jsonl"));
    let night = sim::of_script(script, true);
    let mut bytes = night.trace.join(&b'\n');
    bytes.push(b'\n');
    std::fs::write(&trace, bytes).map_err(failed)?;
    std::fs::write(out.join(format!("{name}.story")), night.story).map_err(failed)?;
    Ok(format!("written: {} with .story and .trace.jsonl beside it", file.display()))
}
