//! Owns the tool calls that turn source into a component and a component into an image. It must not judge the
//! outcome.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wasmtime::Engine;
use wit_component::ComponentEncoder;

#[path = "../../../devloop-host/src/machine/settings.rs"]
mod settings;

use super::Failure;
use settings::{Metering, engine_config};

const GUEST_TARGET: &str = "wasm32-unknown-unknown";

/// Which guest is built from the one crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The product.
    Core,
    /// Misbehaves on request; only tests load it.
    Hostile,
}

/// The compiler in use.
#[derive(Debug)]
pub struct Toolchain {
    /// Everything `rustc -vV` says: part of the input digest.
    pub version: String,
    /// Triple that the toolchain itself runs on.
    pub host: String,
}

impl Toolchain {
    /// Asks `rustc`.
    pub fn current() -> Result<Self, Failure> {
        let version = stdout(Command::new("rustc").arg("-vV"))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.ok_or("rustc -vV names no host")?.to_string();
        Ok(Self { version, host })
    }
}

/// Builds the guest and wraps the core module into a component.
pub fn component(root: &Path, variant: Variant) -> Result<Vec<u8>, Failure> {
    // A folder of its own: the caller is usually itself started by cargo, which holds the lock of the main
    // one.
    let target_dir = root.join("target/guest");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["build", "--quiet", "-p", "devloop-guest", "--profile", "guest"]);
    cargo.args(["--target", GUEST_TARGET, "--config", &remap(root)]);
    cargo.arg("--target-dir").arg(&target_dir);
    // Flags from the environment would replace the ones of the workspace, the memory ceiling among them.
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"] {
        cargo.env_remove(variable);
    }
    if variant == Variant::Hostile {
        cargo.args(["--features", "hostile"]);
    }
    run(&mut cargo)?;
    let module = target_dir.join(GUEST_TARGET).join("guest/devloop_guest.wasm");
    let module = fs::read(&module).map_err(|e| format!("cargo left no {}: {e}", module.display()))?;
    let mut encoder = ComponentEncoder::default();
    encoder.module(&module).map_err(full)?.validate(true).encode().map_err(full)
}

/// Compiles ahead of time for `target`. The target is explicit, so the image uses the baseline features of
/// that platform and not those of the machine that happens to build it.
pub fn image(component: &[u8], target: &str) -> Result<Vec<u8>, Failure> {
    let mut config = engine_config(Metering::Epoch);
    config.cranelift_nan_canonicalization(true);
    config.target(target)?;
    Ok(Engine::new(&config)?.precompile_component(component)?)
}

/// A small program for WASI: what the gate and the empty linker must refuse.
pub fn wasip2_program(root: &Path) -> Result<Vec<u8>, Failure> {
    let folder = root.join("target/guest/probe");
    fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let program = folder.join("wasip2.wasm");
    let mut rustc = Command::new("rustc");
    rustc.current_dir(root).args([
        "--edition=2024",
        "--target=wasm32-wasip2",
        "-Copt-level=s",
        "-Cstrip=symbols",
    ]);
    run(rustc.arg("crates/devloop-guest/probe/wasip2.rs").arg("-o").arg(&program))?;
    Ok(fs::read(&program).map_err(|e| format!("rustc left no {}: {e}", program.display()))?)
}

/// Panic locations carry file names. Without this the digest would differ between two checkouts of the same
/// source.
fn remap(root: &Path) -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let user = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"))?;
        Some(Path::new(&user).join(".cargo"))
    });
    let mut flags = vec![format!("--remap-path-prefix={}=devloop", root.display())];
    flags.extend(home.map(|home| format!("--remap-path-prefix={}=cargo", home.display())));
    let flags: Vec<String> = flags.iter().map(|flag| format!("{flag:?}")).collect();
    format!("target.{GUEST_TARGET}.rustflags=[{}]", flags.join(","))
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|e| format!("cannot start {command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{status} from {command:?}").into()) }
}

fn stdout(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().map_err(|e| format!("cannot start {command:?}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{} from {command:?}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Keeps the whole chain of causes: the encoder puts the useful part last.
fn full<E: std::fmt::Debug>(error: E) -> Failure {
    format!("{error:?}").into()
}
