//! Owns which files a guest depends on and their digests. It must not build anything.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Failure;

/// Folders and files whose bytes can change the component. A missing one is an error: a renamed folder must
/// not silently freeze the guest.
const INPUTS: [&str; 15] = [
    "Cargo.lock",
    "Cargo.toml",
    "rust-toolchain.toml",
    ".cargo/config.toml",
    "wit",
    "crates/devloop-core/Cargo.toml",
    "crates/devloop-core/src",
    "crates/devloop-wire/Cargo.toml",
    "crates/devloop-wire/src",
    "crates/devloop-bridge/Cargo.toml",
    "crates/devloop-bridge/src",
    "crates/devloop-guest",
    "crates/xtask/src/guest.rs",
    "crates/xtask/src/guest",
    "crates/devloop-host/src/machine/settings.rs",
];

/// Digest of every input and of the toolchain that will compile them.
pub fn digest(root: &Path, toolchain: &str) -> Result<String, Failure> {
    let mut hash = Sha256::new();
    hash.update(toolchain.as_bytes());
    for input in INPUTS {
        add(&mut hash, root, &root.join(input))?;
    }
    Ok(hex(hash))
}

/// Digest of the WIT package: what an embedder compiled against. It is the digest that `tidy` looks for in
/// the documents: the texts of the files one after the other, in the order of their names.
pub fn wit_digest(root: &Path) -> Result<String, Failure> {
    let mut hash = Sha256::new();
    for file in files(&root.join("wit"))? {
        hash.update(fs::read(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?);
    }
    Ok(hex(hash))
}

/// SHA-256 of `bytes` in lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::new().chain_update(bytes))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds names and lengths beside the bytes, so that moving text from one file to another is a change too.
fn add(hash: &mut Sha256, root: &Path, path: &Path) -> Result<(), Failure> {
    for file in files(path)? {
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        let bytes = fs::read(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        hash.update(format!("{name}\0{}\0", bytes.len()).as_bytes());
        hash.update(&bytes);
    }
    Ok(())
}

/// Every file at or below `path`, in one order on every machine.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let about = |e| format!("cannot read {}: {e}", path.display());
    if !fs::metadata(path).map_err(about)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = Vec::new();
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(about)? {
        entries.push(entry.map_err(about)?.path());
    }
    entries.sort();
    for entry in entries {
        found.extend(files(&entry)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digest() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn the_toolchain_and_every_listed_input_count() {
        let root = super::super::workspace_root().unwrap();
        let one = digest(&root, "rustc 1").unwrap();
        assert_ne!(one, digest(&root, "rustc 2").unwrap());
        assert_ne!(one, wit_digest(&root).unwrap());
        assert!(digest(&root.join("crates"), "rustc 1").is_err());
    }
}
