//! File systems on folders, by FUSE: a [`Mount`] brings the requests of programs to a file system, whatever that holds.
//!
//! ```text
//!  program ── open, pwrite, fsync ──▶ kernel ── /dev/fuse ──▶ a thread's channel ──▶ a FileSystem of `fuse-backend-rs`
//! ```
//!
//! It knows nothing of files. File systems are written against `fuse_backend_rs::api::filesystem::FileSystem`, which serves
//! virtio-fs as well.
//!
//! Parts: `mount` mounts, hands over and takes away what a process that died has left, `session` is the kernel's side,
//! `channel` waits for requests.

mod channel;
mod error;
mod mount;
mod session;

pub use error::{Error, Result};
pub use mount::{Mount, MountSettings, give_up, is_mounted};
