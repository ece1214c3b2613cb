//! Memory that a direct device accepts.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::device::MAX_BLOCK_SIZE;

/// A zeroed run of bytes whose address is a multiple of [`MAX_BLOCK_SIZE`], so that every device can read and write it.
///
/// It over-allocates by one block instead of asking the allocator for alignment, which keeps it free of `unsafe`.
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` zero bytes.
    #[expect(clippy::missing_panics_doc, reason = "no address is a whole block away from an aligned one")]
    pub fn zeroed(len: usize) -> Self {
        let memory = vec![0; len + MAX_BLOCK_SIZE];
        let start = memory.as_ptr().align_offset(MAX_BLOCK_SIZE);
        assert!(start < MAX_BLOCK_SIZE, "an address is always fewer than one block away from an aligned one");
        Self { memory, start, len }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_aligned_and_zero() {
        for len in [0, 1, 512, 4096, 1 << 20] {
            let buffer = AlignedBuffer::zeroed(len);
            assert_eq!(buffer.as_ptr().align_offset(MAX_BLOCK_SIZE), 0);
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|&byte| byte == 0));
        }
    }
}
