//! Harnesses for the engines' tests: seeds that replay, random transaction programs, and a judge of their histories.
//!
//! - [`seeded`] and [`seeded_runs`] run a random test under a seed and say how to replay it when it fails.
//! - [`program`] draws small transaction programs that know no engine; an adaptor of thirty lines ([`program::Target`])
//!   lets any engine execute them.
//! - [`history`] records what concurrent transactions did and saw, from outside the engine, and searches the record for
//!   what no serial order explains.
//! - [`guest`] starts virtual machines and hears what they say.
//!
//! Everything here is for tests only: it panics freely and no crate may depend on it outside its own tests.

pub mod guest;
pub mod history;
pub mod program;
mod seed;

pub use seed::{chosen_seed, seeded, seeded_runs};
