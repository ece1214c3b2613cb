//! Registered memory that is used again, since a new region costs memory and a key.

use std::sync::Arc;

use ishigaki_device::{AlignedBuffer, MAX_BLOCK_SIZE};
use ishigaki_fabric::{Caller, Region};
use parking_lot::Mutex;

use crate::Result;
use crate::protocol::MAX_READ;

/// Sizes are powers of two from a block to the longest read.
const CLASSES: usize = (MAX_READ / MAX_BLOCK_SIZE).ilog2() as usize + 1;

/// No class keeps more bytes.
const KEPT: usize = 8 << 20;

/// Regions of one connection that nobody uses at the moment. One that was given to a request which was not answered never
/// comes back here: the node may still write there.
#[derive(Debug, Default)]
pub(super) struct RegionPool {
    classes: [Mutex<Vec<Region>>; CLASSES],
}

impl RegionPool {
    /// A region of at least `length` bytes, at most [`MAX_READ`].
    pub(super) fn take(&self, caller: &Arc<Caller>, length: usize) -> Result<Region> {
        let size = length.next_power_of_two().max(MAX_BLOCK_SIZE);
        let idle = self.class(size).and_then(|class| class.lock().pop());
        match idle {
            Some(region) => Ok(region),
            None => Ok(caller.endpoint().register(AlignedBuffer::zeroed(size))?),
        }
    }

    /// Gives back a region whose request was answered.
    pub(super) fn put(&self, region: Region) {
        let size = region.len();
        let Some(class) = self.class(size) else { return };
        let mut class = class.lock();
        if (class.len() + 1) * size <= KEPT {
            class.push(region);
        }
    }

    fn class(&self, size: usize) -> Option<&Mutex<Vec<Region>>> {
        self.classes.get((size / MAX_BLOCK_SIZE).checked_ilog2()? as usize)
    }
}
