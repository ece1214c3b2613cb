//! The roster on the medium: replaced as a whole, by one rename.

use ishigaki_device::{AlignedBuffer, Directory, Error as DeviceError, MAX_BLOCK_SIZE};

use crate::Result;
use crate::format::{Roster, sealed_length};

pub(crate) const NAME: &str = "pool-roster";
const NEW: &str = "pool-roster.new";

/// What it is called in messages.
const WHAT: &str = "the roster of the pool";

/// Reads it; `None` where there is none.
pub(crate) fn read(directory: &dyn Directory) -> Result<Option<Roster>> {
    let device = match directory.open(NAME) {
        Err(DeviceError::NotFound { .. }) => return Ok(None),
        opened => opened?,
    };
    let mut buffer = AlignedBuffer::zeroed(device.len() as usize);
    device.read_at(0, &mut buffer)?;
    let length = sealed_length(&buffer).min(buffer.len() as u64);
    Roster::decode(&buffer[..length as usize]).map(Some).map_err(|unfit| unfit.error(WHAT))
}

/// Makes it the current one, durably.
pub(crate) fn write(directory: &dyn Directory, roster: &Roster) -> Result<()> {
    match directory.remove(NEW) {
        Ok(()) | Err(DeviceError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let bytes = roster.encode();
    let mut buffer = AlignedBuffer::zeroed(bytes.len().next_multiple_of(MAX_BLOCK_SIZE));
    buffer[..bytes.len()].copy_from_slice(&bytes);
    directory.create(NEW, buffer.len() as u64)?.write_durable(0, &buffer)?;
    directory.rename(NEW, NAME)?;
    directory.sync()?;
    Ok(())
}
