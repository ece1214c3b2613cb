//! Where a member's files are durably, some while later: extents of 64 KiB in regions, and a ledger that says what is where.
//!
//! ```text
//!  m.NAME.home-0000  m.NAME.home-0001 …    regions: rows of extents, written over in place
//!  m.NAME.ledger-0   m.NAME.ledger-1       two copies of the ledger: names, lengths, extents with checksums, and the
//!                                          number of the last entry whose effects are in the regions
//!  m.NAME.checkpoint                       the checkpoint areas (see `areas`)
//! ```
//!
//! Extents are written over in place, before the ledger says so. A crash between leaves extents that are partly newer than
//! the ledger; that is no harm, because every entry since the ledger's is in the log, and entries say what bytes *are*, not
//! how they differ. An extent that is new or was another file's is never written while a ledger on the medium still has it.
//!
//! Regions are made when files grow, before the request that needs them is accepted: so going home never lacks space.
//!
//! Parts: [`round`] brings a member's changes home.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ishigaki_base::LogId;
use ishigaki_device::{AlignedBuffer, Device, Directory, MAX_BLOCK_SIZE};
use parking_lot::{Mutex, RwLock};

use crate::format::{Extent, Ledger, Unfit, sealed_length};
use crate::{Error, MemberId, Quota, Result};

mod round;

pub(crate) use round::Snapshot;

/// Bytes of an extent.
pub(crate) const EXTENT: u64 = 64 << 10;

/// What a ledger is called in messages.
const LEDGER: &str = "the ledger of a member's home";

/// Where bytes are read that are not in memory.
pub(crate) trait Base: fmt::Debug {
    /// Fills `buffer` from `offset` within an extent, and on through those behind it.
    fn read(&self, place: u32, offset: u64, buffer: &mut [u8]) -> Result<()>;
}

/// A member's home.
#[derive(Debug)]
pub(crate) struct Home {
    directory: Arc<dyn Directory>,
    name: String,
    /// Bytes of a region.
    region: u64,
    regions: RwLock<Vec<Arc<dyn Device>>>,
    ledgers: [Arc<dyn Device>; 2],
    /// As it is on the medium.
    current: Mutex<Ledger>,
    /// Held by whoever makes regions. No other lock is held during I/O.
    growing: Mutex<()>,
}

/// A device's name.
pub(crate) fn device_name(member: &str, part: &str) -> String {
    format!("m.{member}.{part}")
}

fn ledger_names(member: &str) -> [String; 2] {
    ["ledger-0", "ledger-1"].map(|part| device_name(member, part))
}

fn region_name(member: &str, index: usize) -> String {
    device_name(member, &format!("home-{index:04}"))
}

impl Home {
    /// Makes an empty one; what is there of a member that never came to be is removed. The caller syncs the directory.
    pub(crate) fn create(
        directory: Arc<dyn Directory>,
        name: &str,
        log: LogId,
        member: MemberId,
        region: u64,
        quota: &Quota,
    ) -> Result<Self> {
        Self::clear(directory.as_ref(), name, log)?;
        let length = Ledger::longest(quota.files.into(), quota.home.0 / EXTENT + 1).next_multiple_of(4096);
        let [first, second] = ledger_names(name);
        let ledgers = [directory.create(&first, length)?, directory.create(&second, length)?];
        let current = Ledger {
            log,
            member,
            sequence: 0,
            entries: 0,
            next_file: 0,
            region,
            regions: 0,
            directories: Vec::new(),
            files: Vec::new(),
        };
        let home = Self {
            directory,
            name: name.to_owned(),
            region,
            regions: RwLock::default(),
            ledgers,
            current: Mutex::new(current.clone()),
            growing: Mutex::default(),
        };
        home.write_ledger(current)?;
        Ok(home)
    }

    /// Removes a home that nobody needs, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] when it is of another pool.
    pub(crate) fn clear(directory: &dyn Directory, name: &str, log: LogId) -> Result<()> {
        let names = directory.list()?;
        for ledger in ledger_names(name).iter().filter(|ledger| names.contains(ledger)) {
            if read_ledger(directory.open(ledger)?.as_ref())?.is_ok_and(|ledger| ledger.log != log) {
                return Err(Error::Exists { name: format!("{ledger} of another pool") });
            }
        }
        // The ledgers go last, so that the rest is never without an owner.
        let mine = names.iter().filter(|device| device.starts_with(&device_name(name, "")));
        let (ledgers, others): (Vec<_>, Vec<_>) = mine.partition(|device| ledger_names(name).contains(device));
        others.into_iter().chain(ledgers).try_for_each(|device| directory.remove(device))?;
        Ok(())
    }

    /// Opens one to read it; nothing is written.
    pub(crate) fn open(directory: Arc<dyn Directory>, name: &str, log: LogId, member: MemberId) -> Result<Self> {
        let ledgers = ledger_names(name).map(|ledger| directory.open(&ledger));
        let [first, second] = ledgers;
        let ledgers = [first?, second?];
        let mut newest: Option<Ledger> = None;
        let mut refusal = Unfit::Blank;
        for device in &ledgers {
            match read_ledger(device.as_ref())? {
                Ok(ledger) if newest.as_ref().is_none_or(|newest| newest.sequence < ledger.sequence) => {
                    newest = Some(ledger);
                }
                Ok(_) => {}
                Err(unfit) => refusal = unfit,
            }
        }
        let current = newest.ok_or_else(|| refusal.error(LEDGER))?;
        if (current.log, current.member) != (log, member) {
            let what = format!("the home of `{name}` is that of member {} of pool {}", current.member, current.log);
            return Err(Error::corrupt(what));
        }
        let region = current.region;
        let mut regions = Vec::new();
        for index in 0..current.regions as usize {
            let device = directory.open(&region_name(name, index))?;
            if device.len() != region {
                return Err(Error::of_member(member, &format!("region {index} of its home has another length")));
            }
            regions.push(device);
        }
        let (regions, current) = (RwLock::new(regions), Mutex::new(current));
        Ok(Self { directory, name: name.to_owned(), region, regions, ledgers, current, growing: Mutex::default() })
    }

    /// Makes durable what [`open`](Self::open) has found: whoever wrote it may have died before it was. A region that no
    /// ledger knows is removed, since the name of it may not be durable.
    pub(crate) fn secure(&self) -> Result<()> {
        let ledger = self.ledger();
        self.write_ledger(ledger)?;
        let known: Vec<String> = (0..self.regions.read().len()).map(|index| region_name(&self.name, index)).collect();
        let is_stray = |name: &String| name.starts_with(&device_name(&self.name, "home-")) && !known.contains(name);
        let strays: Vec<String> = self.directory.list()?.into_iter().filter(is_stray).collect();
        strays.iter().try_for_each(|name| self.directory.remove(name))?;
        if !strays.is_empty() {
            self.directory.sync()?;
        }
        Ok(())
    }

    /// What is on the medium.
    pub(crate) fn ledger(&self) -> Ledger {
        self.current.lock().clone()
    }

    /// The number of the last entry whose effects are home.
    pub(crate) fn entries(&self) -> u64 {
        self.current.lock().entries
    }

    /// Bytes of all regions.
    pub(crate) fn bytes(&self) -> u64 {
        self.regions.read().len() as u64 * self.region
    }

    /// Makes sure that there is space for so many extents.
    pub(crate) fn reserve(&self, extents: u64) -> Result<()> {
        let _one = self.growing.lock();
        let before = self.regions.read().len();
        let needed = extents.div_ceil(self.region / EXTENT) as usize;
        let mut made = Vec::new();
        for index in before..needed {
            match self.directory.create(&region_name(&self.name, index), self.region) {
                Ok(device) => made.push(device),
                Err(error) => {
                    // A full medium is no failure; what was made until then must not be in the way.
                    (before..index).try_for_each(|index| self.directory.remove(&region_name(&self.name, index)))?;
                    return Err(error.into());
                }
            }
        }
        if !made.is_empty() {
            self.directory.sync()?;
            self.regions.write().extend(made);
        }
        Ok(())
    }

    /// Writes both copies, one durable before the other is begun.
    fn write_ledger(&self, mut ledger: Ledger) -> Result<()> {
        ledger.sequence += 1;
        ledger.regions = self.regions.read().len() as u32;
        let bytes = ledger.encode();
        let mut buffer = AlignedBuffer::zeroed(bytes.len().next_multiple_of(MAX_BLOCK_SIZE));
        buffer[..bytes.len()].copy_from_slice(&bytes);
        for device in &self.ledgers {
            if buffer.len() as u64 > device.len() {
                let what = format!("its ledger has outgrown {} bytes", device.len());
                return Err(Error::Full { member: self.name.clone(), what });
            }
            device.write_durable(0, &buffer)?;
        }
        *self.current.lock() = ledger;
        Ok(())
    }

    fn device(&self, place: u32) -> Result<(Arc<dyn Device>, u64)> {
        let per_region = self.region / EXTENT;
        let (region, within) = (u64::from(place) / per_region, u64::from(place) % per_region);
        let regions = self.regions.read();
        let device =
            regions.get(region as usize).ok_or_else(|| Error::corrupt(format!("there is no extent {place}")))?;
        Ok((device.clone(), within * EXTENT))
    }

    /// Whether an extent's bytes fit its checksum.
    pub(crate) fn check(&self, extent: Extent) -> Result<bool> {
        let mut buffer = AlignedBuffer::zeroed(EXTENT as usize);
        let (device, at) = self.device(extent.place)?;
        device.read_at(at, &mut buffer)?;
        Ok(ishigaki_base::crc32c(&buffer) == extent.crc)
    }
}

impl Ledger {
    /// The places of all its extents.
    fn places(&self) -> BTreeSet<u32> {
        self.files.iter().flat_map(|file| file.extents.iter().flatten()).map(|extent| extent.place).collect()
    }
}

impl Base for Home {
    fn read(&self, place: u32, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (device, at) = self.device(place)?;
        let at = at + offset;
        let here = (self.region - at).min(buffer.len() as u64);
        let (here, behind) = buffer.split_at_mut(here as usize);
        let block = device.promise().block_size as u64;
        let first = at / block * block;
        let end = (at + here.len() as u64).next_multiple_of(block);
        let mut aligned = AlignedBuffer::zeroed((end - first) as usize);
        device.read_at(first, &mut aligned)?;
        let skip = (at - first) as usize;
        here.copy_from_slice(&aligned[skip..skip + here.len()]);
        if behind.is_empty() {
            return Ok(());
        }
        let per_region = (self.region / EXTENT) as u32;
        self.read((place / per_region + 1) * per_region, 0, behind)
    }
}

fn read_ledger(device: &dyn Device) -> Result<Result<Ledger, Unfit>> {
    let mut buffer = AlignedBuffer::zeroed(device.len().min(4096) as usize);
    device.read_at(0, &mut buffer)?;
    let length = sealed_length(&buffer);
    if length > buffer.len() as u64 && length <= device.len() {
        buffer = AlignedBuffer::zeroed(length.next_multiple_of(4096).min(device.len()) as usize);
        device.read_at(0, &mut buffer)?;
    }
    Ok(Ledger::decode(&buffer))
}
