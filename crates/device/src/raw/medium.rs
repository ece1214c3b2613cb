//! The device below, taken for one user, and its failures, which are everybody's.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::table::{DATA, TAIL};
use crate::{Device, DirectoryLock, Error, Result};

/// A device that several regions share.
#[derive(Debug)]
pub(super) struct Medium {
    device: Arc<dyn Device>,
    /// A durable write or a sync has failed: what others had in flight may be lost, although a later sync would succeed.
    failed: AtomicBool,
    /// Held during a sync. Of two at once only one may be told that it failed.
    syncing: Mutex<()>,
    _lock: DirectoryLock,
}

impl Medium {
    /// Takes a device that is large enough.
    pub(super) fn new(device: Arc<dyn Device>) -> Result<Self> {
        if device.len() < DATA + TAIL {
            let reason = format!("{} bytes are too few; a directory needs {} at least", device.len(), DATA + TAIL);
            return Err(Error::Invalid { name: format!("{device:?}"), reason });
        }
        let lock = device.lock()?;
        Ok(Self { device, failed: AtomicBool::new(false), syncing: Mutex::new(()), _lock: lock })
    }

    /// For what needs no care: reads, plain writes, trims, properties.
    pub(super) fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// [`Device::write_all_durable`].
    pub(super) fn write_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.check()?;
        self.judge(match writes {
            [(offset, bytes)] => self.device.write_durable(*offset, bytes),
            writes => self.device.write_all_durable(writes),
        })
    }

    /// [`Device::sync`], of all regions.
    pub(super) fn sync(&self) -> Result<()> {
        let _one_at_a_time = self.syncing.lock();
        self.check()?;
        self.judge(self.device.sync())
    }

    fn check(&self) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let source = io::Error::other("an earlier one failed, and what it lost is not known; open the device anew");
        Err(Error::Io { name: format!("{:?}", self.device), operation: "making writes durable", source })
    }

    fn judge(&self, outcome: Result<()>) -> Result<()> {
        if outcome.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        outcome
    }
}
