//! `cargo xtask sim`: builds the simulator with optimisation and hands it the arguments. What it does is the
//! simulator's own matter; see `crates/devloop-testkit/src/sim/`.

use crate::tools;

/// Runs simulated nights; fails when one breaks a promise.
pub fn run(args: &[String]) -> Result<(), String> {
    let build = ["run", "--release", "--quiet", "--package", "devloop-testkit", "--bin", "devloop-sim", "--"];
    tools::run(tools::cargo().args(build).args(args))
}
