//! Any program of the operator: it reads a prompt and prints an envelope. Its exit code is believed, because
//! there is nothing else to go by.

use super::adapter::{Adapter, Answer, Channel, Said, Seen, Var, When};
use super::fault::{Fault, Found};
use super::login::Login;
use super::runner::{no_records, nothing_to_lay_out, quoted};
use crate::process::StopPlan;

/// The adapter.
pub(super) const ADAPTER: Adapter = Adapter {
    name: "command",
    words: &[],
    env: &[
        Var(When::Always, "DEVLOOP_ROLE", "{role}"),
        Var(When::Always, "DEVLOOP_TASK", "{task}"),
        Var(When::Always, "DEVLOOP_MODEL", "{model}"),
        Var(When::Always, "DEVLOOP_SCHEMA_FILE", "{schema_file}"),
        Var(When::Reads, "DEVLOOP_READ_ONLY", "1"),
    ],
    inherit: &[],
    login: Login { vars: &[], file: None },
    prompt: Channel::StdinOrFile,
    output_max_bytes: 8 * 1024 * 1024,
    stop: StopPlan { interrupt_ms: 0, terminate_ms: 2_000 },
    lay_out: nothing_to_lay_out,
    talk: None,
    read,
    recorded: no_records,
    resumes: &[],
    // Nothing makes a program of the operator read-only.
    repairs: false,
};

/// Exit codes after sysexits.h, for programs that know whose fault it was.
const CODES: &[(i32, Fault)] =
    &[(68, Fault::NetworkDown), (69, Fault::Overloaded), (75, Fault::RateLimited), (77, Fault::LoginExpired)];
/// A program that says that it is set up wrongly, cannot be run or is not there: nobody was asked.
const REFUSALS: [i32; 3] = [78, 126, 127];

fn read(seen: &Seen<'_>) -> Answer {
    let code = match seen.code {
        Some(0) => return Said::Text(seen.stdout.text()).with(None),
        code => code.unwrap_or(-1),
    };
    let words = match seen.stderr {
        "" => format!("it ended with exit code {code} and said nothing on standard error"),
        text => format!("exit code {code}: {}", quoted(text)),
    };
    if REFUSALS.contains(&code) {
        return Said::Refused(words).with(None);
    }
    let found = match CODES.iter().find(|(known, _)| *known == code) {
        Some((_, fault)) => Found::told(*fault, &words, seen.now),
        None => Found::known(Fault::Unknown, words),
    };
    Said::Fault(found).with(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Captured;
    use devloop_core::units::WallMs;

    fn check(code: i32, stderr: &str, expect: &Said) {
        let stdout = Captured { bytes: b"out".to_vec(), ..Captured::default() };
        let seen = Seen { stdout: &stdout, stderr, code: Some(code), last: None, now: WallMs(1_000_000) };
        assert_eq!(&read(&seen).said, expect);
    }

    #[test]
    fn the_exit_code_says_whose_fault_it_was() {
        check(0, "noise", &Said::Text("out".into()));
        check(78, "no config", &Said::Refused("exit code 78: no config".into()));
        let known = |fault, text: &str| Said::Fault(Found::known(fault, text));
        check(
            77,
            "",
            &known(Fault::LoginExpired, "it ended with exit code 77 and said nothing on standard error"),
        );
        check(69, "busy", &known(Fault::Overloaded, "exit code 69: busy"));
        // What a program of the operator writes to standard error is its own business.
        check(1, "rate limit", &known(Fault::Unknown, "exit code 1: rate limit"));
        let until = Some(WallMs(1_000_000 + 30_000 + 10_000));
        let text = "exit code 75: try again in 30s".to_owned();
        check(75, "try again in 30s", &Said::Fault(Found { fault: Fault::RateLimited, text, until }));
    }
}
