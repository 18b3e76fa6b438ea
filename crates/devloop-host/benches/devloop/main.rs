//! The measurements behind docs/bench.md, printed as Markdown; `cargo xtask bench` runs them. It judges
//! nothing but whether a goal is met.

mod core_speed;
mod durable;
mod figures;
mod first;
mod ground;
mod load;
mod parallel;
mod pipeline;
mod project;
mod scale;

/// What a measurement needs to go on.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    // Cargo adds `--bench`; words choose parts.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["one-pipeline"] => return pipeline::once(),
        ["load", what, how, tasks] => return load::run(what, how, tasks),
        ["first-decision"] => return first::once(),
        ["sample-project", folder] => return project::sample(folder.as_ref()),
        _ => {}
    }
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    if wanted("core") {
        core_speed::report(15)?;
    }
    if wanted("first") {
        first::report()?;
    }
    if wanted("durable") {
        durable::report(1_200)?;
    }
    if wanted("scale") {
        scale::report(21)?;
    }
    if wanted("pipeline") {
        pipeline::report(11)?;
    }
    if wanted("parallel") {
        parallel::report(3)?;
    }
    Ok(())
}
