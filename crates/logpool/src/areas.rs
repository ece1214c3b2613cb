//! The checkpoint file: the blocks that a server rewrites in place at its checkpoints, beside the log (paper 4, section
//! 4.1.3).
//!
//! Each area has two copies, in files of their own, written one after the other: a torn one leaves the other, and so does one
//! that is damaged, gone, or older than it should be. A copy says
//! after which of the member's entries it was written; it becomes durable only when these are. Recovery puts it in its place
//! among the entries that the home does not have yet; what is older than the home is there already.

use std::sync::Arc;

use ishigaki_base::LogId;
use ishigaki_device::{AlignedBuffer, Device, Directory, Error as DeviceError};

use crate::format::{Slot, Unfit};
use crate::home::device_name;
use crate::{Area, Error, FileId, MemberId, Profile, Result};

/// Copies of an area.
const COPIES: usize = 2;

/// A member's checkpoint file. Written by one at a time.
#[derive(Debug)]
pub(crate) struct Areas {
    log: LogId,
    member: MemberId,
    /// One for each copy; `None` where it is not there, as where the profile has no areas.
    devices: [Option<Arc<dyn Device>>; COPIES],
    /// Of what was written last.
    sequence: u64,
    /// By area: the newest copy.
    newest: Vec<Option<Slot>>,
}

/// What the file with that copy is called. Before there were two, the first one had both copies.
fn name(member: &str, copy: usize) -> String {
    device_name(member, ["checkpoint", "checkpoint-1"][copy])
}

fn length(profile: &Profile) -> u64 {
    (profile.areas.len() * COPIES * Slot::LENGTH) as u64
}

impl Areas {
    /// Makes an empty one. The caller syncs the directory.
    pub(crate) fn create(
        directory: &dyn Directory,
        member_name: &str,
        log: LogId,
        member: MemberId,
        profile: &Profile,
    ) -> Result<Self> {
        let areas = profile.areas.len();
        let mut devices = [None, None];
        if areas > 0 {
            for (copy, device) in devices.iter_mut().enumerate() {
                *device = Some(directory.create(&name(member_name, copy), length(profile))?);
            }
        }
        Ok(Self { log, member, devices, sequence: 0, newest: vec![None; areas] })
    }

    /// Reads one; nothing is written.
    pub(crate) fn open(
        directory: &dyn Directory,
        member_name: &str,
        log: LogId,
        member: MemberId,
        profile: &Profile,
    ) -> Result<Self> {
        let (sequence, newest) = (0, vec![None; profile.areas.len()]);
        let mut areas = Self { log, member, devices: [None, None], sequence, newest };
        if profile.areas.is_empty() {
            return Ok(areas);
        }
        for (copy, place) in areas.devices.iter_mut().enumerate() {
            *place = match directory.open(&name(member_name, copy)) {
                Ok(device) if device.len() >= length(profile) => Some(device),
                Ok(_) | Err(DeviceError::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            };
        }
        let devices: Vec<_> = areas.devices.iter().flatten().cloned().collect();
        if devices.is_empty() {
            return Err(Error::of_member(member, "both of its checkpoint files are gone, or cut off"));
        }
        for area in 0..profile.areas.len() {
            let (mut damaged, mut sound) = (0, false);
            for (device, copy) in devices.iter().flat_map(|device| (0..COPIES).map(move |copy| (device, copy))) {
                match areas.read(device.as_ref(), area, copy)? {
                    Ok(slot) => {
                        sound = true;
                        areas.sequence = areas.sequence.max(slot.sequence);
                        let newest = &mut areas.newest[area];
                        if newest.as_ref().is_none_or(|newest| newest.sequence < slot.sequence) {
                            *newest = Some(slot);
                        }
                    }
                    Err(Unfit::Blank) => {}
                    Err(Unfit::Damaged) => damaged += 1,
                    Err(version) => return Err(version.error("a checkpoint file")),
                }
            }
            // One alone may be a first write that was torn.
            if !sound && damaged > 0 && damaged + COPIES - devices.len() >= COPIES {
                return Err(Error::of_member(member, "neither copy of a checkpoint area fits its checksum"));
            }
        }
        Ok(areas)
    }

    fn read(&self, device: &dyn Device, area: usize, copy: usize) -> Result<Result<Slot, Unfit>> {
        let mut buffer = AlignedBuffer::zeroed(Slot::LENGTH);
        device.read_at(Self::offset(area, copy), &mut buffer)?;
        Ok(Slot::decode(&buffer).and_then(|slot| {
            let is_mine = (slot.log, slot.member, usize::from(slot.area)) == (self.log, self.member, area);
            if is_mine { Ok(slot) } else { Err(Unfit::Damaged) }
        }))
    }

    fn offset(area: usize, copy: usize) -> u64 {
        ((area * COPIES + copy) * Slot::LENGTH) as u64
    }

    /// Makes durable what [`open`](Self::open) has found: whoever wrote it may have died before it was.
    /// A file that is gone or cut off is made again.
    pub(crate) fn secure(&mut self, directory: &dyn Directory, member_name: &str, profile: &Profile) -> Result<()> {
        if !profile.areas.is_empty() {
            let mut is_new = false;
            for (copy, place) in self.devices.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
                let name = name(member_name, copy);
                match directory.remove(&name) {
                    Ok(()) | Err(DeviceError::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                *place = Some(directory.create(&name, length(profile))?);
                is_new = true;
            }
            if is_new {
                directory.sync()?;
            }
        }
        self.newest.iter().flatten().try_for_each(|slot| self.put(slot))
    }

    /// What there is, in the order in which it was written.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let mut slots: Vec<_> = self.newest.iter().flatten().cloned().collect();
        slots.sort_by_key(|slot| slot.sequence);
        slots
    }

    /// Writes an area durably. Everything up to the entry `after` is durable already.
    pub(crate) fn write(&mut self, area: usize, file: FileId, after: u64, bytes: Vec<u8>) -> Result<()> {
        self.sequence += 1;
        let (log, member, sequence) = (self.log, self.member, self.sequence);
        let slot = Slot { log, member, area: area as u8, file, sequence, after, bytes };
        self.put(&slot)?;
        self.newest[area] = Some(slot);
        Ok(())
    }

    /// Both copies, one durable before the other is begun.
    fn put(&self, slot: &Slot) -> Result<()> {
        let bytes = slot.encode();
        let mut buffer = AlignedBuffer::zeroed(Slot::LENGTH);
        buffer[..bytes.len()].copy_from_slice(&bytes);
        for (copy, device) in self.devices.iter().enumerate() {
            if let Some(device) = device {
                device.write_durable(Self::offset(slot.area.into(), copy), &buffer)?;
            }
        }
        Ok(())
    }
}

impl Profile {
    /// The areas that a request for that file touches.
    pub(crate) fn areas_in(&self, path: &str, offset: u64, length: u64) -> impl Iterator<Item = (usize, Area)> + use<> {
        let path = path.to_owned();
        let touches = move |(_, area): &(usize, Area)| {
            area.file == path && area.offset < offset + length && offset < area.offset + Area::LENGTH
        };
        self.areas.iter().cloned().enumerate().filter(touches)
    }
}
