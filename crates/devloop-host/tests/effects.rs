//! Effects on real git: every kind, happy and not, with embedded workers. One report each, whatever happens.

#[path = "effects/agents.rs"]
mod agents;
#[path = "effects/checks.rs"]
mod checks;
#[path = "effects/commands.rs"]
mod commands;
#[path = "effects/commits.rs"]
mod commits;
#[path = "effects/demo.rs"]
mod demo;
#[path = "effects/dispatches.rs"]
mod dispatches;
#[path = "effects/ground.rs"]
mod ground;
#[path = "effects/merges.rs"]
mod merges;
#[path = "effects/recovery.rs"]
mod recovery;
#[path = "effects/reviews.rs"]
mod reviews;
#[path = "effects/sandbox.rs"]
mod sandbox;
#[path = "effects/usage.rs"]
mod usage;
