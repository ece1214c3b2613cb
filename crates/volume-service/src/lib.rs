//! Tiered volumes as a service: one pool, and for each of its volumes a door, by which a virtual machine or the host's own programs use it.
//!
//! ```text
//!  volumes.toml ──▶ Config ──▶ Serving ──▶ a pool (tier), and for each volume
//!                                ▲  ▲        a socket for a virtual machine (virtio), or a block device of the host (emulate)
//!                                │  └── MAP/service.sock   one question and one answer, in JSON     ask()
//!                                └───── /metrics           the same figures for Prometheus
//! ```
//!
//! - [`Config`] says where the pool is, and which volumes have which door.
//! - [`make`] makes a pool; [`Serving`] serves it; [`ask`] puts a [`Request`] to the service, or answers it itself where none runs.
//! - [`Status`] is what is told of it; `metrics` says it in Prometheus' words.
//! - `core` does what is asked, with or without doors; `door` is a volume's; `prefetching` has what is hot brought before it is asked for, by what `agents` have told;
//!   `bringing` waits for no device that does not answer, nor does `answering` for a file system; `image` is a file that is to become a volume.
//!
//! Arguments, text for people and exit codes are `cli`'s.

mod agents;
mod answering;
mod bringing;
mod config;
mod control;
mod core;
mod door;
mod error;
mod files;
mod image;
mod metrics;
mod prefetching;
mod serving;
mod status;

pub use config::{Config, Kind, Prefetch};
pub use control::{Made, Reply, Request, ask};
pub use core::{Devices, make};
pub use error::{Error, Result};
pub use ishigaki_agent as agent;
pub use ishigaki_service::Supervisor;
pub use ishigaki_tier::{BLOCK, Mode};
pub use serving::Serving;
pub use status::{AwayStatus, DoorStatus, FileStatus, PrefetchStatus, Status, VolumeStatus};
