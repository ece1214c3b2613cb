//! The ordered change stream: what a log holds, record by record in LSN order, for readers beside the engine that
//! writes it.

use std::iter::FusedIterator;

use ishigaki_base::{Lsn, Position};
use ishigaki_device::Directory;

use crate::control::{self, ControlBlock};
use crate::format::{CONTROL, Control, Kind};
use crate::recovery::{Merge, StreamReader, open_readers};
use crate::{Error, Result, Start};

/// How often a log that changes its segments meanwhile is looked at.
const LOOKS: usize = 4;

/// The records of a log from some LSN on, in LSN order, each with its position and payload.
///
/// Of a log that is not in use it gives exactly what recovery would give, and ends with an error if recovery would
/// refuse the log: then what it gave before may be missing from the restored one. Of a log that is in use,
/// [`Log::changes`](crate::Log::changes) gives what is durable. Nothing is written. After an error or the end there is
/// nothing more.
///
/// LSNs are used once only, with one exception: what one recovery dropped is void, and its LSNs may be drawn again.
/// Neither this nor anybody else ever shows a record that is void, or that a later recovery could drop.
///
/// The log is read from where it was trimmed to, also when the first LSN lies far behind: which records are void is not known before
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
    directory: &'a dyn Directory,
    look: Look<'a>,
    /// What is given next has at least this LSN.
    from: Lsn,
    in_use: Option<InUse<'a>>,
    over: bool,
}

/// A log that others use meanwhile.
#[derive(Debug)]
struct InUse<'a> {
    control: &'a ControlBlock,
    /// Nothing behind this is given. Everything up to it is durable.
    up_to: Lsn,
    /// How often the log may still seem damaged because its segments are taken away at this moment.
    looks: usize,
}

/// The log as it is read from some start on.
#[derive(Debug)]
struct Look<'a> {
    control: Control,
    readers: Vec<StreamReader<'a>>,
    /// `None` when there is nothing more.
    merge: Option<Merge>,
}

impl<'a> Look<'a> {
    fn new(directory: &'a dyn Directory, control: Control) -> Result<Self> {
        let readers = open_readers(directory, &control, control.start)?;
        Ok(Self { merge: Some(Merge::new(control.start)), control, readers })
    }

    /// The next LSN whose fate is not known, as far as everything before was seen.
    fn next(&self) -> Lsn {
        self.merge.as_ref().map_or(Lsn::MAX, |merge| merge.cut().next())
    }

    /// The next record from `from` on.
    fn advance(&mut self, from: Lsn, up_to: Option<Lsn>) -> Result<Option<(Position, Vec<u8>)>> {
        while let Some(merge) = &mut self.merge
            && up_to.is_none_or(|up_to| merge.cut() < up_to)
            && let Some(survivor) = merge.next(&mut self.readers)?
        {
            let lsn = survivor.position.lsn();
            if up_to.is_some_and(|up_to| lsn > up_to) {
                break;
            }
            if lsn >= from && survivor.kind() == Kind::Payload {
                return Ok(Some((survivor.position, survivor.payload(&self.readers).to_vec())));
            }
        }
        match self.merge.take() {
            Some(merge) if up_to.is_none() => merge.finish(&self.readers, &self.control).map(|_| None),
            _ => Ok(None),
        }
    }
}

impl<'a> Changes<'a> {
    /// The records of the log in that directory from that LSN on. Nobody writes to the log meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Trimmed`] when the log begins behind that LSN.
    pub fn of(directory: &'a dyn Directory, from: Lsn) -> Result<Self> {
        let control = control::read(directory.open(CONTROL)?.as_ref())?;
        check(from, control.start)?;
        Ok(Self { directory, look: Look::new(directory, control)?, from, in_use: None, over: false })
    }

    /// Those up to `up_to`, which are durable.
    pub(crate) fn of_log_in_use(
        directory: &'a dyn Directory,
        control: &'a ControlBlock,
        from: Lsn,
        up_to: Lsn,
    ) -> Result<Self> {
        let mut looks = LOOKS;
        loop {
            let contents = control.contents();
            check(from, contents.start)?;
            looks -= 1;
            match Look::new(directory, contents) {
                Err(_) if looks > 0 => {}
                look => {
                    let in_use = Some(InUse { control, up_to, looks });
                    return Ok(Self { directory, look: look?, from, in_use, over: false });
                }
            }
        }
    }

    fn advance(&mut self) -> Result<Option<(Position, Vec<u8>)>> {
        loop {
            let next = self.look.next();
            let found = self.look.advance(self.from, self.in_use.as_ref().map(|log| log.up_to));
            if let Some(log) = &mut self.in_use {
                // A trim notes its point before it frees anything: what was read before then is what was written.
                let contents = log.control.contents();
                let is_behind = next < contents.start.lsn;
                if is_behind || found.is_err() && log.looks > 0 {
                    check(self.from, contents.start)?;
                    log.looks -= usize::from(!is_behind);
                    self.look = Look::new(self.directory, contents)?;
                    continue;
                }
            }
            let found = found?;
            if let Some((position, _)) = &found {
                self.from = position.lsn().next();
            }
            return Ok(found);
        }
    }
}

/// Whether the log has the records from `from` on.
fn check(from: Lsn, start: Start) -> Result<()> {
    let asked = from.max(Lsn::FIRST);
    if asked < start.lsn { Err(Error::Trimmed { asked, first: start.lsn }) } else { Ok(()) }
}

impl Iterator for Changes<'_> {
    type Item = Result<(Position, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let found = self.advance().transpose();
        self.over = !matches!(found, Some(Ok(_)));
        found
    }
}

impl FusedIterator for Changes<'_> {}
