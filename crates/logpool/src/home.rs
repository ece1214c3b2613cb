//! Where a member's files are durably, some while later: extents of 64 KiB in regions, and a ledger that says what is where.
//!
//! ```text
//!  m.NAME.home-0000  m.NAME.home-0001 …    regions: rows of extents, written over in place
//!  m.NAME.ledger-0   m.NAME.ledger-1       two copies of the ledger: names, lengths, extents with checksums, and the
//!                                          number of the last entry whose effects are in the regions
//!  m.NAME.intent                           what the last round was about to write over
//!  m.NAME.checkpoint, m.NAME.checkpoint-1  the checkpoint areas (see `areas`)
//! ```
//!
//! Extents are written over in place, before the ledger says so. A crash between leaves extents that are partly newer than
//! the ledger; that is no harm, because every entry since the ledger's is in the log, and entries say what bytes *are*, not
//! how they differ. Such extents do not fit the ledger's checksums; so an *intent* is durable before the first one is written,
//! with the checksums that their blocks will have, and with the entries made in it each block must have that. An extent that is new or was another file's is never written while a ledger on the medium still has it.
//!
//! Regions are made when files grow, before the request that needs them is accepted: so going home never lacks space.
//!
//! Parts: [`round`] brings a member's changes home, [`growth`] makes it larger, [`regions`] makes whole what was cut off, [`ledgers`] are the two copies on the medium,
//! [`old`] is a home of format version 1.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ishigaki_base::LogId;
use ishigaki_device::{AlignedBuffer, Device, Directory, Error as DeviceError};
use parking_lot::{Mutex, RwLock};

use crate::format::{Intent, Ledger};
use crate::image::Piece;
use crate::{Error, MemberId, Quota, Result};
use ledgers::Ledgers;
use regions::read_what_is_there;

mod growth;
mod ledgers;
mod old;
mod regions;
mod round;

pub(crate) use round::{Brought, Snapshot};

/// Bytes of an extent.
pub(crate) const EXTENT: u64 = 64 << 10;

/// Where bytes are read that are not in memory.
pub(crate) trait Base: fmt::Debug {
    /// Fills `buffer` from `offset` within an extent, and on through those behind it.
    fn read(&self, place: u32, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Of a block of an extent that a round was about to write over when it was cut off: the checksum that it has with all
    /// that the round was to bring.
    fn intended(&self, _place: u32, _block: usize) -> Option<u32> {
        None
    }
}

/// A member's home.
#[derive(Debug)]
pub(crate) struct Home {
    directory: Arc<dyn Directory>,
    name: String,
    /// Bytes of a region.
    region: u64,
    /// `None` where one is gone. One that is gone or too short is [made whole](Self::make_regions_whole), and what is missing does not
    /// fit its checksums then. One that is longer than a region is used as far as that goes.
    regions: RwLock<Vec<Option<Arc<dyn Device>>>>,
    ledgers: Ledgers,
    /// As it is on the medium.
    current: Mutex<Ledger>,
    /// Held by whoever makes regions. No other lock is held during I/O.
    growing: Mutex<()>,
    /// Extents that did not fit the checksum that version 1 had of them.
    suspects: BTreeSet<u32>,
    /// Of a round that had not come to its end when the home was opened.
    intent: Option<Intent>,
}

/// What the names of all members' devices begin with, and no other device's.
pub(crate) const DEVICES: &str = "m.";

/// A device's name.
pub(crate) fn device_name(member: &str, part: &str) -> String {
    format!("{DEVICES}{member}.{part}")
}

fn ledger_names(member: &str) -> [String; 2] {
    ["ledger-0", "ledger-1"].map(|part| device_name(member, part))
}

/// Bytes of a copy of the ledger of a member with these limits.
fn ledger_length(quota: &Quota) -> u64 {
    Ledger::longest(quota.files.into(), quota.home.0 / EXTENT + 1).next_multiple_of(4096)
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
        let ledgers = Ledgers::create(&directory, name, ledger_length(quota))?;
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
            is_old: false,
        };
        let home = Self {
            directory,
            name: name.to_owned(),
            region,
            regions: RwLock::default(),
            ledgers,
            current: Mutex::new(current.clone()),
            growing: Mutex::default(),
            suspects: BTreeSet::new(),
            intent: None,
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
            if ledgers::read(directory.open(ledger)?.as_ref())?.is_ok_and(|ledger| ledger.log != log) {
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
        let (ledgers, current, intent) = Ledgers::open(&directory, name, log, member)?;
        let region = current.region;
        let mut regions = Vec::new();
        for index in 0..current.regions as usize {
            regions.push(match directory.open(&region_name(name, index)) {
                Ok(device) => Some(device),
                Err(DeviceError::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            });
        }
        let regions = RwLock::new(regions);
        let (current, growing, suspects) = (Mutex::new(current), Mutex::default(), BTreeSet::new());
        let name = name.to_owned();
        let mut home = Self { directory, name, region, regions, ledgers, current, growing, suspects, intent };
        home.renew()?;
        Ok(home)
    }

    /// Makes durable what [`open`](Self::open) has found: whoever wrote it may have died before it was. A region that no
    /// ledger knows is removed, since the name of it may not be durable.
    pub(crate) fn secure(&self) -> Result<()> {
        self.make_regions_whole()?;
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

    /// The last entry that a round was to bring which was cut off.
    pub(crate) fn intended_entries(&self) -> Option<u64> {
        self.intent.as_ref().map(|intent| intent.entries)
    }

    /// Bytes of all regions.
    pub(crate) fn bytes(&self) -> u64 {
        self.regions.read().len() as u64 * self.region
    }

    /// Writes both copies, one durable before the other is begun.
    fn write_ledger(&self, mut ledger: Ledger) -> Result<()> {
        ledger.sequence += 1;
        ledger.regions = self.regions.read().len() as u32;
        self.ledgers.write(&ledger.encode())?;
        *self.current.lock() = ledger;
        Ok(())
    }

    fn device(&self, place: u32) -> Result<(Arc<dyn Device>, u64)> {
        let per_region = self.region / EXTENT;
        let (region, within) = (u64::from(place) / per_region, u64::from(place) % per_region);
        let regions = self.regions.read();
        let device =
            regions.get(region as usize).ok_or_else(|| Error::corrupt(format!("there is no extent {place}")))?;
        let device = device.clone().ok_or_else(|| Error::corrupt(format!("the region of extent {place} is gone")))?;
        Ok((device, within * EXTENT))
    }

    /// Writes a block over that is damaged at home, with the bytes that the ledger says it has. Nothing else is at home in
    /// its place meanwhile.
    pub(crate) fn mend(&self, piece: Piece, bytes: &[u8]) -> Result<()> {
        let (device, at) = self.device(piece.place())?;
        let mut buffer = AlignedBuffer::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        device.write_at(at + piece.offset(), &buffer)?;
        device.sync()?;
        Ok(())
    }

    /// The bytes of an extent, whatever they are.
    pub(crate) fn raw(&self, place: u32) -> Result<AlignedBuffer> {
        let (device, at) = self.device(place)?;
        let mut buffer = AlignedBuffer::zeroed(EXTENT as usize);
        read_what_is_there(device.as_ref(), at, &mut buffer)?;
        Ok(buffer)
    }
}

impl Ledger {
    /// The places of all its extents.
    fn places(&self) -> BTreeSet<u32> {
        self.files.iter().flat_map(|file| file.extents.iter().flatten()).map(|extent| extent.place).collect()
    }
}

impl Base for Home {
    fn intended(&self, place: u32, block: usize) -> Option<u32> {
        self.intent.as_ref()?.sums.get(&place)?[block]
    }

    fn read(&self, place: u32, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (device, at) = self.device(place)?;
        let at = at + offset;
        let here = (self.region - at).min(buffer.len() as u64);
        let (here, behind) = buffer.split_at_mut(here as usize);
        let block = device.promise().block_size as u64;
        let first = at / block * block;
        let end = (at + here.len() as u64).next_multiple_of(block);
        let mut aligned = AlignedBuffer::zeroed((end - first) as usize);
        read_what_is_there(device.as_ref(), first, &mut aligned)?;
        let skip = (at - first) as usize;
        here.copy_from_slice(&aligned[skip..skip + here.len()]);
        if behind.is_empty() {
            return Ok(());
        }
        let per_region = (self.region / EXTENT) as u32;
        self.read((place / per_region + 1) * per_region, 0, behind)
    }
}
