//! One drive: a modelled medium with its bytes in memory, and a cache that loses power.
//!
//! A [`Drive`] is what a file system or a raw device stands on, where [`ModelledDirectory`](super::ModelledDirectory) is what an
//! engine does. All who use it share its one head, or its channels. What it says it has written may be lost until a sync: a
//! power cut leaves of every sector that was written since the last write or one before it, and nothing works until the
//! power comes back. A sync keeps what was written before it began; the power may go off while it is under way.
//!
//! Parts: [`cells`] are the bytes, [`cache`] is what can be lost.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use parking_lot::{Condvar, Mutex};

use super::hardware::{Hardware, Kind, Request};
use super::{Medium, Pace};
use crate::request::Bounds;
use crate::{Device, Error, Promise, Result, SECTOR};
use cache::Cache;
use cells::Cells;

mod cache;
mod cells;
#[cfg(test)]
mod tests;

/// The unit in which a drive takes memory.
const BLOCK: usize = 4096;

/// Sectors of a block.
const SECTORS: usize = BLOCK / SECTOR;

/// The last of a wait, which nothing interrupts, because it is to end at its moment.
const PRECISE: Duration = Duration::from_millis(20);

/// What messages call a drive.
const NAME: &str = "drive";

/// What a [`Drive`] is.
#[derive(Clone, Debug)]
pub struct DriveSettings {
    /// Its medium. A disk's capacity decides how far apart places on it are, see [`DriveSettings::new`].
    pub medium: Medium,
    /// Its bytes; rounded up to blocks of 4 KiB.
    pub size: ByteSize,
    /// How much memory it may take, for its bytes and for what it may lose. Bytes come first: where there is no room for both,
    /// the oldest of what it may lose is on the medium. A write whose bytes find no room fails, and has written nothing.
    pub memory: ByteSize,
    /// How much it may have said to be written and lose with its power. What is over that is on the medium, the oldest first.
    pub unflushed: ByteSize,
    /// How its time passes.
    pub pace: Pace,
}

impl DriveSettings {
    /// What a drive without a write cache of a known size may lose: a solid-state drive answers when pages are programmed, but
    /// where they are is known for good after a flush.
    pub const UNFLUSHED: ByteSize = ByteSize::mib(256);

    /// A drive of that size, as large as it can get. A disk's arm crosses all of its tracks within that size: seeks are as long
    /// as on a full-sized one, and its places as far apart as they are on the average. Times are real, and slept.
    pub fn new(medium: Medium, size: ByteSize) -> Self {
        let (medium, unflushed) = match medium {
            Medium::Hdd(disk) => {
                let unflushed = disk.write_cache;
                (Medium::Hdd(super::HddSettings { capacity: size, ..disk }), unflushed)
            }
            Medium::Ssd(drive) => (Medium::Ssd(drive), Self::UNFLUSHED),
            Medium::Nvm(memory) => (Medium::Nvm(memory), ByteSize(0)),
        };
        let memory = ByteSize(size.as_u64().saturating_add(unflushed.as_u64()));
        Self { medium, size, memory, unflushed, pace: Pace::Slept }
    }
}

/// What a drive was asked for since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveCounts {
    /// Reads.
    pub reads: u64,
    /// And their bytes.
    pub bytes_read: u64,
    /// Writes, durable or not.
    pub writes: u64,
    /// And their bytes.
    pub bytes_written: u64,
    /// Syncs.
    pub flushes: u64,
    /// Trims.
    pub trims: u64,
    /// How often its power was cut.
    pub power_cuts: u64,
}

/// A modelled drive. Any number of threads may use it at a time; its bytes go with it.
///
/// ```
/// use ishigaki_base::ByteSize;
/// use ishigaki_base::random::Seed;
/// use ishigaki_device::{AlignedBuffer, Device, Drive, DriveSettings, Error, Pace, VirtualClock};
///
/// let clock = VirtualClock::new();
/// let settings = DriveSettings::new("hdd".parse()?, ByteSize::gib(2));
/// let drive = Drive::new(DriveSettings { pace: Pace::Virtual(clock.clone()), ..settings });
/// drive.write_at(1 << 30, &AlignedBuffer::zeroed(4096))?;
/// drive.sync()?;
/// println!("a write and a flush took {:?}", clock.elapsed());
/// drive.cut_power(Seed(1));
/// assert!(matches!(drive.sync(), Err(Error::PowerCut { .. })));
/// drive.restore_power();
/// # Ok::<(), Error>(())
/// ```
pub struct Drive {
    length: u64,
    hardware: Hardware,
    state: Mutex<State>,
    /// The power was cut.
    cut: Condvar,
}

#[derive(Debug)]
struct State {
    cells: Cells,
    cache: Cache,
    /// The most blocks that may take memory.
    memory: u64,
    is_on: bool,
    counts: DriveCounts,
}

impl Drive {
    /// A new one, all zeros, with its power on.
    pub fn new(settings: DriveSettings) -> Self {
        let DriveSettings { medium, size, memory, unflushed, pace } = settings;
        let state = State {
            cells: Cells::default(),
            cache: Cache::new(unflushed.as_u64() / BLOCK as u64),
            memory: memory.as_u64() / BLOCK as u64,
            is_on: true,
            counts: DriveCounts::default(),
        };
        Self {
            // Blocks of memory can not be as many as that.
            length: size.as_u64().min(i64::MAX as u64 - BLOCK as u64).next_multiple_of(BLOCK as u64),
            hardware: Hardware::new(medium, pace),
            state: Mutex::new(state),
            cut: Condvar::new(),
        }
    }

    /// The medium and its figures.
    pub fn medium(&self) -> &Medium {
        self.hardware.medium()
    }

    /// Cuts the power: what was not flushed survives or not, by the seed, sector by sector, and every request fails until the
    /// power is restored, also those that are under way, at once. Returns how many sectors have lost what was written last. Nothing
    /// happens to a drive whose power is off.
    pub fn cut_power(&self, seed: Seed) -> u64 {
        let state = &mut *self.state.lock();
        if !state.is_on {
            return 0;
        }
        state.is_on = false;
        state.counts.power_cuts += 1;
        self.cut.notify_all();
        state.cache.lose(&mut state.cells, &mut seed.generator())
    }

    /// Turns the power on, if it is off.
    pub fn restore_power(&self) {
        let mut state = self.state.lock();
        if !state.is_on {
            self.hardware.restart();
            state.is_on = true;
        }
    }

    /// Whether there is power.
    pub fn is_on(&self) -> bool {
        self.state.lock().is_on
    }

    /// What it was asked for.
    pub fn counts(&self) -> DriveCounts {
        self.state.lock().counts
    }

    /// How much memory its bytes take, and what it may lose.
    pub fn memory(&self) -> ByteSize {
        ByteSize(self.state.lock().blocks() * BLOCK as u64)
    }

    fn bounds(&self) -> Bounds<'_> {
        Bounds { name: NAME, block_size: SECTOR, length: self.length }
    }

    /// Begins a request at the time that it arrives, waits as long as it takes, and ends it, unless the power was cut.
    fn serve<T>(
        &self,
        request: Request,
        begin: impl FnOnce(&mut State) -> Result<T>,
        end: impl FnOnce(&mut State, T),
    ) -> Result<()> {
        let since = {
            let state = self.state.lock();
            state.check_power(None)?;
            state.counts.power_cuts
        };
        let (working, done) = self.hardware.begin(&[request], || {
            let state = &mut *self.state.lock();
            state.check_power(Some(since))?;
            begin(state)
        })?;
        self.wait_until(done, since)?;
        let state = &mut *self.state.lock();
        state.check_power(Some(since))?;
        end(state, working);
        Ok(())
    }

    /// Returns at that moment, or fails when the power is cut once more than so many times.
    fn wait_until(&self, done: Duration, since: u64) -> Result<()> {
        let pace = self.hardware.pace();
        let interruptible = || pace.left_until(done).checked_sub(PRECISE).filter(|left| !left.is_zero());
        if interruptible().is_some() {
            let mut state = self.state.lock();
            while let Some(left) = interruptible() {
                state.check_power(Some(since))?;
                self.cut.wait_for(&mut state, left);
            }
        }
        pace.wait_until(done);
        Ok(())
    }

    fn write(&self, kind: Kind, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bounds().check_transfer(offset, bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let request = Request { kind, position: offset, length: bytes.len() as u64 };
        let begin = |state: &mut State| {
            state.counts.writes += 1;
            state.counts.bytes_written += bytes.len() as u64;
            state.write(offset, bytes)
        };
        self.serve(request, begin, |state, ()| {
            if kind == Kind::WriteDurable {
                for (block, sectors) in blocks(offset, bytes.len() as u64) {
                    state.cache.settle_sectors(&state.cells, block, sectors);
                }
            }
        })
    }
}

impl State {
    /// Fails without power, and when it was cut since there had been so many cuts.
    fn check_power(&self, since: Option<u64>) -> Result<()> {
        let is_on = self.is_on && since.is_none_or(|cuts| cuts == self.counts.power_cuts);
        if is_on { Ok(()) } else { Err(Error::PowerCut { name: NAME.to_owned() }) }
    }

    /// That take memory.
    fn blocks(&self) -> u64 {
        self.cells.count() + self.cache.count()
    }

    /// What sectors of a block hold may be lost from now on; the block is about to take memory.
    fn remember(&mut self, block: u64, sectors: Range<usize>) {
        let cells = self.cells.count() + u64::from(self.cells.get(block).is_none());
        self.cache.remember(&self.cells, block, sectors, self.memory.saturating_sub(cells));
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let length = bytes.len() as u64;
        let new = blocks(offset, length).filter(|(block, _)| self.cells.get(*block).is_none()).count() as u64;
        if new > 0 && self.cells.count() + new > self.memory {
            return Err(Error::NoSpace { name: NAME.to_owned(), needed: length });
        }
        let mut rest = bytes;
        for (block, sectors) in blocks(offset, length) {
            let (these, others) = rest.split_at(sectors.len() * SECTOR);
            rest = others;
            self.remember(block, sectors.clone());
            self.cells.get_mut(block)[sectors.start * SECTOR..sectors.end * SECTOR].copy_from_slice(these);
        }
        Ok(())
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) {
        let mut rest = buffer;
        for (block, sectors) in blocks(offset, rest.len() as u64) {
            let (these, others) = rest.split_at_mut(sectors.len() * SECTOR);
            rest = others;
            match self.cells.get(block) {
                Some(block) => these.copy_from_slice(&block[sectors.start * SECTOR..sectors.end * SECTOR]),
                None => these.fill(0),
            }
        }
    }

    /// Zeros, without the memory of whole blocks.
    fn trim(&mut self, offset: u64, length: u64) {
        let touched = offset / BLOCK as u64..(offset + length).div_ceil(BLOCK as u64);
        for block in self.cells.present(touched) {
            let start = block * BLOCK as u64;
            let sector = |place: u64| (place.clamp(start, start + BLOCK as u64) - start) as usize / SECTOR;
            let sectors = sector(offset)..sector(offset + length);
            self.remember(block, sectors.clone());
            if sectors.len() == SECTORS {
                self.cells.take(block);
            } else {
                self.cells.get_mut(block)[sectors.start * SECTOR..sectors.end * SECTOR].fill(0);
            }
        }
    }
}

/// The blocks of a run of sectors, each with those of its own that are in it.
fn blocks(offset: u64, length: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let (size, end) = (BLOCK as u64, offset + length);
    (offset / size..end.div_ceil(size)).map(move |block| {
        let (first, last) = (offset.max(block * size), end.min((block + 1) * size));
        (block, (first - block * size) as usize / SECTOR..(last - block * size) as usize / SECTOR)
    })
}

impl Device for Drive {
    fn promise(&self) -> Promise {
        Promise { block_size: SECTOR, atomic_write: SECTOR, direct: true, trim: true }
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.bounds().check_transfer(offset, buffer)?;
        if buffer.is_empty() {
            return Ok(());
        }
        let length = buffer.len() as u64;
        let begin = |state: &mut State| {
            state.counts.reads += 1;
            state.counts.bytes_read += length;
            state.read(offset, buffer);
            Ok(())
        };
        self.serve(Request { kind: Kind::Read, position: offset, length }, begin, |_, ()| ())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(Kind::Write, offset, bytes)
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(Kind::WriteDurable, offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        let begin = |state: &mut State| {
            state.counts.flushes += 1;
            Ok(state.cache.seal())
        };
        let end = |state: &mut State, sealed| state.cache.settle(sealed);
        self.serve(Request { kind: Kind::Sync, position: 0, length: 0 }, begin, end)
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.bounds().check_range(offset, length)?;
        let state = &mut *self.state.lock();
        state.check_power(None)?;
        state.counts.trims += 1;
        state.trim(offset, length);
        Ok(())
    }

    /// What is trimmed reads as zeros here.
    fn zero(&self, offset: u64, length: u64) -> Result<()> {
        self.trim(offset, length)
    }
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Drive({}, {})", self.medium(), ByteSize(self.length))
    }
}
