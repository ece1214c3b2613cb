//! The sectors of one simulated device: what is durable, what reads see, and what a power cut may find instead.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use fastrand::Rng;

use super::Chance;
use crate::SECTOR;

/// The bytes of a sector. Shared, because the same version lies in several maps and in every survivor.
type Sector = Arc<[u8; SECTOR]>;

/// A version of a sector that a power cut may find.
#[derive(Clone, Debug)]
struct Version {
    bytes: Sector,
    /// A failed sync has dropped it: no later sync makes it durable.
    lost: bool,
}

/// What one device holds. Sectors that are in no map are zero, so that an empty device costs nothing to copy.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    length: u64,
    /// What a power cut leaves of a sector at least.
    durable: BTreeMap<u64, Sector>,
    /// What reads see.
    visible: BTreeMap<u64, Sector>,
    /// What a power cut may leave instead of the durable bytes, oldest first; never an empty list. Lost versions come
    /// before those in flight, because a failing sync loses all there are.
    unsure: BTreeMap<u64, Vec<Version>>,
}

impl Contents {
    /// All zero and durable.
    pub(super) fn new(length: u64) -> Self {
        Self { length, durable: BTreeMap::new(), visible: BTreeMap::new(), unsure: BTreeMap::new() }
    }

    /// Length in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Becomes longer by zeros.
    pub(super) fn grow(&mut self, length: u64) {
        self.length = length;
    }

    /// Fills `buffer` with what reads see.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) {
        for (sector, bytes) in sectors(offset, buffer.len() as u64).zip(buffer.chunks_exact_mut(SECTOR)) {
            match self.visible.get(&sector) {
                Some(visible) => bytes.copy_from_slice(&visible[..]),
                None => bytes.fill(0),
            }
        }
    }

    /// Puts bytes in flight.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (sector, bytes) in sectors(offset, bytes.len() as u64).zip(bytes.as_chunks::<SECTOR>().0) {
            self.put_in_flight(sector, Arc::new(*bytes));
        }
    }

    /// Makes bytes durable, and nothing else.
    pub(super) fn write_durable(&mut self, offset: u64, bytes: &[u8]) {
        for (sector, bytes) in sectors(offset, bytes.len() as u64).zip(bytes.as_chunks::<SECTOR>().0) {
            let bytes = Arc::new(*bytes);
            self.durable.insert(sector, Arc::clone(&bytes));
            self.visible.insert(sector, bytes);
            // Whatever was in flight here is older than this.
            self.unsure.remove(&sector);
        }
    }

    /// A write that fails: any subset of its sectors goes in flight.
    pub(super) fn write_some(&mut self, offset: u64, bytes: &[u8], rng: &mut Rng) {
        let chance = Chance::draw(rng);
        for (sector, bytes) in sectors(offset, bytes.len() as u64).zip(bytes.as_chunks::<SECTOR>().0) {
            if chance.hits(rng) {
                self.put_in_flight(sector, Arc::new(*bytes));
            }
        }
    }

    /// Forgets a range: each sector may read as zeros, as before, or as garbage.
    pub(super) fn trim(&mut self, offset: u64, length: u64, rng: &mut Rng) {
        for sector in sectors(offset, length) {
            match rng.u8(..3) {
                0 => self.put_in_flight(sector, Arc::new([0; SECTOR])),
                1 => {
                    let mut garbage = [0; SECTOR];
                    rng.fill(&mut garbage);
                    self.put_in_flight(sector, Arc::new(garbage));
                }
                _ => {}
            }
        }
    }

    /// Makes durable what is in flight, but not what an earlier failed sync lost.
    pub(super) fn sync(&mut self) {
        let durable = &mut self.durable;
        self.unsure.retain(|&sector, versions| match versions.last() {
            Some(newest) if !newest.lost => {
                durable.insert(sector, Arc::clone(&newest.bytes));
                false
            }
            _ => true,
        });
    }

    /// A sync that fails: what was in flight is lost.
    pub(super) fn fail_sync(&mut self) {
        for version in self.unsure.values_mut().flatten() {
            version.lost = true;
        }
    }

    /// What a power cut leaves: for every unsure sector its durable bytes or one of its versions.
    pub(super) fn survivors(&self, rng: &mut Rng) -> Self {
        let mut durable = self.durable.clone();
        let chance = Chance::draw(rng);
        for (&sector, versions) in &self.unsure {
            if !chance.hits(rng) {
                continue;
            }
            let survivor = match chance {
                Chance::Always => versions.last(),
                _ => rng.choice(versions),
            };
            if let Some(version) = survivor {
                durable.insert(sector, Arc::clone(&version.bytes));
            }
        }
        Self { length: self.length, visible: durable.clone(), durable, unsure: BTreeMap::new() }
    }

    /// Flips a bit in everything that a sector may hold.
    pub(super) fn flip_bit(&mut self, offset: u64, bit: u8) {
        let sector = offset / SECTOR as u64;
        let place = (offset % SECTOR as u64) as usize;
        let flip = |bytes: &mut Sector| Arc::make_mut(bytes)[place] ^= 1 << bit;
        flip(self.durable.entry(sector).or_insert_with(zeros));
        flip(self.visible.entry(sector).or_insert_with(zeros));
        for version in self.unsure.get_mut(&sector).into_iter().flatten() {
            flip(&mut version.bytes);
        }
    }

    /// The offsets of the sectors that are not known to be zero.
    pub(super) fn written(&self) -> Vec<u64> {
        // Every write enters the visible bytes, and nothing leaves them.
        self.visible.keys().map(|sector| sector * SECTOR as u64).collect()
    }

    fn put_in_flight(&mut self, sector: u64, bytes: Sector) {
        self.visible.insert(sector, Arc::clone(&bytes));
        self.unsure.entry(sector).or_default().push(Version { bytes, lost: false });
    }
}

fn zeros() -> Sector {
    Arc::new([0; SECTOR])
}

/// The sectors of an aligned range.
fn sectors(offset: u64, length: u64) -> Range<u64> {
    offset / SECTOR as u64..(offset + length) / SECTOR as u64
}
