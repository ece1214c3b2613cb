//! Regions that other hands have removed, cut short or made longer.

use std::sync::Arc;

use ishigaki_device::{AlignedBuffer, Device, Error as DeviceError};

use super::{EXTENT, Home, region_name};
use crate::Result;

/// Bytes that are copied at a time.
const PIECE: u64 = 16 * EXTENT;

impl Home {
    /// Makes regions that are gone anew, and gives those that are too short their length, with all that they still have. Zeros stand
    /// for what is missing.
    pub(crate) fn make_regions_whole(&self) -> Result<()> {
        let mut regions = self.regions.write();
        let mut is_changed = false;
        for (index, region) in regions.iter_mut().enumerate() {
            if region.as_ref().is_none_or(|device| device.len() < self.region) {
                *region = Some(self.whole_region(index, region.as_deref())?);
                is_changed = true;
            }
        }
        if is_changed {
            self.directory.sync()?;
        }
        Ok(())
    }

    /// A region of its length, with the bytes of the one that is too short. It is whole before it has the name, so that a crash
    /// leaves the shorter one as it was; what is left under the other name is a stray, which [`secure`](Self::secure) removes.
    fn whole_region(&self, index: usize, short: Option<&dyn Device>) -> Result<Arc<dyn Device>> {
        let name = region_name(&self.name, index);
        let new = format!("{name}.new");
        match self.directory.remove(&new) {
            Ok(()) | Err(DeviceError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let device = self.directory.create(&new, self.region)?;
        if let Some(short) = short {
            let length = short.len();
            for at in (0..length).step_by(PIECE as usize) {
                let mut piece = AlignedBuffer::zeroed(PIECE.min(length - at) as usize);
                short.read_at(at, &mut piece)?;
                device.write_at(at, &piece)?;
            }
            device.sync()?;
            let region = self.region;
            tracing::warn!(
                name,
                length,
                region,
                "a region of a home was too short and is made whole; what it had is kept"
            );
        }
        self.directory.rename(&new, &name)?;
        Ok(self.directory.open(&name)?)
    }
}

/// Fills a buffer from a region. Behind its end, where it was cut short, there are zeros.
pub(super) fn read_what_is_there(device: &dyn Device, at: u64, buffer: &mut [u8]) -> Result<()> {
    let there = device.len().saturating_sub(at).min(buffer.len() as u64) as usize;
    let (there, missing) = buffer.split_at_mut(there);
    if !there.is_empty() {
        device.read_at(at, there)?;
    }
    missing.fill(0);
    Ok(())
}
