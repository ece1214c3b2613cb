//! Bytes to and from devices, which know only whole blocks in aligned memory.

use bytes::Bytes;
use ishigaki_device::{AlignedBuffer, Device, Directory, MAX_BLOCK_SIZE};
use std::sync::Arc;

use crate::error::Result;

/// Memory that was read into, as bytes that are shared.
struct Read(AlignedBuffer);

impl AsRef<[u8]> for Read {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Reads `length` bytes from `offset`, both any; they must be there.
pub(crate) fn read(device: &dyn Device, offset: u64, length: usize) -> Result<Bytes> {
    let block = device.promise().block_size as u64;
    let start = offset / block * block;
    let skipped = (offset - start) as usize;
    let mut buffer = AlignedBuffer::zeroed((skipped + length).next_multiple_of(block as usize));
    device.read_at(start, &mut buffer)?;
    Ok(Bytes::from_owner(Read(buffer)).slice(skipped..skipped + length))
}

/// Makes a device with these bytes, zeros behind them up to a whole block. They are durable, its name is not.
pub(crate) fn write_new(directory: &dyn Directory, name: &str, parts: &[&[u8]]) -> Result<Arc<dyn Device>> {
    /// How much is copied to aligned memory at a time.
    const STEP: usize = 1 << 20;
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let device = directory.create(name, length.next_multiple_of(MAX_BLOCK_SIZE) as u64)?;
    let mut buffer = AlignedBuffer::zeroed(STEP.min(length.next_multiple_of(MAX_BLOCK_SIZE)));
    let (mut offset, mut filled) = (0_u64, 0);
    let mut flush = |buffer: &mut AlignedBuffer, filled: usize| -> Result<()> {
        let whole = filled.next_multiple_of(MAX_BLOCK_SIZE);
        buffer[filled..whole].fill(0);
        device.write_at(offset, &buffer[..whole])?;
        offset += whole as u64;
        Ok(())
    };
    for part in parts {
        let mut part = *part;
        while !part.is_empty() {
            let (now, later) = part.split_at(part.len().min(buffer.len() - filled));
            buffer[filled..filled + now.len()].copy_from_slice(now);
            filled += now.len();
            part = later;
            if filled == buffer.len() {
                flush(&mut buffer, filled)?;
                filled = 0;
            }
        }
    }
    if filled > 0 {
        flush(&mut buffer, filled)?;
    }
    device.sync()?;
    Ok(device)
}
