//! `cargo xtask dist`: builds what is published under npm/ and packs it. It owns the folders' contents and
//! the two forms of the tarball; which tests use them is not its business.

use crate::tools;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The main package's folder below npm/; a platform package adds `-<platform>`.
const MAIN: &str = "dsh-devloop";

/// The addon is built by itself: together with the CLI it would get the compiler that only the CLI carries.
const ADDON: [&str; 5] = ["build", "--package", "devloop-node", "--profile", "dist"];

/// What a run makes.
struct Plan {
    /// `dist` for what is published; `dev` for a CLI that the tests have built anyway.
    cli_profile: &'static str,
    root: PathBuf,
    npm: PathBuf,
    target: PathBuf,
    /// `linux-x64-gnu` and the like, as in the names of the platform packages.
    platform: &'static str,
}

/// Builds addon, CLI and TypeScript, fills npm/, packs the tarballs into `target/dist-npm`. With `--quick`
/// the CLI is the development build and only the test form is packed.
pub fn run(args: &[String]) -> Result<(), String> {
    let quick = match args {
        [] => false,
        [word] if word == "--quick" => true,
        other => return Err(format!("unknown arguments `{}`; known: --quick", other.join(" "))),
    };
    let root = tools::root();
    let plan = Plan {
        cli_profile: if quick { "dev" } else { "dist" },
        npm: root.join("npm"),
        target: tools::target_dir()?,
        platform: platform()?,
        root,
    };
    versions_agree(&plan)?;
    compile_typescript(&plan)?;
    let folder = plan.target.join("dist-npm");
    fresh_folder(&folder)?;
    crate::guest::run(&[])?;
    if quick {
        build_limits(&plan, &folder)?;
    }
    build_rust(&plan)?;
    fill_main(&plan)?;
    fill_platform(&plan)?;
    pack_test_form(&plan, &folder)?;
    if quick { Ok(()) } else { pack_published_form(&plan, &folder) }
}

/// The name of this machine's platform package.
fn platform() -> Result<&'static str, String> {
    match (std::env::consts::OS, std::env::consts::ARCH, cfg!(target_env = "musl")) {
        ("linux", "x86_64", false) => Ok("linux-x64-gnu"),
        ("linux", "aarch64", false) => Ok("linux-arm64-gnu"),
        ("macos", "aarch64", _) => Ok("darwin-arm64"),
        ("macos", "x86_64", _) => Ok("darwin-x64"),
        ("windows", "x86_64", _) => Ok("win32-x64-msvc"),
        (os, cpu, _) => Err(format!("there is no platform package for {os} on {cpu}; add one under npm/")),
    }
}

impl Plan {
    fn main_folder(&self) -> PathBuf {
        self.npm.join(MAIN)
    }

    fn platform_folder(&self) -> PathBuf {
        self.npm.join(format!("{MAIN}-{}", self.platform))
    }

    fn addon_name(&self) -> String {
        format!("devloop.{}.node", self.platform)
    }

    fn cli_name(&self) -> String {
        format!("bin/devloop{}", std::env::consts::EXE_SUFFIX)
    }
}

/// Folders of the platform packages, sorted.
fn platform_packages(npm: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(npm).map_err(|error| said(npm, &error))? {
        let path = entry.map_err(|error| said(npm, &error))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(&format!("{MAIN}-")) && path.join("package.json").is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Every package carries the version of the workspace; a forgotten one would install another engine.
fn versions_agree(plan: &Plan) -> Result<(), String> {
    let mut folders = platform_packages(&plan.npm)?;
    folders.push(plan.main_folder());
    for folder in folders {
        let manifest = read_manifest(&folder)?;
        if manifest["version"] != env!("CARGO_PKG_VERSION") {
            return Err(format!(
                "{}: version is {}, the workspace's is {}",
                folder.join("package.json").display(),
                manifest["version"],
                env!("CARGO_PKG_VERSION")
            ));
        }
    }
    Ok(())
}

/// Compiles `src/` into `lib/`; the compiler is one of the test tools, installed here when it is missing.
fn compile_typescript(plan: &Plan) -> Result<(), String> {
    install_tools()?;
    let lib = plan.main_folder().join("lib");
    fresh_folder(&lib)?;
    let tools_folder = tools_folder();
    tools::run(
        npm_program("node")
            .arg(tools_folder.join("typescript/bin/tsc"))
            .arg("--project")
            .arg(plan.main_folder())
            .arg("--typeRoots")
            .arg(tools_folder.join("@types")),
    )
}

fn tools_folder() -> PathBuf {
    tools::root().join("tests/plugin/node_modules")
}

/// Installs what building and testing the plugin needs (tests/plugin/package.json), once.
pub fn install_tools() -> Result<(), String> {
    // npm writes this file last.
    if tools_folder().join(".package-lock.json").is_file() {
        return Ok(());
    }
    tools::run(
        npm_program("npm")
            .args(["ci", "--no-audit", "--no-fund"])
            .current_dir(tools::root().join("tests/plugin")),
    )
}

/// `npm` and `node` are scripts with an extension on Windows.
fn npm_program(name: &str) -> Command {
    let suffix = if cfg!(windows) && name == "npm" { ".cmd" } else { "" };
    Command::new(format!("{name}{suffix}"))
}

fn build_rust(plan: &Plan) -> Result<(), String> {
    tools::run(tools::cargo().args(ADDON))?;
    tools::run(tools::cargo().args(["build", "--package", "devloop-cli", "--profile", plan.cli_profile]))
}

/// The addon of the limit tests, which is never packed: it runs a guest that misbehaves. Built before the one
/// that ships, which then takes its place in cargo's folder.
fn build_limits(plan: &Plan, folder: &Path) -> Result<(), String> {
    tools::run(tools::cargo().args(ADDON).args(["--features", "limits"]))?;
    copy(&built_addon(&plan.target), &folder.join("limits").join(plan.addon_name()))
}

/// Where cargo puts the addon.
fn built_addon(target: &Path) -> PathBuf {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    target.join("dist").join(format!("{prefix}devloop_node{suffix}"))
}

fn fill_main(plan: &Plan) -> Result<(), String> {
    let folder = plan.main_folder();
    copy_folder(&plan.root.join("templates"), &folder.join("templates"))?;
    copy(&plan.root.join("docs/Install.md"), &folder.join("docs/Install.md"))?;
    copy(&plan.root.join("LICENSE"), &folder.join("LICENSE"))?;
    fill_binaries(plan, &folder)
}

fn fill_platform(plan: &Plan) -> Result<(), String> {
    let folder = plan.platform_folder();
    copy(&plan.root.join("LICENSE"), &folder.join("LICENSE"))?;
    fill_binaries(plan, &folder)
}

/// Puts this platform's addon and CLI binary into a package folder.
fn fill_binaries(plan: &Plan, folder: &Path) -> Result<(), String> {
    copy(&built_addon(&plan.target), &folder.join(plan.addon_name()))?;
    let built = if plan.cli_profile == "dev" { "debug" } else { plan.cli_profile };
    let cli = plan.target.join(built).join(format!("devloop{}", std::env::consts::EXE_SUFFIX));
    copy(&cli, &folder.join(plan.cli_name()))
}

/// One tarball that needs nothing else: the addon and the CLI of this platform are inside.
fn pack_test_form(plan: &Plan, folder: &Path) -> Result<(), String> {
    let extra = vec![plan.addon_name(), plan.cli_name()];
    pack_main(plan, &folder.join("test"), &extra, Map::new())
}

/// The main package with its platform packages as optional dependencies, and this machine's platform package.
fn pack_published_form(plan: &Plan, folder: &Path) -> Result<(), String> {
    let mut optional = Map::new();
    for package in platform_packages(&plan.npm)? {
        let manifest = read_manifest(&package)?;
        let name = manifest["name"].as_str().ok_or_else(|| format!("{}: has no name", package.display()))?;
        optional.insert(name.to_owned(), manifest["version"].clone());
    }
    pack_main(plan, &folder.join("published"), &[], optional)?;
    pack(&plan.platform_folder(), &folder.join("published"))
}

/// Packs a staged copy of the main package whose manifest has `extra` files and `optional` dependencies more.
fn pack_main(plan: &Plan, into: &Path, extra: &[String], optional: Map<String, Value>) -> Result<(), String> {
    let source = plan.main_folder();
    let mut manifest = read_manifest(&source)?;
    let staged = into.join("package");
    fresh_folder(&staged)?;
    let files =
        manifest["files"].as_array_mut().ok_or("npm/dsh-devloop/package.json: has no list of files")?;
    files.extend(extra.iter().map(|name| json!(name)));
    for name in files.iter().filter_map(Value::as_str) {
        let from = source.join(name);
        if from.is_dir() { copy_folder(&from, &staged.join(name)) } else { copy(&from, &staged.join(name)) }?;
    }
    if !optional.is_empty() {
        manifest["optionalDependencies"] = Value::Object(optional);
    }
    let text = serde_json::to_string_pretty(&manifest).map_err(|error| format!("package.json: {error}"))?;
    let path = staged.join("package.json");
    std::fs::write(&path, text + "\n").map_err(|error| said(&path, &error))?;
    pack(&staged, into)
}

fn pack(folder: &Path, into: &Path) -> Result<(), String> {
    tools::run(
        npm_program("npm").args(["pack", "--silent", "--pack-destination"]).arg(into).current_dir(folder),
    )
}

fn read_manifest(folder: &Path) -> Result<Value, String> {
    let path = folder.join("package.json");
    let text = std::fs::read_to_string(&path).map_err(|error| said(&path, &error))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn said(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn fresh_folder(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|error| said(folder, &error))?;
    }
    std::fs::create_dir_all(folder).map_err(|error| said(folder, &error))
}

/// Copies one file with its permissions, by a new file: a running binary of an earlier build keeps its own.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).map_err(|error| said(folder, &error))?;
    }
    if to.exists() {
        std::fs::remove_file(to).map_err(|error| said(to, &error))?;
    }
    std::fs::copy(from, to).map(|_| ()).map_err(|error| said(from, &error))
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    fresh_folder(to)?;
    for entry in std::fs::read_dir(from).map_err(|error| said(from, &error))? {
        let path = entry.map_err(|error| said(from, &error))?.path();
        let Some(name) = path.file_name() else { continue };
        if path.is_dir() { copy_folder(&path, &to.join(name)) } else { copy(&path, &to.join(name)) }?;
    }
    Ok(())
}
