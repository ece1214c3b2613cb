//! The chunk: what a stream writes at once.

use ishigaki_base::{Fields, Generation, LogId, Lsn, StreamId, crc32c};

use super::{MAX_CHUNK, VERSION};
use crate::CommitRule;

/// Bytes of a chunk's header.
pub(crate) const CHUNK_HEADER: usize = 64;

/// `first_record` of a chunk in which no record begins.
pub(crate) const NO_RECORD: u32 = u32::MAX;

const MAGIC: [u8; 4] = *b"ISGK";

/// Flag beside the block size: the generation keeps by dependencies.
const DEPENDENCIES: u8 = 0x80;

/// A chunk's header. It fits into the first sector, so it is there whole or not at all, and it carries a checksum of its
/// own, so a reader can tell a chunk that was torn from one that was damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    /// The chunk is padded with zeros to a multiple of this many bytes: the medium's block size, 512 to 4096.
    pub(crate) block: usize,
    /// The rule by which its records were acknowledged, and are kept.
    pub(crate) rule: CommitRule,
    /// The stream it belongs to.
    pub(crate) stream: StreamId,
    /// Chunks before it that were written together with it, and so may be torn although it is whole.
    pub(crate) batch: u8,
    /// The log it belongs to.
    pub(crate) log: LogId,
    /// In which generation it was written.
    pub(crate) generation: Generation,
    /// The first LSN of that generation: older records from here on are void.
    pub(crate) base: Lsn,
    /// Chunks of this stream before it, over all generations.
    pub(crate) sequence: u64,
    /// Every record up to here was durable before this chunk was written.
    pub(crate) watermark: Lsn,
    /// Bytes behind the header that belong to records.
    pub(crate) payload: u32,
    /// Where in the payload the first record begins, or [`NO_RECORD`].
    pub(crate) first_record: u32,
    /// CRC-32C of the payload.
    pub(crate) payload_crc: u32,
}

/// Why bytes are not a chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// All zero: nothing was ever written here.
    Blank,
    /// Not a header, or one that has been damaged.
    Damaged,
    /// A header of another format version.
    Version(u8),
}

impl ChunkHeader {
    /// Writes the header, checksum included.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] =
            self.block.trailing_zeros() as u8 | if self.rule == CommitRule::Dependencies { DEPENDENCIES } else { 0 };
        bytes[6] = self.stream.0 as u8;
        bytes[7] = self.batch;
        bytes[8..16].copy_from_slice(&self.log.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.base.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.watermark.0.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.payload.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.first_record.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a header out of a chunk's first sector.
    pub(crate) fn decode(sector: &[u8]) -> Result<Self, Unfit> {
        if sector.iter().all(|&byte| byte == 0) {
            return Err(Unfit::Blank);
        }
        let Some(bytes) = sector.get(..CHUNK_HEADER) else { return Err(Unfit::Damaged) };
        let fields = Fields(bytes);
        if bytes[0..4] != MAGIC || fields.u32(60) != crc32c(&bytes[..60]) {
            return Err(Unfit::Damaged);
        }
        if bytes[4] != VERSION {
            return Err(Unfit::Version(bytes[4]));
        }
        let block = bytes[5] & !DEPENDENCIES;
        if !(9..=12).contains(&block) {
            return Err(Unfit::Damaged);
        }
        let rule = if bytes[5] & DEPENDENCIES == 0 { CommitRule::Watermark } else { CommitRule::Dependencies };
        let header = Self {
            block: 1 << block,
            rule,
            stream: StreamId(bytes[6].into()),
            batch: bytes[7],
            log: LogId(fields.u64(8)),
            generation: Generation(fields.u64(16)),
            base: Lsn(fields.u64(24)),
            sequence: fields.u64(32),
            watermark: Lsn(fields.u64(40)),
            payload: fields.u32(48),
            first_record: fields.u32(52),
            payload_crc: fields.u32(56),
        };
        let fits = header.payload > 0
            && CHUNK_HEADER as u64 + u64::from(header.payload) <= MAX_CHUNK
            && (header.first_record < header.payload || header.first_record == NO_RECORD);
        if fits { Ok(header) } else { Err(Unfit::Damaged) }
    }

    /// Bytes of the chunk on the medium: header, payload and padding.
    pub(crate) fn length(&self) -> usize {
        (CHUNK_HEADER + self.payload as usize).next_multiple_of(self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn header()(
            block in 9..=12_u32, fine: bool, stream: u8, batch: u8, log: u64, generation: u64, base: u64, sequence: u64, watermark: u64,
            payload in 1_u32..1000, first in prop::option::of(0_u32..1), payload_crc: u32,
        ) -> ChunkHeader {
            ChunkHeader {
                block: 1 << block, rule: if fine { CommitRule::Dependencies } else { CommitRule::Watermark },
                stream: StreamId(stream.into()), batch, log: LogId(log), generation: Generation(generation), base: Lsn(base), sequence,
                watermark: Lsn(watermark), payload, first_record: first.unwrap_or(NO_RECORD), payload_crc,
            }
        }
    }

    proptest! {
        #[test]
        fn a_header_reads_back(header in header()) {
            let mut sector = [0; 512];
            header.encode(&mut sector);
            prop_assert_eq!(ChunkHeader::decode(&sector), Ok(header));
        }

        #[test]
        fn a_header_with_a_flipped_bit_is_damaged(header in header(), bit in 0_usize..CHUNK_HEADER * 8) {
            let mut sector = [0; 512];
            header.encode(&mut sector);
            sector[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(ChunkHeader::decode(&sector), Err(Unfit::Damaged));
        }

        #[test]
        fn garbage_is_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(ChunkHeader::decode(&bytes).is_err());
        }
    }

    #[test]
    fn zeros_are_blank_not_damaged() {
        assert_eq!(ChunkHeader::decode(&[0; 512]), Err(Unfit::Blank));
    }
}
