//! The record: what an engine logs under one LSN.

use ishigaki_base::{Fields, Lsn, Position};

/// Bytes of a record's header.
pub(crate) const RECORD_HEADER: usize = 16;

/// Bits of a record's length: 48, enough for 256 TiB.
const LENGTH_BITS: u32 = 48;

/// Where the number of dependencies stands in the same word, above the kind.
const DEPENDENCIES_SHIFT: u32 = 56;

/// The most dependencies of a record: one per stream.
pub(crate) const MAX_DEPENDENCIES: usize = 255;

/// The most bytes of a record's payload.
pub(crate) const LONGEST_RECORD: u64 = (1 << LENGTH_BITS) - 1;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// An engine's payload.
    Payload,
    /// Nothing: its LSN was drawn and not used. Recovery would take a missing LSN for a gap.
    Filler,
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// Its place in the order of all records.
    pub(crate) lsn: Lsn,
    /// What it is.
    pub(crate) kind: Kind,
    /// Positions between header and payload: records that this one depends on.
    pub(crate) dependencies: u8,
    /// Bytes of payload behind header and dependencies.
    pub(crate) length: u64,
}

impl RecordHeader {
    /// Bytes of the header with its dependencies: what is never split between chunks.
    pub(crate) fn size(&self) -> usize {
        RECORD_HEADER + usize::from(self.dependencies) * size_of::<Position>()
    }
}

impl RecordHeader {
    pub(crate) fn encode(&self) -> [u8; RECORD_HEADER] {
        debug_assert!(self.length < 1 << LENGTH_BITS);
        let kind = match self.kind {
            Kind::Payload => 1,
            Kind::Filler => 2,
        };
        let mut bytes = [0; RECORD_HEADER];
        bytes[0..8].copy_from_slice(&self.lsn.0.to_le_bytes());
        let word = self.length | kind << LENGTH_BITS | u64::from(self.dependencies) << DEPENDENCIES_SHIFT;
        bytes[8..16].copy_from_slice(&word.to_le_bytes());
        bytes
    }

    /// `None` for a kind that this version does not know.
    pub(crate) fn decode(bytes: &[u8; RECORD_HEADER]) -> Option<Self> {
        let fields = Fields(bytes);
        let word = fields.u64(8);
        let kind = match word >> LENGTH_BITS & 0xff {
            1 => Kind::Payload,
            2 => Kind::Filler,
            _ => return None,
        };
        let dependencies = (word >> DEPENDENCIES_SHIFT) as u8;
        Some(Self { lsn: Lsn(fields.u64(0)), kind, dependencies, length: word & ((1 << LENGTH_BITS) - 1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back() {
        for (kind, dependencies, length) in
            [(Kind::Payload, 0, 0), (Kind::Payload, 255, (1 << LENGTH_BITS) - 1), (Kind::Filler, 0, 0)]
        {
            let header = RecordHeader { lsn: Lsn(77), kind, dependencies, length };
            assert_eq!(RecordHeader::decode(&header.encode()), Some(header));
        }
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        assert_eq!(RecordHeader::decode(&[0; RECORD_HEADER]), None);
        assert_eq!(RecordHeader::decode(&[0xff; RECORD_HEADER]), None);
    }
}
