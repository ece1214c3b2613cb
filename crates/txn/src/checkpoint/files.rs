//! The files of checkpoints: their names, and how one becomes current.
//!
//! ```text
//!  parts and `checkpoint.new` are whole and durable ─▶ names synced ─▶ renamed to `checkpoint` ─▶ name synced
//! ```
//!
//! Until the rename everything that is there belongs to nobody and may be removed. Once it has been tried, either manifest
//! may be the one that a power cut leaves, and the parts of both stay until the last sync has succeeded.
//!
//! The manifest that is replaced is written once more before that, as `checkpoint.previous`: its parts, and the log from where
//! it begins, are kept beside the new ones. It counts for nothing as long as the current checkpoint is whole.

use ishigaki_device::{AlignedBuffer, Device, Directory, MAX_BLOCK_SIZE};

use super::manifest::{self, LARGEST, Manifest};
use crate::{Error, Result};

/// The current manifest.
pub(crate) const MANIFEST: &str = "checkpoint";

/// The manifest of the checkpoint before the current one.
pub(super) const PREVIOUS: &str = "checkpoint.previous";

/// A manifest that is not current yet.
const UNBORN: &str = "checkpoint.new";

/// A manifest that is about to be kept beside the current one.
const UNKEPT: &str = "checkpoint.previous.new";

/// A longer manifest than any: of four million parts.
pub(super) const LONGEST: u64 = 64 << 20;

/// Bytes of one write.
pub(super) const WRITE: usize = 1 << 20;

/// The name of a part.
pub(crate) fn part_name(number: u64, part: usize) -> String {
    format!("checkpoint-{number:08}-{part:06}")
}

/// The number of the checkpoint that a file of that name is a part of.
pub(crate) fn parse_part_name(name: &str) -> Option<u64> {
    let (number, part) = name.strip_prefix("checkpoint-")?.split_once('-')?;
    let (number, part) = (number.parse().ok()?, part.parse().ok()?);
    (number <= LARGEST && part_name(number, part) == name).then_some(number)
}

/// The current manifest, if there is one.
pub(crate) fn current(directory: &dyn Directory) -> Result<Option<Manifest>> {
    read(directory, MANIFEST)
}

/// The manifest of the checkpoint before, if it is kept and can be read.
pub(crate) fn previous(directory: &dyn Directory) -> Option<Manifest> {
    read(directory, PREVIOUS).ok().flatten()
}

fn read(directory: &dyn Directory, name: &str) -> Result<Option<Manifest>> {
    if !directory.list()?.iter().any(|known| known == name) {
        return Ok(None);
    }
    let device = directory.open(name)?;
    if device.len() > LONGEST {
        return Err(Error::damaged(format!("its manifest has {} bytes", device.len())));
    }
    let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
    device.read_at(0, &mut bytes)?;
    manifest::decode(&bytes).map(Some).map_err(Error::damaged)
}

/// How far a manifest got on its way to be current, if not all the way.
#[derive(Debug)]
pub(crate) enum Unpublished {
    /// It is not: what is there belongs to nobody.
    Not(Error),
    /// It may be, and the one before it may be.
    Unknown(Error),
}

impl Unpublished {
    /// Why it is not.
    pub(crate) fn error(self) -> Error {
        match self {
            Self::Not(error) | Self::Unknown(error) => error,
        }
    }
}

/// Makes a checkpoint current whose parts are whole and durable, if not their names. `last_look` may stop it.
pub(crate) fn publish(
    directory: &dyn Directory,
    manifest: &Manifest,
    last_look: impl FnOnce() -> Result<()>,
) -> Result<(), Unpublished> {
    prepare(directory, manifest).and_then(|()| last_look()).map_err(Unpublished::Not)?;
    let renamed = directory.rename(UNBORN, MANIFEST).and_then(|()| directory.sync());
    renamed.map_err(|error| Unpublished::Unknown(error.into()))
}

/// Writes down the manifest of a checkpoint that is about to be replaced, to be kept beside the next one. Its name is durable
/// with the next sync of the directory.
pub(super) fn keep(directory: &dyn Directory, manifest: &Manifest) -> Result<()> {
    write(directory, UNKEPT, manifest)?;
    Ok(directory.rename(UNKEPT, PREVIOUS)?)
}

fn prepare(directory: &dyn Directory, manifest: &Manifest) -> Result<()> {
    write(directory, UNBORN, manifest)?;
    // The names of the parts, too.
    Ok(directory.sync()?)
}

fn write(directory: &dyn Directory, name: &str, manifest: &Manifest) -> Result<()> {
    if directory.list()?.iter().any(|known| known == name) {
        directory.remove(name)?;
    }
    let bytes = manifest.encode();
    let device = directory.create(name, bytes.len() as u64)?;
    let mut buffer = AlignedBuffer::zeroed(bytes.len().next_multiple_of(MAX_BLOCK_SIZE));
    buffer[..bytes.len()].copy_from_slice(&bytes);
    write_blocks(device.as_ref(), &buffer, bytes.len(), |_| Ok(()))
}

/// Writes the first `length` bytes of the buffer, rounded up to whole blocks, and makes them durable.
pub(super) fn write_blocks(
    device: &dyn Device,
    buffer: &[u8],
    length: usize,
    mut pass: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let length = length.next_multiple_of(device.promise().block_size);
    for (place, bytes) in buffer[..length].chunks(WRITE).enumerate() {
        pass(bytes.len())?;
        device.write_at((place * WRITE) as u64, bytes)?;
    }
    Ok(device.sync()?)
}

/// Removes what checkpoints have left that are neither current nor kept. Says the largest number used so far.
///
/// Called at opening, before the log is trimmed to where these checkpoints begin. The sync that made the manifest current
/// may not have succeeded, and then no later one helps; so it is made current once more before what it replaces goes.
pub(crate) fn clean_up(
    directory: &dyn Directory,
    current: Option<&Manifest>,
    previous: Option<&Manifest>,
) -> Result<u64> {
    let names = directory.list()?;
    let number = current.map_or(0, |manifest| manifest.number);
    let parts = || names.iter().filter_map(|name| parse_part_name(name));
    if let Some(manifest) = current {
        publish(directory, manifest, || Ok(())).map_err(Unpublished::error)?;
    }
    remove_others(directory, number, previous.map(|manifest| manifest.number));
    Ok(parts().max().unwrap_or(0).max(number))
}

/// Removes every part that is of neither checkpoint, the manifest of the one before if that is not kept, and manifests that
/// are not current. What can not be removed is left for the next time.
pub(super) fn remove_others(directory: &dyn Directory, current: u64, previous: Option<u64>) {
    remove(directory, |name| {
        let is_other = |of| of != current && Some(of) != previous;
        let is_unborn = name == UNBORN || name == UNKEPT;
        is_unborn || name == PREVIOUS && previous.is_none() || parse_part_name(name).is_some_and(is_other)
    });
}

/// Removes the parts of checkpoint `number`, which never became current.
pub(super) fn discard(directory: &dyn Directory, number: u64) {
    remove(directory, |name| name == UNBORN || name == UNKEPT || parse_part_name(name) == Some(number));
}

/// Removes the checkpoint before the current one, which has that number.
pub(crate) fn remove_previous(directory: &dyn Directory, number: u64) {
    remove(directory, |name| name == PREVIOUS || parse_part_name(name) == Some(number));
}

fn remove(directory: &dyn Directory, which: impl Fn(&str) -> bool) {
    let removed = directory
        .list()
        .and_then(|names| names.iter().filter(|name| which(name)).try_for_each(|name| directory.remove(name)));
    if let Err(error) = removed {
        tracing::warn!(%error, "files of a checkpoint that is not current could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_parts_are_taken_for_such() {
        assert_eq!(parse_part_name(&part_name(7, 3)), Some(7));
        assert_eq!(parse_part_name(&part_name(123_456_789, 1_234_567)), Some(123_456_789));
        for name in ["checkpoint", "checkpoint.new", "checkpoint-7-3", "checkpoint-00000007-000003.old", "wal-control"]
        {
            assert_eq!(parse_part_name(name), None, "{name}");
        }
        assert_eq!(parse_part_name(&part_name(LARGEST, 0)), Some(LARGEST));
        assert_eq!(parse_part_name(&part_name(LARGEST + 1, 0)), None, "nobody could count on from there");
    }
}
