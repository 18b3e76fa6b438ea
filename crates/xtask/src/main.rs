//! The repository's own commands, one line each; it decides nothing and holds no logic of its own.

mod bench;
mod decisions;
mod dist;
mod fuzz;
mod guest;
mod help;
mod schema;
mod secrets;
mod sim;
mod start;
mod test;
mod tidy;
mod tools;
mod web;

/// Arguments after the command's name in, nothing or one sentence for the person out.
type Command = fn(&[String]) -> Result<(), String>;

/// Every command: name, what it does, where it lives.
const COMMANDS: &[(&str, &str, Command)] = &[
    ("bench", "measure everything and write docs/bench.md (or show the parts named)", bench::run),
    ("decisions", "write docs/DECISIONS.md from the core (--check: only compare)", decisions::run),
    ("dist", "build and pack the npm packages (--quick: development CLI, test form only)", dist::run),
    ("fuzz", "run a fuzzing target, or all (fuzz <target>|all [seconds])", fuzz::run),
    ("guest", "build the component and its image (--force, --target <triple>)", guest::run),
    ("help-page", "write docs/cli.md from the CLI's own help (--check: only compare)", help::run),
    ("schema", "write docs/schema from the types (--check: only compare)", schema::run),
    ("secrets", "write the rules of the secret scan from a gitleaks.toml (secrets <file>)", secrets::run),
    ("sim", "run simulated nights: --seeds N [--from S], --seed X, --script FILE, --go-on", sim::run),
    ("start", "build the guest and the CLI, then run `devloop demo [path]`", start::run),
    ("test", "build and test everything (--only <part>, --list)", test::run),
    ("tidy", "check the rules of the house (--fix updates what can be generated)", tidy::run),
    ("web", "build the core for a page into target/web", web::run),
];

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if std::env::var_os(fuzz::COVER).is_some() {
        return ended(fuzz::compile(&args));
    }
    let name = args.first().map_or("help", String::as_str);
    let outcome = match COMMANDS.iter().find(|(known, _, _)| *known == name) {
        Some((_, _, command)) => command(&args[1..]),
        None => Err(usage()),
    };
    ended(outcome)
}

fn ended(outcome: Result<(), String>) -> std::process::ExitCode {
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("{sentence}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask <command>\n");
    for (name, what, _) in COMMANDS {
        text.push_str(&format!("  {name:<9} {what}\n"));
    }
    text
}
