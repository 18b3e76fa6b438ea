//! Owns the folder crates/devloop-component/built: its file names and how they are replaced. It must not
//! build.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Failure, inputs};

/// Everything one build yields.
#[derive(Debug)]
pub struct Parts {
    /// The component.
    pub core: Vec<u8>,
    /// Its image for one platform.
    pub core_image: Vec<u8>,
    /// The guest that misbehaves, for tests.
    pub hostile: Vec<u8>,
    /// Its image.
    pub hostile_image: Vec<u8>,
    /// A WASI program, for tests of the refusal.
    pub callable: Vec<u8>,
    /// Its image.
    pub callable_image: Vec<u8>,
    /// Digest of the WIT package.
    pub wit: String,
    /// Digest of the inputs.
    pub inputs: String,
}

/// The folder of built files, for one platform.
#[derive(Debug)]
pub struct Built {
    folder: PathBuf,
    target: String,
}

impl Built {
    /// The folder below the workspace `root`, for images of `target`.
    pub fn new(root: &Path, target: &str) -> Self {
        Self { folder: root.join("crates/devloop-component/built"), target: target.to_string() }
    }

    /// Whether a complete build of exactly these inputs is there.
    pub fn is_current(&self, inputs: &str) -> bool {
        let stamp = fs::read_to_string(self.folder.join(self.stamp()));
        stamp.is_ok_and(|stamp| stamp == inputs)
            && self.names().iter().all(|name| self.folder.join(name).is_file())
    }

    /// Replaces the files. The stamp goes first and comes last: a build cut short is never taken for a
    /// complete one.
    pub fn write(&self, parts: &Parts) -> Result<(), Failure> {
        fs::create_dir_all(&self.folder)
            .map_err(|e| format!("cannot make {}: {e}", self.folder.display()))?;
        let stamp = self.folder.join(self.stamp());
        if stamp.exists() {
            fs::remove_file(&stamp).map_err(|e| format!("cannot remove {}: {e}", stamp.display()))?;
        }
        let digest = inputs::sha256(&parts.core);
        let contents: [&[u8]; 8] = [
            &parts.core,
            &parts.core_image,
            &parts.hostile,
            &parts.hostile_image,
            &parts.callable,
            &parts.callable_image,
            digest.as_bytes(),
            parts.wit.as_bytes(),
        ];
        for (name, bytes) in self.names().iter().zip(contents) {
            self.replace(name, bytes)?;
        }
        self.replace(&self.stamp(), parts.inputs.as_bytes())?;
        let (component, image) = (parts.core.len() / 1024, parts.core_image.len() / 1024);
        eprintln!("guest: {component} KiB component, {image} KiB image, digest {digest}");
        Ok(())
    }

    fn stamp(&self) -> String {
        format!("inputs.{}", self.target)
    }

    fn names(&self) -> [String; 8] {
        let target = &self.target;
        [
            "core.wasm".into(),
            format!("core.{target}.cwasm"),
            "hostile.wasm".into(),
            format!("hostile.{target}.cwasm"),
            "wasip2.wasm".into(),
            format!("wasip2.{target}.cwasm"),
            "digest".into(),
            "wit-digest".into(),
        ]
    }

    /// By rename, so a compiler that reads meanwhile sees the old bytes or the new; equal bytes keep their
    /// date, so nothing that depends on them is built again.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.folder.join(name);
        if fs::read(&path).is_ok_and(|old| old == bytes) {
            return Ok(());
        }
        let fresh = self.folder.join(format!("{name}.{}.new", std::process::id()));
        fs::write(&fresh, bytes).map_err(|e| format!("cannot write {}: {e}", fresh.display()))?;
        Ok(fs::rename(&fresh, &path).map_err(|e| format!("cannot replace {}: {e}", path.display()))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        let byte = |b: u8| vec![b];
        Parts {
            core: byte(1),
            core_image: byte(2),
            hostile: byte(3),
            hostile_image: byte(4),
            callable: byte(5),
            callable_image: byte(6),
            wit: "w".into(),
            inputs: "i".into(),
        }
    }

    #[test]
    fn current_means_complete_and_of_these_inputs() {
        let root = std::env::temp_dir().join(format!("devloop-xtask-{}", std::process::id()));
        let built = Built::new(&root, "t");
        assert!(!built.is_current("i"));
        built.write(&parts()).unwrap();
        assert!(built.is_current("i"));
        assert!(!built.is_current("j"));
        assert!(!Built::new(&root, "other").is_current("i"));
        assert_eq!(fs::read_to_string(built.folder.join("digest")).unwrap(), inputs::sha256(&[1]));
        fs::remove_file(built.folder.join("hostile.wasm")).unwrap();
        assert!(!built.is_current("i"));
        fs::remove_dir_all(&root).unwrap();
    }
}
