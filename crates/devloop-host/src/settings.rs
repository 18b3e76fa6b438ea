//! Which configuration is in force: the profile's, the project's file, or the defaults. It must not judge
//! values.

use devloop_core::policy::Limits;
use devloop_wire::budget_doc;
use devloop_wire::config_doc::{self, Config};

use crate::error::{ErrorKind, HostError};
use crate::files;
use crate::store::{Armed, Disk};
use crate::view::Budgets;

/// The largest configuration file, in bytes.
const CONFIG_MAX_BYTES: u64 = 1024 * 1024;

/// The configuration of a supervisor: the project's own file wins over the profile's block. A faulty block is
/// repaired and reported, because it must not stop the other projects of a profile; a faulty file is refused.
///
/// # Errors
/// Config with the field and its rule, for the project's own file; nothing of it is used.
pub fn load(disk: &Disk, armed: &Armed, profile_json: &str) -> Result<(Config, Vec<String>), HostError> {
    if let Some(own) = project_file(disk, armed)? {
        let warnings = own.warnings.iter().map(ToString::to_string).collect();
        return Ok((own, warnings));
    }
    let text = profile_json.trim();
    if text.is_empty() || text == "null" {
        return Ok((Config::default(), Vec::new()));
    }
    let (config, faults) = config_doc::repair_text(text.as_bytes());
    Ok((config, faults.iter().map(ToString::to_string).collect()))
}

/// The configuration a command judges with beside a living loop, which has read its own before the file was
/// broken: what can be read of it counts, and its faults are among the warnings. A file that cannot be read
/// at all leaves the limits that the loop wrote down.
#[must_use]
pub fn beside_a_loop(disk: &Disk, armed: &Armed, why: &HostError) -> (Config, Budgets) {
    if let Ok(bytes) = disk.read(&armed.config(), CONFIG_MAX_BYTES) {
        return (config_doc::repair_text(&bytes.unwrap_or_default()).0, Budgets::Profile);
    }
    let fault = config_doc::ConfigFault {
        path: String::new(),
        what: why.to_string(),
        weight: config_doc::Weight::Closing,
    };
    let limits = written_limits(disk, armed).unwrap_or_default();
    (Config { limits, warnings: vec![fault], ..Config::default() }, Budgets::Profile)
}

/// The limits that a loop wrote down when it started.
fn written_limits(disk: &Disk, armed: &Armed) -> Option<Limits> {
    let written = disk.read(&armed.budget(), CONFIG_MAX_BYTES).ok()?;
    budget_doc::parse(&written?).ok()
}

/// The configuration a command judges with: the project's file, else the limits the loop wrote down, else the
/// defaults.
///
/// # Errors
/// As [`load`].
pub fn for_command(disk: &Disk, armed: &Armed) -> Result<(Config, Budgets), HostError> {
    if let Some(own) = project_file(disk, armed)? {
        return Ok((own, Budgets::Profile));
    }
    match written_limits(disk, armed) {
        Some(limits) => Ok((Config { limits, ..Config::default() }, Budgets::Profile)),
        None => Ok((Config::default(), Budgets::Default)),
    }
}

fn project_file(disk: &Disk, armed: &Armed) -> Result<Option<Config>, HostError> {
    let path = armed.config();
    if files::stamp(&path).is_none() {
        return Ok(None);
    }
    let bytes = disk.read(&path, CONFIG_MAX_BYTES)?.unwrap_or_default();
    config_doc::parse(&bytes).map(Some).map_err(|faults| refuse(&faults, armed))
}

fn refuse(faults: &[config_doc::ConfigFault], armed: &Armed) -> HostError {
    let text: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let root = armed.root().to_string_lossy().into_owned();
    HostError::new(ErrorKind::Config, text.join("; ")).at(armed.config()).hint([
        "devloop".to_owned(),
        "doctor".to_owned(),
        root,
    ])
}

/// BUDGET.json: the limits in force, under their configuration keys.
#[must_use]
pub fn budget(config: &Config) -> Vec<u8> {
    budget_doc::write(&config.limits)
}
