//! The blocks of adapters that start a program: its command, more words for it, and the variables it may see.
//! It must not know what the words mean to the program.

use devloop_core::policy::Backend;
use devloop_core::units::Map;

use crate::config_doc::{AdapterConfig, Weight};
use crate::config_fields::{Faults, Fields};
use crate::config_read::argv;
use crate::config_routes::word_of;

/// Adapters with a block of their own; `command` and `acp` are nothing without a command of the operator.
const ADAPTERS: [Backend; 5] =
    [Backend::Command, Backend::Claude, Backend::Codex, Backend::Dsh, Backend::Acp];

/// Prefixes of variables that no worker is ever given, whatever a list says.
const WITHHELD: [&str; 6] = ["GIT_", "GH_", "GITHUB_", "SSH_", "DEVLOOP_", "GCM_"];

/// Reads every block.
pub(crate) fn read(faults: &mut Faults, top: &Fields<'_>) -> Map<Backend, AdapterConfig> {
    let mut found = Map::new();
    for backend in ADAPTERS {
        let key = word_of(backend);
        let Some(node) = top.get(key) else { continue };
        let fields = faults.fields(node, key, &["argv", "args", "env"]);
        let command = fields.get("argv").map(|node| argv(faults, node, &fields.at("argv")));
        let word = |text: &str| text.contains('\0').then(|| "must have no NUL".to_owned());
        let config = AdapterConfig {
            argv: command.unwrap_or_default(),
            args: faults.texts(&fields, "args", word),
            env: faults.texts(&fields, "env", variable_fault),
        };
        if matches!(backend, Backend::Command | Backend::Acp) && !config.args.is_empty() {
            let what = "belongs to the argv here: all words are yours";
            faults.add(Weight::Closing, fields.at("args"), what);
        }
        found.insert(backend, config);
    }
    found
}

/// The rule that the name of a variable breaks.
fn variable_fault(name: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(plain) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Some("must be the name of a variable: letters, digits and underscores".to_owned());
    }
    let withheld = WITHHELD.iter().find(|prefix| name.starts_with(*prefix))?;
    Some(format!("is never given to a worker: every {withheld}* is withheld"))
}
