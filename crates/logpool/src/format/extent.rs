//! An extent at home: where it is, and what each of its blocks must be.

use std::sync::OnceLock;

use ishigaki_base::crc32c;

use super::numbers::{Reader, put};
use crate::home::EXTENT;
use crate::image::BLOCK;

/// Blocks of an extent.
pub(crate) const BLOCKS: usize = (EXTENT / BLOCK) as usize;

/// 64 KiB of a file. Each block has a checksum of its own: a round writes an extent over in place, and a power cut in
/// between must leave the blocks that did not change as the ledger says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Its number in the home, over all regions.
    pub(crate) place: u32,
    /// CRC-32C of each block.
    pub(crate) sums: [u32; BLOCKS],
    /// A bit for each block that lacks changes: it was damaged when they came, and they could not be made. Whatever the
    /// block holds, it is not what was written.
    pub(crate) lost: u16,
}

impl Extent {
    /// Of zeros.
    pub(crate) fn zeros(place: u32) -> Self {
        static SUM: OnceLock<u32> = OnceLock::new();
        let sum = *SUM.get_or_init(|| crc32c(&[0; BLOCK as usize]));
        Self { place, sums: [sum; BLOCKS], lost: 0 }
    }

    /// Of these bytes, whatever they are.
    pub(crate) fn of(place: u32, bytes: &[u8]) -> Self {
        let mut extent = Self { place, sums: [0; BLOCKS], lost: 0 };
        for (sum, block) in extent.sums.iter_mut().zip(bytes.chunks(BLOCK as usize)) {
            *sum = crc32c(block);
        }
        extent
    }

    /// The block was written as a whole.
    pub(crate) fn set(&mut self, block: usize, sum: u32) {
        self.sums[block] = sum;
        self.lost &= !(1 << block);
    }

    pub(super) fn put(&self, body: &mut Vec<u8>) {
        put(body, u64::from(self.place) + 1);
        put(body, self.lost.into());
        self.sums.iter().for_each(|sum| body.extend_from_slice(&sum.to_le_bytes()));
    }

    /// What [`put`](Self::put) wrote, behind the place.
    pub(super) fn read(place: u32, reader: &mut Reader<'_>) -> Option<Self> {
        let lost = reader.below(1 << BLOCKS)? as u16;
        let mut extent = Self { place, sums: [0; BLOCKS], lost };
        for sum in &mut extent.sums {
            *sum = u32::from_le_bytes(reader.run(4)?.try_into().ok()?);
        }
        Some(extent)
    }

    /// The most bytes of one in a ledger.
    pub(super) const LONGEST: u64 = 5 + 3 + 4 * BLOCKS as u64;
}
