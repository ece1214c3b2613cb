//! The slot: a checkpoint area's bytes in the checkpoint file, one of two copies.

use ishigaki_base::LogId;

use super::VERSION;
use super::numbers::{Reader, put_all};
use super::sealed::{self, Unfit};
use crate::{Area, FileId, MemberId};

/// What it begins with.
pub(crate) const MAGIC: [u8; 4] = *b"ISPA";

/// An area's bytes, and when they were written among the member's entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) log: LogId,
    pub(crate) member: MemberId,
    /// Which of its profile's areas.
    pub(crate) area: u8,
    /// The file that had the area's name then.
    pub(crate) file: FileId,
    /// Counts the member's slots. Of an area's two copies the larger one counts.
    pub(crate) sequence: u64,
    /// They were written after this entry of the member, and before the next one.
    pub(crate) after: u64,
    /// [`Area::LENGTH`] of them.
    pub(crate) bytes: Vec<u8>,
}

impl Slot {
    /// Bytes of a copy on the medium.
    pub(crate) const LENGTH: usize = 8192;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(Self::LENGTH);
        body.extend_from_slice(&self.log.0.to_le_bytes());
        body.extend_from_slice(&self.bytes);
        let numbers = [self.member.0.into(), self.area.into(), self.file.0.into(), self.sequence, self.after];
        put_all(&mut body, &numbers);
        sealed::wrap(MAGIC, &body)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        sealed::decode(VERSION, MAGIC, bytes, |reader, _| Self::read(reader))
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let log = reader.log()?;
        let bytes = reader.run(Area::LENGTH)?.to_vec();
        let member = MemberId(reader.number()?.try_into().ok()?);
        let area = reader.below(Area::MOST as u64)? as u8;
        let (file, sequence, after) = (FileId(reader.short()?), reader.number()?, reader.number()?);
        Some(Self { log, member, area, file, sequence, after, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_reads_back_and_fits_its_place() {
        let slot = Slot {
            log: LogId(u64::MAX),
            member: MemberId(u16::MAX),
            area: 1,
            file: FileId(u32::MAX),
            sequence: u64::MAX,
            after: u64::MAX,
            bytes: vec![3; 4096],
        };
        let bytes = slot.encode();
        assert!(bytes.len() <= Slot::LENGTH);
        assert_eq!(Slot::decode(&bytes).unwrap(), slot);
    }
}
