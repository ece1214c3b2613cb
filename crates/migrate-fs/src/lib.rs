//! The door of a file server's migration: the new server's directory, the *destination*, as a file system by FUSE. Local programs use it,
//! and servers export it.
//!
//! ```text
//!  program, smbd, ganesha ──▶ kernel ──▶ DoorFs ── what a request needs ──▶ Arrivals     (the migration)
//!                                │          └──── the request itself ─────▶ the destination on ext4, xfs, btrfs
//!                                └── reads and writes of files that are wholly here ────▶      "
//! ```
//!
//! A [`Door`] is the whole POSIX of the destination, and adds nothing to it. It knows nothing of the old server: [`Arrivals`]
//! brings what is missing before a request is answered. Once nothing is missing of a file, the kernel reads and writes it without asking.
//!
//! Parts: `door` mounts and hands over, `door_fs` answers requests, `arrivals` is what it asks before, `migration` the engine that answers, `volume` finds objects by their inode
//! numbers, `nodes` is what the kernel knows, `opens` what programs have open, `caller` in whose name the destination is changed, `handed` what
//! is written for a successor, `offline` the mark that Samba's clients get of files that are still to come.

mod arrivals;
mod caller;
mod door;
mod door_fs;
mod error;
mod handed;
mod migration;
mod nodes;
mod offline;
mod opens;
mod places;
mod volume;

pub use arrivals::{Act, AllHere, Arrivals, Change, Object, WriteAct};
pub use door::{Counts, Door, Handed};
pub use error::{Error, Result};
pub use migration::Migration;
