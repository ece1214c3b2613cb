//! One user's handle to a simulated device.

use std::fmt;
use std::sync::Arc;

use ishigaki_base::ByteSize;
use parking_lot::Mutex;

use super::medium::{Id, Medium};
use crate::request::Bounds;
use crate::{Device, Promise, Result, SECTOR};

/// A device of a [`crate::SimDirectory`]; what it survives is written there. Dead for good once its directory's power is
/// cut.
pub struct SimDevice {
    medium: Arc<Mutex<Medium>>,
    id: Id,
    /// The name under which it was opened, for messages.
    name: String,
    length: u64,
    block_size: usize,
}

impl SimDevice {
    /// A handle that the medium has counted already.
    pub(super) fn new(medium: Arc<Mutex<Medium>>, id: Id, name: String, length: u64, block_size: usize) -> Self {
        Self { medium, id, name, length, block_size }
    }

    fn bounds(&self) -> Bounds<'_> {
        Bounds { name: &self.name, block_size: self.block_size, length: self.length }
    }
}

impl Device for SimDevice {
    fn promise(&self) -> Promise {
        Promise { block_size: self.block_size, atomic_write: SECTOR, direct: true, trim: true }
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.bounds().check_transfer(offset, buffer)?;
        self.medium.lock().read(self.id, &self.name, offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bounds().check_transfer(offset, bytes)?;
        self.medium.lock().write(self.id, &self.name, &[(offset, bytes)], false)
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bounds().check_transfer(offset, bytes)?;
        self.medium.lock().write(self.id, &self.name, &[(offset, bytes)], true)
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.bounds().check_transfers(writes)?;
        let mut medium = self.medium.lock();
        if medium.settings().runs_at_once {
            return medium.write(self.id, &self.name, writes, true);
        }
        writes.iter().try_for_each(|run| medium.write(self.id, &self.name, &[*run], true))
    }

    fn sync(&self) -> Result<()> {
        self.medium.lock().sync(self.id, &self.name)
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.bounds().check_range(offset, length)?;
        self.medium.lock().trim(self.id, &self.name, offset, length)
    }
}

impl Drop for SimDevice {
    fn drop(&mut self) {
        self.medium.lock().give_handle_back(self.id);
    }
}

impl fmt::Debug for SimDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDevice({}, {})", self.name, ByteSize(self.length))
    }
}
