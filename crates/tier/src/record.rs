//! The records of the map, as the log has them. All are whole states: the last one of a thing counts.
//!
//! ```text
//!  pool     1 │ version u8 │ chunk u64
//!  volume   2 │ volume u32 │ mode u8 │ pinned u8 │ length u64 │ name …
//!  gone     3 │ volume u32
//!  slot     4 │ slot u32 │ volume u32 │ chunk u32 │ open u8 │ valid … │ dirty …      a bit for each block of the chunk, in words of 64
//!  free     5 │ slot u32
//!  session  6 │ session u64
//! ```
//!
//! Numbers are little-endian.

use ishigaki_base::Fields;

use crate::blocks::Blocks;
use crate::settings::Mode;

/// The version of these records.
pub(crate) const VERSION: u8 = 1;

/// The number of a volume in its pool; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct VolumeId(pub(crate) u32);

/// A place of a chunk on the fast device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotId(pub(crate) u32);

/// The number of a time in which all that was written is known, synced or not: memory of that number is believed beside the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session(pub(crate) u64);

/// What the map says of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// The volume and its chunk.
    pub(crate) owner: (VolumeId, u32),
    /// Blocks that are clean may be written over before the map says more of them: after a crash they are not to be trusted.
    pub(crate) open: bool,
    /// Blocks that are here.
    pub(crate) valid: Blocks,
    /// Of these: blocks that are nowhere else.
    pub(crate) dirty: Blocks,
}

impl Mapped {
    /// Blocks that are here and elsewhere.
    pub(crate) fn clean(&self) -> Blocks {
        let mut clean = self.valid.clone();
        clean.subtract(&self.dirty);
        clean
    }

    /// Whether it speaks of the blocks of a chunk of that many bytes, and of dirty ones that are there.
    pub(crate) fn fits(&self, chunk: u64) -> bool {
        let mut astray = self.dirty.clone();
        astray.subtract(&self.valid);
        self.valid.fits(chunk) && self.dirty.fits(chunk) && astray.is_empty()
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The first one, and the first of each restated map.
    Pool { version: u8, chunk: u64 },
    /// A volume is there. Its slow device has its name.
    Volume { id: VolumeId, mode: Mode, pinned: bool, length: u64, name: String },
    /// And is no more.
    Gone { id: VolumeId },
    /// What a slot holds.
    Slot { id: SlotId, mapped: Mapped },
    /// A slot holds nothing.
    Free { id: SlotId },
    /// Memory of that session is believed; none where that is 0.
    Session(Session),
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(96);
        match self {
            Self::Pool { version, chunk } => {
                bytes.extend([1, *version]);
                bytes.extend(chunk.to_le_bytes());
            }
            Self::Volume { id, mode, pinned, length, name } => {
                bytes.push(2);
                bytes.extend(id.0.to_le_bytes());
                bytes.extend([mode.number(), u8::from(*pinned)]);
                bytes.extend(length.to_le_bytes());
                bytes.extend(name.as_bytes());
            }
            Self::Gone { id } => {
                bytes.push(3);
                bytes.extend(id.0.to_le_bytes());
            }
            Self::Slot { id, mapped } => {
                bytes.push(4);
                bytes.extend(id.0.to_le_bytes());
                bytes.extend(mapped.owner.0.0.to_le_bytes());
                bytes.extend(mapped.owner.1.to_le_bytes());
                bytes.push(u8::from(mapped.open));
                bytes.extend(mapped.valid.to_bytes());
                bytes.extend(mapped.dirty.to_bytes());
            }
            Self::Free { id } => {
                bytes.push(5);
                bytes.extend(id.0.to_le_bytes());
            }
            Self::Session(session) => {
                bytes.push(6);
                bytes.extend(session.0.to_le_bytes());
            }
        }
        bytes
    }

    /// Reads one. `None` for what no version of this program writes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let fields = Fields(rest);
        let is = |length: usize| rest.len() == length;
        Some(match kind {
            1 if is(9) => Self::Pool { version: rest[0], chunk: fields.u64(1) },
            2 if rest.len() > 14 && rest[5] <= 1 => Self::Volume {
                id: VolumeId(fields.u32(0)),
                mode: Mode::of_number(rest[4])?,
                pinned: rest[5] == 1,
                length: fields.u64(6),
                name: String::from_utf8(rest[14..].to_vec()).ok()?,
            },
            3 if is(4) => Self::Gone { id: VolumeId(fields.u32(0)) },
            4 if rest.len() > 13 && (rest.len() - 13).is_multiple_of(16) && rest[12] <= 1 => {
                let (valid, dirty) = rest[13..].split_at((rest.len() - 13) / 2);
                let mapped = Mapped {
                    owner: (VolumeId(fields.u32(4)), fields.u32(8)),
                    open: rest[12] == 1,
                    valid: Blocks::from_bytes(valid),
                    dirty: Blocks::from_bytes(dirty),
                };
                Self::Slot { id: SlotId(fields.u32(0)), mapped }
            }
            5 if is(4) => Self::Free { id: SlotId(fields.u32(0)) },
            6 if is(8) => Self::Session(Session(fields.u64(0))),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written_and_nothing_else_is() {
        let mut valid = Blocks::none(1 << 20);
        valid.insert(3..77);
        let mut dirty = Blocks::none(1 << 20);
        dirty.insert(5..6);
        let mapped = Mapped { owner: (VolumeId(7), 9), open: true, valid, dirty };
        let records = [
            Record::Pool { version: VERSION, chunk: 1 << 20 },
            Record::Volume {
                id: VolumeId(1),
                mode: Mode::WriteThrough,
                pinned: true,
                length: 1 << 40,
                name: "stock".to_owned(),
            },
            Record::Gone { id: VolumeId(1) },
            Record::Slot { id: SlotId(4), mapped },
            Record::Free { id: SlotId(4) },
            Record::Session(Session(1 << 60)),
        ];
        for record in records {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Some(record.clone()));
            for length in 0..bytes.len() {
                // A shorter name is a name, and fewer blocks are those of a smaller chunk.
                let has_rest = matches!(record, Record::Volume { .. } | Record::Slot { .. });
                assert!(Record::decode(&bytes[..length]).is_none() || has_rest, "{record:?} cut to {length}");
            }
        }
        assert_eq!(Record::decode(&[9, 0, 0]), None);
    }
}
