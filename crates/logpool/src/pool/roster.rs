//! The roster on the medium: two copies, each replaced as a whole by one rename.

use ishigaki_device::{AlignedBuffer, Directory, Error as DeviceError, MAX_BLOCK_SIZE};

use crate::Result;
use crate::format::{Roster, sealed_length};

/// Before there were two, there was the first.
const NAMES: [&str; 2] = ["pool-roster", "pool-roster-1"];

/// What it is called in messages.
const WHAT: &str = "the roster of the pool";

/// Reads the newer copy that is sound; `None` where there is none at all.
pub(crate) fn read(directory: &dyn Directory) -> Result<Option<Roster>> {
    let (mut newest, mut refusal): (Option<Roster>, _) = (None, None);
    for name in NAMES {
        let device = match directory.open(name) {
            Err(DeviceError::NotFound { .. }) => continue,
            opened => opened?,
        };
        let mut buffer = AlignedBuffer::zeroed(device.len() as usize);
        device.read_at(0, &mut buffer)?;
        let length = sealed_length(&buffer).min(buffer.len() as u64);
        match Roster::decode(&buffer[..length as usize]) {
            Ok(roster) if newest.as_ref().is_none_or(|newest| newest.sequence < roster.sequence) => {
                newest = Some(roster);
            }
            Ok(_) => {}
            Err(unfit) => refusal = Some(unfit.error(WHAT)),
        }
    }
    match (newest, refusal) {
        (Some(roster), _) => Ok(Some(roster)),
        (None, Some(refusal)) => Err(refusal),
        (None, None) => Ok(None),
    }
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
