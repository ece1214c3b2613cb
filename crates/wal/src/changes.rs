//! The ordered change stream: what a log holds, record by record in LSN order, for readers beside the engine that writes it.

use std::iter::FusedIterator;

use ishigaki_base::{Lsn, Position};
use ishigaki_device::Directory;

use crate::Result;
use crate::format::{CONTROL, Control, Kind};
use crate::log::read_control;
use crate::recovery::{Merge, StreamReader, open_readers};

/// The records of a log from some LSN on, in LSN order, each with its position and payload.
///
/// Of a log that is not in use it gives exactly what recovery would give, and ends with an error if recovery would refuse the
/// log: then what it gave before may be missing from the restored one. Of a log that is in use, [`Log::changes`](crate::Log::changes)
/// gives what is durable. Nothing is written. After an error or the end there is nothing more.
///
/// LSNs are used once only, with one exception: what one recovery dropped is void, and its LSNs may be drawn again. Neither
/// this nor anybody else ever shows a record that is void, or that a later recovery could drop.
///
/// The log is read from its beginning, also when the first LSN lies far behind: which records are void is not known before
/// their generation has been read. Memory: one window of 1 MiB per stream, and the longest record.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use ishigaki_device::MemoryDirectory;
/// use ishigaki_wal::{Changes, Log, Settings};
///
/// let directory = Arc::new(MemoryDirectory::new());
/// let (log, _) = Log::open(directory.clone(), Settings::default(), &mut |_, _| Ok(()))?;
/// let first = log.assign().append(b"to be")?;
/// let second = log.assign().append(b"or not to be")?;
/// log.flush()?;
/// assert_eq!(log.changes(first)?.count(), 2);
/// log.close()?;
///
/// let last = Changes::of(directory.as_ref(), second)?.last().ok_or("there is a second record")??;
/// assert_eq!((last.0.lsn(), last.1), (second, b"or not to be".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Changes<'a> {
    control: Control,
    readers: Vec<StreamReader<'a>>,
    /// `None` when there is nothing more.
    merge: Option<Merge>,
    from: Lsn,
    /// Nothing behind this is given; `None` where everything that is found counts.
    up_to: Option<Lsn>,
}

impl<'a> Changes<'a> {
    /// The records of the log in that directory from that LSN on. Nobody writes to the log meanwhile.
    pub fn of(directory: &'a dyn Directory, from: Lsn) -> Result<Self> {
        Self::up_to(directory, from, None)
    }

    /// Everything up to `up_to` is durable.
    pub(crate) fn up_to(directory: &'a dyn Directory, from: Lsn, up_to: Option<Lsn>) -> Result<Self> {
        let control = read_control(directory.open(CONTROL)?.as_ref())?;
        let readers = open_readers(directory, &control)?;
        Ok(Self { control, readers, merge: Some(Merge::new()), from, up_to })
    }

    fn advance(&mut self) -> Result<Option<(Position, Vec<u8>)>> {
        while let Some(merge) = &mut self.merge
            && self.up_to != Some(merge.cut())
            && let Some(survivor) = merge.next(&mut self.readers)?
        {
            let lsn = survivor.position.lsn();
            if self.up_to.is_some_and(|up_to| lsn > up_to) {
                break;
            }
            if lsn >= self.from && survivor.kind() == Kind::Payload {
                return Ok(Some((survivor.position, survivor.payload(&self.readers).to_vec())));
            }
        }
        match self.merge.take() {
            Some(merge) if self.up_to.is_none() => merge.finish(&self.readers, &self.control).map(|_| None),
            _ => Ok(None),
        }
    }
}

impl Iterator for Changes<'_> {
    type Item = Result<(Position, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().inspect_err(|_| self.merge = None).transpose()
    }
}

impl FusedIterator for Changes<'_> {}
