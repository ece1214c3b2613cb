//! What the fast device has before its slots: whose it is.

use ishigaki_base::{Fields, LogId, crc32c};
use ishigaki_device::{AlignedBuffer, Device};

use crate::{BLOCK, Error, Result};

/// How the header of a fast device begins.
const MAGIC: &[u8; 8] = b"ISHItier";
/// Bytes of it that its checksum, which follows, is of.
const SUMMED: usize = 24;

/// The pool of a fast device, and bytes of a chunk there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) pool: LogId,
    pub(crate) chunk: u64,
}

impl Header {
    pub(crate) fn write(self, fast: &dyn Device) -> Result<()> {
        let mut block = AlignedBuffer::zeroed(BLOCK as usize);
        block[..8].copy_from_slice(MAGIC);
        block[8..16].copy_from_slice(&self.pool.0.to_le_bytes());
        block[16..24].copy_from_slice(&self.chunk.to_le_bytes());
        let sum = crc32c(&block[..SUMMED]);
        block[SUMMED..SUMMED + 4].copy_from_slice(&sum.to_le_bytes());
        Ok(fast.write_durable(0, &block)?)
    }

    /// `None` where there is none.
    pub(crate) fn read(fast: &dyn Device) -> Result<Option<Self>> {
        let mut block = AlignedBuffer::zeroed(BLOCK as usize);
        fast.read_at(0, &mut block)?;
        let fields = Fields(&block);
        let is_whole = block[..8] == *MAGIC && fields.u32(SUMMED) == crc32c(&block[..SUMMED]);
        Ok(is_whole.then(|| Self { pool: LogId(fields.u64(8)), chunk: fields.u64(16) }))
    }

    pub(crate) fn check(self, there: Option<Self>) -> Result<()> {
        let reason = match there {
            Some(there) if there == self => return Ok(()),
            Some(there) if there.pool == self.pool => "the fast device has chunks of another size",
            Some(_) => {
                "the fast device belongs to another pool; give the one with which this pool was made, or, to give it up with all that is on it alone, blank its first 4 KiB: `dd if=/dev/zero of=DEVICE bs=4096 count=1 conv=notrunc`"
            }
            None => "the fast device has no header of this pool; give the one with which the pool was made",
        };
        Err(Error::WrongFast { reason: reason.to_owned() })
    }
}
