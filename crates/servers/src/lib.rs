//! Debian's database servers, unmodified, as processes: for tests and experiments that need somebody else's server.
//!
//! ```text
//!  Kind: mariadb, postgresql ─▶ Server: data in one folder, log in another ─▶ make() once, copy(), start() ─▶ Running
//!                                                                             client() ─▶ Client: a statement, an answer
//! ```
//!
//! A [`Server`] says where its data and its log are; nothing runs yet. [`Running`] is its process, killed when it is dropped, with
//! all that it has started. A [`Client`] is the server's own, which reads statements from a pipe. [`Ext4`] is a file system on a
//! block device and [`Memory`] one of memory, where servers may stand. All processes are in groups of their own, so that Ctrl-C at a terminal is heard by
//! who started them and not by them.
//!
//! Nothing here knows of pools, of emulated disks, or of what is measured. Everything takes root: servers run as the users that
//! Debian made for them.

mod client;
mod error;
mod ext4;
mod kind;
mod mariadb;
mod memory;
mod postgresql;
mod running;
mod server;
mod user;

pub use client::Client;
pub use error::{Error, Result};
pub use ext4::Ext4;
pub use kind::Kind;
pub use memory::Memory;
pub use running::Running;
pub use server::Server;
pub use user::{User, is_root};
