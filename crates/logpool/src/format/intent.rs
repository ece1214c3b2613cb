//! The intent: what a round is about to write over at home. It is durable before the first block is.

use std::collections::BTreeMap;

use ishigaki_base::LogId;

use super::VERSION;
use super::extent::BLOCKS;
use super::numbers::{Reader, put, put_all};
use super::sealed::{self, Unfit};
use crate::MemberId;

/// What it begins with.
pub(crate) const MAGIC: [u8; 4] = *b"ISPI";

/// Blocks of an extent that a round writes over, with their new checksums.
pub(crate) type NewSums = [Option<u32>; BLOCKS];

/// What a round is about to do. A power cut in it leaves blocks that are neither as they were nor as they were to be; with the
/// entries up to [`entries`](Self::entries) made in them, each has the checksum that is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    pub(crate) log: LogId,
    pub(crate) member: MemberId,
    /// The last entry that was home before.
    pub(crate) base: u64,
    /// The last entry that will be.
    pub(crate) entries: u64,
    /// By place.
    pub(crate) sums: BTreeMap<u32, NewSums>,
}

impl Intent {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = self.log.0.to_le_bytes().to_vec();
        put_all(&mut body, &[self.member.0.into(), self.base, self.entries]);
        for (place, sums) in &self.sums {
            put(&mut body, (*place).into());
            let mask = sums.iter().enumerate().map(|(block, sum)| u64::from(sum.is_some()) << block);
            put(&mut body, mask.sum());
            sums.iter().flatten().for_each(|sum| body.extend_from_slice(&sum.to_le_bytes()));
        }
        sealed::wrap(MAGIC, &body)
    }

    /// The most bytes of an intent of so many extents.
    pub(crate) fn longest(extents: u64) -> u64 {
        128 + extents * (5 + 3 + BLOCKS as u64 * 4)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        sealed::decode(VERSION, MAGIC, bytes, |reader, _| Self::read(reader))
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let log = reader.log()?;
        let member = MemberId(reader.number()?.try_into().ok()?);
        let (base, entries) = (reader.number()?, reader.number()?);
        let mut sums = BTreeMap::new();
        while !reader.is_empty() {
            let (place, mask) = (reader.short()?, reader.below(1 << BLOCKS)?);
            let mut new = [None; BLOCKS];
            for (block, sum) in new.iter_mut().enumerate() {
                if mask >> block & 1 == 1 {
                    *sum = Some(u32::from_le_bytes(reader.run(4)?.try_into().ok()?));
                }
            }
            sums.insert(place, new);
        }
        Some(Self { log, member, base, entries, sums })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_reads_back() {
        let mut sums = [None; BLOCKS];
        (sums[0], sums[15]) = (Some(7), Some(u32::MAX));
        let sums = BTreeMap::from([(3, sums), (900, [None; BLOCKS])]);
        let intent = Intent { log: LogId(9), member: MemberId(1), base: 4, entries: 9, sums };
        assert_eq!(Intent::decode(&intent.encode()).unwrap(), intent);
        let sums = (u32::MAX - 9..u32::MAX).map(|place| (place, [Some(1); BLOCKS])).collect();
        let largest =
            Intent { log: LogId(u64::MAX), member: MemberId(u16::MAX), base: u64::MAX, entries: u64::MAX, sums };
        assert!(largest.encode().len() as u64 <= Intent::longest(9));
    }
}
