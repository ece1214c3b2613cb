//! Block devices as a trait: the one way by which bytes become durable.
//!
//! Engines above know a [`Device`] (blocks with an offset, a sync and a promise) and a [`Directory`] (named devices, whose
//! names too become durable only by a sync). They never open a file themselves; so every engine runs unchanged on
//!
//! - [`FileDirectory`] / [`FileDevice`]: files and raw block devices, `O_DIRECT` where the medium takes it;
//! - [`RingDirectory`] / [`RingDevice`]: the same files and devices, their bytes by `io_uring`;
//! - [`RawDirectory`]: regions of one device, without a file system;
//! - [`MemoryDirectory`]: memory, for tests and temporary databases;
//! - [`SimDirectory`]: a simulated medium that loses power at a chosen operation, tears and loses what was not synced,
//!   fails writes and syncs, runs out of space and flips bits at rest;
//! - [`ModelledDirectory`]: any of these with the timing of NVM, an SSD or a hard disk, in real or in virtual time;
//! - [`Drive`]: a modelled medium that is one drive in memory, and loses with its power what was not flushed.
//!
//! [`open_place`] opens any of them by one word, as in `raw:/dev/nvme0n1`; [`probe()`] measures what a medium can do.

mod buffer;
mod device;
mod directory;
mod error;
mod file;
mod memory;
mod model;
mod place;
mod probe;
mod raw;
mod reading;
mod request;
mod ring;
mod sim;
mod vigilant;

pub use buffer::AlignedBuffer;
pub use device::{Device, MAX_BLOCK_SIZE, Promise, SECTOR};
pub use directory::{Directory, DirectoryLock, ReadLock};
pub use error::{Error, ReadFault, Result};
pub use file::{Access, FileDevice, FileDirectory};
pub use memory::{MemoryDevice, MemoryDirectory, MemorySettings};
pub use model::{
    Drive, DriveCounts, DriveSettings, HddSettings, Medium, ModelledDevice, ModelledDirectory, NvmSettings, Pace,
    SsdSettings, Turns, VirtualClock,
};
pub use place::{Place, open_place};
pub use probe::{ProbeCase, ProbeReport, ProbeRun, ProbeSettings, ProbeStep, probe};
pub use raw::RawDirectory;
#[cfg(fuzzing)]
pub use raw::fuzz;
pub use reading::{ReadingDirectory, Unread};
pub use request::{check_name, check_transfer};
pub use ring::{Landed, Reads, RingDevice, RingDirectory};
pub use sim::{Fault, SimDevice, SimDirectory, SimSettings};
pub use vigilant::VigilantDirectory;
