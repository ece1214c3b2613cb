//! Spares: segments that belong to no stream, to be used again.
//!
//! A segment is never removed from a stream but renamed, to a spare's name. That matters after a sync of names that failed:
//! what it was to make durable may be undone by any later power cut, and no later sync helps. A lost removal could not be
//! seen, nor done again. A lost rename can: the segment has a spare's name, and a sync of one more rename makes sure that it
//! never again has its old one. So whoever opens a log that was not closed cleanly renames all spares first.
//!
//! A spare holds what it held. It is blanked before a stream gets it, because behind a stream's end the medium is blank.

use ishigaki_base::StreamId;
use ishigaki_device::{AlignedBuffer, Device, Directory};

use crate::Result;
use crate::format::{parse_spare_name, segment_name, spare_name};

/// Bytes written at once when a spare is blanked.
const STEP: u64 = 1 << 20;

/// A segment that belongs to no stream.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) name: String,
    pub(super) length: u64,
}

/// The spares of a log.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    /// Number of the next name.
    next: u64,
    /// Durably zero.
    pub(super) blank: Vec<Spare>,
    /// To be blanked before they are used.
    pub(super) soiled: Vec<Spare>,
}

impl Spares {
    /// Finds those of a directory. Unless the log was closed cleanly, all get new names, durably: see above.
    pub(crate) fn survey(directory: &dyn Directory, clean: bool) -> Result<Self> {
        let mut numbers: Vec<u64> = directory.list()?.iter().filter_map(|name| parse_spare_name(name)).collect();
        numbers.sort_unstable();
        let mut spares = Self { next: numbers.last().map_or(0, |last| last + 1), ..Self::default() };
        for &number in &numbers {
            let mut name = spare_name(number);
            if !clean {
                let old = std::mem::replace(&mut name, spares.next_name());
                directory.rename(&old, &name)?;
            }
            let length = directory.open(&name)?.len();
            spares.soiled.push(Spare { name, length });
        }
        if !clean && !numbers.is_empty() {
            directory.sync()?;
        }
        Ok(spares)
    }

    /// A name that no spare has.
    pub(super) fn next_name(&mut self) -> String {
        self.next += 1;
        spare_name(self.next - 1)
    }

    /// Takes a segment away from its stream, durably.
    pub(crate) fn adopt(&mut self, directory: &dyn Directory, stream: StreamId, index: u64, length: u64) -> Result<()> {
        let name = self.next_name();
        directory.rename(&segment_name(stream, index), &name)?;
        directory.sync()?;
        self.soiled.push(Spare { name, length });
        Ok(())
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.blank.iter().chain(&self.soiled).map(|spare| spare.length).sum()
    }

    /// A blank one of that length. A longer one must not become a segment: a trim that has just let go of it is about to remove it.
    pub(super) fn take_blank(&mut self, length: u64) -> Option<Spare> {
        take_last(&mut self.blank, length)
    }

    /// One of that length that is not blank.
    pub(super) fn take_soiled(&mut self, length: u64) -> Option<Spare> {
        take_last(&mut self.soiled, length)
    }

    /// Takes one out for which `is_wanted` holds; one that is not blank rather than one that is.
    pub(super) fn take_if(&mut self, is_wanted: impl Fn(&Spare) -> bool) -> Option<Spare> {
        for spares in [&mut self.soiled, &mut self.blank] {
            if let Some(place) = spares.iter().position(&is_wanted) {
                return Some(spares.swap_remove(place));
            }
        }
        None
    }
}

fn take_last(spares: &mut Vec<Spare>, length: u64) -> Option<Spare> {
    spares.iter().rposition(|spare| spare.length == length).map(|place| spares.swap_remove(place))
}

/// Makes a device all zero, durably. Its blocks are then allocated, so that a synchronous write changes nothing but bytes.
pub(super) fn blank(device: &dyn Device, trim: bool) -> ishigaki_device::Result<()> {
    let length = device.len();
    if trim && device.promise().trim {
        // They read as anything now; what makes them zero is below.
        device.trim(0, length)?;
    }
    let zeros = AlignedBuffer::zeroed(length.min(STEP) as usize);
    let mut offset = 0;
    while offset < length {
        let step = (length - offset).min(STEP);
        device.write_at(offset, &zeros[..step as usize])?;
        offset += step;
    }
    device.sync()
}

#[cfg(test)]
mod tests {
    use ishigaki_base::random::Seed;
    use ishigaki_device::{Fault, SECTOR, SimDirectory};

    use super::*;

    #[test]
    fn a_segment_whose_rename_a_failed_sync_has_lost_never_returns_to_its_stream() {
        for seed in 0..50 {
            let directory = SimDirectory::with_seed(Seed(seed));
            let old = segment_name(StreamId(0), 0);
            directory.create(&old, 4096).unwrap();
            directory.sync().unwrap();
            directory.inject(Fault::SyncError { nth: directory.syncs() });
            let mut spares = Spares::survey(&directory, true).unwrap();
            spares.adopt(&directory, StreamId(0), 0, 4096).unwrap_err();
            assert_eq!(Spares::survey(&directory, false).unwrap().bytes(), 4096);
            let names = directory.survivors(Seed(seed)).list().unwrap();
            assert!(!names.contains(&old) && names.len() == 1, "{names:?}");
        }
    }

    #[test]
    fn a_blanked_spare_is_zero_after_any_power_cut() {
        for (seed, trim) in (0..20).flat_map(|seed| [(seed, true), (seed, false)]) {
            let directory = SimDirectory::with_seed(Seed(seed));
            let device = directory.create("spare", 16 << 10).unwrap();
            directory.sync().unwrap();
            let mut bytes = AlignedBuffer::zeroed(16 << 10);
            bytes.fill(7);
            device.write_durable(0, &bytes).unwrap();
            blank(device.as_ref(), trim).unwrap();
            let device = directory.survivors(Seed(seed)).open("spare").unwrap();
            device.read_at(0, &mut bytes).unwrap();
            assert!(bytes.iter().all(|&byte| byte == 0), "sectors of {SECTOR} bytes");
        }
    }
}
