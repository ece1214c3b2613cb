//! The manifest: what a checkpoint is made of, and where the log goes on. `docs/format/checkpoint.md` has the byte tables.

use ishigaki_base::{Fields, Generation, LogId, Lsn, crc32c};

use super::page::Refusal;
use crate::table::TableId;
use ishigaki_wal::Start;

/// Bytes before the parts.
pub(super) const HEADER: usize = 72;

/// Bytes for each part.
pub(super) const PART: usize = 16;

const MAGIC: [u8; 4] = *b"ISGM";
const VERSION: u8 = 1;

/// The last checkpoint of a directory: more than anybody can make, and far from where numbers end.
pub(super) const LARGEST: u64 = 1 << 48;

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Whose log it belongs to.
    pub(crate) log: LogId,
    /// Counts checkpoints, those included that came to nothing; from 1.
    pub(crate) number: u64,
    /// From where on the log must be replayed.
    pub(crate) start: Start,
    /// No later record is in it; all up to this one were durable when it became current.
    pub(crate) end: Lsn,
    /// In all parts.
    pub(crate) rows: u64,
    /// No table ever had this number or a larger one.
    pub(crate) next_table: TableId,
    /// In order.
    pub(crate) parts: Vec<Part>,
}

/// One part's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Bytes of its pages.
    pub(crate) length: u64,
    pub(crate) pages: u32,
}

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + PART * self.parts.len() + 4);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, 0, 0, 0]);
        for number in [
            self.log.0,
            self.number,
            self.start.generation.0,
            self.start.lsn.0,
            self.end.0,
            self.rows,
            u64::from(self.next_table.0),
            self.parts.len() as u64,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for part in &self.parts {
            bytes.extend_from_slice(&part.length.to_le_bytes());
            bytes.extend_from_slice(&u64::from(part.pages).to_le_bytes());
        }
        let crc = crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Bytes of a checkpoint's pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.length))
    }
}

/// Reads a manifest; what is behind it does not matter.
pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest, Refusal> {
    let damaged = || "its manifest does not fit its checksum".to_owned();
    let fields = Fields(bytes);
    if bytes.len() < HEADER || bytes[0..4] != MAGIC {
        return Err(damaged());
    }
    let parts = usize::try_from(fields.u64(64)).ok().and_then(|parts| parts.checked_mul(PART));
    let end = parts.and_then(|parts| parts.checked_add(HEADER)).ok_or_else(damaged)?;
    let (Some(told), Some(crc)) = (bytes.get(..end), bytes.get(end..).and_then(<[u8]>::first_chunk)) else {
        return Err(damaged());
    };
    if u32::from_le_bytes(*crc) != crc32c(told) {
        return Err(damaged());
    }
    if bytes[4] != VERSION {
        return Err(format!("its manifest has format version {}; this program reads version {VERSION}", bytes[4]));
    }
    let sound =
        |number: u64| u32::try_from(number).map_err(|_| "its manifest has a number that is too large".to_owned());
    let number = fields.u64(16);
    if number > LARGEST {
        return Err(format!("its manifest says that it is checkpoint {number}; there are at most {LARGEST}"));
    }
    let (start, end) = (Lsn(fields.u64(32)), Lsn(fields.u64(40)));
    if start.0 > end.0.saturating_add(1) {
        return Err(format!("its manifest says that it was begun at {start}, and done at {end} already"));
    }
    let part = |bytes: &[u8]| {
        let fields = Fields(bytes);
        Ok(Part { length: fields.u64(0), pages: sound(fields.u64(8))? })
    };
    Ok(Manifest {
        log: LogId(fields.u64(8)),
        number,
        start: Start { generation: Generation(fields.u64(24)), lsn: start },
        end,
        rows: fields.u64(48),
        next_table: TableId(sound(fields.u64(56))?),
        parts: told[HEADER..].chunks_exact(PART).map(part).collect::<Result<_, Refusal>>()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn manifest(parts: usize) -> Manifest {
        Manifest {
            log: LogId(0xfeed),
            number: 9,
            start: Start { generation: Generation(3), lsn: Lsn(40) },
            end: Lsn(77),
            rows: 1000,
            next_table: TableId(12),
            parts: (0..parts).map(|n| Part { length: 1000 + n as u64, pages: n as u32 }).collect(),
        }
    }

    #[test]
    fn a_manifest_reads_back_whatever_is_behind_it() {
        for parts in [0, 1, 100] {
            let mut bytes = manifest(parts).encode();
            assert_eq!(decode(&bytes).unwrap(), manifest(parts));
            bytes.resize(bytes.len() + 1000, 0);
            assert_eq!(decode(&bytes).unwrap(), manifest(parts));
        }
    }

    #[test]
    fn a_flipped_bit_or_a_missing_byte_is_found() {
        let bytes = manifest(2).encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_checkpoint_behind_the_last_one_is_refused() {
        assert!(decode(&Manifest { number: LARGEST, ..manifest(1) }.encode()).is_ok());
        for number in [LARGEST + 1, u64::MAX] {
            let refusal = decode(&Manifest { number, ..manifest(1) }.encode()).unwrap_err();
            assert!(refusal.contains("at most"), "{refusal}");
        }
    }

    #[test]
    fn a_checkpoint_that_ends_before_it_begins_is_refused() {
        let at = |lsn| Start { generation: Generation(3), lsn: Lsn(lsn) };
        assert!(decode(&Manifest { start: at(78), ..manifest(1) }.encode()).is_ok(), "no record in between");
        let refusal = decode(&Manifest { start: at(79), ..manifest(1) }.encode()).unwrap_err();
        assert!(refusal.contains("begun at"), "{refusal}");
    }

    #[test]
    fn a_number_of_parts_that_lies_is_refused_without_memory_for_them() {
        let mut bytes = manifest(1).encode();
        for parts in [2, u64::MAX, u64::MAX / 16, 1 << 40] {
            bytes[64..72].copy_from_slice(&parts.to_le_bytes());
            assert!(decode(&bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            // With a magic and a checksum that fit.
            if let Some(told) = bytes.len().checked_sub(4).filter(|told| *told >= HEADER) {
                bytes[0..4].copy_from_slice(&MAGIC);
                bytes[64..72].copy_from_slice(&(((told - HEADER) / PART) as u64).to_le_bytes());
                let end = HEADER + (told - HEADER) / PART * PART;
                let crc = crc32c(&bytes[..end]);
                bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
                let _ = decode(&bytes);
            }
        }
    }
}
