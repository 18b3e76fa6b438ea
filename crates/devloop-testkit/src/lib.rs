//! What tests share: seeded inputs and the simulated world. It must not be part of anything that ships.
pub mod corpus;
pub mod night;
pub mod random;
pub mod sim;
pub mod sketch;
pub mod world;
