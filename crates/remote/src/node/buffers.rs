//! Aligned memory that is used again: to get it from the system and to zero it would cost more than a read.

use ishigaki_device::{AlignedBuffer, MAX_BLOCK_SIZE};
use parking_lot::Mutex;

/// Sizes are powers of two from a block to the longest read.
const CLASSES: usize = (crate::protocol::MAX_READ / MAX_BLOCK_SIZE).ilog2() as usize + 1;

/// Buffers that nobody uses at the moment.
#[derive(Debug)]
pub(crate) struct Buffers {
    classes: [Mutex<Vec<AlignedBuffer>>; CLASSES],
    /// No class keeps more bytes.
    most: usize,
}

impl Buffers {
    /// Keeps at most about so many bytes of each size.
    pub(crate) fn keeping(most: usize) -> Self {
        Self { classes: Default::default(), most }
    }

    /// One of at least `length` bytes; what is in it is left from others.
    pub(crate) fn take(&self, length: usize) -> AlignedBuffer {
        let size = length.next_power_of_two().max(MAX_BLOCK_SIZE);
        let idle = self.class(size).and_then(|class| class.lock().pop());
        idle.unwrap_or_else(|| AlignedBuffer::zeroed(size))
    }

    /// Gives one back.
    pub(crate) fn put(&self, buffer: AlignedBuffer) {
        let size = buffer.len();
        let Some(class) = self.class(size) else { return };
        let mut class = class.lock();
        if (class.len() + 1) * size <= self.most {
            class.push(buffer);
        }
    }

    fn class(&self, size: usize) -> Option<&Mutex<Vec<AlignedBuffer>>> {
        let whole = size.is_power_of_two() && size >= MAX_BLOCK_SIZE;
        whole.then(|| (size / MAX_BLOCK_SIZE).ilog2() as usize).and_then(|class| self.classes.get(class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_no_more_are_kept_than_may_be() {
        let buffers = Buffers::keeping(16384);
        let mut taken: Vec<_> = (0..8).map(|_| buffers.take(4000)).collect();
        taken[7].fill(9);
        assert!(taken.iter().all(|buffer| buffer.len() == 4096));
        let places: Vec<_> = taken.iter().map(|buffer| buffer.as_ptr()).collect();
        for buffer in taken {
            buffers.put(buffer);
        }
        assert_eq!(buffers.classes[0].lock().len(), 4);
        assert!(places.contains(&buffers.take(1).as_ptr()));
        assert_eq!(buffers.take(1 << 20).len(), 1 << 20);
        buffers.put(AlignedBuffer::zeroed(5000));
        buffers.put(AlignedBuffer::zeroed(1 << 21));
    }
}
