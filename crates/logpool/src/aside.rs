//! Entries that were moved aside: those of a member that can not be opened, so that they hold no log space.
//!
//! A member that is refused at an opening may need any of its entries that the log has, since it is not known what its home
//! has. They are copied into a file of their own before anything of the log is given free, and are the beginning of the
//! member's part of the log from then on, until all of them are home.

use std::collections::BTreeMap;

use ishigaki_base::LogId;
use ishigaki_device::{AlignedBuffer, Directory, Error as DeviceError, MAX_BLOCK_SIZE};
use ishigaki_wal::Log;

use crate::format::{AsideEntries, Entry, RosterMember, unpack};
use crate::home::device_name;
use crate::{Error, MemberId, Result};

/// What it is called in messages.
const WHAT: &str = "the file with a member's entries that were moved aside";

fn name(member: &str) -> String {
    device_name(member, "aside")
}

/// Reads the entries of a member that were moved aside, if any were.
pub(crate) fn read(
    directory: &dyn Directory,
    member_name: &str,
    log: LogId,
    member: MemberId,
) -> Result<Option<AsideEntries>> {
    let device = match directory.open(&name(member_name)) {
        Err(DeviceError::NotFound { .. }) => return Ok(None),
        opened => opened?,
    };
    let mut buffer = AlignedBuffer::zeroed(device.len() as usize);
    device.read_at(0, &mut buffer)?;
    let aside = AsideEntries::decode(&buffer).map_err(|unfit| unfit.error(WHAT))?;
    if (aside.log, aside.member) != (log, member) {
        let what = format!("the entries moved aside for `{member_name}` are those of another member, or pool");
        return Err(Error::corrupt(what));
    }
    Ok(Some(aside))
}

/// All of them are home.
pub(crate) fn remove(directory: &dyn Directory, member_name: &str) -> Result<()> {
    match directory.remove(&name(member_name)) {
        Ok(()) => Ok(directory.sync()?),
        Err(DeviceError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Moves all entries of these members aside that the log has, durably. Those that are there already stay.
pub(crate) fn move_aside(directory: &dyn Directory, log: &Log, members: &[RosterMember]) -> Result<()> {
    let mut asides = BTreeMap::new();
    for RosterMember { id, name, .. } in members {
        // What can not be read stays, for those who may mend it; the log had nothing more when it was written.
        let Ok(there) = read(directory, name, log.id(), *id) else { continue };
        let aside = there.unwrap_or_else(|| AsideEntries { log: log.id(), member: *id, entries: Vec::new() });
        let last = aside.last()?;
        asides.insert(*id, (name.as_str(), aside, last));
    }
    if asides.is_empty() {
        return Ok(());
    }
    for record in log.changes(log.start().lsn)? {
        let (_, payload) = record?;
        let plain = unpack(&payload)?;
        let entry = Entry::decode(&plain)?;
        if let Some((_, aside, last)) = asides.get_mut(&entry.member)
            && entry.number > *last
        {
            *last = entry.number;
            aside.entries.push(payload);
        }
    }
    asides.values().filter(|(_, aside, _)| !aside.entries.is_empty()).try_for_each(|(name, aside, _)| {
        tracing::warn!(member = name, entries = aside.entries.len(), "entries are moved aside");
        write(directory, name, aside)
    })
}

fn write(directory: &dyn Directory, member_name: &str, aside: &AsideEntries) -> Result<()> {
    let (name, bytes) = (name(member_name), aside.encode());
    let new = format!("{name}.new");
    match directory.remove(&new) {
        Ok(()) | Err(DeviceError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let mut buffer = AlignedBuffer::zeroed(bytes.len().next_multiple_of(MAX_BLOCK_SIZE));
    buffer[..bytes.len()].copy_from_slice(&bytes);
    directory.create(&new, buffer.len() as u64)?.write_durable(0, &buffer)?;
    directory.rename(&new, &name)?;
    Ok(directory.sync()?)
}
