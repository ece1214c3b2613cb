//! The [`Device`] trait: what an engine may ask of a medium, and what the medium promises back.

use std::fmt::Debug;

use crate::{AlignedBuffer, DirectoryLock, Result};

/// The smallest unit that a medium writes whole: after a power cut a sector is old or new, never a mixture.
pub const SECTOR: usize = 512;

/// The largest block size a device may have, and the memory alignment that satisfies every device.
pub const MAX_BLOCK_SIZE: usize = 4096;

/// What a medium promises about its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Offsets, lengths and memory addresses of reads and writes are multiples of this many bytes; a power of two,
    /// between [`SECTOR`] and [`MAX_BLOCK_SIZE`].
    pub block_size: usize,
    /// A write of this many bytes is all there or not at all after a power cut, and so is a sector, and any power of two
    /// between [`MAX_BLOCK_SIZE`] and this; each aligned to its own size. At least [`SECTOR`].
    pub atomic_write: usize,
    /// Reads and writes go to the medium itself, past the operating system's page cache.
    pub direct: bool,
    /// [`Device::trim`] gives the space back to the medium.
    pub trim: bool,
}

/// Bytes that are written at a time where zeros are written.
const ZEROS: u64 = 1 << 20;

/// Writes zeros, a piece at a time.
pub(crate) fn write_zeros<D: Device + ?Sized>(device: &D, offset: u64, length: u64) -> Result<()> {
    let zeros = AlignedBuffer::zeroed(length.min(ZEROS) as usize);
    let mut written = 0;
    while written < length {
        let piece = (length - written).min(ZEROS);
        device.write_at(offset + written, &zeros[..piece as usize])?;
        written += piece;
    }
    Ok(())
}

/// A run of blocks that keeps what was made durable.
///
/// All methods take `&self` and may be called from many threads at once; writes that overlap in space and time leave
/// either's bytes, block by block.
///
/// A write is *in flight* until a later [`sync`](Device::sync) of the same device, begun after the write returned, has
/// succeeded; a power cut keeps any subset of the sectors in flight. [`write_durable`](Device::write_durable) leaves
/// nothing of its own in flight and says nothing about other writes. After a write or sync failed, what of it is durable
/// is unknown: the caller must stop trusting the device, not try again.
pub trait Device: Send + Sync + Debug {
    /// What the medium promises.
    fn promise(&self) -> Promise;

    /// True when a durable write is one command of the drive and needs no flush of its cache: the drive has forced unit
    /// access (FUA), or no cache that loses power. `None` where that is not known, or there is no drive.
    fn writes_through(&self) -> Option<bool> {
        None
    }

    /// Its length in bytes, a multiple of the block size.
    fn len(&self) -> u64;

    /// True when there is not a single block.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from `offset`. All three of offset, length and memory must be aligned.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Writes `bytes` at `offset`, in flight until the next sync.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Writes `bytes` at `offset` and returns when exactly these bytes are durable: one synchronous device write where
    /// the medium has such a thing.
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_at(offset, bytes)?;
        self.sync()
    }

    /// Writes several runs, each at its offset, and returns when all of them are durable.
    ///
    /// They reach the medium beside each other and in any order: until this returns, a power cut keeps any subset of the
    /// sectors of all of them, so the last run may be there without the first. Runs that overlap leave either's bytes. If
    /// one of them is refused, none is written. Like [`write_durable`](Device::write_durable) it says nothing about other
    /// writes.
    ///
    /// The implementation given here writes one after the other, so a refused run leaves those before it written.
    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        writes.iter().try_for_each(|(offset, bytes)| self.write_durable(*offset, bytes))
    }

    /// Returns when everything written before is durable.
    fn sync(&self) -> Result<()>;

    /// Takes the device for one user alone, over all processes, where it is something that others could open. A second
    /// one gets [`crate::Error::Locked`] at once. What only this process can see is not locked.
    fn lock(&self) -> Result<DirectoryLock> {
        Ok(DirectoryLock::new(()))
    }

    /// Tells the medium that `length` bytes from `offset` hold nothing any more. They read as anything until they are
    /// written again. A medium that cannot do it says so in its promise and does nothing.
    fn trim(&self, offset: u64, length: u64) -> Result<()>;

    /// Has `length` bytes from `offset` read as zeros, in flight until the next sync. Both must be aligned.
    ///
    /// The implementation given here writes them; a medium that can do without does without.
    fn zero(&self, offset: u64, length: u64) -> Result<()> {
        write_zeros(self, offset, length)
    }
}
