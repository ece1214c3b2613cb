//! The migration of a file server as a service, between the engine (`migrate`), its door (`migrate-fs`) and a command line.
//!
//! ```text
//!   migrate.toml ──▶ Config ──┬──▶ Check     what would go wrong, before anything is changed
//!                             ├──▶ Seeding   copies ahead, while clients still use the source
//!                             ├──▶ Serving   sources, engine, door, crawler; asked through a control socket
//!                             └──▶ verify    source and destination compared, both ways
//! ```
//!
//! Parts: [`config`] is what a person writes, [`check`] the dry run, [`seed`] copies ahead, [`serving`] is the service, [`control`] the questions that it answers, [`status`] how far it
//! is, [`verify`] the comparison, `shown` paths as text, `takeover` how another process goes on, `metrics` the status in Prometheus' words.

pub mod check;
pub mod config;
pub mod control;
mod error;
mod metrics;
pub mod seed;
pub mod serving;
mod shown;
pub mod status;
mod takeover;
pub mod verify;

pub use config::Config;
pub use error::{Error, Result};
pub use ishigaki_service::Supervisor;
pub use seed::{NotCopied, Seeding};
pub use serving::Serving;
pub use status::Status;
