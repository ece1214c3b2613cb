//! Disks of other hosts.
//!
//! A [`StorageNode`] serves the files of one folder; a [`Client`] makes [`Device`](ishigaki_device::Device)s and
//! [`Directory`](ishigaki_device::Directory)s of them, so that anything that lives on a disk can live on a remote one
//! (paper 3).
//!
//! ```text
//!   engine ─▶ RemoteDevice ─▶ cache ─▶ connection ═══ fabric ═══▶ session ─▶ dynamic │ static │ ring ─▶ FileDevice
//!                ▲                        │                                                                │
//!                └── registered memory ◀──┘ ◀═══════ one-sided write: the answer ═══════════════════════════┘
//! ```
//!
//! - *Reads*: the client names registered memory of its own, the node reads and writes the bytes there. Many are in flight:
//!   of many threads on one connection, or of one thread by a [`ReadQueue`].
//! - *Writes*: the client puts the bytes into staging memory of the node's and asks for the write. A durable one is answered
//!   when it is durable.
//! - *Failures*: a lost connection fails what was in flight, clearly; the next request connects anew. Nothing is promised
//!   that was not kept: a sync fails if the node was restarted after writes that it should cover, and a lock that was lost
//!   with its connection is not taken silently again.
//! - *Work*: a node that was given a [`Worker`] does clients' orders beside the files; their results come back as the client
//!   asks for them.
//! - *Copies*: with a [`CacheSettings`] the client keeps pages, which every write by any client invalidates before it is
//!   done.

mod anywhere;
mod client;
mod credentials;
mod error;
#[cfg(fuzzing)]
pub mod fuzz;
mod location;
mod node;
mod protocol;
mod worker;

pub use anywhere::Anywhere;
pub use client::{
    CacheSettings, CacheStatistics, Client, ClientSettings, ReadQueue, RemoteDevice, RemoteDirectory, RemoteWork,
};
pub use credentials::{Credentials, OWN_TOKEN};
pub use error::{Error, Result};
pub use location::{Location, Replica};
pub use node::{Access, Export, Mode, Settings as NodeSettings, StorageNode};
pub use protocol::{MAX_ORDER, MAX_READ, Status};
pub use worker::{Folder, Results, Stopped, WorkError, Worker};
