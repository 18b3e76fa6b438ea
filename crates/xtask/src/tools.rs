//! Where the repository is and how a child command is run; what is run is decided by the callers.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository: two folders above this crate.
pub fn root() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.ancestors().nth(2).unwrap_or(crate_folder).to_path_buf()
}

/// The cargo that started us, so that a pinned toolchain stays pinned.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs with inherited stdio; a failure to start or a bad exit is one sentence that names the command.
pub fn run(command: &mut Command) -> Result<(), String> {
    let shown = shown(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}")),
        Err(error) => Err(format!("`{shown}` could not be started: {error}")),
    }
}

/// Runs and returns standard output as text; standard error is inherited.
pub fn output(command: &mut Command) -> Result<String, String> {
    let shown = shown(command);
    let done = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("`{shown}` could not be started: {error}"))?;
    if !done.status.success() {
        return Err(format!("`{shown}` ended with {}", done.status));
    }
    String::from_utf8(done.stdout).map_err(|_| format!("`{shown}` printed bytes that are not UTF-8"))
}

/// The command as a person would type it.
pub fn shown(command: &Command) -> String {
    let mut words = vec![
        Path::new(command.get_program())
            .file_name()
            .map_or_else(|| command.get_program().to_string_lossy(), |name| name.to_string_lossy())
            .into_owned(),
    ];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// The folder that cargo builds into.
pub fn target_dir() -> Result<PathBuf, String> {
    let text = output(cargo().args(["metadata", "--format-version=1", "--no-deps"]))?;
    let document: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata is not JSON: {error}"))?;
    match document["target_directory"].as_str() {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => Err("cargo metadata names no target_directory".to_owned()),
    }
}
