//! The program as a person meets it: the real binary, real git, a home of its own.

#![allow(clippy::unwrap_used, reason = "a test that fails by unwrapping says where")]

#[path = "cli/answers.rs"]
mod answers;
#[path = "cli/bad_input.rs"]
mod bad_input;
#[path = "cli/costs.rs"]
mod costs;
#[path = "cli/crash.rs"]
mod crash;
#[path = "cli/crash_night.rs"]
mod crash_night;
#[path = "cli/demo.rs"]
mod demo;
#[path = "cli/denied.rs"]
mod denied;
#[path = "cli/disk.rs"]
mod disk;
#[path = "cli/help.rs"]
mod help;
#[path = "cli/hostile.rs"]
mod hostile;
#[path = "cli/kill.rs"]
mod kill;
#[path = "cli/ownership.rs"]
mod ownership;
#[path = "cli/repair.rs"]
mod repair;
#[path = "cli/running.rs"]
mod running;
#[path = "cli/states.rs"]
mod states;
#[path = "cli/support.rs"]
mod support;
#[path = "cli/two_projects.rs"]
mod two_projects;
#[path = "cli/version1.rs"]
mod version1;
