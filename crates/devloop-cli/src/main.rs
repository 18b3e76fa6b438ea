//! The program `devloop`: reads the command line, hands it to the verb, turns what comes back into words
//! and an exit code. It must not know what a verb does.

mod answer;
mod cli;
mod completions;
mod cost;
mod demo;
mod doctor;
mod events;
mod init;
mod live;
mod next;
mod page;
mod pause;
mod picture;
mod place;
mod replay;
mod resume;
mod run;
mod say;
mod status;
mod task;
mod tick;
mod what_if;
mod wish;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let as_json = cli.verb.wants_json();
    match cli.verb.perform() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say::failure(&error, as_json);
            ExitCode::from(error.kind().exit_code())
        }
    }
}
