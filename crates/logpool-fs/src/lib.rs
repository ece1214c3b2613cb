//! The log pool as file systems: a FUSE mount for each database server (paper 4: Saito and Yamada, who changed the server, the
//! guest and the hypervisor for what is an ordinary folder here).
//!
//! ```text
//!  server ── open, pwrite, fdatasync ──▶ kernel ── /dev/fuse ──▶ threads of a Mount ──▶ PoolFs ──▶ a Member of the pool
//!            O_DIRECT, O_DSYNC, rename …                                               names, handles, what must be durable
//! ```
//!
//! - [`PoolFs`] is the file system of one member, and knows nothing of how requests come.
//! - [`Mount`] brings it to a folder, with some threads; who drops it unmounts.
//! - [`Socket`] brings it to a virtual machine: virtio-fs, whose queues lie in memory that the machine shares with this process.
//! - [`Ring`] is no file system: it gives a member to a database of ours, as devices, over a ring in shared memory (`ishigaki-shm`).
//! - [`Service`] is a pool with each of its members at its [`Place`]: on a mount, a socket or a ring.
//! - [`Inheritance`] is what one service leaves to the next, under programs that go on with their files.
//! - [`Access`] says whose the files are.
//!
//! # What is durable when
//!
//! Every file is opened for direct I/O, so that each write of a server is one request here and the page cache holds nothing.
//! The kernel sends no sync of its own then for files that were opened with `O_DSYNC` or `O_SYNC`, and none for a write with
//! `RWF_DSYNC`: the flags of the write are all that tells, and such a write is answered when it is durable. So are `fsync` and
//! `fdatasync`, of files and of folders: all that the member had accepted is durable then.
//!
//! # What there is not
//!
//! Shared mappings are refused (`ENODEV`), and with them `MAP_SYNC`. There are no symbolic links, devices, or attributes beside
//! the owner's: every file has the mode 0600 and every folder 0700, and a `chmod` to anything else is refused. A second name of a file
//! (`link`) lasts until it or the first is removed, or the mount ends, whichever is sooner: servers use it for a rename that
//! replaces nothing, and the newer name is the one that is kept.

mod attributes;
mod errno;
mod error;
mod inheritance;
mod mount;
mod place;
mod pool_fs;
mod ring;
mod service;
mod socket;

pub use attributes::{Access, Calendar};
pub use error::{Error, Result};
pub use inheritance::{Inheritance, Table};
pub use mount::{Mount, MountSettings};
pub use place::Place;
pub use pool_fs::PoolFs;
pub use ring::Ring;
pub use service::{Attached, Served, Service};
pub use socket::{Socket, SocketSettings};
