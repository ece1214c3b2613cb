//! What a guest knows of its volume and the host does not (paper 5, section 3.5.3: P5b.2): where the blocks of its files lie on the disk, and how
//! much its application gets done. Nothing in the guest is changed for it.
//!
//! ```text
//!  directories ──▶ gather: each file's extents (FIEMAP), the disk's own bytes ─┐
//!  a command that prints a counter ──▶ Rate: work a second ────────────────────┴─▶ Message ──▶ the host, one line of JSON
//! ```
//!
//! All of it is a hint: what a guest tells that is not so costs its own hits.
//!
//! Parts: [`gather`] walks, `fiemap` asks the kernel, [`Server`] knows tables' names and counters of database servers, [`Rate`] counts, [`Message`] is what is told and how it is sent, `port` the way that needs no network.

mod error;
mod fiemap;
mod gathering;
mod message;
mod port;
mod rate;
mod server;

pub use error::{Error, Result};
pub use gathering::{Gathered, gather};
pub use message::{LONGEST, Message, Reply, Told, send};
pub use rate::Rate;
pub use server::Server;
