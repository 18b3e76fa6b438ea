//! Fuzzing targets: each takes any bytes and panics when a property of the project does not hold. It owns the
//! properties; how bytes are found is the engine's, and the seeds are replayed by an ordinary test.
#![deny(missing_docs)]

mod boundary;
mod config;
mod envelope;
mod journal;
mod machine;
mod migration;
pub mod mutate;
mod nights;
mod refusal;
pub mod seeds;
mod state;

/// One target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is also the name of its folder of seeds.
    pub name: &'static str,
    /// What is tried.
    pub about: &'static str,
    /// Tries one input; panics when a property does not hold.
    pub run: fn(&[u8]),
    /// Whether inputs are JSON, one document a line, and are best changed as such.
    pub is_json: bool,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "envelope",
        about: "what a model printed, read as a result",
        run: envelope::run,
        is_json: false,
    },
    Target {
        name: "journal",
        about: "lines of journal and trace, one by one and as a segment",
        run: journal::run,
        is_json: true,
    },
    Target { name: "state", about: "STATE.json, either form", run: state::run, is_json: true },
    Target {
        name: "migration",
        about: "STATE.json and EVENTS.jsonl of version 1",
        run: migration::run,
        is_json: true,
    },
    Target {
        name: "config",
        about: "configuration, limits, policy and contract",
        run: config::run,
        is_json: true,
    },
    Target {
        name: "machine",
        about: "documents, inputs and lines given to the native core and to the component",
        run: machine::run,
        is_json: true,
    },
    Target {
        name: "boundary",
        about: "any values of the WIT types handed to the component and to the native core",
        run: boundary::run,
        is_json: false,
    },
    Target {
        name: "nights",
        about: "sequences of observations and commands on a valid state",
        run: nights::run,
        is_json: false,
    },
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
