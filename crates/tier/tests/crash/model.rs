//! A model of a volume's sectors: what a reader may find, and what a power cut may leave.

use std::collections::BTreeSet;

use ishigaki_device::{AlignedBuffer, Device, SECTOR};
use ishigaki_tier::{Mode, Volume};

use crate::{CHUNK, CHUNKS, LENGTH, USED};

/// What a sector may be.
#[derive(Clone, Debug)]
struct Sector {
    /// As a reader sees it; anything where it is `None`.
    now: Option<u64>,
    /// What a power cut may leave; anything where it holds `None`.
    after: BTreeSet<Option<u64>>,
}

/// The sectors of a volume.
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) mode: Mode,
    sectors: Vec<Sector>,
    /// Sectors of the change that is not answered yet: the first one, how many, and what they become.
    pending: Option<(usize, usize, Option<u64>)>,
    /// Whether it is known what all of them are.
    is_known: bool,
}

impl Model {
    pub(crate) fn new(name: &'static str, mode: Mode) -> Self {
        let zero = Sector { now: Some(0), after: BTreeSet::from([Some(0)]) };
        let sectors = vec![zero; (LENGTH / SECTOR as u64) as usize];
        Self { name, mode, sectors, pending: None, is_known: true }
    }

    /// Has sectors become a value. Whether that was answered.
    pub(crate) fn change(&mut self, offset: u64, count: usize, value: Option<u64>, by: impl FnOnce() -> bool) -> bool {
        let first = offset as usize / SECTOR;
        self.pending = Some((first, count, value));
        let is_answered = by();
        for sector in &mut self.sectors[first..][..count] {
            sector.after.insert(value);
            if is_answered {
                sector.now = value;
            }
        }
        if is_answered {
            self.pending = None;
        }
        is_answered
    }

    /// The process has died, and nothing that was written is lost: a reader sees what was answered, and may see what was not.
    pub(crate) fn outlived(&mut self) {
        if std::mem::replace(&mut self.is_known, false) {
            for sector in &mut self.sectors {
                sector.after = BTreeSet::from([sector.now]);
            }
        }
        if let Some((first, count, value)) = self.pending.take() {
            for sector in &mut self.sectors[first..][..count] {
                sector.after.insert(value);
            }
        }
    }

    pub(crate) fn synced(&mut self) {
        for sector in &mut self.sectors {
            sector.after = BTreeSet::from([sector.now]);
        }
    }

    /// Takes what is there now for what was there before, if it may be. Whether the medium still answers.
    pub(crate) fn take(&mut self, volume: &Volume, what: &str) -> bool {
        self.is_known = false;
        for (place, sector) in self.sectors.iter_mut().enumerate() {
            // Only these were ever written.
            if (place * SECTOR) as u64 % CHUNK >= USED {
                continue;
            }
            let Some(found) = try_read(volume, (place * SECTOR) as u64, 1) else { return false };
            let found = found[0];
            let is_anything = sector.after.contains(&None);
            assert!(
                is_anything || sector.after.contains(&found),
                "{what}: sector {place} of {} is {found:?}, may be {:?}",
                self.name,
                sector.after
            );
            *sector = Sector { now: found, after: BTreeSet::from([found]) };
        }
        self.is_known = true;
        self.pending = None;
        true
    }

    /// Whether the medium still answers.
    pub(crate) fn check(&self, volume: &Volume, what: &str) -> bool {
        for chunk in 0..CHUNKS {
            let (first, count) = (chunk * CHUNK, (USED as usize) / SECTOR);
            let Some(found) = try_read(volume, first, count) else { return false };
            for (place, found) in found.into_iter().enumerate() {
                let place = first as usize / SECTOR + place;
                let sector = &self.sectors[place];
                assert!(
                    sector.now.is_none() || sector.now == found,
                    "{what}: sector {place} of {} is {found:?}, was {:?}",
                    self.name,
                    sector.now
                );
            }
        }
        true
    }
}

/// A sector of a value: each eight bytes say it, with their place.
pub(crate) fn fill(bytes: &mut [u8], value: u64) {
    for sector in bytes.chunks_exact_mut(SECTOR) {
        for word in sector.chunks_exact_mut(8) {
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// The values of sectors, `None` for what no write has made; nothing where the medium does not answer.
pub(crate) fn try_read(volume: &Volume, offset: u64, count: usize) -> Option<Vec<Option<u64>>> {
    let block = volume.promise().block_size as u64;
    let start = offset / block * block;
    let end = (offset + (count * SECTOR) as u64).next_multiple_of(block);
    let mut buffer = AlignedBuffer::zeroed((end - start) as usize);
    volume.read_at(start, &mut buffer).ok()?;
    let part = &buffer[(offset - start) as usize..][..count * SECTOR];
    let sectors = part
        .chunks_exact(SECTOR)
        .map(|sector| {
            let mut words = sector.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
            let first = words.next().expect("a sector has words");
            words.all(|word| word == first).then_some(first)
        })
        .collect();
    Some(sectors)
}
