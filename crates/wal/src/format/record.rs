//! The record: what an engine logs under one LSN.

use ishigaki_base::Lsn;

use super::Fields;

/// Bytes of a record's header.
pub(crate) const RECORD_HEADER: usize = 16;

/// Bits of a record's length: 48, enough for 256 TiB.
const LENGTH_BITS: u32 = 48;

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
    /// Bytes of payload behind the header.
    pub(crate) length: u64,
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
        bytes[8..16].copy_from_slice(&(self.length | kind << LENGTH_BITS).to_le_bytes());
        bytes
    }

    /// `None` for a kind that this version does not know.
    pub(crate) fn decode(bytes: &[u8; RECORD_HEADER]) -> Option<Self> {
        let fields = Fields(bytes);
        let word = fields.u64(8);
        let kind = match word >> LENGTH_BITS {
            1 => Kind::Payload,
            2 => Kind::Filler,
            _ => return None,
        };
        Some(Self { lsn: Lsn(fields.u64(0)), kind, length: word & ((1 << LENGTH_BITS) - 1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back() {
        for (kind, length) in [(Kind::Payload, 0), (Kind::Payload, (1 << LENGTH_BITS) - 1), (Kind::Filler, 0)] {
            let header = RecordHeader { lsn: Lsn(77), kind, length };
            assert_eq!(RecordHeader::decode(&header.encode()), Some(header));
        }
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        assert_eq!(RecordHeader::decode(&[0; RECORD_HEADER]), None);
        assert_eq!(RecordHeader::decode(&[0xff; RECORD_HEADER]), None);
    }
}
