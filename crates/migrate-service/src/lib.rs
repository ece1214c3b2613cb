//! The migration of a file server as a service, between the engine (`migrate`), its door (`migrate-fs`) and a command line.
//!
//! ```text
//!   migrate.toml ──▶ Config ──┬──▶ Check     what would go wrong, before anything is changed
//!                             └──▶ verify    source and destination compared, both ways
//! ```
//!
//! Parts: [`config`] is what a person writes, [`check`] the dry run, [`verify`] the comparison.

pub mod check;
pub mod config;
mod error;
pub mod verify;

pub use config::Config;
pub use error::{Error, Result};
