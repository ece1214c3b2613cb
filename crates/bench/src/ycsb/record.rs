//! A record: who wrote it last, how often it was modified, and a payload that gives both away if they do not belong
//! together.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The writer of what was there in the beginning.
pub(super) const NOBODY: u32 = u32::MAX;

/// What a record begins with; the rest of it is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Stamp {
    /// The worker whose write this is.
    pub(super) writer: U32,
    /// Which of its transactions.
    pub(super) sequence: U32,
    /// How often it was read, changed and written back.
    pub(super) modified: U64,
}

impl Stamp {
    /// Bytes that a record has at least.
    pub(super) const LENGTH: usize = size_of::<Self>();

    pub(super) fn new(writer: u32, sequence: u32, modified: u64) -> Self {
        Self { writer: writer.into(), sequence: sequence.into(), modified: modified.into() }
    }

    /// Writes the record of that key over all of `record`.
    pub(super) fn write(&self, key: u64, record: &mut [u8]) {
        let (stamp, rest) = record.split_at_mut(Self::LENGTH);
        stamp.copy_from_slice(self.as_bytes());
        let filling = self.filling(key).to_le_bytes();
        for part in rest.chunks_mut(filling.len()) {
            part.copy_from_slice(&filling[..part.len()]);
        }
    }

    /// The stamp of the record of that key; `None` if its bytes were not written together.
    pub(super) fn read(key: u64, record: &[u8]) -> Option<Self> {
        let (stamp, rest) = Self::read_from_prefix(record).ok()?;
        let filling = stamp.filling(key).to_le_bytes();
        let whole = rest.chunks(filling.len()).all(|part| part == &filling[..part.len()]);
        whole.then_some(stamp)
    }

    /// What the rest of the record repeats.
    fn filling(&self, key: u64) -> u64 {
        let own = u64::from(self.writer.get()) << 32 | u64::from(self.sequence.get());
        (own ^ key.rotate_left(17) ^ self.modified.get().rotate_left(40)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_and_one_of_two_parts_does_not() {
        let (mut one, mut other) = ([0; 100], [0; 100]);
        Stamp::new(1, 2, 3).write(7, &mut one);
        Stamp::new(1, 3, 3).write(7, &mut other);
        assert_eq!(Stamp::read(7, &one), Some(Stamp::new(1, 2, 3)));
        assert_eq!(Stamp::read(8, &one), None, "another key's");
        for cut in [1, 5, 50, 99] {
            let mixed = [&one[..cut], &other[cut..]].concat();
            if mixed != one && mixed != other {
                assert_eq!(Stamp::read(7, &mixed), None, "cut at {cut}");
            }
        }
        assert_eq!(Stamp::read(7, &one[..10]), None);
        let mut bare = [0; Stamp::LENGTH];
        Stamp::new(1, 2, 3).write(7, &mut bare);
        assert_eq!(Stamp::read(7, &bare), Some(Stamp::new(1, 2, 3)));
    }
}
