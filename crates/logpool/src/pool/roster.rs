//! The roster on the medium: two copies, each replaced as a whole by one rename.

use ishigaki_device::{AlignedBuffer, Directory, Error as DeviceError, MAX_BLOCK_SIZE};

use crate::format::{Roster, Unfit, sealed_length};
use crate::{Error, Result};

/// Before there were two, there was the first.
const NAMES: [&str; 2] = ["pool-roster", "pool-roster-1"];

/// What it is called in messages.
const WHAT: &str = "the roster of the pool";

/// What stands in both copies.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// The newer one that is sound.
    pub(crate) newest: Option<Roster>,
    /// Names of copies that can not be used, each with why.
    pub(crate) damaged: Vec<(&'static str, Error)>,
    missing: Vec<&'static str>,
}

impl Copies {
    /// What is wrong, in words, where there is one that counts all the same.
    pub(crate) fn problems(&self) -> Vec<String> {
        let Some(newest) = &self.newest else { return Vec::new() };
        let rest = "the other copy counts, and the next opening of the pool makes both anew";
        let damaged = self.damaged.iter().map(|(name, error)| format!("`{name}`, one of two copies: {error}; {rest}"));
        // A pool without members may have been left while it was made; and one of before there were two has one.
        let had_both = newest.sequence > 0 && !newest.members.is_empty();
        let missing = self.missing.iter().filter(|_| had_both);
        damaged.chain(missing.map(|name| format!("`{name}`, one of two copies, is missing; {rest}"))).collect()
    }
}

/// Reads the newer copy that is sound; `None` where there is none at all.
pub(crate) fn read(directory: &dyn Directory) -> Result<Option<Roster>> {
    let copies = read_copies(directory)?;
    match copies.newest {
        Some(roster) => Ok(Some(roster)),
        None => copies.damaged.into_iter().next_back().map_or(Ok(None), |(_, refusal)| Err(refusal)),
    }
}

/// Reads both copies. One that is no file of the medium's blocks, or cut off, is as damaged as one of other bytes.
pub(crate) fn read_copies(directory: &dyn Directory) -> Result<Copies> {
    let mut copies = Copies::default();
    for name in NAMES {
        match read_copy(directory, name) {
            Ok(Ok(roster)) if copies.newest.as_ref().is_none_or(|newest| newest.sequence < roster.sequence) => {
                copies.newest = Some(roster);
            }
            Ok(Ok(_)) => {}
            Ok(Err(unfit)) => copies.damaged.push((name, unfit.error(WHAT))),
            Err(DeviceError::NotFound { .. }) => copies.missing.push(name),
            Err(error) if error.is_damage() => copies.damaged.push((name, error.into())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(copies)
}

fn read_copy(directory: &dyn Directory, name: &str) -> ishigaki_device::Result<Result<Roster, Unfit>> {
    let device = directory.open(name)?;
    let mut buffer = AlignedBuffer::zeroed(device.len() as usize);
    device.read_at(0, &mut buffer)?;
    let length = sealed_length(&buffer).min(buffer.len() as u64);
    Ok(Roster::decode(&buffer[..length as usize]))
}

/// Whether there is one.
pub(crate) fn is_there(directory: &dyn Directory) -> ishigaki_device::Result<bool> {
    Ok(directory.list()?.iter().any(|name| NAMES.contains(&name.as_str())))
}

/// Makes it the current one, durably.
pub(crate) fn write(directory: &dyn Directory, roster: &mut Roster) -> Result<()> {
    roster.sequence += 1;
    NAMES.iter().try_for_each(|name| write_copy(directory, name, roster))
}

fn write_copy(directory: &dyn Directory, name: &str, roster: &Roster) -> Result<()> {
    let new = format!("{name}.new");
    match directory.remove(&new) {
        Ok(()) | Err(DeviceError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let bytes = roster.encode();
    let mut buffer = AlignedBuffer::zeroed(bytes.len().next_multiple_of(MAX_BLOCK_SIZE));
    buffer[..bytes.len()].copy_from_slice(&bytes);
    directory.create(&new, buffer.len() as u64)?.write_durable(0, &buffer)?;
    directory.rename(&new, name)?;
    directory.sync()?;
    Ok(())
}
