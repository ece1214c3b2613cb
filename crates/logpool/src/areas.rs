//! The checkpoint file: the blocks that a server rewrites in place at its checkpoints, beside the log (paper 4, section
//! 4.1.3).
//!
//! Each area has two copies, written one after the other: a torn one leaves the other, and so does a damaged one. A copy says
//! after which of the member's entries it was written; it becomes durable only when these are. Recovery puts it in its place
//! among the entries that the home does not have yet; what is older than the home is there already.

use std::sync::Arc;

use ishigaki_base::LogId;
use ishigaki_device::{AlignedBuffer, Device, Directory};

use crate::format::{Slot, Unfit};
use crate::home::device_name;
use crate::{Area, Error, FileId, MemberId, Profile, Result};

/// Copies of an area.
const COPIES: u64 = 2;

/// A member's checkpoint file. Written by one at a time.
#[derive(Debug)]
pub(crate) struct Areas {
    log: LogId,
    member: MemberId,
    /// `None` where the profile has no areas.
    device: Option<Arc<dyn Device>>,
    /// Of what was written last.
    sequence: u64,
    /// By area: the newest copy.
    newest: Vec<Option<Slot>>,
}

fn name(member: &str) -> String {
    device_name(member, "checkpoint")
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
        let device = match areas as u64 {
            0 => None,
            areas => Some(directory.create(&name(member_name), areas * COPIES * Slot::LENGTH as u64)?),
        };
        Ok(Self { log, member, device, sequence: 0, newest: vec![None; areas] })
    }

    /// Reads one; nothing is written.
    pub(crate) fn open(
        directory: &dyn Directory,
        member_name: &str,
        log: LogId,
        member: MemberId,
        profile: &Profile,
    ) -> Result<Self> {
        let mut areas = Self { log, member, device: None, sequence: 0, newest: vec![None; profile.areas.len()] };
        if profile.areas.is_empty() {
            return Ok(areas);
        }
        let device = directory.open(&name(member_name))?;
        for area in 0..profile.areas.len() as u64 {
            let mut damaged = 0;
            for copy in 0..COPIES {
                match areas.read(device.as_ref(), area, copy)? {
                    Ok(slot) => {
                        areas.sequence = areas.sequence.max(slot.sequence);
                        let newest = &mut areas.newest[area as usize];
                        if newest.as_ref().is_none_or(|newest| newest.sequence < slot.sequence) {
                            *newest = Some(slot);
                        }
                    }
                    Err(Unfit::Blank) => {}
                    Err(Unfit::Damaged) => damaged += 1,
                    Err(version) => return Err(version.error("a checkpoint file")),
                }
            }
            if damaged == COPIES {
                return Err(Error::of_member(member, "neither copy of a checkpoint area fits its checksum"));
            }
        }
        areas.device = Some(device);
        Ok(areas)
    }

    fn read(&self, device: &dyn Device, area: u64, copy: u64) -> Result<Result<Slot, Unfit>> {
        let mut buffer = AlignedBuffer::zeroed(Slot::LENGTH);
        device.read_at(Self::offset(area, copy), &mut buffer)?;
        Ok(Slot::decode(&buffer).and_then(|slot| {
            let is_mine = (slot.log, slot.member, u64::from(slot.area)) == (self.log, self.member, area);
            if is_mine { Ok(slot) } else { Err(Unfit::Damaged) }
        }))
    }

    fn offset(area: u64, copy: u64) -> u64 {
        (area * COPIES + copy) * Slot::LENGTH as u64
    }

    /// Makes durable what [`open`](Self::open) has found: whoever wrote it may have died before it was.
    pub(crate) fn secure(&self) -> Result<()> {
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
        let Some(device) = &self.device else { return Ok(()) };
        let bytes = slot.encode();
        let mut buffer = AlignedBuffer::zeroed(Slot::LENGTH);
        buffer[..bytes.len()].copy_from_slice(&bytes);
        for copy in 0..COPIES {
            device.write_durable(Self::offset(slot.area.into(), copy), &buffer)?;
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
