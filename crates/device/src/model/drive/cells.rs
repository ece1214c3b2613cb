//! The bytes of a drive: blocks that take memory from their first write to their last trim.

use std::collections::BTreeMap;
use std::ops::Range;

use super::BLOCK;

/// The bytes of a block.
pub(super) type Block = [u8; BLOCK];

/// Blocks of a region.
const REGION: u64 = 512;

type Region = [Option<Box<Block>>; REGION as usize];

/// Blocks by their number; who is not here is all zeros.
#[derive(Debug, Default)]
pub(super) struct Cells {
    regions: BTreeMap<u64, Box<Region>>,
    count: u64,
}

impl Cells {
    /// How many take memory.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn get(&self, block: u64) -> Option<&Block> {
        self.regions.get(&(block / REGION))?[(block % REGION) as usize].as_deref()
    }

    /// The block, which takes memory from now on.
    pub(super) fn get_mut(&mut self, block: u64) -> &mut Block {
        let place = place_in(&mut self.regions, block);
        if place.is_none() {
            self.count += 1;
        }
        place.get_or_insert_with(|| Box::new([0; BLOCK]))
    }

    /// The block; what is here is all zeros afterwards.
    pub(super) fn take(&mut self, block: u64) -> Option<Box<Block>> {
        let region = self.regions.get_mut(&(block / REGION))?;
        let taken = region[(block % REGION) as usize].take();
        self.count -= u64::from(taken.is_some());
        taken
    }

    /// Those in that range that take memory, in their order.
    pub(super) fn present(&self, blocks: Range<u64>) -> Vec<u64> {
        let regions = self.regions.range(blocks.start / REGION..blocks.end.div_ceil(REGION));
        let numbered = regions.flat_map(|(region, places)| (region * REGION..).zip(places.iter()));
        let there = numbered.filter(|(block, place)| place.is_some() && blocks.contains(block));
        there.map(|(block, _)| block).collect()
    }
}

fn place_in(regions: &mut BTreeMap<u64, Box<Region>>, block: u64) -> &mut Option<Box<Block>> {
    let region = regions.entry(block / REGION).or_insert_with(|| Box::new([const { None }; REGION as usize]));
    &mut region[(block % REGION) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_takes_memory() {
        let mut cells = Cells::default();
        for block in [0, 511, 512, 1 << 40] {
            cells.get_mut(block)[7] = 1;
        }
        assert_eq!((cells.count(), cells.present(0..u64::MAX)), (4, vec![0, 511, 512, 1 << 40]));
        assert_eq!(cells.present(1..512), [511]);
        assert!(cells.get(511).is_some_and(|block| block[7] == 1) && cells.get(510).is_none());
        assert!(cells.take(511).is_some() && cells.take(511).is_none() && cells.take(1 << 30).is_none());
        assert_eq!((cells.count(), cells.get(511)), (3, None));
    }
}
