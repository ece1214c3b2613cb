//! A modelled drive as a block device, for programs that know nothing of models.
//!
//! ```text
//!  program ─▶ ext4, xfs … ─▶ /dev/loopN ── direct I/O ──▶ DIR/disk ── FUSE ──▶ threads ──▶ one Drive of `device`
//!                            block layer    no page cache                                  head or channels, write cache
//! ```
//!
//! An [`EmulatedDisk`] mounts three files on a folder and attaches the first one as a loop device, with direct I/O. So a request to
//! the block device is one to the drive, a flush of the block device is a sync of the drive, and an answer comes when the model
//! says so. Any number of file systems, servers and virtual machines may stand on it: they share the drive's one head.
//!
//! | File | |
//! |---|---|
//! | `disk` | the drive's bytes; reads and writes of whole sectors, past the page cache |
//! | `power` | reads as `on` or `off`; written to, `cut`, `cut SEED` or `on` |
//! | `status` | what the drive was asked for, a word and a number on each line |
//!
//! Nothing of it outlives the process: the bytes are in memory. A [`BlockDevice`] is the same for any other device, without the two small files.
//!
//! Parts: `disk` joins the others, `disk_fs` is the file system, `control` what its small files say, `loop_device` the
//! block device.

mod control;
mod disk;
mod disk_fs;
mod error;
mod loop_device;

pub use control::{cut_power, restore_power};
pub use disk::{BlockDevice, EmulatedDisk, available_memory};
pub use error::{Error, Result};
