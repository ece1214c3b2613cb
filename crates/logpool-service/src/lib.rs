//! The log pool as a service: one process that serves every member, is told to by a configuration, and can be asked.
//!
//! ```text
//!  configuration ─┐
//!                 ├─▶ Serving ──▶ a pool, and a mount, socket or ring each   (logpool, logpool-fs)
//!  members.toml ──┘      ▲  ▲
//!                        │  └── DATA/service.sock    one question and one answer, in JSON     ask()
//!                        └───── /metrics             the same numbers for Prometheus, by HTTP
//! ```
//!
//! - [`Config`] says what is served, and [`MemberConfig`] how a member is; both are read from TOML, and faults are told with
//!   their line. [`Owner`] is a user of this host, or of a virtual machine.
//! - `added` is the file in the data directory with the members that a running service has taken in. The configuration is its
//!   author's, and never written here.
//! - [`Serving`] holds the directory's lock, the pool, the mounts and the two doors, and ends them in order.
//! - `mending` is what is done for one member while the others are served.
//! - [`Status`] is what it tells of itself; `metrics` says it in Prometheus' words.
//! - `warning` says what should be seen to before a server gets errors.
//! - [`ask`] puts a [`Request`] to the service of a data directory; `control` has both sides.
//! - `takeover` has both sides of a service that takes the place of another under working servers.
//! - [`Supervisor`] is the service manager, which keeps descriptors for the next process; `restart` is what it keeps, under working
//!   servers.
//! - `progress` has others hear that a pool is being opened, however long that takes.
//!
//! What lets visitors in, and speaks to Prometheus and to the service manager, is `ishigaki-service`'s.
//!
//! Arguments, text for people and exit codes are `cli`'s.

mod added;
mod config;
mod control;
mod error;
mod mending;
mod metrics;
mod owner;
mod progress;
mod restart;
mod serving;
mod status;
mod takeover;
mod warning;

pub use config::{Config, Limits, MemberConfig};
pub use control::{Added, Removed, Reply, Request, ask};
pub use error::{Error, Result};
pub use ishigaki_logpool_fs::Place;
pub use ishigaki_service::{Kept, Supervisor};
pub use mending::{Changed, DamagedStatus, QuarantinedStatus, RebuiltFiles, ScrubRate, ScrubStatus, Verified};
pub use owner::Owner;
pub use serving::{LimitsSet, Serving};
pub use status::{LogStatus, MemberStatus, QuotaStatus, Spread, Status};
