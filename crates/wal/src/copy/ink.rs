//! Bytes that follow each other, written in large pieces of whole blocks.

use std::sync::Arc;

use ishigaki_device::{AlignedBuffer, Device, MAX_BLOCK_SIZE};

use crate::Result;

/// Bytes that are gathered before they are written.
const PIECE: usize = 4 << 20;

/// Writes a device from its beginning on. The blocks of the medium may be larger than those of the one that the bytes come
/// from.
#[derive(Debug)]
pub(super) struct Ink {
    device: Arc<dyn Device>,
    /// Where the gathered bytes belong: at a whole block.
    at: u64,
    gathered: AlignedBuffer,
    length: usize,
}

impl Ink {
    pub(super) fn new(device: Arc<dyn Device>) -> Self {
        Self { device, at: 0, gathered: AlignedBuffer::zeroed(0), length: 0 }
    }

    /// Adds bytes behind the others.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let needed = self.length + bytes.len();
        if needed > self.gathered.len() {
            let mut larger = AlignedBuffer::zeroed(
                (2 * needed)
                    .next_multiple_of(MAX_BLOCK_SIZE)
                    .min(2 * PIECE)
                    .max(needed.next_multiple_of(MAX_BLOCK_SIZE)),
            );
            larger[..self.length].copy_from_slice(&self.gathered[..self.length]);
            self.gathered = larger;
        }
        self.gathered[self.length..needed].copy_from_slice(bytes);
        self.length = needed;
        if self.length < PIECE {
            return Ok(());
        }
        let whole = self.length / MAX_BLOCK_SIZE * MAX_BLOCK_SIZE;
        self.device.write_at(self.at, &self.gathered[..whole])?;
        self.gathered.copy_within(whole..self.length, 0);
        self.at += whole as u64;
        self.length -= whole;
        Ok(())
    }

    /// Writes the rest and makes all of it durable.
    pub(super) fn finish(mut self) -> Result<()> {
        let whole = self.length.next_multiple_of(self.device.promise().block_size);
        if whole > 0 {
            self.gathered[self.length..whole].fill(0);
            self.device.write_at(self.at, &self.gathered[..whole])?;
        }
        Ok(self.device.sync()?)
    }
}
