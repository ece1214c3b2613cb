//! File systems on folders, by FUSE: a [`Mount`] brings the requests of programs to a file system, whatever that holds.
//!
//! ```text
//!  program ── open, pwrite, fsync ──▶ kernel ── /dev/fuse ──▶ a thread's channel ──▶ a FileSystem of `fuse-backend-rs`
//! ```
//!
//! It knows nothing of files. File systems are written against `fuse_backend_rs::api::filesystem::FileSystem`, which serves
//! virtio-fs as well, and against [`Beside`] for what the library does not know: files that the kernel reads and writes itself, files without
//! names, copies within the file system, when something was made.
//!
//! Parts: `mount` mounts, hands over and replaces what a process that died has left, `layers` is mounts on one another, `mounted` the kernel's table of all, `session` the kernel's side,
//! `channel` waits for requests, `answers` has them answered, `crew` is the threads, `beside` what the library does not know, `connection` and
//! `backing` what a file system asks of the kernel, `statvfs` an answer to fill in.

mod answers;
mod backing;
mod beside;
mod channel;
mod connection;
mod crew;
mod error;
mod layers;
mod mount;
mod mounted;
mod session;
mod statvfs;

pub use beside::{Beside, Copy, DIRECT_IO_ALLOW_MMAP, NewAttribute, Nothing, Opened, PASSTHROUGH, SETXATTR_EXT};
pub use connection::{Connection, passed_through};
pub use crew::waiting;
pub use error::{Error, Result};
pub use mount::{Mount, MountSettings, give_up, is_mounted, send_again};
pub use mounted::{Mounted, mounted};
pub use statvfs::empty_statvfs;
