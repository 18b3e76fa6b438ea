//! The tree as the rules see it: text files by path, packages by name. It loads; it judges nothing.

use crate::tools;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// One thing that breaks a rule: where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A path of the tree, with `:line` where a line is meant; or a package.
    pub at: String,
    /// One sentence.
    pub text: String,
}

impl Finding {
    /// A finding about a whole file or package.
    pub fn new(at: &str, text: impl Into<String>) -> Self {
        Self { at: at.to_owned(), text: text.into() }
    }

    /// A finding on one line (counted from 1).
    pub fn on_line(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { at: format!("{path}:{line}"), text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.at, self.text)
    }
}

/// A dependency as a manifest declares it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dependency {
    pub name: String,
    /// `normal`, `dev` or `build`.
    pub kind: String,
    pub optional: bool,
    pub features: Vec<String>,
}

/// A package of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    /// The root files of its targets, as paths of the tree.
    pub roots: Vec<String>,
    pub dependencies: Vec<Dependency>,
}

/// Text files and packages. Binary files are left out.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
    pub packages: Vec<Package>,
}

impl Tree {
    /// Everything that git tracks or would track, and what cargo knows of the workspace.
    pub fn load(root: &Path) -> Result<Self, String> {
        let mut git = Command::new("git");
        git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let mut tree = Self::default();
        for path in tools::output(&mut git)?.split('\0').filter(|path| !path.is_empty()) {
            // A path that is deleted but still in the index has no text; a file that is not UTF-8 is no text.
            if let Ok(text) = std::fs::read_to_string(root.join(path)) {
                tree.files.insert(path.to_owned(), text);
            }
        }
        let metadata = tools::output(tools::cargo().args(["metadata", "--format-version=1", "--no-deps"]))?;
        tree.packages = packages(&metadata, root)?;
        Ok(tree)
    }

    /// Every text file: path and text, by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files whose name ends in one of these extensions.
    pub fn with_extension<'a>(&'a self, wanted: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files().filter(|(path, _)| path.rsplit_once('.').is_some_and(|(_, last)| wanted.contains(&last)))
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a path names a file, or a folder that holds one.
    pub fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(first, _)| first.starts_with(&folder))
    }

    /// A small tree for the rules' own tests.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        Self { files, packages: Vec::new() }
    }
}

/// Reads the packages out of `cargo metadata`.
fn packages(metadata: &str, root: &Path) -> Result<Vec<Package>, String> {
    let document: serde_json::Value =
        serde_json::from_str(metadata).map_err(|error| format!("cargo metadata is not JSON: {error}"))?;
    let texts = |value: &serde_json::Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let dependency = |value: &serde_json::Value| Dependency {
        name: value["name"].as_str().unwrap_or_default().to_owned(),
        kind: value["kind"].as_str().unwrap_or("normal").to_owned(),
        optional: value["optional"].as_bool().unwrap_or_default(),
        features: texts(&value["features"]),
    };
    let target = |value: &serde_json::Value| {
        let path = Path::new(value["src_path"].as_str()?).strip_prefix(root).ok()?;
        Some(path.to_string_lossy().replace('\\', "/"))
    };
    let package = |value: &serde_json::Value| Package {
        name: value["name"].as_str().unwrap_or_default().to_owned(),
        roots: value["targets"].as_array().into_iter().flatten().filter_map(target).collect(),
        dependencies: value["dependencies"].as_array().into_iter().flatten().map(dependency).collect(),
    };
    let packages: Vec<Package> = document["packages"].as_array().into_iter().flatten().map(package).collect();
    match packages.is_empty() {
        true => Err("cargo metadata names no package".to_owned()),
        false => Ok(packages),
    }
}

#[cfg(test)]
mod tests {
    use super::{Tree, packages};
    use std::path::Path;

    #[test]
    fn files_and_folders_exist_and_nothing_else() {
        let tree = Tree::of(&[("docs/adr/0001.md", ""), ("docs/adr.md", "")]);
        for path in ["docs", "docs/", "docs/adr", "docs/adr/0001.md", "docs/adr.md"] {
            assert!(tree.exists(path), "{path}");
        }
        for path in ["doc", "docs/ad", "docs/adr/0002.md", "docs/adr/0001"] {
            assert!(!tree.exists(path), "{path}");
        }
    }

    #[test]
    fn packages_are_read_from_metadata() {
        let text = r#"{"packages":[{"name":"a","targets":[{"src_path":"/r/crates/a/src/lib.rs"}],
            "dependencies":[{"name":"serde","kind":null,"optional":true,"features":["derive"]},
                            {"name":"b","kind":"dev","optional":false,"features":[]}]}]}"#;
        let packages = packages(text, Path::new("/r")).unwrap();
        assert_eq!(packages[0].roots, ["crates/a/src/lib.rs"]);
        let [serde, b] = &packages[0].dependencies[..] else { panic!("two dependencies") };
        assert_eq!((serde.kind.as_str(), serde.optional, serde.features.len()), ("normal", true, 1));
        assert_eq!((b.kind.as_str(), b.optional), ("dev", false));
        assert!(super::packages("{}", Path::new("/r")).is_err());
    }
}
