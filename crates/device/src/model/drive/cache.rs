//! What a drive may lose: what its blocks held before the writes that were not flushed.
//!
//! Reads see the newest bytes in the [`Cells`]; here is what a power cut may put back, by generations. A flush seals the
//! generation of the writes before it, and when it is done that generation is forgotten with all before it: nothing can put
//! back what was there before. A write that comes while a flush is going on belongs to the next generation, and what it
//! replaced is kept there.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Range;

use fastrand::Rng;

use super::cells::{Block, Cells};
use super::{BLOCK, SECTORS};
use crate::SECTOR;
use crate::sim::Chance;

/// Generations that were not flushed, oldest first; writes go to the last one.
#[derive(Debug)]
pub(super) struct Cache {
    generations: VecDeque<Generation>,
    /// The number of the first one.
    first: u64,
    /// Blocks in all generations.
    count: u64,
    /// The most that there may be.
    limit: u64,
}

/// What the writes between two flushes have replaced.
#[derive(Debug, Default)]
struct Generation {
    before: BTreeMap<u64, Before>,
    /// In the order in which they came; some may be gone.
    order: VecDeque<u64>,
}

/// What a block held before its first write of a generation.
#[derive(Debug)]
struct Before {
    /// Zeros, if nothing.
    bytes: Option<Box<Block>>,
    /// A bit for each sector that was written.
    written: u8,
}

/// A number for the writes before a flush.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sealed(u64);

impl Cache {
    /// An empty one, for so many blocks.
    pub(super) fn new(limit: u64) -> Self {
        Self { generations: VecDeque::from([Generation::default()]), first: 0, count: 0, limit }
    }

    /// Blocks that take memory here, at most.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Sectors of a block are about to be written. Where the cache is full, or there is memory for no more than so many of
    /// its blocks, the drive has written its oldest ones.
    pub(super) fn remember(&mut self, cells: &Cells, block: u64, sectors: Range<usize>, most: u64) {
        let newest = self.generations.back_mut().expect("one is always open");
        let before = newest.before.entry(block).or_insert_with(|| {
            newest.order.push_back(block);
            self.count += 1;
            Before { bytes: cells.get(block).map(|bytes| Box::new(*bytes)), written: 0 }
        });
        before.written |= bits(sectors);
        self.make_room(self.limit.min(most));
    }

    fn make_room(&mut self, limit: u64) {
        for generation in &mut self.generations {
            while self.count > limit {
                let Some(oldest) = generation.order.pop_front() else { break };
                self.count -= u64::from(generation.before.remove(&oldest).is_some());
            }
        }
    }

    /// Sectors of a block are durable as they are here, whatever comes.
    pub(super) fn settle_sectors(&mut self, cells: &Cells, block: u64, sectors: Range<usize>) {
        let now = cells.get(block);
        for before in self.generations.iter_mut().filter_map(|generation| generation.before.get_mut(&block)) {
            before.written &= !bits(sectors.clone());
            // What is written later replaces these bytes, not those before.
            let bytes = before.bytes.get_or_insert_with(|| Box::new([0; BLOCK]));
            let place = sectors.start * SECTOR..sectors.end * SECTOR;
            match now {
                Some(now) => bytes[place.clone()].copy_from_slice(&now[place]),
                None => bytes[place].fill(0),
            }
        }
    }

    /// A flush begins: what is written from now on is not part of it.
    pub(super) fn seal(&mut self) -> Sealed {
        self.generations.push_back(Generation::default());
        Sealed(self.first + self.generations.len() as u64 - 2)
    }

    /// That flush is done.
    pub(super) fn settle(&mut self, Sealed(number): Sealed) {
        while self.first <= number
            && let Some(generation) = self.generations.pop_front()
        {
            self.count -= generation.before.len() as u64;
            self.first += 1;
        }
    }

    /// The power is cut: of all sectors that were not flushed, each holds what was written last or what it held before one
    /// of the writes. Returns how many have lost a write, and forgets everything.
    pub(super) fn lose(&mut self, cells: &mut Cells, rng: &mut Rng) -> u64 {
        let chance = Chance::draw(rng);
        let (mut kept, mut lost) = (HashSet::new(), HashSet::new());
        for generation in self.generations.iter().rev() {
            for (&block, before) in &generation.before {
                for sector in (0..SECTORS).filter(|sector| before.written & bits(*sector..sector + 1) != 0) {
                    if kept.contains(&(block, sector)) {
                        continue;
                    }
                    if chance.hits(rng) {
                        kept.insert((block, sector));
                        continue;
                    }
                    let place = sector * SECTOR..(sector + 1) * SECTOR;
                    let old = before.bytes.as_ref().map_or(&[0; SECTOR][..], |bytes| &bytes[place.clone()]);
                    if cells.get(block).map_or(&[0; SECTOR][..], |bytes| &bytes[place.clone()]) != old {
                        cells.get_mut(block)[place].copy_from_slice(old);
                        lost.insert((block, sector));
                    }
                }
            }
        }
        *self = Self::new(self.limit);
        lost.len() as u64
    }
}

/// A bit for each of those sectors.
fn bits(sectors: Range<usize>) -> u8 {
    sectors.fold(0, |bits, sector| bits | 1 << sector)
}
