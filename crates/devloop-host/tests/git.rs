//! Real repositories: each hazard of worktrees, paths, commits and merges, replayed with git itself.

#![allow(clippy::unwrap_used, reason = "a test that fails by unwrapping says where")]

#[path = "git/arming.rs"]
mod arming;
#[path = "git/commits.rs"]
mod commits;
#[path = "git/fixture.rs"]
mod fixture;
#[path = "git/hardened.rs"]
mod hardened;
#[path = "git/merges.rs"]
mod merges;
#[path = "git/scope.rs"]
mod scope;
#[path = "git/worktrees.rs"]
mod worktrees;
