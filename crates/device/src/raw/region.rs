//! A run of the device that has, had or will have a name.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_base::ByteSize;

use super::medium::Medium;
use super::space::Space;
use super::table::reserved;
use crate::request::Bounds;
use crate::{AlignedBuffer, Device, Error, MAX_BLOCK_SIZE, Promise, Result, SECTOR};

/// How many bytes of zeros a creation writes at once.
const FILL: u64 = 1 << 20;

/// Held by the directory while it has a name or a power cut may give it one, and by its users. The last one to go gives the
/// run back.
pub(super) struct Region {
    medium: Arc<Medium>,
    space: Arc<Space>,
    start: u64,
    length: u64,
    /// Its removal is durable: what it holds is nobody's.
    void: AtomicBool,
}

impl Region {
    /// Where a table says that one is.
    pub(super) fn at(medium: &Arc<Medium>, space: &Arc<Space>, start: u64, length: u64) -> Result<Self> {
        if !space.take_at(start, reserved(length)) {
            let reason = format!("two regions of its table overlap, or the one at {start} reaches past the end");
            return Err(Error::Damaged { name: format!("{:?}", medium.device()), reason });
        }
        Ok(Self::new(medium, space, start, length))
    }

    /// Somewhere.
    pub(super) fn take(medium: &Arc<Medium>, space: &Arc<Space>, name: &str, length: u64) -> Result<Self> {
        let alignment = MAX_BLOCK_SIZE.max(medium.device().promise().atomic_write) as u64;
        match space.take(reserved(length), alignment) {
            Some(start) => Ok(Self::new(medium, space, start, length)),
            None => Err(Error::NoSpace { name: name.to_owned(), needed: length }),
        }
    }

    fn new(medium: &Arc<Medium>, space: &Arc<Space>, start: u64, length: u64) -> Self {
        Self { medium: Arc::clone(medium), space: Arc::clone(space), start, length, void: AtomicBool::new(false) }
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whatever was here before is gone durably.
    pub(super) fn fill_with_zeros(&self) -> Result<()> {
        if self.length == 0 {
            return Ok(());
        }
        let zeros = AlignedBuffer::zeroed(FILL.min(self.length) as usize);
        let mut done = 0;
        while done < self.length {
            let size = FILL.min(self.length - done);
            self.medium.device().write_at(self.start + done, &zeros[..size as usize])?;
            done += size;
        }
        self.medium.sync()
    }

    /// Nobody will find it any more: trimmed when the last user lets go.
    pub(super) fn give_back_at_the_end(&self) {
        self.void.store(true, Ordering::Relaxed);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if *self.void.get_mut() && self.length > 0 {
            // Before anybody else takes it. A medium that does not take it back loses nothing but speed.
            let _ = self.medium.device().trim(self.start, self.length);
        }
        self.space.give(self.start, reserved(self.length));
    }
}

/// One user's handle to a region of a [`crate::RawDirectory`].
pub(super) struct RawDevice {
    /// The name under which it was opened, for messages.
    name: String,
    region: Arc<Region>,
}

impl RawDevice {
    pub(super) fn new(name: &str, region: Arc<Region>) -> Self {
        Self { name: name.to_owned(), region }
    }

    fn bounds(&self) -> Bounds<'_> {
        let block_size = self.region.medium.device().promise().block_size;
        Bounds { name: &self.name, block_size, length: self.region.length }
    }
}

impl Device for RawDevice {
    fn promise(&self) -> Promise {
        let promise = self.region.medium.device().promise();
        // What is aligned within the region is aligned on the device only as far as the region itself is.
        let aligned = 1 << self.region.start.trailing_zeros().min(30);
        Promise { atomic_write: promise.atomic_write.min(aligned).max(SECTOR), ..promise }
    }

    fn writes_through(&self) -> Option<bool> {
        self.region.medium.device().writes_through()
    }

    fn len(&self) -> u64 {
        self.region.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.bounds().check_transfer(offset, buffer)?;
        self.region.medium.device().read_at(self.region.start + offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bounds().check_transfer(offset, bytes)?;
        self.region.medium.device().write_at(self.region.start + offset, bytes)
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bounds().check_transfer(offset, bytes)?;
        self.region.medium.write_durable(&[(self.region.start + offset, bytes)])
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.bounds().check_transfers(writes)?;
        let writes: Vec<_> = writes.iter().map(|(offset, bytes)| (self.region.start + offset, *bytes)).collect();
        self.region.medium.write_durable(&writes)
    }

    fn sync(&self) -> Result<()> {
        self.region.medium.sync()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.bounds().check_range(offset, length)?;
        self.region.medium.device().trim(self.region.start + offset, length)
    }
}

impl fmt::Debug for RawDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawDevice({}, {} at {})", self.name, ByteSize(self.region.length), self.region.start)
    }
}
